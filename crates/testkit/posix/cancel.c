/* Thread cancellation in condition waits: the clean-up handler owns the mutex, and no signal is lost. */
#include "suite.h"

static pthread_mutex_t m = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;

enum way { WAIT, TIMEDWAIT, CLOCKWAIT_MONOTONIC, CLOCKWAIT_REALTIME };

struct waiter {
    pthread_mutex_t *mutex;
    enum way way;
    int disabled;        /* cancellation is disabled around the wait */
    int pending_first;   /* the cancel arrives before the wait begins */
    int expired;         /* the deadline is long past */
    int asynchronous;    /* cancellation type */
    int entered, go;     /* progress */
    int wait_result;     /* -1 until the wait returns */
    int owned;           /* in the handler: the outcome of unlocking, -1 when it never ran */
    int held;            /* in the handler: the outcome of another thread's trylock */
    int tid;
};

static const struct waiter FRESH = {.wait_result = -1, .owned = -1, .held = -1};

static int probe(pthread_mutex_t *mutex) {
    int error = pthread_mutex_trylock(mutex);
    if (error == 0)
        must(pthread_mutex_unlock(mutex) == 0);
    return error;
}

static void clean_up(void *arg) {
    struct waiter *w = arg;
    w->held = BY_OTHER(probe, w->mutex);
    w->owned = pthread_mutex_unlock(w->mutex);
}

static int wait_once(struct waiter *w) {
    clockid_t clock = w->way == CLOCKWAIT_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    struct timespec when = w->expired ? (struct timespec){1, 0} : in_ms(clock, 60000);
    switch (w->way) {
    case WAIT: return pthread_cond_wait(&c, w->mutex);
    case TIMEDWAIT: return pthread_cond_timedwait(&c, w->mutex, &when);
    default: return pthread_cond_clockwait(&c, w->mutex, clock, &when);
    }
}

static void *cancellable(void *arg) {
    struct waiter *w = arg;
    int old;
    w->tid = gettid();
    if (w->disabled || w->pending_first)
        must(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0);
    must(pthread_mutex_lock(w->mutex) == 0);
    set(&w->entered, 1);
    pthread_cleanup_push(clean_up, w);
    if (w->pending_first) {
        await(&w->go, 1);
        must(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old) == 0);
    }
    if (w->asynchronous)
        must(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old) == 0);
    w->wait_result = wait_once(w);
    if (w->disabled) {
        must(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old) == 0);
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    must(pthread_mutex_unlock(w->mutex) == 0);
    return NULL;
}

/* The waiter holds the mutex from before `entered` until it waits: owning the mutex proves that it waits. */
static void await_in_wait(struct waiter *w) {
    await(&w->entered, 1);
    must(pthread_mutex_lock(w->mutex) == 0);
    must(pthread_mutex_unlock(w->mutex) == 0);
}

static bool cancelled_properly(struct waiter *w, void *value) {
    return value == PTHREAD_CANCELED && w->wait_result == -1 && w->owned == 0 && w->held == EBUSY;
}

static void cancel_many(pthread_mutex_t *mutex, enum way way, int full_rounds) {
    int good = 0, rounds = iterations(full_rounds);
    for (int i = 0; i < rounds; i++) {
        struct waiter w = FRESH;
        w.mutex = mutex;
        w.way = way;
        pthread_t thread = start(cancellable, &w);
        if (i % 4 != 3) /* else the cancel meets it anywhere on its way: it acts in the wait all the same */
            await_in_wait(&w);
        if (i % 4 == 1)
            settle(w.tid);
        must(pthread_cancel(thread) == 0);
        void *value = join(thread);
        good += cancelled_properly(&w, value);
    }
    yes("cancelled with the mutex held, every time", good == rounds);
    result("mutex is free at the end", BY_OTHER(probe, mutex), 0);
    result("destroy mutex", pthread_mutex_destroy(mutex), 0);
    result("destroy cond", pthread_cond_destroy(&c), 0);
}

