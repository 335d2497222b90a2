/* Reader-writer locks: exclusion, kinds, deadlines and clocks, errors, destroy. */
#include "suite.h"

static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t prefers_writers = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static pthread_rwlock_t zeroed;

static int probe_read(pthread_rwlock_t *l) {
    int error = pthread_rwlock_tryrdlock(l);
    if (error == 0)
        must(pthread_rwlock_unlock(l) == 0);
    return error;
}

static int probe_write(pthread_rwlock_t *l) {
    int error = pthread_rwlock_trywrlock(l);
    if (error == 0)
        must(pthread_rwlock_unlock(l) == 0);
    return error;
}

static int timed_read(pthread_rwlock_t *l) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 15);
    return pthread_rwlock_timedrdlock(l, &soon);
}

static int timed_write(pthread_rwlock_t *l) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 15);
    return pthread_rwlock_timedwrlock(l, &soon);
}

static int clock_read(pthread_rwlock_t *l) {
    struct timespec soon = in_ms(CLOCK_MONOTONIC, 15);
    return pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &soon);
}

static int clock_write(pthread_rwlock_t *l) {
    struct timespec soon = in_ms(CLOCK_MONOTONIC, 15);
    return pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &soon);
}

static void as_writer(pthread_rwlock_t *l) {
    result("wrlock", pthread_rwlock_wrlock(l), 0);
    result("tryrdlock by other", BY_OTHER(probe_read, l), EBUSY);
    result("trywrlock by other", BY_OTHER(probe_write, l), EBUSY);
    result("timedrdlock by other", BY_OTHER(timed_read, l), ETIMEDOUT);
    result("timedwrlock by other", BY_OTHER(timed_write, l), ETIMEDOUT);
    result("clockrdlock by other", BY_OTHER(clock_read, l), ETIMEDOUT);
    result("clockwrlock by other", BY_OTHER(clock_write, l), ETIMEDOUT);
    result("wrlock by owner", pthread_rwlock_wrlock(l), EDEADLK);
    result("rdlock by owner", pthread_rwlock_rdlock(l), EDEADLK);
    result("timedwrlock by owner", timed_write(l), EDEADLK);
    result("timedrdlock by owner", timed_read(l), EDEADLK);
    result("clockwrlock by owner", clock_write(l), EDEADLK);
    result("clockrdlock by owner", clock_read(l), EDEADLK);
    result("tryrdlock by owner", pthread_rwlock_tryrdlock(l), EBUSY);
    result("trywrlock by owner", pthread_rwlock_trywrlock(l), EBUSY);
    result("unlock", pthread_rwlock_unlock(l), 0);
    result("free", BY_OTHER(probe_write, l), 0);
}

static void as_reader(pthread_rwlock_t *l) {
    result("rdlock", pthread_rwlock_rdlock(l), 0);
    result("rdlock again", pthread_rwlock_rdlock(l), 0);
    result("tryrdlock by other", BY_OTHER(probe_read, l), 0);
    result("trywrlock by other", BY_OTHER(probe_write, l), EBUSY);
    result("timedwrlock by other", BY_OTHER(timed_write, l), ETIMEDOUT);
    result("clockwrlock by other", BY_OTHER(clock_write, l), ETIMEDOUT);
    result("no upgrade by trywrlock", pthread_rwlock_trywrlock(l), EBUSY);
    result("no upgrade by timedwrlock", timed_write(l), ETIMEDOUT);
    result("no upgrade by clockwrlock", clock_write(l), ETIMEDOUT);
    result("tryrdlock", pthread_rwlock_tryrdlock(l), 0);
    result("timedrdlock", timed_read(l), 0);
    result("clockrdlock", clock_read(l), 0);
    for (int level = 5; level > 0; level--) {
        result("still read-locked", BY_OTHER(probe_write, l), EBUSY);
        result("unlock", pthread_rwlock_unlock(l), 0);
    }
    result("free", BY_OTHER(probe_write, l), 0);
}

static void life(pthread_rwlock_t *l) {
    as_writer(l);
    as_reader(l);
    result("trywrlock", pthread_rwlock_trywrlock(l), 0);
    result("held after trywrlock", BY_OTHER(probe_read, l), EBUSY);
    result("unlock", pthread_rwlock_unlock(l), 0);
    result("timedwrlock", timed_write(l), 0);
    result("held after timedwrlock", BY_OTHER(probe_read, l), EBUSY);
    result("unlock", pthread_rwlock_unlock(l), 0);
    result("clockwrlock", clock_write(l), 0);
    result("held after clockwrlock", BY_OTHER(probe_read, l), EBUSY);
    result("unlock", pthread_rwlock_unlock(l), 0);
    result("destroy", pthread_rwlock_destroy(l), 0);
    result("init after destroy", pthread_rwlock_init(l, NULL), 0);
    result("wrlock after init", pthread_rwlock_wrlock(l), 0);
    result("unlock after init", pthread_rwlock_unlock(l), 0);
    result("destroy again", pthread_rwlock_destroy(l), 0);
}

