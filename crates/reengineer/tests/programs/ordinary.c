#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdnoreturn.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int counter;

/* Functions that never return, in all the ways to say so. */
#define FATAL __attribute__((__noreturn__))
#define NEVER _Noreturn
static void FATAL fatal(int status);
static NEVER void never(void);
noreturn void stops(void);
_Noreturn static void gives_up(void);
extern void ends_later(int status) __attribute__((cold, __noreturn__));
static void (*on_error)(int status) FATAL = fatal;

static void fatal(int status)
{
    printf("ended with %d\n", counter);
    exit(status);
}

static void never(void)
{
    fatal(1);
}

void stops(void)
{
    fatal(2);
}

static void gives_up(void)
{
    fatal(3);
}

void ends_later(int status)
{
    fatal(status);
}

static int by_attribute(int by)
{
    pthread_mutex_lock(&lock);
    if (by > 90) {
        pthread_mutex_unlock(&lock);
        fatal(by - 91);
    }
    counter += by;
    pthread_mutex_unlock(&lock);
    return counter;
}

static int by_word(int by)
{
    pthread_mutex_lock(&lock);
    if (by > 90) {
        pthread_mutex_unlock(&lock);
        never();
    }
    counter += by;
    pthread_mutex_unlock(&lock);
    return counter;
}

static int by_macro(int by)
{
    pthread_mutex_lock(&lock);
    if (by > 90) {
        pthread_mutex_unlock(&lock);
        stops();
    }
    counter += by;
    pthread_mutex_unlock(&lock);
    return counter;
}

static int by_order(int by)
{
    pthread_mutex_lock(&lock);
    if (by > 90) {
        pthread_mutex_unlock(&lock);
        gives_up();
    }
    counter += by;
    pthread_mutex_unlock(&lock);
    return counter;
}

static int by_list(int by)
{
    pthread_mutex_lock(&lock);
    if (by > 90) {
        pthread_mutex_unlock(&lock);
        ends_later(4);
    }
    counter += by;
    pthread_mutex_unlock(&lock);
    return counter;
}

static int by_pointer(int by)
{
    pthread_mutex_lock(&lock);
    if (by > 90) {
        pthread_mutex_unlock(&lock);
        (void)on_error(4);
    }
    counter += by;
    pthread_mutex_unlock(&lock);
    return counter;
}

/* A function of the program's own has the name of one that never returns. */
static const char *err(int code)
{
    return code > 2 ? "many" : "few";
}

static int own_name(int by)
{
    pthread_mutex_lock(&lock);
    if (by > 1) {
        puts(err(by));
        err(by);
        pthread_mutex_unlock(&lock);
    } else {
        counter += by;
        pthread_mutex_unlock(&lock);
    }
    return counter;
}

/* Cases that give the lock up, and those that do not. */
static int in_a_case(int by)
{
    pthread_mutex_lock(&lock);
    switch (by % 4) {
    case 1:
        pthread_mutex_unlock(&lock);
        return 1;
    case 2:
        counter++;
        break;
    case 3:
        counter += 2;
        pthread_mutex_unlock(&lock);
        if (by > 4) {
            return by;
        } else {
            by += 10;
            goto done;
        }
    default:
        break;
    }
    pthread_mutex_unlock(&lock);
done:
    return counter + by;
}

/* All cases give it up, and what they end with is the switch. */
static int in_all_cases(int by)
{
    int found = 0;
    for (int round = 0; round < 2; round++) {
        pthread_mutex_lock(&lock);
        switch (by % 3) {
        case 0:
            counter++;
            pthread_mutex_unlock(&lock);
            break;
        case 1:
            pthread_mutex_unlock(&lock);
            found += 100;
            /* That is all. */
            break;
        default:
            found += counter;
            pthread_mutex_unlock(&lock);
            found++;
        }
        found += 1000;
    }
    return found;
}

static int in_a_loop(int by)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (;;) {
        counter++;
        if (found++ > by) {
            pthread_mutex_unlock(&lock);
            found += 10;
            break;
        }
    }
    return found;
}

/* The way of errors is behind the ordinary one. */
static int with_errors_behind(int by)
{
    int error = -1;
    pthread_mutex_lock(&lock);
    if (by > 5) {
        error -= by;
        goto fail;
    }
    int found = counter;
    counter += by;
    pthread_mutex_unlock(&lock);
    found += by;
    return found;
fail:
    counter--;
    pthread_mutex_unlock(&lock);
    return error;
}

/* Initialisers in macros of the program's own. */
struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t filled;
    int length;
};
#define QUEUE_INITIALISER(length) { PTHREAD_MUTEX_INITIALIZER, \
    PTHREAD_COND_INITIALIZER, (length) }