CASE(cancel_wait, 60) { cancel_many(&m, WAIT, 200); }
CASE(cancel_wait_plain, 60) { cancel_many(&plain, WAIT, 200); }
CASE(cancel_timedwait, 60) { cancel_many(&m, TIMEDWAIT, 200); }
CASE(cancel_clockwait_monotonic, 60) { cancel_many(&m, CLOCKWAIT_MONOTONIC, 100); }
CASE(cancel_clockwait_realtime, 60) { cancel_many(&m, CLOCKWAIT_REALTIME, 100); }

CASE(cancel_wait_recursive, 30) {
    pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    cancel_many(&recursive, WAIT, 100);
}

CASE(cancel_wait_robust, 30) {
    pthread_mutexattr_t attr;
    pthread_mutex_t robust;
    must(pthread_mutexattr_init(&attr) == 0);
    must(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0);
    must(pthread_mutex_init(&robust, &attr) == 0);
    cancel_many(&robust, WAIT, 50);
}

/* ---- disabled, pending, asynchronous ---- */

CASE(cancel_disabled, 30) {
    for (enum way way = WAIT; way <= CLOCKWAIT_REALTIME; way++) {
        struct waiter w = FRESH;
        w.mutex = &m;
        w.way = way;
        w.disabled = 1;
        pthread_t thread = start(cancellable, &w);
        await_in_wait(&w);
        settle(w.tid);
        result("cancel", pthread_cancel(thread), 0);
        sleep_ms(10);
        yes("still waiting", w.owned == -1);
        do { /* a wake-up that is not ours would be spurious, and allowed */
            must(pthread_cond_broadcast(&c) == 0);
            usleep(500);
        } while (get(&w.wait_result) == -1);
        yes("cancelled once enabled", join(thread) == PTHREAD_CANCELED);
        result("wait returned", w.wait_result, 0);
        result("handler owned the mutex", w.owned, 0);
    }
}

static void pending(enum way way, int expired) {
    int good = 0, rounds = iterations(50);
    for (int i = 0; i < rounds; i++) {
        struct waiter w = FRESH;
        w.mutex = &m;
        w.way = way;
        w.pending_first = 1;
        w.expired = expired;
        pthread_t thread = start(cancellable, &w);
        await(&w.entered, 1);
        must(pthread_cancel(thread) == 0);
        set(&w.go, 1);
        void *value = join(thread);
        good += cancelled_properly(&w, value);
    }
    yes("cancelled with the mutex held, every time", good == rounds);
}

CASE(cancel_pending_wait, 30) { pending(WAIT, 0); }
CASE(cancel_pending_timedwait, 30) { pending(TIMEDWAIT, 0); }
CASE(cancel_pending_clockwait, 30) { pending(CLOCKWAIT_MONOTONIC, 0); }
CASE(cancel_pending_and_expired, 30) { pending(TIMEDWAIT, 1); }

/* Not promised by POSIX, but programs set this type for whole threads. */
CASE(cancel_asynchronous_type, 30) {
    int good = 0, rounds = iterations(50);
    for (int i = 0; i < rounds; i++) {
        struct waiter w = FRESH;
        w.mutex = &m;
        w.asynchronous = 1;
        pthread_t thread = start(cancellable, &w);
        await_in_wait(&w);
        settle(w.tid);
        must(pthread_cancel(thread) == 0);
        void *value = join(thread);
        good += cancelled_properly(&w, value);
    }
    /* POSIX leaves it undefined: the comparison with glibc judges. */
    note("cancelled with the mutex held, every time", good == rounds ? "yes" : "no");
}

/* ---- what is no cancellation point ---- */

static int reached;

