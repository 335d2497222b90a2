/* Conditions as glibc 2.41 lays them out, for machines with an earlier one: `__wrefs` is at byte 28, where its count of waiters
 * and its flags are, and bytes 32 to 39 hold signals. How they work is not glibc's, but simple: a futex that counts signals. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct cond {
    unsigned signals, unused[3], g_size[2], g1_orig_size, wrefs, g_signals[2], initialised[2];
};

_Static_assert(sizeof(struct cond) == sizeof(pthread_cond_t), "glibc's size");

enum { SHARED = 1, MONOTONIC = 2, ONE_WAITER = 8, MOST_SIGNALS = 1 << 20 };

static int real(const char *name, pthread_mutex_t *mutex) {
    int (*function)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, name);
    return function(mutex);
}

static struct cond *checked(pthread_cond_t *cond) {
    struct cond *it = (struct cond *)cond;
    if (it->g_signals[0] || it->g_signals[1] > MOST_SIGNALS || it->initialised[0] || it->initialised[1]) {
        fputs("somebody else has written to a condition of glibc's\n", stderr);
        abort();
    }
    return it;
}

int pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes) {
    memset(cond, 0, sizeof *cond);
    if (attributes)
        ((struct cond *)cond)->wrefs = *(const unsigned *)attributes & (SHARED | MONOTONIC);
    return 0;
}

int pthread_cond_destroy(pthread_cond_t *cond) { return checked(cond)->wrefs / ONE_WAITER ? EBUSY : 0; }

static int wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *time) {
    struct cond *it = checked(cond);
    unsigned before = __atomic_load_n(&it->signals, __ATOMIC_SEQ_CST);
    int clock = it->wrefs & MONOTONIC ? 0 : FUTEX_CLOCK_REALTIME;
    __atomic_fetch_add(&it->wrefs, ONE_WAITER, __ATOMIC_SEQ_CST);
    int result = real("pthread_mutex_unlock", mutex);
    if (result == 0
        && syscall(SYS_futex, &it->signals, FUTEX_WAIT_BITSET | clock, before, time, NULL, FUTEX_BITSET_MATCH_ANY) != 0
        && errno == ETIMEDOUT)
        result = ETIMEDOUT;
    __atomic_fetch_sub(&it->wrefs, ONE_WAITER, __ATOMIC_SEQ_CST);
    real("pthread_mutex_lock", mutex);
    return result;
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) { return wait_until(cond, mutex, NULL); }

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *time) {
    return wait_until(cond, mutex, time);
}

int pthread_cond_broadcast(pthread_cond_t *cond) {
    struct cond *it = checked(cond);
    __atomic_fetch_add(&it->g_signals[1], 2, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&it->signals, 1, __ATOMIC_SEQ_CST);
    return syscall(SYS_futex, &it->signals, FUTEX_WAKE, 1 << 30, NULL, NULL, 0) < 0 ? errno : 0;
}

int pthread_cond_signal(pthread_cond_t *cond) { return pthread_cond_broadcast(cond); }
