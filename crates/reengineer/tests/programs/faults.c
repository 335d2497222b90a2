/* Sections that each one rule refuses, which is named before the function. Without the rule the text that comes out does not
 * compile, does something else, or is at least another. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

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
            if (by < -9)
                break;
            return by + 100;
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

/* LockIsRead */
struct pair {
    pthread_mutex_t *current, *next;
};

static pthread_mutex_t in_turn[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };

static long lock_is_read(struct pair *pair, long by)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(pair->current);
    pthread_mutex_t *kept = pair->current;
    pthread_mutex_lock(pair->next);
    counter += by;
    pair->current = pair->next;
    pair->next = kept;
    pthread_mutex_unlock(pair->next);
    counter += 2 * by;
    pthread_mutex_unlock(pair->current);
    pthread_mutex_unlock(&lock);
    return counter;
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

static long outlives_as_sized(long by)
{
    const char *text;
    pthread_mutex_lock(&lock);
    char digits[by + 24];
    snprintf(digits, sizeof(digits), "%ld", counter + by);
    text = digits;
    pthread_mutex_unlock(&lock);
    return strtol(text, NULL, 10);
}

/* Attributes */
static long attributes(long by)
{
    pthread_mutex_lock(&lock);
    long inside __attribute__((deprecated)) = by + counter;
    pthread_mutex_unlock(&lock);
    return inside;
}

static void clean(long *of)
{
    printf("cleaned %ld\n", *of);
}

/* Cleanup */
static long cleanup(long by)
{
    pthread_mutex_lock(&lock);
    __attribute__((cleanup(clean))) long cleaned = counter + by;
    counter += cleaned & 1;
    pthread_mutex_unlock(&lock);
    printf("after it\n");
    return by;
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

/* AsWritten: macros that do more than to take, to release or to wait. */
#define CHECK(is_so) if (!(is_so)) { pthread_mutex_unlock(&lock); return -1; }
static long checks(long by)
{
    pthread_mutex_lock(&lock);
    CHECK(by != 2)
    counter += by;
    pthread_mutex_unlock(&lock);
    return counter;
}

#define LEAVE(value) do { pthread_mutex_unlock(&lock); return (value); } while (0)
static long leaves_by_a_macro(long by)
{
    pthread_mutex_lock(&lock);
    if (by == 2)
        LEAVE(-by);
    counter += by;
    LEAVE(counter);
}

#define BEGIN() pthread_mutex_lock(&lock); counter += 100
#define END() counter -= 30; pthread_mutex_unlock(&lock)
static long begins_by_a_macro(long by)
{
    BEGIN();
    counter += by;
    END();
    return counter;
}

#define PAUSE() do { pthread_mutex_unlock(&lock); counter += 7; pthread_mutex_lock(&lock); } while (0)
static long pauses_by_a_macro(long by)
{
    pthread_mutex_lock(&lock);
    counter += by;
    PAUSE();
    counter += by;
    pthread_mutex_unlock(&lock);
    return counter;
}

/* Fixed: the condition is the one that the section names. */
static pthread_cond_t turns[4] = {
    PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER
};
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static int next_turn, called;
static void *calls(void *unused)
{
    for (int is_done = 0; !is_done;) {
        pthread_mutex_lock(&turn_lock);
        is_done = called = next_turn == 1;
        pthread_cond_signal(&turns[1]);
        pthread_mutex_unlock(&turn_lock);
    }
    return unused;
}

static long fixed(long by)
{
    pthread_t thread;
    if (by != 0 || pthread_create(&thread, NULL, calls, NULL) != 0)
        return by;
    pthread_mutex_lock(&turn_lock);
    next_turn = 1;
    while (!called)
        pthread_cond_wait(&turns[next_turn], &turn_lock);
    pthread_mutex_unlock(&turn_lock);
    pthread_join(thread, NULL);
    return called;
}

/* Loops: the second of two waits that each are once. */
static long loops(long by)
{
    pthread_mutex_lock(&alone);
    counter += by;
    if (by < 0)
        pthread_cond_wait(&never, &alone);
    if (by < -1)
        pthread_cond_wait(&never, &alone);
    pthread_mutex_unlock(&alone);
    return counter;
}

/* Pauses: `elsewhere` is held while `alone` is given up. */
static long pauses(long by)
{
    pthread_mutex_lock(&alone);
    for (long round = 0; round < by; round++) {
        pthread_mutex_lock(&elsewhere);
        counter++;
        pthread_mutex_unlock(&alone);
        printf("%ld\n", round);
        pthread_mutex_lock(&alone);
        pthread_mutex_unlock(&elsewhere);
    }
    pthread_mutex_unlock(&alone);
    return counter;
}

/* OneMeaning: the macro's argument is the function's `x` and the macro's own. */
#define ADD_TO(to) do { to += 1; { long x = 50; to += x; counter += x; } } while (0)
static long one_meaning(long x)
{
    pthread_mutex_lock(&lock);
    ADD_TO(x);
    pthread_mutex_unlock(&lock);
    return x;
}

/* Clear: what the release in an expression does would not be seen. */
static long clear(long by)
{
    long outcome = 0;
    pthread_mutex_lock(&lock);
    counter += by;
    if (by == 2) {
        outcome = pthread_mutex_unlock(&lock);
        outcome += 2 * pthread_mutex_lock(&lock);
    }
    counter++;
    pthread_mutex_unlock(&lock);
    return counter + outcome;
}

#define HELPED(name) static long name##_helps(long by) { return by * 2; } static long name(long by) {
/* Begins: what the macro declares in front of the function is not there yet in front of the macro. */
HELPED(begins)
    pthread_mutex_lock(&lock);
    counter += begins_helps(by);
    pthread_mutex_unlock(&lock);
    return counter;
}

