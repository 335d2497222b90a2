/* Mutexes whose type is named by a typedef or a macro: each is a delegate or stays a mutex by itself. Which stay is said so. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef pthread_mutex_t lock_type;
typedef lock_type inner_type;
typedef pthread_cond_t cond_type;
#define MUTEX pthread_mutex_t
  #  define  CONDITION	pthread_cond_t 
#define lock_init(lock) pthread_mutex_init(lock, NULL)
#define lock_take(lock) pthread_mutex_lock((lock))
#define lock_give(lock) pthread_mutex_unlock((lock))
#define lock_destroy(lock) pthread_mutex_destroy(lock)
#define cond_start(cond) pthread_cond_init((cond), NULL)
#define cond_tell(cond) pthread_cond_signal(cond)
#define cond_end(cond) pthread_cond_destroy(cond)

static long counter;

/* By a typedef. */
static lock_type plain = PTHREAD_MUTEX_INITIALIZER;
/* (&shown) stays: its address goes elsewhere */
static lock_type shown = PTHREAD_MUTEX_INITIALIZER;
/* (&timed) stays: delegates have no pthread_mutex_timedlock */
static inner_type timed = PTHREAD_MUTEX_INITIALIZER;
/* By a macro. */
static MUTEX named = PTHREAD_MUTEX_INITIALIZER;
/* (&named_too) stays: delegates have no pthread_mutex_timedlock */
static MUTEX named_too = PTHREAD_MUTEX_INITIALIZER;

struct box {
    inner_type lock;
    CONDITION filled;
    long value;
};
static struct box box;

/* One declaration, one type: (&second) stays: delegates have no pthread_mutex_timedlock */
static lock_type first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;

/* Memory for it is allocated. */
static lock_type *many;

/* The typedef is a pointer: some stays: delegates have no pthread_mutex_timedlock */
typedef pthread_mutex_t *pointed;
static pointed some;
/* others stays: delegates have no pthread_mutex_timedlock */
static pointed others;

/* A pointer that is not mixed with others by its typedef. */
typedef pthread_mutex_t *lone;
static pthread_mutex_t under = PTHREAD_MUTEX_INITIALIZER;
static lone above = &under;

/* The size of all of them is asked for: (&sized_one) stays: delegates have no pthread_mutex_timedlock */
typedef pthread_mutex_t sized_type;
static sized_type sized_one = PTHREAD_MUTEX_INITIALIZER;
/* sized_two stays: delegates have no pthread_mutex_timedlock */
static sized_type *sized_two;
static const size_t room = sizeof(sized_type);
/* sized_three stays: delegates have no pthread_mutex_timedlock */
typedef sized_type resized_type;
static resized_type *sized_three;

/* A macro has the size, of memory for one and of something else: measured_one stays: delegates have no pthread_mutex_timedlock */
typedef pthread_mutex_t measured_type;
#define MEASURED sizeof(measured_type)
static measured_type *measured_one;
/* measured_two stays: delegates have no pthread_mutex_timedlock */
static measured_type *measured_two;

/* A header of the system's names the type, and the size is asked for: (&of_system) stays: its typedef is not the program's */
# 1 "system.h" 1 3
typedef pthread_mutex_t system_type;
# 1 "program.c" 2
static system_type of_system = PTHREAD_MUTEX_INITIALIZER;
static const size_t system_room = sizeof(system_type);

/* The same of a macro, where nothing keeps them: all change with the macro. */
#define ROOMY pthread_mutex_t
static ROOMY roomy_one = PTHREAD_MUTEX_INITIALIZER;
static ROOMY *roomy_two;
static const size_t roomy_room = sizeof(ROOMY);

/* More comes from the macro: (&bundle.one) stays: delegates have no pthread_mutex_timedlock */
#define FIELD(name) pthread_mutex_t name
static struct { FIELD(one); FIELD(other); } bundle = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };
/* (&bundle.other) stays: delegates have no pthread_mutex_timedlock */

/* Nothing takes what goes by this. */
struct calls {
    void (*call)(lock_type *lock);
    lock_type *unused;
};

/* In a table with another: (&in_table) stays: delegates have no pthread_mutex_timedlock */
static lock_type in_table = PTHREAD_MUTEX_INITIALIZER;
/* table[at] stays: delegates have no pthread_mutex_timedlock */
static lock_type in_table_too = PTHREAD_MUTEX_INITIALIZER;
static lock_type *const table[] = { &in_table, &in_table_too };

static long with_table(long by)
{
    struct timespec past = { 0, 0 };
    const long at = by & 1;
    pthread_mutex_lock(table[at]);
    counter += by;
    pthread_mutex_unlock(table[at]);
    pthread_mutex_lock(&in_table);
    counter += by;
    pthread_mutex_unlock(&in_table);
    return pthread_mutex_timedlock(&in_table_too, &past) == 0 ? pthread_mutex_unlock(&in_table_too) : 1;
}

static long with_plain(long by)
{
    lock_take(&plain);
    counter += by;
    lock_give(&plain);
    pthread_mutex_lock(&shown);
    counter ^= by;
    pthread_mutex_unlock(&shown);
    return counter;
}

static void *show(void)
{
    return &shown;
}

static void add(inner_type *lock, long *to, long by)
{
    lock_take(lock);
    *to += by;
    lock_give(lock);
}

static long with_timed(long by)
{
    struct timespec past = { 0, 0 };
    pthread_mutex_lock(&timed);
    counter += by;
    pthread_mutex_unlock(&timed);
    return pthread_mutex_timedlock(&timed, &past) == 0 ? pthread_mutex_unlock(&timed) : 1;
}

