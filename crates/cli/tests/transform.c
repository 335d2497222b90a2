// A program with a hot mutex, a cold one and a reader-writer lock: `transform THREADS ROUNDS`. Threads hold the hot mutex while they
// sleep, so that others wait for it however few CPUs there are. It is taken in three ways, of which the profile sees the lines: plainly,
// by a macro, and in a function that is inlined.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WITH_HOT(what) \
    do { \
        what(&hot); \
    } while (0)

static pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t cold = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static long rounds, hot_sum, cold_sum;

static void pause_a_little(void) {
    const struct timespec pause = {0, 100000};
    nanosleep(&pause, NULL);
}

static void plain(long by) {
    pthread_mutex_lock(&hot);
    hot_sum += by;
    pause_a_little();
    pthread_mutex_unlock(&hot);
}

static void by_macro(long by) {
    WITH_HOT(pthread_mutex_lock);
    hot_sum += by;
    pause_a_little();
    WITH_HOT(pthread_mutex_unlock);
}

static inline __attribute__((always_inline)) void inlined(long by) {
    pthread_mutex_lock(&hot);
    hot_sum += by;
    pause_a_little();
    pthread_mutex_unlock(&hot);
}

// It is never called: a section of the hot mutex all the same.
long read_hot(void) {
    long sum;
    pthread_mutex_lock(&hot);
    sum = hot_sum;
    pthread_mutex_unlock(&hot);
    return sum;
}

static void *work(void *unused) {
    for (long i = 0; i < rounds; i++) {
        plain(1);
        by_macro(2);
        inlined(3);
        pthread_mutex_lock(&cold);
        cold_sum++;
        pthread_mutex_unlock(&cold);
        pthread_rwlock_rdlock(&table);
        pthread_rwlock_unlock(&table);
    }
    return unused;
}

int main(int count, char **arguments) {
    int threads = count > 1 ? atoi(arguments[1]) : 4;
    rounds = count > 2 ? atol(arguments[2]) : 50;
    pthread_t all[64];
    for (int i = 0; i < threads; i++) pthread_create(&all[i], NULL, work, NULL);
    for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
    printf("hot %ld, cold %ld\n", hot_sum, cold_sum);
    return 0;
}
