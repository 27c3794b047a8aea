/*
 * Owns the queue of slices and its threads: see slices.h. Refuses to know what is worked on.
 *
 * Invariant: a slice stands in the queue at most once, and is run by one thread at a time.
 */
#include "slices.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <utlist.h>

#include "base/assert.h"
#include "base/metrics.h"
#include "base/thread.h"

#define NICE 10 /* answers that somebody waits for come first when processors are scarce */

struct dt_slices {
    struct dt_thread *threads;
    size_t n_threads; /* the last of them may not have started */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Below: under the lock. */
    struct dt_slice *queue; /* utlist */
    size_t n;               /* queued or being run */
    bool stopping;
    dt_metric *queued;
};

static void count_locked(dt_slices *slices, int change)
{
    dt_assert(change > 0 || slices->n > 0);
    slices->n = change > 0 ? slices->n + 1 : slices->n - 1;
    dt_metric_set(slices->queued, (double)slices->n);
}

static void append_locked(dt_slices *slices, struct dt_slice *slice)
{
    DL_APPEND(slices->queue, slice);
    pthread_cond_signal(&slices->wake);
}

bool dt_slices_add(dt_slices *slices, struct dt_slice *slice)
{
    pthread_mutex_lock(&slices->lock);
    bool open = !slices->stopping;
    if (open) {
        count_locked(slices, 1);
        append_locked(slices, slice);
    }
    pthread_mutex_unlock(&slices->lock);
    return open;
}

static void run(void *arg)
{
    dt_slices *slices = arg;
    setpriority(PRIO_PROCESS, 0, NICE); /* of this thread alone; when it is not permitted it is as it was */
    pthread_mutex_lock(&slices->lock);
    for (;;) {
        while (!slices->queue && !slices->stopping)
            pthread_cond_wait(&slices->wake, &slices->lock);
        struct dt_slice *slice = slices->queue;
        if (!slice)
            break;
        DL_DELETE(slices->queue, slice);
        pthread_mutex_unlock(&slices->lock);
        bool again = slice->run(slice);
        pthread_mutex_lock(&slices->lock);
        if (again)
            append_locked(slices, slice);
        else
            count_locked(slices, -1);
    }
    pthread_mutex_unlock(&slices->lock);
}

dt_status dt_slices_start(size_t threads, dt_slices **out, struct dt_error *err)
{
    *out = NULL;
    dt_slices *slices = calloc(1, sizeof(*slices));
    if (!slices)
        return dt_fail(err, DT_NOMEM, "no memory for the threads of batches");
    pthread_mutex_init(&slices->lock, NULL);
    pthread_cond_init(&slices->wake, NULL);
    slices->queued = dt_gauge("duetime_api_turns", "Batches that are being taken apart, or wait for that.", "");
    slices->threads = calloc(threads, sizeof(*slices->threads));
    dt_status status = slices->threads ? DT_OK : DT_NOMEM;
    for (; status == DT_OK && slices->n_threads < threads; slices->n_threads++)
        status = dt_thread_start(&slices->threads[slices->n_threads], "slices", run, slices, NULL);
    if (status != DT_OK) {
        dt_slices_stop(slices);
        dt_slices_free(slices);
        return dt_fail(err, status, "the threads of batches cannot start");
    }
    *out = slices;
    return DT_OK;
}

void dt_slices_stop(dt_slices *slices)
{
    pthread_mutex_lock(&slices->lock);
    slices->stopping = true;
    pthread_cond_broadcast(&slices->wake);
    pthread_mutex_unlock(&slices->lock);
    for (size_t i = 0; i < slices->n_threads; i++)
        dt_thread_join(&slices->threads[i]);
    slices->n_threads = 0;
    dt_assert(!slices->queue && slices->n == 0);
}

void dt_slices_free(dt_slices *slices)
{
    if (!slices)
        return;
    free(slices->threads);
    pthread_mutex_destroy(&slices->lock);
    pthread_cond_destroy(&slices->wake);
    free(slices);
}
