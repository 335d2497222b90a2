/* Every kind of mutex, by static initialiser and by attribute: which thread may lock, relock, unlock and destroy it. */
#include "suite.h"

static pthread_mutex_t zeroed; /* static storage without an initialiser: the same as the default one */
static pthread_mutex_t static_default = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t static_recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t static_errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t static_adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;

/* What POSIX or glibc says of one kind. */
struct rules {
    int relock;        /* timed lock by the owner */
    int try_by_owner;
    int unlock_by_other;
    bool checks_unlock; /* unlocking an unlocked one is EPERM; otherwise it is undefined */
};

static const struct rules NORMAL = {ETIMEDOUT, EBUSY, 0, false};
static const struct rules RECURSIVE = {0, 0, EPERM, true};
static const struct rules ERRORCHECK = {EDEADLK, EBUSY, EPERM, true};

static int timed(pthread_mutex_t *m) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 5);
    return pthread_mutex_timedlock(m, &soon);
}

static int clocked(pthread_mutex_t *m) {
    struct timespec soon = in_ms(CLOCK_MONOTONIC, 5);
    return pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &soon);
}

/* trylock, and unlock again when it worked: leaves the mutex as it was. */
static int probe(pthread_mutex_t *m) {
    int error = pthread_mutex_trylock(m);
    if (error == 0)
        must(pthread_mutex_unlock(m) == 0);
    return error;
}

static int lock_unlock(pthread_mutex_t *m) {
    int error = pthread_mutex_lock(m);
    return error != 0 ? error : pthread_mutex_unlock(m);
}

static void relocks(pthread_mutex_t *m, const struct rules *rules) {
    result("trylock by owner", pthread_mutex_trylock(m), rules->try_by_owner);
    result("timedlock by owner", timed(m), rules->relock);
    result("clocklock by owner", clocked(m), rules->relock);
    if (rules->relock == EDEADLK)
        result("lock by owner", pthread_mutex_lock(m), EDEADLK);
    if (rules->relock != 0)
        return;
    result("lock by owner", pthread_mutex_lock(m), 0);
    for (int depth = 5; depth > 1; depth--) {
        result("trylock by other at depth", BY_OTHER(pthread_mutex_trylock, m), EBUSY);
        result("unlock one level", pthread_mutex_unlock(m), 0);
    }
}

static void exercise(pthread_mutex_t *m, const struct rules *rules) {
    if (rules->checks_unlock)
        result("unlock of a fresh one", pthread_mutex_unlock(m), EPERM);
    result("lock", pthread_mutex_lock(m), 0);
    result("trylock by other", BY_OTHER(pthread_mutex_trylock, m), EBUSY);
    result("timedlock by other", BY_OTHER(timed, m), ETIMEDOUT);
    result("clocklock by other", BY_OTHER(clocked, m), ETIMEDOUT);
    relocks(m, rules);
    result("destroy while locked", pthread_mutex_destroy(m), EBUSY);
    result("still locked", BY_OTHER(probe, m), EBUSY);
    result("unlock by other", BY_OTHER(pthread_mutex_unlock, m), rules->unlock_by_other);
    if (rules->unlock_by_other != 0)
        result("unlock by owner", pthread_mutex_unlock(m), 0);
    result("free again", BY_OTHER(probe, m), 0);
    result("lock by other", BY_OTHER(lock_unlock, m), 0);
    result("trylock", pthread_mutex_trylock(m), 0);
    result("held after trylock", BY_OTHER(probe, m), EBUSY);
    result("unlock after trylock", pthread_mutex_unlock(m), 0);
    if (rules->checks_unlock)
        result("unlock once too often", pthread_mutex_unlock(m), EPERM);
    result("timedlock", timed(m), 0);
    result("unlock after timedlock", pthread_mutex_unlock(m), 0);
    result("clocklock", clocked(m), 0);
    result("unlock after clocklock", pthread_mutex_unlock(m), 0);
    result("destroy", pthread_mutex_destroy(m), 0);
    result("init after destroy", pthread_mutex_init(m, NULL), 0);
    result("lock after init", lock_unlock(m), 0);
    result("destroy again", pthread_mutex_destroy(m), 0);
}

static void exercise_type(int type, const struct rules *rules) {
    pthread_mutexattr_t attr;
    pthread_mutex_t m;
    must(pthread_mutexattr_init(&attr) == 0);
    result("settype", pthread_mutexattr_settype(&attr, type), 0);
    memset(&m, 0x5a, sizeof m); /* init must not read what was there */
    result("init", pthread_mutex_init(&m, &attr), 0);
    must(pthread_mutexattr_destroy(&attr) == 0);
    exercise(&m, rules);
}

CASE(mutex_zeroed, 10) { exercise(&zeroed, &NORMAL); }
CASE(mutex_static_default, 10) { exercise(&static_default, &NORMAL); }
CASE(mutex_static_recursive, 10) { exercise(&static_recursive, &RECURSIVE); }
CASE(mutex_static_errorcheck, 10) { exercise(&static_errorcheck, &ERRORCHECK); }
CASE(mutex_static_adaptive, 10) { exercise(&static_adaptive, &NORMAL); }
CASE(mutex_attr_default, 10) { exercise_type(PTHREAD_MUTEX_DEFAULT, &NORMAL); }
CASE(mutex_attr_normal, 10) { exercise_type(PTHREAD_MUTEX_NORMAL, &NORMAL); }
CASE(mutex_attr_recursive, 10) { exercise_type(PTHREAD_MUTEX_RECURSIVE, &RECURSIVE); }
CASE(mutex_attr_errorcheck, 10) { exercise_type(PTHREAD_MUTEX_ERRORCHECK, &ERRORCHECK); }
CASE(mutex_attr_adaptive, 10) { exercise_type(PTHREAD_MUTEX_ADAPTIVE_NP, &NORMAL); }

