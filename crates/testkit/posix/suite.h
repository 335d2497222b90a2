/*
 * The frame every program of the POSIX suite shares.
 *
 * A program is a list of cases. Each case runs in a process of its own (a fresh exec), so that a crash or a
 * hang costs one case and no state leaks into the next. A case prints lines `case: step: outcome`; what it
 * prints must not depend on timing, on SUITE_SCALE, or on the lock in use, for the lines are compared
 * with those of plain glibc.
 *
 * Environment: SUITE_SCALE (percentage applied to iteration counts, default 100), SUITE_THREADS (ceiling
 * for thread counts), SUITE_PATIENCE (factor on every case's time limit), SUITE_SPIN (set when waiters
 * do not sleep: crowds become small), SUITE_TIMES (set to print on stderr how long each case took).
 */
#ifndef SUITE_H
#define SUITE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

struct suite_case {
    const char *name;
    void (*run)(void);
    unsigned seconds;
    int line;
};

/* Declares a case with its time limit in seconds; the body follows. Cases run in the order of the file. */
#define CASE(id, limit)                                                                                      \
    static void id(void);                                                                                    \
    static const struct suite_case id##_case = {#id, id, (limit), __LINE__};                                 \
    static const struct suite_case *const id##_entry __attribute__((section("suite_cases"), used)) = &id##_case; \
    static void id(void)

/* ---- results ---- */

/* Prints `case: step: NAME` for an errno value; records a failure when it is not `want`. */
void result(const char *step, int got, int want);
/* Prints `case: step: yes`, or a failure when `ok` is false. */
void yes(const char *step, bool ok);
/* Prints a line that carries no expectation: only the comparison with glibc judges it. */
void note(const char *step, const char *outcome);
/* The name of an errno value, "OK" for 0. */
const char *error_name(int error);
/* Ends the case at once when `ok` is false: for set-up that must work before anything can be tested. */
void must_at(bool ok, const char *what, const char *file, int line);
#define must(ok) must_at((ok), #ok, __FILE__, __LINE__)

/* ---- sizes ---- */

/* An iteration count under SUITE_SCALE, at least 1. */
int iterations(int full);
/* A thread count under SUITE_THREADS, at least 2. */
int threads(int full);
/* True when waiters spin: cases that need a crowd take a small one. */
bool waiters_spin(void);

/* ---- threads and processes ---- */

/* Starts a joinable thread with a small stack, or ends the case. */
pthread_t start(void *(*run)(void *), void *arg);
/* Joins and returns the thread's result. */
void *join(pthread_t thread);
/* Calls `op(object)` in another thread and returns its result. */
int by_other_thread(int (*op)(void *), void *object);
#define BY_OTHER(op, object) by_other_thread((int (*)(void *))(void (*)(void))(op), (void *)(object))
/* fork() whose child has the case's watchdog armed; the child must end with child_end(). */
pid_t fork_child(void);
/* Ends a forked child: status 0 when no failure was recorded in it. */
void child_end(void) __attribute__((noreturn));
/* Waits for a forked child; true when it ended with child_end() and no failure. */
bool child_ok(pid_t child);
/* Anonymous shared memory, zeroed, for objects used across fork(). */
void *shared_memory(size_t bytes);

/* ---- order ---- */

int get(const int *cell);
void set(int *cell, int value);
int add(int *cell, int by); /* returns the new value */
/* Waits until *cell >= value (the watchdog bounds it). */
void await(const int *cell, int value);
/* As await(), but gives up: false after `ms` milliseconds. */
bool await_for(const int *cell, int value, int ms);
/* Waits until the thread sleeps in the kernel, or 40 ms when its waiting is a spin. */
void settle(pid_t tid);
void sleep_ms(int ms);
/* Now plus `ms` (may be negative) on `clock`. */
struct timespec in_ms(clockid_t clock, long ms);

#ifdef __cplusplus
}
#endif
#endif