static void make(pthread_rwlock_t *l, int kind, int shared) {
    pthread_rwlockattr_t attr;
    must(pthread_rwlockattr_init(&attr) == 0);
    must(pthread_rwlockattr_setkind_np(&attr, kind) == 0);
    must(pthread_rwlockattr_setpshared(&attr, shared) == 0);
    memset(l, 0x5a, sizeof *l);
    result("init", pthread_rwlock_init(l, &attr), 0);
    must(pthread_rwlockattr_destroy(&attr) == 0);
}

static void made(int kind, int shared) {
    pthread_rwlock_t *l = shared_memory(sizeof *l);
    make(l, kind, shared);
    life(l);
}

CASE(rwlock_static, 10) { life(&rw); }
CASE(rwlock_zeroed, 10) { life(&zeroed); }
CASE(rwlock_static_prefers_writers, 10) { life(&prefers_writers); }
CASE(rwlock_reader_kind, 10) { made(PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_PROCESS_PRIVATE); }
CASE(rwlock_writer_kind, 10) { made(PTHREAD_RWLOCK_PREFER_WRITER_NP, PTHREAD_PROCESS_PRIVATE); }
CASE(rwlock_nonrecursive_kind, 10) { made(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, PTHREAD_PROCESS_PRIVATE); }
CASE(rwlock_shared, 10) { made(PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_PROCESS_SHARED); }
CASE(rwlock_shared_nonrecursive, 10) {
    made(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, PTHREAD_PROCESS_SHARED);
}

CASE(rwlock_null_attr, 10) {
    memset(&rw, 0xff, sizeof rw);
    result("init", pthread_rwlock_init(&rw, NULL), 0);
    life(&rw);
}

CASE(rwlock_bad_attributes, 10) {
    pthread_rwlockattr_t attr;
    must(pthread_rwlockattr_init(&attr) == 0);
    result("setkind 17", pthread_rwlockattr_setkind_np(&attr, 17), EINVAL);
    result("setpshared 17", pthread_rwlockattr_setpshared(&attr, 17), EINVAL);
}

/* ---- kinds: a reader while a writer waits ---- */

static int waiting;

static void *write_once(void *arg) {
    set(&waiting, gettid());
    int error = pthread_rwlock_wrlock(arg);
    if (error == 0)
        error = pthread_rwlock_unlock(arg);
    return (void *)(intptr_t)error;
}

/* Until the writer is known to wait, a reader may still get in: try until the expected answer, boundedly. */
static int settled_tryrdlock(pthread_rwlock_t *l, int want) {
    int error = 0;
    for (int tries = 0; tries < 200; tries++) {
        error = BY_OTHER(probe_read, l);
        if (error == want)
            break;
        usleep(500);
    }
    return error;
}

static void writer_waits(int kind, int want) {
    pthread_rwlock_t l;
    make(&l, kind, PTHREAD_PROCESS_PRIVATE);
    result("rdlock", pthread_rwlock_rdlock(&l), 0);
    pthread_t writer = start(write_once, &l);
    await(&waiting, 1);
    settle(get(&waiting));
    sleep_ms(10);
    result("tryrdlock by other while a writer waits", settled_tryrdlock(&l, want), want);
    result("tryrdlock by reader while a writer waits", probe_read(&l), want);
    int timed = BY_OTHER(timed_read, &l);
    result("timedrdlock by other while a writer waits", timed, want ? ETIMEDOUT : 0);
    if (!want) /* the timed reader ended without unlocking */
        result("unlock for the timed reader", timed ? 0 : pthread_rwlock_unlock(&l), 0);
    result("unlock", pthread_rwlock_unlock(&l), 0);
    result("writer", (int)(intptr_t)join(writer), 0);
    result("free", BY_OTHER(probe_write, &l), 0);
}

CASE(rwlock_reader_kind_writer_waits, 10) { writer_waits(PTHREAD_RWLOCK_PREFER_READER_NP, 0); }
CASE(rwlock_writer_kind_writer_waits, 10) { writer_waits(PTHREAD_RWLOCK_PREFER_WRITER_NP, 0); }
CASE(rwlock_nonrecursive_kind_writer_waits, 10) {
    writer_waits(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, EBUSY);
}

