/*
 * Crowds at one lock. `crowds mutex N`: N threads wait for one mutex, all at once. `crowds rwlock N`: N threads, every third a
 * writer, wait for a reader-writer lock, all at once, and come back for it.
 *
 * Prints `fine`, or, with status 3, how many threads the system let it start. SIGALRM ends it when it hangs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMES_BACK = 3, LIMIT_SECONDS = 240, TOO_FEW_THREADS = 3 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static int threads, arrived, released, overlaps, readers_inside;
static long first, second; /* written under the lock, both by each section that writes */

static int get(const int *cell) { return __atomic_load_n(cell, __ATOMIC_SEQ_CST); }
static int add(int *cell, int by) { return __atomic_add_fetch(cell, by, __ATOMIC_SEQ_CST); }

static void check(int ok, const char *what) {
    if (ok)
        return;
    printf("not so: %s\n", what);
    fflush(stdout);
    _exit(1);
}

static void write_section(void) {
    if (first != second || get(&readers_inside) != 0)
        add(&overlaps, 1);
    first++;
    second++;
}

static void *wait_for_mutex(void *arg) {
    (void)arg;
    add(&arrived, 1);
    check(pthread_mutex_lock(&mutex) == 0, "lock");
    if (!get(&released))
        add(&overlaps, 1);
    write_section();
    check(pthread_mutex_unlock(&mutex) == 0, "unlock");
    return NULL;
}

static void *wait_for_rwlock(void *arg) {
    long writes = (long)arg % 3 == 0;
    add(&arrived, 1);
    for (int round = 0; round < COMES_BACK; round++) {
        check((writes ? pthread_rwlock_wrlock(&rwlock) : pthread_rwlock_rdlock(&rwlock)) == 0, "lock");
        if (!get(&released))
            add(&overlaps, 1);
        if (writes)
            write_section();
        else {
            add(&readers_inside, 1);
            if (first != second)
                add(&overlaps, 1);
            add(&readers_inside, -1);
        }
        check(pthread_rwlock_unlock(&rwlock) == 0, "unlock");
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int rw = strcmp(argv[1], "rwlock") == 0;
    threads = atoi(argv[2]);
    alarm(LIMIT_SECONDS);
    pthread_t *thread = calloc((size_t)threads, sizeof *thread);
    pthread_attr_t attr;
    check(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 32 * 1024) == 0, "attributes");
    check(pthread_attr_setguardsize(&attr, 0) == 0, "no guard pages, so that stacks share mappings");
    check((rw ? pthread_rwlock_wrlock(&rwlock) : pthread_mutex_lock(&mutex)) == 0, "first lock");
    int started = 0;
    for (; started < threads; started++)
        if (pthread_create(&thread[started], &attr, rw ? wait_for_rwlock : wait_for_mutex, (void *)(long)started) != 0)
            break;
    while (get(&arrived) < started)
        usleep(1000);
    usleep(50000); /* the last ones reach the lock */
    check(first == 0, "nobody came in");
    add(&released, 1);
    check((rw ? pthread_rwlock_unlock(&rwlock) : pthread_mutex_unlock(&mutex)) == 0, "first unlock");
    for (int i = 0; i < started; i++)
        check(pthread_join(thread[i], NULL) == 0, "join");
    long writes = rw ? (started + 2) / 3 * (long)COMES_BACK : started;
    check(overlaps == 0, "each writer was alone");
    check(first == writes && second == writes, "each section was counted");
    if (started < threads) {
        printf("%d threads\n", started);
        return TOO_FEW_THREADS;
    }
    puts("fine");
    return 0;
}
