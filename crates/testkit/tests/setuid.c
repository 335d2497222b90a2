/* Says as whom it runs, and whether in secure mode; uses a mutex. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int main(void)
{
	const char *preload = getenv("LD_PRELOAD");
	pthread_mutex_lock(&mutex);
	printf("user %d, secure %lu, preload %s\n", (int)geteuid(), getauxval(AT_SECURE), preload ? preload : "none");
	pthread_mutex_unlock(&mutex);
	return 0;
}
