/* Light between patches, in the manner of SPLASH's Radiosity: a queue of tasks for each thread, from which others steal, a list of
 * tasks to be used again, a lock for each patch, and counters that all threads share. */
#include "parallel.h"
#include <sched.h>

#define PATCHES 64
#define DEEPEST 3

struct task {
    struct task *next;
    int from, to, depth;
    unsigned long form_factor;
};

struct queue {
    LOCKDEC(lock);
    struct task *first, *last;
    long length;
    LOCKDEC(spare_lock);
    struct task *spare;
};

struct patch {
    LOCKDEC(lock);
    unsigned long energy, gathered;
    long visits;
};

struct global {
    LOCKDEC(number_lock);
    int next_number;
    LOCKDEC(pending_lock);
    long pending, done, allocated;
    LOCKDEC(energy_lock);
    unsigned long energy;
    long rounds, stolen;
    BARDEC(barrier);
    int threads;
    long size;
};

static struct global *global;
static struct queue queues[MOST_THREADS];
static struct patch patches[PATCHES];

static struct task *new_task(int own)
{
    struct queue *queue = &queues[own];
    struct task *task;
    LOCK(queue->spare_lock)
    task = queue->spare;
    if (task == NULL) {
        UNLOCK(queue->spare_lock)
        LOCK(global->pending_lock)
        global->allocated++;
        UNLOCK(global->pending_lock)
        task = malloc(sizeof *task);
        if (task == NULL)
            exit(1);
        return task;
    }
    queue->spare = task->next;
    UNLOCK(queue->spare_lock)
    return task;
}

static void free_task(int own, struct task *task)
{
    LOCK(queues[own].spare_lock)
    task->next = queues[own].spare;
    queues[own].spare = task;
    UNLOCK(queues[own].spare_lock)
}

static void enqueue(int own, struct task *task)
{
    struct queue *queue = &queues[own];
    task->next = NULL;
    LOCK(global->pending_lock)
    global->pending++;
    UNLOCK(global->pending_lock)
    LOCK(queue->lock)
    /* Tasks that lead to others come last, so that a thief has work. */
    if (queue->last == NULL) {
        queue->first = queue->last = task;
    } else if (task->depth == 0) {
        queue->last->next = task;
        queue->last = task;
    } else {
        task->next = queue->first;
        queue->first = task;
    }
    queue->length++;
    UNLOCK(queue->lock)
}

static struct task *take_from(struct queue *queue)
{
    struct task *task;
    LOCK(queue->lock)
    if (queue->length == 0) {
        UNLOCK(queue->lock)
        return NULL;
    }
    task = queue->first;
    queue->first = task->next;
    if (queue->first == NULL)
        queue->last = NULL;
    queue->length--;
    UNLOCK(queue->lock)
    return task;
}

static struct task *dequeue(int own)
{
    struct task *task = take_from(&queues[own]);
    for (int other = 1; task == NULL && other < global->threads; other++) {
        task = take_from(&queues[(own + other) % global->threads]);
        if (task != NULL) {
            LOCK(global->energy_lock)
            global->stolen++;
            UNLOCK(global->energy_lock)
        }
    }
    return task;
}

static unsigned long visibility(unsigned long from, unsigned long to, int depth)
{
    unsigned long seen = 0;
    for (int ray = 0; ray < 16; ray++)
        seen += mixed(from * 4096 + to * 64 + (unsigned long)(depth * 16 + ray)) & 15;
    return seen;
}

static void interact(int own, const struct task *task)
{
    struct patch *to = &patches[task->to];
    unsigned long form_factor = task->form_factor * visibility((unsigned long)task->from, (unsigned long)task->to, task->depth);
    if (task->depth == DEEPEST) {
        unsigned long energy;
        LOCK(patches[task->from].lock)
        energy = patches[task->from].energy;
        UNLOCK(patches[task->from].lock)
        LOCK(to->lock)
        to->gathered += energy * form_factor;
        to->visits++;
        UNLOCK(to->lock)
        return;
    }
    for (int half = 0; half < 2; half++) {
        struct task *finer = new_task(own);
        *finer = *task;
        finer->depth++;
        finer->form_factor = (form_factor + (unsigned long)half) & 0xffff;
        enqueue(own, finer);
    }
}

