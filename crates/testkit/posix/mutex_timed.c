/* pthread_mutex_timedlock and clocklock: deadlines, their validity, both clocks, and success after a wait. */
#include "suite.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static struct timespec when;
static clockid_t on_clock;

static int timed(void *object) {
    return pthread_mutex_timedlock(object, &when);
}

static int clocked(void *object) {
    return pthread_mutex_clocklock(object, on_clock, &when);
}

static void every_call(const char *step, int want) {
    char label[80];
    snprintf(label, sizeof label, "timedlock, %s", step);
    result(label, by_other_thread(timed, &m), want);
    snprintf(label, sizeof label, "clocklock realtime, %s", step);
    on_clock = CLOCK_REALTIME;
    result(label, by_other_thread(clocked, &m), want);
    snprintf(label, sizeof label, "clocklock monotonic, %s", step);
    on_clock = CLOCK_MONOTONIC;
    result(label, by_other_thread(clocked, &m), want);
}

CASE(timed_held, 10) {
    result("lock", pthread_mutex_lock(&m), 0);
    when = (struct timespec){0, 0};
    every_call("epoch", ETIMEDOUT);
    when = (struct timespec){1, 500};
    every_call("long past", ETIMEDOUT);
    when = (struct timespec){-1, 0};
    every_call("negative seconds", ETIMEDOUT);
    when = (struct timespec){INT64_MIN, 999999999};
    every_call("most negative seconds", ETIMEDOUT);
    when = (struct timespec){1, -1};
    every_call("negative nanoseconds", EINVAL);
    when = (struct timespec){1, 1000000000};
    every_call("nanoseconds too large", EINVAL);
    when = (struct timespec){INT64_MAX, 1000000000};
    every_call("far future, nanoseconds too large", EINVAL);
    when = (struct timespec){-1, -1};
    every_call("all negative", ETIMEDOUT); /* the seconds are looked at first */
    when = in_ms(CLOCK_MONOTONIC, -1);
    every_call("just past", ETIMEDOUT);
    result("unlock", pthread_mutex_unlock(&m), 0);
    result("free at the end", pthread_mutex_trylock(&m), 0);
}

/* A deadline is only looked at when the call would block. */
static void free_mutex(const char *name, int type) {
    pthread_mutexattr_t attr;
    char label[80];
    must(pthread_mutexattr_init(&attr) == 0 && pthread_mutexattr_settype(&attr, type) == 0);
    must(pthread_mutex_init(&m, &attr) == 0);
    const struct timespec deadlines[] = {{0, 0}, {-1, 0}, {1, -1}, {1, 1000000000}, {INT64_MAX, 0}};
    for (size_t i = 0; i < sizeof deadlines / sizeof *deadlines; i++) {
        when = deadlines[i];
        snprintf(label, sizeof label, "timedlock of a free %s one", name);
        result(label, timed(&m), 0);
        result("unlock", pthread_mutex_unlock(&m), 0);
        on_clock = CLOCK_MONOTONIC;
        snprintf(label, sizeof label, "clocklock of a free %s one", name);
        result(label, clocked(&m), 0);
        result("unlock", pthread_mutex_unlock(&m), 0);
    }
    must(pthread_mutex_destroy(&m) == 0);
}

CASE(timed_free, 10) {
    free_mutex("normal", PTHREAD_MUTEX_NORMAL);
    free_mutex("recursive", PTHREAD_MUTEX_RECURSIVE);
    free_mutex("errorcheck", PTHREAD_MUTEX_ERRORCHECK);
    free_mutex("adaptive", PTHREAD_MUTEX_ADAPTIVE_NP);
}

CASE(timed_bad_clock, 10) {
    const clockid_t bad[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW,
                             CLOCK_REALTIME_COARSE, CLOCK_BOOTTIME, 77, -1};
    for (int held = 0; held < 2; held++) {
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            on_clock = bad[i];
            when = in_ms(CLOCK_REALTIME, 10);
            result(held ? "clocklock of a held one" : "clocklock of a free one", by_other_thread(clocked, &m), EINVAL);
        }
        if (!held)
            result("lock", pthread_mutex_lock(&m), 0);
    }
    result("unlock", pthread_mutex_unlock(&m), 0);
}

CASE(timed_bad_clock_by_owner, 10) {
    pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    on_clock = CLOCK_PROCESS_CPUTIME_ID;
    when = in_ms(CLOCK_REALTIME, 10);
    result("lock recursive", pthread_mutex_lock(&recursive), 0);
    result("lock errorcheck", pthread_mutex_lock(&errorcheck), 0);
    note("clocklock recursive", error_name(clocked(&recursive)));
    note("clocklock errorcheck", error_name(clocked(&errorcheck)));
}

