/* Locks a mutex that its caller gives it; opened with every flag there is. */
#define _GNU_SOURCE
#include <pthread.h>

/* Defined by the program too: RTLD_DEEPBIND makes the library prefer its own. */
const char *who_am_i(void) {
    return "library";
}

const char *callee_who(void) {
    return who_am_i();
}

int callee_lock(pthread_mutex_t *m) {
    return pthread_mutex_lock(m);
}

int callee_trylock(pthread_mutex_t *m) {
    return pthread_mutex_trylock(m);
}

int callee_unlock(pthread_mutex_t *m) {
    return pthread_mutex_unlock(m);
}

int callee_signal(pthread_cond_t *c) {
    return pthread_cond_signal(c);
}

int callee_wait(pthread_cond_t *c, pthread_mutex_t *m) {
    return pthread_cond_wait(c, m);
}

int callee_tryrdlock(pthread_rwlock_t *l) {
    return pthread_rwlock_tryrdlock(l);
}
