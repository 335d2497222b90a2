/* The main thread ends before another one, which uses the delegate that the first argument names: the process ends with that one.
   `last SERVER inside`: a section has started that one, on a server, which goes on to serve it. */
#define _GNU_SOURCE
#include <lockwork.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void *where(void *argument) {
    (void)argument;
    return (void *)(long)gettid();
}

static void *work_long(void *main_thread) {
    if (pthread_join(*(pthread_t *)main_thread, NULL)) abort();
    /* Long enough for servers to stop that take nobody here for a thread of the program. */
    usleep(500000);
    for (int round = 0; round < 1000; round++)
        if (lockwork_delegate_run(&delegate, where, NULL) != (void *)(long)gettid()) {
            printf("ok\n");
            return NULL;
        }
    printf("no server is left\n");
    return NULL;
}

/* Starts the thread, unless the requester runs this itself. */
static void *start(void *main_thread) {
    pthread_t thread;
    if (gettid() == getpid()) return NULL;
    if (pthread_create(&thread, NULL, work_long, main_thread)) abort();
    return main_thread;
}

int main(int argc, char **argv) {
    static pthread_t main_thread;
    pthread_t thread;
    if (argc < 2) return 2;
    if (argc >= 3 && strcmp(argv[2], "inside") == 0) {
        main_thread = pthread_self();
        if (lockwork_delegate_init(&delegate, argv[1])) return 3;
        while (lockwork_delegate_run(&delegate, start, &main_thread) == NULL)
            ;
        pthread_exit(NULL);
    }
    /* With another argument the main thread does not know the delegate. */
    if (argc < 3 && lockwork_delegate_init(&delegate, argv[1])) return 3;
    if (argc >= 3) setenv("LOCKWORK_DELEGATE", argv[1], 1);
    main_thread = pthread_self();
    if (pthread_create(&thread, NULL, work, &main_thread)) return 4;
    pthread_exit(NULL);
}
