#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCK(it) do { pthread_mutex_lock(it); } while (0)
#define UNLOCK(it) do { pthread_mutex_unlock(it); } while (0)
/* Only compared with 0, and reported. */
#define CHECKED(call) do { int error; \
    if ((error = (call)) != 0) \
        fprintf(stderr, "%s at %d could not " #call ": %s", __FILE__, __LINE__, strerror(error)); \
    } while (0)
#define CHECKED_LOCK(it) CHECKED(pthread_mutex_lock(it))
#define CHECKED_UNLOCK(it) CHECKED(pthread_mutex_unlock(it))
/* The result outlives the macro. */
#define KEPT_LOCK(it, error) do { if ((error = pthread_mutex_lock(it)) != 0) abort(); } while (0)
/* It is compared with something else. */
#define BUSY_LOCK(it) do { if (pthread_mutex_lock(it) == 16) abort(); } while (0)
/* What runs without a failure stays. */
#define COUNTING_LOCK(it) do { if (pthread_mutex_lock(it)) abort(); else counter++; } while (0)
/* A failure is none of the call's. */
#define COMBINED_LOCK(it, by) do { int error; if ((error = pthread_mutex_lock(it) | (by < -9)) != 0) abort(); } while (0)
#define STEP counter += by
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static long counter;

struct account {
    pthread_mutex_t lock;
    long balance;
    char name[16];
};

/* One release, in the same block. */
static long straight(long by)
{
    long before;
    pthread_mutex_lock(&lock);
    before = counter;
    counter += by;
    pthread_mutex_unlock(&lock);
    return before + counter;
}

// Several releases, each with something to do behind it.
static long exits(long by)
{
    long found = 0;
    pthread_mutex_lock(&lock);
    if (by == 0) {
        pthread_mutex_unlock(&lock);
        return -1;
    }
    if (by == 1) {
        found = counter;
        pthread_mutex_unlock(&lock);
        found++;
        return found * 2;
    }
    counter += by;
    pthread_mutex_unlock(&lock);
    return found + by;
}

static long branches(long by)
{
    long found = by;
    pthread_mutex_lock(&lock);
    if (by > 2) {
        counter += 3;
        pthread_mutex_unlock(&lock);
        found += 1;
    } else {
        counter -= 1;
        pthread_mutex_unlock(&lock);
    }
    return found + counter;
}

static long loops(long by)
{
    long sum = 0;
    for (long round = 0; round < 5; round++) {
        pthread_mutex_lock(&lock);
        if (round == by) {
            pthread_mutex_unlock(&lock);
            continue;
        }
        if (round == by + 2) {
            pthread_mutex_unlock(&lock);
            break;
        }
        counter += round;
        sum += counter;
        pthread_mutex_unlock(&lock);
    }
    return sum;
}

static long inner_loop(long by)
{
    long sum = 0;
    pthread_mutex_lock(&lock);
    for (int round = 0; round < 4; round++) {
        if (round == 3)
            break;
        sum += counter * round + by;
    }
    switch (by) {
    case 0:
        sum++;
        /* fall through */
    case 1:
        sum += 2;
        break;
    default:
        sum += 5;
    }
    pthread_mutex_unlock(&lock);
    return sum;
}

/* Its name is declared inside and used behind. */
static long hoisted(long by)
{
    pthread_mutex_lock(&lock);
    long inside = counter + by;
    long twice = inside * 2;
    counter = twice;
    pthread_mutex_unlock(&lock);
    return inside;
}

static long macros(long by)
{
    LOCK(&lock);
    STEP;
    counter += SMALLER(by, 3);
    UNLOCK(&lock);
    return counter;
}

static long member(struct account *account, long by)
{
    char text[8];
    LOCK(&account->lock);
    account->balance += by;
    memcpy(text, account->name, sizeof text);
    text[sizeof text - 1] = 0;
    UNLOCK(&account->lock);
    return account->balance + text[0];
}

static long shadows(long by)
{
    long value = by;
    pthread_mutex_lock(&lock);
    {
        long value = counter;
        counter += value & 7;
    }
    value++;
    pthread_mutex_unlock(&lock);
    return value;
}