/* A writer that gives up no longer holds readers back. */
static void *write_impatiently(void *arg) {
    return (void *)(intptr_t)timed_write(arg);
}

CASE(rwlock_writer_gives_up, 10) {
    pthread_rwlock_t l;
    make(&l, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, PTHREAD_PROCESS_PRIVATE);
    result("rdlock", pthread_rwlock_rdlock(&l), 0);
    result("timedwrlock", (int)(intptr_t)join(start(write_impatiently, &l)), ETIMEDOUT);
    result("tryrdlock after it gave up", BY_OTHER(probe_read, &l), 0);
    result("rdlock after it gave up", pthread_rwlock_rdlock(&l), 0);
    result("unlock", pthread_rwlock_unlock(&l), 0);
    result("unlock", pthread_rwlock_unlock(&l), 0);
    result("free", BY_OTHER(probe_write, &l), 0);
}

/* ---- deadlines ---- */

static struct timespec when;
static clockid_t on_clock;

static int read_timed(pthread_rwlock_t *l) {
    return pthread_rwlock_timedrdlock(l, &when);
}

static int write_timed(pthread_rwlock_t *l) {
    return pthread_rwlock_timedwrlock(l, &when);
}

static int read_clocked(pthread_rwlock_t *l) {
    return pthread_rwlock_clockrdlock(l, on_clock, &when);
}

static int write_clocked(pthread_rwlock_t *l) {
    return pthread_rwlock_clockwrlock(l, on_clock, &when);
}

static void deadline(const char *step, struct timespec time, int want) {
    char label[96];
    when = time;
    snprintf(label, sizeof label, "timedrdlock, %s", step);
    result(label, BY_OTHER(read_timed, &rw), want);
    snprintf(label, sizeof label, "timedwrlock, %s", step);
    result(label, BY_OTHER(write_timed, &rw), want);
    for (int i = 0; i < 2; i++) {
        on_clock = i == 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
        snprintf(label, sizeof label, "clockrdlock %s, %s", i == 0 ? "realtime" : "monotonic", step);
        result(label, BY_OTHER(read_clocked, &rw), want);
        snprintf(label, sizeof label, "clockwrlock %s, %s", i == 0 ? "realtime" : "monotonic", step);
        result(label, BY_OTHER(write_clocked, &rw), want);
    }
}

CASE(rwlock_deadlines, 10) {
    result("wrlock", pthread_rwlock_wrlock(&rw), 0);
    deadline("epoch", (struct timespec){0, 0}, ETIMEDOUT);
    deadline("long past", (struct timespec){1, 5}, ETIMEDOUT);
    deadline("just past", in_ms(CLOCK_MONOTONIC, -1), ETIMEDOUT);
    deadline("negative seconds", (struct timespec){-1, 0}, ETIMEDOUT);
    deadline("most negative seconds", (struct timespec){INT64_MIN, 0}, ETIMEDOUT);
    deadline("negative nanoseconds", (struct timespec){1, -1}, EINVAL);
    deadline("nanoseconds too large", (struct timespec){1, 1000000000}, EINVAL);
    deadline("all negative", (struct timespec){-1, -1}, EINVAL);
    deadline("far, nanoseconds too large", (struct timespec){INT64_MAX, 1000000000}, EINVAL);
    result("unlock", pthread_rwlock_unlock(&rw), 0);
    result("free", BY_OTHER(probe_write, &rw), 0);
}

/* glibc looks at nanoseconds and clock even when the lock is free, at the seconds only when it must wait. */
CASE(rwlock_deadlines_free, 10) {
    const struct timespec bad[] = {{1, -1}, {1, 1000000000}}, past[] = {{0, 0}, {-1, 0}};
    for (int i = 0; i < 2; i++) {
        when = bad[i];
        result("timedrdlock, bad nanoseconds", read_timed(&rw), EINVAL);
        result("timedwrlock, bad nanoseconds", write_timed(&rw), EINVAL);
        when = past[i];
        result("timedrdlock, past", read_timed(&rw), 0);
        result("unlock", pthread_rwlock_unlock(&rw), 0);
        result("timedwrlock, past", write_timed(&rw), 0);
        result("unlock", pthread_rwlock_unlock(&rw), 0);
    }
}

CASE(rwlock_bad_clock, 10) {
    const clockid_t bad[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_BOOTTIME, 77, -1};
    when = in_ms(CLOCK_REALTIME, 10);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        on_clock = bad[i];
        result("clockrdlock", read_clocked(&rw), EINVAL);
        result("clockwrlock", write_clocked(&rw), EINVAL);
    }
    result("free", BY_OTHER(probe_write, &rw), 0);
}
