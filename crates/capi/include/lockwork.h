/* Lockwork: mutexes, reader-writer locks and delegates whose algorithm is named at run time.
 *
 * A spec names a lock, as `lockwork list` does: "mcs-stp", "gcr(mcs-stp)", "cst-rwsem", "bravo(rw-futex)". A null spec,
 * like an object that was initialised statically, means the default: "auto", "rw-futex".
 *
 * Functions return 0 or an error number, as POSIX threads do. EINVAL: lockwork_error() says why. Objects must not be copied
 * or moved. A clock is a clockid_t, which strict C11 does not declare. An object's memory may be reused without destroying
 * the object; destroying gives back at once what a contended lock holds outside of it.
 *
 * Link with the flags of `pkg-config --libs lockwork`. */
#ifndef LOCKWORK_H
#define LOCKWORK_H

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A mutex. */
typedef struct lockwork_mutex {
    uint64_t opaque[8];
} lockwork_mutex_t;

/* A reader-writer lock. */
typedef struct lockwork_rwlock {
    uint64_t opaque[8];
} lockwork_rwlock_t;

/* A condition variable, for any lockwork_mutex_t. */
typedef struct lockwork_cond {
    uint64_t opaque[8];
} lockwork_cond_t;

/* A delegate: a lock that is handed critical sections, and runs them one at a time, in the calling thread or in another. */
typedef struct lockwork_delegate {
    uint64_t opaque[8];
} lockwork_delegate_t;

/* A section that has been posted. */
typedef struct lockwork_posted {
    uint64_t opaque[8];
} lockwork_posted_t;

/* What sections of a delegate wait for. */
typedef struct lockwork_delegate_cond {
    uint64_t opaque[8];
} lockwork_delegate_cond_t;

#define LOCKWORK_DELEGATE_INITIALIZER {{0}}
#define LOCKWORK_DELEGATE_COND_INITIALIZER {{0}}
#define LOCKWORK_MUTEX_INITIALIZER {{0}}
#define LOCKWORK_RWLOCK_INITIALIZER {{0}}
#define LOCKWORK_COND_INITIALIZER {{0}}

/* Why the calling thread's last EINVAL, or the last error of a delegate, in one line; empty if there was none. Valid until its next call of a function that
 * fails. */
const char *lockwork_error(void);

/* EINVAL: the spec names no mutex. */
int lockwork_mutex_init(lockwork_mutex_t *mutex, const char *spec);
/* Waits as long as it takes. Not recursive: a thread that locks a mutex it holds waits for ever. */
int lockwork_mutex_lock(lockwork_mutex_t *mutex);
/* EBUSY: it would have to wait. */
int lockwork_mutex_trylock(lockwork_mutex_t *mutex);
/* ETIMEDOUT at a time on CLOCK_REALTIME; EINVAL: no such time. A free mutex is acquired whatever the time says. */
int lockwork_mutex_timedlock(lockwork_mutex_t *mutex, const struct timespec *time);
/* The same on CLOCK_REALTIME or CLOCK_MONOTONIC. */
int lockwork_mutex_clocklock(lockwork_mutex_t *mutex, int clock, const struct timespec *time);
/* By the thread that locked, or by another on its behalf. */
int lockwork_mutex_unlock(lockwork_mutex_t *mutex);
/* EBUSY: it is locked. */
int lockwork_mutex_destroy(lockwork_mutex_t *mutex);

/* EINVAL: the spec names no reader-writer lock. */
int lockwork_rwlock_init(lockwork_rwlock_t *lock, const char *spec);
/* EAGAIN: as many readers as the lock can count. */
int lockwork_rwlock_rdlock(lockwork_rwlock_t *lock);
int lockwork_rwlock_tryrdlock(lockwork_rwlock_t *lock);
int lockwork_rwlock_timedrdlock(lockwork_rwlock_t *lock, const struct timespec *time);
int lockwork_rwlock_clockrdlock(lockwork_rwlock_t *lock, int clock, const struct timespec *time);
int lockwork_rwlock_wrlock(lockwork_rwlock_t *lock);
int lockwork_rwlock_trywrlock(lockwork_rwlock_t *lock);
int lockwork_rwlock_timedwrlock(lockwork_rwlock_t *lock, const struct timespec *time);
int lockwork_rwlock_clockwrlock(lockwork_rwlock_t *lock, int clock, const struct timespec *time);
/* Releases what the calling thread has, for reading or writing. */
int lockwork_rwlock_unlock(lockwork_rwlock_t *lock);
/* EBUSY: it is locked. */
int lockwork_rwlock_destroy(lockwork_rwlock_t *lock);