static long nested(long by)
{
    long first, second;
    pthread_mutex_lock(&lock);
    first = counter;
    pthread_mutex_lock(&other);
    second = counter + by;
    pthread_mutex_unlock(&other);
    counter = second;
    pthread_mutex_unlock(&lock);
    return first + second;
}

static long twice(long by)
{
    register long kept = by;
    pthread_mutex_lock(&lock);
    kept += counter;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    counter = kept & 1023;
    pthread_mutex_unlock(&lock);
    return kept;
}

static long leaves_by_goto(long by)
{
    pthread_mutex_lock(&lock);
    if (by == 1) {
        pthread_mutex_unlock(&lock);
        goto failed;
    }
    counter += by;
    if (by == 2)
        goto out;
    counter++;
out:
    pthread_mutex_unlock(&lock);
    return by;
failed:
    return -by;
}

static long in_a_case(long by)
{
    switch (by) {
    case 1:
        pthread_mutex_lock(&lock);
        counter += 4;
        pthread_mutex_unlock(&lock);
        break;
    default:
        by = 7;
    }
    return by;
}

static long calls_itself(long by)
{
    long result = 0;
    if (by > 4)
        return by;
    pthread_mutex_lock(&lock);
    counter++;
    if (counter < 0)
        result = calls_itself(by + 9);
    pthread_mutex_unlock(&lock);
    return result;
}

static long sized(long by)
{
    long many[by + 1];
    many[by] = by;
    /* sized refused: `many` is an array of variable size */
    pthread_mutex_lock(&lock);
    counter += many[by];
    pthread_mutex_unlock(&lock);
    return counter;
}

static void keeps(void)
{
    /* keeps refused: leaves its block, or the function, with the lock held */
    pthread_mutex_lock(&lock);
    counter++;
}

static long gives_back(long by)
{
    keeps();
    counter += by;
    pthread_mutex_unlock(&lock);
    return by;
}

static long mixed(long by)
{
    if (by >= 0)
        return by;
    /* mixed refused: some of it is reached with and without the lock */
    pthread_mutex_lock(&lock);
    if (by == -3)
        pthread_mutex_unlock(&lock);
    counter++;
    pthread_mutex_unlock(&lock);
    return by;
}

static long asks(long by)
{
    /* asks refused: a lock call is part of an expression */
    if (pthread_mutex_lock(&lock) != 0)
        return -1;
    counter += by;
    pthread_mutex_unlock(&lock);
    return by;
}

static long moves(struct account *account, long by)
{
    /* moves refused: `account`, which the lock's name contains, may change inside */
    pthread_mutex_lock(&account->lock);
    struct account *same = account;
    account = account + by;
    account = same;
    pthread_mutex_unlock(&account->lock);
    return by;
}

static long hand_over_hand(long by)
{
    /* hand_over_hand refused: another lock is taken inside and released outside, or the other way round */
    pthread_mutex_lock(&lock);
    counter += by;
    pthread_mutex_lock(&other);
    pthread_mutex_unlock(&lock);
    counter++;
    pthread_mutex_unlock(&other);
    return by;
}

static long no_block(long by)
{
    /* no_block refused: the lock statement is not a statement of a block */
    if (by)
        pthread_mutex_lock(&lock);
    counter++;
    if (by)
        pthread_mutex_unlock(&lock);
    return by;
}

static long unnamed(long by)
{
    struct { long a, b; } pair = { by, by };
    /* unnamed refused: the type of `pair` has no name outside of the function */
    pthread_mutex_lock(&lock);
    counter += pair.a;
    pthread_mutex_unlock(&lock);
    return pair.b;
}

static long defines(long by)
{
#define ADDED 3
    /* defines refused: has a #if that is not whole in it, or follows a #define in its function */
    pthread_mutex_lock(&lock);
    counter += ADDED;
    pthread_mutex_unlock(&lock);
#undef ADDED
    return by;
}

static long terminates(long by)
{
    /* terminates refused: calls pthread_exit, which means the caller's frame, thread or process */
    pthread_mutex_lock(&lock);
    if (by < 0)
        pthread_exit(NULL);
    pthread_mutex_unlock(&lock);
    return by;
}

