// A program for profiles that uses the C library's locks: `recorded [serve]`.
#include <lockwork.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

lockwork_mutex_t hot = LOCKWORK_MUTEX_INITIALIZER;
lockwork_rwlock_t shared = LOCKWORK_RWLOCK_INITIALIZER;
static lockwork_mutex_t *heap;
static lockwork_cond_t turn = LOCKWORK_COND_INITIALIZER;
static int turns;
static atomic_int arrived;

static void rest(long us) {
    struct timespec pause = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

__attribute__((noinline)) void hold(void) {
    lockwork_mutex_lock(&hot);
    rest(200);
    lockwork_mutex_unlock(&hot);
}

__attribute__((noinline)) void look(void) {
    lockwork_rwlock_rdlock(&shared);
    rest(50);
    lockwork_rwlock_unlock(&shared);
}

__attribute__((noinline)) void change(void) {
    lockwork_rwlock_wrlock(&shared);
    lockwork_rwlock_unlock(&shared);
}

__attribute__((noinline)) void pass_turn(int self) {
    // The first turn is passed when somebody waits for the next.
    while (self == 0 && !arrived) rest(100);
    lockwork_mutex_lock(heap);
    if (self) arrived = 1;
    while (turns % 4 != self) lockwork_cond_wait(&turn, heap);
    turns++;
    lockwork_cond_broadcast(&turn);
    lockwork_mutex_unlock(heap);
}

static long rounds = 15;

static void *work(void *self) {
    for (long i = 0; i < rounds; i++) {
        hold();
        if (i % 3) look();
        else change();
        pass_turn((int)(long)self);
    }
    return NULL;
}

__attribute__((noinline)) void make_heap(void) {
    heap = malloc(sizeof *heap);
    if (lockwork_mutex_init(heap, "gcr(ticket, active=2)")) abort();
}

int main(int count, char **arguments) {
    (void)arguments;
    make_heap();
    pthread_t all[4];
    if (count > 1) rounds = 1000000000;
    for (long i = 0; i < 4; i++) pthread_create(&all[i], NULL, work, (void *)i);
    if (count > 1) {
        puts("up");
        fflush(stdout);
        while (getchar() != EOF) {}
        return 7;
    }
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    return 0;
}
