/* What a section declares and what has its address afterwards; what each thread has of its own; and what a declaration says besides. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define DUMP(v) printf(#v "=%ld\n", v)
#define NAMED(v) (v + v##_too)
#define FIELD(s, f) ((s).f = (f))
#define PAIR_INIT { 3, 4 }
#define FIRST_SET(by) (pair.text[0] = (by))
#define REPEAT(n, body) for (int turn = 0; turn < (n); turn++) { body }

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, other_lock = PTHREAD_MUTEX_INITIALIZER;
static long counter, count = 77;

struct pair { long one, other; };
struct item { char name[16]; long value; };
struct fixed { const long one; long other; };

static const char *spelt(long by, char *room, size_t size)
{
    snprintf(room, size, "v%ld", by);
    return room;
}

/* compound refused: keeps the address of `a compound literal`, which it declares and which would be gone after it (declare it before the lock) */
static long compound(long by)
{
    const long *kept;
    pthread_mutex_lock(&lock);
    kept = (long[]) { counter, by };
    counter++;
    pthread_mutex_unlock(&lock);
    return kept[0] + kept[1];
}

static long compound_by_value(long by)
{
    struct pair pair;
    pthread_mutex_lock(&lock);
    pair = (struct pair) { counter, by };
    counter++;
    pthread_mutex_unlock(&lock);
    return pair.one + pair.other;
}

static long member(long by)
{
    const char *text;
    pthread_mutex_lock(&lock);
    struct item item = { "hello", 0 };
    item.value = by;
    text = item.name;
    pthread_mutex_unlock(&lock);
    return text[1] + by;
}

static long row(long by)
{
    const char *text;
    pthread_mutex_lock(&lock);
    char rows[2][8] = { "one", "two" };
    text = rows[by & 1];
    pthread_mutex_unlock(&lock);
    return text[0];
}

/* sized refused: keeps the address of `room`, which it declares and which would be gone after it (declare it before the lock) */
static long sized(long by)
{
    const char *text;
    pthread_mutex_lock(&lock);
    char room[by + 8];
    text = room;
    snprintf(room, sizeof(room), "%ld", by);
    pthread_mutex_unlock(&lock);
    return strtol(text, NULL, 10);
}

static long nested(long by)
{
    const char *text;
    pthread_mutex_lock(&lock);
    if (by & 1) {
        char room[16];
        snprintf(room, sizeof(room), "nested%ld", by);
        text = room;
        pthread_mutex_unlock(&lock);
        puts(text);
        return 1;
    }
    counter++;
    pthread_mutex_unlock(&lock);
    return counter;
}

static long called(long by)
{
    const char *text, *copy;
    pthread_mutex_lock(&lock);
    char room[64], more[] = "abc";
    /* called refused: keeps the address of `more`, which it declares and which would be gone after it (declare it before the lock) */
    text = spelt(by, room, sizeof(room));
    copy = memcpy(more, "x", 1);
    pthread_mutex_unlock(&lock);
    return text[1] + copy[0];
}

static long called_by_one(long by)
{
    const char *text, *copy;
    pthread_mutex_lock(&lock);
    char room[64];
    char more[] = "abc";
    text = spelt(by, room, sizeof(room));
    copy = memcpy(more, "x", 1);
    pthread_mutex_unlock(&lock);
    return text[1] + copy[0] + copy[1];
}

static long pointers(long by)
{
    long found;
    pthread_mutex_lock(&lock);
    {
        struct pair pair = { counter, by };
        const struct pair *same = &pair;
        found = same->one - same->other + (&pair.other - &pair.one);
    }
    counter++;
    pthread_mutex_unlock(&lock);
    return found;
}

static long over_a_pause(long by)
{
    long rounds = 3, sum = 0;
    pthread_mutex_lock(&lock);
    while (rounds-- > 0) {
        long two[2];
        struct pair pair = PAIR_INIT;
        two[0] = by + rounds;
        two[1] = pair.other++;
        pthread_mutex_unlock(&lock);
        puts("meanwhile");
        pthread_mutex_lock(&lock);
        sum += two[0] + two[1] + pair.other;
    }
    pthread_mutex_unlock(&lock);
    return sum;
}

