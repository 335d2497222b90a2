/* A library with a lock of its own and a function that initialises others. */
#include "policy.h"

static pthread_mutex_t part_mutex = PTHREAD_MUTEX_INITIALIZER;

void part_make(pthread_mutex_t *mutex);
void part_make(pthread_mutex_t *mutex) {
    must(pthread_mutex_init(mutex, NULL) == 0);
    KEEP_FRAME;
}

void part_use(void);
void part_use(void) {
    use(&part_mutex);
    KEEP_FRAME;
}