CASE(mutex_init_null_attr, 10) {
    pthread_mutex_t m;
    memset(&m, 0xff, sizeof m);
    result("init", pthread_mutex_init(&m, NULL), 0);
    exercise(&m, &NORMAL);
}

/* glibc marks a mutex whose type was set to NORMAL explicitly by 0x200 (no lock elision). */
CASE(mutex_static_explicit_normal, 10) {
    static pthread_mutex_t m = {.__data.__kind = 0x200};
    exercise(&m, &NORMAL);
}

CASE(mutex_bad_attributes, 10) {
    pthread_mutexattr_t attr;
    must(pthread_mutexattr_init(&attr) == 0);
    result("settype 17", pthread_mutexattr_settype(&attr, 17), EINVAL);
    result("setpshared 17", pthread_mutexattr_setpshared(&attr, 17), EINVAL);
    result("setrobust 17", pthread_mutexattr_setrobust(&attr, 17), EINVAL);
    result("setprotocol 17", pthread_mutexattr_setprotocol(&attr, 17), EINVAL);
    result("setprioceiling 1000", pthread_mutexattr_setprioceiling(&attr, 1000), EINVAL);
}

CASE(mutex_not_priority_or_robust, 10) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    int ceiling = 0;
    result("getprioceiling", pthread_mutex_getprioceiling(&m, &ceiling), EINVAL);
    result("setprioceiling", pthread_mutex_setprioceiling(&m, 10, &ceiling), EINVAL);
    result("consistent", pthread_mutex_consistent(&m), EINVAL);
    result("lock", pthread_mutex_lock(&m), 0);
    result("consistent while locked", pthread_mutex_consistent(&m), EINVAL);
    result("unlock", pthread_mutex_unlock(&m), 0);
}

/* Undefined in POSIX; glibc answers, and programs that lock at exit have come to rely on it. */
CASE(mutex_after_destroy, 10) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    result("destroy", pthread_mutex_destroy(&m), 0);
    result("lock", pthread_mutex_lock(&m), EINVAL);
    result("trylock", pthread_mutex_trylock(&m), EINVAL);
    result("timedlock", timed(&m), EINVAL);
    result("unlock", pthread_mutex_unlock(&m), EINVAL);
    result("init", pthread_mutex_init(&m, NULL), 0);
    result("lock after init", lock_unlock(&m), 0);
}

CASE(mutex_recursive_deep, 20) {
    pthread_mutex_t m = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    int depth = 70000; /* more than 16 bits */
    int errors = 0;
    for (int i = 0; i < depth; i++)
        errors += (i % 2 ? pthread_mutex_lock(&m) : pthread_mutex_trylock(&m)) != 0;
    for (int i = 0; i < depth; i++) {
        if (i == depth - 1)
            result("held until the last level", BY_OTHER(probe, &m), EBUSY);
        errors += pthread_mutex_unlock(&m) != 0;
    }
    yes("no errors", errors == 0);
    result("free at the end", BY_OTHER(lock_unlock, &m), 0);
}

/* C++ and allocators copy an initialised, unlocked mutex into raw memory. */
CASE(mutex_copied_by_memcpy, 10) {
    static const pthread_mutex_t model = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_mutex_t recursive_model = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    pthread_mutex_t *copy = malloc(sizeof *copy);
    memcpy(copy, &model, sizeof *copy);
    result("lock of a copy", pthread_mutex_lock(copy), 0);
    result("copy is held", BY_OTHER(probe, copy), EBUSY);
    result("unlock of a copy", pthread_mutex_unlock(copy), 0);
    memcpy(copy, &recursive_model, sizeof *copy);
    exercise(copy, &RECURSIVE);

    pthread_mutex_t used = PTHREAD_MUTEX_INITIALIZER;
    result("use", lock_unlock(&used), 0);
    memcpy(copy, &used, sizeof *copy);
    exercise(copy, &NORMAL);
    result("original lives on", lock_unlock(&used), 0);
    free(copy);
}

CASE(mutex_array_of_structs, 10) {
    struct cell {
        char pad;
        pthread_mutex_t m;
        int value;
    } *cells = calloc(100, sizeof *cells);
    int errors = 0;
    for (int i = 0; i < 100; i++)
        errors += pthread_mutex_lock(&cells[i].m) != 0;
    for (int i = 0; i < 100; i++)
        errors += pthread_mutex_trylock(&cells[i].m) != EBUSY;
    for (int i = 0; i < 100; i++)
        errors += cells[i].pad != 0 || cells[i].value != 0;
    for (int i = 0; i < 100; i++)
        errors += pthread_mutex_unlock(&cells[i].m) != 0 || pthread_mutex_destroy(&cells[i].m) != 0;
    yes("independent and within bounds", errors == 0);
    free(cells);
}