/* The address of a variable is the same whatever it has. */
static long of_its_own(long by)
{
    static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    struct { pthread_mutex_t lock; long value; } boxed = { .value = by };
    pthread_mutex_init(&boxed.lock, NULL);
    pthread_mutex_lock(&own);
    counter += by;
    pthread_mutex_unlock(&own);
    return counter + boxed.value;
}

static long checked(long by)
{
    CHECKED_LOCK(&lock);
    if (by == 1) {
        CHECKED_UNLOCK(&lock);
        return counter;
    }
    counter += by;
    CHECKED_UNLOCK(&lock);
    CHECKED(pthread_mutex_lock(&other));
    counter *= 2;
    CHECKED(pthread_mutex_unlock(&other));
    return counter;
}

static long stores(long by)
{
    int error;
    /* stores refused: a lock call is part of an expression */
    KEPT_LOCK(&lock, error);
    counter += by;
    CHECKED_UNLOCK(&lock);
    return counter + error;
}

static long busy(long by)
{
    /* busy refused: a lock call is part of an expression */
    BUSY_LOCK(&lock);
    counter += by;
    CHECKED_UNLOCK(&lock);
    return counter;
}

static long counts(long by)
{
    /* counts refused: the lock statement is not a statement of a block */
    COUNTING_LOCK(&lock);
    counter += by;
    CHECKED_UNLOCK(&lock);
    return counter;
}

static long combines(long by)
{
    /* combines refused: a lock call is part of an expression */
    COMBINED_LOCK(&lock, by);
    counter += by;
    CHECKED_UNLOCK(&lock);
    return counter;
}

/* What cannot be written is declared inside and used behind. */
static long constant(long by)
{
    pthread_mutex_lock(&lock);
    const long seen = counter + by;
    const char *const text = by & 1 ? "odd" : "even";
    counter++;
    bool const is_odd = by & 1;
    pthread_mutex_unlock(&lock);
    return seen * 2 + text[0] + is_odd;
}

static struct account account_of(long by)
{
    return (struct account) { .balance = by, .name = "of" };
}

static long constant_structure(long by)
{
    pthread_mutex_lock(&lock);
    struct account const copy = account_of(by + counter);
    counter += copy.balance & 3;
    pthread_mutex_unlock(&lock);
    return copy.balance + copy.name[1];
}

/* Behind the unlock there are lines of the preprocessor. */
static long ends_with_directives(long by)
{
    pthread_mutex_lock(&lock);
    if (by & 1) {
        pthread_mutex_unlock(&lock);
        by += 2;
#ifndef NEVER
        by *= 3;
        /* and a comment */
#else
        abort();
#endif
        /* the last */
    } else {
        counter += by;
        pthread_mutex_unlock(&lock);
#ifdef NEVER
        abort();
#else
        if (by)
            by ^= 5;
#endif
    }
    return by;
}

/* What one section declares for all, another uses; and what is declared by the type of another variable. */
static long of_a_type(long by)
{
    pthread_mutex_lock(&lock);
    long first = counter + by;
    __typeof__(by) second = first * 3;
    pthread_mutex_unlock(&lock);
    second ^= 5;
    pthread_mutex_lock(&lock);
    counter += (first & 3) + second % 7;
    first = counter;
    pthread_mutex_unlock(&lock);
    return first + second;
}

/* A typedef of the function's own, whose name means something else outside. */
typedef char wide;

/* typed refused: `wide`, which is no local variable, is declared on the other side of the section's bounds */
static long typed(long by)
{
    typedef long wide;
    wide much = by * 1000;
    pthread_mutex_lock(&lock);
    counter += much & 7;
    much++;
    wide more = much;
    pthread_mutex_unlock(&lock);
    return much + more;
}

static long typed_around(long by)
{
    typedef long wide;
    wide much = by * 1000;
    pthread_mutex_lock(&lock);
    counter += much & 7;
    much++;
    pthread_mutex_unlock(&lock);
    return much;
}

