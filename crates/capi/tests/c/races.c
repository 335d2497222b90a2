/* Races, each in the thread's work under a lock and in main's work without it: `races WHAT SPEC`. ThreadSanitizer must tell of them. */
#include <lockwork.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lockwork_mutex_t mutex;
static lockwork_rwlock_t lock;
static lockwork_delegate_t delegate;
static long shared;

static void *locked(void *unused) {
    lockwork_mutex_lock(&mutex);
    shared++;
    lockwork_mutex_unlock(&mutex);
    return unused;
}

/* Two readers, one of which writes. */
static void *reading(void *unused) {
    lockwork_rwlock_rdlock(&lock);
    shared++;
    lockwork_rwlock_unlock(&lock);
    return unused;
}

static void *section(void *unused) {
    shared++;
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
        reading(NULL);
    } else {
        shared++;
    }
    pthread_join(thread, NULL);
    puts("ok");
    return 0;
}
