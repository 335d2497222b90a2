/* One or more locks of every sort, static and initialised. */
#include "policy.h"

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void use_of_kind(pthread_mutex_t *mutex, int type) {
    use(mutex);
    must(pthread_mutex_lock(mutex) == 0);
    if (type == PTHREAD_MUTEX_RECURSIVE) {
        must(pthread_mutex_lock(mutex) == 0 && pthread_mutex_trylock(mutex) == 0);
        must(pthread_mutex_unlock(mutex) == 0 && pthread_mutex_unlock(mutex) == 0);
        check_held(mutex);
    }
    if (type == PTHREAD_MUTEX_ERRORCHECK)
        must(pthread_mutex_lock(mutex) == EDEADLK);
    /* Checking its owner, a wait succeeds; it lets the mutex go, and takes it again. */
    struct timespec soon = in_ms(CLOCK_REALTIME, 5);
    must(pthread_cond_timedwait(&cond, mutex, &soon) == ETIMEDOUT);
    check_held(mutex);
    struct timespec past = {1, 0};
    if (type == PTHREAD_MUTEX_ERRORCHECK)
        must(pthread_mutex_timedlock(mutex, &past) == EDEADLK);
    must(pthread_mutex_unlock(mutex) == 0);
    if (type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE)
        must(pthread_mutex_unlock(mutex) == EPERM);
}

static void initialised(int type) {
    pthread_mutexattr_t attr;
    pthread_mutex_t mutex;
    must(pthread_mutexattr_init(&attr) == 0 && pthread_mutexattr_settype(&attr, type) == 0);
    must(pthread_mutex_init(&mutex, &attr) == 0);
    use_of_kind(&mutex, type);
    must(pthread_mutex_destroy(&mutex) == 0);
}

static void *try_write(void *lock) {
    return (void *)(long)pthread_rwlock_trywrlock((pthread_rwlock_t *)lock);
}

static void use_rwlock(pthread_rwlock_t *lock) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 5);
    must(pthread_rwlock_rdlock(lock) == 0 && pthread_rwlock_tryrdlock(lock) == 0);
    must(pthread_rwlock_timedrdlock(lock, &soon) == 0 && pthread_rwlock_clockrdlock(lock, CLOCK_REALTIME, &soon) == 0);
    pthread_t thread;
    void *result;
    must(pthread_create(&thread, NULL, try_write, lock) == 0 && pthread_join(thread, &result) == 0);
    must((long)result == EBUSY);
    must(pthread_rwlock_timedwrlock(lock, &soon) == ETIMEDOUT);
    must(pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &(struct timespec){1, 0}) == ETIMEDOUT);
    for (int i = 0; i < 4; i++)
        must(pthread_rwlock_unlock(lock) == 0);
    must(pthread_rwlock_wrlock(lock) == 0 && pthread_rwlock_rdlock(lock) == EDEADLK);
    must(pthread_rwlock_unlock(lock) == 0 && pthread_rwlock_trywrlock(lock) == 0);
    must(pthread_rwlock_unlock(lock) == 0 && pthread_rwlock_destroy(lock) == 0);
}

static pthread_spinlock_t spin;
static long counter;

static void *add(void *unused) {
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        must(pthread_spin_lock(&spin) == 0);
        counter++;
        must(pthread_spin_unlock(&spin) == 0);
    }
    return NULL;
}

static void use_spin(void) {
    pthread_t thread;
    must(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0);
    must(pthread_create(&thread, NULL, add, NULL) == 0);
    add(NULL);
    must(pthread_join(thread, NULL) == 0 && counter == 40000);
    must(pthread_spin_trylock(&spin) == 0 && pthread_spin_trylock(&spin) == EBUSY);
}

int main(void) {
    use_of_kind(&normal, PTHREAD_MUTEX_NORMAL);
    use_of_kind(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    use_of_kind(&recursive, PTHREAD_MUTEX_RECURSIVE);
    use_of_kind(&errorcheck, PTHREAD_MUTEX_ERRORCHECK);
    initialised(PTHREAD_MUTEX_NORMAL);
    initialised(PTHREAD_MUTEX_ADAPTIVE_NP);
    initialised(PTHREAD_MUTEX_RECURSIVE);
    initialised(PTHREAD_MUTEX_ERRORCHECK);

    pthread_rwlock_t other;
    must(pthread_rwlock_init(&other, NULL) == 0);
    use_rwlock(&rwlock);
    use_rwlock(&other);
    use_spin();
    puts("done");
}
