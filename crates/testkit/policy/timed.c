/* Static mutexes whose first use is a timed one. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static pthread_mutex_t by_timedlock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t by_clocklock = PTHREAD_MUTEX_INITIALIZER;
static const struct timespec past;

/* Not a tail call: the return address must be here. */
__attribute__((noinline)) int lock_timed(void) { return pthread_mutex_timedlock(&by_timedlock, &past) ? 1 : 0; }

__attribute__((noinline)) int lock_by_clock(void) {
    return pthread_mutex_clocklock(&by_clocklock, CLOCK_MONOTONIC, &past) ? 1 : 0;
}

int main(void) {
    int failed = lock_timed() + lock_by_clock();
    failed += pthread_mutex_unlock(&by_timedlock) + pthread_mutex_unlock(&by_clocklock);
    puts("done");
    return failed;
}
