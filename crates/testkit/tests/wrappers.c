/* A program that locks, and, as a library, a wrapper around what it calls that is preloaded behind the locks, as libfaketime is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#ifdef __x86_64__
#define FIRST "GLIBC_2.2.5"
#else
#define FIRST "GLIBC_2.17"
#endif

#ifdef WRAPPER
static _Atomic int count;

#ifdef WRAPS_LOCK
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static int (*next)(pthread_mutex_t *);
	if (!next)
		next = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	count++;
	return next(mutex);
}
#endif

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	int (*next)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))dlvsym(RTLD_NEXT, "pthread_mutex_trylock", FIRST);
	count++;
	return next(mutex);
}

__attribute__((destructor)) static void tell(void)
{
	printf("wrapped %d\n", count);
}
#else
enum { PAIRS = 20000 };

static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;
static int wrong;

/* A mutex of glibc's is marked as glibc marks it, whoever took it. */
static void *pairs(void *unused)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	int wrong_here = 0;
	for (int pair = 0; pair < PAIRS; pair++) {
		pthread_mutex_t *it = pair % 2 ? &mutex : &shared;
		pthread_mutex_lock(it);
		wrong_here += it->__data.__lock == 0 || it->__data.__owner != gettid() || it->__data.__nusers != 1 ||
			      it->__data.__kind != 0 || it->__data.__count != 0;
		pthread_mutex_unlock(it);
		if (it == &mutex)
			wrong_here += it->__data.__lock != 0 || it->__data.__owner != 0 || it->__data.__nusers != 0;
	}
	pthread_mutex_lock(&shared);
	wrong += wrong_here + (pthread_mutex_destroy(&mutex) != 0);
	pthread_mutex_unlock(&shared);
	return unused;
}

static int many(void)
{
	pthread_t threads[3];
	for (int number = 0; number < 3; number++)
		pthread_create(&threads[number], NULL, pairs, NULL);
	for (int number = 0; number < 3; number++)
		pthread_join(threads[number], NULL);
	pthread_mutex_lock(&shared);
	wrong += pthread_mutex_destroy(&shared) == 0;
	pthread_mutex_unlock(&shared);
	wrong += pthread_mutex_destroy(&shared) != 0;
	printf("%d wrong\n", wrong);
	fflush(stdout);
	return wrong != 0;
}

int main(int count, char **arguments)
{
	if (count > 1)
		return many();
	(void)arguments;
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	int (*found)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))dlvsym(RTLD_DEFAULT, "pthread_mutex_trylock", FIRST);
	int outcomes[] = { pthread_mutex_trylock(&mutex), found(&mutex) };
	printf("%d %d\n", outcomes[0], outcomes[1] != 0);
	fflush(stdout);
	return 0;
}
#endif
