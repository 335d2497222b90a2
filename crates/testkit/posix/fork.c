/*
 * fork() in programs with threads. The child has one thread; the waiters its locks remember ("ghosts") exist
 * in the parent only, and must never be handed a lock there.
 */
#include "suite.h"

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static int waiting, last_tid, quit, tickets;
static long counter;

enum { GHOSTS = 3 };

static void *queue_up(void *arg) {
    set(&last_tid, gettid());
    add(&waiting, 1);
    must(pthread_mutex_lock(arg) == 0);
    counter++;
    must(pthread_mutex_unlock(arg) == 0);
    return NULL;
}

static void *count_up(void *arg) {
    for (int i = 0; i < 200; i++) {
        must(pthread_mutex_lock(arg) == 0);
        counter++;
        must(pthread_mutex_unlock(arg) == 0);
    }
    return NULL;
}

/* The mutex works between fresh threads. */
static void contest(pthread_mutex_t *mutex) {
    long before = counter;
    pthread_t a = start(count_up, mutex), b = start(count_up, mutex);
    count_up(mutex);
    join(a);
    join(b);
    must(counter == before + 600);
}

/* ---- the forking thread holds a mutex others wait for ---- */

static void child_with_ghosts(pthread_mutex_t *mutex, int way) {
    if (way == 1) { /* as a careful atfork handler does */
        must(pthread_mutex_init(mutex, NULL) == 0);
    } else {
        must(BY_OTHER(pthread_mutex_trylock, mutex) == EBUSY);
        must(pthread_mutex_unlock(mutex) == 0);
    }
    must(pthread_mutex_lock(mutex) == 0);
    must(pthread_mutex_unlock(mutex) == 0);
    contest(mutex);
    must(pthread_mutex_destroy(mutex) == 0);
    child_end();
}

static void ghosts(int type, int way, int full_rounds) {
    pthread_mutexattr_t attr;
    pthread_mutex_t mutex;
    int good = 0, rounds = iterations(full_rounds), count = waiters_spin() ? 2 : GHOSTS;
    must(pthread_mutexattr_init(&attr) == 0 && pthread_mutexattr_settype(&attr, type) == 0);
    must(pthread_mutex_init(&mutex, &attr) == 0);
    for (int i = 0; i < rounds; i++) {
        pthread_t thread[GHOSTS];
        set(&waiting, 0);
        must(pthread_mutex_lock(&mutex) == 0);
        for (int k = 0; k < count; k++)
            thread[k] = start(queue_up, &mutex);
        await(&waiting, count);
        if (i % 2)
            settle(get(&last_tid));
        pid_t child = fork_child();
        if (child == 0)
            child_with_ghosts(&mutex, way);
        must(pthread_mutex_unlock(&mutex) == 0);
        for (int k = 0; k < count; k++)
            join(thread[k]);
        good += child_ok(child);
    }
    yes("every child ended", good == rounds);
    result("destroy", pthread_mutex_destroy(&mutex), 0);
}

CASE(fork_ghosts_normal, 60) { ghosts(PTHREAD_MUTEX_NORMAL, 0, 60); }
/* glibc's child does not own a recursive mutex (see fork_owner_in_child): it can only make it anew. */
CASE(fork_ghosts_recursive, 60) { ghosts(PTHREAD_MUTEX_RECURSIVE, 1, 20); }
CASE(fork_ghosts_adaptive, 60) { ghosts(PTHREAD_MUTEX_ADAPTIVE_NP, 0, 20); }
CASE(fork_ghosts_init, 60) { ghosts(PTHREAD_MUTEX_NORMAL, 1, 20); }

/* An errorcheck mutex knows its owner by thread id, which is another one in the child. */
CASE(fork_owner_in_child, 20) {
    pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    int *outcome = shared_memory(4 * sizeof *outcome);
    must(pthread_mutex_lock(&checked) == 0 && pthread_mutex_lock(&recursive) == 0);
    pid_t child = fork_child();
    if (child == 0) {
        outcome[0] = pthread_mutex_trylock(&checked);
        outcome[1] = pthread_mutex_unlock(&checked);
        outcome[2] = pthread_mutex_trylock(&recursive);
        outcome[3] = pthread_mutex_unlock(&recursive);
        child_end();
    }
    yes("child ended", child_ok(child));
    note("trylock of an errorcheck one", error_name(outcome[0]));
    note("unlock of an errorcheck one", error_name(outcome[1]));
    note("trylock of a recursive one", error_name(outcome[2]));
    note("unlock of a recursive one", error_name(outcome[3]));
    result("parent still owns both", pthread_mutex_unlock(&checked) + pthread_mutex_unlock(&recursive), 0);
}

