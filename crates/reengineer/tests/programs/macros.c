/* Locks that are numbers, taken by macros which may return. `run` is what runs sections as closures. */
#include <pthread.h>
#include <stdio.h>

struct env {
    int system;
    int runs;
};

struct page {
    int mtx_page;
    long value;
};

static pthread_mutex_t table[8];
static long counter;

static int take(struct env *env, int number)
{
    (void)env;
    return pthread_mutex_lock(&table[number]);
}

static int give(struct env *env, int number)
{
    (void)env;
    return pthread_mutex_unlock(&table[number]);
}

static inline void run(struct env *env, int number, void *(*section)(void *), void *argument)
{
    env->runs++;
    if (number)
        take(env, number);
    section(argument);
    if (number)
        give(env, number);
}

#define TAKE(env, number) do { \
    if ((number) != 0 && take(env, number) != 0) \
        return (-1); \
} while (0)
#define GIVE(env, number) do { \
    if ((number) != 0 && give(env, number) != 0) \
        return (-1); \
} while (0)
#define SYSTEM_TAKE(env) TAKE(env, (env)->system)
#define SYSTEM_GIVE(env) GIVE(env, (env)->system)

/* converted: 1 */
static long straight(struct env *env, struct page *page, long by)
{
    TAKE(env, page->mtx_page);
    page->value += by;
    counter++;
    GIVE(env, page->mtx_page);
    return page->value;
}

/* converted: 2 */
static long exits(struct env *env, struct page *page, long by)
{
    long found = 0;
    TAKE(env,
        page->mtx_page);
    if (by == 2) {
        GIVE(env, page->mtx_page);
        return -by;
    }
    SYSTEM_TAKE(env);
    found = page->value++ + counter;
    SYSTEM_GIVE(env);
    page->value += by;
    GIVE(env, page->mtx_page);
    return found;
}

/* converted: 2 */
static long again(struct env *env, struct page *page, long by)
{
    TAKE(env, page->mtx_page);
    page->value += by;
    GIVE(env, page->mtx_page);
    counter += by;
    TAKE(env, page->mtx_page);
    page->value ^= by;
    GIVE(env, page->mtx_page);
    return page->value;
}

/* converted: 0, refused: a macro in it takes or releases another lock, and may return from the function */
static long changes(struct env *env, struct page *page, long by)
{
    int other = 3;
    TAKE(env, page->mtx_page);
    page->value += by;
    TAKE(env, other);
    other += (int)(by - by);
    counter++;
    GIVE(env, other);
    GIVE(env, page->mtx_page);
    return page->value;
}

static long briefly(struct env *env, struct page *page)
{
    GIVE(env, page->mtx_page);
    counter += 7;
    TAKE(env, page->mtx_page);
    return counter;
}

/* converted: 0, refused: calls briefly, which gives the lock up that it does not take itself */
static long lends(struct env *env, struct page *page, long by)
{
    TAKE(env, page->mtx_page);
    page->value += by + briefly(env, page);
    GIVE(env, page->mtx_page);
    return page->value;
}

int main(void)
{
    struct env env = { 1, 0 };
    struct page page = { 2, 0 };
    for (int number = 0; number < 8; number++)
        pthread_mutex_init(&table[number], NULL);
    for (long by = 0; by < 5; by++) {
        printf("%ld %ld %ld\n", straight(&env, &page, by), exits(&env, &page, by), again(&env, &page, by));
        printf("%ld %ld %ld\n", changes(&env, &page, by), lends(&env, &page, by), counter);
        page.mtx_page = (int)(by % 3);
    }
    fprintf(stderr, "%d\n", env.runs);
    return 0;
}
