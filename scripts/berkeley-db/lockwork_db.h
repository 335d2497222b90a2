/* Berkeley DB's mutexes as delegates: for the end of src/dbinc/mutex_int.h, where struct __db_mutex_t has got a lockwork_delegate_t
 * called delegate and an int called is_delegate. Exclusive mutexes of environments that one process has are delegates; all others stay
 * what they are. */
#ifndef LOCKWORK_DB_H
#define LOCKWORK_DB_H

/* Its own mutexes, of the kind that it was configured with. */
int __db_pthread_mutex_init(ENV *, db_mutex_t, u_int32_t);
int __db_pthread_mutex_destroy(ENV *, db_mutex_t);
int __db_pthread_mutex_lock(ENV *, db_mutex_t, db_timeout_t);
int __db_pthread_mutex_trylock(ENV *, db_mutex_t);
int __db_pthread_mutex_unlock(ENV *, db_mutex_t);
int __db_tas_mutex_init(ENV *, db_mutex_t, u_int32_t);
int __db_tas_mutex_destroy(ENV *, db_mutex_t);
int __db_tas_mutex_lock(ENV *, db_mutex_t, db_timeout_t);
int __db_tas_mutex_trylock(ENV *, db_mutex_t);
int __db_tas_mutex_unlock(ENV *, db_mutex_t);

static inline int lockwork_db_own_init(ENV *env, db_mutex_t mutex, u_int32_t flags) { return __mutex_init(env, mutex, flags); }
static inline int lockwork_db_own_destroy(ENV *env, db_mutex_t mutex) { return __mutex_destroy(env, mutex); }
static inline int lockwork_db_own_lock(ENV *env, db_mutex_t mutex) { return __mutex_lock(env, mutex); }
static inline int lockwork_db_own_trylock(ENV *env, db_mutex_t mutex) { return __mutex_trylock(env, mutex); }
static inline int lockwork_db_own_unlock(ENV *env, db_mutex_t mutex) { return __mutex_unlock(env, mutex); }

/* The mutex, if it is a delegate; null: it is another, or mutexes are switched off. */
static inline DB_MUTEX *lockwork_db_delegate(ENV *env, db_mutex_t mutex)
{
    DB_MUTEX *mutexp;
    if (mutex == MUTEX_INVALID || !MUTEX_ON(env) || F_ISSET(env->dbenv, DB_ENV_NOLOCKING) || !F_ISSET(env, ENV_PRIVATE))
        return NULL;
    mutexp = MUTEXP_SET(env, mutex);
    return mutexp->is_delegate ? mutexp : NULL;
}

static inline int lockwork_db_init(ENV *env, db_mutex_t mutex, u_int32_t flags)
{
    int ret = lockwork_db_own_init(env, mutex, flags);
    if (ret == 0) {
        memset(&MUTEXP_SET(env, mutex)->delegate, 0, sizeof(lockwork_delegate_t));
        /* The mutex's own flags do not tell: a hybrid mutex has DB_MUTEX_SELF_BLOCK for its own sake. */
        MUTEXP_SET(env, mutex)->is_delegate = !(flags & (DB_MUTEX_SHARED | DB_MUTEX_SELF_BLOCK));
    }
    return ret;
}

static inline int lockwork_db_destroy(ENV *env, db_mutex_t mutex)
{
    DB_MUTEX *mutexp = lockwork_db_delegate(env, mutex);
    if (mutexp != NULL)
        (void)lockwork_delegate_destroy(&mutexp->delegate);
    return lockwork_db_own_destroy(env, mutex);
}

static inline int lockwork_db_lock(ENV *env, db_mutex_t mutex)
{
    DB_MUTEX *mutexp = lockwork_db_delegate(env, mutex);
    return mutexp != NULL ? lockwork_delegate_acquire_or_abort(&mutexp->delegate) : lockwork_db_own_lock(env, mutex);
}

static inline int lockwork_db_trylock(ENV *env, db_mutex_t mutex)
{
    DB_MUTEX *mutexp = lockwork_db_delegate(env, mutex);
    if (mutexp == NULL)
        return lockwork_db_own_trylock(env, mutex);
    return lockwork_delegate_try_acquire_or_abort(&mutexp->delegate) == 0 ? 0 : DB_LOCK_NOTGRANTED;
}

static inline int lockwork_db_unlock(ENV *env, db_mutex_t mutex)
{
    DB_MUTEX *mutexp = lockwork_db_delegate(env, mutex);
    return mutexp != NULL ? lockwork_delegate_release(&mutexp->delegate) : lockwork_db_own_unlock(env, mutex);
}

#undef __mutex_init
#undef __mutex_destroy
#undef __mutex_lock
#undef __mutex_trylock
#undef __mutex_unlock
#define __mutex_init(env, mutex, flags) lockwork_db_init(env, mutex, flags)
#define __mutex_destroy(env, mutex) lockwork_db_destroy(env, mutex)
#define __mutex_lock(env, mutex) lockwork_db_lock(env, mutex)
#define __mutex_trylock(env, mutex) lockwork_db_trylock(env, mutex)
#define __mutex_unlock(env, mutex) lockwork_db_unlock(env, mutex)

/* Runs a section of a mutex, which may be none. */
static inline void lockwork_db_run(ENV *env, db_mutex_t mutex, void *(*section)(void *), void *argument)
{
    DB_MUTEX *mutexp = lockwork_db_delegate(env, mutex);
    int is_locked = mutexp == NULL && mutex != MUTEX_INVALID && lockwork_db_own_lock(env, mutex) == 0;
    if (mutexp != NULL) {
        (void)lockwork_delegate_run_or_abort(&mutexp->delegate, section, argument);
        return;
    }
    (void)section(argument);
    if (is_locked)
        (void)lockwork_db_own_unlock(env, mutex);
}

static inline void lockwork_db_run_if(int locks, ENV *env, db_mutex_t mutex, void *(*section)(void *), void *argument)
{
    if (locks)
        lockwork_db_run(env, mutex, section, argument);
    else
        (void)section(argument);
}
#endif
