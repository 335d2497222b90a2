/* Signal handlers that fork while their thread is in the middle of something that a fork must not find half done. The child returns
   from the handler and goes on with that: `forks fork`: with a fork; `forks cancel`: with pthread_cancel. And children that run no
   handlers of the program: `forks _Fork`; and children that do not release what a thread of the parent has, but make it anew:
   `forks renew`. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXPECT(condition)                                                  \
	do {                                                               \
		if (!(condition)) {                                        \
			printf("line %d: not %s\n", __LINE__, #condition); \
			fflush(stdout);                                    \
			_exit(1);                                          \
		}                                                          \
	} while (0)

enum { FINE = 7, SIGNALS = 40, FORKS = 30 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static volatile sig_atomic_t within, nested = -1;
static int waiting, signals, end;

static long now_ms(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void fork_in_handler(int signal)
{
	(void)signal;
	if (within && nested < 0)
		nested = fork();
}

static int ends_well(pid_t child)
{
	int status;
	EXPECT(child > 0);
	EXPECT(waitpid(child, &status, 0) == child);
	return WIFEXITED(status) && WEXITSTATUS(status) == FINE;
}

static timer_t timer;

static void make_timer(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	EXPECT(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
}

/* Has the process get SIGUSR1 once, a moment later: each time at another one. */
static void start_timer(void)
{
	static long ns;
	const struct itimerspec once = { .it_value.tv_nsec = ns = ns % 60000 + 500 };
	EXPECT(timer_settime(timer, 0, &once, NULL) == 0);
}

/* `fork`. The process has one thread when it forks: in others glibc's own fork does not bear this. */

static void *wait_for_signals(void *unused)
{
	EXPECT(pthread_mutex_lock(&mutex) == 0);
	while (signals < SIGNALS) {
		waiting = 1;
		EXPECT(pthread_cond_wait(&cond, &mutex) == 0);
	}
	EXPECT(pthread_mutex_unlock(&mutex) == 0);
	return unused;
}

/* A signal finds its waiter in a step that a fork waits for, and that waits for a fork. */
static long ms_of_signals(void)
{
	pthread_t thread;
	long start;
	signals = waiting = 0;
	EXPECT(pthread_create(&thread, NULL, wait_for_signals, NULL) == 0);
	start = now_ms();
	for (int number = 1; number <= SIGNALS; number++) {
		EXPECT(pthread_mutex_lock(&mutex) == 0);
		while (!waiting) {
			EXPECT(pthread_mutex_unlock(&mutex) == 0);
			sched_yield();
			EXPECT(pthread_mutex_lock(&mutex) == 0);
		}
		waiting = 0;
		signals = number;
		EXPECT(pthread_cond_signal(&cond) == 0);
		EXPECT(pthread_mutex_unlock(&mutex) == 0);
	}
	EXPECT(pthread_join(thread, NULL) == 0);
	return now_ms() - start;
}

static void within_fork(void)
{
	int forks = 0;
	make_timer();
	while (forks < FORKS) {
		pid_t outer;
		start_timer();
		within = 1;
		outer = fork();
		within = 0;
		if (nested == 0) {
			/* The handler's child, and (0) the child that it went on to make, unless that was made before. */
			int status;
			EXPECT(ms_of_signals() < 1000);
			if (outer > 0 && waitpid(outer, &status, 0) == outer)
				EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == FINE);
			_exit(FINE);
		}
		if (outer == 0)
			_exit(FINE);
		EXPECT(ends_well(outer));
		if (nested > 0) {
			pid_t child = nested;
			nested = -1;
			forks++;
			EXPECT(ends_well(child));
		}
	}
	EXPECT(timer_delete(timer) == 0);
	EXPECT(ms_of_signals() < 1000);
}

/* `cancel`. */

static void *wait_uncancelled(void *unused)
{
	int state;
	EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state) == 0);
	EXPECT(pthread_mutex_lock(&mutex) == 0);
	waiting = 1;
	while (!end)
		EXPECT(pthread_cond_wait(&cond, &mutex) == 0);
	EXPECT(pthread_mutex_unlock(&mutex) == 0);
	return unused;
}

static void *wait_for_a_moment(void *unused)
{
	static pthread_mutex_t own_mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t own_cond = PTHREAD_COND_INITIALIZER;
	struct timespec time;
	clock_gettime(CLOCK_REALTIME, &time);
	time.tv_nsec = 0;
	EXPECT(pthread_mutex_lock(&own_mutex) == 0);
	EXPECT(pthread_cond_timedwait(&own_cond, &own_mutex, &time) == ETIMEDOUT);
	EXPECT(pthread_mutex_unlock(&own_mutex) == 0);
	return unused;
}

