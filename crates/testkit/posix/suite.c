/* The driver of a suite program (one exec per case), its watchdog, and the helpers of suite.h. */
#include "suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { HUNG = 99, FAILED = 1, MAX_CASES = 256, MAX_HANGS = 3, SLACK_SECONDS = 5 };

extern const struct suite_case *const __start_suite_cases[];
extern const struct suite_case *const __stop_suite_cases[];

static const char *case_name = "suite";
static unsigned case_seconds;
static int failures;

static int setting(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? atoi(value) : otherwise;
}

int iterations(int full) {
    long n = (long)full * setting("SUITE_SCALE", 100) / 100;
    return n < 1 ? 1 : (int)n;
}

int threads(int full) {
    int ceiling = setting("SUITE_THREADS", full);
    int n = full < ceiling ? full : ceiling;
    return n < 2 ? 2 : n;
}

bool waiters_spin(void) {
    return setting("SUITE_SPIN", 0) != 0;
}

/* ---- results ---- */

/* One write(2) a line: nothing is lost when the process dies, nothing is doubled by fork(). */
static void line_out(int fd, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n >= (int)sizeof text)
        n = sizeof text - 1;
    if (write(fd, text, (size_t)n) != n)
        _exit(FAILED);
}

const char *error_name(int error) {
    static __thread char number[24];
    switch (error) {
    case 0: return "OK";
    case EAGAIN: return "EAGAIN";
    case EBUSY: return "EBUSY";
    case EDEADLK: return "EDEADLK";
    case EINTR: return "EINTR";
    case EINVAL: return "EINVAL";
    case ENOMEM: return "ENOMEM";
    case ENOTRECOVERABLE: return "ENOTRECOVERABLE";
    case ENOTSUP: return "ENOTSUP";
    case EOWNERDEAD: return "EOWNERDEAD";
    case EPERM: return "EPERM";
    case ETIMEDOUT: return "ETIMEDOUT";
    default: snprintf(number, sizeof number, "error %d", error); return number;
    }
}

void result(const char *step, int got, int want) {
    if (got == want) {
        line_out(1, "%s: %s: %s\n", case_name, step, error_name(got));
        return;
    }
    add(&failures, 1);
    char wanted[32];
    snprintf(wanted, sizeof wanted, "%s", error_name(want));
    line_out(1, "%s: %s: %s (expected %s)\n", case_name, step, error_name(got), wanted);
}

void yes(const char *step, bool ok) {
    if (!ok)
        add(&failures, 1);
    line_out(1, "%s: %s: %s\n", case_name, step, ok ? "yes" : "no (expected yes)");
}

void note(const char *step, const char *outcome) {
    line_out(1, "%s: %s: %s\n", case_name, step, outcome);
}

void must_at(bool ok, const char *what, const char *file, int line) {
    if (ok)
        return;
    line_out(1, "%s: set-up failed: %s (%s:%d)\n", case_name, what, file, line);
    _exit(FAILED);
}

/* ---- watchdog ---- */

static void show_file(const char *tid, const char *name) {
    char path[96], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%s/%s", tid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return;
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    line_out(2, "  thread %s %s: %s\n", tid, name, text);
}

/* Shows where every thread is. Raw getdents64: opendir() allocates, and malloc's lock may be what hangs. */
static void show_threads(void) {
    char entries[8192];
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n;
    int shown = 0;
    while (fd >= 0 && (n = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        for (long at = 0; at < n;) {
            struct dirent64 *entry = (struct dirent64 *)(entries + at);
            at += entry->d_reclen;
            if (entry->d_name[0] == '.' || ++shown > 40)
                continue;
            show_file(entry->d_name, "stat");
            show_file(entry->d_name, "wchan");
            show_file(entry->d_name, "syscall");
        }
    }
    line_out(2, "  %d threads in all\n", shown);
}

static void on_alarm(int number) {
    (void)number;
    line_out(2, "%s: no end after %u s in process %d\n", case_name, case_seconds, (int)getpid());
    show_threads();
    line_out(1, "%s: HANG\n", case_name);
    _exit(HUNG);
}

static void arm(void) {
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    alarm(case_seconds);
}

/* ---- threads, processes, order ---- */

pthread_t start(void *(*run)(void *), void *arg) {
    pthread_attr_t attr;
    pthread_t thread;
    must(pthread_attr_init(&attr) == 0);
    must(pthread_attr_setstacksize(&attr, 128 * 1024) == 0);
    must(pthread_create(&thread, &attr, run, arg) == 0);
    pthread_attr_destroy(&attr);
    return thread;
}

void *join(pthread_t thread) {
    void *value = NULL;
    must(pthread_join(thread, &value) == 0);
    return value;
}

struct call {
    int (*op)(void *);
    void *object;
};

static void *run_call(void *arg) {
    struct call *call = arg;
    return (void *)(intptr_t)call->op(call->object);
}

int by_other_thread(int (*op)(void *), void *object) {
    struct call call = {op, object};
    return (int)(intptr_t)join(start(run_call, &call));
}

pid_t fork_child(void) {
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        set(&failures, 0);
        arm();
    }
    return child;
}