static long braced(long by)
{
    pthread_mutex_lock(&lock);
    struct pair pair = PAIR_INIT;
    struct pair const other = { counter, by };
    pair.one += counter++;
    pthread_mutex_unlock(&lock);
    return pair.one + pair.other + other.one + other.other;
}

static struct fixed made(long by)
{
    return (struct fixed) { by, 2 };
}

static long const_member(long by)
{
    pthread_mutex_lock(&lock);
    struct fixed fixed = made(by + counter);
    struct fixed more = { by, counter };
    counter++;
    pthread_mutex_unlock(&lock);
    return fixed.one + fixed.other + more.one + more.other;
}

/* hides refused: declares `count`, which is used after it */
static long hides(long by)
{
    pthread_mutex_lock(&lock);
    if (by & 1) {
        pthread_mutex_unlock(&lock);
        return count;
    }
    long count = ++counter;
    pthread_mutex_unlock(&lock);
    return count;
}

static long aligned(long by)
{
    pthread_mutex_lock(&lock);
    long one __attribute__((aligned(256))) = by;
    counter++;
    pthread_mutex_unlock(&lock);
    return (long)((uintptr_t)&one % 256) + one;
}

/* aligned_too refused: declares `one` with an attribute, which would be lost (declare it before the lock) */
static long aligned_too(long by)
{
    pthread_mutex_lock(&lock);
    _Alignas(128) long one = by;
    counter++;
    pthread_mutex_unlock(&lock);
    return (long)((uintptr_t)&one % 128) + one;
}

/* attributed refused: declares `placed` with an attribute, which would be lost (declare it before the lock) */
static long attributed(long by)
{
    pthread_mutex_lock(&lock);
    long placed __attribute__((deprecated)) = by + counter;
    pthread_mutex_unlock(&lock);
    return placed;
}

static void say(char **text)
{
    printf("freed %s\n", *text);
    free(*text);
}

/* cleans refused: declares `text`, whose cleanup would run before the lock is released (declare it before the lock) */
static long cleans(long by)
{
    pthread_mutex_lock(&lock);
    __attribute__((cleanup(say))) char *text = strdup("cleaned");
    counter += text[0];
    pthread_mutex_unlock(&lock);
    puts("after it");
    return by;
}

static long cleans_inside(long by)
{
    pthread_mutex_lock(&lock);
    {
        __attribute__((cleanup(say))) char *text = strdup("inside");
        counter += text[0];
    }
    puts("in it");
    pthread_mutex_unlock(&lock);
    return by;
}

static long sets_errno(long by)
{
    ssize_t written;
    errno = 0;
    pthread_mutex_lock(&lock);
    written = write(-1, "x", 1);
    counter += by;
    pthread_mutex_unlock(&lock);
    return written < 0 ? errno : 0;
}

static long errno_in_a_tail(long by)
{
    errno = by;
    pthread_mutex_lock(&lock);
    counter += errno;
    if (by && write(-1, "x", 1) < 0) {
        pthread_mutex_unlock(&lock);
        return errno;
    }
    pthread_mutex_unlock(&lock);
    return errno + 100;
}

static long errno_over_a_pause(long by)
{
    errno = 1;
    pthread_mutex_lock(&lock);
    counter += write(-1, "x", 1) + errno;
    pthread_mutex_unlock(&lock);
    errno = errno == EBADF ? by : -1;
    pthread_mutex_lock(&lock);
    counter += errno;
    pthread_mutex_unlock(&lock);
    return errno;
}

static int number(void)
{
    static __thread int own;
    return ++own;
}

