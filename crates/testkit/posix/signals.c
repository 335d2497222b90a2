/* Signals during waits: locks are not interrupted, waits do not end with EINTR, handlers run. */
#include "suite.h"

#include <semaphore.h>
#include <signal.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static sem_t sem;
static int handled, waiting, done, go;
static struct timespec when;

static void on_signal(int number) {
    (void)number;
    if (!get(&done)) /* else it came too late to say anything of the wait */
        add(&handled, 1);
}

static void install(void) {
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
    must(sigaction(SIGUSR1, &action, NULL) == 0);
}

static int wait_mutex(void) { return pthread_mutex_lock(&m); }
static int wait_mutex_timed(void) { return pthread_mutex_timedlock(&m, &when); }
static int wait_mutex_clock(void) { return pthread_mutex_clocklock(&m, CLOCK_REALTIME, &when); }
static int wait_read(void) { return pthread_rwlock_rdlock(&rw); }
static int wait_write(void) { return pthread_rwlock_wrlock(&rw); }
static int wait_read_timed(void) { return pthread_rwlock_timedrdlock(&rw, &when); }
static int wait_write_timed(void) { return pthread_rwlock_timedwrlock(&rw, &when); }

static void *wait_and_tell(void *arg) {
    int (*wait)(void) = *(int (**)(void))arg;
    set(&waiting, gettid());
    int error = wait();
    set(&done, 1);
    return (void *)(intptr_t)error;
}

static int lock_it(bool rwlock) { return rwlock ? pthread_rwlock_wrlock(&rw) : pthread_mutex_lock(&m); }
static int unlock_it(bool rwlock) { return rwlock ? pthread_rwlock_unlock(&rw) : pthread_mutex_unlock(&m); }

/* Signals a thread fifty times, then until it has ended its wait when that is bound to end by itself. */
static void signal_often(pthread_t thread, bool until_done) {
    for (int i = 0; i < 50 || (until_done && !get(&done)); i++) {
        pthread_kill(thread, SIGUSR1);
        usleep(200);
    }
}

/* The lock is given free after the signals. */
static void bombard(int (*wait)(void), bool rwlock) {
    install();
    when = in_ms(CLOCK_REALTIME, 60000);
    must(lock_it(rwlock) == 0);
    pthread_t thread = start(wait_and_tell, &wait);
    await(&waiting, 1);
    settle(get(&waiting));
    signal_often(thread, false);
    yes("still waiting", get(&done) == 0);
    must(unlock_it(rwlock) == 0);
    result("wait", (int)(intptr_t)join(thread), 0);
    yes("handler ran", get(&handled) > 0);
}

/* A wait under signals must time out; `begin` returns when a thread waits until `when`. On a busy machine a deadline can pass
   before the first signal is sent, which says nothing: the next one is later. */
static void must_time_out(pthread_t (*begin)(void *), void *arg) {
    int error = ETIMEDOUT;
    for (int deadline_ms = 50; error == ETIMEDOUT && get(&handled) == 0 && deadline_ms < 4000; deadline_ms *= 2) {
        set(&done, 0);
        when = in_ms(CLOCK_REALTIME, deadline_ms);
        pthread_t thread = begin(arg);
        signal_often(thread, true);
        error = (int)(intptr_t)join(thread);
    }
    result("wait", error, ETIMEDOUT);
    yes("handler ran", get(&handled) > 0);
}

static pthread_t begin_to_wait(void *wait) {
    set(&waiting, 0);
    pthread_t thread = start(wait_and_tell, wait);
    await(&waiting, 1);
    return thread;
}

static void bombard_until_timeout(int (*wait)(void), bool rwlock) {
    install();
    must(lock_it(rwlock) == 0);
    must_time_out(begin_to_wait, &wait);
}