#define EMPTY_QUEUE QUEUE_INITIALISER(0)
#define MUTEX_INITIALISER PTHREAD_MUTEX_INITIALIZER
static struct queue queue = QUEUE_INITIALISER(5);
static struct queue queues[2] = { QUEUE_INITIALISER(7), EMPTY_QUEUE };
static pthread_mutex_t own = MUTEX_INITIALISER;
static pthread_mutex_t many[3] = { MUTEX_INITIALISER, MUTEX_INITIALISER, MUTEX_INITIALISER };

static int initialised(int by)
{
    static pthread_mutex_t inner = MUTEX_INITIALISER;
    struct queue *other = &queues[by % 2];
    pthread_mutex_lock(&queue.mutex);
    while (queue.length < 0)
        pthread_cond_wait(&queue.filled, &queue.mutex);
    queue.length += by;
    pthread_mutex_unlock(&queue.mutex);
    pthread_mutex_lock(&other->mutex);
    other->length++;
    pthread_mutex_unlock(&other->mutex);
    pthread_mutex_lock(&inner);
    counter++;
    pthread_mutex_unlock(&inner);
    pthread_mutex_lock(&own);
    counter += by;
    pthread_mutex_unlock(&own);
    return counter + queue.length + other->length;
}

/* Locks that are named by sizes, and by conditions. */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int named(int by)
{
    pthread_mutex_lock(&many[by % COUNT(many)]);
    counter += by;
    pthread_mutex_unlock(&many[by % COUNT(many)]);
    pthread_mutex_lock(by > 2 ? &own : &many[1]);
    counter += by;
    pthread_mutex_unlock(by > 2 ? &own : &many[1]);
    return counter;
}

/* And by functions that only compute. */
static const unsigned char turns[4] = { 1, 0, 2, 2 };

static unsigned int mixed(const char *text, unsigned int by)
{
    unsigned int value = by;
    for (unsigned int at = 0; text[at] != 0; at++)
        value = value * 31 + (unsigned char)text[at];
    return value;
}

static inline unsigned int hash(const char *text, int by)
{
    return turns[mixed(text, (unsigned int)by) % sizeof(int)] % COUNT(many);
}

__attribute__((const)) unsigned int half(unsigned int by);
unsigned int half(unsigned int by)
{
    return by / 2;
}

static int hashed(int by)
{
    const char *text = by > 2 ? "text" : "";
    pthread_mutex_lock(&many[hash(text, by)]);
    if (by == 3) {
        pthread_mutex_unlock(&many[hash(text, by)]);
        return -1;
    }
    counter += by;
    pthread_mutex_unlock(&many[hash(text, by)]);
    pthread_mutex_lock(&queues[half(by % 3)].mutex);
    queues[half(by % 3)].length++;
    pthread_mutex_unlock(&queues[half(by % 3)].mutex);
    return counter;
}

/* Attributes in macros. */
#define ALIGNED __attribute__((aligned(64)))
#define MAYBE_UNUSED __attribute__((__unused__))

static int attributes(int by)
{
    pthread_mutex_lock(&lock);
    int MAYBE_UNUSED before = counter;
    int ALIGNED after = ++counter;
    pthread_mutex_unlock(&lock);
    return after + before * by + (int)((unsigned long)&after % 64);
}

/* A function of the system's that is declared once more, as in C of before 1989: a header has its parameters. */
static int declares(int by)
{
    { long labs(); by = (int)labs(by - 4L); }
    pthread_mutex_lock(&lock);
    counter += by;
    pthread_mutex_unlock(&lock);
    return counter;
}

/* Blocks with an empty statement behind them, as macros make them. */
static int with_empty_statements(int by)
{
    {pthread_mutex_lock(&lock);};
    if (by > 4) {
        int before = counter;
        {pthread_mutex_unlock(&lock);};
        return before;
    }
    counter += by;
    {pthread_mutex_unlock(&lock);};
    return counter;
}

/* An assertion names what has an address, and has its text. */
static int asserts(int by)
{
    int own = by, *kept = &own;
    pthread_mutex_lock(&lock);
    assert(own == by && *kept < 100);
    *kept += counter;
    pthread_mutex_unlock(&lock);
    return own;
}

int main(void)
{
    for (int by = 0; by < 9; by++) {
        printf("%d %d %d %d\n", by_attribute(by), by_word(by), by_macro(by), own_name(by));
        printf("%d %d %d\n", by_order(by), by_list(by), by_pointer(by));
        printf("%d %d %d %d\n", in_a_case(by), in_all_cases(by), in_a_loop(by), with_errors_behind(by));
        printf("%d %d %d %d\n", initialised(by), named(by), hashed(by), attributes(by));
        printf("%d %d %d\n", declares(by), asserts(by), with_empty_statements(by));
    }
    return by_attribute(91);
}