/* asks refused: calls number, which asks for `own`: that is another in each thread, and a delegate may run it in any (--any-thread allows that) */
static long asks(long by)
{
    pthread_mutex_lock(&lock);
    counter += number();
    pthread_mutex_unlock(&lock);
    return by;
}

static __thread int compared;

static int compare(const void *one, const void *other)
{
    compared++;
    return *(const int *)one - *(const int *)other;
}

/* calls_back refused: calls compare, which asks for `compared`: that is another in each thread, and a delegate may run it in any (--any-thread allows that) */
static long calls_back(long by)
{
    int all[3] = { 3, by, 1 };
    pthread_mutex_lock(&lock);
    qsort(all, 3, sizeof(*all), compare);
    pthread_mutex_unlock(&lock);
    return all[0];
}

/* declares refused: `depth` is another in each thread, and a delegate may run it in any (--any-thread allows that) */
static long declares(long by)
{
    pthread_mutex_lock(&lock);
    static __thread long depth;
    counter += depth++;
    pthread_mutex_unlock(&lock);
    return by;
}

static long declared_around(long by)
{
    static __thread long depth;
    depth = by;
    pthread_mutex_lock(&lock);
    counter += depth++;
    pthread_mutex_unlock(&lock);
    return depth;
}

/* keeps_the_threads refused: `inet_ntoa` is another in each thread, and a delegate may run it in any (--any-thread allows that) */
static long keeps_the_threads(long by)
{
    struct in_addr address = { 0x0100007f };
    const char *text;
    pthread_mutex_lock(&lock);
    text = inet_ntoa(address);
    pthread_mutex_unlock(&lock);
    return by + text[0];
}

static long spells(long amount)
{
    long amount_too = 4;
    struct pair one = { 0, 0 };
    long other = 2;
    pthread_mutex_lock(&lock);
    counter += amount;
    DUMP(amount);
    counter += NAMED(amount);
    FIELD(one, other);
    pthread_mutex_unlock(&lock);
    return one.other + other;
}

struct texts { char text[8]; };

static long decayed(long by)
{
    struct texts pair = { "abc" };
    char *text = pair.text;
    /* decayed refused: a macro's body names `pair`, which cannot be copied */
    pthread_mutex_lock(&lock);
    FIRST_SET('X');
    counter += text[0];
    pthread_mutex_unlock(&lock);
    return by;
}

#define HIT (hits += by)
/* hit refused: a macro's body names `hits`, which cannot be copied */
static long hit(long by)
{
    static long hits;
    pthread_mutex_lock(&lock);
    HIT;
    pthread_mutex_unlock(&lock);
    return hits;
}

static void logged(const char *format, va_list arguments)
{
    char line[64];
    pthread_mutex_lock(&lock);
    vsnprintf(line, sizeof(line), format, arguments);
    puts(line);
    pthread_mutex_unlock(&lock);
}

static long logs(long by, ...)
{
    va_list arguments;
    va_start(arguments, by);
    logged("%d and %s", arguments);
    va_end(arguments);
    return by;
}

/* of_rows refused: `rows` is an array of variable size */
static long of_rows(long by)
{
    long all[6] = { 1, 2, 3, 4, 5, 6 };
    long (*rows)[by % 2 + 1] = (void *)all;
    pthread_mutex_lock(&lock);
    counter += rows[1][0];
    pthread_mutex_unlock(&lock);
    return counter;
}

/* repeats refused: is in an argument of a macro */
static long repeats(long by)
{
    REPEAT(3, {
        pthread_mutex_lock(&lock);
        counter += by; count += by;
        pthread_mutex_unlock(&lock);
    })
    return counter;
}

/* elsewhere refused: has a lock call in an #if that this configuration does not compile */
static long elsewhere(long by)
{
    pthread_mutex_lock(&lock);
    counter++;
#ifdef NEVER
    pthread_mutex_unlock(&lock);
    puts("without it");
    pthread_mutex_lock(&lock);
#endif
    pthread_mutex_unlock(&lock);
    return by;
}

