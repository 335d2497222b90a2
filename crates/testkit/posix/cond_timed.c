/* pthread_cond_timedwait and clockwait: clocks, deadlines, their validity, and time-outs racing with signals. */
#include "suite.h"

static pthread_mutex_t m = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t realtime = PTHREAD_COND_INITIALIZER;

static void make_monotonic(pthread_cond_t *cond) {
    pthread_condattr_t attr;
    clockid_t clock = -1;
    must(pthread_condattr_init(&attr) == 0);
    must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    must(pthread_condattr_getclock(&attr, &clock) == 0 && clock == CLOCK_MONOTONIC);
    must(pthread_cond_init(cond, &attr) == 0);
    must(pthread_condattr_destroy(&attr) == 0);
}

/* The errorcheck mutex tells whether the caller still owns it: its unlock succeeds, and only once. */
static void owned(void) {
    result("mutex is owned after the wait", pthread_mutex_unlock(&m), 0);
    must(pthread_mutex_lock(&m) == 0);
}

static void deadline(const char *step, struct timespec when, int want) {
    char label[96];
    pthread_cond_t monotonic;
    make_monotonic(&monotonic);
    must(pthread_mutex_lock(&m) == 0);
    snprintf(label, sizeof label, "timedwait realtime, %s", step);
    result(label, pthread_cond_timedwait(&realtime, &m, &when), want);
    owned();
    snprintf(label, sizeof label, "timedwait monotonic, %s", step);
    result(label, pthread_cond_timedwait(&monotonic, &m, &when), want);
    owned();
    snprintf(label, sizeof label, "clockwait realtime, %s", step);
    result(label, pthread_cond_clockwait(&monotonic, &m, CLOCK_REALTIME, &when), want);
    owned();
    snprintf(label, sizeof label, "clockwait monotonic, %s", step);
    result(label, pthread_cond_clockwait(&realtime, &m, CLOCK_MONOTONIC, &when), want);
    owned();
    must(pthread_mutex_unlock(&m) == 0);
    must(pthread_cond_destroy(&monotonic) == 0);
}

CASE(cond_deadlines, 20) {
    deadline("epoch", (struct timespec){0, 0}, ETIMEDOUT);
    deadline("long past", (struct timespec){1, 5}, ETIMEDOUT);
    deadline("just past", in_ms(CLOCK_MONOTONIC, -1), ETIMEDOUT);
    deadline("negative seconds", (struct timespec){-1, 0}, ETIMEDOUT);
    deadline("most negative seconds", (struct timespec){INT64_MIN, 0}, ETIMEDOUT);
    deadline("negative nanoseconds", (struct timespec){1, -1}, EINVAL);
    deadline("nanoseconds too large", (struct timespec){1, 1000000000}, EINVAL);
    deadline("far, nanoseconds too large", (struct timespec){INT64_MAX, 1000000000}, EINVAL);
    deadline("all negative", (struct timespec){-1, -1}, EINVAL);
    deadline("negative, nanoseconds too large", (struct timespec){-5, 2000000000}, EINVAL);
}

CASE(cond_bad_clock, 10) {
    const clockid_t bad[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW,
                             CLOCK_BOOTTIME, 77, -1};
    struct timespec when = {1, 0};
    must(pthread_mutex_lock(&m) == 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        result("clockwait", pthread_cond_clockwait(&realtime, &m, bad[i], &when), EINVAL);
        owned();
    }
    pthread_condattr_t attr;
    must(pthread_condattr_init(&attr) == 0);
    result("setclock", pthread_condattr_setclock(&attr, CLOCK_PROCESS_CPUTIME_ID), EINVAL);
    result("setpshared", pthread_condattr_setpshared(&attr, 17), EINVAL);
}

static bool reached(clockid_t clock, struct timespec when) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec > when.tv_sec || (now.tv_sec == when.tv_sec && now.tv_nsec >= when.tv_nsec);
}

/* A wait on the wrong clock would end at once, or some fifty years late. */
CASE(cond_clock_is_respected, 20) {
    pthread_cond_t monotonic;
    struct timespec when;
    make_monotonic(&monotonic);
    must(pthread_mutex_lock(&m) == 0);
    when = in_ms(CLOCK_REALTIME, 40);
    result("timedwait realtime", pthread_cond_timedwait(&realtime, &m, &when), ETIMEDOUT);
    yes("not early", reached(CLOCK_REALTIME, when));
    when = in_ms(CLOCK_MONOTONIC, 40);
    result("timedwait monotonic", pthread_cond_timedwait(&monotonic, &m, &when), ETIMEDOUT);
    yes("not early", reached(CLOCK_MONOTONIC, when));
    when = in_ms(CLOCK_REALTIME, 40);
    result("clockwait realtime on a monotonic one", pthread_cond_clockwait(&monotonic, &m, CLOCK_REALTIME, &when), ETIMEDOUT);
    yes("not early", reached(CLOCK_REALTIME, when));
    when = in_ms(CLOCK_MONOTONIC, 40);
    result("clockwait monotonic on a realtime one", pthread_cond_clockwait(&realtime, &m, CLOCK_MONOTONIC, &when), ETIMEDOUT);
    yes("not early", reached(CLOCK_MONOTONIC, when));
    owned();
}

/* ---- a signal comes before the deadline ---- */

static int waiting, flag;

