#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static long waits(long by)
{
    pthread_mutex_lock(&lock);
    while (by < 0)
        pthread_cond_wait(&never, &lock);
    pthread_mutex_unlock(&lock);
    return by;
}

int main(void)
{
    return (int)waits(0);
}
