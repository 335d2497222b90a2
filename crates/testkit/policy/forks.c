/* Forks while another thread takes new locks for the first time; so does each child. */
#include "policy.h"

#include <signal.h>
#include <sys/wait.h>

enum { CHILDREN = 100, LOCKS = 50 };

static _Atomic int stop;

static void take_new_locks(void) {
    pthread_mutex_t *locks = calloc(LOCKS, sizeof *locks);
    must(locks != NULL);
    for (int i = 0; i < LOCKS; i++)
        must(pthread_mutex_lock(&locks[i]) == 0 && pthread_mutex_unlock(&locks[i]) == 0);
    free(locks);
}

static void *keep_taking(void *unused) {
    while (!stop)
        take_new_locks();
    return unused;
}

int main(void) {
    pthread_t thread;
    must(pthread_create(&thread, NULL, keep_taking, NULL) == 0);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        must(child >= 0);
        if (child == 0) {
            alarm(30);
            take_new_locks();
            _exit(0);
        }
        int status;
        must(waitpid(child, &status, 0) == child && status == 0);
    }
    stop = 1;
    must(pthread_join(thread, NULL) == 0);
    puts("done");
}
