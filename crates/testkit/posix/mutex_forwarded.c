/* Mutexes with kernel or glibc bookkeeping: robust, priority-inheriting, priority-protected, process-shared. */
#include "suite.h"

#include <sys/mman.h>

static void make(pthread_mutex_t *m, int type, int shared, int robust, int protocol) {
    pthread_mutexattr_t attr;
    must(pthread_mutexattr_init(&attr) == 0);
    must(pthread_mutexattr_settype(&attr, type) == 0);
    must(pthread_mutexattr_setpshared(&attr, shared) == 0);
    must(pthread_mutexattr_setrobust(&attr, robust) == 0);
    must(pthread_mutexattr_setprotocol(&attr, protocol) == 0);
    result("init", pthread_mutex_init(m, &attr), 0);
    must(pthread_mutexattr_destroy(&attr) == 0);
}

static int probe(pthread_mutex_t *m) {
    int error = pthread_mutex_trylock(m);
    if (error == 0)
        must(pthread_mutex_unlock(m) == 0);
    return error;
}

static int timed(pthread_mutex_t *m) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    return pthread_mutex_timedlock(m, &soon);
}

static int clocked(pthread_mutex_t *m) {
    struct timespec soon = in_ms(CLOCK_MONOTONIC, 20);
    return pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &soon);
}

/* Takes the mutex and ends without unlocking. */
static void *die_holding(void *arg) {
    return (void *)(intptr_t)pthread_mutex_lock(arg);
}

static void robust_life(int type, int shared, int protocol) {
    pthread_mutex_t *m = shared_memory(sizeof *m);
    make(m, type, shared, PTHREAD_MUTEX_ROBUST, protocol);
    result("lock", pthread_mutex_lock(m), 0);
    result("trylock by other", BY_OTHER(probe, m), EBUSY);
    result("timedlock by other", BY_OTHER(timed, m), ETIMEDOUT);
    result("unlock by other", BY_OTHER(pthread_mutex_unlock, m), EPERM);
    result("unlock", pthread_mutex_unlock(m), 0);
    result("owner locks", (int)(intptr_t)join(start(die_holding, m)), 0);
    result("lock after owner died", pthread_mutex_lock(m), EOWNERDEAD);
    result("consistent", pthread_mutex_consistent(m), 0);
    result("consistent twice", pthread_mutex_consistent(m), EINVAL);
    result("unlock", pthread_mutex_unlock(m), 0);
    result("normal again", BY_OTHER(probe, m), 0);
    join(start(die_holding, m));
    result("trylock after owner died", pthread_mutex_trylock(m), EOWNERDEAD);
    result("unlock without consistent", pthread_mutex_unlock(m), 0);
    result("lock", pthread_mutex_lock(m), ENOTRECOVERABLE);
    result("timedlock", timed(m), ENOTRECOVERABLE);
    result("trylock", pthread_mutex_trylock(m), ENOTRECOVERABLE);
    result("destroy", pthread_mutex_destroy(m), 0);
}

CASE(robust_normal, 10) { robust_life(PTHREAD_MUTEX_NORMAL, PTHREAD_PROCESS_PRIVATE, PTHREAD_PRIO_NONE); }
CASE(robust_errorcheck, 10) { robust_life(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PROCESS_PRIVATE, PTHREAD_PRIO_NONE); }
CASE(robust_recursive, 10) { robust_life(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PROCESS_PRIVATE, PTHREAD_PRIO_NONE); }
CASE(robust_shared, 10) { robust_life(PTHREAD_MUTEX_NORMAL, PTHREAD_PROCESS_SHARED, PTHREAD_PRIO_NONE); }
CASE(robust_inherit, 10) { robust_life(PTHREAD_MUTEX_NORMAL, PTHREAD_PROCESS_PRIVATE, PTHREAD_PRIO_INHERIT); }

