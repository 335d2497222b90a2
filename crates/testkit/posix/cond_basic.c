/* Condition variables: wait, signal, broadcast, the mutex kinds they work with, destroy. */
#include "suite.h"

#include <signal.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int waiting, tickets, woken;

static void make(pthread_mutex_t *mutex, int type, int shared, int robust, int protocol) {
    pthread_mutexattr_t attr;
    must(pthread_mutexattr_init(&attr) == 0 && pthread_mutexattr_settype(&attr, type) == 0);
    must(pthread_mutexattr_setpshared(&attr, shared) == 0);
    must(pthread_mutexattr_setrobust(&attr, robust) == 0);
    must(pthread_mutexattr_setprotocol(&attr, protocol) == 0);
    must(pthread_mutex_init(mutex, &attr) == 0);
}

static int probe(pthread_mutex_t *mutex) {
    int error = pthread_mutex_trylock(mutex);
    if (error == 0)
        must(pthread_mutex_unlock(mutex) == 0);
    return error;
}

/* Waits for a ticket and takes it; spurious wake-ups do no harm. */
struct site {
    pthread_mutex_t *mutex;
    pthread_cond_t *cond;
};

static void *take_ticket(void *arg) {
    struct site *site = arg;
    must(pthread_mutex_lock(site->mutex) == 0);
    waiting++;
    while (tickets == 0)
        must(pthread_cond_wait(site->cond, site->mutex) == 0);
    tickets--;
    add(&woken, 1);
    must(pthread_mutex_unlock(site->mutex) == 0);
    return NULL;
}

/* Returns once `count` threads wait: a waiter counts itself and then lets the mutex go only by waiting. */
static void await_waiters(struct site *site, int count) {
    for (;;) {
        must(pthread_mutex_lock(site->mutex) == 0);
        int now = waiting;
        must(pthread_mutex_unlock(site->mutex) == 0);
        if (now >= count)
            return;
        usleep(200);
    }
}

static void issue(struct site *site, int count, bool all) {
    must(pthread_mutex_lock(site->mutex) == 0);
    tickets += count;
    must((all ? pthread_cond_broadcast : pthread_cond_signal)(site->cond) == 0);
    must(pthread_mutex_unlock(site->mutex) == 0);
}

static void signal_and_broadcast(struct site *site) {
    enum { WAITERS = 6 };
    pthread_t thread[WAITERS];
    waiting = tickets = woken = 0;
    result("signal without waiters", pthread_cond_signal(site->cond), 0);
    result("broadcast without waiters", pthread_cond_broadcast(site->cond), 0);
    for (int i = 0; i < WAITERS; i++)
        thread[i] = start(take_ticket, site);
    await_waiters(site, WAITERS);
    yes("earlier signals are not remembered", get(&woken) == 0);
    result("mutex is free while they wait", probe(site->mutex), 0);
    for (int i = 1; i <= 3; i++) {
        issue(site, 1, false);
        await(&woken, i);
    }
    sleep_ms(5);
    yes("one ticket, one thread", get(&woken) == 3);
    issue(site, 3, true);
    for (int i = 0; i < WAITERS; i++)
        join(thread[i]);
    yes("all woke", woken == WAITERS && tickets == 0);
    result("mutex is free at the end", probe(site->mutex), 0);
}

static void with_mutex(int type, int shared, int robust, int protocol) {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct site site = {&mutex, &cond};
    make(&mutex, type, shared, robust, protocol);
    memset(&cond, 0x5a, sizeof cond);
    result("init", pthread_cond_init(&cond, NULL), 0);
    signal_and_broadcast(&site);
    result("destroy cond", pthread_cond_destroy(&cond), 0);
    result("init after destroy", pthread_cond_init(&cond, NULL), 0);
    result("destroy again", pthread_cond_destroy(&cond), 0);
    result("destroy mutex", pthread_mutex_destroy(&mutex), 0);
}

enum { PRIVATE = PTHREAD_PROCESS_PRIVATE, SHARED = PTHREAD_PROCESS_SHARED };
enum { STALLED = PTHREAD_MUTEX_STALLED, ROBUST = PTHREAD_MUTEX_ROBUST };

