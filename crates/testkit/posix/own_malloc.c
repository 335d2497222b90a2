/* A program whose malloc takes pthread mutexes: they are used by the loader, before constructors, everywhere. */
#include "suite.h"

#include <malloc.h>

enum { ARENA = 128 << 20, CLASSES = 24, ALIGN = 16 };

struct block {
    struct block *next;
    size_t size_class;
};

static char arena[ARENA] __attribute__((aligned(ALIGN)));
static size_t used;
static struct block *free_list[CLASSES];
static pthread_mutex_t heap = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t statistics = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static long calls, frees;

static void count(long *what) {
    if (pthread_mutex_lock(&statistics) != 0 || pthread_mutex_lock(&statistics) != 0)
        _exit(95);
    ++*what;
    if (pthread_mutex_unlock(&statistics) != 0 || pthread_mutex_unlock(&statistics) != 0)
        _exit(95);
}

/* Class k holds blocks of 2^(k+5) bytes with their header. */
static size_t class_of(size_t size) {
    size_t k = 0;
    while (((size_t)32 << k) < size + sizeof(struct block))
        k++;
    return k;
}

void *malloc(size_t size) {
    if (size > ARENA / 2)
        return NULL;
    size_t k = class_of(size);
    if (pthread_mutex_lock(&heap) != 0)
        _exit(95);
    struct block *block = free_list[k];
    if (block != NULL)
        free_list[k] = block->next;
    else if (used + ((size_t)32 << k) <= ARENA) {
        block = (struct block *)(arena + used);
        used += (size_t)32 << k;
    }
    if (pthread_mutex_unlock(&heap) != 0)
        _exit(95);
    count(&calls);
    if (block == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    block->size_class = k;
    return block + 1;
}

void free(void *address) {
    if (address == NULL)
        return;
    struct block *block = (struct block *)address - 1;
    if (pthread_mutex_lock(&heap) != 0)
        _exit(95);
    block->next = free_list[block->size_class];
    free_list[block->size_class] = block;
    if (pthread_mutex_unlock(&heap) != 0)
        _exit(95);
    count(&frees);
}

void *calloc(size_t number, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(number, size, &bytes))
        return NULL;
    void *address = malloc(bytes);
    return address == NULL ? NULL : memset(address, 0, bytes);
}

void *realloc(void *old, size_t size) {
    void *address = malloc(size);
    if (old != NULL && address != NULL) {
        size_t before = ((size_t)32 << ((struct block *)old - 1)->size_class) - sizeof(struct block);
        memcpy(address, old, before < size ? before : size);
        free(old);
    }
    return address;
}

/* Enough for the suite, whose alignments are those of malloc; the loader asks for more for TLS blocks. */
void *memalign(size_t align, size_t size) {
    if (align <= ALIGN)
        return malloc(size);
    if (pthread_mutex_lock(&heap) != 0)
        _exit(95);
    size_t at = (used + sizeof(struct block) + align - 1) / align * align;
    void *address = at + size <= ARENA ? arena + at : NULL;
    if (address != NULL) {
        used = (at + size + ALIGN - 1) / ALIGN * ALIGN;
        ((struct block *)address - 1)->size_class = CLASSES - 1; /* freed into a class nobody takes from */
    }
    if (pthread_mutex_unlock(&heap) != 0)
        _exit(95);
    count(&calls);
    return address;
}

void *aligned_alloc(size_t align, size_t size) {
    return memalign(align, size);
}

int posix_memalign(void **address, size_t align, size_t size) {
    *address = memalign(align, size);
    return *address != NULL ? 0 : ENOMEM;
}

/* As allocators do around fork. */
static void before_fork(void) {
    must(pthread_mutex_lock(&heap) == 0 && pthread_mutex_lock(&statistics) == 0);
}

static void in_parent(void) {
    must(pthread_mutex_unlock(&statistics) == 0 && pthread_mutex_unlock(&heap) == 0);
}

static void in_child(void) {
    pthread_mutexattr_t attr;
    must(pthread_mutexattr_init(&attr) == 0 && pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE) == 0);
    must(pthread_mutex_init(&statistics, &attr) == 0 && pthread_mutex_init(&heap, NULL) == 0);
}

__attribute__((constructor)) static void register_handlers(void) {
    must(pthread_atfork(before_fork, in_parent, in_child) == 0);
}

static void *churn(void *arg) {
    int rounds = *(int *)arg;
    void *kept[32] = {0};
    for (int i = 0; i < rounds; i++) {
        int slot = i % 32;
        unsigned char *old = kept[slot];
        must(old == NULL || (old[0] == (unsigned char)slot && old[9] == (unsigned char)slot));
        free(old);
        kept[slot] = malloc(10 + (size_t)(i % 7) * 100);
        must(kept[slot] != NULL);
        memset(kept[slot], slot, 10);
    }
    for (int i = 0; i < 32; i++)
        free(kept[i]);
    return NULL;
}

CASE(malloc_with_mutexes, 10) {
    long before = calls;
    void *volatile block = malloc(100);
    free(block);
    yes("our malloc is in use", calls > before && frees > 0);
}

CASE(malloc_contended, 60) {
    pthread_t thread[4];
    int rounds = iterations(10000), count = threads(4);
    for (int i = 0; i < count; i++)
        thread[i] = start(churn, &rounds);
    for (int i = 0; i < count; i++)
        join(thread[i]);
    yes("no block given twice", true);
}

CASE(malloc_and_fork, 60) {
    pthread_t thread[2];
    int rounds = iterations(20000), good = 0, few = 100, forks = iterations(20);
    for (int i = 0; i < 2; i++)
        thread[i] = start(churn, &rounds);
    for (int i = 0; i < forks; i++) {
        pid_t child = fork_child();
        if (child == 0) {
            pthread_t a = start(churn, &few), b = start(churn, &few);
            join(a);
            join(b);
            child_end();
        }
        good += child_ok(child);
    }
    for (int i = 0; i < 2; i++)
        join(thread[i]);
    yes("every child ended", good == forks);
}
