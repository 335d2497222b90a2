/* A program that locks, and, as a library, a wrapper around what it calls that is preloaded behind the locks, as libfaketime is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#ifdef __x86_64__
#define FIRST "GLIBC_2.2.5"
#else
#define FIRST "GLIBC_2.17"
#endif

#ifdef WRAPPER
static int count;

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
int main(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	int (*found)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))dlvsym(RTLD_DEFAULT, "pthread_mutex_trylock", FIRST);
	int outcomes[] = { pthread_mutex_trylock(&mutex), found(&mutex) };
	printf("%d %d\n", outcomes[0], outcomes[1] != 0);
	fflush(stdout);
	return 0;
}
#endif
