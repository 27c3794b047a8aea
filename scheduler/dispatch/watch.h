/*
 * The one wait of a process in MySQL: a call of the procedure dt_wait (sql/), which returns when something happens that
 * the process asked about. The answer is a hint: the part that is woken reads MySQL itself. The wait locks nothing. So
 * an idle process costs the server one statement every few seconds, and still notices changes in time.
 *
 * The watcher is the thread of a process that waits, with a connection of its own, for all parts that want to be woken.
 * Each of them is a listener:
 *
 *   ask(arg, &watch)                  adds what it waits for, and what it knows. It may shorten watch->wait_ms: what is
 *                                     asked about later is seen only by the next statement
 *   told(arg, status, &seen, store)   OK: what was found. Otherwise MySQL did not answer, or does not allow the wait
 *                                     (EXECUTE on dt_wait): until the next OK the listener polls at its own interval
 *
 * Both run on the watcher's thread, and return at once; told may use the watcher's store for one quick statement.
 */
#pragma once

#include "base/clock.h"
#include "base/config.h"
#include "scan.h"

#define DT_WATCH_DUE 1000 /* as dt_wait has it */

/* Bits, as dt_wait has them. */
enum { DT_WATCH_INBOX = 1, DT_WATCH_OPERATIONS = 2, DT_WATCH_SCHEDULES = 4, DT_WATCH_INTAKE = 7 };

/* What a process waits for, and the values that it knows. */
struct dt_watch {
    int64_t wait_ms; /* 0: do not wait */
    int64_t process; /* processes.id; decides its turn among dispatchers */

    /* shards.owner, if a dispatcher without an index waits for due rows; else NULL. */
    const char *owner;
    int64_t due_from_ms; /* a near row that is due at this time or later ends the wait */
    /* The caller's present values; a change ends the wait. */
    int64_t generation, topics_version, leads;
    int64_t look_from_ms; /* rows that are due from this time on are returned */

    unsigned intake;      /* bits: open rows of job_inbox, operations and schedules that are due */
    int64_t intake_at_ms; /* when this process checks them next, as the last answer said */

    bool clock; /* a new version of the test clock ends the wait */
    int64_t clock_version;
};
struct dt_watched_row {
    unsigned shard;
    int64_t epoch, token, version;
};
struct dt_watched {
    int64_t generation, topics_version;
    int64_t leads;  /* changes when a leadership of the owner begins, ends, or is halted */
    int64_t now_ms; /* by MySQL's clock, or the test clock, which decides what is due */
    size_t n_due;   /* if DT_WATCH_DUE, there may be more */
    size_t n_rows;
    struct dt_due due[DT_WATCH_DUE];           /* rows of any shard, in order of time */
    struct dt_watched_row rows[DT_SHARDS_MAX]; /* rows of the owner's shards */
    unsigned intake;                           /* the bits of the request that were found */
    int64_t intake_at_ms;
    int64_t clock_version; /* 0: there is no test clock */
};
/* Waits at most wait_ms, plus the time of the server's search, and returns what it found. */
DT_MUST_CHECK dt_status dt_store_watch(dt_store *store, const struct dt_watch *watch, struct dt_watched *out,
                                       struct dt_error *err);

#define DT_WATCH_MS      INT64_C(2500) /* if nothing ends a wait, the answer comes within this time */
#define DT_WATCH_BUSY_MS INT64_C(200)  /* the wait if a listener asks nothing because it is busy */

typedef struct dt_watcher dt_watcher;

/* The listener's owner keeps it at the same place from dt_watcher_add until dt_watcher_stop. */
struct dt_watch_listener {
    void (*ask)(void *arg, struct dt_watch *watch);
    void (*told)(void *arg, dt_status status, const struct dt_watched *seen, dt_store *store);
    void *arg;
    struct dt_watch_listener *next; /* used by the watcher */
};

/* Borrowed; outlives the watcher. ref gets samples of MySQL's clock. process: processes.id. */
struct dt_watcher_env {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref;
    int64_t process;
};
DT_MUST_CHECK dt_status dt_watcher_new(const struct dt_watcher_env *env, dt_watcher **out, struct dt_error *err);
/* Called before dt_watcher_start. If the watcher is NULL, this and the functions below do nothing. */
void dt_watcher_add(dt_watcher *watcher, struct dt_watch_listener *listener);
/* Starts the thread if there is a listener. */
DT_MUST_CHECK dt_status dt_watcher_start(dt_watcher *watcher, struct dt_error *err);
/* Ends the wait soon: listeners get SHUTDOWN, and nothing after that. Does not wait for the thread. */
void dt_watcher_leave(dt_watcher *watcher);
/* As dt_watcher_leave, but returns after the thread has ended. */
void dt_watcher_stop(dt_watcher *watcher);
/* Called after dt_watcher_stop. */
void dt_watcher_free(dt_watcher *watcher);
