/* Structures that become others in a roundabout way. Each case is a program with what is in front of the first one: it has one mutex
 * by two types of structures, and tries for it with a time by one of them, so that it stays by both. Without the rule that the case
 * names it becomes a delegate by the other. */
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Takes the lock of a structure if it is free, by what delegates have not. */
#define TIMED(it) ({ struct timespec now = { 0, 0 }; int is_free = pthread_mutex_timedlock(&(it)->lock, &now) == 0; \
    if (is_free) { pthread_mutex_unlock(&(it)->lock); } is_free; })

struct seen { pthread_mutex_t lock; long count; };
struct real { pthread_mutex_t lock; long count; };

struct real real = { PTHREAD_MUTEX_INITIALIZER, 7 };

static inline void add(struct seen *seen)
{
    pthread_mutex_lock(&seen->lock);
    seen->count += 3;
    pthread_mutex_unlock(&seen->lock);
}

/* case holder, Holders: by a structure that points to it */
struct of_seen { long id; struct seen *seen; };
struct of_real { long id; struct real *real; };

static void take(void *given)
{
    struct of_seen *of = given;
    add(of->seen);
}

static long holder(void)
{
    struct of_real of = { 3, &real };
    take(&of);
    return real.count + TIMED(&real);
}

/* case holders, Holders: by structures that point to such a one, in an array and through a cast */
struct of_seen { struct seen *seen; };
struct of_real { struct real *real; };
struct of_of_seen { char name[4]; struct of_seen *all[3]; };
struct of_of_real { char name[4]; struct of_real *one, *two, *three; };

static long holders(void)
{
    struct of_real of = { &real };
    struct of_of_real of_of = { "abc", NULL, NULL, &of };
    struct of_of_seen *given = (struct of_of_seen *)&of_of;
    add(given->all[2]->seen);
    return real.count + TIMED(&real);
}

/* case blank, Holders: by a structure that points to it and one that does not say so */
struct of_seen { struct seen *seen; };
struct of_any { void *any; };

static long blank(void)
{
    struct of_any of = { &real };
    void *given = &of;
    struct of_seen *seen = given;
    add(seen->seen);
    return real.count + TIMED(&real);
}

/* case base, Between: by a structure in between that has none, and becomes both */
struct base { long kind; };
struct with_seen { long kind; struct seen seen; };
struct with_real { long kind; struct real real; };

static struct base *to_base(void *given)
{
    return given;
}

static void from_base(void *given)
{
    struct with_seen *with = given;
    add(&with->seen);
}

static long base(void)
{
    static struct with_real with = { 5, { PTHREAD_MUTEX_INITIALIZER, 2 } };
    from_base(to_base(&with));
    return with.real.count + TIMED(&with.real);
}

/* case pointers, Holders: by a union of pointers */
union either { struct seen *seen; struct real *real; };

static long pointers(void)
{
    union either either = { .real = &real };
    add(either.seen);
    return real.count + TIMED(&real);
}

/* case nested, Holders: by structures in a union without a name */
struct message {
    int kind;
    union {
        struct { int id; struct seen *seen; } one;
        struct { int number; struct real *real; } other;
    };
};

static long nested(void)
{
    struct message message = { .kind = 1, .other = { 4, &real } };
    add(message.one.seen);
    return real.count + TIMED(&real);
}

/* case number, Holders: by a union of a pointer and a number */
union number { struct real *real; uintptr_t number; };

static long number(void)
{
    union number number = { .real = &real };
    add((struct seen *)number.number);
    return real.count + TIMED(&real);
}

/* case argument, Arguments: by a variable argument of the one type that is got as one of the other */
static void take(int count, ...)
{
    va_list all;
    va_start(all, count);
    while (count-- > 0)
        add(va_arg(all, struct seen *));
    va_end(all);
}

static long argument(void)
{
    take(1, &real);
    return real.count + TIMED(&real);
}

/* case list, Arguments: by one without a type, which another function gets from the list */
static void take_from(va_list all)
{
    void *any = va_arg(all, void *);
    add(any);
}

static void take(const char *what, ...)
{
    va_list all;
    va_start(all, what);
    take_from(all);
    va_end(all);
}

static long list(void)
{
    take("one", (void *)&real);
    return real.count + TIMED(&real);
}

/* case value, Values: by the value of a statement expression */
static long value(void)
{
    void *any = ({ void *inner = &real; if (!inner) abort(); inner; });
    add(any);
    return real.count + TIMED(&real);
}

/* case first, Veiled: by the first part of a `?:` without its middle */
static long first(void)
{
    void *any = &real, *none = NULL;
    add(any ?: none);
    return real.count + TIMED(&real);
}

/* case second, Values: by the second one */
static long second(void)
{
    void *none = NULL, *any = &real;
    add(none ?: any);
    return real.count + TIMED(&real);
}

/* case atomic, Values: by an atomic operation */
static void *shared;

static long atomic(void)
{
    void *any = &real, *got;
    __atomic_store_n(&shared, any, __ATOMIC_RELEASE);
    got = __atomic_load_n(&shared, __ATOMIC_ACQUIRE);
    add(got);
    return real.count + TIMED(&real);
}

/* case braces, Values: by an array's initialiser */
static long braces(void)
{
    void *any = &real;
    void *all[] = { NULL, any };
    add(all[1]);
    return real.count + TIMED(&real);
}

/* case function, Veiled: by a function that is called as another */
static long function(void)
{
    void *call = (void *)add;
    ((void (*)(struct real *))call)(&real);
    return real.count + TIMED(&real);
}
