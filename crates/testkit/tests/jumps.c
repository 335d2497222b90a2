/* A thread leaves a wait for a mutex by siglongjmp out of a signal handler, which POSIX leaves undefined. What has to hold all the same:
   no other lock is touched, children of fork live, even where the mutex's memory is gone; and the program ends. Says whether the mutex
   can be had again: that is up to the lock. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXPECT(condition)                                                  \
	do {                                                               \
		if (!(condition)) {                                        \
			printf("line %d: not %s\n", __LINE__, #condition); \
			exit(1);                                           \
		}                                                          \
	} while (0)

static sigjmp_buf back;
static pthread_mutex_t *left; /* the mutex whose wait is left */
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static int jumped, contended, end;
static volatile sig_atomic_t id;

static void leave(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

static void nap(int ms)
{
	const struct timespec time = { ms / 1000, ms % 1000 * 1000000L };
	nanosleep(&time, NULL);
}

static void await(int *flag)
{
	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		nap(1);
}

static void *jumper(void *unused)
{
	if (sigsetjmp(back, 1) == 0) {
		id = gettid();
		pthread_mutex_lock(left);
		EXPECT(!"the mutex is held by another thread");
	}
	__atomic_store_n(&jumped, 1, __ATOMIC_RELEASE);
	/* Another wait of this thread begins and ends. */
	await(&contended);
	pthread_mutex_lock(&other);
	pthread_mutex_unlock(&other);
	__atomic_store_n(&jumped, 2, __ATOMIC_RELEASE);
	await(&end);
	return unused;
}

static void child_lives(void)
{
	int status;
	pid_t child = fork();
	EXPECT(child >= 0);
	if (child == 0) {
		pthread_mutex_lock(&other);
		pthread_mutex_unlock(&other);
		_exit(7);
	}
	EXPECT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(void)
{
	struct sigaction action = { .sa_handler = leave };
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct timespec soon;
	pthread_t thread;
	int error;

	left = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(left != MAP_FAILED);
	memcpy(left, &mutex, sizeof mutex);
	EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
	EXPECT(pthread_mutex_lock(left) == 0);
	EXPECT(pthread_create(&thread, NULL, jumper, NULL) == 0);
	while (!id)
		nap(1);
	nap(50); /* It waits; were it late, it would be told before it waits, and leave as well. */
	EXPECT(pthread_kill(thread, SIGUSR1) == 0);
	await(&jumped);

	EXPECT(pthread_mutex_lock(&other) == 0);
	__atomic_store_n(&contended, 1, __ATOMIC_RELEASE);
	nap(50);
	EXPECT(pthread_mutex_unlock(&other) == 0);
	while (__atomic_load_n(&jumped, __ATOMIC_ACQUIRE) != 2)
		nap(1);

	EXPECT(pthread_mutex_unlock(left) == 0);
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec += 1;
	error = pthread_mutex_timedlock(left, &soon);
	EXPECT(error == 0 || error == ETIMEDOUT);
	printf("the mutex is %s\n", error == 0 ? "free" : "lost");
	if (error == 0)
		EXPECT(pthread_mutex_unlock(left) == 0);
	child_lives();
	EXPECT(munmap(left, 4096) == 0);
	child_lives();
	__atomic_store_n(&end, 1, __ATOMIC_RELEASE);
	EXPECT(pthread_join(thread, NULL) == 0);
	return 0;
}