static long commented(long by)
{
    pthread_mutex_lock(&lock);
    if (by)
        pthread_mutex_unlock(&lock) /* early */;
    else {
        counter++;
        pthread_mutex_unlock(&lock);
    }
    return counter;
}

#ifndef OF_THE_FILE
static
#endif
long half_static(long by) { pthread_mutex_lock(&lock); counter += by; pthread_mutex_unlock(&lock); return counter; }

static long beside; static long on_one_line(long by) { pthread_mutex_lock(&lock); beside += by; pthread_mutex_unlock(&lock); return beside; }

static long factorial(by) long by;
{
    long result = by < 2 ? 1 : by * factorial(by - 1);
    pthread_mutex_lock(&lock);
    counter += result;
    pthread_mutex_unlock(&lock);
    return result;
}

/* The address is kept in a section that becomes a closure.
rekeyed refused: keeps the address of `one`, which it declares and which would be gone after it (declare it before the lock) */
static long rekeyed(long by)
{
    long *kept = &counter, found;
    pthread_mutex_lock(&lock);
    long one = 5, two = by;
    pthread_mutex_lock(&other_lock);
    kept = &one;
    counter += two;
    pthread_mutex_unlock(&other_lock);
    pthread_mutex_unlock(&lock);
    found = *kept;
    pthread_mutex_lock(&lock);
    counter += found;
    pthread_mutex_unlock(&lock);
    return found;
}

/* of_its_own refused: declares `text`, which is used after it */
static const char *of_its_own(long by)
{
    pthread_mutex_lock(&lock);
    static char text[32];
    snprintf(text, sizeof text, "%ld", counter + by);
    pthread_mutex_unlock(&lock);
    return text;
}

/* A global has the name. */
/* hides_a_global refused: declares `count`, which is used after it */
static long hides_a_global(long by)
{
    pthread_mutex_lock(&lock);
    static long count;
    count += by;
    pthread_mutex_unlock(&lock);
    return count;
}

long far = 4;
/* of_another_file refused: `far`, which is no local variable, is declared on the other side of the section's bounds */
static long of_another_file(long far)
{
    long by = far;
    pthread_mutex_lock(&lock);
    {
        extern long far;
        far += by;
        if (by == 2) {
            pthread_mutex_unlock(&lock);
            return far;
        }
    }
    pthread_mutex_unlock(&lock);
    return far;
}

/* declared_before refused: `far`, which is no local variable, is declared on the other side of the section's bounds */
static long declared_before(long by)
{
    extern long far;
    pthread_mutex_lock(&lock);
    far += by;
    pthread_mutex_unlock(&lock);
    return far;
}

static long declared_within(long by)
{
    pthread_mutex_lock(&lock);
    extern long far;
    far += by;
    counter += far;
    pthread_mutex_unlock(&lock);
    return counter;
}

/* What is static goes with the section that nothing outside of it needs that for. */
static long keeps_its_own(long by)
{
    pthread_mutex_lock(&lock);
    static long sum;
    sum += by;
    counter += sum;
    pthread_mutex_unlock(&lock);
    return counter;
}

/* forks refused: calls fork, which means the caller's frame, thread or process */
static long forks(long by)
{
    pthread_mutex_lock(&lock);
    counter += by;
    if (by < 0)
        counter += fork();
    pthread_mutex_unlock(&lock);
    return counter;
}

/* jumps_back refused: calls _setjmp, which means the caller's frame, thread or process */
static long jumps_back(long by)
{
    static jmp_buf here;
    pthread_mutex_lock(&lock);
    if (setjmp(here) == 0)
        counter += by;
    pthread_mutex_unlock(&lock);
    return counter;
}

/* sums refused: calls __builtin_va_start, which means the caller's frame, thread or process */
static long sums(long by, ...)
{
    va_list all;
    pthread_mutex_lock(&lock);
    va_start(all, by);
    counter += va_arg(all, long);
    va_end(all);
    pthread_mutex_unlock(&lock);
    return counter;
}