static void *lock_with_pending_cancel(void *arg) {
    int old;
    pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
    pthread_spinlock_t spin;
    must(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0);
    set(&reached, 1);
    await(&reached, 2);
    must(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old) == 0);
    must(pthread_mutex_lock(arg) == 0); /* contended */
    must(pthread_cond_signal(&c) == 0 && pthread_cond_broadcast(&c) == 0);
    must(pthread_mutex_unlock(arg) == 0);
    must(pthread_rwlock_rdlock(&rw) == 0 && pthread_rwlock_unlock(&rw) == 0);
    must(pthread_rwlock_wrlock(&rw) == 0 && pthread_rwlock_unlock(&rw) == 0);
    must(pthread_spin_init(&spin, 0) == 0 && pthread_spin_lock(&spin) == 0 && pthread_spin_unlock(&spin) == 0);
    set(&reached, 3);
    pthread_testcancel();
    set(&reached, 4);
    return NULL;
}

CASE(locking_is_no_cancellation_point, 20) {
    must(pthread_mutex_lock(&m) == 0);
    pthread_t thread = start(lock_with_pending_cancel, &m);
    await(&reached, 1);
    must(pthread_cancel(thread) == 0);
    set(&reached, 2);
    sleep_ms(10);
    must(pthread_mutex_unlock(&m) == 0);
    yes("cancelled", join(thread) == PTHREAD_CANCELED);
    yes("at testcancel, not before", reached == 3);
}

static void *lock_and_be_cancelled(void *arg) {
    set(&reached, gettid());
    must(pthread_mutex_lock(arg) == 0);
    set(&reached, -1);
    must(pthread_mutex_unlock(arg) == 0);
    pthread_testcancel();
    return NULL;
}

CASE(cancel_while_blocked_in_lock, 30) {
    int good = 0, rounds = iterations(50);
    for (int i = 0; i < rounds; i++) {
        set(&reached, 0);
        must(pthread_mutex_lock(&m) == 0);
        pthread_t thread = start(lock_and_be_cancelled, &m);
        await(&reached, 1);
        settle(get(&reached));
        must(pthread_cancel(thread) == 0);
        must(pthread_mutex_unlock(&m) == 0);
        good += join(thread) == PTHREAD_CANCELED && reached == -1;
    }
    yes("locked first, cancelled after", good == rounds);
    result("mutex is free at the end", BY_OTHER(probe, &m), 0);
}

/* Other cancellation points still work with our pthread_cancel in between. */
static void *sleep_long(void *arg) {
    set(arg, 1);
    for (;;)
        pause();
    return NULL;
}

CASE(cancel_in_system_call, 20) {
    for (int i = 0; i < 10; i++) {
        int ready = 0;
        pthread_t thread = start(sleep_long, &ready);
        await(&ready, 1);
        result("cancel", pthread_cancel(thread), 0);
        yes("cancelled", join(thread) == PTHREAD_CANCELED);
    }
}

static void *cancel_self(void *arg) {
    struct waiter *w = arg;
    must(pthread_mutex_lock(w->mutex) == 0);
    pthread_cleanup_push(clean_up, w);
    must(pthread_cancel(pthread_self()) == 0);
    w->wait_result = wait_once(w);
    pthread_cleanup_pop(0);
    return NULL;
}

CASE(cancel_self_then_wait, 20) {
    struct waiter w = FRESH;
    w.mutex = &m;
    void *value = join(start(cancel_self, &w));
    yes("cancelled with the mutex held", cancelled_properly(&w, value));
}

/* ---- cancellation and signal at the same time ---- */

static int waiting, tickets, taken;

static void drop(void *arg) {
    must(pthread_mutex_unlock(arg) == 0);
}

static void *take_ticket(void *arg) {
    (void)arg;
    must(pthread_mutex_lock(&plain) == 0);
    pthread_cleanup_push(drop, &plain);
    add(&waiting, 1);
    while (tickets == 0)
        must(pthread_cond_wait(&c, &plain) == 0);
    tickets--;
    taken++;
    pthread_cleanup_pop(1);
    return NULL;
}

