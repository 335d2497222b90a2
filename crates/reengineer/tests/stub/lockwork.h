/* A delegate that runs each section at once, and checks that it is neither held twice by a thread nor released unheld. */
#ifndef LOCKWORK_H
#define LOCKWORK_H
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct { pthread_mutex_t lock; long size_differs[3]; } lockwork_delegate_t;
typedef struct { pthread_cond_t signal; long size_differs[3]; } lockwork_delegate_cond_t;
#define LOCKWORK_DELEGATE_INITIALIZER { PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, { 0 } }
#define LOCKWORK_DELEGATE_COND_INITIALIZER { PTHREAD_COND_INITIALIZER, { 0 } }
#define lockwork_any_lock(it) _Generic((it), lockwork_delegate_t *: lockwork_delegate_acquire_or_abort, default: pthread_mutex_lock)(it)
#define lockwork_any_unlock(it) \
    _Generic((it), lockwork_delegate_t *: lockwork_delegate_release, default: pthread_mutex_unlock)(it)

#define lockwork_any_trylock(it) \
    _Generic((it), lockwork_delegate_t *: lockwork_delegate_try_acquire_or_abort, default: pthread_mutex_trylock)(it)

#define lockwork_any(it, of, delegates, posix) _Generic((it), of *: delegates, default: posix)
#define lockwork_any_init(it, with) lockwork_any(it, lockwork_delegate_t, lockwork_delegate_init, pthread_mutex_init)(it, with)
#define lockwork_any_destroy(it) \
    lockwork_any(it, lockwork_delegate_t, lockwork_delegate_destroy, pthread_mutex_destroy)(it)
#define lockwork_any_wait(it, with) \
    lockwork_any(it, lockwork_delegate_cond_t, lockwork_delegate_cond_wait_held, pthread_cond_wait)(it, with)
#define lockwork_any_cond_init(it, with) \
    lockwork_any(it, lockwork_delegate_cond_t, lockwork_any_of_delegates, pthread_cond_init)(it, with)
#define lockwork_any_cond_signal(it) \
    lockwork_any(it, lockwork_delegate_cond_t, lockwork_delegate_cond_signal, pthread_cond_signal)(it)
#define lockwork_any_cond_broadcast(it) \
    lockwork_any(it, lockwork_delegate_cond_t, lockwork_delegate_cond_broadcast, pthread_cond_broadcast)(it)
#define lockwork_any_cond_destroy(it) \
    lockwork_any(it, lockwork_delegate_cond_t, lockwork_delegate_cond_destroy, pthread_cond_destroy)(it)

static inline void lockwork_check(int holds)
{
    if (!holds) {
        fputs("the lock is not as it should be\n", stderr);
        abort();
    }
}

static inline int lockwork_delegate_init(lockwork_delegate_t *delegate, const char *spec)
{
    pthread_mutexattr_t checks;
    lockwork_check(!spec);
    pthread_mutexattr_init(&checks);
    pthread_mutexattr_settype(&checks, PTHREAD_MUTEX_ERRORCHECK);
    return pthread_mutex_init(&delegate->lock, &checks);
}

static inline int lockwork_delegate_destroy(lockwork_delegate_t *delegate)
{
    lockwork_check(pthread_mutex_destroy(&delegate->lock) == 0);
    return 0;
}

static inline int lockwork_delegate_acquire_or_abort(lockwork_delegate_t *delegate)
{
    lockwork_check(pthread_mutex_lock(&delegate->lock) == 0);
    return 0;
}

static inline int lockwork_delegate_try_acquire_or_abort(lockwork_delegate_t *delegate)
{
    return pthread_mutex_trylock(&delegate->lock);
}

static inline int lockwork_delegate_release(lockwork_delegate_t *delegate)
{
    lockwork_check(pthread_mutex_unlock(&delegate->lock) == 0);
    return 0;
}

/* What a section leaves on the stack, and as errno, is lost, as if it had run in another thread. */
__attribute__((noinline, unused)) static void lockwork_forget(void)
{
    volatile char stack[4096];
    for (unsigned at = 0; at < sizeof(stack); at++)
        stack[at] = 0x55;
    errno = ENOTRECOVERABLE;
}

static inline void *lockwork_delegate_run_or_abort(lockwork_delegate_t *delegate, void *(*section)(void *), void *argument)
{
    lockwork_delegate_acquire_or_abort(delegate);
    lockwork_forget();
    void *result = section(argument);
    lockwork_forget();
    lockwork_delegate_release(delegate);
    return result;
}

static inline int lockwork_delegate_cond_wait_or_abort(lockwork_delegate_t *delegate,
                                                       lockwork_delegate_cond_t *condition,
                                                       void *(*section)(void *), void *argument, void **result)
{
    void *value;
    lockwork_delegate_acquire_or_abort(delegate);
    while (!(value = section(argument)))
        pthread_cond_wait(&condition->signal, &delegate->lock);
    lockwork_delegate_release(delegate);
    if (result)
        *result = value;
    return 0;
}

/* An error-checking mutex that is not held refuses the wait. */
static inline int lockwork_delegate_cond_wait_held(lockwork_delegate_cond_t *condition, lockwork_delegate_t *delegate)
{
    lockwork_check(pthread_cond_wait(&condition->signal, &delegate->lock) == 0);
    return 0;
}

static inline int lockwork_delegate_cond_timedwait_held(lockwork_delegate_cond_t *condition, lockwork_delegate_t *delegate,
                                                        const struct timespec *time)
{
    int outcome = pthread_cond_timedwait(&condition->signal, &delegate->lock, time);
    lockwork_check(outcome == 0 || outcome == ETIMEDOUT);
    return outcome;
}

static inline int lockwork_delegate_cond_init(lockwork_delegate_cond_t *condition)
{
    return pthread_cond_init(&condition->signal, 0);
}

static inline int lockwork_any_of_delegates(lockwork_delegate_cond_t *condition, const void *with)
{
    (void)with;
    return lockwork_delegate_cond_init(condition);
}

static inline int lockwork_delegate_cond_signal(lockwork_delegate_cond_t *condition)
{
    return pthread_cond_signal(&condition->signal);
}

static inline int lockwork_delegate_cond_broadcast(lockwork_delegate_cond_t *condition)
{
    return pthread_cond_broadcast(&condition->signal);
}

static inline int lockwork_delegate_cond_destroy(lockwork_delegate_cond_t *condition)
{
    return pthread_cond_destroy(&condition->signal);
}

#endif
