/*
 * Owns the queue of pieces of work and its threads: see turns.h. Refuses to know what is worked on.
 *
 * Invariant: a turn stands in the queue at most once, and is run by one thread at a time.
 */
#include "turns.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/metrics.h"

#define NICE 5 /* answers that somebody waits for come first when processors are scarce */

struct dt_turns {
    pthread_t *threads;
    size_t n_threads; /* started */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Below: under the lock. */
    struct dt_turn *head, **tail;
    size_t n; /* queued or being run */
    bool stopping;
    dt_metric *queued;
};

static void count_locked(dt_turns *turns, int change)
{
    turns->n = change > 0 ? turns->n + 1 : turns->n - 1;
    dt_metric_set(turns->queued, (double)turns->n);
}

static void append_locked(dt_turns *turns, struct dt_turn *turn)
{
    turn->next = NULL;
    *turns->tail = turn;
    turns->tail = &turn->next;
    pthread_cond_signal(&turns->wake);
}

bool dt_turns_add(dt_turns *turns, struct dt_turn *turn)
{
    pthread_mutex_lock(&turns->lock);
    bool open = !turns->stopping;
    if (open) {
        count_locked(turns, 1);
        append_locked(turns, turn);
    }
    pthread_mutex_unlock(&turns->lock);
    return open;
}

/* NULL: the end, when all is done. */
static struct dt_turn *take_locked(dt_turns *turns)
{
    while (!turns->head && !turns->stopping)
        pthread_cond_wait(&turns->wake, &turns->lock);
    struct dt_turn *turn = turns->head;
    if (turn)
        turns->head = turn->next;
    if (!turns->head)
        turns->tail = &turns->head;
    return turn;
}

static void *run(void *arg)
{
    dt_turns *turns = arg;
    setpriority(PRIO_PROCESS, 0, NICE); /* of this thread alone; when it is not permitted it is as it was */
    pthread_mutex_lock(&turns->lock);
    for (struct dt_turn *turn; (turn = take_locked(turns)) != NULL;) {
        pthread_mutex_unlock(&turns->lock);
        bool again = turn->run(turn);
        pthread_mutex_lock(&turns->lock);
        if (again)
            append_locked(turns, turn);
        else
            count_locked(turns, -1);
    }
    pthread_mutex_unlock(&turns->lock);
    return NULL;
}

dt_status dt_turns_start(size_t threads, dt_turns **out, struct dt_error *err)
{
    *out = NULL;
    dt_turns *turns = calloc(1, sizeof(*turns));
    if (!turns)
        return dt_fail(err, DT_NOMEM, "no memory for the threads of batches");
    pthread_mutex_init(&turns->lock, NULL);
    pthread_cond_init(&turns->wake, NULL);
    turns->tail = &turns->head;
    turns->queued = dt_gauge("duetime_api_turns", "Arrays of jobs that are being taken apart, or wait for that.", "");
    turns->threads = calloc(threads, sizeof(*turns->threads));
    dt_status status = turns->threads ? DT_OK : DT_NOMEM;
    for (; status == DT_OK && turns->n_threads < threads; turns->n_threads++)
        if (pthread_create(&turns->threads[turns->n_threads], NULL, run, turns) != 0) {
            status = DT_SYSTEM;
            break;
        }
    if (status != DT_OK) {
        dt_turns_stop(turns);
        dt_turns_free(turns);
        return dt_fail(err, status, "the threads of batches cannot start");
    }
    *out = turns;
    return DT_OK;
}

void dt_turns_stop(dt_turns *turns)
{
    pthread_mutex_lock(&turns->lock);
    turns->stopping = true;
    pthread_cond_broadcast(&turns->wake);
    pthread_mutex_unlock(&turns->lock);
    for (size_t i = 0; i < turns->n_threads; i++)
        pthread_join(turns->threads[i], NULL);
    turns->n_threads = 0;
}

void dt_turns_free(dt_turns *turns)
{
    if (!turns)
        return;
    free(turns->threads);
    pthread_mutex_destroy(&turns->lock);
    pthread_cond_destroy(&turns->wake);
    free(turns);
}