CASE(cond_static, 20) {
    struct site site = {&m, &c};
    signal_and_broadcast(&site);
    result("destroy", pthread_cond_destroy(&c), 0);
}
CASE(cond_with_normal, 20) { with_mutex(PTHREAD_MUTEX_NORMAL, PRIVATE, STALLED, PTHREAD_PRIO_NONE); }
CASE(cond_with_recursive, 20) { with_mutex(PTHREAD_MUTEX_RECURSIVE, PRIVATE, STALLED, PTHREAD_PRIO_NONE); }
CASE(cond_with_errorcheck, 20) { with_mutex(PTHREAD_MUTEX_ERRORCHECK, PRIVATE, STALLED, PTHREAD_PRIO_NONE); }
CASE(cond_with_adaptive, 20) { with_mutex(PTHREAD_MUTEX_ADAPTIVE_NP, PRIVATE, STALLED, PTHREAD_PRIO_NONE); }
CASE(cond_with_robust, 20) { with_mutex(PTHREAD_MUTEX_NORMAL, PRIVATE, ROBUST, PTHREAD_PRIO_NONE); }
CASE(cond_with_inherit, 20) { with_mutex(PTHREAD_MUTEX_NORMAL, PRIVATE, STALLED, PTHREAD_PRIO_INHERIT); }
CASE(cond_with_shared, 20) { with_mutex(PTHREAD_MUTEX_NORMAL, SHARED, STALLED, PTHREAD_PRIO_NONE); }

/* A robust mutex whose owner dies is handed to the waiter with EOWNERDEAD. */
static void *wait_robust(void *arg) {
    struct site *site = arg;
    must(pthread_mutex_lock(site->mutex) == 0);
    waiting = 1;
    int error = 0;
    while (error == 0 && tickets == 0)
        error = pthread_cond_wait(site->cond, site->mutex);
    if (error == EOWNERDEAD)
        must(pthread_mutex_consistent(site->mutex) == 0);
    must(pthread_mutex_unlock(site->mutex) == 0);
    return (void *)(intptr_t)error;
}

static void *signal_and_die(void *arg) {
    struct site *site = arg;
    must(pthread_mutex_lock(site->mutex) == 0);
    tickets = 1;
    must(pthread_cond_signal(site->cond) == 0);
    return NULL;
}

CASE(cond_robust_owner_died, 10) {
    pthread_mutex_t mutex;
    struct site site = {&mutex, &c};
    make(&mutex, PTHREAD_MUTEX_NORMAL, PRIVATE, ROBUST, PTHREAD_PRIO_NONE);
    pthread_t waiter = start(wait_robust, &site);
    await_waiters(&site, 1);
    join(start(signal_and_die, &site));
    result("wait", (int)(intptr_t)join(waiter), EOWNERDEAD);
    result("mutex is usable", probe(&mutex), 0);
}

/* ---- not owned, deeper than one level ---- */

static void not_owned(pthread_mutex_t *mutex) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    result("wait", pthread_cond_wait(&c, mutex), EPERM);
    result("timedwait", pthread_cond_timedwait(&c, mutex, &soon), EPERM);
    result("clockwait", pthread_cond_clockwait(&c, mutex, CLOCK_REALTIME, &soon), EPERM);
    result("mutex is free", BY_OTHER(probe, mutex), 0);
    result("cond is free", pthread_cond_destroy(&c), 0);
}

CASE(cond_errorcheck_not_owned, 10) {
    pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    not_owned(&mutex);
}

CASE(cond_recursive_not_owned, 10) {
    pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    not_owned(&mutex);
}

static int wait_on(pthread_mutex_t *mutex) {
    return pthread_cond_wait(&c, mutex);
}

CASE(cond_owned_by_other, 10) {
    pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    result("lock", pthread_mutex_lock(&mutex), 0);
    result("wait by other", BY_OTHER(wait_on, &mutex), EPERM);
    result("unlock", pthread_mutex_unlock(&mutex), 0);
}

/* glibc gives up one level only, so the mutex stays held during the wait. */
static void *wait_two_deep(void *arg) {
    pthread_mutex_t *mutex = arg;
    must(pthread_mutex_lock(mutex) == 0 && pthread_mutex_lock(mutex) == 0);
    set(&waiting, gettid());
    int error = pthread_cond_wait(&c, mutex);
    must(pthread_mutex_unlock(mutex) == 0);
    set(&woken, 1);
    await(&tickets, 1);
    must(pthread_mutex_unlock(mutex) == 0);
    return (void *)(intptr_t)error;
}

