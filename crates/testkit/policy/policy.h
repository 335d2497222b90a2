/* Shared by the programs of the policy tests. */
#ifndef POLICY_H
#define POLICY_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Ends the program when a condition does not hold. */
#define must(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* At the end of a function: its last call is no tail call, so that the function is on the stack during it. */
#define KEEP_FRAME __asm__ volatile("")

static inline void *try_it(void *mutex) {
    return (void *)(long)pthread_mutex_trylock((pthread_mutex_t *)mutex);
}

/* The mutex works: another thread cannot have it. */
static inline void check_held(pthread_mutex_t *mutex) {
    pthread_t thread;
    void *result;
    must(pthread_create(&thread, NULL, try_it, mutex) == 0 && pthread_join(thread, &result) == 0);
    must((long)result == EBUSY);
}

static inline void use(pthread_mutex_t *mutex) {
    must(pthread_mutex_lock(mutex) == 0);
    check_held(mutex);
    must(pthread_mutex_unlock(mutex) == 0);
}

/* A time so many milliseconds from now. */
static inline struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec time;
    must(clock_gettime(clock, &time) == 0);
    time.tv_sec += ms / 1000;
    time.tv_nsec += ms % 1000 * 1000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

#endif
