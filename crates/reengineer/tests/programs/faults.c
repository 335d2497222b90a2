/* Sections that each one rule refuses, which is named before the function. Without the rule the text that comes out does not
 * compile, does something else, or is at least another. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t elsewhere = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static long counter;

/* TakenAgain */
static long taken_again(long by)
{
    for (long round = 0; round < by; round++) {
        pthread_mutex_lock(&lock);
        counter++;
        if (round == 7)
            continue;
        pthread_mutex_unlock(&lock);
    }
    return counter;
}

/* Mixed */
static long mixed(long by)
{
    if (by >= 0)
        return by;
    pthread_mutex_lock(&lock);
    if (by == -3)
        pthread_mutex_unlock(&lock);
    counter++;
    pthread_mutex_unlock(&lock);
    return by;
}

/* EnteredElsewhere */
static long entered(long by)
{
    pthread_mutex_lock(&lock);
    if (by == 1) {
        pthread_mutex_unlock(&lock);
        by += 2;
    tail:
        by += 10;
        return by;
    }
    counter++;
    pthread_mutex_unlock(&lock);
    if (by == 2)
        goto tail;
    return by;
}

/* TailReturns */
static long returns(long by)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        if (by < 3) {
            pthread_mutex_unlock(&lock);
            break;
        }
        by--;
        counter++;
    }
    return by;
}

/* Nested */
static long nested(long by)
{
    pthread_mutex_lock(&lock);
    counter += by;
    pthread_mutex_lock(&other);
    counter += 2;
    pthread_mutex_unlock(&lock);
    counter += 3;
    pthread_mutex_unlock(&other);
    return counter;
}

/* Waits */
static long waits(long by)
{
    pthread_mutex_lock(&alone);
    pthread_mutex_lock(&elsewhere);
    while (by < 0)
        pthread_cond_wait(&never, &elsewhere);
    counter += by;
    pthread_mutex_unlock(&elsewhere);
    pthread_mutex_unlock(&alone);
    return counter;
}

struct part {
    pthread_mutex_t lock;
    long value;
};

/* LockChanges */
static long lock_changes(struct part *part, long by)
{
    pthread_mutex_lock(&part->lock);
    part->value += by;
    struct part *same = part;
    part = NULL;
    counter += part == NULL;
    part = same;
    pthread_mutex_unlock(&part->lock);
    return part->value;
}

/* BoundToCaller */
static long bound(long by)
{
    long *kept;
    pthread_mutex_lock(&lock);
    kept = __builtin_alloca(sizeof *kept);
    *kept = by;
    pthread_mutex_unlock(&lock);
    return *kept;
}

/* Opaque */
static long opaque(long by)
{
    pthread_mutex_lock(&lock);
    __asm__ volatile("" : "+r"(by));
    pthread_mutex_unlock(&lock);
    return by;
}

#define ADD (sum += by)
/* Copied */
static long copied(long by)
{
    long sum = 1, *alias = &sum;
    pthread_mutex_lock(&lock);
    *alias += 10;
    ADD;
    *alias += 100;
    pthread_mutex_unlock(&lock);
    return sum;
}

/* NamedTypes */
static long named_types(long by)
{
    struct { long a; } inside = { by };
    pthread_mutex_lock(&lock);
    counter += inside.a;
    pthread_mutex_unlock(&lock);
    return inside.a;
}

/* VariableArrays */
static long variable_arrays(long by)
{
    long many[by + 1];
    many[by] = by;
    pthread_mutex_lock(&lock);
    counter += many[by] + (long)sizeof many;
    pthread_mutex_unlock(&lock);
    return counter;
}

/* Hoisted */
static long hoisted(long by)
{
    pthread_mutex_lock(&lock);
    long inside = by + counter, half = inside / 2;
    counter += half;
    pthread_mutex_unlock(&lock);
    return inside;
}

/* Survives */
static long survives(long by)
{
    long rounds = by;
    pthread_mutex_lock(&lock);
    while (rounds > 0) {
        long before = counter + 40 * rounds;
        pthread_mutex_unlock(&lock);
        printf("%ld\n", rounds);
        pthread_mutex_lock(&lock);
        counter += before & 0xff;
        rounds--;
    }
    pthread_mutex_unlock(&lock);
    return counter;
}

/* Directives */
static long directives(long by)
{
    pthread_mutex_lock(&lock);
    counter += by;
#if 1
    counter++;
    pthread_mutex_unlock(&lock);
    by++;
#endif
    return by;
}

