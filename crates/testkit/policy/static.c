/* Uses one lock that was initialised statically, in the way that the argument says. */
#include "policy.h"

#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

int main(int count, char **arguments) {
    const char *operation = count > 1 ? arguments[1] : "none";
    struct timespec past = {1, 0};
    if (strcmp(operation, "lock") == 0)
        must(pthread_mutex_lock(&mutex) == 0);
    if (strcmp(operation, "trylock") == 0)
        must(pthread_mutex_trylock(&mutex) == 0);
    if (strcmp(operation, "rwlock") == 0)
        must(pthread_rwlock_rdlock(&rwlock) == 0);
    if (strcmp(operation, "cond") == 0)
        must(pthread_cond_timedwait(&cond, &mutex, &past) == ETIMEDOUT);
}
