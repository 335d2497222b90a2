/* Whether a program under an aware lock survives a filter of system calls that ends it for reading the CPU clock of a thread, once it has
   added one. Waiters read such clocks before. The argument says how the filter is added, and when. */
#define _GNU_SOURCE
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

enum { THREADS = 8, TURNS = 50 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

#define EXPECT(condition)                                                                  \
	do {                                                                               \
		if (!(condition)) {                                                        \
			printf("line %d: not %s\n", __LINE__, #condition);                 \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

/* Whether the holder of the mutex is awake, so that others look at its clock time and again. */
static int awake;

static void hold(void)
{
	const struct timespec moment = { .tv_nsec = 200 * 1000 };
	struct timespec start, now;
	if (!awake) {
		nanosleep(&moment, NULL);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < moment.tv_nsec);
}

static void *take_turns(void *unused)
{
	for (int turn = 0; turn < TURNS; turn++) {
		EXPECT(pthread_mutex_lock(&mutex) == 0);
		hold();
		EXPECT(pthread_mutex_unlock(&mutex) == 0);
	}
	return unused;
}

static pthread_t threads[THREADS];

static void begin(void)
{
	for (int i = 0; i < THREADS; i++)
		EXPECT(pthread_create(&threads[i], NULL, take_turns, NULL) == 0);
}

static void end(void)
{
	for (int i = 0; i < THREADS; i++)
		EXPECT(pthread_join(threads[i], NULL) == 0);
}

static void contend(void)
{
	begin();
	end();
}

/* A system call that goes past the C library. */
static long by_hand(long number, long a, long b, const void *c)
{
#if defined __x86_64__
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return result;
#else
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
	register const void *x2 __asm__("x2") = c;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#endif
}

/* Adds a filter that allows all but to read clocks with ids below zero: those of threads and processes. */
static void add_filter(const char *how)
{
	const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x80000000, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { sizeof code / sizeof *code, (struct sock_filter *)code };
	EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	if (strcmp(how, "prctl") == 0)
		EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
	else if (strcmp(how, "seccomp") == 0 || strcmp(how, "meanwhile") == 0)
		EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0);
	else if (strcmp(how, "syscall-prctl") == 0)
		EXPECT(syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0);
	else
		EXPECT(by_hand(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0);
}

int main(int count, char **arguments)
{
	const struct timespec moment = { .tv_nsec = 5 * 1000 * 1000 };
	EXPECT(count == 2);
	if (strcmp(arguments[1], "meanwhile") == 0) {
		awake = 1;
		begin();
		nanosleep(&moment, NULL);
		add_filter(arguments[1]);
		end();
	} else {
		contend();
		add_filter(arguments[1]);
		contend();
	}
	puts("fine");
	return 0;
}
