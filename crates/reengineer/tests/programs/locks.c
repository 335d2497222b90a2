/* Mutexes of all sorts: each is a delegate or stays a mutex by itself. Which stay is said so. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAKE(it) pthread_mutex_lock(it)
#define GIVE(it) pthread_mutex_unlock(it)

static long counter;

/* The simplest. */
static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
/* (&tried) stays: pthread_mutex_trylock at */
static pthread_mutex_t tried = PTHREAD_MUTEX_INITIALIZER;
/* (&timed) stays: delegates have no pthread_mutex_timedlock */
static pthread_mutex_t timed = PTHREAD_MUTEX_INITIALIZER;
/* (&recursive) stays: delegates have no pthread_mutex_init */
static pthread_mutex_t recursive;
/* With attributes that say what is the default. */
static pthread_mutex_t ordinary;
/* (&shown) stays: its address goes elsewhere */
static pthread_mutex_t shown = PTHREAD_MUTEX_INITIALIZER;
/* Memory for it is allocated. */
static pthread_mutex_t *many;
/* One declaration, one type: (&second) stays: pthread_mutex_trylock at */
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;

struct box {
    const char *name;
    pthread_mutex_t lock;
    long value;
};

/* In a structure, by the place and by name. */
static struct box boxes[] = {
    { "one", PTHREAD_MUTEX_INITIALIZER, 1 },
    { .name = "two", .value = 2, .lock = PTHREAD_MUTEX_INITIALIZER },
};

/* Another structure's: passed to functions by its address. */
struct passed {
    pthread_mutex_t inner;
    long value;
};

/* (&alike->lock) stays: pthread_mutex_trylock at */
struct alike {
    pthread_mutex_t lock;
    long value;
};

static long simple(long by)
{
    pthread_mutex_lock(&plain);
    counter += by;
    pthread_mutex_unlock(&plain);
    return counter;
}

/* The macros serve delegates and mutexes. */
static long by_macros(long by)
{
    TAKE(&plain);
    counter += by;
    GIVE(&plain);
    TAKE(&tried);
    counter += by;
    GIVE(&tried);
    return counter;
}

static long tries(long by)
{
    if (pthread_mutex_trylock(&tried) == 0) {
        counter += by;
        pthread_mutex_unlock(&tried);
    }
    struct timespec now = { 0, 0 };
    if (pthread_mutex_timedlock(&timed, &now) == 0)
        pthread_mutex_unlock(&timed);
    pthread_mutex_lock(&timed);
    counter ^= by;
    pthread_mutex_unlock(&timed);
    return counter;
}

static long recurses(long by)
{
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&plain);
    counter += by;
    pthread_mutex_unlock(&plain);
    pthread_mutex_unlock(&recursive);
    pthread_mutex_lock(&ordinary);
    counter += 2 * by;
    pthread_mutex_unlock(&ordinary);
    return counter;
}

static long kept(void *lock)
{
    return lock != NULL;
}

static long shows(long by)
{
    pthread_mutex_lock(&shown);
    counter += by;
    pthread_mutex_unlock(&shown);
    return counter + kept(&shown);
}

static long striped(long by)
{
    pthread_mutex_t *stripe = &many[by & 3];
    pthread_mutex_lock(stripe);
    counter += by;
    pthread_mutex_unlock(stripe);
    return counter;
}

static long declared_together(long by)
{
    pthread_mutex_lock(&first);
    counter += by;
    pthread_mutex_unlock(&first);
    pthread_mutex_lock(&second);
    counter += by;
    pthread_mutex_unlock(&second);
    if (pthread_mutex_trylock(&first) == 0)
        pthread_mutex_unlock(&first);
    return counter;
}

static long fields(long by)
{
    struct box *box = &boxes[by & 1];
    pthread_mutex_lock(&box->lock);
    box->value += by;
    pthread_mutex_unlock(&box->lock);
    return box->value + box->name[0];
}

static void add(pthread_mutex_t *lock, long *value, long by)
{
    pthread_mutex_lock(lock);
    *value += by;
    pthread_mutex_unlock(lock);
}

static long passes(struct passed *passed, long by)
{
    add(&passed->inner, &passed->value, by);
    return passed->value;
}

static long alikes(struct alike *alike, long by)
{
    pthread_mutex_lock(&alike->lock);
    alike->value += by;
    pthread_mutex_unlock(&alike->lock);
    if (pthread_mutex_trylock(&alike->lock) == 0)
        pthread_mutex_unlock(&alike->lock);
    return alike->value;
}

/* Gives the lock up in a loop. */
static long pauses(long by)
{
    long sum = 0, rounds = by;
    pthread_mutex_lock(&plain);
    while (rounds > 0) {
        long kept_over = counter + rounds;
        pthread_mutex_unlock(&plain);
        sum += simple(1);
        if (sum & 1) {
            sum += 4;
        }
        pthread_mutex_lock(&plain);
        sum += kept_over & 7;
        rounds--;
    }
    sum += counter;
    pthread_mutex_unlock(&plain);
    return sum;
}

