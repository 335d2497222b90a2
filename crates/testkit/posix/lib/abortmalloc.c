/*
 * A malloc that aborts when it is entered from a lock path. The program marks its lock calls by the thread-local
 * `in_lock_path`; malloc is a bump allocator that takes no lock and calls nothing.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARENA = 64 << 20, ALIGN = 16 };

__thread int in_lock_path __attribute__((tls_model("initial-exec")));

static char arena[ARENA] __attribute__((aligned(ALIGN)));
static size_t used;

static void refuse_in_lock_path(const char *what) {
    if (in_lock_path == 0)
        return;
    static const char text[] = " called from a lock path\n";
    if (write(2, what, strlen(what)) < 0 || write(2, text, sizeof text - 1) < 0)
        _exit(96);
    abort();
}

/* The block's size stands in the 16 bytes before it. */
static void *take(size_t size, size_t align) {
    size_t room = (size + 2 * align + ALIGN + ALIGN - 1) / ALIGN * ALIGN;
    size_t at = __atomic_fetch_add(&used, room, __ATOMIC_RELAXED);
    if (size > ARENA || at + room > ARENA) {
        errno = ENOMEM;
        return NULL;
    }
    uintptr_t block = ((uintptr_t)arena + at + ALIGN + align - 1) / align * align;
    *(size_t *)(block - ALIGN) = size;
    return (void *)block;
}

void *malloc(size_t size) {
    refuse_in_lock_path("malloc");
    return take(size, ALIGN);
}

void free(void *block) {
    (void)block;
    refuse_in_lock_path("free");
}

/* The arena is never reused, so its memory is still zero. */
void *calloc(size_t count, size_t size) {
    refuse_in_lock_path("calloc");
    if (size != 0 && count > ARENA / size) {
        errno = ENOMEM;
        return NULL;
    }
    return take(count * size, ALIGN);
}

void *realloc(void *old, size_t size) {
    refuse_in_lock_path("realloc");
    void *block = take(size, ALIGN);
    if (old != NULL && block != NULL) {
        size_t before = *(size_t *)((uintptr_t)old - ALIGN);
        memcpy(block, old, before < size ? before : size);
    }
    return block;
}

void *aligned_alloc(size_t align, size_t size) {
    refuse_in_lock_path("aligned_alloc");
    return take(size, align < ALIGN ? ALIGN : align);
}

void *memalign(size_t align, size_t size) {
    return aligned_alloc(align, size);
}

int posix_memalign(void **block, size_t align, size_t size) {
    refuse_in_lock_path("posix_memalign");
    *block = take(size, align < ALIGN ? ALIGN : align);
    return *block != NULL ? 0 : ENOMEM;
}