static long with_named(long by)
{
    struct timespec past = { 0, 0 };
    pthread_mutex_lock(&named);
    counter += by;
    pthread_mutex_unlock(&named);
    lock_take(&named_too);
    counter += by;
    lock_give(&named_too);
    return pthread_mutex_timedlock(&named_too, &past) == 0 ? pthread_mutex_unlock(&named_too) : 1;
}

static long with_box(struct box *of, long by)
{
    MUTEX *lock = &of->lock;
    add(lock, &of->value, by);
    pthread_mutex_lock(&of->lock);
    of->value ^= by;
    cond_tell(&of->filled);
    while (of->value == -1)
        pthread_cond_wait(&of->filled, &of->lock);
    pthread_mutex_unlock(&of->lock);
    return of->value;
}

/* Another lock is taken inside by the pointer that names the condition. */
static long with_two(struct box *of, long by)
{
    pthread_mutex_lock(&of->lock);
    while (of->value == -1)
        pthread_cond_wait(&of->filled, &of->lock);
    if (by & 1) {
        pthread_mutex_lock(&named);
        counter += of->value;
        pthread_mutex_unlock(&named);
    }
    pthread_mutex_unlock(&of->lock);
    return counter;
}

static long with_both(long by)
{
    struct timespec past = { 0, 0 };
    pthread_mutex_lock(&first);
    counter += by;
    pthread_mutex_unlock(&first);
    pthread_mutex_lock(&second);
    counter += by;
    pthread_mutex_unlock(&second);
    return pthread_mutex_timedlock(&second, &past) == 0 ? pthread_mutex_unlock(&second) : 1;
}

static long with_many(long by)
{
    lock_type *stripe = &many[by & 3];
    pthread_mutex_lock(stripe);
    counter += by;
    pthread_mutex_unlock(stripe);
    return counter;
}

static long with_pointers(long by)
{
    struct timespec past = { 0, 0 };
    pthread_mutex_lock(some);
    counter += by;
    pthread_mutex_unlock(some);
    pthread_mutex_lock(others);
    counter += by;
    pthread_mutex_unlock(others);
    pthread_mutex_lock(above);
    counter += by;
    pthread_mutex_unlock(above);
    return pthread_mutex_timedlock(some, &past) == 0 ? pthread_mutex_unlock(some) : 1;
}

static long with_sized(long by)
{
    struct timespec past = { 0, 0 };
    pthread_mutex_lock(&sized_one);
    counter += by;
    pthread_mutex_unlock(&sized_one);
    pthread_mutex_lock(sized_two);
    counter += by;
    pthread_mutex_unlock(sized_two);
    pthread_mutex_lock(sized_three);
    counter += by;
    pthread_mutex_unlock(sized_three);
    pthread_mutex_lock(&roomy_one);
    counter += by;
    pthread_mutex_unlock(&roomy_one);
    pthread_mutex_lock(roomy_two);
    counter += by;
    pthread_mutex_unlock(roomy_two);
    return pthread_mutex_timedlock(&sized_one, &past) == 0 ? pthread_mutex_unlock(&sized_one) : 1;
}

static long with_measured(long by)
{
    struct timespec past = { 0, 0 };
    pthread_mutex_lock(measured_one);
    counter += by;
    pthread_mutex_unlock(measured_one);
    pthread_mutex_lock(measured_two);
    counter += by;
    pthread_mutex_unlock(measured_two);
    pthread_mutex_lock(&of_system);
    counter += by + (long)(system_room == 0);
    pthread_mutex_unlock(&of_system);
    return pthread_mutex_timedlock(measured_one, &past) == 0 ? pthread_mutex_unlock(measured_one) : 1;
}

static long with_bundle(long by)
{
    struct timespec past = { 0, 0 };
    pthread_mutex_lock(&bundle.one);
    counter += by;
    pthread_mutex_unlock(&bundle.one);
    pthread_mutex_lock(&bundle.other);
    counter += by;
    pthread_mutex_unlock(&bundle.other);
    return pthread_mutex_timedlock(&bundle.one, &past) == 0 ? pthread_mutex_unlock(&bundle.one) : 1;
}

int main(void)
{
    struct calls calls = { NULL, NULL };
    if (lock_init(&box.lock) || cond_start(&box.filled))
        return 1;
    many = calloc(4, sizeof(lock_type));
    some = malloc(sizeof(pthread_mutex_t));
    others = malloc(sizeof(pthread_mutex_t));
    sized_two = malloc(room);
    sized_three = malloc(room);
    roomy_two = malloc(roomy_room);
    measured_one = malloc(MEASURED);
    const size_t measured = MEASURED;
    measured_two = malloc(measured);
    if (!many || !some || !others || !sized_two || !sized_three || !roomy_two || !measured_one || !measured_two || calls.call)
        return 1;
    for (int stripe = 0; stripe < 4; stripe++)
        lock_init(&many[stripe]);
    lock_init(some);
    lock_init(others);
    lock_init(sized_two);
    lock_init(sized_three);
    lock_init(roomy_two);
    lock_init(measured_one);
    lock_init(measured_two);
    for (long by = 0; by < 5; by++) {
        printf("%ld %ld %ld %ld\n", with_plain(by), with_timed(by), with_named(by), with_box(&box, by));
        printf("%ld %ld %ld %ld\n", with_both(by), with_many(by), with_pointers(by), with_sized(by));
        printf("%ld %ld %ld %d\n", with_two(&box, by), with_bundle(by), with_table(by), show() != calls.unused);
        printf("%ld\n", with_measured(by));
    }
    lock_destroy(&box.lock);
    cond_end(&box.filled);
    free(many);
    return 0;
}
