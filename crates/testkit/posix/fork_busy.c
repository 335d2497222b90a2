/* fork() while other threads hammer locks, with the handlers that libraries register by pthread_atfork(). */
#include "suite.h"

#include <sys/wait.h>

enum { LOCKS = 4 };
static pthread_mutex_t guarded[LOCKS];
static pthread_mutex_t unguarded = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static int stop, prepared, in_parent, in_child;
static bool anew;

static void prepare(void) {
    for (int i = 0; i < LOCKS; i++)
        must(pthread_mutex_lock(&guarded[i]) == 0);
    prepared++;
}

static void parent(void) {
    for (int i = LOCKS; i-- > 0;)
        must(pthread_mutex_unlock(&guarded[i]) == 0);
    in_parent++;
}

static void child(void) {
    for (int i = LOCKS; i-- > 0;)
        must((anew ? pthread_mutex_init(&guarded[i], NULL) : pthread_mutex_unlock(&guarded[i])) == 0);
    in_child++;
}

static void *hammer(void *arg) {
    unsigned seed = (unsigned)(uintptr_t)arg;
    while (!get(&stop)) {
        pthread_mutex_t *m = &guarded[rand_r(&seed) % LOCKS];
        must(pthread_mutex_lock(m) == 0);
        must(pthread_mutex_unlock(m) == 0);
        must(pthread_mutex_lock(&unguarded) == 0);
        if (rand_r(&seed) % 8 == 0) {
            struct timespec soon = in_ms(CLOCK_MONOTONIC, 1);
            int error = pthread_cond_clockwait(&cond, &unguarded, CLOCK_MONOTONIC, &soon);
            must(error == 0 || error == ETIMEDOUT);
        } else
            must(pthread_cond_signal(&cond) == 0);
        must(pthread_mutex_unlock(&unguarded) == 0);
        must((rand_r(&seed) % 4 ? pthread_rwlock_rdlock : pthread_rwlock_wrlock)(&rw) == 0);
        must(pthread_rwlock_unlock(&rw) == 0);
    }
    return NULL;
}

static long counter;

static void *count_up(void *arg) {
    (void)arg;
    for (int i = 0; i < 100; i++)
        for (int k = 0; k < LOCKS; k++) {
            must(pthread_mutex_lock(&guarded[k]) == 0);
            if (k == 0)
                counter++;
            must(pthread_mutex_unlock(&guarded[k]) == 0);
        }
    return NULL;
}

/* In the child: what the handlers freed works, and so do fresh objects and objects made anew. */
static void live_on(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    struct timespec soon = in_ms(CLOCK_MONOTONIC, 1);
    must(in_child == 1);
    set(&stop, 1);
    pthread_t a = start(count_up, NULL), b = start(count_up, NULL);
    join(a);
    join(b);
    must(counter == 200);
    must(pthread_mutex_lock(&fresh) == 0 && pthread_mutex_unlock(&fresh) == 0);
    must(pthread_mutex_init(&unguarded, NULL) == 0);
    must(pthread_cond_init(&cond, NULL) == 0);
    must(pthread_rwlock_init(&rw, NULL) == 0);
    must(pthread_mutex_lock(&unguarded) == 0);
    must(pthread_cond_clockwait(&cond, &unguarded, CLOCK_MONOTONIC, &soon) == ETIMEDOUT);
    must(pthread_mutex_unlock(&unguarded) == 0);
    must(pthread_rwlock_wrlock(&rw) == 0 && pthread_rwlock_unlock(&rw) == 0);
    child_end();
}

static void busy(bool init) {
    pthread_t thread[3];
    int count = threads(3), good = 0, rounds = iterations(60);
    anew = init;
    for (int i = 0; i < LOCKS; i++)
        must(pthread_mutex_init(&guarded[i], NULL) == 0);
    must(pthread_atfork(prepare, parent, child) == 0);
    for (int i = 0; i < count; i++)
        thread[i] = start(hammer, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < rounds; i++) {
        pid_t pid = fork_child();
        if (pid == 0)
            live_on();
        good += child_ok(pid);
    }
    set(&stop, 1);
    for (int i = 0; i < count; i++)
        join(thread[i]);
    yes("every child ended", good == rounds);
    yes("handlers ran", prepared == rounds && in_parent == rounds && in_child == 0);
}

CASE(atfork_unlocks, 120) { busy(false); }
CASE(atfork_inits, 120) { busy(true); }

/* Handlers see every kind of lock; they run in the order POSIX gives. */
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER;
static char order[16];

static void step(char c) {
    must(pthread_mutex_lock(&order_lock) == 0);
    order[strlen(order)] = c;
    must(pthread_mutex_unlock(&order_lock) == 0);
}

static void prepare_a(void) { must(pthread_mutex_lock(&recursive) == 0); step('a'); }
static void prepare_b(void) { step('b'); }
static void after_a(void) { step('A'); must(pthread_mutex_unlock(&recursive) == 0); }
static void after_b(void) { step('B'); }
static void child_a(void) { step('A'); must(pthread_mutex_init(&recursive, NULL) == 0); }

CASE(atfork_order, 20) {
    must(pthread_atfork(prepare_a, after_a, child_a) == 0);
    must(pthread_atfork(prepare_b, after_b, after_b) == 0);
    pid_t pid = fork_child();
    if (pid == 0) {
        must(strcmp(order, "baAB") == 0);
        must(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
        child_end();
    }
    yes("child saw the order", child_ok(pid));
    note("parent's order", order);
}

/* Several threads fork at once. */
static void *forker(void *arg) {
    int rounds = *(int *)arg;
    long good = 0;
    for (int i = 0; i < rounds; i++) {
        pid_t pid = fork_child();
        if (pid == 0) {
            pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
            must(pthread_mutex_lock(&fresh) == 0 && pthread_mutex_unlock(&fresh) == 0);
            must(pthread_mutex_init(&unguarded, NULL) == 0);
            must(pthread_mutex_lock(&unguarded) == 0 && pthread_mutex_unlock(&unguarded) == 0);
            child_end();
        }
        good += child_ok(pid);
        must(pthread_mutex_lock(&unguarded) == 0 && pthread_mutex_unlock(&unguarded) == 0);
    }
    return (void *)good;
}

CASE(several_threads_fork, 60) {
    pthread_t thread[3];
    int rounds = iterations(30);
    long good = 0;
    for (int i = 0; i < 3; i++)
        thread[i] = start(forker, &rounds);
    for (int i = 0; i < 3; i++)
        good += (long)join(thread[i]);
    yes("every child ended", good == 3L * rounds);
}