static void *wait_flag(void *arg) {
    int way = (int)(intptr_t)arg;
    struct timespec when = in_ms(way == 1 ? CLOCK_MONOTONIC : CLOCK_REALTIME, 60000);
    int error = 0;
    must(pthread_mutex_lock(&m) == 0);
    waiting++;
    while (flag == 0 && error == 0)
        error = way == 0 ? pthread_cond_timedwait(&realtime, &m, &when)
                         : pthread_cond_clockwait(&realtime, &m, way == 1 ? CLOCK_MONOTONIC : CLOCK_REALTIME, &when);
    flag = 0;
    waiting--;
    must(pthread_mutex_unlock(&m) == 0);
    return (void *)(intptr_t)error;
}

CASE(cond_signalled_before_deadline, 20) {
    for (int i = 0; i < 9; i++) {
        pthread_t waiter = start(wait_flag, (void *)(intptr_t)(i % 3));
        for (int seen = 0; !seen; usleep(100)) {
            must(pthread_mutex_lock(&m) == 0);
            seen = waiting;
            must(pthread_mutex_unlock(&m) == 0);
        }
        must(pthread_mutex_lock(&m) == 0);
        flag = 1;
        result("signal", pthread_cond_signal(&realtime), 0);
        must(pthread_mutex_unlock(&m) == 0);
        result("wait", (int)(intptr_t)join(waiter), 0);
    }
}

/* The wait times out while another thread holds the mutex: it returns only once it owns it again. */
static int holding, released;

static void *hold_for_a_while(void *arg) {
    (void)arg;
    must(pthread_mutex_lock(&m) == 0);
    set(&holding, 1);
    sleep_ms(60);
    set(&released, 1);
    must(pthread_mutex_unlock(&m) == 0);
    return NULL;
}

CASE(cond_timeout_waits_for_the_mutex, 10) {
    must(pthread_mutex_lock(&m) == 0);
    pthread_t holder = start(hold_for_a_while, NULL);
    struct timespec when = in_ms(CLOCK_REALTIME, 30);
    result("timedwait", pthread_cond_timedwait(&realtime, &m, &when), ETIMEDOUT);
    bool held_in_the_wait = get(&holding) == 1;
    yes("returned with the mutex", !held_in_the_wait || get(&released) == 1);
    owned();
    must(pthread_mutex_unlock(&m) == 0);
    join(holder);
}

/*
 * Time-outs race with signals. A signal sent while at least one thread waits must wake a thread whose wait
 * returns 0. The signaller signals once and marks a debt; a wake-up pays it. A spurious wake-up may pay
 * in its place, so what is checked is that no debt stays open.
 */
static int patient, debts, paid, stop;

static void *wait_shortly(void *arg) {
    unsigned seed = (unsigned)(uintptr_t)arg;
    must(pthread_mutex_lock(&plain) == 0);
    while (!stop) {
        struct timespec when = in_ms(CLOCK_MONOTONIC, 0);
        when.tv_nsec += rand_r(&seed) % 200000;
        when.tv_sec += when.tv_nsec >= 1000000000;
        when.tv_nsec %= 1000000000;
        int error = pthread_cond_clockwait(&realtime, &plain, CLOCK_MONOTONIC, &when);
        must(error == 0 || error == ETIMEDOUT);
        if (error == 0 && debts > 0) {
            debts--;
            paid++;
        }
    }
    must(pthread_mutex_unlock(&plain) == 0);
    return NULL;
}

static void *wait_for_debt(void *arg) {
    (void)arg;
    must(pthread_mutex_lock(&plain) == 0);
    patient = 1;
    while (!stop) {
        must(pthread_cond_wait(&realtime, &plain) == 0);
        if (debts > 0) {
            debts--;
            paid++;
        }
    }
    must(pthread_mutex_unlock(&plain) == 0);
    return NULL;
}

/* With one patient waiter among impatient ones, every signal has a thread to go to. */
CASE(cond_timeouts_lose_no_signal, 60) {
    pthread_t thread[4];
    int count = threads(4), rounds = iterations(2000);
    thread[0] = start(wait_for_debt, NULL);
    for (int i = 1; i < count; i++)
        thread[i] = start(wait_shortly, (void *)(uintptr_t)(i + 1));
    for (int seen = 0; !seen; usleep(100)) { /* the patient one is among them */
        must(pthread_mutex_lock(&plain) == 0);
        seen = patient;
        must(pthread_mutex_unlock(&plain) == 0);
    }
    for (int i = 0; i < rounds; i++) {
        bool owed = true;
        must(pthread_mutex_lock(&plain) == 0);
        debts++;
        must(pthread_cond_signal(&realtime) == 0);
        must(pthread_mutex_unlock(&plain) == 0);
        while (owed) { /* a signal that woke nobody leaves its debt open: the watchdog tells */
            must(pthread_mutex_lock(&plain) == 0);
            owed = debts > 0;
            must(pthread_mutex_unlock(&plain) == 0);
            if (owed)
                sched_yield();
        }
    }
    must(pthread_mutex_lock(&plain) == 0);
    stop = 1;
    must(pthread_cond_broadcast(&realtime) == 0);
    must(pthread_mutex_unlock(&plain) == 0);
    for (int i = 0; i < count; i++)
        join(thread[i]);
    yes("every signal woke a thread", debts == 0);
    yes("as many woke as were signalled", paid == rounds);
    result("destroy", pthread_cond_destroy(&realtime), 0);
}
