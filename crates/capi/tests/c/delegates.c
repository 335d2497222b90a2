/* Sections under the delegate that the first argument names. */
#include <lockwork.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                                           \
    do {                                                                                      \
        if (!(what)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #what, lockwork_error()); \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

enum { THREADS = 6, ROUNDS = 2000 };

static lockwork_delegate_t delegate, inner;
static lockwork_delegate_cond_t grown;
static long total, inner_total;

struct addition {
    long number, before;
};

static void *add(void *argument) {
    struct addition *addition = argument;
    addition->before = total;
    total += addition->number;
    lockwork_delegate_cond_signal(&grown);
    return addition;
}

static void *add_inner(void *argument) {
    inner_total += *(long *)argument;
    return NULL;
}

static void *add_both(void *argument) {
    lockwork_delegate_run(&inner, add_inner, &((struct addition *)argument)->number);
    return add(argument);
}

static void *work(void *number) {
    lockwork_posted_t posted;
    struct addition late = {3, 0};
    for (long round = 0; round < ROUNDS; round++) {
        struct addition addition = {(long)number, -1};
        CHECK(lockwork_delegate_run(&delegate, round % 2 ? add : add_both, &addition) == &addition);
        CHECK(addition.before >= 0);
    }
    CHECK(lockwork_delegate_post(&delegate, add, &late, &posted) == 0);
    CHECK(lockwork_delegate_wait(&posted) == &late);
    return NULL;
}

static void *add_once(void *addition) { return lockwork_delegate_run(&delegate, add, addition); }

static lockwork_posted_t behind;
static struct addition from_within = {5, -1};

static void *again(void *unused) {
    void *result;
    (void)unused;
    errno = 0;
    CHECK(lockwork_delegate_run(&delegate, again, NULL) == NULL && errno == EDEADLK);
    CHECK(strstr(lockwork_error(), "wait for itself"));
    CHECK(lockwork_delegate_execute(&delegate, again, NULL, &result) == EDEADLK);
    CHECK(lockwork_delegate_acquire(&delegate) == EDEADLK);
    CHECK(lockwork_delegate_destroy(&delegate) == EBUSY && strstr(lockwork_error(), "section of the delegate runs"));

    /* What is posted from here runs afterwards. */
    CHECK(lockwork_delegate_post(&delegate, add, &from_within, &behind) == 0);
    errno = 0;
    CHECK(lockwork_delegate_wait(&behind) == NULL && errno == EDEADLK && strstr(lockwork_error(), "runs after it"));
    return NULL;
}

static void *try_it(void *outcome) {
    *(int *)outcome = lockwork_delegate_try_acquire(&delegate);
    return NULL;
}

static void *add_and_signal(void *addition) {
    add_once(addition);
    CHECK(lockwork_delegate_cond_broadcast(&grown) == 0);
    return NULL;
}

/* A thread that holds the delegate waits for what another one's section does. */
static void wait_held(void) {
    struct timespec soon;
    pthread_t other;
    struct addition theirs = {2, -1};
    long seen = total;
    CHECK(lockwork_delegate_cond_wait_held(&grown, &delegate) == EPERM);
    CHECK(lockwork_delegate_try_acquire(&delegate) == 0);
    CHECK(lockwork_delegate_try_acquire(&delegate) == EBUSY);
    int outcome = -1;
    CHECK(pthread_create(&other, NULL, try_it, &outcome) == 0);
    pthread_join(other, NULL);
    CHECK(outcome == EBUSY);
    CHECK(pthread_create(&other, NULL, add_and_signal, &theirs) == 0);
    while (total == seen) CHECK(lockwork_delegate_cond_wait_held(&grown, &delegate) == 0);
    CHECK(total == seen + 2 && lockwork_delegate_acquire(&delegate) == EDEADLK);
    pthread_join(other, NULL);
    clock_gettime(CLOCK_REALTIME, &soon);
    CHECK(lockwork_delegate_cond_timedwait_held(&grown, &delegate, &soon) == ETIMEDOUT);
    CHECK(lockwork_delegate_cond_timedwait_held(&grown, &delegate, NULL) == EINVAL);
    CHECK(lockwork_delegate_release(&delegate) == 0);
}

/* What is posted while this thread holds the delegate runs after the release, and is not waited for before. */
static void post_while_held(void) {
    lockwork_posted_t posted;
    struct addition late = {4, -1};
    CHECK(lockwork_delegate_acquire(&delegate) == 0);
    long seen = total;
    CHECK(lockwork_delegate_post(&delegate, add, &late, &posted) == 0);
    errno = 0;
    CHECK(lockwork_delegate_wait(&posted) == NULL && errno == EDEADLK && strstr(lockwork_error(), "holds the delegate"));
    CHECK(lockwork_delegate_release(&delegate) == 0);
    CHECK(lockwork_delegate_wait(&posted) == &late && late.before == seen && total == seen + 4);
}

/* While this thread holds the delegate, its own sections are refused, and those of others wait. */
static void hold(void) {
    struct addition mine = {1, -1};
    errno = 0;
    CHECK(lockwork_delegate_run(&delegate, add, &mine) == NULL && errno == EDEADLK);
    CHECK(strstr(lockwork_error(), "release first") && mine.before == -1);
    CHECK(lockwork_delegate_acquire(&delegate) == EDEADLK);
    CHECK(lockwork_delegate_destroy(&delegate) == EBUSY && strstr(lockwork_error(), "holds it"));
    pthread_t other;
    struct addition theirs = {2, -1};
    CHECK(pthread_create(&other, NULL, add_once, &theirs) == 0);
    long seen = total;
    usleep(2000);
    CHECK(total == seen);
    CHECK(lockwork_delegate_release(&delegate) == 0);
    pthread_join(other, NULL);
    CHECK(theirs.before == seen && total == seen + 2);
    CHECK(lockwork_delegate_release(&delegate) == EPERM);
}

/* A child that may not have real-time priorities is told so. */
static void without_permission(void) {
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        lockwork_delegate_t refused;
        alarm(20);
        CHECK(setrlimit(RLIMIT_RTPRIO, &none) == 0);
        /* Where root cannot become somebody else there is nobody without permission. */
        if (geteuid() == 0 && setuid(65534) != 0) _exit(0);
        CHECK(lockwork_delegate_init(&refused, "rcl(priority=7)") == EINVAL && strstr(lockwork_error(), "ulimit -r 7"));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void *acquire_or_abort(void *unused) {
    lockwork_delegate_acquire_or_abort(&delegate);
    return unused;
}

static void *try_or_abort(void *unused) {
    lockwork_delegate_try_acquire_or_abort(&delegate);
    return unused;
}

static void *run_or_abort(void *unused) { return lockwork_delegate_run_or_abort(&delegate, try_or_abort, unused); }

static void *wait_or_abort(void *unused) {
    lockwork_delegate_cond_wait_or_abort(&delegate, &grown, try_or_abort, unused, NULL);
    return unused;
}

static void *run_within(void *function) { return lockwork_delegate_run(&delegate, *(void *(**)(void *))function, NULL); }

static void *just_call(void *function) { return (*(void *(**)(void *))function)(NULL); }

/* A program that does not look at outcomes ends where it would go on without the lock, and says why. */
static void aborts(void *(*how)(void *), void *(*function)(void *), const char *why) {
    int status, said[2];
    char text[1024];
    CHECK(pipe(said) == 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        dup2(said[1], 2);
        how(&function);
        _exit(0);
    }
    close(said[1]);
    ssize_t length = 0, more;
    while ((more = read(said[0], text + length, sizeof text - 1 - length)) > 0) length += more;
    close(said[0]);
    text[length] = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(strncmp(text, "lockwork: lockwork_delegate_", 28) == 0 && strstr(text, why));
}

static void *is_large(void *limit) { return total >= *(long *)limit ? &total : NULL; }

static void *wait_until_large(void *limit) {
    void *result;
    CHECK(lockwork_delegate_cond_wait(&delegate, &grown, is_large, limit, &result) == 0);
    CHECK(result == &total);
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t threads[THREADS], waiter;
    const char *spec = arguments[count > 1 ? 1 : 0];
    without_permission();
    CHECK(lockwork_delegate_init(&delegate, "msc-stp") == EINVAL && strstr(lockwork_error(), "unknown delegate"));
    CHECK(lockwork_delegate_init(&delegate, "mcs-stp") == EINVAL && strstr(lockwork_error(), "locked(mcs-stp)"));
    if (sysconf(_SC_NPROCESSORS_ONLN) < 64) {
        CHECK(lockwork_delegate_init(&delegate, "rcl(servers=64)") == EINVAL && strstr(lockwork_error(), "CPUs"));
    }
    CHECK(lockwork_delegate_init(&delegate, spec) == 0);
    /* The inner one is initialised statically. */
    CHECK(lockwork_delegate_cond_init(&grown) == 0);

    long expected = 0, limit = 4L * ROUNDS;
    CHECK(pthread_create(&waiter, NULL, wait_until_large, &limit) == 0);
    for (long thread = 0; thread < THREADS; thread++) {
        expected += (thread + 1) * ROUNDS + 3;
        CHECK(pthread_create(&threads[thread], NULL, work, (void *)(thread + 1)) == 0);
    }
    for (int thread = 0; thread < THREADS; thread++) pthread_join(threads[thread], NULL);
    pthread_join(waiter, NULL);
    CHECK(total == expected);
    CHECK(inner_total == (expected - 3 * THREADS) / 2);
    CHECK(lockwork_delegate_run(&delegate, again, NULL) == NULL);
    CHECK(lockwork_delegate_wait(&behind) == &from_within && from_within.before == expected);
    expected += 5;
    void *result;
    errno = 0;
    CHECK(lockwork_delegate_run(&delegate, NULL, NULL) == NULL && errno == EINVAL);
    CHECK(lockwork_delegate_execute(&delegate, NULL, NULL, &result) == EINVAL && strstr(lockwork_error(), "null"));
    CHECK(lockwork_delegate_post(&delegate, NULL, NULL, &behind) == EINVAL);

    struct timespec soon;
    limit = expected + 1000;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 5000000;
    if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
    CHECK(lockwork_delegate_cond_timedwait(&delegate, &grown, &soon, is_large, &limit, NULL) == ETIMEDOUT);
    soon.tv_nsec = 1000000000;
    CHECK(lockwork_delegate_cond_timedwait(&delegate, &grown, &soon, is_large, &limit, NULL) == EINVAL);
    CHECK(strstr(lockwork_error(), "tv_nsec"));
    CHECK(lockwork_delegate_cond_timedwait(&delegate, &grown, NULL, is_large, &limit, NULL) == EINVAL);

    struct addition once = {1, -1};
    limit = expected + 1;
    CHECK(lockwork_delegate_run_or_abort(&delegate, add, &once) == &once && once.before == expected++);
    CHECK(lockwork_delegate_cond_wait_or_abort(&delegate, &grown, is_large, &limit, &result) == 0 && result == &total);

    int held = lockwork_delegate_acquire(&delegate);
    if (held == 0) {
        hold();
        post_while_held();
        wait_held();
        expected += 8;
        CHECK(lockwork_delegate_acquire_or_abort(&delegate) == 0);
        CHECK(lockwork_delegate_try_acquire_or_abort(&delegate) == EBUSY);
        CHECK(lockwork_delegate_release(&delegate) == 0);
        CHECK(lockwork_delegate_try_acquire_or_abort(&delegate) == 0);
        CHECK(lockwork_delegate_release(&delegate) == 0);
    } else {
        CHECK(held == ENOTSUP && strstr(lockwork_error(), "cannot be held"));
        CHECK(lockwork_delegate_try_acquire(&delegate) == ENOTSUP);
        CHECK(lockwork_delegate_release(&delegate) == EPERM);
        aborts(just_call, acquire_or_abort, "acquire_or_abort: `");
        aborts(just_call, acquire_or_abort, "cannot be held");
        aborts(just_call, try_or_abort, "cannot be held");
    }
    aborts(run_within, acquire_or_abort, "wait for itself");
    aborts(run_within, run_or_abort, "wait for itself");
    aborts(run_within, wait_or_abort, "wait for itself");

    /* A child has no servers, and runs sections all the same. */
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct addition addition = {1, -1};
        alarm(20);
        CHECK(lockwork_delegate_run(&delegate, add, &addition) == &addition);
        CHECK(total == expected + 1);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);

    CHECK(lockwork_delegate_destroy(&delegate) == 0);
    CHECK(lockwork_delegate_destroy(&inner) == 0);
    puts("ok");
    return 0;
}
