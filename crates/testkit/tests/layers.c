/* Every way to acquire a mutex or a reader-writer lock, a known number of times each. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

#define EXPECT(condition)                                          \
	do {                                                       \
		if (!(condition)) {                                \
			printf("line %d: not %s\n", __LINE__, #condition); \
			exit(1);                                   \
		}                                                  \
	} while (0)


static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static const struct timespec past = { 0, 0 };

static struct timespec later(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	time.tv_sec += 60;
	return time;
}

static void *refused_mutex(void *unused)
{
	EXPECT(pthread_mutex_trylock(&mutex) == EBUSY);
	EXPECT(pthread_mutex_timedlock(&mutex, &past) == ETIMEDOUT);
	EXPECT(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &past) == ETIMEDOUT);
	EXPECT(pthread_mutex_trylock(&recursive) == EBUSY);
	return unused;
}

static void *refused_rwlock(void *unused)
{
	EXPECT(pthread_rwlock_tryrdlock(&rwlock) == EBUSY);
	EXPECT(pthread_rwlock_trywrlock(&rwlock) == EBUSY);
	EXPECT(pthread_rwlock_timedrdlock(&rwlock, &past) == ETIMEDOUT);
	EXPECT(pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &past) == ETIMEDOUT);
	return unused;
}

static void in_thread(void *(*run)(void *))
{
	pthread_t thread;
	EXPECT(pthread_create(&thread, NULL, run, NULL) == 0);
	pthread_join(thread, NULL);
}

static void mutexes(void)
{
	struct timespec real = later(CLOCK_REALTIME), monotonic = later(CLOCK_MONOTONIC);
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	mtx_t c11;

	pthread_mutex_lock(&mutex);
	EXPECT(pthread_cond_timedwait(&condition, &mutex, &past) == ETIMEDOUT);
	pthread_mutex_unlock(&mutex);
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	EXPECT(pthread_mutex_trylock(&mutex) == 0);
	pthread_mutex_unlock(&mutex);
	EXPECT(pthread_mutex_timedlock(&mutex, &real) == 0);
	pthread_mutex_unlock(&mutex);
	EXPECT(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &monotonic) == 0);

	/* A level more of a mutex that a thread has is no acquisition, nor is an error. */
	pthread_mutex_lock(&recursive);
	pthread_mutex_lock(&recursive);
	EXPECT(pthread_mutex_timedlock(&recursive, &past) == 0);
	pthread_mutex_unlock(&recursive);
	pthread_mutex_unlock(&recursive);
	EXPECT(pthread_cond_clockwait(&condition, &recursive, CLOCK_MONOTONIC, &past) == ETIMEDOUT);
	in_thread(refused_mutex);
	pthread_mutex_unlock(&recursive);
	pthread_mutex_unlock(&mutex);

	EXPECT(pthread_mutex_timedlock(&checking, &real) == 0);
	EXPECT(pthread_mutex_lock(&checking) == EDEADLK);
	EXPECT(pthread_mutex_timedlock(&checking, &real) == EDEADLK);
	pthread_mutex_unlock(&checking);
	EXPECT(pthread_mutex_unlock(&checking) == EPERM);

	mtx_init(&c11, mtx_timed);
	mtx_lock(&c11);
	mtx_unlock(&c11);
	EXPECT(mtx_trylock(&c11) == thrd_success);
	mtx_unlock(&c11);
	EXPECT(mtx_timedlock(&c11, &real) == thrd_success);
	mtx_unlock(&c11);
}

static void rwlocks(void)
{
	struct timespec real = later(CLOCK_REALTIME), monotonic = later(CLOCK_MONOTONIC);

	pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_rdlock(&rwlock);
	EXPECT(pthread_rwlock_tryrdlock(&rwlock) == 0);
	EXPECT(pthread_rwlock_timedrdlock(&rwlock, &real) == 0);
	EXPECT(pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &monotonic) == 0);
	for (int i = 0; i < 5; i++)
		pthread_rwlock_unlock(&rwlock);
	EXPECT(pthread_rwlock_trywrlock(&rwlock) == 0);
	pthread_rwlock_unlock(&rwlock);
	EXPECT(pthread_rwlock_timedwrlock(&rwlock, &real) == 0);
	pthread_rwlock_unlock(&rwlock);
	EXPECT(pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &monotonic) == 0);
	pthread_rwlock_unlock(&rwlock);
	pthread_rwlock_wrlock(&rwlock);
	EXPECT(pthread_rwlock_rdlock(&rwlock) == EDEADLK);
	in_thread(refused_rwlock);
	pthread_rwlock_unlock(&rwlock);
}

int main(void)
{
	mutexes();
	rwlocks();
	puts("fine");
	return 0;
}
