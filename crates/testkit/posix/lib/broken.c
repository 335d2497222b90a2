/* What a careless interposer does: trylock succeeds on a held mutex. The suite must notice. */
#include <pthread.h>

int pthread_mutex_trylock(pthread_mutex_t *m) {
    (void)m;
    return 0;
}
