// A program for profiles: `profile PART`. What each part does is said there.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

// What a program declares to give locks names; there if the library is.
extern void lockwork_name(const void *, const char *) __attribute__((weak));
extern void __itt_sync_create(const void *, const char *, const char *, int) __attribute__((weak));

pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void rest(long us) {
    struct timespec pause = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

__attribute__((noinline)) void hold(void) {
    pthread_mutex_lock(&hot);
    rest(200);
    pthread_mutex_unlock(&hot);
}

__attribute__((noinline)) void look(void) {
    pthread_rwlock_rdlock(&shared);
    rest(100);
    pthread_rwlock_unlock(&shared);
}

__attribute__((noinline)) void change(void) {
    pthread_rwlock_wrlock(&shared);
    rest(100);
    pthread_rwlock_unlock(&shared);
}

static void *mixed(void *rounds) {
    for (long i = 0; i < (long)rounds; i++) {
        hold();
        if (i % 4) look();
        else change();
    }
    return NULL;
}

static void crowd(int threads, void *(*work)(void *), void *argument) {
    pthread_t all[64];
    for (int i = 0; i < threads; i++) pthread_create(&all[i], NULL, work, argument);
    for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
}

static void *use(void *mutex) {
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(mutex);
        rest(100);
        pthread_mutex_unlock(mutex);
    }
    return NULL;
}

// Two locks on the heap that the program gives names.
static void named(void) {
    pthread_mutex_t *cache = malloc(sizeof *cache), *index = malloc(sizeof *index);
    pthread_mutex_init(cache, NULL);
    pthread_mutex_init(index, NULL);
    if (lockwork_name) lockwork_name(cache, "the cache");
    if (__itt_sync_create) __itt_sync_create(index, "Mutex", "the index", 0);
    crowd(3, use, cache);
    crowd(3, use, index);
}

// One lock is held within the section of another for nearly all of the program's time.
static void nested(void) {
    pthread_mutex_lock(&outer);
    pthread_mutex_lock(&inner);
    rest(200000);
    pthread_mutex_unlock(&inner);
    pthread_mutex_unlock(&outer);
}

static int idlers;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;

static void *wait_for_ever(void *unused) {
    pthread_mutex_lock(&inner);
    idlers++;
    pthread_cond_signal(&arrived);
    for (;;) pthread_cond_wait(&never, &inner);
    return unused;
}

// Many threads have nothing to do; two compute, and wait for each other. Each computes under the mutex when the other is about to
// take it: left to chance, one could be done before the other has a CPU.
static atomic_int wanted[2];

static void *compute(void *number) {
    int self = number != NULL;
    for (int i = 0; i < 100; i++) {
        wanted[self] = 1;
        pthread_mutex_lock(&hot);
        wanted[self] = 0;
        while (!wanted[!self]) sched_yield();
        for (volatile long j = 0; j < 300000; j++) {}
        pthread_mutex_unlock(&hot);
        for (volatile long j = 0; j < 30000; j++) {}
    }
    wanted[self] = 1;
    return NULL;
}

static void idle(void) {
    pthread_t thread;
    // One after another: on a busy machine a crowd of them may wait for a mutex longer than all that follows takes.
    for (int i = 1; i <= 40; i++) {
        pthread_create(&thread, NULL, wait_for_ever, NULL);
        pthread_mutex_lock(&inner);
        while (idlers < i) pthread_cond_wait(&arrived, &inner);
        pthread_mutex_unlock(&inner);
    }
    pthread_t one;
    pthread_create(&one, NULL, compute, NULL);
    compute(&one);
    pthread_join(one, NULL);
}

static mtx_t of_c11;

/* Holds a mutex of C11 while others wait for it. */
__attribute__((noinline)) static void hold_c11(void) {
    mtx_lock(&of_c11);
    rest(2000);
    mtx_unlock(&of_c11);
}

static void *c11(void *rounds) {
    for (long i = 0; i < (long)rounds; i++) hold_c11();
    return NULL;
}

static pthread_mutex_t array[64] = {[0 ... 63] = PTHREAD_MUTEX_INITIALIZER};

/* Locks of one variable, one of which lives on after an attempt to destroy it while it is held; and the same of a child. */
static void destroyed(void) {
    for (int round = 0; round < 10; round++)
        for (int i = 0; i < 64; i++) {
            pthread_mutex_lock(&array[i]);
            if (pthread_mutex_destroy(&array[i]) != EBUSY) abort();
            pthread_mutex_unlock(&array[i]);
        }
    pid_t child = fork();
    if (child == 0) {
        pthread_mutex_lock(&array[0]);
        pthread_mutex_unlock(&array[0]);
        exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) abort();
}

int main(int count, char **arguments) {
    const char *part = count > 1 ? arguments[1] : "";
    if (!strcmp(part, "mixed")) crowd(4, mixed, (void *)60);
    else if (!strcmp(part, "named")) named();
    else if (!strcmp(part, "destroyed")) destroyed();
    else if (!strcmp(part, "c11")) {
        mtx_init(&of_c11, mtx_plain);
        crowd(3, c11, (void *)20);
    }
    else if (!strcmp(part, "nested")) nested();
    else if (!strcmp(part, "idle")) idle();
    else if (!strcmp(part, "serve")) {
        // A profile that is ended at once has a lock in it.
        hold();
        puts("up");
        fflush(stdout);
        crowd(4, mixed, (void *)1000000000);
    } else if (!strcmp(part, "serve-until-told")) {
        // As it, and ends well when its input does.
        puts("up");
        fflush(stdout);
        pthread_t all[4];
        for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, mixed, (void *)1000000000);
        while (getchar() != EOF) {}
        return 7;
    } else if (!strcmp(part, "uses-none")) {
        puts("up");
        fflush(stdout);
        while (getchar() != EOF) {}
        // The first of all.
        hold();
        return 7;
    } else
        return 2;
    return 0;
}