CASE(cond_recursive_two_deep, 10) {
    pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    pthread_t waiter = start(wait_two_deep, &mutex);
    await(&waiting, 1);
    settle(get(&waiting));
    sleep_ms(20);
    result("trylock during the wait", probe(&mutex), EBUSY);
    while (get(&woken) == 0) { /* the waiter may not be in the wait yet */
        must(pthread_cond_signal(&c) == 0);
        usleep(500);
    }
    result("trylock after one unlock", probe(&mutex), EBUSY);
    set(&tickets, 1);
    result("wait", (int)(intptr_t)join(waiter), 0);
    result("trylock after two unlocks", probe(&mutex), 0);
}

/* ---- destroy ---- */

CASE(mutex_busy_while_awaited, 10) {
    struct site site = {&m, &c};
    pthread_t waiter = start(take_ticket, &site);
    await_waiters(&site, 1);
    result("mutex is free", probe(&m), 0);
    result("destroy mutex during the wait", pthread_mutex_destroy(&m), EBUSY);
    issue(&site, 1, false);
    join(waiter);
    result("destroy mutex after the wait", pthread_mutex_destroy(&m), 0);
}

/* POSIX allows destroying a cond right after a broadcast, before the woken threads have left the call. */
CASE(destroy_right_after_broadcast, 30) {
    for (int i = 0; i < iterations(100); i++) {
        enum { WAITERS = 4 };
        pthread_t thread[WAITERS];
        pthread_cond_t *cond = malloc(sizeof *cond);
        struct site site = {&m, cond};
        must(pthread_cond_init(cond, NULL) == 0);
        waiting = tickets = 0;
        for (int k = 0; k < WAITERS; k++)
            thread[k] = start(take_ticket, &site);
        await_waiters(&site, WAITERS);
        must(pthread_mutex_lock(&m) == 0);
        tickets = WAITERS;
        must(pthread_cond_broadcast(cond) == 0);
        must(pthread_cond_destroy(cond) == 0);
        memset(cond, 0xff, sizeof *cond);
        free(cond);
        must(pthread_mutex_unlock(&m) == 0);
        for (int k = 0; k < WAITERS; k++)
            join(thread[k]);
    }
    yes("every round", true);
}

/* A stack-allocated cond per request: gone as soon as its one waiter has woken. */
static void *signal_once(void *arg) {
    struct site *site = arg;
    must(pthread_mutex_lock(site->mutex) == 0);
    tickets = 1;
    must(pthread_cond_signal(site->cond) == 0);
    must(pthread_mutex_unlock(site->mutex) == 0);
    return NULL;
}

CASE(cond_on_the_stack, 30) {
    for (int i = 0; i < iterations(300); i++) {
        pthread_cond_t cond;
        struct site site = {&m, &cond};
        must(pthread_cond_init(&cond, NULL) == 0);
        must(pthread_mutex_lock(&m) == 0);
        tickets = 0;
        pthread_t signaller = start(signal_once, &site);
        while (tickets == 0)
            must(pthread_cond_wait(&cond, &m) == 0);
        must(pthread_mutex_unlock(&m) == 0);
        must(pthread_cond_destroy(&cond) == 0);
        memset(&cond, 0xff, sizeof cond);
        join(signaller);
    }
    yes("every round", true);
}

/* glibc waits for ever for a waiter nobody wakes; a refusal is as good. The child's alarm bounds the wait. */
static void *wait_for_ever(void *arg) {
    take_ticket(arg);
    return NULL;
}

CASE(destroy_with_waiter, 10) {
    static struct site site = {&m, &c};
    int *outcome = shared_memory(sizeof *outcome);
    *outcome = -1;
    pid_t child = fork_child();
    if (child == 0) {
        start(wait_for_ever, &site);
        await_waiters(&site, 1);
        signal(SIGALRM, SIG_DFL);
        alarm(1);
        set(outcome, pthread_cond_destroy(&c));
        child_end();
    }
    child_ok(child);
    note("destroy", *outcome == -1 ? "never returns" : error_name(*outcome));
}
