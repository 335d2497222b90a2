/* Many mutexes, many threads: contention, any order of release, hand-over between threads, thread exit, crowds. */
#include "suite.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static long counter;
static int arrived;

static int lock_unlock(pthread_mutex_t *mutex) {
    int error = pthread_mutex_lock(mutex);
    return error != 0 ? error : pthread_mutex_unlock(mutex);
}

/* ---- contention ---- */

struct contest {
    pthread_mutex_t mutex;
    int rounds;
    int way; /* 0 lock, 1 trylock loop, 2 timedlock, 3 a mixture */
    int inside;
    int overlaps;
    long counter;
};

static int take(struct contest *c, int i) {
    int way = c->way == 3 ? i % 3 : c->way;
    struct timespec far = in_ms(CLOCK_REALTIME, 60000);
    int error;
    switch (way) {
    case 0: return pthread_mutex_lock(&c->mutex);
    case 1:
        while ((error = pthread_mutex_trylock(&c->mutex)) == EBUSY)
            sched_yield();
        return error;
    default: return pthread_mutex_timedlock(&c->mutex, &far);
    }
}

static void *compete(void *arg) {
    struct contest *c = arg;
    for (int i = 0; i < c->rounds; i++) {
        must(take(c, i) == 0);
        if (add(&c->inside, 1) != 1)
            add(&c->overlaps, 1);
        c->counter++;
        add(&c->inside, -1);
        must(pthread_mutex_unlock(&c->mutex) == 0);
    }
    return NULL;
}

static void contest(int type, int way, int full_rounds) {
    pthread_mutexattr_t attr;
    struct contest c = {.rounds = iterations(full_rounds), .way = way};
    pthread_t thread[4];
    int count = threads(4);
    must(pthread_mutexattr_init(&attr) == 0 && pthread_mutexattr_settype(&attr, type) == 0);
    must(pthread_mutex_init(&c.mutex, &attr) == 0);
    for (int i = 0; i < count; i++)
        thread[i] = start(compete, &c);
    for (int i = 0; i < count; i++)
        join(thread[i]);
    yes("never two inside", c.overlaps == 0);
    yes("no increment lost", c.counter == (long)c.rounds * count);
    result("destroy", pthread_mutex_destroy(&c.mutex), 0);
}

CASE(contest_normal, 60) { contest(PTHREAD_MUTEX_NORMAL, 0, 50000); }
CASE(contest_recursive, 60) { contest(PTHREAD_MUTEX_RECURSIVE, 0, 20000); }
CASE(contest_errorcheck, 60) { contest(PTHREAD_MUTEX_ERRORCHECK, 0, 20000); }
CASE(contest_adaptive, 60) { contest(PTHREAD_MUTEX_ADAPTIVE_NP, 0, 20000); }
CASE(contest_trylock, 60) { contest(PTHREAD_MUTEX_NORMAL, 1, 10000); }
CASE(contest_timedlock, 60) { contest(PTHREAD_MUTEX_NORMAL, 2, 10000); }
CASE(contest_mixture, 60) { contest(PTHREAD_MUTEX_NORMAL, 3, 10000); }
CASE(contest_mixture_recursive, 60) { contest(PTHREAD_MUTEX_RECURSIVE, 3, 10000); }
CASE(contest_mixture_errorcheck, 60) { contest(PTHREAD_MUTEX_ERRORCHECK, 3, 10000); }

/* ---- many mutexes ---- */

enum { HELD = 10000 };
static pthread_mutex_t many[HELD];

static void hold_many(int step) {
    int errors = 0;
    for (int i = 0; i < HELD; i++)
        errors += pthread_mutex_lock(&many[i]) != 0;
    yes("all locked", errors == 0);
    for (int i = 0; i < HELD; i += 997)
        errors += BY_OTHER(pthread_mutex_trylock, &many[i]) != EBUSY;
    for (int i = 0, at = 0; i < HELD; i++, at = (at + step) % HELD)
        errors += pthread_mutex_unlock(&many[at]) != 0;
    yes("all unlocked", errors == 0);
    for (int i = 0; i < HELD; i++)
        errors += pthread_mutex_trylock(&many[i]) != 0 || pthread_mutex_unlock(&many[i]) != 0;
    yes("all free", errors == 0);
}

