/* Condition variables under load: herds, exact signals, ping-pong, queues, several conds on one mutex, processes. */
#include "suite.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_cond_t other = PTHREAD_COND_INITIALIZER;

static void lock(void) {
    must(pthread_mutex_lock(&m) == 0);
}

static void unlock(void) {
    must(pthread_mutex_unlock(&m) == 0);
}

/* ---- herd ---- */

enum { HERD = 64 };
static int generation, at_barrier, herd_rounds;

static void *herd_member(void *arg) {
    int members = *(int *)arg;
    for (int round = 0; round < herd_rounds; round++) {
        lock();
        int mine = generation;
        if (++at_barrier == members) {
            at_barrier = 0;
            generation++;
            must(pthread_cond_broadcast(&c) == 0);
        }
        while (generation == mine)
            must(pthread_cond_wait(&c, &m) == 0);
        unlock();
    }
    return NULL;
}

CASE(herd, 120) {
    int members = waiters_spin() ? 8 : HERD;
    pthread_t thread[HERD];
    herd_rounds = iterations(50);
    for (int i = 0; i < members; i++)
        thread[i] = start(herd_member, &members);
    for (int i = 0; i < members; i++)
        join(thread[i]);
    yes("all rounds done", generation == herd_rounds);
    result("destroy", pthread_cond_destroy(&c), 0);
}

/* A broadcast without the mutex held, to waiters that hold different amounts of patience. */
static int go, out;

static void *wait_go(void *arg) {
    struct timespec far = in_ms(CLOCK_MONOTONIC, 60000);
    lock();
    at_barrier++;
    while (!go)
        must((arg ? pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &far) : pthread_cond_wait(&c, &m)) == 0);
    out++;
    unlock();
    return NULL;
}

CASE(broadcast_without_mutex, 60) {
    pthread_t thread[16];
    int members = waiters_spin() ? 4 : 16;
    for (int round = 0; round < iterations(20); round++) {
        int ready = 0;
        at_barrier = go = out = 0;
        for (int i = 0; i < members; i++)
            thread[i] = start(wait_go, i % 2 ? &m : NULL);
        while (ready < members) {
            lock();
            ready = at_barrier;
            unlock();
        }
        lock();
        go = 1;
        unlock();
        must(pthread_cond_broadcast(&c) == 0);
        for (int i = 0; i < members; i++)
            join(thread[i]);
        must(out == members);
    }
    yes("every round", true);
}

/* ---- ping-pong ---- */

static int turn;

static void *pong(void *arg) {
    int rounds = *(int *)arg;
    for (int i = 0; i < rounds; i++) {
        lock();
        while (turn != 1)
            must(pthread_cond_wait(&c, &m) == 0);
        turn = 0;
        must(pthread_cond_signal(&other) == 0);
        unlock();
    }
    return NULL;
}

CASE(ping_pong, 60) {
    int rounds = iterations(5000);
    pthread_t thread = start(pong, &rounds);
    for (int i = 0; i < rounds; i++) {
        lock();
        turn = 1;
        must(pthread_cond_signal(&c) == 0);
        while (turn != 0)
            must(pthread_cond_wait(&other, &m) == 0);
        unlock();
    }
    join(thread);
    yes("every round", turn == 0);
}

/* ---- bounded queue ---- */

enum { ROOM = 4 };
static int queue[ROOM], head, tail;
static long sum;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static bool signal_outside;

static void *produce(void *arg) {
    int items = *(int *)arg;
    for (int i = 1; i <= items; i++) {
        lock();
        while (tail - head == ROOM)
            must(pthread_cond_wait(&not_full, &m) == 0);
        queue[tail++ % ROOM] = i;
        if (signal_outside) {
            unlock();
            must(pthread_cond_signal(&not_empty) == 0);
        } else {
            must(pthread_cond_signal(&not_empty) == 0);
            unlock();
        }
    }
    return NULL;
}

static void *consume(void *arg) {
    int items = *(int *)arg;
    for (int i = 0; i < items; i++) {
        lock();
        while (tail == head)
            must(pthread_cond_wait(&not_empty, &m) == 0);
        sum += queue[head++ % ROOM];
        must(pthread_cond_signal(&not_full) == 0);
        unlock();
    }
    return NULL;
}

static void run_queue(bool outside) {
    int items = iterations(5000);
    pthread_t thread[4];
    signal_outside = outside;
    for (int i = 0; i < 4; i++)
        thread[i] = start(i < 2 ? produce : consume, &items);
    for (int i = 0; i < 4; i++)
        join(thread[i]);
    yes("every item arrived", sum == (long)items * (items + 1) && head == tail);
}

CASE(queue_signal_inside, 60) { run_queue(false); }
CASE(queue_signal_outside, 60) { run_queue(true); }

/* ---- exactly one ---- */

static int credits, served;

static void *serve(void *arg) {
    int rounds = *(int *)arg;
    lock();
    for (int i = 0; i < rounds; i++) {
        while (credits == 0)
            must(pthread_cond_wait(&c, &m) == 0);
        credits--;
        served++;
    }
    unlock();
    return NULL;
}

/* As many signals as waits: a lost one leaves a thread behind. */
CASE(one_signal_one_thread, 60) {
    int rounds = iterations(3000), count = threads(4);
    pthread_t thread[4];
    for (int i = 0; i < count; i++)
        thread[i] = start(serve, &rounds);
    for (int i = 0; i < rounds * count; i++) {
        lock();
        credits++;
        must(pthread_cond_signal(&c) == 0);
        unlock();
        if (i % 16 == 0)
            sched_yield();
    }
    for (int i = 0; i < count; i++)
        join(thread[i]);
    yes("all served", served == rounds * count && credits == 0);
}

