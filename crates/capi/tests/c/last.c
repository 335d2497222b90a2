/* The main thread ends before another one, which uses the delegate that the first argument names: the process ends with that one. */
#include <lockwork.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static lockwork_delegate_t delegate;
static long counter;

static void *count(void *argument) {
    (void)argument;
    counter++;
    return NULL;
}

static void *work(void *main_thread) {
    /* Not before the main thread has ended. */
    if (pthread_join(*(pthread_t *)main_thread, NULL)) abort();
    for (int round = 0; round < 1000; round++)
        if (lockwork_delegate_run(&delegate, count, NULL) != NULL) abort();
    printf("%s\n", counter == 1000 ? "ok" : "not ok");
    return NULL;
}

int main(int argc, char **argv) {
    static pthread_t main_thread;
    pthread_t thread;
    if (argc < 2) return 2;
    /* With a third argument the main thread does not know the delegate. */
    if (argc < 3 && lockwork_delegate_init(&delegate, argv[1])) return 3;
    if (argc >= 3) setenv("LOCKWORK_DELEGATE", argv[1], 1);
    main_thread = pthread_self();
    if (pthread_create(&thread, NULL, work, &main_thread)) return 4;
    pthread_exit(NULL);
}
