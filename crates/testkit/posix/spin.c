/* Spin locks; and barriers, semaphores and pthread_once, which are glibc's but work beside ours. */
#include "suite.h"

#include <semaphore.h>

static pthread_spinlock_t s;
static long counter;

static int probe(pthread_spinlock_t *spin) {
    int error = pthread_spin_trylock(spin);
    if (error == 0)
        must(pthread_spin_unlock(spin) == 0);
    return error;
}

static void life(pthread_spinlock_t *spin) {
    result("trylock", pthread_spin_trylock(spin), 0);
    result("trylock again", pthread_spin_trylock(spin), EBUSY);
    result("trylock by other", BY_OTHER(probe, spin), EBUSY);
    result("unlock", pthread_spin_unlock(spin), 0);
    result("free", BY_OTHER(probe, spin), 0);
    result("lock", pthread_spin_lock(spin), 0);
    result("trylock by other", BY_OTHER(probe, spin), EBUSY);
    result("unlock by other", BY_OTHER(pthread_spin_unlock, spin), 0);
    result("free", BY_OTHER(probe, spin), 0);
    result("destroy", pthread_spin_destroy(spin), 0);
}

CASE(spin_private, 10) {
    result("init", pthread_spin_init(&s, PTHREAD_PROCESS_PRIVATE), 0);
    life(&s);
}

CASE(spin_shared, 10) {
    result("init", pthread_spin_init(&s, PTHREAD_PROCESS_SHARED), 0);
    life(&s);
}

/* Programs without a static initialiser for spin locks write glibc's value of a free one themselves. */
CASE(spin_static_value, 10) {
    pthread_spinlock_t made;
    must(pthread_spin_init(&made, 0) == 0);
    note("value when free", made == 1 ? "1" : "other");
    s = 1;
    life(&s);
    s = 1;
    must(pthread_spin_lock(&s) == 0);
    yes("value when held is not the free one", s != 1);
}

CASE(spin_stays_in_its_four_bytes, 10) {
    struct {
        int before;
        pthread_spinlock_t spin;
        int after;
    } guarded = {.before = 0x5a5a5a5a, .after = 0x5a5a5a5a};
    must(pthread_spin_init(&guarded.spin, 0) == 0);
    life(&guarded.spin);
    yes("neighbours untouched", guarded.before == 0x5a5a5a5a && guarded.after == 0x5a5a5a5a);
}

static void *count_up(void *arg) {
    int rounds = *(int *)arg;
    for (int i = 0; i < rounds; i++) {
        if (i % 4 == 0)
            while (pthread_spin_trylock(&s) != 0)
                sched_yield();
        else
            must(pthread_spin_lock(&s) == 0);
        counter++;
        must(pthread_spin_unlock(&s) == 0);
    }
    return NULL;
}

CASE(spin_contest, 60) {
    int rounds = iterations(20000), count = threads(3);
    pthread_t thread[3];
    must(pthread_spin_init(&s, PTHREAD_PROCESS_PRIVATE) == 0);
    for (int i = 0; i < count; i++)
        thread[i] = start(count_up, &rounds);
    for (int i = 0; i < count; i++)
        join(thread[i]);
    yes("no increment lost", counter == (long)rounds * count);
}

CASE(spin_between_processes, 60) {
    struct shared {
        pthread_spinlock_t spin;
        long counter;
    } *shared = shared_memory(sizeof *shared);
    int rounds = iterations(20000);
    must(pthread_spin_init(&shared->spin, PTHREAD_PROCESS_SHARED) == 0);
    pid_t child = fork_child();
    for (int i = 0; i < rounds; i++) {
        must(pthread_spin_lock(&shared->spin) == 0);
        shared->counter++;
        must(pthread_spin_unlock(&shared->spin) == 0);
    }
    if (child == 0)
        child_end();
    yes("child ended", child_ok(child));
    yes("no increment lost", shared->counter == 2L * rounds);
}

CASE(spin_many_held, 10) {
    enum { HELD = 1000 };
    static pthread_spinlock_t many[HELD];
    int errors = 0;
    for (int i = 0; i < HELD; i++)
        errors += pthread_spin_init(&many[i], 0) != 0 || pthread_spin_lock(&many[i]) != 0;
    for (int i = 0; i < HELD; i++)
        errors += pthread_spin_trylock(&many[i]) != EBUSY;
    for (int i = 0; i < HELD; i++)
        errors += pthread_spin_unlock(&many[i]) != 0;
    for (int i = 0; i < HELD; i++)
        errors += probe(&many[i]) != 0;
    yes("no errors", errors == 0);
}

/* ---- not interposed ---- */

static pthread_barrier_t barrier;
static sem_t sem;
static int serial;

static void *pass_barrier(void *arg) {
    (void)arg;
    for (int i = 0; i < 50; i++)
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            add(&serial, 1);
    return NULL;
}

CASE(barrier_works, 30) {
    pthread_t thread[3];
    result("init", pthread_barrier_init(&barrier, NULL, 3), 0);
    for (int i = 0; i < 3; i++)
        thread[i] = start(pass_barrier, NULL);
    for (int i = 0; i < 3; i++)
        join(thread[i]);
    yes("one serial thread a round", serial == 50);
    result("destroy", pthread_barrier_destroy(&barrier), 0);
}

static void *post(void *arg) {
    (void)arg;
    for (int i = 0; i < 500; i++)
        must(sem_post(&sem) == 0);
    return NULL;
}

CASE(semaphore_works, 30) {
    must(sem_init(&sem, 0, 0) == 0);
    pthread_t thread = start(post, NULL);
    for (int i = 0; i < 500; i++)
        must(sem_wait(&sem) == 0);
    join(thread);
    yes("trywait finds none", sem_trywait(&sem) == -1 && errno == EAGAIN);
    struct timespec soon = in_ms(CLOCK_REALTIME, 10);
    yes("timedwait times out", sem_timedwait(&sem, &soon) == -1 && errno == ETIMEDOUT);
    result("destroy", sem_destroy(&sem), 0);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int initialised;

static void initialise(void) {
    must(pthread_mutex_lock(&m) == 0);
    initialised++;
    must(pthread_mutex_unlock(&m) == 0);
}

static void *call_once_now(void *arg) {
    (void)arg;
    must(pthread_once(&once, initialise) == 0);
    return NULL;
}

CASE(once_works, 30) {
    pthread_t thread[8];
    for (int i = 0; i < 8; i++)
        thread[i] = start(call_once_now, NULL);
    for (int i = 0; i < 8; i++)
        join(thread[i]);
    yes("once", initialised == 1);
}

/* Locking must leave errno alone: callers look at it after the unlock of an error path. */
CASE(errno_is_preserved, 10) {
    pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
    pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    struct timespec soon = in_ms(CLOCK_REALTIME, 10);
    errno = 4711;
    pthread_mutex_lock(&m);
    pthread_mutex_trylock(&m);
    pthread_mutex_timedlock(&m, &soon);
    pthread_cond_timedwait(&c, &m, &soon);
    pthread_cond_signal(&c);
    pthread_cond_broadcast(&c);
    pthread_mutex_unlock(&m);
    pthread_rwlock_wrlock(&rw);
    pthread_rwlock_rdlock(&rw);
    pthread_rwlock_tryrdlock(&rw);
    pthread_rwlock_unlock(&rw);
    pthread_mutex_destroy(&m);
    pthread_cond_destroy(&c);
    pthread_rwlock_destroy(&rw);
    yes("errno", errno == 4711);
}