/* ---- several conds on one mutex, each thread its own ---- */

enum { SEATS = 8 };
static pthread_cond_t seat[SEATS];
static int at;

static void *sit(void *arg) {
    int me = (int)(intptr_t)arg, rounds = iterations(300), seats = threads(SEATS);
    for (int i = 0; i < rounds; i++) {
        lock();
        while (at != me)
            must(pthread_cond_wait(&seat[me], &m) == 0);
        at = (me + 1) % seats;
        must(pthread_cond_signal(&seat[at]) == 0);
        unlock();
    }
    return NULL;
}

CASE(conds_in_a_ring, 60) {
    pthread_t thread[SEATS];
    int seats = threads(SEATS);
    for (int i = 0; i < seats; i++)
        must(pthread_cond_init(&seat[i], NULL) == 0);
    for (int i = 0; i < seats; i++)
        thread[i] = start(sit, (void *)(intptr_t)i);
    for (int i = 0; i < seats; i++)
        join(thread[i]);
    yes("round the ring", at == 0);
    for (int i = 0; i < seats; i++)
        must(pthread_cond_destroy(&seat[i]) == 0);
}

/* ---- one cond used with different mutexes at different times ---- */

CASE(cond_changes_mutex, 20) {
    pthread_mutex_t second = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    struct timespec when = {1, 0};
    lock();
    result("with the first", pthread_cond_timedwait(&c, &m, &when), ETIMEDOUT);
    unlock();
    must(pthread_mutex_lock(&second) == 0);
    result("with the second", pthread_cond_timedwait(&c, &second, &when), ETIMEDOUT);
    result("unlock the second", pthread_mutex_unlock(&second), 0);
    result("destroy the second", pthread_mutex_destroy(&second), 0);
}

/* ---- between processes ---- */

struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int turn, waiting;
};

static struct shared *make_shared(void) {
    struct shared *s = shared_memory(sizeof *s);
    pthread_mutexattr_t mutex_attr;
    pthread_condattr_t cond_attr;
    must(pthread_mutexattr_init(&mutex_attr) == 0 && pthread_condattr_init(&cond_attr) == 0);
    must(pthread_mutexattr_setpshared(&mutex_attr, PTHREAD_PROCESS_SHARED) == 0);
    must(pthread_condattr_setpshared(&cond_attr, PTHREAD_PROCESS_SHARED) == 0);
    result("init mutex", pthread_mutex_init(&s->mutex, &mutex_attr), 0);
    result("init cond", pthread_cond_init(&s->cond, &cond_attr), 0);
    return s;
}

static void alternate(struct shared *s, int me, int rounds) {
    for (int i = 0; i < rounds; i++) {
        must(pthread_mutex_lock(&s->mutex) == 0);
        while (s->turn != me)
            must(pthread_cond_wait(&s->cond, &s->mutex) == 0);
        s->turn = !me;
        must(pthread_cond_broadcast(&s->cond) == 0);
        must(pthread_mutex_unlock(&s->mutex) == 0);
    }
}

CASE(shared_ping_pong, 60) {
    struct shared *s = make_shared();
    int rounds = iterations(2000);
    pid_t child = fork_child();
    if (child == 0) {
        alternate(s, 1, rounds);
        child_end();
    }
    alternate(s, 0, rounds);
    yes("child ended", child_ok(child));
    result("destroy cond", pthread_cond_destroy(&s->cond), 0);
    result("destroy mutex", pthread_mutex_destroy(&s->mutex), 0);
}

CASE(shared_timedwait, 20) {
    struct shared *s = make_shared();
    struct timespec when = in_ms(CLOCK_REALTIME, 20);
    must(pthread_mutex_lock(&s->mutex) == 0);
    result("timedwait", pthread_cond_timedwait(&s->cond, &s->mutex, &when), ETIMEDOUT);
    when = in_ms(CLOCK_MONOTONIC, 20);
    result("clockwait", pthread_cond_clockwait(&s->cond, &s->mutex, CLOCK_MONOTONIC, &when), ETIMEDOUT);
    when.tv_nsec = -1;
    result("bad nanoseconds", pthread_cond_timedwait(&s->cond, &s->mutex, &when), EINVAL);
    result("unlock", pthread_mutex_unlock(&s->mutex), 0);
}

CASE(shared_broadcast, 30) {
    struct shared *s = make_shared();
    pid_t child[4];
    for (int i = 0; i < 4; i++) {
        child[i] = fork_child();
        if (child[i] == 0) {
            must(pthread_mutex_lock(&s->mutex) == 0);
            add(&s->waiting, 1);
            while (!s->turn)
                must(pthread_cond_wait(&s->cond, &s->mutex) == 0);
            must(pthread_mutex_unlock(&s->mutex) == 0);
            child_end();
        }
    }
    await(&s->waiting, 4);
    must(pthread_mutex_lock(&s->mutex) == 0);
    s->turn = 1;
    must(pthread_mutex_unlock(&s->mutex) == 0);
    result("broadcast", pthread_cond_broadcast(&s->cond), 0);
    for (int i = 0; i < 4; i++)
        yes("child woke", child_ok(child[i]));
}