/* The suffix of a number is part of a lock's name: without it, this is another lock. */
static pthread_mutex_t stripes[16];
static long suffixes(int by)
{
    pthread_mutex_lock(&stripes[(by - 7) % 16u]);
    counter += by;
    pthread_mutex_unlock(&stripes[(by - 7) % 16u]);
    return counter;
}

struct base { pthread_mutex_t lock; long count; };
struct derived { pthread_mutex_t lock; long count; };

/* Veiled */
static long veiled(void *given)
{
    struct base *base = given;
    pthread_mutex_lock(&base->lock);
    base->count += 2;
    pthread_mutex_unlock(&base->lock);
    return base->count;
}

static long derives(long by)
{
    static struct derived derived = { PTHREAD_MUTEX_INITIALIZER, 1 };
    struct timespec now = { 0, 0 };
    if (pthread_mutex_timedlock(&derived.lock, &now) == 0)
        pthread_mutex_unlock(&derived.lock);
    return veiled(&derived) + derived.count + by;
}

#define SHOW(value) printf("%s is %ld\n", #value, value)
/* Spelt */
static long spelt(long by)
{
    long sum = by, *alias = &sum;
    pthread_mutex_lock(&lock);
    *alias += 2;
    SHOW(sum);
    pthread_mutex_unlock(&lock);
    return sum;
}

/* A copy has the name. */
static long shown(long by)
{
    long sum = by;
    pthread_mutex_lock(&lock);
    sum += 2;
    SHOW(sum);
    pthread_mutex_unlock(&lock);
    return sum;
}

int main(void)
{
    for (int number = 0; number < 16; number++)
        pthread_mutex_init(&stripes[number], NULL);
    apart = malloc(room);
    pthread_mutex_init(apart, NULL);
    struct part part = { PTHREAD_MUTEX_INITIALIZER, 1 };
    struct pair pair = { &in_turn[0], &in_turn[1] };
    for (long by = 0; by < 5; by++) {
        printf("%ld %ld %ld %ld\n", taken_again(by), mixed(by), entered(by), nested(by));
        printf("%ld %ld %ld %ld\n", waits(by), lock_changes(&part, by), bound(by), opaque(by));
        printf("%ld\n", lock_is_read(&pair, by));
        printf("%ld %ld %ld %ld\n", copied(by), named_types(by), variable_arrays(by), hoisted(by));
        printf("%ld %ld %ld %ld\n", survives(by), directives(by), defined(by), understood(&part));
        printf("%ld %ld %ld\n", leaves(by), one_macro(by), returns(by));
        printf("%ld %ld %ld\n", any_thread(by), callee_asks(by), callee_releases(by));
        printf("%ld %ld %ld\n", outlives(by), outlives_as_an_array(by), outlives_as_sized(by));
        printf("%ld %ld\n", attributes(by), cleanup(by));
        printf("%ld\n", by ? by : whole(by));
        printf("%ld %ld %ld %ld\n", checks(by), leaves_by_a_macro(by), begins_by_a_macro(by), pauses_by_a_macro(by));
        printf("%ld %ld %ld %ld %ld\n", fixed(by), loops(by), pauses(by), one_meaning(by), suffixes((int)by));
        printf("%ld %ld %ld\n", derives(by), spelt(by), shown(by));
        printf("%ld %ld\n", clear(by), begins(by));
    }
    return 0;
}
