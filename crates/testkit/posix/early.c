/* Locks used before main: .preinit_array, constructors of the program and of a linked library, early threads. */
#include "suite.h"

extern pthread_mutex_t ctor_mutex; /* libctor.so */
extern int ctor_count;

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t kept = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t made_early;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int preinit_errors = -1, first_errors = -1, last_errors = -1, thread_errors = -1;

static int use_all(void) {
    struct timespec past = {1, 0};
    int errors = pthread_mutex_lock(&m) + pthread_mutex_lock(&recursive) + pthread_mutex_lock(&recursive);
    errors += pthread_mutex_trylock(&m) != EBUSY;
    errors += pthread_cond_timedwait(&c, &m, &past) != ETIMEDOUT;
    errors += pthread_cond_signal(&c);
    errors += pthread_rwlock_wrlock(&rw) + pthread_rwlock_unlock(&rw);
    errors += pthread_mutex_unlock(&recursive) + pthread_mutex_unlock(&recursive);
    return errors + pthread_mutex_unlock(&m);
}

/* Runs before any library's constructor. */
static void preinit(int argc, char **argv, char **envp) {
    (void)argc, (void)argv, (void)envp;
    preinit_errors = use_all();
    preinit_errors += pthread_mutex_lock(&kept); /* unlocked in main */
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(int, char **, char **) = preinit;

static void *early_thread(void *arg) {
    (void)arg;
    thread_errors = use_all();
    return NULL;
}

__attribute__((constructor(101))) static void first(void) {
    pthread_t thread;
    first_errors = use_all();
    first_errors += pthread_mutex_init(&made_early, NULL);
    first_errors += pthread_mutex_lock(&made_early);
    first_errors += pthread_create(&thread, NULL, early_thread, NULL);
    first_errors += pthread_join(thread, NULL);
}

__attribute__((constructor)) static void last(void) {
    last_errors = use_all();
}

CASE(early_constructors, 10) {
    yes("preinit", preinit_errors == 0);
    yes("first constructor", first_errors == 0);
    yes("thread in a constructor", thread_errors == 0);
    yes("last constructor", last_errors == 0);
    yes("library's constructors", ctor_count == 2);
    yes("main", use_all() == 0);
}

CASE(early_held_into_main, 10) {
    result("trylock of one locked in preinit", pthread_mutex_trylock(&kept), EBUSY);
    result("trylock by other", BY_OTHER(pthread_mutex_trylock, &kept), EBUSY);
    result("unlock", pthread_mutex_unlock(&kept), 0);
    result("trylock", pthread_mutex_trylock(&kept), 0);
    result("trylock of one made in a constructor", pthread_mutex_trylock(&made_early), EBUSY);
    result("unlock", pthread_mutex_unlock(&made_early), 0);
    result("destroy", pthread_mutex_destroy(&made_early), 0);
}

static long counter;

static void *count_up(void *arg) {
    int rounds = *(int *)arg;
    for (int i = 0; i < rounds; i++) {
        must(pthread_mutex_lock(&ctor_mutex) == 0);
        counter++;
        must(pthread_mutex_unlock(&ctor_mutex) == 0);
    }
    return NULL;
}

/* A mutex first used by a constructor is contended by threads of main. */
CASE(early_mutex_contended_later, 30) {
    int rounds = iterations(5000);
    pthread_t a = start(count_up, &rounds), b = start(count_up, &rounds);
    join(a);
    join(b);
    yes("no increment lost", counter == 2L * rounds);
}
