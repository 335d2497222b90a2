/* Sections that give local variables their values. What decides later whether another one has a value must not leave the function by
 * its address: the compiler would warn. What such a section is passed of `mine` and `left` is nothing. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long counter = 5, sum;

static long numbered(void)
{
    long mine;
    clock_t begin;
    pthread_mutex_lock(&lock);
    sum += 2;
    mine = counter;
    counter++;
    mine += mine > 6;
    pthread_mutex_unlock(&lock);
    if (mine == 5)
        begin = clock();
    printf("%ld\n", mine);
    if (mine == 5)
        sum += clock() < begin;
    return mine;
}

static long leaves(long by)
{
    long left;
    pthread_mutex_lock(&lock);
    left = counter - by;
    if (left < 0) {
        pthread_mutex_unlock(&lock);
        return left;
    }
    counter = left;
    pthread_mutex_unlock(&lock);
    return left + 100;
}

/* Set on one way only. */
static long set_sometimes(long by)
{
    long kept = 30;
    pthread_mutex_lock(&lock);
    if (by > 2)
        kept = counter;
    counter += by;
    pthread_mutex_unlock(&lock);
    return kept;
}

/* Set behind an exit. */
static long set_behind_exit(long by)
{
    long kept = 40;
    pthread_mutex_lock(&lock);
    if (by > 2) {
        pthread_mutex_unlock(&lock);
        return kept;
    }
    kept = counter++;
    pthread_mutex_unlock(&lock);
    return kept;
}

/* Read first. */
static long read_first(long by)
{
    long kept = 50;
    pthread_mutex_lock(&lock);
    counter += kept;
    kept = by;
    pthread_mutex_unlock(&lock);
    return kept;
}

/* Made of what it had. */
static long made_of_itself(long by)
{
    long kept = 60;
    pthread_mutex_lock(&lock);
    kept = kept + by;
    counter += kept;
    pthread_mutex_unlock(&lock);
    return kept;
}

/* Something else has its address, by which it is read. */
static long has_address(long by)
{
    long kept = 70, *at = &kept;
    pthread_mutex_lock(&lock);
    kept = by;
    counter += *at;
    pthread_mutex_unlock(&lock);
    return kept;
}

/* Set in a macro's text, and in text that another configuration has otherwise. */
#define SET_KEPT (kept = counter)
static long by_macro(long by)
{
    long kept = 80;
    pthread_mutex_lock(&lock);
    SET_KEPT;
    counter += by;
    pthread_mutex_unlock(&lock);
    return kept;
}

static long by_configuration(long by)
{
    long kept = 90;
    pthread_mutex_lock(&lock);
#ifndef OTHER
    kept = counter;
#endif
    counter += by;
    pthread_mutex_unlock(&lock);
    return kept;
}

/* What is volatile may be read meanwhile. */
static long is_volatile(long by)
{
    volatile long kept = 95;
    pthread_mutex_lock(&lock);
    kept = by;
    counter++;
    pthread_mutex_unlock(&lock);
    return kept;
}

/* Set in a section that gives its lock up and goes on. */
static long pauses(long by)
{
    long kept;
    pthread_mutex_lock(&lock);
    kept = counter;
    while (kept < counter + by) {
        pthread_mutex_unlock(&lock);
        printf("%ld\n", kept);
        pthread_mutex_lock(&lock);
        kept += 2;
    }
    pthread_mutex_unlock(&lock);
    return kept;
}

/* Set in one section, and read in another one, which has its address meanwhile. */
static long twice(long by)
{
    long mine;
    pthread_mutex_lock(&lock);
    mine = counter;
    pthread_mutex_unlock(&lock);
    printf("%ld\n", mine);
    pthread_mutex_lock(&lock);
    counter = mine + by;
    pthread_mutex_unlock(&lock);
    return mine;
}

/* Read in the section only: a compiler warns of what is only set. */
static long only_inside(long by)
{
    long kept;
    pthread_mutex_lock(&lock);
    kept = counter;
    counter += kept % 3 + by;
    pthread_mutex_unlock(&lock);
    return counter;
}

int main(void)
{
    printf("%ld %ld %ld\n", numbered(), numbered(), numbered());
    for (long by = 1; by < 5; by++) {
        printf("%ld %ld %ld %ld\n", only_inside(by), leaves(by * 3), set_sometimes(by), set_behind_exit(by));
        printf("%ld %ld %ld %ld\n", read_first(by), made_of_itself(by), has_address(by), by_macro(by));
        printf("%ld %ld %ld %ld\n", by_configuration(by), is_volatile(by), pauses(by), twice(by));
    }
    printf("%ld %ld\n", counter, sum);
    return 0;
}
