/* Structures that become others without a word of their names, and such as only go the same way. Which mutexes stay is said so. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Takes the lock of a structure if it is free, by what delegates have not. */
#define TIMED(it) ({ struct timespec now = { 0, 0 }; int is_free = pthread_mutex_timedlock(&(it)->lock, &now) == 0; \
    if (is_free) { pthread_mutex_unlock(&(it)->lock); } is_free; })

/* By a parameter that is a `void *`: (&base->lock) stays: delegates have no pthread_mutex_timedlock */
struct base { pthread_mutex_t lock; long count; };
struct derived { pthread_mutex_t lock; long count; int more; };

static void by_parameter(void *given)
{
    struct base *base = given;
    pthread_mutex_lock(&base->lock);
    base->count += 3;
    pthread_mutex_unlock(&base->lock);
}

static long derives(void)
{
    static struct derived derived = { PTHREAD_MUTEX_INITIALIZER, 1, 2 };
    by_parameter(&derived);
    return derived.count + derived.more + TIMED(&derived);
}

/* By a member, and not at the beginning: (&task->lock) stays: delegates have no pthread_mutex_timedlock */
struct task { long id; pthread_mutex_t lock; long done; };
struct job { long id; pthread_mutex_t lock; long done; long cost; };
struct entry { struct entry *next; void *data; };

static struct job job = { 7, PTHREAD_MUTEX_INITIALIZER, 0, 5 };

static long by_member(struct entry *entry)
{
    for (; entry; entry = entry->next) {
        struct task *task = entry->data;
        pthread_mutex_lock(&task->lock);
        task->done += task->id;
        pthread_mutex_unlock(&task->lock);
    }
    struct entry entries = { .next = NULL, .data = &job };
    return job.cost == 5 ? (job.cost++, by_member(&entries)) : job.done + TIMED(&job);
}

/* By what a function returns, with a number in between: (&node->lock) stays: delegates have no pthread_mutex_timedlock */
struct node { pthread_mutex_t lock; long count; };
struct leaf { pthread_mutex_t lock; long count; };

static struct leaf leaf = { PTHREAD_MUTEX_INITIALIZER, 4 };

static uintptr_t handle(void)
{
    return (uintptr_t)&leaf;
}

static long by_number(void)
{
    struct node *node = (struct node *)handle();
    pthread_mutex_lock(&node->lock);
    node->count *= 2;
    pthread_mutex_unlock(&node->lock);
    return leaf.count + TIMED(&leaf);
}

/* By a cast between structures that have it in a structure within them: (&outer->head.lock) stays: delegates have no */
struct head { pthread_mutex_t lock; };
struct outer { struct head head; long count; };
struct like { pthread_mutex_t lock; };
struct other { struct like head; long count; };

static long by_cast(void)
{
    static struct other other = { { PTHREAD_MUTEX_INITIALIZER }, 6 };
    struct outer *outer = (struct outer *)&other;
    pthread_mutex_lock(&outer->head.lock);
    outer->count += 1;
    pthread_mutex_unlock(&outer->head.lock);
    return other.count + TIMED(&other.head);
}

/* By a function that is called as one of another type: (&view->lock) stays: delegates have no pthread_mutex_timedlock */
struct view { pthread_mutex_t lock; long count; };
struct real { pthread_mutex_t lock; long count; };

static void look(struct view *view)
{
    pthread_mutex_lock(&view->lock);
    view->count -= 2;
    pthread_mutex_unlock(&view->lock);
}

static long by_function(void)
{
    static struct real real = { PTHREAD_MUTEX_INITIALIZER, 9 };
    void (*call)(void *) = (void (*)(void *))(void (*)(void))look;
    call(&real);
    return real.count + TIMED(&real);
}

/* What a thread is given is what its function gets, and nothing else is. */
struct worker { pthread_mutex_t lock; long sum; };
struct timer { pthread_mutex_t lock; long sum; };

static void *work(void *given)
{
    struct worker *worker = given;
    pthread_mutex_lock(&worker->lock);
    worker->sum += 11;
    pthread_mutex_unlock(&worker->lock);
    return worker;
}

static void *tick(void *given)
{
    struct timer *timer = given;
    timer->sum += TIMED(timer);
    return NULL;
}

static long threads(void)
{
    static struct worker worker = { PTHREAD_MUTEX_INITIALIZER, 1 };
    static struct timer timer = { PTHREAD_MUTEX_INITIALIZER, 1 };
    pthread_t one, two;
    if (pthread_create(&one, NULL, work, &worker) || pthread_create(&two, NULL, &tick, (void *)&timer))
        exit(1);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    return worker.sum + timer.sum;
}

/* Another parameter, and memory that is given back. */
struct plain { pthread_mutex_t lock; long count; };

static void add(void *given)
{
    struct plain *plain = given;
    pthread_mutex_lock(&plain->lock);
    plain->count++;
    pthread_mutex_unlock(&plain->lock);
}

static long allocates(void)
{
    struct plain *plain = calloc(1, sizeof(*plain));
    pthread_mutex_init(&plain->lock, NULL);
    add(plain);
    long count = plain->count;
    free(plain);
    return count;
}

int main(void)
{
    printf("%ld\n", derives());
    printf("%ld\n", by_member(NULL));
    printf("%ld %ld %ld\n", by_number(), by_cast(), by_function());
    printf("%ld %ld\n", threads(), allocates());
    return 0;
}
