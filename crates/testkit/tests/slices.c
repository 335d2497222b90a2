/* Whether holders of mutexes ask for time-slice extensions, with a kernel that has them only as far as a filter of system calls can make
   it look so: threads are let take part, and giving the CPU up is counted. The program itself grants. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_YIELD = 471, SLICE_EXTENSION = 79 };

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static volatile sig_atomic_t yields;
static int asks;

static void count_yield(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info, (void)context;
	yields++;
}

#define EXPECT(condition)                                                                  \
	do {                                                                               \
		if (!(condition)) {                                                        \
			printf("line %d: not %s\n", __LINE__, #condition);                 \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

static void pretend(void)
{
	const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SLICE_YIELD, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SLICE_EXTENSION, 1, 0),
		/* There is no filter. */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_GET_SECCOMP, 0, 2),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { sizeof code / sizeof *code, (struct sock_filter *)code };
	struct sigaction action = { .sa_sigaction = count_yield, .sa_flags = SA_SIGINFO };
	EXPECT(sigaction(SIGSYS, &action, NULL) == 0);
	EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

static volatile unsigned char *area(void)
{
	return (volatile unsigned char *)__builtin_thread_pointer() + __rseq_offset;
}

static int asked(void)
{
	return area()[28];
}

static void grant(void)
{
	area()[28] = 0;
	area()[29] = 1;
}

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;

static void *hold_for_a_while(void *unused)
{
	const struct timespec a_while = { 0, 50 * 1000 * 1000 };
	(void)unused;
	nanosleep(&a_while, NULL);
	pthread_mutex_unlock(&other);
	return NULL;
}

static void *check(void *unused)
{
	pthread_mutexattr_t attributes;
	pthread_mutex_t recursive;
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	pthread_t holder;
	struct timespec time = { 0, 0 };

	EXPECT(!asked());
	pthread_mutex_lock(&one);
	EXPECT(asked() == asks);
	pthread_mutex_lock(&other);
	pthread_mutex_unlock(&one);
	EXPECT(asked() == asks);
	EXPECT(pthread_mutex_trylock(&other) == EBUSY);
	pthread_mutex_unlock(&other);
	EXPECT(!asked());
	EXPECT(pthread_mutex_trylock(&one) == 0);
	EXPECT(asked() == asks);
	pthread_mutex_unlock(&one);
	EXPECT(!asked());

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&recursive, &attributes);
	pthread_mutex_lock(&recursive);
	pthread_mutex_lock(&recursive);
	pthread_mutex_unlock(&recursive);
	EXPECT(asked() == asks);
	pthread_mutex_unlock(&recursive);
	EXPECT(!asked());

	pthread_mutex_lock(&one);
	EXPECT(pthread_cond_timedwait(&condition, &one, &time) == ETIMEDOUT);
	EXPECT(asked() == asks);
	pthread_mutex_unlock(&one);
	EXPECT(!asked());

	/* Released by another thread, which POSIX does not allow and locks bear: it counts as held by this one from then on. */
	pthread_mutex_lock(&other);
	EXPECT(pthread_create(&holder, NULL, hold_for_a_while, NULL) == 0);
	clock_gettime(CLOCK_REALTIME, &time);
	time.tv_sec += 30;
	EXPECT(pthread_mutex_timedlock(&other, &time) == 0);
	EXPECT(asked() == asks);
	pthread_mutex_unlock(&other);
	EXPECT(asked() == asks);
	pthread_join(holder, NULL);

	EXPECT(yields == 0);
	return unused;
}

static void *check_grants(void *unused)
{
	pthread_mutex_lock(&one);
	pthread_mutex_lock(&other);
	grant();
	pthread_mutex_unlock(&other);
	EXPECT(yields == 0);
	pthread_mutex_unlock(&one);
	EXPECT(yields == asks);
	EXPECT(!asked());
	return unused;
}

int main(int count, char **arguments)
{
	void *(*checks[])(void *) = { check, check_grants };
	asks = count > 1 && strcmp(arguments[1], "asks") == 0;
	if (!&__rseq_size || __rseq_size == 0) {
		puts("no area for restartable sequences");
		return 0;
	}
	pretend();
	for (unsigned i = 0; i < 2; i++) {
		pthread_t thread;
		EXPECT(pthread_create(&thread, NULL, checks[i], NULL) == 0);
		pthread_join(thread, NULL);
	}
	puts("fine");
	return 0;
}
