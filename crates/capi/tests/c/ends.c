/* The last user of an object ends its delegate and frees it, as POSIX allows with a mutex, while the threads that have used it before
   may be on their way out of their requests, where signals hold them up. Under the delegate that the first argument names;
   `ends DELEGATE held`: by acquiring; `ends DELEGATE busy`: one whose section still runs does not leave; `ends DELEGATE forked`: in a
   child one that a thread of the parent was inside of, whose number another thread has by then. */
#define _GNU_SOURCE
#include <lockwork.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                           \
    do {                                                                                      \
        if (!(what)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #what, lockwork_error()); \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

/* ThreadSanitizer takes a while. */
#ifdef __SANITIZE_THREAD__
enum { THREADS = 4, OBJECTS = 300 };
#else
enum { THREADS = 4, OBJECTS = 1000 };
#endif

struct object {
    lockwork_delegate_t lock;
    int users;
};

static struct object *objects[OBJECTS];
static int have_come[OBJECTS], is_held, have_ended;

static void hold_up(int number) {
    (void)number;
    usleep(100);
}

static void *leave(void *argument) {
    struct object *object = argument;
    return --object->users == 0 ? object : NULL;
}

static void end(struct object *object) {
    CHECK(lockwork_delegate_destroy(&object->lock) == 0);
    memset(object, 0xa5, sizeof *object);
    free(object);
}

static void *use(void *unused) {
    for (int number = 0; number < OBJECTS; number++) {
        struct object *object = objects[number];
        void *last;
        /* All at once. */
        __atomic_fetch_add(&have_come[number], 1, __ATOMIC_RELAXED);
        while (__atomic_load_n(&have_come[number], __ATOMIC_RELAXED) < THREADS) sched_yield();
        if (is_held) {
            CHECK(lockwork_delegate_acquire(&object->lock) == 0);
            last = leave(object);
            CHECK(lockwork_delegate_release(&object->lock) == 0);
        } else {
            CHECK(lockwork_delegate_execute(&object->lock, leave, object, &last) == 0);
        }
        if (last) end(object);
    }
    __atomic_fetch_add(&have_ended, 1, __ATOMIC_RELAXED);
    return unused;
}

/* A section that goes on until it is told to end. */
static struct object *busy;
static int has_begun, may_end;

static void *stay(void *unused) {
    __atomic_store_n(&has_begun, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE)) sched_yield();
    return unused;
}

static void *request(void *unused) {
    CHECK(lockwork_delegate_execute(&busy->lock, stay, NULL, NULL) == 0);
    return unused;
}

static struct object *made(const char *spec, int users) {
    struct object *object = malloc(sizeof *object);
    CHECK(object && lockwork_delegate_init(&object->lock, spec) == 0);
    object->users = users;
    return object;
}

static void refuse(const char *spec) {
    pthread_t thread;
    busy = made(spec, 1);
    CHECK(!pthread_create(&thread, NULL, request, NULL));
    while (!__atomic_load_n(&has_begun, __ATOMIC_ACQUIRE)) sched_yield();
    CHECK(lockwork_delegate_destroy(&busy->lock) == EBUSY && strstr(lockwork_error(), "section of the delegate runs"));
    __atomic_store_n(&may_end, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    end(busy);
}

static pid_t child;

static void *do_nothing(void *unused) { return unused; }

static void *line_up(void *unused) {
    while (!__atomic_load_n(&has_begun, __ATOMIC_ACQUIRE)) sched_yield();
    CHECK(lockwork_delegate_execute(&busy->lock, do_nothing, NULL, NULL) == 0);
    return unused;
}

static void *fork_here(void *unused) {
    __atomic_store_n(&has_begun, 1, __ATOMIC_RELEASE);
    usleep(50000); /* The other thread lines up meanwhile. */
    child = fork();
    return unused;
}

static void *request_of(void *object) {
    CHECK(lockwork_delegate_execute(&((struct object *)object)->lock, do_nothing, NULL, NULL) == 0);
    return NULL;
}

static void end_in_child(const char *spec) {
    lockwork_mutex_t mutex = LOCKWORK_MUTEX_INITIALIZER;
    struct object *other = made(spec, 1);
    pthread_t thread;
    int status;
    /* Numbers of the parent's threads are free in a child of a program that has mutexes, too. */
    CHECK(lockwork_mutex_lock(&mutex) == 0 && lockwork_mutex_unlock(&mutex) == 0);
    busy = made(spec, 1);
    CHECK(!pthread_create(&thread, NULL, line_up, NULL));
    CHECK(lockwork_delegate_execute(&busy->lock, fork_here, NULL, NULL) == 0);
    if (child == 0) {
        CHECK(!pthread_create(&thread, NULL, request_of, other) && !pthread_join(thread, NULL));
        end(busy);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    pthread_join(thread, NULL);
    end(busy);
    end(other);
}

int main(int count, char **arguments) {
    pthread_t threads[THREADS];
    if (count > 2 && !strcmp(arguments[2], "busy")) {
        refuse(arguments[1]);
        puts("ok");
        return 0;
    }
    if (count > 2 && !strcmp(arguments[2], "forked")) {
        end_in_child(arguments[1]);
        puts("ok");
        return 0;
    }
    is_held = count > 2 && !strcmp(arguments[2], "held");
    for (int number = 0; number < OBJECTS; number++) objects[number] = made(arguments[1], THREADS);
    CHECK(signal(SIGUSR1, hold_up) != SIG_ERR);
    for (int number = 0; number < THREADS; number++) CHECK(!pthread_create(&threads[number], NULL, use, NULL));
    for (int number = 0; __atomic_load_n(&have_ended, __ATOMIC_RELAXED) < THREADS; number++) {
        pthread_kill(threads[number % THREADS], SIGUSR1);
        usleep(20);
    }
    for (int number = 0; number < THREADS; number++) pthread_join(threads[number], NULL);

    puts("ok");
    return 0;
}
