// What locks cost that are never destroyed, and waiters that give up.
//
//   memory mutex N T      N contended std::mutexes, one after the other, T threads each; each is freed when 64 more have come
//   memory shared N T     as many std::shared_mutexes
//   memory starved N T    up to 20,000 std::mutexes in a process that the kernel gives no memory any more, N rounds, T threads
//   memory starving N T   as many std::shared_mutexes, three rounds of four read
//   memory exhausted N T  a thread that takes std::mutexes until there is no node for one more, and goes on once another thread
//                         has released the N that it held; T is not looked at
//   memory timeouts N T   N timed acquisitions of a mutex that stays held, by T threads; then it is released
//   memory shared-timeouts N T   the same of a reader-writer lock that stays held by a writer; every other thread reads
//
// Prints how much resident memory grew, and for timeouts how long the release took.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <pthread.h>
#include <shared_mutex>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>
#include <vector>

// Resident memory, in KiB.
static long resident() {
  long pages = 0, all = 0;
  FILE *file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%ld %ld", &all, &pages) != 2) std::abort();
  std::fclose(file);
  return pages * 4;
}

// Locks that are there at once.
static const int ALIVE = 64;

template <class Lock> static void churn(int locks, int threads) {
  std::atomic<int> about{0}, arrived{0}, round{0};
  Lock *volatile lock = nullptr;
  long sum = 0;
  std::vector<std::thread> crew;
  for (int t = 0; t < threads; t++)
    crew.emplace_back([&] {
      for (int r = 1; r <= locks; r++) {
        while (round.load() < r) std::this_thread::yield();
        about++;
        lock->lock();
        sum++;
        lock->unlock();
        arrived++;
      }
    });
  long before = 0;
  std::vector<Lock *> alive(ALIVE, nullptr);
  for (int r = 1; r <= locks; r++) {
    Lock *fresh = new Lock();
    delete alive[r % ALIVE];
    alive[r % ALIVE] = fresh;
    lock = fresh;
    arrived = about = 0;
    fresh->lock();
    round = r;
    // All are about to wait, and mostly do.
    while (about.load() < threads) std::this_thread::yield();
    std::this_thread::yield();
    fresh->unlock();
    while (arrived.load() < threads) std::this_thread::yield();
    if (r == ALIVE) before = resident();
  }
  for (auto &thread : crew) thread.join();
  for (Lock *last : alive) delete last;
  if (sum != (long)locks * threads) std::abort();
  std::printf("grew_kib %ld\n", resident() - before);
}

static std::mutex many[20000];
static std::shared_mutex many_shared[20000];

static void acquire(std::mutex &lock, int) { lock.lock(); }
static void release(std::mutex &lock, int) { lock.unlock(); }
static void acquire(std::shared_mutex &lock, int round) { round % 4 == 0 ? lock.lock() : lock.lock_shared(); }
static void release(std::shared_mutex &lock, int round) { round % 4 == 0 ? lock.unlock() : lock.unlock_shared(); }

// The kernel gives no memory any more.
static void refuse_memory() {
  rlimit none{1 << 20, 1 << 20};
  if (setrlimit(RLIMIT_AS, &none) != 0) std::abort();
  if (mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) std::abort();
}

template <class Lock> static void starve(Lock *locks, int rounds, int threads) {
  std::atomic<int> phase{0}, ready{0};
  std::atomic<long> sum{0};
  std::vector<std::thread> crew;
  for (int t = 0; t < threads; t++)
    crew.emplace_back([&, t] {
      ready++;
      while (phase.load() < 1) std::this_thread::yield();
      for (int r = 0; r < rounds; r++) {
        Lock &lock = locks[r % 20000];
        // Of the threads that meet at a lock one writes.
        acquire(lock, r + t);
        if (r % 8 == 0) std::this_thread::yield();
        sum++;
        release(lock, r + t);
      }
    });
  while (ready.load() < threads) std::this_thread::yield();
  refuse_memory();
  phase = 1;
  for (auto &thread : crew) thread.join();
  if (sum.load() != (long)rounds * threads) std::abort();
  std::printf("grew_kib 0\n");
}