static void *cancel_it(void *arg) {
    pthread_t *victim = arg;
    await(&waiting, 3);
    (void)pthread_cancel(*victim);
    return NULL;
}

/*
 * Two wait, one is cancelled while one signal is sent. A cancelled thread must not eat the signal the other
 * needs: the ticket is always taken.
 */
CASE(cancel_races_with_signal, 60) {
    int good = 0, rounds = iterations(400);
    for (int i = 0; i < rounds; i++) {
        set(&waiting, 0);
        tickets = taken = 0;
        pthread_t victim = start(take_ticket, NULL), other = start(take_ticket, NULL);
        pthread_t killer = start(cancel_it, &victim);
        await(&waiting, 2);
        must(pthread_mutex_lock(&plain) == 0); /* both wait now */
        must(pthread_mutex_unlock(&plain) == 0);
        add(&waiting, 1);
        for (volatile int spin = 0; spin < i % 50 * 20; spin++)
            ;
        must(pthread_mutex_lock(&plain) == 0);
        tickets = 1;
        must(pthread_cond_signal(&c) == 0);
        must(pthread_mutex_unlock(&plain) == 0);
        join(killer);
        bool cancelled = join(victim) == PTHREAD_CANCELED;
        if (!cancelled) { /* the victim took the ticket: the other needs one of its own */
            must(pthread_mutex_lock(&plain) == 0);
            tickets++;
            must(pthread_cond_signal(&c) == 0);
            must(pthread_mutex_unlock(&plain) == 0);
        }
        must(join(other) == NULL);
        good += taken == (cancelled ? 1 : 2) && tickets == 0;
    }
    yes("every ticket taken", good == rounds);
}

/* Half of a crowd is cancelled during a broadcast; nobody stays behind, nothing stays locked. */
CASE(cancel_races_with_broadcast, 60) {
    enum { CROWD = 8 };
    for (int i = 0; i < iterations(50); i++) {
        pthread_t thread[CROWD];
        int members = waiters_spin() ? 4 : CROWD;
        set(&waiting, 0);
        tickets = 0;
        for (int k = 0; k < members; k++)
            thread[k] = start(take_ticket, NULL);
        await(&waiting, members);
        must(pthread_mutex_lock(&plain) == 0);
        tickets = members;
        must(pthread_cond_broadcast(&c) == 0);
        must(pthread_mutex_unlock(&plain) == 0);
        for (int k = 0; k < members; k += 2)
            (void)pthread_cancel(thread[k]);
        for (int k = 0; k < members; k++)
            join(thread[k]);
        must(pthread_mutex_trylock(&plain) == 0 && pthread_mutex_unlock(&plain) == 0);
    }
    result("destroy cond", pthread_cond_destroy(&c), 0);
    result("destroy mutex", pthread_mutex_destroy(&plain), 0);
}

/* Cancelled while it waits to get the mutex back: the wait ends with the mutex held all the same. */
CASE(cancel_while_relocking, 30) {
    int good = 0, rounds = iterations(50);
    for (int i = 0; i < rounds; i++) {
        struct waiter w = FRESH;
        w.mutex = &m;
        pthread_t thread = start(cancellable, &w);
        await_in_wait(&w);
        must(pthread_mutex_lock(&m) == 0);
        must(pthread_cond_signal(&c) == 0);
        usleep(i % 2 ? 0 : 1000);
        must(pthread_cancel(thread) == 0);
        must(pthread_mutex_unlock(&m) == 0);
        void *value = join(thread);
        /* Either the signal won and the wait returned, or it was cancelled; owned in both cases. */
        good += w.wait_result == 0 ? value == NULL : cancelled_properly(&w, value);
        must(BY_OTHER(probe, &m) == 0);
    }
    yes("owned the mutex, every time", good == rounds);
}
