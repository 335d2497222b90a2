/* Locks across dlopen'ed libraries: constructors, RTLD_DEEPBIND, RUNPATH of the caller, dlsym and dlvsym. */
#include "suite.h"

#include <dlfcn.h>
#include <limits.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;

const char *who_am_i(void) {
    return "program";
}

/* A library beside the program. */
static void *open_library(const char *name, int flags) {
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    must(n > 0);
    path[n] = '\0';
    strcpy(strrchr(path, '/') + 1, name);
    void *handle = dlopen(path, flags);
    if (handle == NULL)
        fprintf(stderr, "%s\n", dlerror());
    must(handle != NULL);
    return handle;
}

struct callee {
    int (*lock)(pthread_mutex_t *);
    int (*trylock)(pthread_mutex_t *);
    int (*unlock)(pthread_mutex_t *);
    int (*signal)(pthread_cond_t *);
    int (*wait)(pthread_cond_t *, pthread_mutex_t *);
    int (*tryrdlock)(pthread_rwlock_t *);
    const char *(*who)(void);
};

static void *symbol(void *handle, const char *name) {
    void *address = dlsym(handle, name);
    must(address != NULL);
    return address;
}

static struct callee open_callee(int flags) {
    void *handle = open_library("libcallee.so", flags);
    return (struct callee){
        .lock = (int (*)(pthread_mutex_t *))symbol(handle, "callee_lock"),
        .trylock = (int (*)(pthread_mutex_t *))symbol(handle, "callee_trylock"),
        .unlock = (int (*)(pthread_mutex_t *))symbol(handle, "callee_unlock"),
        .signal = (int (*)(pthread_cond_t *))symbol(handle, "callee_signal"),
        .wait = (int (*)(pthread_cond_t *, pthread_mutex_t *))symbol(handle, "callee_wait"),
        .tryrdlock = (int (*)(pthread_rwlock_t *))symbol(handle, "callee_tryrdlock"),
        .who = (const char *(*)(void))symbol(handle, "callee_who"),
    };
}

static struct callee callee;
static long counter;
static int waiting, go;

static void *count_here(void *arg) {
    int rounds = *(int *)arg;
    for (int i = 0; i < rounds; i++) {
        must(pthread_mutex_lock(&m) == 0);
        counter++;
        must(pthread_mutex_unlock(&m) == 0);
    }
    return NULL;
}

static void *count_there(void *arg) {
    int rounds = *(int *)arg;
    for (int i = 0; i < rounds; i++) {
        must(callee.lock(&m) == 0);
        counter++;
        must(callee.unlock(&m) == 0);
    }
    return NULL;
}

static void *wait_there(void *arg) {
    (void)arg;
    must(callee.lock(&m) == 0);
    waiting = 1;
    while (!go)
        must(callee.wait(&c, &m) == 0);
    must(callee.unlock(&m) == 0);
    return NULL;
}

/* Program and library use the same objects. */
static void together(int flags) {
    int rounds = iterations(10000);
    callee = open_callee(flags);
    result("lock here", pthread_mutex_lock(&m), 0);
    result("trylock there", callee.trylock(&m), EBUSY);
    result("unlock there", callee.unlock(&m), 0);
    result("lock there", callee.lock(&m), 0);
    result("trylock here", pthread_mutex_trylock(&m), EBUSY);
    result("unlock here", pthread_mutex_unlock(&m), 0);
    result("wrlock here", pthread_rwlock_wrlock(&rw), 0);
    result("tryrdlock there", callee.tryrdlock(&rw), EBUSY);
    result("unlock here", pthread_rwlock_unlock(&rw), 0);

    pthread_t a = start(count_here, &rounds), b = start(count_there, &rounds);
    join(a);
    join(b);
    yes("no increment lost", counter == 2L * rounds);

    pthread_t waiter = start(wait_there, NULL);
    for (int seen = 0; !seen; usleep(100)) {
        must(pthread_mutex_lock(&m) == 0);
        seen = waiting;
        must(pthread_mutex_unlock(&m) == 0);
    }
    must(pthread_mutex_lock(&m) == 0);
    go = 1;
    result("signal there", callee.signal(&c), 0);
    must(pthread_mutex_unlock(&m) == 0);
    join(waiter);
}

CASE(dlopen_now, 20) { together(RTLD_NOW); }
CASE(dlopen_lazy, 20) { together(RTLD_LAZY); }
CASE(dlopen_global, 20) { together(RTLD_NOW | RTLD_GLOBAL); }
CASE(dlopen_deepbind, 20) { together(RTLD_NOW | RTLD_DEEPBIND); }
CASE(dlopen_lazy_deepbind, 20) { together(RTLD_LAZY | RTLD_DEEPBIND | RTLD_GLOBAL); }

/* What else RTLD_DEEPBIND is used for: a library's own definitions before the program's. */
CASE(deepbind_own_symbols, 10) {
    note("without it", open_callee(RTLD_NOW).who());
}

CASE(deepbind_own_symbols_deep, 10) {
    note("with it", open_callee(RTLD_NOW | RTLD_DEEPBIND).who());
}

CASE(dlopen_constructor_locks, 20) {
    for (int i = 0; i < 3; i++) {
        void *handle = open_library("libctor.so", RTLD_NOW);
        yes("constructors ran", *(int *)symbol(handle, "ctor_count") == 2);
        pthread_mutex_t *inside = symbol(handle, "ctor_mutex");
        result("lock of its mutex", pthread_mutex_lock(inside), 0);
        result("unlock of its mutex", pthread_mutex_unlock(inside), 0);
        yes("closed", dlclose(handle) == 0);
    }
}

