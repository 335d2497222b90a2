#include <pthread.h>
#include <stdio.h>

/* Locks that a program may be compiled without, but not in a way that a closure could follow. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long counter;

/* half refused: has a #if that is not whole in it, or follows a #define in its function */
static long half(long by)
{
#ifndef WITHOUT_LOCKS
    pthread_mutex_lock(&lock);
#endif
    counter += by;
#ifndef WITHOUT_LOCKS
    by++;
    pthread_mutex_unlock(&lock);
#endif
    return by;
}

#define OTHERWISE

/* otherwise refused: has a #if that is not whole in it, or follows a #define in its function */
static long otherwise(long by)
{
#ifndef WITHOUT_LOCKS
    pthread_mutex_lock(&lock);
#endif
    counter += by;
#ifdef OTHERWISE
    pthread_mutex_unlock(&lock);
#endif
    return by;
}

/* always refused: has a #if that is not whole in it, or follows a #define in its function */
static long always(long by)
{
#ifndef WITHOUT_ANY_LOCK
    pthread_mutex_lock(&lock);
#endif
    counter += by;
    pthread_mutex_unlock(&lock);
    return by;
}

/* branches refused: has a #if that is not whole in it, or follows a #define in its function */
static long branches(long by)
{
#ifndef WITHOUT_LOCKS
    pthread_mutex_lock(&lock);
#endif
    counter += by;
    if (by & 1)
#ifndef WITHOUT_LOCKS
        pthread_mutex_unlock(&lock);
    else
        pthread_mutex_unlock(&lock);
#else
        by++;
#endif
    return by;
}

/* differs refused: has a #if that is not whole in it, or follows a #define in its function */
static long differs(long by)
{
#ifndef WITHOUT_LOCKS
    pthread_mutex_lock(&lock);
#endif
#ifdef WITHOUT_LOCKS
    if (by > 1)
        return 0;
#endif
    counter += by;
#ifndef WITHOUT_LOCKS
    pthread_mutex_unlock(&lock);
#endif
    return by;
}

/* waits refused: has a #if that is not whole in it, or follows a #define in its function */
static long waits(long by)
{
#ifndef WITHOUT_LOCKS
    pthread_mutex_lock(&lock);
#endif
    while (by > 100)
        pthread_cond_wait(&condition, &lock);
    counter += by;
#ifndef WITHOUT_LOCKS
    pthread_mutex_unlock(&lock);
#endif
    return by;
}

int main(void)
{
    for (long by = 0; by < 4; by++) {
        printf("%ld %ld %ld ", half(by), otherwise(by), branches(by));
        printf("%ld %ld %ld %ld\n", differs(by), waits(by), always(by), counter);
    }
    return 0;
}