/* The waiters wait for a mutex that another thread holds: the child destroys and makes it anew. */
static void *hold(void *arg) {
    must(pthread_mutex_lock(arg) == 0);
    set(&waiting, 1);
    await(&quit, 1);
    must(pthread_mutex_unlock(arg) == 0);
    return NULL;
}

CASE(fork_held_by_other, 30) {
    pthread_t holder = start(hold, &m);
    await(&waiting, 1);
    pthread_t ghost = start(queue_up, &m);
    await(&waiting, 2);
    settle(get(&last_tid));
    pid_t child = fork_child();
    if (child == 0) {
        must(pthread_mutex_trylock(&m) == EBUSY);
        struct timespec past = {1, 0};
        must(pthread_mutex_timedlock(&m, &past) == ETIMEDOUT);
        must(pthread_mutex_init(&m, NULL) == 0);
        contest(&m);
        child_end();
    }
    yes("child ended", child_ok(child));
    set(&quit, 1);
    join(holder);
    join(ghost);
    result("destroy", pthread_mutex_destroy(&m), 0);
}

/* ---- conds and rwlocks with ghosts ---- */

static void *take_ticket(void *arg) {
    must(pthread_mutex_lock(&m) == 0);
    add(&waiting, 1);
    while (tickets == 0)
        must(pthread_cond_wait(arg, &m) == 0);
    tickets--;
    must(pthread_mutex_unlock(&m) == 0);
    return NULL;
}

/* Gives tickets by broadcast until all `threads` have one. */
static void serve(pthread_cond_t *cond, int members) {
    must(pthread_mutex_lock(&m) == 0);
    tickets = members;
    must(pthread_cond_broadcast(cond) == 0);
    must(pthread_mutex_unlock(&m) == 0);
}

static void cond_ghosts(bool init) {
    int good = 0, rounds = iterations(30);
    for (int i = 0; i < rounds; i++) {
        pthread_t thread[GHOSTS];
        set(&waiting, 0);
        tickets = 0;
        for (int k = 0; k < GHOSTS; k++)
            thread[k] = start(take_ticket, &c);
        await(&waiting, GHOSTS);
        must(pthread_mutex_lock(&m) == 0);
        pid_t child = fork_child();
        if (child == 0) {
            must(pthread_mutex_unlock(&m) == 0);
            if (init)
                must(pthread_cond_init(&c, NULL) == 0);
            set(&waiting, 0);
            pthread_t a = start(take_ticket, &c), b = start(take_ticket, &c);
            await(&waiting, 2);
            serve(&c, 2);
            join(a);
            join(b);
            must(tickets == 0);
            if (init)
                must(pthread_cond_destroy(&c) == 0);
            child_end();
        }
        must(pthread_mutex_unlock(&m) == 0);
        good += child_ok(child);
        serve(&c, GHOSTS);
        for (int k = 0; k < GHOSTS; k++)
            join(thread[k]);
    }
    yes("every child ended", good == rounds);
    result("destroy", pthread_cond_destroy(&c), 0);
}

CASE(fork_cond_ghosts, 60) { cond_ghosts(false); }
CASE(fork_cond_ghosts_init, 60) { cond_ghosts(true); }

static void *queue_writer(void *arg) {
    set(&last_tid, gettid());
    add(&waiting, 1);
    must(pthread_rwlock_wrlock(arg) == 0);
    counter++;
    must(pthread_rwlock_unlock(arg) == 0);
    return NULL;
}

static void *queue_reader(void *arg) {
    set(&last_tid, gettid());
    add(&waiting, 1);
    must(pthread_rwlock_rdlock(arg) == 0);
    must(pthread_rwlock_unlock(arg) == 0);
    return NULL;
}

/* A forked child of a write-lock's owner has another thread id; glibc lets it unlock only as a reader would, so
   it makes the lock anew, as an atfork handler must. */