static void *open_and_close(void *arg) {
    (void)arg;
    for (int i = 0; i < iterations(30); i++) {
        void *handle = open_library("libctor.so", RTLD_NOW);
        must(dlclose(handle) == 0);
    }
    return NULL;
}

/* Mutexes in a library that comes and goes at the same addresses. */
CASE(dlopen_in_threads, 30) {
    pthread_t a = start(open_and_close, NULL), b = start(open_and_close, NULL);
    join(a);
    join(b);
    yes("every round", true);
}

/* A library is closed while its mutex still has all that contention, and waiters who gave up, have made of it; the next one finds its
   own at the same address. */
static pthread_mutex_t *inside;
static int line, inside_counter;

static void *contend_inside(void *arg) {
    add(&line, 1);
    for (int i = 0; i < *(int *)arg; i++) {
        struct timespec soon = in_ms(CLOCK_REALTIME, 0);
        int error = pthread_mutex_timedlock(inside, &soon);
        must(error == 0 || error == ETIMEDOUT);
        if (error != 0)
            must(pthread_mutex_lock(inside) == 0);
        inside_counter++;
        must(pthread_mutex_unlock(inside) == 0);
    }
    return NULL;
}

CASE(dlclose_contended, 60) {
    enum { CROWD = 8 };
    pthread_t thread[CROWD];
    int rounds = iterations(60), count = threads(CROWD), each = iterations(300);
    bool counted = true;
    for (int i = 0; i < rounds; i++) {
        void *handle = open_library("libctor.so", RTLD_NOW);
        inside = symbol(handle, "ctor_mutex");
        set(&line, 0);
        inside_counter = 0;
        must(pthread_mutex_lock(inside) == 0);
        for (int k = 0; k < count; k++)
            thread[k] = start(contend_inside, &each);
        await(&line, count);
        sched_yield();
        must(pthread_mutex_unlock(inside) == 0);
        for (int k = 0; k < count; k++)
            join(thread[k]);
        counted &= inside_counter == count * each;
        must(dlclose(handle) == 0);
    }
    yes("every section was counted", counted);
}

CASE(dlopen_runpath_of_caller, 10) {
    void *handle = open_library("libcaller.so", RTLD_NOW);
    void *(*open_inner)(int) = (void *(*)(int))symbol(handle, "caller_open");
    yes("not found from here", dlopen("libinner.so", RTLD_NOW) == NULL);
    yes("error text", dlerror() != NULL);
    const int flags[] = {RTLD_NOW, RTLD_LAZY, RTLD_NOW | RTLD_GLOBAL, RTLD_NOW | RTLD_DEEPBIND};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        void *inner = open_inner(flags[i]);
        yes("found from the library", inner != NULL);
        if (inner != NULL) {
            int (*answer)(void) = (int (*)(void))symbol(inner, "inner_answer");
            yes("the right one", answer() == 42);
            dlclose(inner);
        }
    }
}

CASE(dlopen_of_the_program, 10) {
    void *self = dlopen(NULL, RTLD_NOW);
    yes("handle", self != NULL);
    yes("no such library", dlopen("libnosuchthing.so.9", RTLD_NOW) == NULL);
    const char *text = dlerror();
    yes("error names it", text != NULL && strstr(text, "libnosuchthing.so.9") != NULL);
    yes("no error left", dlerror() == NULL);
    yes("noload", dlopen("libnosuchthing.so.9", RTLD_NOW | RTLD_NOLOAD) == NULL);
}

/* ---- functions looked up by name ---- */

static void looked_up(void *scope, const char *version) {
    const char *names[] = {"pthread_mutex_lock", "pthread_mutex_trylock", "pthread_mutex_unlock"};
    int (*f[3])(pthread_mutex_t *);
    for (int i = 0; i < 3; i++) {
        f[i] = (int (*)(pthread_mutex_t *))(version ? dlvsym(scope, names[i], version) : dlsym(scope, names[i]));
        must(f[i] != NULL);
    }
    result("lock by pointer", f[0](&m), 0);
    result("trylock by name", pthread_mutex_trylock(&m), EBUSY);
    result("trylock by pointer", f[1](&m), EBUSY);
    result("unlock by pointer", f[2](&m), 0);
    result("lock by name", pthread_mutex_lock(&m), 0);
    result("trylock by pointer", f[1](&m), EBUSY);
    result("unlock by pointer", f[2](&m), 0);
    result("trylock by name", pthread_mutex_trylock(&m), 0);
    result("unlock by name", pthread_mutex_unlock(&m), 0);
}

CASE(dlsym_default, 10) { looked_up(RTLD_DEFAULT, NULL); }
CASE(dlsym_next, 10) { looked_up(RTLD_NEXT, NULL); }
CASE(dlsym_program, 10) { looked_up(dlopen(NULL, RTLD_NOW), NULL); }
CASE(dlvsym_default, 10) { looked_up(RTLD_DEFAULT, "GLIBC_2.2.5"); }
CASE(dlvsym_next, 10) { looked_up(RTLD_NEXT, "GLIBC_2.2.5"); }

CASE(dlvsym_cond, 10) {
    int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *) =
        (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlvsym(
            RTLD_DEFAULT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    must(wait != NULL);
    result("lock", pthread_mutex_lock(&m), 0);
    result("timedwait", wait(&c, &m, &soon), ETIMEDOUT);
    result("held", BY_OTHER(pthread_mutex_trylock, &m), EBUSY);
    result("unlock", pthread_mutex_unlock(&m), 0);
}
