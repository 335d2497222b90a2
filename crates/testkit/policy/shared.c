/* Two processes that pass a turn to and fro, by a mutex and a condition which they share. */
#include "policy.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int turn;
};

static void play(struct shared *shared, int me) {
    for (int i = 0; i < 200; i++) {
        must(pthread_mutex_lock(&shared->mutex) == 0);
        while (shared->turn != me)
            must(pthread_cond_wait(&shared->cond, &shared->mutex) == 0);
        shared->turn = !me;
        must(pthread_cond_signal(&shared->cond) == 0);
        must(pthread_mutex_unlock(&shared->mutex) == 0);
    }
}

int main(void) {
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared != MAP_FAILED);
    pthread_mutexattr_t mutex_attr;
    pthread_condattr_t cond_attr;
    must(pthread_mutexattr_init(&mutex_attr) == 0 && pthread_condattr_init(&cond_attr) == 0);
    must(pthread_mutexattr_setpshared(&mutex_attr, PTHREAD_PROCESS_SHARED) == 0);
    must(pthread_condattr_setpshared(&cond_attr, PTHREAD_PROCESS_SHARED) == 0);
    must(pthread_mutex_init(&shared->mutex, &mutex_attr) == 0);
    must(pthread_cond_init(&shared->cond, &cond_attr) == 0);

    pid_t child = fork();
    must(child >= 0);
    /* Should the other process have gone. */
    alarm(20);
    play(shared, child == 0);
    if (child == 0)
        _exit(0);
    int status;
    must(waitpid(child, &status, 0) == child && status == 0);
    must(pthread_cond_destroy(&shared->cond) == 0);
    puts("done");
}
