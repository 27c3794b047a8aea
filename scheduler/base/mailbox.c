/*
 * The mailbox: a word of signal bits under a mutex and a condition on the monotonic clock.
 * Owns the bits; refuses to know what they mean. Invariant: a bit that was signalled is returned by exactly one wait.
 */
#include "base/mailbox.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct dt_mailbox {
    pthread_mutex_t mutex;
    pthread_cond_t posted;
    uint32_t bits;
};

static int init_condition(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);

    if (rc)
        return rc;
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (!rc)
        rc = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return rc;
}

dt_status dt_mailbox_new(dt_mailbox **out)
{
    dt_mailbox *box = calloc(1, sizeof(*box));

    *out = NULL;
    if (!box)
        return DT_NOMEM;
    if (pthread_mutex_init(&box->mutex, NULL)) {
        free(box);
        return DT_SYSTEM;
    }
    if (init_condition(&box->posted)) {
        pthread_mutex_destroy(&box->mutex);
        free(box);
        return DT_SYSTEM;
    }
    *out = box;
    return DT_OK;
}

void dt_mailbox_free(dt_mailbox *box)
{
    if (!box)
        return;
    pthread_cond_destroy(&box->posted);
    pthread_mutex_destroy(&box->mutex);
    free(box);
}

void dt_mailbox_signal(dt_mailbox *box, uint32_t bits)
{
    pthread_mutex_lock(&box->mutex);
    box->bits |= bits;
    if (box->bits)
        pthread_cond_signal(&box->posted);
    pthread_mutex_unlock(&box->mutex);
}

uint32_t dt_mailbox_wait(dt_mailbox *box, int64_t until_us)
{
    struct timespec until = {.tv_sec = (time_t)(until_us / 1000000), .tv_nsec = (long)(until_us % 1000000) * 1000};
    uint32_t bits;
    int rc = 0;

    pthread_mutex_lock(&box->mutex);
    while (!box->bits && until_us > 0 && rc != ETIMEDOUT)
        rc = until_us == INT64_MAX ? pthread_cond_wait(&box->posted, &box->mutex)
                                   : pthread_cond_timedwait(&box->posted, &box->mutex, &until);
    bits = box->bits;
    box->bits = 0;
    pthread_mutex_unlock(&box->mutex);
    return bits;
}
