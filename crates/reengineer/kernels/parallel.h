/* Locks, barriers and options, by macros as SPLASH's programs have them. */
#ifndef PARALLEL_H
#define PARALLEL_H
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_THREADS 64

#define LOCKDEC(name) pthread_mutex_t name
#define LOCKINIT(name) { pthread_mutex_init(&(name), NULL); }
#define LOCK(name) { pthread_mutex_lock(&(name)); }
#define UNLOCK(name) { pthread_mutex_unlock(&(name)); }
#define ALOCK(name, number) { pthread_mutex_lock(&(name)[number]); }
#define AUNLOCK(name, number) { pthread_mutex_unlock(&(name)[number]); }

#define BARDEC(name) \
    struct { \
        pthread_mutex_t mutex; \
        pthread_cond_t all_are_here; \
        int here, round; \
    } name
#define BARINIT(name) \
    { \
        pthread_mutex_init(&(name).mutex, NULL); \
        pthread_cond_init(&(name).all_are_here, NULL); \
        (name).here = (name).round = 0; \
    }
/* Lock and release are in one macro: such a section stays as it is. */
#define BARRIER(name, threads) \
    { \
        pthread_mutex_lock(&(name).mutex); \
        int barrier_round = (name).round; \
        if (++(name).here == (threads)) { \
            (name).here = 0; \
            (name).round++; \
            pthread_cond_broadcast(&(name).all_are_here); \
        } else { \
            while (barrier_round == (name).round) \
                pthread_cond_wait(&(name).all_are_here, &(name).mutex); \
        } \
        pthread_mutex_unlock(&(name).mutex); \
    }

struct options {
    int threads;
    long size;
    int is_timed;
    struct timespec begin;
};

/* PROGRAM [THREADS [SIZE [time]]] */
static inline struct options options_of(int count, char **arguments, long size)
{
    struct options options = { 4, size, count > 3, { 0, 0 } };
    if (count > 1)
        options.threads = atoi(arguments[1]);
    if (count > 2)
        options.size = atol(arguments[2]);
    if (options.threads < 1 || options.threads > MOST_THREADS || options.size < 1) {
        fprintf(stderr, "%s [THREADS [SIZE [time]]], at most %d threads\n", arguments[0], MOST_THREADS);
        exit(2);
    }
    clock_gettime(CLOCK_MONOTONIC, &options.begin);
    return options;
}

/* The time since the beginning, if that was asked for: results must not differ. */
static inline void print_time(const struct options *options, long operations)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - options->begin.tv_sec) + (double)(end.tv_nsec - options->begin.tv_nsec) / 1e9;
    if (options->is_timed)
        printf("ops/sec: %.0f\n", (double)operations / seconds);
}

/* Numbers that look random. */
static inline unsigned long mixed(unsigned long number)
{
    number ^= number >> 31;
    number *= 0x7fb5d329728ea185UL;
    number ^= number >> 27;
    number *= 0x81dadef4bc2dd44dUL;
    return number ^ number >> 33;
}

/* Starts `threads` threads, the calling one among them, and waits for them. */
static inline void run_threads(int threads, void *(*run)(void *))
{
    pthread_t others[MOST_THREADS];
    for (int number = 1; number < threads; number++) {
        if (pthread_create(&others[number], NULL, run, NULL) != 0) {
            fputs("no thread can be started\n", stderr);
            exit(1);
        }
    }
    run(NULL);
    for (int number = 1; number < threads; number++)
        pthread_join(others[number], NULL);
}
#endif