/* One round: each patch sends its light to others until no task is left. */
static void gather(int own)
{
    for (int from = own; from < PATCHES; from += global->threads) {
        for (long to = 1; to <= global->size; to++) {
            struct task *task = new_task(own);
            task->from = from;
            task->to = (int)((from + to) % PATCHES);
            task->depth = 0;
            task->form_factor = (unsigned long)(from * to);
            enqueue(own, task);
        }
    }
    BARRIER(global->barrier, global->threads)
    for (;;) {
        struct task *task = dequeue(own);
        if (task == NULL) {
            long pending;
            LOCK(global->pending_lock)
            pending = global->pending;
            UNLOCK(global->pending_lock)
            if (pending == 0)
                break;
            sched_yield();
            continue;
        }
        interact(own, task);
        free_task(own, task);
        LOCK(global->pending_lock)
        global->pending--;
        global->done++;
        UNLOCK(global->pending_lock)
    }
    BARRIER(global->barrier, global->threads)
}

/* What was gathered is what is sent in the next round. Two locks nest. */
static void settle(int own)
{
    for (int number = own; number < PATCHES; number += global->threads) {
        struct patch *patch = &patches[number];
        LOCK(patch->lock)
        patch->energy = (patch->energy + patch->gathered) & 0xffffff;
        patch->gathered = 0;
        LOCK(global->energy_lock)
        global->energy += patch->energy;
        UNLOCK(global->energy_lock)
        UNLOCK(patch->lock)
    }
    BARRIER(global->barrier, global->threads)
}

/* The last thread of a round counts it; it lets others go on while it looks at the patches. */
static void count_round(void)
{
    unsigned long least = ~0UL;
    LOCK(global->energy_lock)
    if (++global->rounds % global->threads != 0) {
        UNLOCK(global->energy_lock)
        return;
    }
    UNLOCK(global->energy_lock)
    for (int number = 0; number < PATCHES; number++) {
        LOCK(patches[number].lock)
        if (patches[number].energy < least)
            least = patches[number].energy;
        UNLOCK(patches[number].lock)
    }
    LOCK(global->energy_lock)
    global->energy += least;
    UNLOCK(global->energy_lock)
}

static void *radiate(void *unused)
{
    int own;
    LOCK(global->number_lock)
    own = global->next_number++;
    UNLOCK(global->number_lock)
    for (int round = 0; round < 3; round++) {
        gather(own);
        settle(own);
        count_round();
        BARRIER(global->barrier, global->threads)
    }
    return unused;
}

int main(int count, char **arguments)
{
    struct options options = options_of(count, arguments, 4);
    global = calloc(1, sizeof *global);
    if (global == NULL)
        return 1;
    LOCKINIT(global->number_lock)
    LOCKINIT(global->pending_lock)
    LOCKINIT(global->energy_lock)
    BARINIT(global->barrier)
    global->threads = options.threads;
    global->size = options.size;
    for (int number = 0; number < MOST_THREADS; number++) {
        LOCKINIT(queues[number].lock)
        LOCKINIT(queues[number].spare_lock)
    }
    for (int number = 0; number < PATCHES; number++) {
        LOCKINIT(patches[number].lock)
        patches[number].energy = mixed((unsigned long)number) & 0xffff;
    }
    run_threads(options.threads, radiate);
    long visits = 0;
    for (int number = 0; number < PATCHES; number++)
        visits += patches[number].visits;
    printf("radiosity: energy %lu, %ld tasks, %ld visits\n", global->energy, global->done, visits);
    print_time(&options, global->done);
    return 0;
}
