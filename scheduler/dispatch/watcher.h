/*
 * The watcher: the one thread of a process that waits in MySQL (watch.h), with a connection of its own, for all parts
 * that want to be woken. Each of them is a listener:
 *
 *   ask(arg, &watch)                  adds what it waits for, and what it knows. It may shorten watch->wait_ms: what is
 *                                     asked about later is seen only by the next statement
 *   told(arg, status, &seen, store)   OK: what was found. Otherwise MySQL did not answer, or does not allow the wait
 *                                     (EXECUTE on dt_wait): until the next OK the listener looks at its own pace
 *
 * Both run on the watcher's thread, and return at once; told may use the watcher's store for one quick statement.
 */
#ifndef DT_STORE_WATCHER_H
#define DT_STORE_WATCHER_H

#include "base/clock.h"
#include "base/config.h"
#include "watch.h"

#define DT_WATCH_MS      INT64_C(2500) /* a wait that nothing ends: within this time an answer comes */
#define DT_WATCH_BUSY_MS INT64_C(200)  /* a wait while a listener does not ask, because it is at work */

typedef struct dt_watcher dt_watcher;

/* Its owner's memory; stays where it is from dt_watcher_add until dt_watcher_stop. */
struct dt_watch_listener {
    void (*ask)(void *arg, struct dt_watch *watch);
    void (*told)(void *arg, dt_status status, const struct dt_watched *seen, dt_store *store);
    void *arg;
    struct dt_watch_listener *next; /* the watcher's */
};

/* Borrowed; outlives the watcher. ref is fed with samples of MySQL's clock. process: processes.id. */
struct dt_watcher_env {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref;
    int64_t process;
};
DT_MUST_CHECK dt_status dt_watcher_new(const struct dt_watcher_env *env, dt_watcher **out, struct dt_error *err);
/* Before dt_watcher_start. A watcher that is NULL listens to nobody, here and below. */
void dt_watcher_add(dt_watcher *watcher, struct dt_watch_listener *listener);
/* Starts the thread, if there is a listener. */
DT_MUST_CHECK dt_status dt_watcher_start(dt_watcher *watcher, struct dt_error *err);
/* Ends the wait soon: listeners are told SHUTDOWN, and nothing after that. Does not wait for the thread. */
void dt_watcher_leave(dt_watcher *watcher);
/* As dt_watcher_leave, and returns when the thread has ended. */
void dt_watcher_stop(dt_watcher *watcher);
/* After dt_watcher_stop. */
void dt_watcher_free(dt_watcher *watcher);

#endif
