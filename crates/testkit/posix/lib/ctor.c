/* A library whose constructor and destructor lock: linked by `early`, and opened by `dl`. */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

pthread_mutex_t ctor_mutex = PTHREAD_MUTEX_INITIALIZER;
int ctor_count;

static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void use_all(void) {
    struct timespec past = {1, 0};
    int errors = pthread_mutex_lock(&ctor_mutex) + pthread_mutex_lock(&recursive) + pthread_mutex_lock(&recursive);
    errors += pthread_rwlock_rdlock(&rw) + pthread_rwlock_unlock(&rw);
    errors += pthread_rwlock_wrlock(&rw) + pthread_rwlock_unlock(&rw);
    pthread_cond_timedwait(&cond, &ctor_mutex, &past);
    errors += pthread_cond_signal(&cond) + pthread_cond_broadcast(&cond);
    errors += pthread_mutex_unlock(&recursive) + pthread_mutex_unlock(&recursive);
    ctor_count += errors == 0;
    errors += pthread_mutex_unlock(&ctor_mutex);
    if (errors != 0)
        _exit(97);
}

__attribute__((constructor(101))) static void first(void) {
    use_all();
}

__attribute__((constructor)) static void last(void) {
    use_all();
}

__attribute__((destructor)) static void at_end(void) {
    use_all();
}
