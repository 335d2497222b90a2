/*
 * Where locks live and from where they are used: memory that vanishes right after the last unlock, the smallest
 * stacks, coroutines, a signal's alternate stack, main's stack, neighbours on one cache line.
 */
#include "suite.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

/* ---- memory that vanishes ---- */

/* The last user of a lock takes its page away, as POSIX allows. A late access by another's unlock dies of SIGSEGV. */
struct page {
    pthread_mutex_t mutex;
    pthread_spinlock_t spin;
    int users, arrived;
    bool spins;
};

static void *leave_and_vanish(void *arg) {
    struct page *page = arg;
    bool spins = page->spins;
    int all = page->users;
    add(&page->arrived, 1); /* the last to arrive finds the others spinning on their way in */
    while (get(&page->arrived) < all)
        sched_yield();
    must((spins ? pthread_spin_lock(&page->spin) : pthread_mutex_lock(&page->mutex)) == 0);
    int left = --page->users;
    must((spins ? pthread_spin_unlock(&page->spin) : pthread_mutex_unlock(&page->mutex)) == 0);
    if (left > 0)
        return NULL;
    must(pthread_mutex_destroy(&page->mutex) == 0 && pthread_spin_destroy(&page->spin) == 0);
    must(mprotect(page, sizeof *page, PROT_NONE) == 0);
    return page;
}

static void vanish(bool spins, int type) {
    enum { CROWD = 3 };
    int vanished = 0, rounds = iterations(400), count = threads(CROWD);
    pthread_mutexattr_t attr;
    must(pthread_mutexattr_init(&attr) == 0 && pthread_mutexattr_settype(&attr, type) == 0);
    for (int i = 0; i < rounds; i++) {
        pthread_t thread[CROWD];
        struct page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(page != MAP_FAILED);
        page->users = count;
        page->spins = spins;
        must(pthread_mutex_init(&page->mutex, &attr) == 0);
        must(pthread_spin_init(&page->spin, 0) == 0);
        for (int k = 0; k < count; k++)
            thread[k] = start(leave_and_vanish, page);
        for (int k = 0; k < count; k++)
            vanished += join(thread[k]) != NULL;
        must(munmap(page, sizeof *page) == 0);
    }
    yes("every page vanished once", vanished == rounds);
}

CASE(vanishing_mutex, 60) { vanish(false, PTHREAD_MUTEX_NORMAL); }
CASE(vanishing_recursive_mutex, 60) { vanish(false, PTHREAD_MUTEX_RECURSIVE); }
CASE(vanishing_errorcheck_mutex, 60) { vanish(false, PTHREAD_MUTEX_ERRORCHECK); }
CASE(vanishing_spinlock, 60) { vanish(true, PTHREAD_MUTEX_NORMAL); }

/* A cond and its mutex vanish as soon as the waiter has woken. */
struct request {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int done;
};

static void *serve(void *arg) {
    struct request *request = arg;
    must(pthread_mutex_lock(&request->mutex) == 0);
    request->done = 1;
    must(pthread_cond_signal(&request->cond) == 0);
    must(pthread_mutex_unlock(&request->mutex) == 0);
    return NULL;
}

