/* A mailbox is a word of bits under a mutex, and a condition. Invariants: a signalled bit is returned by exactly one
 * wait. A signal wakes the owner only if the owner sleeps and was not woken yet, because a thread that is woken for
 * each of ten thousand signals a second does little else. */
#include "thread.h"

#include <pthread.h>

#include "assert.h"
#include "clock.h"

struct dt_mailbox {
    pthread_mutex_t mutex;
    pthread_cond_t posted;
    uint32_t bits;
    uint32_t awaited; /* bits that end the owner's sleep; 0: the owner is awake, or was signalled */
};

dt_status dt_mailbox_new(dt_mailbox **out)
{
    dt_mailbox *box = calloc(1, sizeof(*box));
    *out = NULL;
    if (!box)
        return DT_NOMEM;
    if (pthread_mutex_init(&box->mutex, NULL) != 0)
        goto no_mutex;
    if (pthread_cond_init(&box->posted, NULL) != 0)
        goto no_condition;
    *out = box;
    return DT_OK;
no_condition:
    pthread_mutex_destroy(&box->mutex);
no_mutex:
    free(box);
    return DT_SYSTEM;
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
    if (box->bits & box->awaited) {
        box->awaited = 0;
        pthread_cond_signal(&box->posted);
    }
    pthread_mutex_unlock(&box->mutex);
}

uint32_t dt_mailbox_pause(dt_mailbox *box, int64_t until_us, uint32_t ends)
{
    bool in_time = until_us > 0;
    pthread_mutex_lock(&box->mutex);
    dt_assert_cmp(box->awaited, ==, 0); /* only the owner waits, so no other wait is under way */
    while (!(box->bits & ends) && in_time) {
        box->awaited = ends;
        in_time = dt_clock_wait(&box->posted, &box->mutex, until_us);
    }
    box->awaited = 0;
    const uint32_t bits = box->bits;
    box->bits = 0;
    pthread_mutex_unlock(&box->mutex);
    return bits;
}

uint32_t dt_mailbox_wait(dt_mailbox *box, int64_t until_us)
{
    return dt_mailbox_pause(box, until_us, UINT32_MAX);
}