/* The same by a macro that names the variables. */
#define STEP (sum += rounds)
static long pauses_by_macros(long by)
{
    long sum = 0, rounds = by;
    TAKE(&plain);
    if (by & 1) {
        STEP;
        GIVE(&plain);
        STEP;
        rounds += 3;
        TAKE(&plain);
    }
    STEP;
    counter += sum;
    GIVE(&plain);
    return sum + rounds;
}

/* A queue between two threads. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    long items[2];
    int count;
} queue = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, { 0, 0 }, 0 };

static void put(long item)
{
    pthread_mutex_lock(&queue.lock);
    while (queue.count == 2)
        pthread_cond_wait(&queue.emptied, &queue.lock);
    queue.items[queue.count++] = item;
    pthread_cond_signal(&queue.filled);
    pthread_mutex_unlock(&queue.lock);
}

static long get(void)
{
    long item;
    pthread_mutex_lock(&queue.lock);
    while (queue.count == 0) {
        pthread_cond_wait(&queue.filled, &queue.lock);
    }
    item = queue.items[0];
    queue.items[0] = queue.items[1];
    queue.count--;
    pthread_cond_signal(&queue.emptied);
    pthread_mutex_unlock(&queue.lock);
    return item;
}

/* Waits for two conditions, and does something in between. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened, closed;
static int state;

static long through(void)
{
    long seen = 0;
    pthread_mutex_lock(&gate);
    while (state < 1)
        pthread_cond_wait(&opened, &gate);
    seen = state;
    state = 2;
    pthread_cond_broadcast(&closed);
    while (state < 3)
        pthread_cond_wait(&closed, &gate);
    seen = seen * 10 + state;
    pthread_mutex_unlock(&gate);
    return seen;
}

static void *helps(void *unused)
{
    for (long item = 1; item < 20; item++)
        put(item);
    pthread_mutex_lock(&gate);
    state = 1;
    pthread_cond_broadcast(&opened);
    while (state != 2)
        pthread_cond_wait(&closed, &gate);
    state = 3;
    pthread_cond_broadcast(&closed);
    pthread_mutex_unlock(&gate);
    return unused;
}

/* (&waited_until) stays: pthread_cond_timedwait at */
static pthread_mutex_t waited_until = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static long waits_a_while(long by)
{
    struct timespec past = { 0, 0 };
    pthread_mutex_lock(&waited_until);
    while (by-- > 0)
        pthread_cond_timedwait(&never, &waited_until, &past);
    pthread_mutex_unlock(&waited_until);
    return by;
}

static long beside_waits(long by)
{
    pthread_mutex_lock(&waited_until);
    counter += by;
    pthread_mutex_unlock(&waited_until);
    return counter;
}

/* It goes to a function that takes any pointer, in ways which are not followed: (&fallback) stays: its address goes elsewhere */
static pthread_mutex_t fallback = PTHREAD_MUTEX_INITIALIZER;
/* (&loaded) stays: its address goes elsewhere */
static pthread_mutex_t loaded = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t *to_load = &loaded;
/* (&in_comma) stays: its address goes elsewhere */
static pthread_mutex_t in_comma = PTHREAD_MUTEX_INITIALIZER;
/* (&in_statement) stays: its address goes elsewhere */
static pthread_mutex_t in_statement = PTHREAD_MUTEX_INITIALIZER;
/* (&exchanged) stays: its address goes elsewhere */
static pthread_mutex_t exchanged = PTHREAD_MUTEX_INITIALIZER;

static long goes_by_ways(pthread_mutex_t *given, long by)
{
    pthread_mutex_t *chosen, *slot = NULL, *nothing = NULL;
    long sum = kept(given ?: &fallback) + kept(__atomic_load_n(&to_load, __ATOMIC_SEQ_CST));
    sum += kept((chosen = &in_comma, chosen)) + kept(({ sum++; (&in_statement); }));
    sum += __atomic_compare_exchange_n(&slot, &nothing, &exchanged, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&fallback);
    counter += by;
    pthread_mutex_unlock(&fallback);
    pthread_mutex_lock(&loaded);
    counter ^= by;
    pthread_mutex_unlock(&loaded);
    pthread_mutex_lock(&in_comma);
    counter += by;
    pthread_mutex_unlock(&in_comma);
    pthread_mutex_lock(&in_statement);
    counter ^= by;
    pthread_mutex_unlock(&in_statement);
    pthread_mutex_lock(&exchanged);
    counter += by;
    pthread_mutex_unlock(&exchanged);
    return sum + counter + (slot != NULL);
}

/* In one place: (&either.first) stays: it is in a union */
struct inner {
    long before;
    pthread_mutex_t second;
};
static union {
    pthread_mutex_t first;
    /* (&either.inner[0].second) stays: it is in a union */
    struct inner inner[2];
    struct {
        long before;
        /* (&either.third) stays: it is in a union */
        pthread_mutex_t third;
    };
} either;