CASE(signals_mutex_lock, 20) { bombard(wait_mutex, false); }
CASE(signals_mutex_timedlock, 20) { bombard(wait_mutex_timed, false); }
CASE(signals_mutex_clocklock, 20) { bombard(wait_mutex_clock, false); }
CASE(signals_mutex_timeout, 20) { bombard_until_timeout(wait_mutex_timed, false); }
CASE(signals_rdlock, 20) { bombard(wait_read, true); }
CASE(signals_wrlock, 20) { bombard(wait_write, true); }
CASE(signals_timedrdlock, 20) { bombard(wait_read_timed, true); }
CASE(signals_timedwrlock, 20) { bombard(wait_write_timed, true); }
CASE(signals_rdlock_timeout, 20) { bombard_until_timeout(wait_read_timed, true); }
CASE(signals_wrlock_timeout, 20) { bombard_until_timeout(wait_write_timed, true); }

/* A condition wait may end spuriously after a handler ran, but with 0, and with the mutex. */
static void *wait_cond(void *arg) {
    int worst = 0;
    must(pthread_mutex_lock(&m) == 0);
    waiting = gettid();
    while (!go) {
        int error = arg ? pthread_cond_timedwait(&c, &m, &when) : pthread_cond_wait(&c, &m);
        if (error != 0)
            worst = error;
        if (worst != 0)
            break;
    }
    must(pthread_mutex_unlock(&m) == 0);
    set(&done, 1);
    return (void *)(intptr_t)worst;
}

/* Starts a thread and returns when it waits for the condition. */
static pthread_t start_waiting(void *timed) {
    waiting = 0;
    pthread_t thread = start(wait_cond, timed);
    for (int seen = 0; !seen; usleep(100)) {
        must(pthread_mutex_lock(&m) == 0);
        seen = waiting;
        must(pthread_mutex_unlock(&m) == 0);
    }
    return thread;
}

static void bombard_cond(void *timed) {
    install();
    when = in_ms(CLOCK_REALTIME, 60000);
    pthread_t thread = start_waiting(timed);
    signal_often(thread, false);
    must(pthread_mutex_lock(&m) == 0);
    go = 1;
    must(pthread_cond_signal(&c) == 0);
    must(pthread_mutex_unlock(&m) == 0);
    result("wait", (int)(intptr_t)join(thread), 0);
    yes("handler ran", get(&handled) > 0);
}

CASE(signals_cond_wait, 20) { bombard_cond(NULL); }
CASE(signals_cond_timedwait, 20) { bombard_cond(&m); }

CASE(signals_cond_timeout, 20) {
    install();
    must_time_out(start_waiting, &m);
}

/* sem_wait does end with EINTR: not ours, and it must stay so. */
static void *wait_sem(void *arg) {
    (void)arg;
    set(&waiting, gettid());
    int error = sem_wait(&sem) == 0 ? 0 : errno;
    set(&done, 1);
    return (void *)(intptr_t)error;
}

CASE(signals_semaphore, 20) {
    install();
    must(sem_init(&sem, 0, 0) == 0);
    pthread_t thread = start(wait_sem, NULL);
    await(&waiting, 1);
    while (!get(&done)) {
        pthread_kill(thread, SIGUSR1);
        usleep(500);
    }
    result("sem_wait", (int)(intptr_t)join(thread), EINTR);
}

/* A handler posts a semaphore, the one synchronisation that POSIX allows there, while its thread is somewhere
   in lock or unlock. */
static void post_in_handler(int number) {
    (void)number;
    must(sem_post(&sem) == 0);
}

static long counter;

static void *lock_all_the_time(void *arg) {
    (void)arg;
    while (!get(&go)) {
        must(pthread_mutex_lock(&m) == 0);
        counter++;
        must(pthread_cond_signal(&c) == 0);
        must(pthread_mutex_unlock(&m) == 0);
    }
    return NULL;
}

CASE(signals_during_lock_and_unlock, 60) {
    struct sigaction action = {.sa_handler = post_in_handler};
    must(sigaction(SIGUSR1, &action, NULL) == 0 && sem_init(&sem, 0, 0) == 0);
    pthread_t a = start(lock_all_the_time, NULL), b = start(lock_all_the_time, NULL);
    int rounds = iterations(300);
    for (int i = 0; i < rounds; i++) {
        pthread_kill(i % 2 ? a : b, SIGUSR1);
        while (sem_wait(&sem) != 0)
            must(errno == EINTR);
    }
    set(&go, 1);
    join(a);
    join(b);
    yes("every signal handled", sem_trywait(&sem) != 0);
    result("free at the end", pthread_mutex_trylock(&m), 0);
}
