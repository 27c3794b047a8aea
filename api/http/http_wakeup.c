/*
 * Owns the lists of resumed connections: see http_wakeup.h. Refuses to know requests.
 *
 * Invariants: a connection is on at most one list, and only while a resume is on its way to its thread (sent); after
 * close no list gets anything.
 */
#include "http_wakeup.h"

#include <stdlib.h>

#include "http_mhd.h"

struct dt_wakeup {
    struct dt_wakeup *next; /* of all, constant */
    pthread_mutex_t lock;
    /* Below: under the lock. */
    bool sent;   /* a resume is on its way to the thread */
    bool closed; /* the server ends: every resume goes through the library */
    struct dt_wakeup_entry *waiting;
};

void dt_wakeups_init(struct dt_wakeups *wakeups)
{
    pthread_mutex_init(&wakeups->lock, NULL);
}

void dt_wakeups_clear(struct dt_wakeups *wakeups)
{
    while (wakeups->first) {
        struct dt_wakeup *wakeup = wakeups->first;
        wakeups->first = wakeup->next;
        pthread_mutex_destroy(&wakeup->lock);
        free(wakeup);
    }
    pthread_mutex_destroy(&wakeups->lock);
}

struct dt_wakeup *dt_wakeup_of_thread(struct dt_wakeups *wakeups)
{
    static _Thread_local struct dt_wakeup *mine;
    static _Thread_local const struct dt_wakeups *mine_of;
    if (mine_of == wakeups)
        return mine;
    struct dt_wakeup *wakeup = calloc(1, sizeof(*wakeup));
    if (!wakeup)
        return NULL;
    pthread_mutex_init(&wakeup->lock, NULL);
    pthread_mutex_lock(&wakeups->lock);
    wakeup->closed = wakeups->closing;
    wakeup->next = wakeups->first;
    wakeups->first = wakeup;
    pthread_mutex_unlock(&wakeups->lock);
    mine = wakeup;
    mine_of = wakeups;
    return wakeup;
}

/* False: the thread is not being woken, and the caller wakes it. */
static bool wait_for_wakeup(struct dt_wakeup_entry *entry)
{
    struct dt_wakeup *wakeup = entry->wakeup;
    pthread_mutex_lock(&wakeup->lock);
    bool sent = wakeup->sent && !wakeup->closed;
    if (sent) {
        entry->next = wakeup->waiting;
        wakeup->waiting = entry;
    }
    wakeup->sent = true;
    pthread_mutex_unlock(&wakeup->lock);
    return sent;
}

void dt_wakeup_resume(struct dt_wakeup_entry *entry, bool may_wait)
{
    if (may_wait && wait_for_wakeup(entry))
        return;
    dt_mhd_resume(entry->mhd);
}

void dt_wakeup_noticed(struct dt_wakeup *wakeup)
{
    pthread_mutex_lock(&wakeup->lock);
    struct dt_wakeup_entry *entry = wakeup->waiting;
    wakeup->waiting = NULL;
    wakeup->sent = false;
    pthread_mutex_unlock(&wakeup->lock);
    while (entry) {
        struct dt_wakeup_entry *next = entry->next;
        dt_mhd_resume(entry->mhd);
        entry = next;
    }
}

void dt_wakeups_close(struct dt_wakeups *wakeups)
{
    pthread_mutex_lock(&wakeups->lock);
    wakeups->closing = true;
    struct dt_wakeup *first = wakeups->first;
    pthread_mutex_unlock(&wakeups->lock);
    for (struct dt_wakeup *wakeup = first; wakeup; wakeup = wakeup->next) {
        pthread_mutex_lock(&wakeup->lock);
        wakeup->closed = true;
        pthread_mutex_unlock(&wakeup->lock);
        dt_wakeup_noticed(wakeup);
    }
}
