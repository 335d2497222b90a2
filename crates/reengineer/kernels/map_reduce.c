#include "map_reduce.h"

struct task_queue {
    pthread_mutex_t lock;
    struct map_task *first;
    long taken;
};

struct bin {
    pthread_mutex_t lock;
    long value, times;
};

/* Threads that wait for work, and the one that waits for them. */
struct pool {
    pthread_mutex_t lock;
    pthread_cond_t has_work, is_done;
    int generation, working, next, stops;
};

static struct task_queue *queues;
static struct bin bins[KEYS];
static struct pool pool = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, 0 };
static const struct map_reduce *current;

static void enqueue(long number, long first, long count)
{
    struct map_task *task = malloc(sizeof *task);
    if (task == NULL)
        exit(1);
    task->first = first;
    task->count = count;
    struct task_queue *queue = &queues[number % current->threads];
    pthread_mutex_lock(&queue->lock);
    task->next = queue->first;
    queue->first = task;
    pthread_mutex_unlock(&queue->lock);
}

/* The next task of a queue. */
static int dequeue(struct map_task *task, int own)
{
    struct map_task *taken = NULL;
    pthread_mutex_lock(&queues[own].lock);
    if (queues[own].first != NULL) {
        taken = queues[own].first;
        queues[own].first = taken->next;
        queues[own].taken++;
    }
    pthread_mutex_unlock(&queues[own].lock);
    if (taken == NULL)
        return 0;
    *task = *taken;
    free(taken);
    return 1;
}

static int dequeue_any(struct map_task *task, int own)
{
    for (int other = 0; other < current->threads; other++)
        if (dequeue(task, (own + other) % current->threads))
            return 1;
    return 0;
}

void emit(int key, long value)
{
    struct bin *bin = &bins[key];
    pthread_mutex_lock(&bin->lock);
    bin->value += value;
    bin->times++;
    pthread_mutex_unlock(&bin->lock);
}

static void *work(void *unused)
{
    struct map_task task;
    int own, generation = 0;
    pthread_mutex_lock(&pool.lock);
    own = pool.next++;
    pthread_mutex_unlock(&pool.lock);
    for (;;) {
        pthread_mutex_lock(&pool.lock);
        while (pool.generation == generation && !pool.stops)
            pthread_cond_wait(&pool.has_work, &pool.lock);
        if (pool.stops) {
            pthread_mutex_unlock(&pool.lock);
            return unused;
        }
        generation = pool.generation;
        pthread_mutex_unlock(&pool.lock);
        while (dequeue_any(&task, own))
            current->map(&task);
        pthread_mutex_lock(&pool.lock);
        if (--pool.working == 0)
            pthread_cond_signal(&pool.is_done);
        pthread_mutex_unlock(&pool.lock);
    }
}

static void run_all(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.working = current->threads;
    pool.generation++;
    pthread_cond_broadcast(&pool.has_work);
    while (pool.working > 0)
        pthread_cond_wait(&pool.is_done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

void map_reduce(const struct map_reduce *job)
{
    pthread_t threads[MOST_THREADS];
    current = job;
    queues = calloc((size_t)job->threads, sizeof *queues);
    if (queues == NULL)
        exit(1);
    for (int number = 0; number < job->threads; number++)
        pthread_mutex_init(&queues[number].lock, NULL);
    for (int key = 0; key < KEYS; key++)
        pthread_mutex_init(&bins[key].lock, NULL);
    for (int number = 0; number < job->threads; number++)
        if (pthread_create(&threads[number], NULL, work, NULL) != 0)
            exit(1);
    /* Half of it, then the rest: the pool is used again. */
    for (int half = 0; half < 2; half++) {
        long end = half ? job->elements : job->elements / 2, number = 0;
        for (long first = half ? job->elements / 2 : 0; first < end; first += job->chunk)
            enqueue(number++, first, first + job->chunk < end ? job->chunk : end - first);
        run_all();
    }
    pthread_mutex_lock(&pool.lock);
    pool.stops = 1;
    pthread_cond_broadcast(&pool.has_work);
    pthread_mutex_unlock(&pool.lock);
    for (int number = 0; number < job->threads; number++)
        pthread_join(threads[number], NULL);
}

long reduced(int key)
{
    long value;
    pthread_mutex_lock(&bins[key].lock);
    value = bins[key].value;
    pthread_mutex_unlock(&bins[key].lock);
    return value;
}

long tasks_run(void)
{
    long taken = 0;
    for (int number = 0; number < current->threads; number++) {
        pthread_mutex_lock(&queues[number].lock);
        taken += queues[number].taken;
        pthread_mutex_unlock(&queues[number].lock);
    }
    return taken;
}