/* Steps coprime to 10,000 visit every mutex: first to last, last to first, scattered. */
CASE(many_held_in_order, 20) { hold_many(1); }
CASE(many_held_reverse, 20) { hold_many(HELD - 1); }
CASE(many_held_scattered, 20) { hold_many(3337); }

/* Several threads hold overlapping windows of mutexes and let go in another order than they took them. */
static void *windows(void *arg) {
    unsigned seed = (unsigned)(uintptr_t)arg;
    int rounds = iterations(2000);
    for (int i = 0; i < rounds; i++) {
        int first = (int)(rand_r(&seed) % 8);
        for (int k = 0; k < 4; k++)
            must(pthread_mutex_lock(&many[first + k]) == 0);
        must(pthread_mutex_lock(&many[20]) == 0);
        counter++;
        const int order[] = {2, 0, 3, 1};
        for (int k = 0; k < 2; k++)
            must(pthread_mutex_unlock(&many[first + order[k]]) == 0);
        must(pthread_mutex_unlock(&many[20]) == 0);
        for (int k = 2; k < 4; k++)
            must(pthread_mutex_unlock(&many[first + order[k]]) == 0);
    }
    return NULL;
}

CASE(out_of_order_contended, 60) {
    pthread_t thread[4];
    int count = threads(4);
    for (int i = 0; i < count; i++)
        thread[i] = start(windows, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < count; i++)
        join(thread[i]);
    yes("no increment lost", counter == (long)count * iterations(2000));
}

/* ---- hand-over and exit ---- */

static void *lock_and_exit(void *arg) {
    return (void *)(intptr_t)pthread_mutex_lock(arg);
}

CASE(unlock_after_locker_exited, 30) {
    int errors = 0;
    for (int i = 0; i < iterations(300); i++) {
        errors += join(start(lock_and_exit, &m)) != NULL;
        errors += pthread_mutex_trylock(&m) != EBUSY;
        errors += pthread_mutex_unlock(&m) != 0;
        errors += lock_unlock(&m) != 0;
    }
    yes("no errors", errors == 0);
}

static void *wait_for_it(void *arg) {
    set(&arrived, gettid());
    return (void *)(intptr_t)lock_unlock(arg);
}

CASE(unlock_by_other_with_waiter, 30) {
    int errors = 0;
    for (int i = 0; i < iterations(100); i++) {
        set(&arrived, 0);
        errors += join(start(lock_and_exit, &m)) != NULL;
        pthread_t waiter = start(wait_for_it, &m);
        await(&arrived, 1);
        if (i % 2)
            settle(get(&arrived));
        errors += BY_OTHER(pthread_mutex_unlock, &m) != 0;
        errors += join(waiter) != NULL;
    }
    yes("waiter always got it", errors == 0);
    result("free at the end", lock_unlock(&m), 0);
}

/* A baton passed round: each thread unlocks the mutex its neighbour locked. */
enum { RING = 4 };
static pthread_mutex_t ring[RING];

static void *pass_baton(void *arg) {
    int me = (int)(intptr_t)arg;
    for (int i = 0; i < iterations(500); i++) {
        must(pthread_mutex_lock(&ring[me]) == 0);
        counter++;
        must(pthread_mutex_unlock(&ring[(me + 1) % RING]) == 0);
    }
    return NULL;
}

CASE(baton_ring, 60) {
    pthread_t thread[RING];
    for (int i = 1; i < RING; i++)
        must(pthread_mutex_lock(&ring[i]) == 0);
    for (int i = 0; i < RING; i++)
        thread[i] = start(pass_baton, (void *)(intptr_t)i);
    for (int i = 0; i < RING; i++)
        join(thread[i]);
    yes("every round passed", counter == (long)RING * iterations(500));
}

