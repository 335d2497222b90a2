/* Reader-writer locks under load: exclusion, sharing, time-outs, many readers, processes. */
#include "suite.h"

static pthread_rwlock_t rw;
static long a, b;
static int readers_inside, writers_inside, overlaps;

static void make(pthread_rwlock_t *l, int kind, int shared) {
    pthread_rwlockattr_t attr;
    must(pthread_rwlockattr_init(&attr) == 0);
    must(pthread_rwlockattr_setkind_np(&attr, kind) == 0);
    must(pthread_rwlockattr_setpshared(&attr, shared) == 0);
    must(pthread_rwlock_init(l, &attr) == 0);
}

static void read_inside(void) {
    add(&readers_inside, 1);
    if (get(&writers_inside) != 0 || a != b)
        add(&overlaps, 1);
    add(&readers_inside, -1);
}

static void write_inside(void) {
    if (add(&writers_inside, 1) != 1 || get(&readers_inside) != 0)
        add(&overlaps, 1);
    a++;
    b++;
    add(&writers_inside, -1);
}

static int acquire(int how, bool write) {
    struct timespec far = in_ms(CLOCK_MONOTONIC, 60000);
    int error;
    switch (how) {
    case 0: return write ? pthread_rwlock_wrlock(&rw) : pthread_rwlock_rdlock(&rw);
    case 1:
        while ((error = write ? pthread_rwlock_trywrlock(&rw) : pthread_rwlock_tryrdlock(&rw)) == EBUSY)
            sched_yield();
        return error;
    default:
        return write ? pthread_rwlock_clockwrlock(&rw, CLOCK_MONOTONIC, &far)
                     : pthread_rwlock_clockrdlock(&rw, CLOCK_MONOTONIC, &far);
    }
}

struct load {
    int rounds, how, write_every;
};

static void *work(void *arg) {
    struct load *load = arg;
    long writes = 0;
    for (int i = 0; i < load->rounds; i++) {
        bool write = i % load->write_every == 0;
        must(acquire(load->how == 3 ? i % 3 : load->how, write) == 0);
        if (write) {
            write_inside();
            writes++;
        } else
            read_inside();
        must(pthread_rwlock_unlock(&rw) == 0);
    }
    return (void *)writes;
}

static void mix(int kind, int how, int write_every, int full_rounds) {
    struct load load = {iterations(full_rounds), how, write_every};
    pthread_t thread[4];
    int count = threads(4);
    long writes = 0;
    make(&rw, kind, PTHREAD_PROCESS_PRIVATE);
    for (int i = 0; i < count; i++)
        thread[i] = start(work, &load);
    for (int i = 0; i < count; i++)
        writes += (long)join(thread[i]);
    yes("no overlap", overlaps == 0);
    yes("no write lost", a == writes && b == writes);
    result("destroy", pthread_rwlock_destroy(&rw), 0);
}

enum {
    READERS = PTHREAD_RWLOCK_PREFER_READER_NP,
    WRITERS = PTHREAD_RWLOCK_PREFER_WRITER_NP,
    NONRECURSIVE = PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP
};

CASE(mix_reader_kind, 60) { mix(READERS, 0, 10, 20000); }
CASE(mix_writer_kind, 60) { mix(WRITERS, 0, 10, 20000); }
CASE(mix_nonrecursive_kind, 60) { mix(NONRECURSIVE, 0, 10, 20000); }
CASE(mix_all_writers, 60) { mix(READERS, 0, 1, 10000); }
CASE(mix_trylocks, 60) { mix(READERS, 1, 3, 5000); }
CASE(mix_timed, 60) { mix(READERS, 2, 3, 5000); }
CASE(mix_everything, 60) { mix(READERS, 3, 4, 5000); }
CASE(mix_everything_nonrecursive, 60) { mix(NONRECURSIVE, 3, 4, 5000); }

/* ---- readers share ---- */

static int gathered;

static void *meet_other_readers(void *arg) {
    int members = *(int *)arg;
    must(pthread_rwlock_rdlock(&rw) == 0);
    add(&gathered, 1);
    await(&gathered, members); /* ends only if all are inside together */
    must(pthread_rwlock_unlock(&rw) == 0);
    return NULL;
}

CASE(readers_meet_inside, 60) {
    enum { MEMBERS = 32 };
    pthread_t thread[MEMBERS];
    int members = threads(MEMBERS);
    make(&rw, READERS, PTHREAD_PROCESS_PRIVATE);
    for (int i = 0; i < members; i++)
        thread[i] = start(meet_other_readers, &members);
    for (int i = 0; i < members; i++)
        join(thread[i]);
    yes("all were inside at once", gathered == members);
}