CASE(robust_timed_owner_died, 10) {
    pthread_mutex_t m;
    make(&m, PTHREAD_MUTEX_NORMAL, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
    join(start(die_holding, &m));
    result("clocklock", clocked(&m), EOWNERDEAD);
    result("consistent_np", pthread_mutex_consistent_np(&m), 0);
    result("unlock", pthread_mutex_unlock(&m), 0);
}

/* The waiter is asleep when the owner dies: the kernel wakes it. */
static int holding;

static void *die_slowly(void *arg) {
    must(pthread_mutex_lock(arg) == 0);
    set(&holding, 1);
    sleep_ms(30);
    return NULL;
}

CASE(robust_waiter_sees_death, 10) {
    pthread_mutex_t m;
    make(&m, PTHREAD_MUTEX_NORMAL, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
    pthread_t owner = start(die_slowly, &m);
    await(&holding, 1);
    result("lock", pthread_mutex_lock(&m), EOWNERDEAD);
    result("consistent", pthread_mutex_consistent(&m), 0);
    result("unlock", pthread_mutex_unlock(&m), 0);
    join(owner);
}

CASE(robust_process_died, 10) {
    pthread_mutex_t *m = shared_memory(sizeof *m);
    make(m, PTHREAD_MUTEX_NORMAL, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
    pid_t child = fork_child();
    if (child == 0) {
        must(pthread_mutex_lock(m) == 0);
        child_end();
    }
    yes("child ended", child_ok(child));
    result("lock", pthread_mutex_lock(m), EOWNERDEAD);
    result("consistent", pthread_mutex_consistent(m), 0);
    result("unlock", pthread_mutex_unlock(m), 0);
    result("lock again", probe(m), 0);
}

static void inherit_life(int type, int relock) {
    pthread_mutex_t m;
    make(&m, type, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT);
    result("lock", pthread_mutex_lock(&m), 0);
    result("trylock by other", BY_OTHER(probe, &m), EBUSY);
    result("timedlock by other", BY_OTHER(timed, &m), ETIMEDOUT);
    result("clocklock by other", BY_OTHER(clocked, &m), ETIMEDOUT);
    if (type != PTHREAD_MUTEX_NORMAL) {
        result("lock by owner", pthread_mutex_lock(&m), relock);
        if (relock == 0)
            result("unlock a level", pthread_mutex_unlock(&m), 0);
    }
    result("destroy while locked", pthread_mutex_destroy(&m), EBUSY);
    result("unlock", pthread_mutex_unlock(&m), 0);
    result("free", BY_OTHER(probe, &m), 0);
    result("destroy", pthread_mutex_destroy(&m), 0);
}

CASE(inherit_normal, 10) { inherit_life(PTHREAD_MUTEX_NORMAL, 0); }
CASE(inherit_errorcheck, 10) { inherit_life(PTHREAD_MUTEX_ERRORCHECK, EDEADLK); }
CASE(inherit_recursive, 10) { inherit_life(PTHREAD_MUTEX_RECURSIVE, 0); }

/* Raising a thread's priority needs a privilege: the outcome is this machine's, so it is only compared. */
CASE(protect, 10) {
    pthread_mutexattr_t attr;
    pthread_mutex_t m;
    int old = -1;
    must(pthread_mutexattr_init(&attr) == 0);
    must(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_PROTECT) == 0);
    result("setprioceiling on attr", pthread_mutexattr_setprioceiling(&attr, 5), 0);
    result("init", pthread_mutex_init(&m, &attr), 0);
    result("getprioceiling", pthread_mutex_getprioceiling(&m, &old), 0);
    yes("ceiling is 5", old == 5);
    int error = pthread_mutex_lock(&m);
    note("lock", error_name(error));
    if (error == 0) {
        result("trylock by other", BY_OTHER(probe, &m), EBUSY);
        result("unlock", pthread_mutex_unlock(&m), 0);
        result("setprioceiling", pthread_mutex_setprioceiling(&m, 7, &old), 0);
        yes("old ceiling is 5", old == 5);
        result("getprioceiling", pthread_mutex_getprioceiling(&m, &old), 0);
        yes("ceiling is 7", old == 7);
    }
    result("setprioceiling out of range", pthread_mutex_setprioceiling(&m, 1000, &old), EINVAL);
    result("destroy", pthread_mutex_destroy(&m), 0);
}

struct shared {
    pthread_mutex_t m;
    long counter;
    int ready;
};

static void hammer(struct shared *s, int rounds) {
    for (int i = 0; i < rounds; i++) {
        must(pthread_mutex_lock(&s->m) == 0);
        s->counter++;
        must(pthread_mutex_unlock(&s->m) == 0);
    }
}

static void shared_life(int type) {
    struct shared *s = shared_memory(sizeof *s);
    int rounds = iterations(20000);
    make(&s->m, type, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
    pid_t child[3];
    for (int i = 0; i < 3; i++) {
        child[i] = fork_child();
        if (child[i] == 0) {
            hammer(s, rounds);
            child_end();
        }
    }
    hammer(s, rounds);
    for (int i = 0; i < 3; i++)
        yes("child ended", child_ok(child[i]));
    yes("processes excluded each other", s->counter == 4L * rounds);

    result("lock", pthread_mutex_lock(&s->m), 0);
    pid_t other = fork_child();
    if (other == 0) {
        must(pthread_mutex_trylock(&s->m) == EBUSY);
        must(timed(&s->m) == ETIMEDOUT);
        set(&s->ready, 1);
        must(pthread_mutex_lock(&s->m) == 0); /* sleeps until the parent unlocks */
        must(pthread_mutex_unlock(&s->m) == 0);
        child_end();
    }
    await(&s->ready, 1);
    sleep_ms(10);
    result("unlock", pthread_mutex_unlock(&s->m), 0);
    yes("waiting process woke", child_ok(other));
    result("destroy", pthread_mutex_destroy(&s->m), 0);
}

CASE(shared_normal, 20) { shared_life(PTHREAD_MUTEX_NORMAL); }
CASE(shared_recursive, 20) { shared_life(PTHREAD_MUTEX_RECURSIVE); }
CASE(shared_errorcheck, 20) { shared_life(PTHREAD_MUTEX_ERRORCHECK); }
CASE(shared_adaptive, 20) { shared_life(PTHREAD_MUTEX_ADAPTIVE_NP); }

/* A mutex is in use while a thread waits on a condition with it: that thread will take it again. */
struct waiting {
    pthread_mutex_t m;
    pthread_cond_t c;
    int asleep, go;
};

static void *wait_once(void *arg) {
    struct waiting *w = arg;
    must(pthread_mutex_lock(&w->m) == 0);
    w->asleep = 1;
    while (!w->go)
        must(pthread_cond_wait(&w->c, &w->m) == 0);
    must(pthread_mutex_unlock(&w->m) == 0);
    return NULL;
}

static void used_by_condition(int type, int shared, int protocol) {
    struct waiting w = {.c = PTHREAD_COND_INITIALIZER};
    make(&w.m, type, shared, PTHREAD_MUTEX_STALLED, protocol);
    pthread_t waiter = start(wait_once, &w);
    for (int asleep = 0; !asleep;) { /* Free the mutex, the waiter has asleep set: it waits. */
        must(pthread_mutex_lock(&w.m) == 0);
        asleep = w.asleep;
        must(pthread_mutex_unlock(&w.m) == 0);
    }
    result("destroy while a condition is waited on", pthread_mutex_destroy(&w.m), EBUSY);
    result("still locks", pthread_mutex_lock(&w.m), 0);
    w.go = 1;
    must(pthread_cond_signal(&w.c) == 0);
    result("unlock", pthread_mutex_unlock(&w.m), 0);
    join(waiter);
    result("destroy", pthread_mutex_destroy(&w.m), 0);
}

CASE(inherit_normal_waited_with, 10) {
    used_by_condition(PTHREAD_MUTEX_NORMAL, PTHREAD_PROCESS_PRIVATE, PTHREAD_PRIO_INHERIT);
}
CASE(inherit_errorcheck_waited_with, 10) {
    used_by_condition(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PROCESS_PRIVATE, PTHREAD_PRIO_INHERIT);
}
CASE(inherit_recursive_waited_with, 10) {
    used_by_condition(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PROCESS_PRIVATE, PTHREAD_PRIO_INHERIT);
}
CASE(shared_normal_waited_with, 10) {
    used_by_condition(PTHREAD_MUTEX_NORMAL, PTHREAD_PROCESS_SHARED, PTHREAD_PRIO_NONE);
}
CASE(shared_adaptive_waited_with, 10) {
    used_by_condition(PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PROCESS_SHARED, PTHREAD_PRIO_NONE);
}

static void *own_and_wait(void *arg) {
    struct waiting *w = arg;
    must(pthread_mutex_lock(&w->m) == 0);
    w->asleep = 1;
    int error = 0;
    while (!w->go && error == 0)
        error = pthread_cond_wait(&w->c, &w->m);
    result("wait", error, EOWNERDEAD);
    result("consistent", pthread_mutex_consistent(&w->m), 0);
    must(pthread_mutex_unlock(&w->m) == 0);
    return NULL;
}

static void *wake_and_die(void *arg) {
    struct waiting *w = arg;
    for (int asleep = 0; !asleep;) {
        must(pthread_mutex_lock(&w->m) == 0);
        asleep = w->asleep;
        if (!asleep)
            must(pthread_mutex_unlock(&w->m) == 0);
    }
    must(pthread_cond_signal(&w->c) == 0);
    return NULL;
}

/* The owner that woke the waiter dies: the wait says so, and the counts of users stay right. */
CASE(robust_inherit_waited_with, 10) {
    struct waiting w = {.c = PTHREAD_COND_INITIALIZER};
    make(&w.m, PTHREAD_MUTEX_NORMAL, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_INHERIT);
    pthread_t waiter = start(own_and_wait, &w);
    join(start(wake_and_die, &w));
    join(waiter);
    result("lock", pthread_mutex_lock(&w.m), 0);
    result("unlock", pthread_mutex_unlock(&w.m), 0);
    result("destroy", pthread_mutex_destroy(&w.m), 0);
}
