/* No lock path allocates: every call below is made under a malloc that aborts when entered from one. */
#include "suite.h"

#include <signal.h>
#include <threads.h>

extern __thread int in_lock_path; /* libabortmalloc.so */

/* Evaluates a call with the mark set. */
#define MARKED(call)                                                                                         \
    ({                                                                                                       \
        in_lock_path++;                                                                                      \
        int marked_result = (call);                                                                          \
        in_lock_path--;                                                                                      \
        marked_result;                                                                                       \
    })

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static mtx_t mtx;
static cnd_t cnd;
static long counter;

/* The shim works: without this case a build that bypasses it would pass. */
CASE(the_shim_aborts, 10) {
    pid_t child = fork_child();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        in_lock_path = 1;
        void *volatile refused = malloc(10);
        free(refused);
        child_end();
    }
    yes("malloc from a lock path aborts", !child_ok(child));
    void *volatile block = malloc(10);
    yes("malloc elsewhere works", block != NULL);
}

static void use_mutexes(void) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 50);
    must(MARKED(pthread_mutex_lock(&m)) == 0);
    counter++;
    must(MARKED(pthread_mutex_unlock(&m)) == 0);
    must(MARKED(pthread_mutex_lock(&recursive)) == 0);
    must(MARKED(pthread_mutex_trylock(&recursive)) == 0);
    must(MARKED(pthread_mutex_unlock(&recursive)) == 0);
    must(MARKED(pthread_mutex_unlock(&recursive)) == 0);
    must(MARKED(pthread_mutex_lock(&errorcheck)) == 0);
    must(MARKED(pthread_mutex_lock(&errorcheck)) == EDEADLK);
    must(MARKED(pthread_mutex_unlock(&errorcheck)) == 0);
    if (MARKED(pthread_mutex_trylock(&m)) == 0)
        must(MARKED(pthread_mutex_unlock(&m)) == 0);
    if (MARKED(pthread_mutex_timedlock(&m, &soon)) == 0)
        must(MARKED(pthread_mutex_unlock(&m)) == 0);
    if (MARKED(pthread_mutex_clocklock(&m, CLOCK_REALTIME, &soon)) == 0)
        must(MARKED(pthread_mutex_unlock(&m)) == 0);
}

static void use_others(void) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 50), past = {1, 0};
    must(MARKED(pthread_rwlock_rdlock(&rw)) == 0);
    must(MARKED(pthread_rwlock_unlock(&rw)) == 0);
    must(MARKED(pthread_rwlock_wrlock(&rw)) == 0);
    must(MARKED(pthread_rwlock_rdlock(&rw)) == EDEADLK);
    must(MARKED(pthread_rwlock_unlock(&rw)) == 0);
    if (MARKED(pthread_rwlock_timedwrlock(&rw, &soon)) == 0)
        must(MARKED(pthread_rwlock_unlock(&rw)) == 0);
    must(MARKED(pthread_spin_lock(&spin)) == 0);
    must(MARKED(pthread_spin_unlock(&spin)) == 0);
    must(MARKED(pthread_mutex_lock(&m)) == 0);
    int waited = MARKED(pthread_cond_timedwait(&c, &m, &past)); /* another thread may signal in time */
    must(waited == 0 || waited == ETIMEDOUT);
    must(MARKED(pthread_cond_signal(&c)) == 0);
    must(MARKED(pthread_cond_broadcast(&c)) == 0);
    must(MARKED(pthread_mutex_unlock(&m)) == 0);
    must(MARKED(mtx_lock(&mtx)) == thrd_success);
    waited = MARKED(cnd_timedwait(&cnd, &mtx, &past));
    must(waited == thrd_success || waited == thrd_timedout);
    must(MARKED(mtx_unlock(&mtx)) == thrd_success);
    must(MARKED(cnd_signal(&cnd)) == thrd_success);
}

static void make(void) {
    must(MARKED(pthread_spin_init(&spin, 0)) == 0);
    must(MARKED(mtx_init(&mtx, mtx_plain)) == thrd_success);
    must(MARKED(cnd_init(&cnd)) == thrd_success);
}

static void *use_everything(void *arg) {
    for (int i = 0; i < *(int *)arg; i++) {
        use_mutexes();
        use_others();
    }
    return NULL;
}

CASE(uncontended, 20) {
    int rounds = 10;
    make();
    use_everything(&rounds);
    yes("no allocation", true);
}

CASE(contended, 60) {
    pthread_t thread[4];
    int rounds = iterations(500), count = threads(4);
    make();
    for (int i = 0; i < count; i++)
        thread[i] = start(use_everything, &rounds);
    for (int i = 0; i < count; i++)
        join(thread[i]);
    yes("no increment lost", counter == (long)rounds * count);
    yes("no allocation", true);
}

CASE(many_locks_held, 20) {
    enum { HELD = 5000 };
    static pthread_mutex_t many[HELD];
    for (int i = 0; i < HELD; i++)
        must(MARKED(pthread_mutex_lock(&many[i])) == 0);
    for (int i = 0; i < HELD; i++)
        must(MARKED(pthread_mutex_unlock(&many[i])) == 0);
    yes("no allocation", true);
}

static int turn;

static void *pong(void *arg) {
    for (int i = 0; i < *(int *)arg; i++) {
        must(MARKED(pthread_mutex_lock(&m)) == 0);
        while (turn != 1)
            must(MARKED(pthread_cond_wait(&c, &m)) == 0);
        turn = 0;
        must(MARKED(pthread_cond_signal(&c)) == 0);
        must(MARKED(pthread_mutex_unlock(&m)) == 0);
    }
    return NULL;
}

CASE(condition_waits, 60) {
    int rounds = iterations(1000);
    pthread_t thread = start(pong, &rounds);
    for (int i = 0; i < rounds; i++) {
        must(MARKED(pthread_mutex_lock(&m)) == 0);
        turn = 1;
        must(MARKED(pthread_cond_broadcast(&c)) == 0);
        while (turn != 0)
            must(MARKED(pthread_cond_wait(&c, &m)) == 0);
        must(MARKED(pthread_mutex_unlock(&m)) == 0);
    }
    join(thread);
    yes("no allocation", true);
}

/* A new thread's first lock is where per-thread state would be made. */
static void *first_lock(void *arg) {
    must(MARKED(pthread_mutex_lock(arg)) == 0);
    must(MARKED(pthread_mutex_unlock(arg)) == 0);
    return NULL;
}

CASE(first_lock_of_a_thread, 30) {
    for (int i = 0; i < iterations(300); i++)
        join(start(first_lock, &m));
    yes("no allocation", true);
}

CASE(init_and_destroy, 20) {
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_t mutex;
        pthread_cond_t cond;
        pthread_rwlock_t rwlock;
        must(MARKED(pthread_mutex_init(&mutex, NULL)) == 0);
        must(MARKED(pthread_cond_init(&cond, NULL)) == 0);
        must(MARKED(pthread_rwlock_init(&rwlock, NULL)) == 0);
        must(MARKED(pthread_mutex_lock(&mutex)) == 0 && MARKED(pthread_mutex_unlock(&mutex)) == 0);
        must(MARKED(pthread_mutex_destroy(&mutex)) == 0);
        must(MARKED(pthread_cond_destroy(&cond)) == 0);
        must(MARKED(pthread_rwlock_destroy(&rwlock)) == 0);
    }
    yes("no allocation", true);
}
