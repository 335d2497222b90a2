/* C11 <threads.h>: mtx_*, cnd_*, thrd_*, call_once. glibc's call the internals, so all must be interposed together. */
#include "suite.h"

#include <threads.h>

static mtx_t m;
static cnd_t c;
static int waiting, flag;
static long counter;

static void outcome(const char *step, int got, int want) {
    static const struct {
        int value;
        const char *name;
    } names[] = {{thrd_success, "success"}, {thrd_busy, "busy"}, {thrd_timedout, "timedout"},
                 {thrd_error, "error"}, {thrd_nomem, "nomem"}};
    const char *got_name = "other", *want_name = "other";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].value == got)
            got_name = names[i].name;
        if (names[i].value == want)
            want_name = names[i].name;
    }
    note(step, got_name);
    if (got != want) {
        note(step, want_name);
        yes("as the standard says", false);
    }
}

static int probe(mtx_t *mtx) {
    int error = mtx_trylock(mtx);
    if (error == thrd_success)
        must(mtx_unlock(mtx) == thrd_success);
    return error;
}

static int timed(mtx_t *mtx) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    return mtx_timedlock(mtx, &soon);
}

static void life(int type) {
    outcome("init", mtx_init(&m, type), thrd_success);
    outcome("lock", mtx_lock(&m), thrd_success);
    outcome("trylock by other", BY_OTHER(probe, &m), thrd_busy);
    if (type & mtx_timed)
        outcome("timedlock by other", BY_OTHER(timed, &m), thrd_timedout);
    if (type & mtx_recursive) {
        outcome("lock again", mtx_lock(&m), thrd_success);
        outcome("trylock again", mtx_trylock(&m), thrd_success);
        outcome("unlock", mtx_unlock(&m), thrd_success);
        outcome("unlock", mtx_unlock(&m), thrd_success);
        outcome("still held", BY_OTHER(probe, &m), thrd_busy);
    } else
        outcome("trylock by owner", mtx_trylock(&m), thrd_busy);
    outcome("unlock", mtx_unlock(&m), thrd_success);
    outcome("free", BY_OTHER(probe, &m), thrd_success);
    if (type & mtx_timed) {
        outcome("timedlock", timed(&m), thrd_success);
        outcome("unlock", mtx_unlock(&m), thrd_success);
    }
    mtx_destroy(&m);
    outcome("init after destroy", mtx_init(&m, type), thrd_success);
    outcome("lock after init", probe(&m), thrd_success);
    mtx_destroy(&m);
}

CASE(c11_plain, 10) { life(mtx_plain); }
CASE(c11_timed, 10) { life(mtx_timed); }
CASE(c11_recursive, 10) { life(mtx_plain | mtx_recursive); }
CASE(c11_timed_recursive, 10) { life(mtx_timed | mtx_recursive); }

CASE(c11_bad_deadline, 10) {
    struct timespec bad = {1, -1}, past = {1, 0};
    must(mtx_init(&m, mtx_timed) == thrd_success && cnd_init(&c) == thrd_success);
    must(mtx_lock(&m) == thrd_success);
    outcome("timedlock, past", mtx_timedlock(&m, &past), thrd_timedout);
    outcome("timedlock, bad nanoseconds", mtx_timedlock(&m, &bad), thrd_error);
    outcome("timedwait, past", cnd_timedwait(&c, &m, &past), thrd_timedout);
    outcome("timedwait, bad nanoseconds", cnd_timedwait(&c, &m, &bad), thrd_error);
    outcome("still held", BY_OTHER(probe, &m), thrd_busy);
    outcome("unlock", mtx_unlock(&m), thrd_success);
}

static int count_up(void *arg) {
    int rounds = *(int *)arg;
    for (int i = 0; i < rounds; i++) {
        must(mtx_lock(&m) == thrd_success);
        counter++;
        must(mtx_unlock(&m) == thrd_success);
    }
    return 7;
}

