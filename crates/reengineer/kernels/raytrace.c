/* Rays through a scene, in the manner of SPLASH's Raytrace: a pool of jobs for each thread, all in one array of locks, from which
 * others take when theirs is empty, a number for each ray by a lock that all threads meet at, and memory that threads share. */
#include "parallel.h"

#define SPHERES 24
#define BLOCK 8
#define NO_JOB 0
#define A_JOB 1

struct job {
    struct job *next;
    int x, y, width, height;
};

struct sphere {
    long x, y, z, radius;
};

struct memory {
    LOCKDEC(lock);
    char *free, *end;
    long blocks;
};

struct global {
    LOCKDEC(number_lock);
    int next_number;
    LOCKDEC(ray_lock);
    long next_ray;
    pthread_mutex_t pool_lock[MOST_THREADS];
    struct job *pool[MOST_THREADS];
    int is_empty[MOST_THREADS];
    LOCKDEC(sum_lock);
    unsigned long light;
    long hits, shadows, deepest;
    pthread_mutex_t ready_lock;
    pthread_cond_t ready;
    int is_ready, arrived;
    int threads;
    long size;
};

static struct global *gm;
static struct memory memory;
static struct sphere spheres[SPHERES];

static void *shared_memory(size_t size)
{
    char *block;
    size = (size + 15) & ~(size_t)15;
    LOCK(memory.lock)
    if ((size_t)(memory.end - memory.free) < size) {
        memory.free = malloc(1 << 16);
        if (memory.free == NULL) {
            UNLOCK(memory.lock)
            fputs("no memory\n", stderr);
            exit(1);
        }
        memory.end = memory.free + (1 << 16);
        memory.blocks++;
    }
    block = memory.free;
    memory.free += size;
    UNLOCK(memory.lock)
    return block;
}

static void put_job(const struct job *job, int pid)
{
    struct job *entry = shared_memory(sizeof *entry);
    *entry = *job;
    ALOCK(gm->pool_lock, pid)
    entry->next = gm->pool[pid];
    gm->pool[pid] = entry;
    gm->is_empty[pid] = 0;
    AUNLOCK(gm->pool_lock, pid)
}

static int get_job(struct job *job, int pid)
{
    struct job *entry;
    ALOCK(gm->pool_lock, pid)
    entry = gm->pool[pid];
    if (!entry) {
        gm->is_empty[pid] = 1;
        AUNLOCK(gm->pool_lock, pid)
        return NO_JOB;
    }
    gm->pool[pid] = entry->next;
    AUNLOCK(gm->pool_lock, pid)
    *job = *entry;
    return A_JOB;
}

static int get_any_job(struct job *job, int pid)
{
    int from = pid;
    do {
        if (get_job(job, from) == A_JOB)
            return A_JOB;
        from = (from + 1) % gm->threads;
    } while (from != pid);
    return NO_JOB;
}

/* All threads wait until the first has made all jobs. */
static void wait_until_ready(int pid)
{
    pthread_mutex_lock(&gm->ready_lock);
    gm->arrived++;
    if (pid == 0) {
        while (gm->arrived < gm->threads)
            pthread_cond_wait(&gm->ready, &gm->ready_lock);
        gm->is_ready = 1;
    } else if (gm->arrived == gm->threads) {
        pthread_cond_broadcast(&gm->ready);
    }
    while (!gm->is_ready)
        pthread_cond_wait(&gm->ready, &gm->ready_lock);
    pthread_cond_broadcast(&gm->ready);
    pthread_mutex_unlock(&gm->ready_lock);
}

/* The nearest sphere that a ray meets, in fixed-point numbers: 10 bits behind the point. */
static int nearest(long x, long y, long dx, long dy, long *at)
{
    int found = -1;
    long best = 1L << 40;
    for (int number = 0; number < SPHERES; number++) {
        const struct sphere *sphere = &spheres[number];
        long px = x + (dx * sphere->z >> 10) - sphere->x, py = y + (dy * sphere->z >> 10) - sphere->y;
        long inside = sphere->radius * sphere->radius - px * px - py * py;
        if (inside > 0 && sphere->z - (inside >> 12) < best) {
            best = sphere->z - (inside >> 12);
            found = number;
        }
    }
    *at = best;
    return found;
}

static unsigned long trace(long x, long y, long dx, long dy, int depth)
{
    long ray, at;
    LOCK(gm->ray_lock)
    ray = gm->next_ray++;
    UNLOCK(gm->ray_lock)
    int hit = nearest(x, y, dx, dy, &at);
    if (hit < 0)
        return 1;
    LOCK(gm->sum_lock)
    gm->hits++;
    if (depth > gm->deepest) {
        gm->deepest = depth;
    }
    if (ray < 0 || depth == 3) {
        gm->shadows++;
        UNLOCK(gm->sum_lock)
        return (unsigned long)at & 255;
    }
    UNLOCK(gm->sum_lock)
    const struct sphere *sphere = &spheres[hit];
    return ((unsigned long)at & 1023) + trace(x + sphere->radius / 2, y - sphere->radius / 3, -dy, dx, depth + 1);
}

static void render(const struct job *job)
{
    unsigned long light = 0;
    for (int y = job->y; y < job->y + job->height; y++)
        for (int x = job->x; x < job->x + job->width; x++)
            light += trace((long)x << 10, (long)y << 10, x & 63, y & 31, 0) * (unsigned long)(x ^ y);
    LOCK(gm->sum_lock)
    gm->light += light;
    UNLOCK(gm->sum_lock)
}

static void *work(void *unused)
{
    struct job job;
    int pid;
    LOCK(gm->number_lock)
    pid = gm->next_number++;
    UNLOCK(gm->number_lock)
    for (long block = pid; block < gm->size * gm->size; block += gm->threads) {
        job = (struct job){ NULL, (int)(block % gm->size) * BLOCK, (int)(block / gm->size) * BLOCK, BLOCK, BLOCK };
        put_job(&job, pid);
    }
    wait_until_ready(pid);
    while (get_any_job(&job, pid) == A_JOB)
        render(&job);
    return unused;
}

int main(int count, char **arguments)
{
    struct options options = options_of(count, arguments, 12);
    gm = calloc(1, sizeof *gm);
    if (gm == NULL)
        return 1;
    LOCKINIT(memory.lock)
    LOCKINIT(gm->number_lock)
    LOCKINIT(gm->ray_lock)
    LOCKINIT(gm->sum_lock)
    LOCKINIT(gm->ready_lock)
    pthread_cond_init(&gm->ready, NULL);
    for (int pid = 0; pid < MOST_THREADS; pid++)
        LOCKINIT(gm->pool_lock[pid])
    gm->threads = options.threads;
    gm->size = options.size;
    for (long number = 0; number < SPHERES; number++) {
        unsigned long random = mixed((unsigned long)number + 1);
        long reach = options.size * BLOCK << 10;
        spheres[number] = (struct sphere){ (long)(random % (unsigned long)reach), (long)((random >> 20) % (unsigned long)reach),
            1024 + (number << 9), 4096 + (long)(random >> 50) };
    }
    run_threads(options.threads, work);
    printf("raytrace: light %lu, %ld rays, %ld hits, %ld shadows, depth %ld\n", gm->light, gm->next_ray, gm->hits, gm->shadows,
        gm->deepest);
    print_time(&options, gm->next_ray);
    return 0;
}
