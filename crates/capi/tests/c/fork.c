/* A child of fork goes on with the locks that its thread holds and others of the parent wait for: `fork MUTEX RWLOCK`. */
#include <errno.h>
#include <lockwork.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, lockwork_error()); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

enum { FORKS = 5 };

static lockwork_mutex_t mutex;
static lockwork_rwlock_t lock, read_locked;
static const char *rwlock_spec;
static lockwork_cond_t condition = LOCKWORK_COND_INITIALIZER;
static int coming, end;

static void nap(void) {
    struct timespec time = {0, 20000000};
    nanosleep(&time, NULL);
}

static void *wait_for_mutex(void *unused) {
    __atomic_add_fetch(&coming, 1, __ATOMIC_SEQ_CST);
    CHECK(lockwork_mutex_lock(&mutex) == 0);
    CHECK(lockwork_mutex_unlock(&mutex) == 0);
    return unused;
}

static void *wait_to_read(void *unused) {
    __atomic_add_fetch(&coming, 1, __ATOMIC_SEQ_CST);
    CHECK(lockwork_rwlock_rdlock(&lock) == 0);
    CHECK(lockwork_rwlock_unlock(&lock) == 0);
    return unused;
}

static void *wait_to_write(void *unused) {
    __atomic_add_fetch(&coming, 1, __ATOMIC_SEQ_CST);
    CHECK(lockwork_rwlock_wrlock(&lock) == 0);
    CHECK(lockwork_rwlock_unlock(&lock) == 0);
    return unused;
}

static void *wait_for_signal(void *unused) {
    static lockwork_mutex_t own;
    __atomic_add_fetch(&coming, 1, __ATOMIC_SEQ_CST);
    CHECK(lockwork_mutex_lock(&own) == 0);
    while (!__atomic_load_n(&end, __ATOMIC_SEQ_CST))
        CHECK(lockwork_cond_wait(&condition, &own) == 0);
    CHECK(lockwork_mutex_unlock(&own) == 0);
    return unused;
}

static void *read_for_ever(void *unused) {
    for (int reads = 0; reads < 2; reads++) {
        CHECK(lockwork_rwlock_rdlock(&read_locked) == 0);
        if (reads == 0)
            CHECK(lockwork_rwlock_unlock(&read_locked) == 0);
    }
    __atomic_add_fetch(&coming, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&end, __ATOMIC_SEQ_CST))
        nap();
    CHECK(lockwork_rwlock_unlock(&read_locked) == 0);
    return unused;
}

static void *lock_all(void *unused) {
    CHECK(lockwork_mutex_lock(&mutex) == 0);
    CHECK(lockwork_mutex_unlock(&mutex) == 0);
    CHECK(lockwork_rwlock_wrlock(&lock) == 0);
    CHECK(lockwork_rwlock_unlock(&lock) == 0);
    CHECK(lockwork_rwlock_rdlock(&lock) == 0);
    CHECK(lockwork_rwlock_unlock(&lock) == 0);
    return unused;
}

/* In the child the caller is alone. */
static void child(void) {
    pthread_t threads[3];
    alarm(20);
    CHECK(lockwork_mutex_trylock(&mutex) == EBUSY);
    CHECK(lockwork_mutex_unlock(&mutex) == 0);
    CHECK(lockwork_rwlock_unlock(&lock) == 0);
    for (int round = 0; round < 3; round++)
        lock_all(NULL);
    for (int t = 0; t < 3; t++)
        CHECK(pthread_create(&threads[t], NULL, lock_all, NULL) == 0);
    for (int t = 0; t < 3; t++)
        CHECK(pthread_join(threads[t], NULL) == 0);
    CHECK(lockwork_rwlock_trywrlock(&read_locked) == EBUSY);
    CHECK(lockwork_rwlock_init(&read_locked, rwlock_spec) == 0);
    CHECK(lockwork_rwlock_wrlock(&read_locked) == 0);
    CHECK(lockwork_rwlock_unlock(&read_locked) == 0);
    CHECK(lockwork_cond_destroy(&condition) == 0);
    CHECK(lockwork_mutex_destroy(&mutex) == 0);
    CHECK(lockwork_rwlock_destroy(&lock) == 0);
    _exit(7);
}

int main(int argc, char **argv) {
    void *(*const parts[])(void *) = {wait_for_mutex, wait_for_mutex, wait_to_read, wait_to_write, wait_for_signal,
                                     read_for_ever};
    enum { PARTS = sizeof parts / sizeof *parts };
    pthread_t threads[PARTS];
    CHECK(argc == 3);
    CHECK(lockwork_mutex_init(&mutex, argv[1]) == 0);
    rwlock_spec = argv[2];
    CHECK(lockwork_rwlock_init(&lock, rwlock_spec) == 0);
    CHECK(lockwork_rwlock_init(&read_locked, rwlock_spec) == 0);
    CHECK(lockwork_mutex_lock(&mutex) == 0);
    CHECK(lockwork_rwlock_wrlock(&lock) == 0);
    for (int t = 0; t < PARTS; t++)
        CHECK(pthread_create(&threads[t], NULL, parts[t], NULL) == 0);
    while (__atomic_load_n(&coming, __ATOMIC_SEQ_CST) < PARTS)
        nap();
    for (int round = 0; round < FORKS; round++) {
        int status;
        nap();
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            child();
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    CHECK(lockwork_mutex_unlock(&mutex) == 0);
    CHECK(lockwork_rwlock_unlock(&lock) == 0);
    __atomic_store_n(&end, 1, __ATOMIC_SEQ_CST);
    while (lockwork_cond_destroy(&condition) == EBUSY)
        CHECK(lockwork_cond_broadcast(&condition) == 0);
    for (int t = 0; t < PARTS; t++)
        CHECK(pthread_join(threads[t], NULL) == 0);
    puts("ok");
    return 0;
}
