/* Many threads take many new locks for the first time, at two places, with as little stack as a thread may have. */
#include "policy.h"

#include <limits.h>

enum { LOCKS = 2000, THREADS = 8 };

static pthread_mutex_t known[LOCKS];
static pthread_mutex_t *heap;
static pthread_barrier_t begin;

static void take(pthread_mutex_t *mutex) {
    must(pthread_mutex_lock(mutex) == 0);
    must(pthread_mutex_unlock(mutex) == 0);
}

static void *take_all(void *unused) {
    (void)unused;
    pthread_barrier_wait(&begin);
    for (int i = 0; i < LOCKS; i++) {
        take(&known[i]);
        take(&heap[i]);
    }
    return NULL;
}

int main(void) {
    heap = calloc(LOCKS, sizeof *heap);
    pthread_t threads[THREADS];
    pthread_attr_t attr;
    must(heap != NULL && pthread_barrier_init(&begin, NULL, THREADS) == 0);
    must(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN) == 0);
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], &attr, take_all, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL) == 0);
    puts("done");
}
