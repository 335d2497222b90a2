/* Races, each in the thread's work under a lock and in main's work without it: `races WHAT SPEC`. ThreadSanitizer must tell of them.
 * It may miss two accesses of one word at the same instant. So the words are many, and main goes through them the other way. */
#include <lockwork.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lockwork_mutex_t mutex;
static lockwork_rwlock_t lock;
static lockwork_delegate_t delegate;
enum { WORDS = 1000 };
static long shared[WORDS];

static void upwards(void) {
    for (int i = 0; i < WORDS; i++) shared[i]++;
}

static void downwards(void) {
    for (int i = WORDS; i-- > 0;) shared[i]++;
}

static void *locked(void *unused) {
    lockwork_mutex_lock(&mutex);
    upwards();
    lockwork_mutex_unlock(&mutex);
    return unused;
}

/* A reader that writes, as main is another. */
static void *reading(void *unused) {
    lockwork_rwlock_rdlock(&lock);
    upwards();
    lockwork_rwlock_unlock(&lock);
    return unused;
}

static void *section(void *unused) {
    upwards();
    return unused;
}

static void *requesting(void *unused) { return lockwork_delegate_run(&delegate, section, unused); }

int main(int count, char **arguments) {
    if (count != 3) return 2;
    const char *what = arguments[1], *spec = arguments[2];
    int failed = strcmp(what, "mutex") == 0    ? lockwork_mutex_init(&mutex, spec)
                 : strcmp(what, "rwlock") == 0 ? lockwork_rwlock_init(&lock, spec)
                                               : lockwork_delegate_init(&delegate, spec);
    if (failed) return fprintf(stderr, "%s\n", lockwork_error()), 2;
    pthread_t thread;
    void *(*work)(void *) = strcmp(what, "mutex") == 0 ? locked : strcmp(what, "rwlock") == 0 ? reading : requesting;
    if (pthread_create(&thread, NULL, work, NULL) != 0) return 2;
    if (strcmp(what, "rwlock") == 0) {
        lockwork_rwlock_rdlock(&lock);
        downwards();
        lockwork_rwlock_unlock(&lock);
    } else {
        downwards();
    }
    pthread_join(thread, NULL);
    puts("ok");
    return 0;
}
