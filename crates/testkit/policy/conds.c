/* Conditions with mutexes of glibc's and of ours. A policy makes `glibcs` glibc's, and conditions, too; or, with an argument, glibc's
 * by default alone. */
#include "policy.h"

static pthread_mutex_t glibcs = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t ours = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t forwarded = PTHREAD_COND_INITIALIZER;
static pthread_cond_t served = PTHREAD_COND_INITIALIZER;

static int timed_out(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock) {
    struct timespec soon = in_ms(clock, 5);
    must(pthread_mutex_lock(mutex) == 0);
    int result = pthread_cond_timedwait(cond, mutex, &soon);
    check_held(mutex);
    must(pthread_mutex_unlock(mutex) == 0);
    return result;
}

struct game {
    pthread_cond_t *cond;
    pthread_mutex_t *mutex;
    int turn;
};

static void play(struct game *game, int me) {
    for (int i = 0; i < 200; i++) {
        must(pthread_mutex_lock(game->mutex) == 0);
        while (game->turn != me)
            must(pthread_cond_wait(game->cond, game->mutex) == 0);
        game->turn = !me;
        must((i % 2 ? pthread_cond_signal : pthread_cond_broadcast)(game->cond) == 0);
        must(pthread_mutex_unlock(game->mutex) == 0);
    }
}

static void *other_player(void *game) {
    play(game, 1);
    return NULL;
}

static void ping_pong(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    struct game game = {cond, mutex, 0};
    pthread_t thread;
    must(pthread_create(&thread, NULL, other_player, &game) == 0);
    play(&game, 0);
    must(pthread_join(thread, NULL) == 0);
}

int main(int count, char **arguments) {
    (void)arguments;
    int by_default = count > 1;
    /* Nobody waits: no effect, whoever will serve it. */
    must(pthread_cond_signal(&forwarded) == 0 && pthread_cond_broadcast(&served) == 0);

    must(timed_out(&forwarded, &glibcs, CLOCK_REALTIME) == ETIMEDOUT);
    ping_pong(&forwarded, &glibcs);
    must(timed_out(&served, &ours, CLOCK_REALTIME) == ETIMEDOUT);
    ping_pong(&served, &ours);
    /* Ours works with any mutex. */
    ping_pong(&served, &glibcs);
    /* glibc's would corrupt a mutex of ours. */
    must(timed_out(&forwarded, &ours, CLOCK_REALTIME) == (by_default ? ETIMEDOUT : EINVAL));

    pthread_condattr_t attr;
    pthread_cond_t made, unused;
    must(pthread_condattr_init(&attr) == 0 && pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    must(pthread_cond_init(&made, &attr) == 0 && pthread_cond_init(&unused, NULL) == 0);
    must(timed_out(&made, &glibcs, CLOCK_MONOTONIC) == ETIMEDOUT);
    ping_pong(&made, &glibcs);
    must(pthread_cond_destroy(&made) == 0 && pthread_cond_destroy(&unused) == 0);
    must(pthread_cond_init(&made, &attr) == 0);
    must(timed_out(&made, &ours, CLOCK_MONOTONIC) == ETIMEDOUT);
    must(pthread_cond_destroy(&made) == 0);
    must(pthread_cond_destroy(&forwarded) == 0 && pthread_cond_destroy(&served) == 0);
    puts("done");
}
