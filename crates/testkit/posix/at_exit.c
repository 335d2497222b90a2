/* Locks at the end: atexit handlers, destructors, thread-specific data, exit with locks held and threads running. */
#include "suite.h"

#include <signal.h>
#include <sys/wait.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static int *steps; /* shared with the parent */
static int waiting;

static void use_all(void) {
    struct timespec past = {1, 0};
    must(pthread_mutex_lock(&m) == 0);
    must(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
    must(pthread_cond_timedwait(&c, &m, &past) == ETIMEDOUT);
    must(pthread_cond_broadcast(&c) == 0);
    must(pthread_rwlock_rdlock(&rw) == 0 && pthread_rwlock_unlock(&rw) == 0);
    must(pthread_mutex_unlock(&m) == 0);
    if (steps != NULL)
        add(steps, 1);
}

__attribute__((destructor(101))) static void very_last(void) {
    if (steps != NULL) {
        use_all();
        use_all();
    }
}

static void start_counting(void) {
    steps = shared_memory(sizeof *steps);
}

CASE(exit_handlers_lock, 10) {
    start_counting();
    pid_t child = fork_child();
    if (child == 0) {
        must(atexit(use_all) == 0);
        exit(0);
    }
    yes("process ended well", child_ok(child));
    yes("handler and destructor locked", get(steps) == 3);
}

CASE(quick_exit_handlers_lock, 10) {
    start_counting();
    pid_t child = fork_child();
    if (child == 0) {
        must(at_quick_exit(use_all) == 0);
        quick_exit(0);
    }
    yes("process ended well", child_ok(child));
    yes("handler locked", get(steps) == 1);
}

/* Handlers lock again what the thread that calls exit() still holds recursively. */
static void lock_recursive_at_exit(void) {
    must(pthread_mutex_lock(&recursive) == 0);
    add(steps, 1);
    must(pthread_mutex_unlock(&recursive) == 0);
}

CASE(exit_holding_recursive, 10) {
    start_counting();
    pid_t child = fork_child();
    if (child == 0) {
        must(atexit(lock_recursive_at_exit) == 0);
        must(pthread_mutex_lock(&recursive) == 0);
        exit(0);
    }
    yes("process ended well", child_ok(child));
    yes("everything ran", get(steps) == 3);
}

static void *wait_for_ever(void *arg) {
    must(pthread_mutex_lock(&m) == 0);
    add(&waiting, 1);
    for (;;)
        must(pthread_cond_wait(arg, &m) == 0);
    return NULL;
}

static void *queue_for_ever(void *arg) {
    add(&waiting, 1);
    must(pthread_mutex_lock(arg) == 0);
    for (;;)
        pause();
    return NULL;
}

CASE(exit_with_waiters, 20) {
    start_counting();
    pid_t child = fork_child();
    if (child == 0) {
        static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
        static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
        must(pthread_mutex_lock(&held) == 0);
        start(wait_for_ever, &never);
        start(queue_for_ever, &held);
        start(queue_for_ever, &held);
        await(&waiting, 3);
        must(atexit(use_all) == 0);
        exit(0);
    }
    yes("process ended well", child_ok(child));
    yes("everything ran", get(steps) == 3);
}

static void *exit_here(void *arg) {
    must(pthread_mutex_lock(arg) == 0);
    must(pthread_mutex_unlock(arg) == 0);
    exit(0);
}

CASE(exit_from_a_thread, 20) {
    start_counting();
    pid_t child = fork_child();
    if (child == 0) {
        start(exit_here, &m);
        for (;;)
            pause();
    }
    yes("process ended well", child_ok(child));
    yes("everything ran", get(steps) == 2);
}

/* The main thread ends first; the last thread ends the process. */
static void *outlive_main(void *arg) {
    usleep(2000);
    must(pthread_mutex_lock(arg) == 0);
    must(pthread_mutex_unlock(arg) == 0);
    return NULL;
}

CASE(main_thread_exits_first, 20) {
    start_counting();
    pid_t child = fork_child();
    if (child == 0) {
        start(outlive_main, &m);
        start(outlive_main, &m);
        pthread_exit(NULL);
    }
    yes("process ended well", child_ok(child));
    yes("everything ran", get(steps) == 2);
}

/* ---- thread-specific data ---- */

static pthread_key_t key, chained;
static int destroyed;

static void lock_in_destructor(void *value) {
    use_all();
    add(&destroyed, 1);
    if (value == &m) /* set another value: its destructor runs in a later round */
        must(pthread_setspecific(chained, &recursive) == 0);
}

static void *set_key(void *arg) {
    must(pthread_setspecific(key, arg) == 0);
    return NULL;
}

CASE(specific_destructors_lock, 30) {
    int count = iterations(200);
    must(pthread_key_create(&key, lock_in_destructor) == 0);
    must(pthread_key_create(&chained, lock_in_destructor) == 0);
    for (int i = 0; i < count; i++)
        join(start(set_key, &m));
    yes("all ran", get(&destroyed) == 2 * count);
}

/* Threads end while others wait, and hold locks to the very last moment. */
static void unlock_in_destructor(void *value) {
    must(pthread_mutex_unlock(value) == 0);
}

static void *lock_until_destructor(void *arg) {
    must(pthread_mutex_lock(arg) == 0);
    must(pthread_setspecific(key, arg) == 0);
    return NULL;
}

CASE(specific_destructor_unlocks, 60) {
    int rounds = iterations(200);
    must(pthread_key_create(&key, unlock_in_destructor) == 0);
    for (int i = 0; i < rounds; i++) {
        pthread_t a = start(lock_until_destructor, &m), b = start(lock_until_destructor, &m),
                  d = start(lock_until_destructor, &recursive);
        join(a);
        join(b);
        join(d);
        must(pthread_mutex_trylock(&m) == 0 && pthread_mutex_unlock(&m) == 0);
        must(pthread_mutex_trylock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
    }
    yes("every round", true);
}

static void *exit_by_pthread_exit(void *arg) {
    must(pthread_mutex_lock(arg) == 0);
    pthread_cleanup_push(unlock_in_destructor, arg);
    pthread_exit(arg);
    pthread_cleanup_pop(0);
}

CASE(pthread_exit_with_cleanup, 30) {
    int good = 0, rounds = iterations(100);
    for (int i = 0; i < rounds; i++)
        good += join(start(exit_by_pthread_exit, &m)) == &m;
    yes("all unlocked", good == rounds);
    result("trylock", pthread_mutex_trylock(&m), 0);
}

CASE(detached_threads, 30) {
    int count = iterations(300);
    start_counting();
    for (int i = 0; i < count; i++) {
        pthread_t thread = start(outlive_main, &m);
        must(pthread_detach(thread) == 0);
        if (i % 50 == 49)
            usleep(3000);
    }
    use_all();
    yes("still standing", true);
}