static void *exit_holding_errorcheck(void *arg) {
    return (void *)(intptr_t)pthread_mutex_lock(arg);
}

CASE(owner_exited_errorcheck, 10) {
    pthread_mutex_t e = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    join(start(exit_holding_errorcheck, &e));
    result("trylock", pthread_mutex_trylock(&e), EBUSY);
    result("unlock", pthread_mutex_unlock(&e), EPERM);
    result("destroy", pthread_mutex_destroy(&e), EBUSY);
}

/* ---- crowds ---- */

static void *short_life(void *arg) {
    (void)arg;
    must(pthread_mutex_lock(&m) == 0);
    counter++;
    must(pthread_mutex_unlock(&m) == 0);
    return NULL;
}

/* Thread ids, stacks and TLS are recycled all the time. */
CASE(short_lived_threads, 60) {
    int total = iterations(5000);
    for (int i = 0; i < total; i++)
        join(start(short_life, NULL));
    yes("each one counted", counter == total);
}

CASE(short_lived_threads_in_pairs, 60) {
    int total = iterations(2000);
    for (int i = 0; i < total; i++) {
        pthread_t a = start(short_life, NULL), b = start(short_life, NULL);
        join(a);
        join(b);
    }
    yes("each one counted", counter == 2L * total);
}

/* More threads wait at once than any fixed table of threads would hold. */
CASE(crowd_of_waiters, 120) {
    enum { CROWD = 1200 };
    int count = waiters_spin() ? 24 : CROWD;
    pthread_attr_t attr;
    static pthread_t thread[CROWD];
    must(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 16384 * 2) == 0);
    must(pthread_mutex_lock(&m) == 0);
    for (int i = 0; i < count; i++)
        must(pthread_create(&thread[i], &attr, short_life, NULL) == 0);
    sleep_ms(20);
    yes("none got in", counter == 0);
    must(pthread_mutex_unlock(&m) == 0);
    for (int i = 0; i < count; i++)
        join(thread[i]);
    yes("all got in", counter == count);
    result("free at the end", lock_unlock(&m), 0);
}

/* Threads that keep their own lock while they wait for another: as many held nodes as waiting ones. */
static void *nested_wait(void *arg) {
    must(pthread_mutex_lock(arg) == 0);
    add(&arrived, 1);
    must(pthread_mutex_lock(&m) == 0);
    counter++;
    must(pthread_mutex_unlock(&m) == 0);
    must(pthread_mutex_unlock(arg) == 0);
    return NULL;
}

CASE(crowd_holding_and_waiting, 60) {
    enum { CROWD = 200 };
    int count = waiters_spin() ? 8 : CROWD;
    pthread_t thread[CROWD];
    must(pthread_mutex_lock(&m) == 0);
    for (int i = 0; i < count; i++)
        thread[i] = start(nested_wait, &many[i]);
    await(&arrived, count);
    int errors = 0;
    for (int i = 0; i < count; i++)
        errors += pthread_mutex_trylock(&many[i]) != EBUSY;
    yes("each holds its own", errors == 0);
    must(pthread_mutex_unlock(&m) == 0);
    for (int i = 0; i < count; i++)
        join(thread[i]);
    yes("all got in", counter == count);
}

/* Init, contend, destroy in the same memory over and over: stale waiter state would show. */
CASE(recycled_memory, 60) {
    union {
        pthread_mutex_t mutex;
        unsigned char bytes[sizeof(pthread_mutex_t)];
    } *u = malloc(sizeof *u);
    for (int i = 0; i < iterations(200); i++) {
        memset(u->bytes, i, sizeof u->bytes);
        must(pthread_mutex_init(&u->mutex, NULL) == 0);
        set(&arrived, 0);
        must(pthread_mutex_lock(&u->mutex) == 0);
        pthread_t waiter = start(wait_for_it, &u->mutex);
        await(&arrived, 1);
        must(pthread_mutex_unlock(&u->mutex) == 0);
        must(join(waiter) == NULL);
        must(pthread_mutex_destroy(&u->mutex) == 0);
    }
    free(u);
    yes("every round", true);
}
