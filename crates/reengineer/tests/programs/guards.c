#include <pthread.h>
#include <stdio.h>

/* Locks that a program may be compiled without: each function returns what it computed, and `main` prints it. */

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long counter;

static long straight(long by)
{
#ifndef WITHOUT_LOCKS
    pthread_mutex_lock(&lock);
#endif // WITHOUT_LOCKS
    long before = counter;
    counter += by;
#ifndef WITHOUT_LOCKS
    pthread_mutex_unlock(&lock);
#endif // WITHOUT_LOCKS
    return before;
}

static void no_variables(void)
{
#ifndef WITHOUT_LOCKS /* a comment */
    {pthread_mutex_lock(&lock);};

#endif /* WITHOUT_LOCKS */
    counter += 2;
#ifndef WITHOUT_LOCKS
    {pthread_mutex_unlock(&lock);}; /* another */
#endif
}

static long several_exits(long by)
{
    for (long round = 0; round < 3; round++) {
#ifndef WITHOUT_LOCKS
        pthread_mutex_lock(&lock);
#endif
        if (round * by > 2) {
            counter += round;
#ifndef WITHOUT_LOCKS
            pthread_mutex_unlock(&lock);
#endif
            by++;
            if (by > 3)
                return by;
            continue;
        }
        counter += by;
#ifndef WITHOUT_LOCKS
        pthread_mutex_unlock(&lock);
#endif
    }
    return by;
}

static long behind_a_label(long by)
{
again:
#ifndef WITHOUT_LOCKS
    pthread_mutex_lock(&lock);
#endif
    counter += by;
    long left = by - 1;
#ifndef WITHOUT_LOCKS
    pthread_mutex_unlock(&lock);
#endif
    if (left > 0) {
        by = left;
        goto again;
    }
    return by;
}

int main(void)
{
    for (long by = 0; by < 4; by++) {
        no_variables();
        printf("%ld %ld %ld %ld\n", straight(by), several_exits(by), behind_a_label(by), counter);
    }
    return 0;
}
