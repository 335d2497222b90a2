/* The functions of lockwork.h under the specs of the command line: `locks MUTEX RWLOCK`. */
#include <errno.h>
#include <lockwork.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, lockwork_error()); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

enum { THREADS = 4, ROUNDS = 2000 };

static lockwork_mutex_t mutex = LOCKWORK_MUTEX_INITIALIZER, named;
static lockwork_rwlock_t lock = LOCKWORK_RWLOCK_INITIALIZER, named_lock;
static lockwork_cond_t condition = LOCKWORK_COND_INITIALIZER;
static long counts[4];
static int turn;

static void *work(void *unused) {
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(lockwork_mutex_lock(&mutex) == 0);
        counts[0]++;
        CHECK(lockwork_mutex_unlock(&mutex) == 0);
        CHECK(lockwork_mutex_lock(&named) == 0);
        counts[1]++;
        CHECK(lockwork_mutex_unlock(&named) == 0);
        CHECK(lockwork_rwlock_wrlock(&lock) == 0);
        counts[2]++;
        CHECK(lockwork_rwlock_unlock(&lock) == 0);
        CHECK(lockwork_rwlock_wrlock(&named_lock) == 0);
        counts[3]++;
        CHECK(lockwork_rwlock_unlock(&named_lock) == 0);
        CHECK(lockwork_rwlock_rdlock(&named_lock) == 0);
        CHECK(counts[3] > 0);
        CHECK(lockwork_rwlock_unlock(&named_lock) == 0);
    }
    return unused;
}

static struct timespec soon(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += 5000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_nsec -= 1000000000;
        time.tv_sec++;
    }
    return time;
}

/* What a held mutex and a held lock refuse to another thread. */
static void *refused(void *unused) {
    struct timespec past = {0, 0}, time = soon(CLOCK_MONOTONIC), bad = {0, -1};
    CHECK(lockwork_mutex_trylock(&named) == EBUSY);
    CHECK(lockwork_mutex_timedlock(&named, &past) == ETIMEDOUT);
    CHECK(lockwork_mutex_clocklock(&named, CLOCK_MONOTONIC, &time) == ETIMEDOUT);
    CHECK(lockwork_mutex_timedlock(&named, &bad) == EINVAL && strstr(lockwork_error(), "tv_nsec"));
    CHECK(lockwork_mutex_clocklock(&named, CLOCK_PROCESS_CPUTIME_ID, &time) == EINVAL);
    CHECK(lockwork_mutex_destroy(&named) == EBUSY);
    CHECK(lockwork_rwlock_tryrdlock(&named_lock) == EBUSY && lockwork_rwlock_trywrlock(&named_lock) == EBUSY);
    CHECK(lockwork_rwlock_timedrdlock(&named_lock, &past) == ETIMEDOUT);
    CHECK(lockwork_rwlock_timedwrlock(&named_lock, &past) == ETIMEDOUT);
    time = soon(CLOCK_MONOTONIC);
    CHECK(lockwork_rwlock_clockrdlock(&named_lock, CLOCK_MONOTONIC, &time) == ETIMEDOUT);
    time = soon(CLOCK_MONOTONIC);
    CHECK(lockwork_rwlock_clockwrlock(&named_lock, CLOCK_MONOTONIC, &time) == ETIMEDOUT);
    CHECK(lockwork_rwlock_destroy(&named_lock) == EBUSY);
    return unused;
}

static void *take_turns(void *own) {
    for (int round = 0; round < 100; round++) {
        CHECK(lockwork_mutex_lock(&named) == 0);
        while (turn != *(int *)own) {
            CHECK(lockwork_cond_wait(&condition, &named) == 0);
        }
        turn = !turn;
        CHECK(lockwork_cond_broadcast(&condition) == 0);
        CHECK(lockwork_mutex_unlock(&named) == 0);
    }
    return own;
}

static lockwork_mutex_t reused;
static pthread_barrier_t again;

/* Gives up waiting for a mutex, and waits for another one in the same memory. */
static void *wait_for_both(void *unused) {
    struct timespec time = soon(CLOCK_MONOTONIC), later = soon(CLOCK_MONOTONIC);
    CHECK(lockwork_mutex_clocklock(&reused, CLOCK_MONOTONIC, &time) == ETIMEDOUT);
    pthread_barrier_wait(&again);
    pthread_barrier_wait(&again);
    later.tv_sec += 60;
    CHECK(lockwork_mutex_clocklock(&reused, CLOCK_MONOTONIC, &later) == 0);
    CHECK(lockwork_mutex_unlock(&reused) == 0);
    return unused;
}

/* Memory may become another mutex although the one before was held to its end. */
static void reuse(const char *spec) {
    pthread_t waiters[2];
    CHECK(lockwork_mutex_init(&reused, spec) == 0 && lockwork_mutex_lock(&reused) == 0);
    CHECK(pthread_barrier_init(&again, NULL, 3) == 0);
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&waiters[i], NULL, wait_for_both, NULL) == 0);
    pthread_barrier_wait(&again);
    CHECK(lockwork_mutex_init(&reused, spec) == 0 && lockwork_mutex_lock(&reused) == 0);
    pthread_barrier_wait(&again);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    CHECK(lockwork_mutex_unlock(&reused) == 0);
    for (int i = 0; i < 2; i++) pthread_join(waiters[i], NULL);
}

static void run(void *(*start)(void *), void *arguments[], int threads) {
    pthread_t ids[THREADS];
    for (int i = 0; i < threads; i++) {
        CHECK(pthread_create(&ids[i], NULL, start, arguments ? arguments[i] : NULL) == 0);
    }
    for (int i = 0; i < threads; i++) {
        CHECK(pthread_join(ids[i], NULL) == 0);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    CHECK(sizeof mutex <= 64 && sizeof lock <= 64 && sizeof condition <= 64);
    CHECK(lockwork_mutex_init(&named, "tiket") == EINVAL && strstr(lockwork_error(), "did you mean `ticket`"));
    CHECK(lockwork_rwlock_init(&named_lock, "ticket") == EINVAL && *lockwork_error());
    CHECK(lockwork_mutex_init(&named, argv[1]) == 0);
    CHECK(lockwork_rwlock_init(&named_lock, argv[2]) == 0);
    CHECK(lockwork_cond_init(&condition) == 0);
    run(work, NULL, THREADS);
    for (int i = 0; i < 4; i++) {
        CHECK(counts[i] == (long)THREADS * ROUNDS);
    }
    CHECK(lockwork_mutex_lock(&named) == 0 && lockwork_rwlock_wrlock(&named_lock) == 0);
    run(refused, NULL, 1);
    CHECK(lockwork_mutex_unlock(&named) == 0 && lockwork_rwlock_unlock(&named_lock) == 0);

    reuse(argv[1]);

    int sides[] = {0, 1};
    void *arguments[] = {&sides[0], &sides[1]};
    run(take_turns, arguments, 2);
    struct timespec time = soon(CLOCK_REALTIME);
    CHECK(lockwork_mutex_lock(&named) == 0);
    CHECK(lockwork_cond_timedwait(&condition, &named, &time) == ETIMEDOUT);
    CHECK(lockwork_mutex_unlock(&named) == 0);

    CHECK(lockwork_cond_destroy(&condition) == 0);
    CHECK(lockwork_mutex_destroy(&named) == 0 && lockwork_mutex_destroy(&mutex) == 0);
    CHECK(lockwork_rwlock_destroy(&named_lock) == 0 && lockwork_rwlock_destroy(&lock) == 0);
    puts("ok");
    return 0;
}
