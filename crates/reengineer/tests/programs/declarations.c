/* A program whose declarations all stand in front of statements, which C90 asks for, converted and as it was. */

#include <pthread.h>
#include <stdio.h>

#pragma GCC diagnostic error "-Wdeclaration-after-statement"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long counter;

/* What the block behind the first statement declares is used where the section is left. */
static long used_at_an_exit(long by)
{
    counter += by;
    pthread_mutex_lock(&lock);
    if (counter & 1) {
        long const first = counter + by;
        long const second = first * 2;
        counter = second;
        if (second & 2) {
            pthread_mutex_unlock(&lock);
            return first;
        }
        counter++;
    }
    pthread_mutex_unlock(&lock);
    return -counter;
}

/* The same with a value that has commas and semicolons, with none, and with an aggregate. */
static long used_behind(long by)
{
    counter += by;
    pthread_mutex_lock(&lock);
    {
        struct pair { long one, other; };
        long count = (counter++, by + ';');
        long later;
        const char *text = "a;b";
        long unused = count + text[1];
        later = unused - 1;
        pthread_mutex_unlock(&lock);
        printf("%ld %ld %s\n", count, later, text);
    }
    return counter;
}

/* The section's block goes on behind a wait. */
static long gives_up(long by)
{
    counter += by;
    pthread_mutex_lock(&lock);
    while (counter & 3) {
        long kept = counter + by;
        pthread_mutex_unlock(&lock);
        printf("%ld\n", kept);
        pthread_mutex_lock(&lock);
        counter += kept ? 1 : 3;
    }
    pthread_mutex_unlock(&lock);
    return counter;
}

int main(void)
{
    long by;
    for (by = 0; by < 6; by++)
        printf("%ld %ld %ld\n", used_at_an_exit(by), used_behind(by), gives_up(by));
    return 0;
}