/* All wait behind a writer, then all get in together. */
CASE(readers_released_together, 60) {
    enum { MEMBERS = 200 };
    pthread_t thread[MEMBERS];
    int members = waiters_spin() ? 8 : MEMBERS;
    make(&rw, READERS, PTHREAD_PROCESS_PRIVATE);
    must(pthread_rwlock_wrlock(&rw) == 0);
    for (int i = 0; i < members; i++)
        thread[i] = start(meet_other_readers, &members);
    sleep_ms(20);
    yes("none inside", get(&gathered) == 0);
    must(pthread_rwlock_unlock(&rw) == 0);
    for (int i = 0; i < members; i++)
        join(thread[i]);
    yes("all were inside at once", gathered == members);
}

CASE(many_read_levels, 30) {
    enum { LEVELS = 20000 };
    int errors = 0;
    make(&rw, READERS, PTHREAD_PROCESS_PRIVATE);
    for (int i = 0; i < LEVELS; i++)
        errors += pthread_rwlock_rdlock(&rw) != 0;
    errors += pthread_rwlock_trywrlock(&rw) != EBUSY;
    for (int i = 0; i < LEVELS; i++)
        errors += pthread_rwlock_unlock(&rw) != 0;
    errors += pthread_rwlock_trywrlock(&rw) != 0;
    yes("no errors", errors == 0);
}

/* ---- time-outs race with releases ---- */

static int refused;

static void *impatient(void *arg) {
    unsigned seed = (unsigned)(uintptr_t)arg;
    long writes = 0;
    for (int i = 0; i < iterations(2000); i++) {
        bool write = rand_r(&seed) % 3 == 0;
        struct timespec soon = in_ms(CLOCK_MONOTONIC, 0);
        soon.tv_nsec += rand_r(&seed) % 100000;
        soon.tv_sec += soon.tv_nsec >= 1000000000;
        soon.tv_nsec %= 1000000000;
        int error = write ? pthread_rwlock_clockwrlock(&rw, CLOCK_MONOTONIC, &soon)
                          : pthread_rwlock_clockrdlock(&rw, CLOCK_MONOTONIC, &soon);
        if (error == ETIMEDOUT) {
            add(&refused, 1);
            continue;
        }
        must(error == 0);
        if (write) {
            write_inside();
            writes++;
        } else
            read_inside();
        if (i % 50 == 0)
            usleep(100);
        must(pthread_rwlock_unlock(&rw) == 0);
    }
    return (void *)writes;
}

static void timeouts(int kind) {
    pthread_t thread[4];
    int count = threads(4);
    long writes = 0;
    make(&rw, kind, PTHREAD_PROCESS_PRIVATE);
    for (int i = 0; i < count; i++)
        thread[i] = start(impatient, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < count; i++)
        writes += (long)join(thread[i]);
    yes("no overlap", overlaps == 0);
    yes("no write lost", a == writes && b == writes);
    result("free at the end", pthread_rwlock_trywrlock(&rw), 0);
    result("unlock", pthread_rwlock_unlock(&rw), 0);
    result("destroy", pthread_rwlock_destroy(&rw), 0);
}

CASE(timeouts_reader_kind, 60) { timeouts(READERS); }
CASE(timeouts_nonrecursive_kind, 60) { timeouts(NONRECURSIVE); }

/* ---- between processes ---- */

struct shared {
    pthread_rwlock_t lock;
    long a, b;
    int torn, ready;
};

static void process_work(struct shared *s, int rounds) {
    for (int i = 0; i < rounds; i++) {
        if (i % 4 == 0) {
            must(pthread_rwlock_wrlock(&s->lock) == 0);
            s->a++;
            s->b++;
        } else {
            must(pthread_rwlock_rdlock(&s->lock) == 0);
            if (s->a != s->b)
                add(&s->torn, 1);
        }
        must(pthread_rwlock_unlock(&s->lock) == 0);
    }
}

CASE(rwlock_between_processes, 60) {
    struct shared *s = shared_memory(sizeof *s);
    int rounds = iterations(4000) * 4;
    pid_t child[2];
    make(&s->lock, READERS, PTHREAD_PROCESS_SHARED);
    for (int i = 0; i < 2; i++) {
        child[i] = fork_child();
        if (child[i] == 0) {
            process_work(s, rounds);
            child_end();
        }
    }
    process_work(s, rounds);
    yes("child ended", child_ok(child[0]));
    yes("child ended", child_ok(child[1]));
    yes("no torn read", s->torn == 0);
    yes("no write lost", s->a == 3L * rounds / 4);

    result("wrlock", pthread_rwlock_wrlock(&s->lock), 0);
    child[0] = fork_child();
    if (child[0] == 0) {
        must(pthread_rwlock_tryrdlock(&s->lock) == EBUSY);
        set(&s->ready, 1);
        must(pthread_rwlock_rdlock(&s->lock) == 0);
        must(pthread_rwlock_unlock(&s->lock) == 0);
        child_end();
    }
    await(&s->ready, 1);
    sleep_ms(5);
    result("unlock", pthread_rwlock_unlock(&s->lock), 0);
    yes("waiting process woke", child_ok(child[0]));
    result("destroy", pthread_rwlock_destroy(&s->lock), 0);
}