CASE(c11_contest, 60) {
    int rounds = iterations(20000), count = threads(4);
    thrd_t thread[4];
    must(mtx_init(&m, mtx_plain) == thrd_success);
    for (int i = 0; i < count; i++)
        must(thrd_create(&thread[i], count_up, &rounds) == thrd_success);
    for (int i = 0; i < count; i++) {
        int value = 0;
        must(thrd_join(thread[i], &value) == thrd_success && value == 7);
    }
    yes("no increment lost", counter == (long)rounds * count);
}

static int wait_flag(void *arg) {
    struct timespec far = in_ms(CLOCK_REALTIME, 60000);
    must(mtx_lock(&m) == thrd_success);
    waiting++;
    while (!flag)
        must((arg ? cnd_timedwait(&c, &m, &far) : cnd_wait(&c, &m)) == thrd_success);
    flag--;
    must(mtx_unlock(&m) == thrd_success);
    return 0;
}

static void condition(bool recursive, bool with_deadline) {
    thrd_t thread[3];
    must(mtx_init(&m, recursive ? mtx_plain | mtx_recursive : mtx_plain) == thrd_success);
    outcome("init", cnd_init(&c), thrd_success);
    outcome("signal without waiters", cnd_signal(&c), thrd_success);
    for (int i = 0; i < 3; i++)
        must(thrd_create(&thread[i], wait_flag, with_deadline ? &m : NULL) == thrd_success);
    for (int seen = 0; seen < 3; thrd_yield()) {
        must(mtx_lock(&m) == thrd_success);
        seen = waiting;
        must(mtx_unlock(&m) == thrd_success);
    }
    must(mtx_lock(&m) == thrd_success);
    flag = 1;
    outcome("signal", cnd_signal(&c), thrd_success);
    must(mtx_unlock(&m) == thrd_success);
    for (int left = 1; left != 0; thrd_yield()) {
        must(mtx_lock(&m) == thrd_success);
        left = flag;
        must(mtx_unlock(&m) == thrd_success);
    }
    must(mtx_lock(&m) == thrd_success);
    flag = 2;
    outcome("broadcast", cnd_broadcast(&c), thrd_success);
    must(mtx_unlock(&m) == thrd_success);
    for (int i = 0; i < 3; i++)
        must(thrd_join(thread[i], NULL) == thrd_success);
    yes("all woke", flag == 0);
    cnd_destroy(&c);
    mtx_destroy(&m);
}

CASE(c11_condition, 30) { condition(false, false); }
CASE(c11_condition_recursive, 30) { condition(true, false); }
CASE(c11_condition_timed, 30) { condition(false, true); }

/* In glibc a mtx_t is a pthread_mutex_t: programs that mix both APIs exist. */
CASE(c11_and_posix_mixed, 10) {
    pthread_mutex_t *posix = (pthread_mutex_t *)&m;
    must(mtx_init(&m, mtx_plain) == thrd_success);
    result("POSIX lock", pthread_mutex_lock(posix), 0);
    outcome("C11 trylock", BY_OTHER(probe, &m), thrd_busy);
    outcome("C11 unlock", mtx_unlock(&m), thrd_success);
    outcome("C11 lock", mtx_lock(&m), thrd_success);
    result("POSIX trylock", pthread_mutex_trylock(posix), EBUSY);
    result("POSIX unlock", pthread_mutex_unlock(posix), 0);
    outcome("free", BY_OTHER(probe, &m), thrd_success);
}

static once_flag once = ONCE_FLAG_INIT;
static tss_t key;

static void initialise(void) {
    counter++;
}

static void lock_in_destructor(void *value) {
    (void)value;
    must(mtx_lock(&m) == thrd_success);
    counter++;
    must(mtx_unlock(&m) == thrd_success);
}

static int use_key(void *arg) {
    call_once(&once, initialise);
    must(tss_set(key, arg) == thrd_success);
    return 0;
}

CASE(c11_once_and_tss, 20) {
    thrd_t thread[4];
    must(mtx_init(&m, mtx_plain) == thrd_success);
    must(tss_create(&key, lock_in_destructor) == thrd_success);
    for (int i = 0; i < 4; i++)
        must(thrd_create(&thread[i], use_key, &m) == thrd_success);
    for (int i = 0; i < 4; i++)
        must(thrd_join(thread[i], NULL) == thrd_success);
    yes("once, and four destructors", counter == 5);
}
