/*
 * How suspended requests come back to their HTTP thread. Waking a thread costs more than all else in a resume, and one
 * commit resumes many requests of the same few threads. So the first resume wakes the thread, through the library;
 * requests that are resumed before the thread has noticed it are put on a list, and the thread resumes them itself.
 *
 * One wake-up a thread. dt_wakeup_resume: any thread; dt_wakeup_of_thread, dt_wakeup_noticed: the HTTP thread.
 */
#ifndef DT_API_HTTP_WAKEUP_H
#define DT_API_HTTP_WAKEUP_H

#include <pthread.h>
#include <stdbool.h>

struct MHD_Connection;
struct dt_wakeup;

/* A connection that waits for its thread. */
struct dt_wakeup_entry {
    struct MHD_Connection *mhd;
    struct dt_wakeup *wakeup;     /* of its thread */
    struct dt_wakeup_entry *next; /* under the wake-up's lock */
};

/* All wake-ups of a server. */
struct dt_wakeups {
    pthread_mutex_t lock;
    struct dt_wakeup *first; /* under the lock */
    bool closing;            /* under the lock */
};

void dt_wakeups_init(struct dt_wakeups *wakeups);
/* The threads have ended. */
void dt_wakeups_clear(struct dt_wakeups *wakeups);
/*
 * Makes every resume go through the library at once from here on, and resumes what is on lists: the library ends the
 * process when it is stopped while something is suspended. Any thread.
 */
void dt_wakeups_close(struct dt_wakeups *wakeups);

/* The wake-up of the calling thread, made at its first call. NULL: memory is out. */
struct dt_wakeup *dt_wakeup_of_thread(struct dt_wakeups *wakeups);
/*
 * Resumes a connection. may_wait: it may be put on the list; only where the library calls us after each resume, as it
 * need not do in the middle of a body.
 */
void dt_wakeup_resume(struct dt_wakeup_entry *entry, bool may_wait);
/* The thread is awake: resumes what is on the list. Called whenever a resumed request comes by or ends. */
void dt_wakeup_noticed(struct dt_wakeup *wakeup);

#endif