static void exhaust(int held) {
  // How many more the thread takes after it has been stuck.
  const int more = 64;
  std::atomic<int> phase{0}, taken{0}, most{20000 - held};
  std::thread greedy([&] {
    while (phase.load() < 1) std::this_thread::yield();
    while (taken.load() < most.load()) {
      many[held + taken.load()].lock();
      taken++;
    }
    for (int i = 0; i < taken.load(); i++) many[held + i].unlock();
  });
  for (int i = 0; i < held; i++) many[i].lock();
  refuse_memory();
  phase = 1;
  // It is stuck when it has taken none for a second.
  int stuck = -1;
  while (stuck != taken.load() && taken.load() < most.load()) {
    stuck = taken.load();
    const timespec nap{1, 0};
    nanosleep(&nap, nullptr);
  }
  const bool has_all = taken.load() == most.load();
  most = stuck + more;
  for (int i = 0; i < held; i++) many[i].unlock();
  greedy.join();
  std::printf("%s %d\n", has_all ? "never_stuck" : "stuck_at", stuck);
}

struct Mutex {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  int acquire() { return pthread_mutex_lock(&lock); }
  int attempt() { return pthread_mutex_trylock(&lock); }
  int timed(int, const timespec *deadline) { return pthread_mutex_timedlock(&lock, deadline); }
  int release() { return pthread_mutex_unlock(&lock); }
};

struct Shared {
  pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  int acquire() { return pthread_rwlock_wrlock(&lock); }
  int attempt() { return pthread_rwlock_trywrlock(&lock); }
  int timed(int thread, const timespec *deadline) {
    return thread % 2 ? pthread_rwlock_timedrdlock(&lock, deadline) : pthread_rwlock_timedwrlock(&lock, deadline);
  }
  int release() { return pthread_rwlock_unlock(&lock); }
};

template <class Lock> static void give_up(int timeouts, int threads) {
  Lock lock;
  if (lock.acquire() != 0) std::abort();
  std::atomic<int> done{0}, phase{0};
  auto attempt = [&](int thread) {
    timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_nsec += 1000;
    if (deadline.tv_nsec >= 1000000000) {
      deadline.tv_sec++;
      deadline.tv_nsec -= 1000000000;
    }
    if (lock.timed(thread, &deadline) == 0) std::abort();
  };
  std::vector<std::thread> crew;
  for (int t = 0; t < threads; t++)
    crew.emplace_back([&, t] {
      for (int i = 0; i < 100; i++) attempt(t);
      done++;
      while (phase.load() < 1) std::this_thread::yield();
      for (int i = 0; i < timeouts / threads; i++) attempt(t);
      done++;
      while (phase.load() < 2) std::this_thread::yield();
    });
  while (done.load() < threads) std::this_thread::yield();
  long before = resident();
  phase = 1;
  while (done.load() < 2 * threads) std::this_thread::yield();
  long grew = resident() - before;
  auto start = std::chrono::steady_clock::now();
  if (lock.release() != 0) std::abort();
  auto spent = std::chrono::steady_clock::now() - start;
  if (lock.attempt() != 0 || lock.release() != 0) std::abort();
  phase = 2;
  for (auto &thread : crew) thread.join();
  std::printf("grew_kib %ld release_ns %ld\n", grew,
              (long)std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  int number = std::atoi(argv[2]), threads = std::atoi(argv[3]);
  if (std::strcmp(argv[1], "mutex") == 0) churn<std::mutex>(number, threads);
  else if (std::strcmp(argv[1], "shared") == 0) churn<std::shared_mutex>(number, threads);
  else if (std::strcmp(argv[1], "starved") == 0) starve(many, number, threads);
  else if (std::strcmp(argv[1], "starving") == 0) starve(many_shared, number, threads);
  else if (std::strcmp(argv[1], "exhausted") == 0) exhaust(number);
  else if (std::strcmp(argv[1], "timeouts") == 0) give_up<Mutex>(number, threads);
  else if (std::strcmp(argv[1], "shared-timeouts") == 0) give_up<Shared>(number, threads);
  else return 2;
}