/* goes_by_address refused: has assembly, a computed goto, or a jump inside a statement expression */
static long goes_by_address(long by)
{
    static void *const ways[] = { &&even, &&odd };
    pthread_mutex_lock(&lock);
    goto *ways[by & 1];
even:
    counter += 2;
odd:
    counter += by;
    pthread_mutex_unlock(&lock);
    return counter;
}

#define FUNCTION(name) static long name(long by)
FUNCTION(by_a_macro)
{
    pthread_mutex_lock(&lock);
    long (*const itself)(long) = by_a_macro;
    counter += by + (itself == NULL);
    pthread_mutex_unlock(&lock);
    return counter;
}

#define FUNCTION_AND_BRACE(name) static long name(long by) {
/* braced_by_a_macro refused: its function begins in a macro that has the `{`, or another declaration, too */
FUNCTION_AND_BRACE(braced_by_a_macro)
    pthread_mutex_lock(&lock);
    counter += by;
    pthread_mutex_unlock(&lock);
    return counter;
}

#define KEPT_FUNCTION(name) static long kept_by_##name = 3; static long name(long by)
/* keeps_more refused: its function begins in a macro that has the `{`, or another declaration, too */
KEPT_FUNCTION(keeps_more)
{
    pthread_mutex_lock(&lock);
    counter += kept_by_keeps_more++ + by;
    pthread_mutex_unlock(&lock);
    return counter;
}

/* explodes refused: too many combinations of locks may be held */
static long explodes(long by)
{
    static pthread_mutex_t many[7] = {
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER
    };
    if (by & 1)
        pthread_mutex_lock(&many[0]);
    if (by & 2)
        pthread_mutex_lock(&many[1]);
    if (by & 4)
        pthread_mutex_lock(&many[2]);
    if (by & 8)
        pthread_mutex_lock(&many[3]);
    if (by & 16)
        pthread_mutex_lock(&many[4]);
    if (by & 32)
        pthread_mutex_lock(&many[5]);
    if (by & 64)
        pthread_mutex_lock(&many[6]);
    counter += by;
    for (int number = 0; number < 7; number++)
        if (by >> number & 1)
            pthread_mutex_unlock(&many[number]);
    return counter;
}

int main(void)
{
    for (long by = 1; by < 5; by++) {
        printf("%ld %ld %ld %ld\n", compound(by), compound_by_value(by), member(by), row(by));
        printf("%ld %ld %ld %ld\n", sized(by), nested(by), called(by), called_by_one(by));
        printf("%ld %ld %ld %ld\n", pointers(by), over_a_pause(by), braced(by), const_member(by));
        printf("%ld %ld %ld %ld\n", hides(by), aligned(by), aligned_too(by) + attributed(by), cleans(by));
        printf("%ld %ld %ld %ld\n", cleans_inside(by), sets_errno(by), errno_in_a_tail(by), errno_over_a_pause(by));
        printf("%ld %ld %ld %ld\n", asks(by), calls_back(by), declares(by), declared_around(by));
        printf("%ld %ld %ld %ld\n", keeps_the_threads(by), spells(by), decayed(by), hit(by));
        printf("%ld %ld %ld %ld\n", logs(by, 3, "x"), of_rows(by), repeats(by), elsewhere(by));
        printf("%ld %ld %ld %ld\n", commented(by) + rekeyed(by), half_static(by), on_one_line(by), factorial(by));
        printf("%ld %ld %ld %ld\n", forks(by), jumps_back(by), sums(by, 3 * by), goes_by_address(by));
        printf("%ld %ld\n", declared_before(by), declared_within(by));
        printf("%ld %ld %ld %ld\n", by_a_macro(by), braced_by_a_macro(by), keeps_more(by), explodes(by));
        printf("%s %ld %ld %ld\n", of_its_own(by), hides_a_global(by), of_another_file(by), keeps_its_own(by));
    }
    return 0;
}