static void rwlock_ghosts(void *(*ghost)(void *), bool fork_as_reader) {
    int good = 0, rounds = iterations(30);
    for (int i = 0; i < rounds; i++) {
        pthread_t thread[GHOSTS];
        set(&waiting, 0);
        must((fork_as_reader ? pthread_rwlock_rdlock : pthread_rwlock_wrlock)(&rw) == 0);
        for (int k = 0; k < GHOSTS; k++)
            thread[k] = start(ghost, &rw);
        await(&waiting, GHOSTS);
        settle(get(&last_tid));
        pid_t child = fork_child();
        if (child == 0) {
            must(pthread_rwlock_init(&rw, NULL) == 0);
            must(pthread_rwlock_wrlock(&rw) == 0 && pthread_rwlock_unlock(&rw) == 0);
            must(pthread_rwlock_rdlock(&rw) == 0);
            must(BY_OTHER(pthread_rwlock_trywrlock, &rw) == EBUSY);
            must(pthread_rwlock_unlock(&rw) == 0);
            set(&waiting, 0);
            must(pthread_rwlock_wrlock(&rw) == 0);
            pthread_t a = start(queue_writer, &rw), b = start(queue_reader, &rw);
            await(&waiting, 2);
            must(pthread_rwlock_unlock(&rw) == 0);
            join(a);
            join(b);
            must(pthread_rwlock_destroy(&rw) == 0);
            child_end();
        }
        must(pthread_rwlock_unlock(&rw) == 0);
        for (int k = 0; k < GHOSTS; k++)
            join(thread[k]);
        good += child_ok(child);
    }
    yes("every child ended", good == rounds);
    result("destroy", pthread_rwlock_destroy(&rw), 0);
}

CASE(fork_rwlock_writer_ghosts, 60) { rwlock_ghosts(queue_writer, false); }
CASE(fork_rwlock_reader_ghosts, 60) { rwlock_ghosts(queue_reader, false); }
CASE(fork_rwlock_writer_ghosts_reader_forks, 60) { rwlock_ghosts(queue_writer, true); }

/* A child that forked while reading gives back its read lock and goes on reading, ghost writers or not. */
CASE(fork_rwlock_reader_unlocks, 30) {
    must(pthread_rwlock_rdlock(&rw) == 0);
    pthread_t ghost = start(queue_writer, &rw);
    await(&waiting, 1);
    settle(get(&last_tid));
    pid_t child = fork_child();
    if (child == 0) {
        must(pthread_rwlock_tryrdlock(&rw) == 0);
        must(pthread_rwlock_unlock(&rw) == 0);
        must(pthread_rwlock_trywrlock(&rw) == EBUSY);
        child_end();
    }
    yes("child ended", child_ok(child));
    must(pthread_rwlock_unlock(&rw) == 0);
    join(ghost);
}

/* ---- other processes ---- */

CASE(fork_nested, 60) {
    set(&waiting, 0);
    must(pthread_mutex_lock(&m) == 0);
    pthread_t ghost = start(queue_up, &m);
    await(&waiting, 1);
    pid_t child = fork_child();
    if (child == 0) {
        pthread_t second = start(queue_up, &m);
        await(&waiting, 2);
        settle(get(&last_tid));
        pid_t grandchild = fork_child();
        if (grandchild == 0) {
            must(pthread_mutex_unlock(&m) == 0);
            contest(&m);
            child_end();
        }
        must(pthread_mutex_unlock(&m) == 0);
        join(second);
        contest(&m);
        must(child_ok(grandchild));
        child_end();
    }
    must(pthread_mutex_unlock(&m) == 0);
    join(ghost);
    yes("child and grandchild ended", child_ok(child));
    contest(&m);
}

CASE(fork_in_child_threads, 60) {
    int good = 0, rounds = iterations(20);
    for (int i = 0; i < rounds; i++) {
        pid_t child = fork_child();
        if (child == 0) {
            contest(&m);
            pid_t grandchild = fork_child();
            if (grandchild == 0) {
                contest(&m);
                child_end();
            }
            must(child_ok(grandchild));
            child_end();
        }
        good += child_ok(child);
    }
    yes("every child ended", good == rounds);
}

static bool runs(pid_t pid) {
    int status;
    must(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void *run_true(void *arg) {
    char *const args[] = {"true", NULL};
    pid_t pid;
    (void)arg;
    for (int i = 0; i < 5; i++) {
        must(posix_spawn(&pid, "/bin/true", NULL, NULL, args, environ) == 0);
        must(runs(pid));
    }
    return NULL;
}

CASE(vfork_and_spawn, 60) {
    must(pthread_mutex_lock(&m) == 0);
    pthread_t ghost = start(queue_up, &m);
    await(&waiting, 1);
    int good = 0;
    for (int i = 0; i < 5; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(127);
        }
        good += runs(pid);
    }
    yes("vfork and exec", good == 5);
    pthread_t a = start(run_true, NULL), b = start(run_true, NULL);
    join(a);
    join(b);
    yes("system", system("exit 3") == 3 << 8);
    FILE *pipe = popen("echo piped", "r");
    char text[16] = "";
    yes("popen", pipe != NULL && fgets(text, sizeof text, pipe) != NULL && strcmp(text, "piped\n") == 0);
    pclose(pipe);
    must(pthread_mutex_unlock(&m) == 0);
    join(ghost);
}
