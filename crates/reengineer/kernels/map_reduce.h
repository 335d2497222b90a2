/* Map and reduce over tasks, in the manner of Phoenix: a queue of tasks for each thread with a lock each, a pool of threads, and
 * values that are added up by key. */
#ifndef MAP_REDUCE_H
#define MAP_REDUCE_H
#include "parallel.h"

struct map_task {
    struct map_task *next;
    long first, count;
};

struct map_reduce {
    /* Maps a task's elements, and emits values. */
    void (*map)(const struct map_task *task);
    /* How many elements there are, and how many a task has. */
    long elements, chunk;
    int threads;
};

/* Adds to the value of a key, below `KEYS`. */
#define KEYS 64
void emit(int key, long value);
/* Runs all tasks. */
void map_reduce(const struct map_reduce *job);
/* What a key's values came to. */
long reduced(int key);
/* How many tasks were run. */
long tasks_run(void);
#endif
