/* Binaries linked long ago ask for old versions of the symbols; they must reach the same locks as new ones. */
#include "suite.h"

#define OLD(name, version, type)                                                                             \
    extern type old_##name;                                                                                  \
    __asm__(".symver old_" #name ", " #name "@" version)

typedef int on_mutex(pthread_mutex_t *);
typedef int on_rwlock(pthread_rwlock_t *);
typedef int on_cond(pthread_cond_t *);

OLD(pthread_mutex_trylock, "GLIBC_2.2.5", on_mutex);
OLD(pthread_rwlock_rdlock, "GLIBC_2.2.5", on_rwlock);
OLD(pthread_rwlock_wrlock, "GLIBC_2.2.5", on_rwlock);
OLD(pthread_rwlock_unlock, "GLIBC_2.2.5", on_rwlock);
OLD(pthread_rwlock_tryrdlock, "GLIBC_2.2.5", on_rwlock);
OLD(pthread_rwlock_trywrlock, "GLIBC_2.2.5", on_rwlock);
OLD(pthread_mutex_lock, "GLIBC_2.2.5", on_mutex);
OLD(pthread_mutex_unlock, "GLIBC_2.2.5", on_mutex);
OLD(pthread_cond_signal, "GLIBC_2.3.2", on_cond);
OLD(pthread_cond_broadcast, "GLIBC_2.3.2", on_cond);

typedef int timed_mutex(pthread_mutex_t *, const struct timespec *);
typedef int timed_rwlock(pthread_rwlock_t *, const struct timespec *);
typedef int wait_cond(pthread_cond_t *, pthread_mutex_t *);
typedef int on_spin(pthread_spinlock_t *);

OLD(pthread_mutex_timedlock, "GLIBC_2.2.5", timed_mutex);
OLD(pthread_rwlock_timedrdlock, "GLIBC_2.2.5", timed_rwlock);
OLD(pthread_rwlock_timedwrlock, "GLIBC_2.2.5", timed_rwlock);
OLD(pthread_cond_wait, "GLIBC_2.3.2", wait_cond);
OLD(pthread_spin_lock, "GLIBC_2.2.5", on_spin);
OLD(pthread_spin_trylock, "GLIBC_2.2.5", on_spin);
OLD(pthread_spin_unlock, "GLIBC_2.2.5", on_spin);
OLD(__pthread_mutex_lock, "GLIBC_2.2.5", on_mutex);
OLD(__pthread_mutex_trylock, "GLIBC_2.2.5", on_mutex);
OLD(__pthread_mutex_unlock, "GLIBC_2.2.5", on_mutex);
OLD(__pthread_rwlock_rdlock, "GLIBC_2.2.5", on_rwlock);
OLD(__pthread_rwlock_tryrdlock, "GLIBC_2.2.5", on_rwlock);
OLD(__pthread_rwlock_trywrlock, "GLIBC_2.2.5", on_rwlock);
OLD(__pthread_rwlock_unlock, "GLIBC_2.2.5", on_rwlock);
OLD(__pthread_rwlock_wrlock, "GLIBC_2.2.5", on_rwlock);

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;

CASE(old_mutex, 10) {
    struct timespec past = {1, 0};
    result("new lock", pthread_mutex_lock(&m), 0);
    result("old trylock", old_pthread_mutex_trylock(&m), EBUSY);
    result("alias trylock", old___pthread_mutex_trylock(&m), EBUSY);
    result("old timedlock", old_pthread_mutex_timedlock(&m, &past), ETIMEDOUT);
    result("old unlock", old_pthread_mutex_unlock(&m), 0);
    result("old lock", old_pthread_mutex_lock(&m), 0);
    result("new trylock", pthread_mutex_trylock(&m), EBUSY);
    result("alias unlock", old___pthread_mutex_unlock(&m), 0);
    result("alias lock", old___pthread_mutex_lock(&m), 0);
    result("new trylock", pthread_mutex_trylock(&m), EBUSY);
    result("new unlock", pthread_mutex_unlock(&m), 0);
    result("old trylock", old_pthread_mutex_trylock(&m), 0);
    result("new trylock", pthread_mutex_trylock(&m), EBUSY);
    result("new unlock", pthread_mutex_unlock(&m), 0);
}

CASE(old_rwlock, 10) {
    struct timespec past = {1, 0};
    result("new wrlock", pthread_rwlock_wrlock(&rw), 0);
    result("old tryrdlock", old_pthread_rwlock_tryrdlock(&rw), EBUSY);
    result("old trywrlock", old_pthread_rwlock_trywrlock(&rw), EBUSY);
    result("alias tryrdlock", old___pthread_rwlock_tryrdlock(&rw), EBUSY);
    result("alias trywrlock", old___pthread_rwlock_trywrlock(&rw), EBUSY);
    result("old rdlock", old_pthread_rwlock_rdlock(&rw), EDEADLK);
    result("old wrlock", old_pthread_rwlock_wrlock(&rw), EDEADLK);
    result("old timedrdlock", old_pthread_rwlock_timedrdlock(&rw, &past), EDEADLK);
    result("old unlock", old_pthread_rwlock_unlock(&rw), 0);
    result("old rdlock", old_pthread_rwlock_rdlock(&rw), 0);
    result("alias rdlock", old___pthread_rwlock_rdlock(&rw), 0);
    result("new trywrlock", pthread_rwlock_trywrlock(&rw), EBUSY);
    result("old timedwrlock", old_pthread_rwlock_timedwrlock(&rw, &past), ETIMEDOUT);
    result("alias unlock", old___pthread_rwlock_unlock(&rw), 0);
    result("new unlock", pthread_rwlock_unlock(&rw), 0);
    result("old wrlock", old_pthread_rwlock_wrlock(&rw), 0);
    result("new tryrdlock", pthread_rwlock_tryrdlock(&rw), EBUSY);
    result("alias unlock", old___pthread_rwlock_unlock(&rw), 0);
    result("alias wrlock", old___pthread_rwlock_wrlock(&rw), 0);
    result("new unlock", pthread_rwlock_unlock(&rw), 0);
}

CASE(old_spin, 10) {
    pthread_spinlock_t spin;
    must(pthread_spin_init(&spin, 0) == 0);
    result("new lock", pthread_spin_lock(&spin), 0);
    result("old trylock", old_pthread_spin_trylock(&spin), EBUSY);
    result("old unlock", old_pthread_spin_unlock(&spin), 0);
    result("old lock", old_pthread_spin_lock(&spin), 0);
    result("new trylock", pthread_spin_trylock(&spin), EBUSY);
    result("new unlock", pthread_spin_unlock(&spin), 0);
}

static int waiting, go, woken;

static void *wait_old(void *arg) {
    must(pthread_mutex_lock(&m) == 0);
    waiting++;
    while (!go)
        must((arg ? old_pthread_cond_wait : pthread_cond_wait)(&c, &m) == 0);
    go--;
    woken++;
    must(pthread_mutex_unlock(&m) == 0);
    return NULL;
}

CASE(old_cond, 20) {
    for (int way = 0; way < 4; way++) {
        waiting = go = woken = 0;
        pthread_t a = start(wait_old, &m), b = start(wait_old, NULL);
        for (int seen = 0; seen < 2; usleep(100)) {
            must(pthread_mutex_lock(&m) == 0);
            seen = waiting;
            must(pthread_mutex_unlock(&m) == 0);
        }
        must(old_pthread_mutex_lock(&m) == 0);
        go = 2;
        if (way == 0)
            result("old broadcast", old_pthread_cond_broadcast(&c), 0);
        else if (way == 1)
            result("new broadcast", pthread_cond_broadcast(&c), 0);
        else
            for (int i = 0; i < 2; i++)
                result("signal", (way == 2 ? old_pthread_cond_signal : pthread_cond_signal)(&c), 0);
        must(old_pthread_mutex_unlock(&m) == 0);
        join(a);
        join(b);
        yes("both woke", woken == 2);
    }
}