enum { LEAST = 1 };

/* constant_of_its_own refused: `LEAST`, which is no local variable, is declared on the other side of the section's bounds */
static long constant_of_its_own(long by)
{
    enum { LEAST = 5 };
    pthread_mutex_lock(&lock);
    counter += LEAST;
    pthread_mutex_unlock(&lock);
    return by;
}

static long constant_inside(long by)
{
    pthread_mutex_lock(&lock);
    {
        enum { LEAST = 5 };
        counter += LEAST;
    }
    pthread_mutex_unlock(&lock);
    return by + LEAST;
}

/* returns_elsewhere refused: has a `return` in an #if that this configuration does not compile */
static long returns_elsewhere(long by)
{
    pthread_mutex_lock(&lock);
#ifdef NEVER
    if (by > 2) {
        pthread_mutex_unlock(&lock);
        return 0;
    }
#endif
    counter += by;
    pthread_mutex_unlock(&lock);
    return by;
}

static long returns_nowhere(long by)
{
    pthread_mutex_lock(&lock);
#ifdef NEVER
    by = 7; /* what a caller would return, */
    by++;   // return
#endif
    counter += by;
    pthread_mutex_unlock(&lock);
    return by;
}

/* Structures that begin alike, and are cast to each other by way of one that has no condition. */
struct node {
    long type;
};

struct cell {
    long type;
    pthread_cond_t done;
    long ready;
};

struct leaf {
    long type;
    pthread_cond_t done;
    long ready, more;
};

static long cast_structures(long by)
{
    static struct leaf leaf = { 3, PTHREAD_COND_INITIALIZER, 0, 7 };
    struct node *node = (struct node *)&leaf;
    pthread_mutex_lock(&lock);
    ((struct cell *)node)->ready = by + 1;
    while (!((struct cell *)node)->ready)
        pthread_cond_wait(&((struct cell *)node)->done, &lock);
    counter += by;
    pthread_mutex_unlock(&lock);
    return leaf.ready * 100 + leaf.more;
}

/* A section that leaves nowhere. */
static void *goes_on(void *of)
{
    long *rounds = of;
    pthread_mutex_lock(&lock);
    while (1) {
        bool is_last = --*rounds <= 0;
        counter += 3;
        pthread_mutex_unlock(&lock);
        if (is_last)
            pthread_exit(NULL);
        pthread_mutex_lock(&lock);
    }
}

static long endless(long by)
{
    pthread_t thread;
    pthread_create(&thread, NULL, goes_on, &by);
    pthread_join(thread, NULL);
    return counter;
}

int main(void)
{
    struct account account = { .balance = 5, .name = "somebody" };
    pthread_mutex_init(&account.lock, NULL);
    for (long by = 0; by < 4; by++) {
        printf("%ld %ld %ld %ld %ld\n", straight(by), exits(by), branches(by), loops(by), inner_loop(by));
        printf("%ld %ld %ld %ld %ld\n", hoisted(by), macros(by), member(&account, by), shadows(by), nested(by));
        printf("%ld %ld %ld %ld %ld\n", twice(by), leaves_by_goto(by), in_a_case(by), calls_itself(by), sized(by));
        printf("%ld %ld %ld %ld %ld\n", gives_back(by), by, mixed(by), asks(by), moves(&account, by));
        printf("%ld %ld %ld %ld %ld\n", hand_over_hand(by), no_block(by), unnamed(by), defines(by), terminates(by));
        printf("%ld %ld %ld\n", counter, of_its_own(by), of_a_type(by));
        printf("%ld\n", cast_structures(by));
        printf("%ld %ld %ld %ld\n", constant(by), constant_structure(by), ends_with_directives(by), endless(by));
        printf("%ld %ld %ld ", typed(by), typed_around(by), constant_of_its_own(by));
        printf("%ld %ld %ld\n", constant_inside(by), returns_elsewhere(by), returns_nowhere(by));
        printf("%ld %ld %ld %ld %ld\n", checked(by), stores(by), busy(by), counts(by), combines(by));
    }
    pthread_mutex_destroy(&account.lock);
    return 0;
}