int lockwork_cond_init(lockwork_cond_t *condition);
/* Releases the mutex, waits for a signal, and acquires the mutex again. Not a cancellation point. */
int lockwork_cond_wait(lockwork_cond_t *condition, lockwork_mutex_t *mutex);
/* ETIMEDOUT at a time on CLOCK_REALTIME, with the mutex acquired; no signal was spent. */
int lockwork_cond_timedwait(lockwork_cond_t *condition, lockwork_mutex_t *mutex, const struct timespec *time);
/* The same on CLOCK_REALTIME or CLOCK_MONOTONIC. */
int lockwork_cond_clockwait(lockwork_cond_t *condition, lockwork_mutex_t *mutex, int clock,
                            const struct timespec *time);
/* Wakes the thread that has waited longest. */
int lockwork_cond_signal(lockwork_cond_t *condition);
/* Wakes all waiting threads. */
int lockwork_cond_broadcast(lockwork_cond_t *condition);
/* EBUSY: a thread waits on it. */
int lockwork_cond_destroy(lockwork_cond_t *condition);

/* Delegates. A spec names one: "cc-synch" (the default), "dsm-synch", "h-synch", "oyama", "fc", "p-sim", "ffwd", "rcl(servers=2)",
 * "sanl", "sanl-numa", "sanl-plus", "locked(mcs-stp)". The variable LOCKWORK_DELEGATE says what is meant by no spec.
 *
 * A section is a function. It may run in another thread: errno, thread-local variables and the thread's id are that thread's. It
 * must return: no longjmp out of it, no exception, no pthread_exit. It may use other delegates and locks, not its own
 * delegate (EDEADLK). Nothing of it is a cancellation point unless the section is. */

/* EINVAL: the spec names no delegate, or asks for more servers than there are CPUs. */
int lockwork_delegate_init(lockwork_delegate_t *delegate, const char *spec);
/* Runs section(argument), and returns what it returned. Null with errno EDEADLK or EINVAL: it has not run. */
void *lockwork_delegate_run(lockwork_delegate_t *delegate, void *(*section)(void *), void *argument);
/* The same with an error number, and the section's result in *result, unless that is null. */
int lockwork_delegate_execute(lockwork_delegate_t *delegate, void *(*section)(void *), void *argument, void **result);
/* Leaves a section to be run, now by this thread or soon by another. *posted must stay until it has been waited for. */
int lockwork_delegate_post(lockwork_delegate_t *delegate, void *(*section)(void *), void *argument,
                           lockwork_posted_t *posted);
/* Waits for a section that was posted, and returns what it returned. Null with errno EDEADLK: the posted one runs after a section of
 * the same delegate that the thread runs, or after its release of the delegate; it can be waited for afterwards. */
void *lockwork_delegate_wait(lockwork_posted_t *posted);
/* Holds the delegate as a lock, until it is released. ENOTSUP: it cannot be held, as those whose requests are a queue or a
 * stack. EDEADLK: the thread holds it, as for sections that it requests meanwhile. */
int lockwork_delegate_acquire(lockwork_delegate_t *delegate);
/* The same without waiting. EBUSY: a section runs, or a thread holds it. */
int lockwork_delegate_try_acquire(lockwork_delegate_t *delegate);
/* By the thread that holds it, or by another on its behalf. EPERM: nobody holds it. */
int lockwork_delegate_release(lockwork_delegate_t *delegate);
/* Runs a section until it returns something other than null, which is then in *result, and waits for a signal in between: in
 * the calling thread, so that no other section is held up. */
int lockwork_delegate_cond_wait(lockwork_delegate_t *delegate, lockwork_delegate_cond_t *condition,
                                void *(*section)(void *), void *argument, void **result);
/* ETIMEDOUT at a time on CLOCK_REALTIME: the section has run once more since, and returned null. */
int lockwork_delegate_cond_timedwait(lockwork_delegate_t *delegate, lockwork_delegate_cond_t *condition,
                                     const struct timespec *time, void *(*section)(void *), void *argument,
                                     void **result);
/* By a thread that holds the delegate, which is free meanwhile and held again afterwards. A wake-up may be meant for another
 * thread. EPERM: the calling thread does not hold it. ETIMEDOUT at a time on CLOCK_REALTIME. */