CASE(vanishing_request, 60) {
    for (int i = 0; i < iterations(400); i++) {
        struct request *request =
            mmap(NULL, sizeof *request, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(request != MAP_FAILED);
        must(pthread_mutex_init(&request->mutex, NULL) == 0 && pthread_cond_init(&request->cond, NULL) == 0);
        pthread_t server = start(serve, request);
        must(pthread_mutex_lock(&request->mutex) == 0);
        while (!request->done)
            must(pthread_cond_wait(&request->cond, &request->mutex) == 0);
        must(pthread_mutex_unlock(&request->mutex) == 0);
        must(pthread_cond_destroy(&request->cond) == 0 && pthread_mutex_destroy(&request->mutex) == 0);
        must(mprotect(request, sizeof *request, PROT_NONE) == 0);
        join(server);
        must(munmap(request, sizeof *request) == 0);
    }
    yes("every round", true);
}

/* A reader-writer lock vanishes after the last unlock, whoever else is still on the way out of one: those who were inside when the
   last one left have let a writer in, who takes the page away. Every other one is not destroyed. */
struct room {
    pthread_rwlock_t lock;
    int users, arrived;
    bool destroyed;
};

static void *leave_room(void *arg) {
    struct room *room = arg;
    int all = room->users;
    bool destroyed = room->destroyed, writes = add(&room->arrived, 1) == 2;
    while (get(&room->arrived) < all)
        sched_yield();
    must((writes ? pthread_rwlock_wrlock(&room->lock) : pthread_rwlock_rdlock(&room->lock)) == 0);
    int left = add(&room->users, -1);
    must(pthread_rwlock_unlock(&room->lock) == 0);
    if (left > 0)
        return NULL;
    must(pthread_rwlock_wrlock(&room->lock) == 0);
    must(pthread_rwlock_unlock(&room->lock) == 0);
    must(!destroyed || pthread_rwlock_destroy(&room->lock) == 0);
    must(mprotect(room, sizeof *room, PROT_NONE) == 0);
    return room;
}

CASE(vanishing_rwlock, 60) {
    enum { CROWD = 3 };
    int vanished = 0, rounds = iterations(400), count = threads(CROWD);
    for (int i = 0; i < rounds; i++) {
        pthread_t thread[CROWD];
        struct room *room = mmap(NULL, sizeof *room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(room != MAP_FAILED);
        room->users = count;
        room->destroyed = i % 2;
        must(pthread_rwlock_init(&room->lock, NULL) == 0);
        for (int k = 0; k < count; k++)
            thread[k] = start(leave_room, room);
        for (int k = 0; k < count; k++)
            vanished += join(thread[k]) != NULL;
        must(munmap(room, sizeof *room) == 0);
    }
    yes("every page vanished once", vanished == rounds);
}

/* Memory that was a contended mutex, and was not destroyed, becomes plain data, a reader-writer lock, plain data, a condition and a
   mutex again. A thread that is late with an access of its first life is seen in the data, or in the locks. */
static union {
    struct {
        pthread_mutex_t mutex;
        pthread_cond_t cond;
    } first;
    struct {
        pthread_cond_t cond;
        pthread_mutex_t mutex;
    } second;
    pthread_rwlock_t lock;
    unsigned char bytes[sizeof(pthread_mutex_t) + sizeof(pthread_cond_t)];
} memory;
static int in_line, users, wakes;

/* The last one to leave makes the memory plain data at once. */
static void end_life(int left) {
    if (left == 0)
        memset(memory.bytes, 0xa5, sizeof memory.bytes);
}

static void meet(void) {
    add(&in_line, 1);
    while (get(&in_line) < get(&users))
        sched_yield();
}

static void *as_mutex(void *unused) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 0);
    meet();
    /* Some give up in between. */
    int error = pthread_mutex_timedlock(&memory.first.mutex, &soon);
    must(error == 0 || error == ETIMEDOUT);
    if (error == 0)
        must(pthread_mutex_unlock(&memory.first.mutex) == 0);
    must(pthread_mutex_lock(&memory.first.mutex) == 0);
    int left = --wakes;
    must(pthread_mutex_unlock(&memory.first.mutex) == 0);
    end_life(left);
    return unused;
}

static void *as_rwlock(void *unused) {
    meet();
    must(pthread_rwlock_rdlock(&memory.lock) == 0);
    must(pthread_rwlock_unlock(&memory.lock) == 0);
    must(pthread_rwlock_wrlock(&memory.lock) == 0);
    int left = --wakes;
    must(pthread_rwlock_unlock(&memory.lock) == 0);
    end_life(left);
    return unused;
}