/* Defined */
static long defined(long by)
{
#define MORE 3
    pthread_mutex_lock(&lock);
    counter += MORE;
    pthread_mutex_unlock(&lock);
#undef MORE
    return by;
}

/* Understood */
static long understood(void *unknown)
{
    static pthread_mutex_t tried = PTHREAD_MUTEX_INITIALIZER;
    struct timespec past = { 0, 0 };
    if (pthread_mutex_timedlock(&tried, &past) == 0)
        pthread_mutex_unlock(&tried);
    pthread_mutex_lock(&tried);
    counter += unknown != NULL;
    pthread_mutex_unlock(&tried);
    return counter;
}

/* Leaves */
static long leaves(long by)
{
    if (by) {
        pthread_mutex_lock(&lock);
        counter++;
    }
    if (by)
        pthread_mutex_unlock(&lock);
    return counter;
}

/* AnyThread */
static __thread long own = 3;
static long any_thread(long by)
{
    pthread_mutex_lock(&lock);
    counter += by + own + (pthread_self() != 0);
    pthread_mutex_unlock(&lock);
    return counter;
}

/* CalleeAsks */
static long of_the_caller(void)
{
    return own;
}

static long of_its_callee(long by)
{
    return by + of_the_caller();
}

static long callee_asks(long by)
{
    pthread_mutex_lock(&lock);
    counter += of_its_callee(by);
    pthread_mutex_unlock(&lock);
    return counter;
}

/* CalleeAsks, beside a section of the same lock that calls nothing */
static long callee_asks_beside(long by)
{
    pthread_mutex_lock(&lock);
    counter += by;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    counter += of_its_callee(by);
    pthread_mutex_unlock(&lock);
    return counter;
}

/* Outlives */
static long outlives(long by)
{
    const long *kept;
    pthread_mutex_lock(&lock);
    long there = counter + by;
    kept = &there;
    counter++;
    pthread_mutex_unlock(&lock);
    return *kept + callee_asks_beside(by) - counter;
}

static long outlives_as_an_array(long by)
{
    const char *text;
    pthread_mutex_lock(&lock);
    char digits[24];
    snprintf(digits, sizeof(digits), "%ld", counter + by);
    text = digits;
    pthread_mutex_unlock(&lock);
    return strtol(text, NULL, 10);
}

/* CalleeReleases */
static void briefly(void)
{
    pthread_mutex_unlock(&lock);
    counter += 2;
    pthread_mutex_lock(&lock);
}

static void indirectly(void)
{
    briefly();
}

static long callee_releases(long by)
{
    pthread_mutex_lock(&lock);
    counter += by;
    indirectly();
    counter++;
    pthread_mutex_unlock(&lock);
    return counter;
}

#define WHOLE(by) do { pthread_mutex_lock(&lock); counter += (by); pthread_mutex_unlock(&lock); } while (0)
/* OneMacro */
static long one_macro(long by)
{
    WHOLE(by);
    return counter;
}

/* Whole: memory for one is allocated by the type's size under its other name. */
typedef pthread_mutex_t sized;
static const unsigned long room = sizeof(sized);
static sized tried = PTHREAD_MUTEX_INITIALIZER;
static sized *apart;
static long whole(long by)
{
    pthread_mutex_lock(apart);
    counter += by;
    pthread_mutex_unlock(apart);
    pthread_mutex_lock(&tried);
    counter += by;
    pthread_mutex_unlock(&tried);
    return counter + (pthread_mutex_timedlock(&tried, &(struct timespec) { 0, 0 }) == 0);
}

int main(void)
{
    apart = malloc(room);
    pthread_mutex_init(apart, NULL);
    struct part part = { PTHREAD_MUTEX_INITIALIZER, 1 };
    for (long by = 0; by < 5; by++) {
        printf("%ld %ld %ld %ld\n", taken_again(by), mixed(by), entered(by), nested(by));
        printf("%ld %ld %ld %ld\n", waits(by), lock_changes(&part, by), bound(by), opaque(by));
        printf("%ld %ld %ld %ld\n", copied(by), named_types(by), variable_arrays(by), hoisted(by));
        printf("%ld %ld %ld %ld\n", survives(by), directives(by), defined(by), understood(&part));
        printf("%ld %ld %ld\n", leaves(by), one_macro(by), returns(by));
        printf("%ld %ld %ld\n", any_thread(by), callee_asks(by), callee_releases(by));
        printf("%ld %ld\n", outlives(by), outlives_as_an_array(by));
        printf("%ld\n", by ? by : whole(by));
    }
    return 0;
}