int lockwork_delegate_cond_wait_held(lockwork_delegate_cond_t *condition, lockwork_delegate_t *delegate);
int lockwork_delegate_cond_timedwait_held(lockwork_delegate_cond_t *condition, lockwork_delegate_t *delegate,
                                          const struct timespec *time);
int lockwork_delegate_cond_init(lockwork_delegate_cond_t *condition);
/* It has nothing to give back. */
int lockwork_delegate_cond_destroy(lockwork_delegate_cond_t *condition);
/* By a section that changes what others wait for, or after it. */
int lockwork_delegate_cond_signal(lockwork_delegate_cond_t *condition);
int lockwork_delegate_cond_broadcast(lockwork_delegate_cond_t *condition);
/* By the last user: it waits for those whose sections have run, and that are on their way out, as POSIX allows with mutexes. EBUSY: a
 * thread holds it; or a section runs, or waits to be run, and has not ended within five seconds. Posted sections must have been waited
 * for. */
int lockwork_delegate_destroy(lockwork_delegate_t *delegate);

/* What `lockwork transform` writes, where the program does not look at outcomes, which its mutexes could not have had. As the functions
 * of these names; but where the delegate cannot be held, or the calling thread would wait for itself, the program ends by abort(),
 * and says why: it would run without the lock, or without the section. So the outcome is 0, or EBUSY of the attempt. */
int lockwork_delegate_acquire_or_abort(lockwork_delegate_t *delegate);
int lockwork_delegate_try_acquire_or_abort(lockwork_delegate_t *delegate);
void *lockwork_delegate_run_or_abort(lockwork_delegate_t *delegate, void *(*section)(void *), void *argument);
int lockwork_delegate_cond_wait_or_abort(lockwork_delegate_t *delegate, lockwork_delegate_cond_t *condition,
                                         void *(*section)(void *), void *argument, void **result);

/* For macros that serve delegates and POSIX's mutexes, as `lockwork transform` leaves them. The user includes pthread.h. */
#ifndef __cplusplus
#define lockwork_any(it, of, delegates, posix) _Generic((it), of *: delegates, default: posix)
#define lockwork_any_lock(it) \
    lockwork_any(it, lockwork_delegate_t, lockwork_delegate_acquire_or_abort, pthread_mutex_lock)(it)
#define lockwork_any_unlock(it) \
    lockwork_any(it, lockwork_delegate_t, lockwork_delegate_release, pthread_mutex_unlock)(it)
#define lockwork_any_trylock(it) \
    lockwork_any(it, lockwork_delegate_t, lockwork_delegate_try_acquire_or_abort, pthread_mutex_trylock)(it)
#define lockwork_any_wait(it, with) \
    lockwork_any(it, lockwork_delegate_cond_t, lockwork_delegate_cond_wait_held, pthread_cond_wait)(it, with)
#define lockwork_any_timedwait(it, with, time) \
    lockwork_any(it, lockwork_delegate_cond_t, lockwork_delegate_cond_timedwait_held, pthread_cond_timedwait)(it, with, time)
#define lockwork_any_init(it, with) \
    lockwork_any(it, lockwork_delegate_t, lockwork_delegate_init, pthread_mutex_init)(it, with)
#define lockwork_any_destroy(it) \
    lockwork_any(it, lockwork_delegate_t, lockwork_delegate_destroy, pthread_mutex_destroy)(it)
/* Of conditions, those of delegates have no attributes. */
static __inline__ int lockwork_any_of_delegates(lockwork_delegate_cond_t *condition, const void *with)
{
    (void)with;
    return lockwork_delegate_cond_init(condition);
}
#define lockwork_any_cond_init(it, with) \
    lockwork_any(it, lockwork_delegate_cond_t, lockwork_any_of_delegates, pthread_cond_init)(it, with)
#define lockwork_any_cond_signal(it) \
    lockwork_any(it, lockwork_delegate_cond_t, lockwork_delegate_cond_signal, pthread_cond_signal)(it)
#define lockwork_any_cond_broadcast(it) \
    lockwork_any(it, lockwork_delegate_cond_t, lockwork_delegate_cond_broadcast, pthread_cond_broadcast)(it)
#define lockwork_any_cond_destroy(it) \
    lockwork_any(it, lockwork_delegate_cond_t, lockwork_delegate_cond_destroy, pthread_cond_destroy)(it)
#endif

#ifdef __cplusplus
}
#endif

#endif