static long in_union(long by)
{
    pthread_mutex_init(&either.first, NULL);
    pthread_mutex_lock(&either.first);
    counter += by;
    pthread_mutex_unlock(&either.first);
    pthread_mutex_destroy(&either.first);
    pthread_mutex_init(&either.inner[0].second, NULL);
    pthread_mutex_lock(&either.inner[0].second);
    counter += by;
    pthread_mutex_unlock(&either.inner[0].second);
    pthread_mutex_destroy(&either.inner[0].second);
    pthread_mutex_init(&either.third, NULL);
    pthread_mutex_lock(&either.third);
    counter += by;
    pthread_mutex_unlock(&either.third);
    pthread_mutex_destroy(&either.third);
    return counter;
}

/* No section takes it. */
static pthread_mutex_t only_tried = PTHREAD_MUTEX_INITIALIZER;

static long only_tries(long by)
{
    if (pthread_mutex_trylock(&only_tried) == 0) {
        counter += by;
        pthread_mutex_unlock(&only_tried);
    }
    return counter;
}

/* (&copy->lock) stays: it is copied with its structure */
struct copied {
    pthread_mutex_t lock;
    long value;
    /* It is declared here, and has one of these. */
    struct beside *beside;
};
struct beside {
    struct copied own;
};

static struct copied made(void)
{
    struct copied fresh;
    pthread_mutex_init(&fresh.lock, NULL);
    fresh.value = 1;
    fresh.beside = NULL;
    return fresh;
}

/* What only holds one is copied with it: (&assigned->inner.lock) stays: it is copied with its structure */
struct held {
    pthread_mutex_t lock;
    long value;
};
struct assigned {
    struct held inner;
};

/* (&grown->lock) stays: it is copied or moved with its structure */
struct grown {
    pthread_mutex_t lock;
    long value;
};

/* A pointer to it is copied, not the mutex. */
struct pointing {
    pthread_mutex_t *lock;
    long value;
};

/* (&sized[at]) stays: the size of its memory is not written where that is allocated */
static pthread_mutex_t *sized;

static long in_copies(long by)
{
    struct copied at = made(), *copy = &at;
    pthread_mutex_lock(&copy->lock);
    copy->value += by;
    pthread_mutex_unlock(&copy->lock);
    struct assigned before = { { PTHREAD_MUTEX_INITIALIZER, 2 } }, after, *assigned = &after;
    after = before;
    pthread_mutex_lock(&assigned->inner.lock);
    assigned->inner.value += by;
    pthread_mutex_unlock(&assigned->inner.lock);
    struct grown *grown = malloc(sizeof *grown);
    pthread_mutex_init(&grown->lock, NULL);
    grown->value = 3;
    grown = realloc(grown, 100 * sizeof *grown);
    pthread_mutex_lock(&grown->lock);
    grown->value += by;
    pthread_mutex_unlock(&grown->lock);
    static pthread_mutex_t pointed = PTHREAD_MUTEX_INITIALIZER;
    struct pointing one = { &pointed, 4 }, other = one;
    pthread_mutex_lock(other.lock);
    counter += by;
    pthread_mutex_unlock(other.lock);
    size_t bytes = 2 * sizeof(pthread_mutex_t);
    sized = malloc(bytes);
    long sum = 0;
    for (int at = 0; at < 2; at++) {
        pthread_mutex_init(&sized[at], NULL);
        pthread_mutex_lock(&sized[at]);
        sum += by;
        pthread_mutex_unlock(&sized[at]);
    }
    sum += copy->value + assigned->inner.value + grown->value + other.value;
    free(grown);
    free(sized);
    return sum;
}

int main(void)
{
    pthread_mutexattr_t attributes, usual;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attributes);
    pthread_mutexattr_init(&usual);
    pthread_mutexattr_settype(&usual, PTHREAD_MUTEX_NORMAL);
    pthread_mutex_init(&ordinary, &usual);
    many = calloc(4, sizeof(pthread_mutex_t));
    if (!many)
        return 1;
    for (int stripe = 0; stripe < 4; stripe++)
        pthread_mutex_init(&many[stripe], NULL);
    pthread_cond_init(&opened, NULL);
    pthread_cond_init(&closed, NULL);
    struct passed passed = { .value = 3 };
    struct alike alike = { PTHREAD_MUTEX_INITIALIZER, 1 };
    pthread_mutex_init(&passed.inner, NULL);
    for (long by = 0; by < 5; by++) {
        printf("%ld %ld %ld %ld\n", simple(by), by_macros(by), tries(by), recurses(by));
        printf("%ld %ld %ld %ld\n", shows(by), striped(by), declared_together(by), fields(by));
        printf("%ld %ld %ld %ld\n", passes(&passed, by), alikes(&alike, by), pauses(by), pauses_by_macros(by));
        printf("%ld %ld\n", waits_a_while(by), beside_waits(by));
        printf("%ld %ld %ld\n", goes_by_ways(NULL, by), in_union(by), only_tries(by));
        printf("%ld\n", in_copies(by));
    }
    pthread_t helper;
    pthread_create(&helper, NULL, helps, NULL);
    long sum = 0;
    for (int item = 1; item < 20; item++)
        sum = sum * 3 + get();
    printf("%ld %ld\n", sum, through());
    pthread_join(helper, NULL);
    pthread_mutex_destroy(&passed.inner);
    free(many);
    return 0;
}