/* The wait lasts at least until the deadline. */
CASE(timed_not_early, 10) {
    result("lock", pthread_mutex_lock(&m), 0);
    for (int i = 0; i < 3; i++) {
        const clockid_t clock = i == 1 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
        struct timespec now;
        when = in_ms(clock, 20);
        on_clock = clock;
        result(i == 0 ? "timedlock" : "clocklock", by_other_thread(i == 0 ? timed : clocked, &m), ETIMEDOUT);
        clock_gettime(clock, &now);
        yes("not early", now.tv_sec > when.tv_sec || (now.tv_sec == when.tv_sec && now.tv_nsec >= when.tv_nsec));
    }
}

static int waiting;

static void *wait_timed(void *arg) {
    set(&waiting, gettid());
    int error = arg ? pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &when) : pthread_mutex_timedlock(&m, &when);
    if (error == 0)
        error = pthread_mutex_unlock(&m);
    return (void *)(intptr_t)error;
}

CASE(timed_success_after_wait, 20) {
    for (int i = 0; i < 4; i++) {
        set(&waiting, 0);
        result("lock", pthread_mutex_lock(&m), 0);
        when = in_ms(i % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME, 30000);
        pthread_t thread = start(wait_timed, i % 2 ? &m : NULL);
        await(&waiting, 1);
        settle(get(&waiting));
        result("unlock", pthread_mutex_unlock(&m), 0);
        result("waiter got it", (int)(intptr_t)join(thread), 0);
    }
}

/* Waiters that give up from the middle of a queue leave it usable for those before and behind them. */
static void *give_up_or_not(void *arg) {
    long index = (long)arg;
    struct timespec soon = in_ms(CLOCK_MONOTONIC, index % 2 ? 5 + index : 60000);
    add(&waiting, 1);
    int error = pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &soon);
    if (error == 0)
        error = pthread_mutex_unlock(&m);
    return (void *)(intptr_t)(error != (index % 2 ? ETIMEDOUT : 0));
}

CASE(timed_give_up_inside_queue, 30) {
    int wrong = 0;
    for (int round = 0; round < iterations(10); round++) {
        pthread_t thread[6];
        int count = threads(6);
        set(&waiting, 0);
        must(pthread_mutex_lock(&m) == 0);
        for (long i = 0; i < count; i++)
            thread[i] = start(give_up_or_not, (void *)i);
        await(&waiting, count);
        sleep_ms(25); /* the odd ones give up while the mutex is held */
        for (long i = 1; i < count; i += 2)
            wrong += join(thread[i]) != NULL;
        must(pthread_mutex_unlock(&m) == 0);
        for (long i = 0; i < count; i += 2)
            wrong += join(thread[i]) != NULL;
    }
    yes("odd waiters timed out, even ones got it", wrong == 0);
    result("free at the end", pthread_mutex_trylock(&m), 0);
}

/* Timeouts race with hand-offs: the mutex excludes, and a timed-out call does not hold it. */
static long counter;
static int timeouts;

static void *race(void *arg) {
    int rounds = *(int *)arg;
    long mine = 0;
    for (int i = 0; i < rounds; i++) {
        struct timespec soon = in_ms(CLOCK_MONOTONIC, 0);
        soon.tv_nsec += i % 5 * 20000;
        soon.tv_sec += soon.tv_nsec >= 1000000000;
        soon.tv_nsec %= 1000000000;
        int error = pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &soon);
        if (error == ETIMEDOUT) {
            add(&timeouts, 1);
            continue;
        }
        must(error == 0);
        counter++;
        mine++;
        if (i % 64 == 0)
            usleep(50);
        must(pthread_mutex_unlock(&m) == 0);
    }
    return (void *)mine;
}

CASE(timed_race, 30) {
    int rounds = iterations(3000), count = threads(4);
    pthread_t thread[4];
    long taken = 0;
    for (int i = 0; i < count; i++)
        thread[i] = start(race, &rounds);
    for (int i = 0; i < count; i++)
        taken += (long)join(thread[i]);
    yes("as many increments as locks taken", taken == counter);
    yes("every call accounted for", taken + get(&timeouts) == (long)rounds * count);
    result("free at the end", pthread_mutex_trylock(&m), 0);
}
