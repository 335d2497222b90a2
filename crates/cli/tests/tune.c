// A program with one contended lock: `tune THREADS ROUNDS [serve MARK]`. Threads hold the lock while they sleep, so that others
// wait for it however few CPUs there are. It prints a score: 130 under a policy that has `ticket` in it, else 100. With `serve` it
// makes a file when it is up, and goes on until it is killed.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t cold = PTHREAD_MUTEX_INITIALIZER;
static long rounds;

static void *work(void *unused) {
    const struct timespec pause = {0, 100000};
    for (long i = 0; i < rounds; i++) {
        pthread_mutex_lock(&hot);
        nanosleep(&pause, NULL);
        pthread_mutex_unlock(&hot);
    }
    return unused;
}

static int score(void) {
    const char *path = getenv("LOCKWORK_POLICY");
    FILE *policy = path ? fopen(path, "r") : NULL;
    if (!policy) return 100;
    char text[4096];
    size_t length = fread(text, 1, sizeof text - 1, policy);
    text[length] = 0;
    fclose(policy);
    return strstr(text, "lock = \"ticket\"") ? 130 : 100;
}

int main(int count, char **arguments) {
    int threads = atoi(arguments[1]);
    rounds = atol(arguments[2]);
    if (count == 5) {
        FILE *mark = fopen(arguments[4], "w");
        if (!mark) return 1;
        fclose(mark);
        rounds = 1000000000;
    }
    pthread_mutex_lock(&cold);
    pthread_mutex_unlock(&cold);
    pthread_t all[64];
    for (int i = 0; i < threads; i++) pthread_create(&all[i], NULL, work, NULL);
    for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
    printf("score: %d\n", score());
    return 0;
}
