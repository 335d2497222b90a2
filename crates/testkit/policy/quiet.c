/* Every lock here is used under a malloc that aborts when a lock call enters it (posix/lib/abortmalloc.c). */
#include "policy.h"

extern __thread int in_lock_path;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

__attribute__((noinline)) static void in_lock_calls(void) {
    pthread_mutex_t made;
    pthread_spinlock_t spin;
    struct timespec past = {1, 0};
    must(pthread_mutex_lock(&mutex) == 0);
    must(pthread_cond_timedwait(&cond, &mutex, &past) == ETIMEDOUT);
    must(pthread_mutex_unlock(&mutex) == 0);
    must(pthread_mutex_init(&made, NULL) == 0 && pthread_mutex_lock(&made) == 0);
    must(pthread_mutex_unlock(&made) == 0);
    must(pthread_rwlock_rdlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0);
    must(pthread_spin_init(&spin, 0) == 0 && pthread_spin_lock(&spin) == 0);
}

int main(int count, char **arguments) {
    (void)arguments;
    in_lock_path = 1;
    in_lock_calls();
    /* With an argument, shows that the shim works. */
    void *volatile block = count > 1 ? malloc(10) : NULL;
    (void)block;
    in_lock_path = 0;
    puts("done");
}
