/* A program that knows what its locks do. It prints one line for each figure, by its own clock; the test compares them with
 * the profile of the same run. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void rest(int64_t us) {
  struct timespec t = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&t, 0);
}

pthread_mutex_t held_by_five = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t counted[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
pthread_mutex_t never_released = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t read_and_written = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t start;

struct stay { int64_t wanted, has, released; };
static struct stay stays[5];

#define HOLDER(n)                                     \
  __attribute__((noinline)) void hold_##n(void) {     \
    struct stay *it = &stays[n - 1];                  \
    it->wanted = now();                               \
    pthread_mutex_lock(&held_by_five);                \
    it->has = now();                                  \
    rest(n * 20000);                                  \
    it->released = now();                             \
    pthread_mutex_unlock(&held_by_five);              \
  }
HOLDER(1) HOLDER(2) HOLDER(3) HOLDER(4) HOLDER(5)

static void *five(void *which) {
  pthread_barrier_wait(&start);
  switch ((intptr_t)which) {
    case 1: hold_1(); break;
    case 2: hold_2(); break;
    case 3: hold_3(); break;
    case 4: hold_4(); break;
    default: hold_5(); break;
  }
  return 0;
}

static void *count(void *which) {
  pthread_mutex_t *own = &counted[(intptr_t)which];
  for (int i = 0; i < 200000; i++) {
    pthread_mutex_lock(own);
    pthread_mutex_unlock(own);
  }
  return 0;
}

static void *mix(void *nothing) {
  for (int i = 0; i < 400; i++) {
    if (i % 10 == 0) {
      pthread_rwlock_wrlock(&read_and_written);
    } else {
      pthread_rwlock_rdlock(&read_and_written);
    }
    rest(20);
    pthread_rwlock_unlock(&read_and_written);
  }
  return nothing;
}

static void *stuck(void *nothing) {
  pthread_mutex_lock(&never_released);
  return nothing;
}

/* Time that the others waited for holder i: from the release before its own, or from when they came, to its release; and if
 * they were next, until they had the lock. */
static int64_t blame(int i) {
  int64_t sum = 0;
  for (int j = 0; j < 5; j++) {
    int64_t from = stays[j].wanted, to = stays[i].released;
    if (j == i || to <= stays[j].wanted || to > stays[j].has) continue;
    int is_last = 1;
    for (int k = 0; k < 5; k++) {
      int64_t other = stays[k].released;
      if (other > from && other < to) from = other;
      if (other > to && other <= stays[j].has) is_last = 0;
    }
    sum += (is_last ? stays[j].has : to) - from;
  }
  return sum;
}

static void threads(int number, void *(*function)(void *)) {
  pthread_t all[8];
  for (intptr_t i = 0; i < number; i++) pthread_create(&all[i], 0, function, (void *)(function == five ? i + 1 : i));
  for (int i = 0; i < number; i++) pthread_join(all[i], 0);
}

/* Each thread takes each of its locks once: a quarter of all. */
enum { MANY = 1 << 20 };
static pthread_mutex_t *many;
static void *one_of_many(void *which) {
  for (long i = (intptr_t)which; i < MANY; i += 4) {
    pthread_mutex_lock(&many[i]);
    pthread_mutex_unlock(&many[i]);
  }
  return 0;
}

static void *once(void *mutex) {
  pthread_mutex_lock(mutex);
  pthread_mutex_unlock(mutex);
  return 0;
}

/* Threads that are there at the same time. */
static pthread_barrier_t all_there;
static void *together(void *mutex) {
  once(mutex);
  pthread_barrier_wait(&all_there);
  return once(mutex);
}

/* The process makes its file when it first uses a lock, which takes a while, and shall not be in a figure. */
static void use_a_lock(void) {
  static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&first);
  pthread_mutex_unlock(&first);
}

int main(int argc, char **argv) {
  use_a_lock();
  const char *part = argc > 1 ? argv[1] : "";
  if (!strcmp(part, "stuck")) {
    pthread_t thread;
    pthread_mutex_lock(&never_released);
    pthread_create(&thread, 0, stuck, 0);
    rest(300000);
    puts("waiting");
    fflush(stdout);
    rest(60000000);
    return 0;
  }
  if (!strcmp(part, "many")) {
    /* A million locks, then thousands of threads: as many at a time as a machine lets a program have. */
    many = calloc(MANY, sizeof *many);
    threads(4, one_of_many);
    enum { CROWD = 5000 };
    static pthread_t crowd[CROWD];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_barrier_init(&all_there, 0, CROWD + 1);
    for (int i = 0; i < CROWD; i++)
      if (pthread_create(&crowd[i], &small, together, &counted[0])) return 77;
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < CROWD; i++) pthread_join(crowd[i], 0);
    return 0;
  }
  if (!strcmp(part, "fork")) {
    threads(2, count);
    if (fork() == 0) {
      threads(2, count);
      _exit(0);
    }
    wait(0);
    return 0;
  }
  pthread_barrier_init(&start, 0, 5);
  threads(5, five);
  threads(2, count);
  threads(4, mix);
  int64_t waited = 0, held = 0, waiters = 0;
  for (int i = 0; i < 5; i++) {
    waiters += stays[i].has - stays[i].wanted > 1000000;
    waited += stays[i].has - stays[i].wanted;
    held += stays[i].released - stays[i].has;
    int64_t blamed = blame(i);
    printf("hold_%d %lld\n", i + 1, (long long)blamed);
  }
  printf("waiters %lld\nwaited %lld\nheld %lld\n", (long long)waiters, (long long)waited, (long long)held);
  return 0;
}
