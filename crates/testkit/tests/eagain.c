/* The counts that locks have an end of: POSIX's EAGAIN.

     eagain ends ERROR   Nobody can lock so often in a test, so the program finds the count in the lock's memory and sets it just
                         below its end. ERROR is what a tryrdlock says there, as a number.
     eagain many N       One thread takes N read locks, or as many as it gets: then it says "full". */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPECT(condition)                                                  \
	do {                                                               \
		if (!(condition)) {                                        \
			printf("line %d: not %s\n", __LINE__, #condition); \
			exit(1);                                           \
		}                                                          \
	} while (0)

static struct timespec later(void)
{
	struct timespec time;
	clock_gettime(CLOCK_REALTIME, &time);
	time.tv_sec += 60;
	return time;
}

/* The word that is `once` after one acquisition and `twice` after two, of `size` bytes of words. */
static uint32_t *counter(void *lock, const uint32_t *once, size_t size)
{
	for (size_t i = 0; i < size / 4; i++) {
		uint32_t *word = (uint32_t *)lock + i;
		if (once[i] != 0 && *word == 2 * once[i])
			return word;
	}
	return NULL;
}

static void recursion(void)
{
	pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	uint32_t once[sizeof mutex / 4], *depth;
	struct timespec time = later();

	EXPECT(pthread_mutex_lock(&mutex) == 0);
	memcpy(once, &mutex, sizeof mutex);
	EXPECT(pthread_mutex_lock(&mutex) == 0);
	depth = counter(&mutex, once, sizeof mutex);
	EXPECT(depth && *depth == 2);
	*depth = UINT_MAX - 1;
	EXPECT(pthread_mutex_lock(&mutex) == 0);
	EXPECT(*depth == UINT_MAX);
	EXPECT(pthread_mutex_lock(&mutex) == EAGAIN);
	EXPECT(pthread_mutex_trylock(&mutex) == EAGAIN);
	EXPECT(pthread_mutex_timedlock(&mutex, &time) == EAGAIN);
	EXPECT(pthread_mutex_unlock(&mutex) == 0);
	EXPECT(pthread_mutex_lock(&mutex) == 0);
	*depth = 1;
	EXPECT(pthread_mutex_unlock(&mutex) == 0);
	EXPECT(pthread_mutex_destroy(&mutex) == 0);
}

/* Of a thread that has no read lock. */
static void *refused(void *lock)
{
	EXPECT(pthread_rwlock_rdlock(lock) == EAGAIN);
	return NULL;
}

static void readers(int full)
{
	pthread_t other;
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
	uint32_t once[sizeof lock / 4], *count, unit, end = 0;
	struct timespec time = later();

	EXPECT(pthread_rwlock_rdlock(&lock) == 0);
	memcpy(once, &lock, sizeof lock);
	EXPECT(pthread_rwlock_rdlock(&lock) == 0);
	count = counter(&lock, once, sizeof lock);
	EXPECT(count);
	unit = *count / 2;
	for (int bit = 20; !end && bit <= 30 && (UINT64_C(1) << bit) * unit <= UINT_MAX; bit++) {
		*count = ((1u << bit) - 1) * unit;
		/* The end is there, or one reader on. */
		for (int more = 0; !end && more < 2; more++) {
			int error = pthread_rwlock_tryrdlock(&lock);
			EXPECT(error == 0 || error == full);
			if (error == full)
				end = *count;
		}
	}
	EXPECT(end);
	EXPECT(pthread_rwlock_rdlock(&lock) == EAGAIN);
	EXPECT(pthread_create(&other, NULL, refused, &lock) == 0);
	EXPECT(pthread_join(other, NULL) == 0);
	EXPECT(pthread_rwlock_timedrdlock(&lock, &time) == EAGAIN);
	EXPECT(pthread_rwlock_clockrdlock(&lock, CLOCK_REALTIME, &time) == EAGAIN);
	EXPECT(pthread_rwlock_unlock(&lock) == 0);
	EXPECT(pthread_rwlock_rdlock(&lock) == 0);
	*count = unit;
	EXPECT(pthread_rwlock_unlock(&lock) == 0);
	EXPECT(pthread_rwlock_trywrlock(&lock) == 0);
	EXPECT(pthread_rwlock_unlock(&lock) == 0);
}

static void many(long number)
{
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
	long count = 0;
	int error = 0;

	while (count < number && (error = pthread_rwlock_rdlock(&lock)) == 0)
		count++;
	EXPECT(error == 0 || error == EAGAIN);
	if (error)
		puts("full");
	EXPECT(pthread_rwlock_trywrlock(&lock) == EBUSY);
	for (; count > 0; count--) {
		EXPECT(pthread_rwlock_unlock(&lock) == 0);
		if (count % (1 << 20) == 2)
			EXPECT(pthread_rwlock_trywrlock(&lock) == EBUSY);
	}
	EXPECT(pthread_rwlock_trywrlock(&lock) == 0);
	EXPECT(pthread_rwlock_unlock(&lock) == 0);
}

int main(int argc, char **argv)
{
	EXPECT(argc == 3);
	if (strcmp(argv[1], "ends") == 0) {
		recursion();
		readers(atoi(argv[2]));
	} else {
		EXPECT(strcmp(argv[1], "many") == 0);
		many(atol(argv[2]));
	}
	puts("fine");
	return 0;
}
