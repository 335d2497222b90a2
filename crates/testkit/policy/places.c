/* Locks that are initialised and first taken at places and under names that rules can tell apart. */
#include "policy.h"

/* Three mutexes from an exported function. */
__attribute__((noinline)) void make(pthread_mutex_t *mutex) {
    must(pthread_mutex_init(mutex, NULL) == 0);
    KEEP_FRAME;
}

/* Two from a function that only .symtab knows. */
__attribute__((noinline)) static void make_hidden(pthread_mutex_t *mutex) {
    must(pthread_mutex_init(mutex, NULL) == 0);
    KEEP_FRAME;
}

/* One by a call through a register. */
static int (*volatile init)(pthread_mutex_t *, const pthread_mutexattr_t *) = pthread_mutex_init;
__attribute__((noinline)) void make_by_pointer(pthread_mutex_t *mutex) {
    must(init(mutex, NULL) == 0);
    KEEP_FRAME;
}

/* Static ones, first taken by `first_use`: a single one, one that is exported, four in an array, one in a structure. */
static pthread_mutex_t hidden = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t shown = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t table[4];
static struct {
    long before;
    pthread_mutex_t mutex;
} inside;

__attribute__((noinline)) static void first_use(pthread_mutex_t *mutex) {
    must(pthread_mutex_lock(mutex) == 0);
    check_held(mutex);
    must(pthread_mutex_unlock(mutex) == 0);
}

int main(void) {
    pthread_mutex_t local[6];
    for (int i = 0; i < 3; i++)
        make(&local[i]);
    for (int i = 3; i < 5; i++)
        make_hidden(&local[i]);
    make_by_pointer(&local[5]);
    for (int i = 0; i < 6; i++)
        use(&local[i]);
    first_use(&hidden);
    first_use(&shown);
    for (int i = 0; i < 4; i++)
        first_use(&table[i]);
    first_use(&inside.mutex);
    puts("done");
}