void child_end(void) {
    _exit(get(&failures) ? FAILED : 0);
}

bool child_ok(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        must(errno == EINTR);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void *shared_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED);
    return memory;
}

int get(const int *cell) {
    return __atomic_load_n(cell, __ATOMIC_SEQ_CST);
}

void set(int *cell, int value) {
    __atomic_store_n(cell, value, __ATOMIC_SEQ_CST);
}

int add(int *cell, int by) {
    return __atomic_add_fetch(cell, by, __ATOMIC_SEQ_CST);
}

void sleep_ms(int ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&left, &left) != 0)
        ;
}

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

bool await_for(const int *cell, int value, int ms) {
    long long end = ms < 0 ? INT64_MAX : now_ms() + ms;
    for (int tries = 0; get(cell) < value; tries++) {
        if (tries < 100)
            sched_yield();
        else if (now_ms() >= end)
            return false;
        else
            usleep(200);
    }
    return true;
}

void await(const int *cell, int value) {
    await_for(cell, value, -1);
}

void settle(pid_t tid) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    for (int tries = 0; tries < 80; tries++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        if (fd >= 0)
            close(fd);
        if (n <= 0)
            return;
        text[n] = '\0';
        const char *end = strrchr(text, ')');
        if (end != NULL && end[1] == ' ' && end[2] == 'S')
            return;
        usleep(500);
    }
}

struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec time;
    clock_gettime(clock, &time);
    long long ns = time.tv_nsec + ms % 1000 * 1000000LL;
    time.tv_sec += ms / 1000 + (ns >= 1000000000LL) - (ns < 0);
    time.tv_nsec = (long)((ns + 1000000000LL) % 1000000000LL);
    return time;
}

/* ---- driver ---- */

static int run_case(const struct suite_case *one) {
    case_name = one->name;
    case_seconds = one->seconds * (unsigned)setting("SUITE_PATIENCE", 1);
    arm();
    one->run();
    return get(&failures) ? FAILED : 0;
}

/* Runs one case in a new process; true when it passed, and *hung says whether it had to be stopped. */
static bool spawn_case(const struct suite_case *one, bool *hung) {
    sigset_t child_ended;
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ended, NULL);
    pid_t pid = fork();
    if (pid < 0) {
        line_out(1, "%s: cannot fork\n", one->name);
        *hung = false;
        return false;
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsid(); /* shares of the CPU go by session where autogroups are on: a crowd does not starve other programs */
        sigprocmask(SIG_UNBLOCK, &child_ended, NULL);
        execl("/proc/self/exe", program_invocation_name, one->name, (char *)NULL);
        _exit(127);
    }
    unsigned limit = one->seconds * (unsigned)setting("SUITE_PATIENCE", 1) + SLACK_SECONDS;
    struct timespec slack = {limit, 0};
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && sigtimedwait(&child_ended, NULL, &slack) >= 0)
        ;
    kill(-pid, SIGKILL);
    if (ended == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        line_out(1, "%s: HANG (deaf to its watchdog)\n", one->name);
        *hung = true;
        return false;
    }
    *hung = WIFEXITED(status) && WEXITSTATUS(status) == HUNG;
    if (WIFSIGNALED(status))
        line_out(1, "%s: died of signal %d (%s)\n", one->name, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) > FAILED && !*hung)
        line_out(1, "%s: ended with status %d\n", one->name, WEXITSTATUS(status));
    return status == 0;
}

static int by_line(const void *a, const void *b) {
    return (*(const struct suite_case *const *)a)->line - (*(const struct suite_case *const *)b)->line;
}

/* No argument: all cases, each in its own process. `--list`: their names. A name: that case, in this process. */
int main(int argc, char **argv) {
    const struct suite_case *cases[MAX_CASES];
    size_t count = 0;
    for (const struct suite_case *const *at = __start_suite_cases; at < __stop_suite_cases; at++) {
        if (count == MAX_CASES) {
            fprintf(stderr, "more than %d cases\n", MAX_CASES);
            return 2;
        }
        cases[count++] = *at;
    }
    qsort(cases, count, sizeof cases[0], by_line);

    if (argc > 1 && strcmp(argv[1], "--list") != 0) {
        for (size_t i = 0; i < count; i++)
            if (strcmp(cases[i]->name, argv[1]) == 0)
                return run_case(cases[i]);
        fprintf(stderr, "no case '%s'; --list names them\n", argv[1]);
        return 2;
    }
    int failed = 0, hangs = 0;
    for (size_t i = 0; i < count; i++) {
        bool hung = false;
        if (argc > 1)
            line_out(1, "%s\n", cases[i]->name);
        else if (hangs >= MAX_HANGS)
            line_out(1, "%s: not run after %d hangs\n", cases[i]->name, hangs);
        else {
            long long began = now_ms();
            failed += !spawn_case(cases[i], &hung);
            if (setting("SUITE_TIMES", 0))
                line_out(2, "%6lld ms %s\n", now_ms() - began, cases[i]->name);
        }
        hangs += hung;
    }
    return failed ? FAILED : 0;
}