static void *as_cond(void *unused) {
    must(pthread_mutex_lock(&memory.second.mutex) == 0);
    if (add(&in_line, 1) == get(&users))
        must(pthread_cond_broadcast(&memory.second.cond) == 0);
    while (get(&in_line) < get(&users))
        must(pthread_cond_wait(&memory.second.cond, &memory.second.mutex) == 0);
    int left = --wakes;
    must(pthread_mutex_unlock(&memory.second.mutex) == 0);
    end_life(left);
    return unused;
}

static bool live_as(void *(*life)(void *)) {
    enum { CROWD = 4 };
    pthread_t thread[CROWD];
    int count = threads(CROWD);
    memset(memory.bytes, 0, sizeof memory.bytes); /* what the static initialisers say */
    set(&in_line, 0);
    set(&users, count);
    wakes = count;
    for (int k = 0; k < count; k++)
        thread[k] = start(life, NULL);
    for (int k = 0; k < count; k++)
        join(thread[k]);
    for (size_t i = 0; i < sizeof memory.bytes; i++)
        if (memory.bytes[i] != 0xa5)
            return false;
    return true;
}

CASE(memory_of_several_lives, 60) {
    int untouched = 0, rounds = iterations(300);
    for (int i = 0; i < rounds; i++) {
        untouched += live_as(as_mutex);
        untouched += live_as(as_rwlock);
        untouched += live_as(as_cond);
    }
    yes("nobody was late", untouched == 3 * rounds);
}

/* Locks that are never destroyed: their memory goes back to the system, and comes back as zeroes. */
CASE(never_destroyed, 30) {
    pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(mutex != MAP_FAILED);
    for (int i = 0; i < 100; i++) {
        must(pthread_mutex_lock(mutex) == 0);
        must(BY_OTHER(pthread_mutex_trylock, mutex) == EBUSY);
        if (i % 2)
            must(pthread_mutex_unlock(mutex) == 0);
        must(madvise(mutex, 4096, MADV_DONTNEED) == 0); /* even while locked */
    }
    result("lock", pthread_mutex_lock(mutex), 0);
    result("unlock", pthread_mutex_unlock(mutex), 0);
}

/* ---- stacks ---- */

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static long counter;

static void *use_all(void *arg) {
    for (int i = 0; i < *(int *)arg; i++) {
        struct timespec soon = in_ms(CLOCK_MONOTONIC, 0);
        must(pthread_mutex_lock(&m) == 0);
        counter++;
        int error = pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &soon);
        must(error == 0 || error == ETIMEDOUT);
        must(pthread_cond_broadcast(&c) == 0);
        must(pthread_mutex_unlock(&m) == 0);
        must(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
        must(pthread_rwlock_wrlock(&rw) == 0 && pthread_rwlock_unlock(&rw) == 0);
        must(pthread_rwlock_rdlock(&rw) == 0 && pthread_rwlock_unlock(&rw) == 0);
    }
    return NULL;
}

CASE(smallest_stacks, 60) {
    pthread_attr_t attr;
    pthread_t thread[4];
    int rounds = iterations(300), count = threads(4);
    must(pthread_attr_init(&attr) == 0);
    must(pthread_attr_setstacksize(&attr, (size_t)sysconf(_SC_THREAD_STACK_MIN)) == 0);
    for (int i = 0; i < count; i++)
        must(pthread_create(&thread[i], &attr, use_all, &rounds) == 0);
    for (int i = 0; i < count; i++)
        join(thread[i]);
    yes("no increment lost", counter == (long)rounds * count);
}

/* Locked in one coroutine, unlocked in another, on the same thread. */
static ucontext_t outer, inner;

static void coroutine(void) {
    must(pthread_mutex_lock(&m) == 0 && pthread_mutex_lock(&recursive) == 0);
    must(swapcontext(&inner, &outer) == 0);
    must(pthread_mutex_trylock(&m) == 0);
    must(swapcontext(&inner, &outer) == 0);
}

