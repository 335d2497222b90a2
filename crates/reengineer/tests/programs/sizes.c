/* Structures whose size a constant is computed of: with a delegate in the place of a mutex they are larger. */
#include <pthread.h>
#include <stdio.h>

#define MUST(holds) ((void)sizeof(char[1 - 2 * !(holds)]))

static long counter;

/* (&padded->hot.lock) stays: a constant is computed of its structure's size, or of its own (program.c: */
struct hot { pthread_mutex_t lock; long count; };
struct padded { struct hot hot; char pad[64 - sizeof(struct hot)]; };
static struct padded padded[2] = { { { PTHREAD_MUTEX_INITIALIZER, 1 }, "" }, { { PTHREAD_MUTEX_INITIALIZER, 2 }, "" } };

static long of_padded(struct padded *padded, long by)
{
    pthread_mutex_lock(&padded->hot.lock);
    padded->hot.count += by;
    pthread_mutex_unlock(&padded->hot.lock);
    return padded->hot.count;
}

/* (&asserted->lock) stays: a constant is computed of its structure's size, or of its own (program.c: */
struct asserted { pthread_mutex_t lock; long count; };
_Static_assert(sizeof(struct asserted) <= 64, "more than a line");

static long of_asserted(struct asserted *asserted, long by)
{
    pthread_mutex_lock(&asserted->lock);
    asserted->count += by;
    pthread_mutex_unlock(&asserted->lock);
    return asserted->count;
}

/* (&counted->of.lock) stays: a constant is computed of its structure's size, or of its own (program.c: */
struct of_counted { pthread_mutex_t lock; long count; };
struct counted { struct of_counted of; };
enum { ROOM = 64 - sizeof(struct counted) };

static long of_counted(struct counted *counted, long by)
{
    char room[ROOM];
    pthread_mutex_lock(&counted->of.lock);
    counted->of.count += by;
    pthread_mutex_unlock(&counted->of.lock);
    return counted->of.count + (long)sizeof room;
}

/* (&checked->lock) stays: a constant is computed of its structure's size, or of its own (program.c: */
struct checked { pthread_mutex_t lock; long count; };

static long of_checked(struct checked *checked, long by)
{
    MUST(sizeof(*checked) == 48);
    pthread_mutex_lock(&checked->lock);
    checked->count += by;
    pthread_mutex_unlock(&checked->lock);
    return checked->count;
}

/* (&narrow->lock) stays: a constant is computed of its structure's size, or of its own (program.c: */
struct narrow { pthread_mutex_t lock; };
struct width { unsigned long size : sizeof(struct narrow); };

static long of_narrow(struct narrow *narrow, struct width *width, long by)
{
    pthread_mutex_lock(&narrow->lock);
    width->size += by;
    pthread_mutex_unlock(&narrow->lock);
    return width->size;
}

/* What grows with the structure may do so, and a pointer does not. */
struct grows { pthread_mutex_t lock; long count; };
static char copy[2 * sizeof(struct grows) + 8], beside[64 - sizeof(struct grows *)], twice[sizeof(copy)];

static long of_grows(struct grows *grows, long by)
{
    pthread_mutex_lock(&grows->lock);
    grows->count += by;
    pthread_mutex_unlock(&grows->lock);
    return grows->count + (long)sizeof beside + (copy[0] == twice[0]) + (sizeof copy >= 2 * sizeof(struct grows));
}

/* (&named->lock) stays: a constant is computed of its structure's size, or of its own (program.c: */
typedef pthread_mutex_t lock_type;
struct named { lock_type lock; char pad[64 - sizeof(lock_type)]; };

static long of_named(struct named *named, long by)
{
    pthread_mutex_lock(&named->lock);
    counter += by + (long)sizeof named->pad;
    pthread_mutex_unlock(&named->lock);
    return counter;
}

int main(void)
{
    static struct asserted asserted = { PTHREAD_MUTEX_INITIALIZER, 1 };
    static struct counted counted = { { PTHREAD_MUTEX_INITIALIZER, 2 } };
    static struct checked checked = { PTHREAD_MUTEX_INITIALIZER, 3 };
    static struct narrow narrow = { PTHREAD_MUTEX_INITIALIZER };
    static struct width width;
    static struct grows grows = { PTHREAD_MUTEX_INITIALIZER, 4 };
    static struct named named = { PTHREAD_MUTEX_INITIALIZER, "" };
    for (long by = 0; by < 4; by++) {
        printf("%ld %ld %ld\n", of_padded(&padded[by & 1], by), of_asserted(&asserted, by), of_counted(&counted, by));
        printf("%ld %ld\n", of_checked(&checked, by), of_narrow(&narrow, &width, by));
        printf("%ld %ld\n", of_grows(&grows, by), of_named(&named, by));
    }
    return 0;
}