static void within_cancel(void)
{
	pthread_t target;
	sigset_t set;
	int forks = 0;
	/* The target is not to be the one that forks. */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	EXPECT(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	EXPECT(pthread_create(&target, NULL, wait_uncancelled, NULL) == 0);
	while (!__atomic_load_n(&waiting, __ATOMIC_ACQUIRE))
		sched_yield();
	EXPECT(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
	make_timer();
	while (forks < FORKS) {
		int error;
		start_timer();
		within = 1;
		error = pthread_cancel(target);
		within = 0;
		EXPECT(error == 0);
		if (nested == 0) {
			/* Threads of the child take up what those of the parent had in the library. */
			pthread_t threads[4];
			alarm(10);
			for (int t = 0; t < 4; t++)
				EXPECT(pthread_create(&threads[t], NULL, wait_for_a_moment, NULL) == 0);
			for (int t = 0; t < 4; t++)
				EXPECT(pthread_join(threads[t], NULL) == 0);
			_exit(FINE);
		}
		if (nested > 0) {
			pid_t child = nested;
			nested = -1;
			forks++;
			EXPECT(ends_well(child));
		}
	}
	EXPECT(timer_delete(timer) == 0);
	EXPECT(pthread_mutex_lock(&mutex) == 0);
	__atomic_store_n(&end, 1, __ATOMIC_RELEASE);
	EXPECT(pthread_cond_signal(&cond) == 0);
	EXPECT(pthread_mutex_unlock(&mutex) == 0);
	EXPECT(pthread_join(target, NULL) == 0);
}

/* `_Fork`, which runs no handlers of the program. The child has threads of its own before it does anything by which it could notice
   that it is one. */
#if __GLIBC_PREREQ(2, 34)
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *take_turns(void *unused)
{
	__atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
	EXPECT(pthread_mutex_lock(&held) == 0);
	EXPECT(pthread_mutex_unlock(&held) == 0);
	return unused;
}

static void start_waiters(pthread_t *threads, int count)
{
	const struct timespec nap = { .tv_nsec = 20000000 };
	waiting = 0;
	for (int t = 0; t < count; t++)
		EXPECT(pthread_create(&threads[t], NULL, take_turns, NULL) == 0);
	while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) < count)
		sched_yield();
	nanosleep(&nap, NULL);
}

static void join_all(pthread_t *threads, int count)
{
	for (int t = 0; t < count; t++)
		EXPECT(pthread_join(threads[t], NULL) == 0);
}

static void child_without_handlers(pthread_mutex_t *recursive)
{
	enum { OWN = 3 };
	pthread_t threads[OWN];
	pthread_mutex_t fresh;
	alarm(20);
	EXPECT(pthread_mutex_lock(recursive) == 0);
	start_waiters(threads, OWN);
	/* A child that no handler has told looks now. */
	EXPECT(pthread_mutex_init(&fresh, NULL) == 0);
	EXPECT(pthread_mutex_lock(recursive) == 0);
	EXPECT(pthread_mutex_unlock(recursive) == 0);
	EXPECT(pthread_mutex_unlock(recursive) == 0);
	EXPECT(pthread_mutex_unlock(recursive) == EPERM);
	EXPECT(pthread_mutex_unlock(&held) == 0);
	join_all(threads, OWN);
	EXPECT(pthread_mutex_lock(&held) == 0);
	_exit(FINE);
}

static void without_handlers(void)
{
	enum { OTHERS = 3 };
	pthread_t threads[OTHERS];
	pthread_mutex_t recursive;
	pthread_mutexattr_t attributes;
	EXPECT(pthread_mutexattr_init(&attributes) == 0);
	EXPECT(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE) == 0);
	EXPECT(pthread_mutex_init(&recursive, &attributes) == 0);
	EXPECT(pthread_mutex_lock(&held) == 0);
	start_waiters(threads, OTHERS);
	for (int round = 0; round < 3; round++) {
		pid_t child = _Fork();
		if (child == 0)
			child_without_handlers(&recursive);
		EXPECT(ends_well(child));
	}
	EXPECT(pthread_mutex_unlock(&held) == 0);
	join_all(threads, OTHERS);
}
#else
static void without_handlers(void)
{
}
#endif

/* `renew`. */

enum { LOCKS = 8 };

static pthread_rwlock_t read_locked = PTHREAD_RWLOCK_INITIALIZER, others[LOCKS];

static void *read_for_ever(void *unused)
{
	EXPECT(pthread_rwlock_rdlock(&read_locked) == 0);
	EXPECT(pthread_rwlock_unlock(&read_locked) == 0);
	EXPECT(pthread_rwlock_rdlock(&read_locked) == 0);
	__atomic_store_n(&waiting, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
	return unused;
}

static void use(pthread_rwlock_t *lock)
{
	EXPECT(pthread_rwlock_rdlock(lock) == 0);
	EXPECT(pthread_rwlock_unlock(lock) == 0);
	EXPECT(pthread_rwlock_wrlock(lock) == 0);
	EXPECT(pthread_rwlock_unlock(lock) == 0);
}

static void renew(void)
{
	pthread_t reader;
	EXPECT(pthread_create(&reader, NULL, read_for_ever, NULL) == 0);
	while (!__atomic_load_n(&waiting, __ATOMIC_ACQUIRE))
		sched_yield();
	enum { INIT, DESTROY, ASSIGN, WAYS };
	for (int way = INIT; way < WAYS; way++) {
		pid_t child = fork();
		if (child == 0) {
			alarm(10);
			if (way == DESTROY)
				EXPECT(pthread_rwlock_destroy(&read_locked) == 0);
			if (way == ASSIGN)
				read_locked = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
			else
				EXPECT(pthread_rwlock_init(&read_locked, NULL) == 0);
			use(&read_locked);
			for (int l = 0; l < LOCKS; l++) {
				EXPECT(pthread_rwlock_init(&others[l], NULL) == 0);
				use(&others[l]);
			}
			_exit(FINE);
		}
		EXPECT(ends_well(child));
	}
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_handler = fork_in_handler, .sa_flags = SA_RESTART };
	EXPECT(argc == 2);
	alarm(50);
	EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
	if (strcmp(argv[1], "fork") == 0)
		within_fork();
	else if (strcmp(argv[1], "_Fork") == 0)
		without_handlers();
	else if (strcmp(argv[1], "cancel") == 0)
		within_cancel();
	else
		renew();
	puts("fine");
	return 0;
}