CASE(coroutines, 20) {
    static char stack[64 * 1024];
    must(getcontext(&inner) == 0);
    inner.uc_stack.ss_sp = stack;
    inner.uc_stack.ss_size = sizeof stack;
    inner.uc_link = &outer;
    makecontext(&inner, coroutine, 0);
    must(swapcontext(&outer, &inner) == 0);
    result("trylock of the coroutine's", pthread_mutex_trylock(&m), EBUSY);
    result("unlock of the coroutine's", pthread_mutex_unlock(&m), 0);
    result("trylock of its recursive one", pthread_mutex_trylock(&recursive), 0);
    result("unlock", pthread_mutex_unlock(&recursive), 0);
    result("unlock", pthread_mutex_unlock(&recursive), 0);
    result("free", BY_OTHER(pthread_mutex_trylock, &recursive), 0);
    must(swapcontext(&outer, &inner) == 0);
    result("trylock by other", BY_OTHER(pthread_mutex_trylock, &m), EBUSY);
    result("unlock", pthread_mutex_unlock(&m), 0);
}

/* Not allowed by POSIX in general, but common for a lock the interrupted code does not hold. */
static void lock_in_handler(int number) {
    (void)number;
    must(pthread_mutex_lock(&recursive) == 0);
    counter++;
    must(pthread_mutex_unlock(&recursive) == 0);
}

CASE(alternate_signal_stack, 20) {
    static char memory[64 * 1024];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    struct sigaction action = {.sa_handler = lock_in_handler, .sa_flags = SA_ONSTACK};
    must(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    must(pthread_mutex_lock(&m) == 0);
    for (int i = 0; i < 100; i++)
        must(raise(SIGUSR1) == 0);
    must(pthread_mutex_unlock(&m) == 0);
    yes("every handler locked", counter == 100);
}

/* ---- neighbours ---- */

struct crowded {
    pthread_mutex_t first;
    pthread_spinlock_t spin;
    char letters[4];
    pthread_mutex_t second;
    pthread_cond_t cond;
    int number;
    pthread_rwlock_t rwlock;
};

static void *disturb(void *arg) {
    struct crowded *crowded = arg;
    for (int i = 0; i < iterations(2000); i++) {
        struct timespec past = {1, 0};
        must(pthread_mutex_lock(&crowded->first) == 0);
        must(pthread_mutex_lock(&crowded->second) == 0);
        must(pthread_mutex_unlock(&crowded->first) == 0);
        must(pthread_spin_lock(&crowded->spin) == 0);
        crowded->number++;
        must(pthread_spin_unlock(&crowded->spin) == 0);
        int error = pthread_cond_timedwait(&crowded->cond, &crowded->second, &past);
        must(error == 0 || error == ETIMEDOUT);
        must(pthread_cond_signal(&crowded->cond) == 0);
        must(pthread_mutex_unlock(&crowded->second) == 0);
        must(pthread_rwlock_rdlock(&crowded->rwlock) == 0 && pthread_rwlock_unlock(&crowded->rwlock) == 0);
    }
    return NULL;
}

CASE(neighbours, 60) {
    struct crowded *crowded = calloc(1, sizeof *crowded);
    pthread_t thread[3];
    int count = threads(3);
    must(pthread_spin_init(&crowded->spin, 0) == 0);
    memcpy(crowded->letters, "abc", 4);
    for (int i = 0; i < count; i++)
        thread[i] = start(disturb, crowded);
    for (int i = 0; i < count; i++)
        join(thread[i]);
    yes("no increment lost", crowded->number == count * iterations(2000));
    yes("letters intact", strcmp(crowded->letters, "abc") == 0);
    result("destroy first", pthread_mutex_destroy(&crowded->first), 0);
    result("destroy second", pthread_mutex_destroy(&crowded->second), 0);
    result("destroy cond", pthread_cond_destroy(&crowded->cond), 0);
    result("destroy rwlock", pthread_rwlock_destroy(&crowded->rwlock), 0);
    free(crowded);
}
