/*
 * The one wait of a process in MySQL: a call of the procedure dt_wait (sql/), which returns when one of the requested
 * conditions becomes true. The answer is a hint: the part of the process that is woken reads MySQL itself. The wait
 * locks nothing. So an idle process costs the server one statement every few seconds, and still notices changes in
 * time.
 *
 * The watcher is a process's thread that waits, with its own connection, for all parts that want to be woken. Each such
 * part is a listener with two functions:
 *
 *   ask(arg, &watch)                  adds the listener's conditions, and the values that the listener knows. It may
 *                                     shorten watch->wait_ms: a condition that is requested during a wait is only part
 *                                     of the next statement
 *   told(arg, status, &seen, store)   gets the answer if the status is OK. Any other status: MySQL did not answer, or
 *                                     EXECUTE on dt_wait is not granted; until the next OK the listener polls at its
 *                                     own interval
 *
 * Both functions run on the watcher's thread, and return at once; told may use the watcher's store for one quick
 * statement.
 */
#pragma once

#include "base/clock.h"
#include "base/config.h"
#include "scan.h"

#define DT_WATCH_DUE 1000 /* maximal number of due rows in an answer; the procedure dt_wait has the same limit */

/* Bits for kinds of intake work. The procedure dt_wait in MySQL uses the same bits. */
enum { DT_WATCH_INBOX = 1, DT_WATCH_OPERATIONS = 2, DT_WATCH_SCHEDULES = 4, DT_WATCH_INTAKE = 7 };

/* The conditions that end a wait: due rows, intake work, or a value that differs from the caller's. */
struct dt_watch {
    int64_t wait_ms; /* longest wait; 0: do not wait */
    int64_t process; /* processes.id; decides which dispatcher gets an answer first */

    /* If the caller is a dispatcher without an index that waits for due rows: the owner in the rows of its shards
     * (shards.owner). Otherwise NULL. */
    const char *owner;
    int64_t due_from_ms; /* a near row that is due at this time or later ends the wait when it is due */
    /* Values that the caller knows; if one of them has changed in MySQL, the wait ends. */
    int64_t generation, topics_version, leads;
    int64_t look_from_ms; /* rows that are due at this time or later are returned */

    /* Bits of the intake work that ends the wait: rows of job_inbox, due operations, due schedules. */
    unsigned intake;
    int64_t intake_at_ms; /* when this process next checks for intake work, as the last answer said */

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
    int64_t now_ms; /* MySQL's clock, or the test clock; it decides what is due */
    size_t n_due;   /* number of rows in `due`; if it is DT_WATCH_DUE, more rows may be due */
    size_t n_rows;
    struct dt_due due[DT_WATCH_DUE];           /* rows of any shard, in order of time */
    struct dt_watched_row rows[DT_SHARDS_MAX]; /* rows of the shards that the owner leads */
    unsigned intake;                           /* those of the requested bits for which there is work */
    int64_t intake_at_ms;
    int64_t clock_version; /* version of the test clock that the caller knows; 0: no test clock */
};
/* Waits at most wait_ms, and as long as the server's search takes, and returns what ended the wait. */
dt_status dt_store_watch(dt_store *store, const struct dt_watch *watch, struct dt_watched *out, struct dt_error *err);

#define DT_WATCH_MS      INT64_C(2500) /* longest wait_ms: MySQL answers after this time in any case */
#define DT_WATCH_BUSY_MS INT64_C(200)  /* wait_ms that a listener sets if it has work, but no condition to wait for */

typedef struct dt_watcher dt_watcher;

/* A listener must stay at the same address from dt_watcher_add to dt_watcher_stop. */
struct dt_watch_listener {
    void (*ask)(void *arg, struct dt_watch *watch);
    void (*told)(void *arg, dt_status status, const struct dt_watched *seen, dt_store *store);
    void *arg;
    struct dt_watch_listener *next; /* used by the watcher */
};

/* What a watcher uses. Pointers are borrowed and must outlive the watcher. ref gets samples of MySQL's clock. process:
 * id of the process's row in `processes`. */
struct dt_watcher_env {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref;
    int64_t process;
};
dt_status dt_watcher_new(const struct dt_watcher_env *env, dt_watcher **out, struct dt_error *err);
/* Adds a listener. Must be called before dt_watcher_start. If the watcher is NULL, this function and the functions
 * below do nothing. */
void dt_watcher_add(dt_watcher *watcher, struct dt_watch_listener *listener);
/* Starts the thread, if there is a listener. */
dt_status dt_watcher_start(dt_watcher *watcher, struct dt_error *err);
/* Ends the wait soon: listeners get SHUTDOWN as their last call. Does not wait for the thread. */
void dt_watcher_leave(dt_watcher *watcher);
/* Ends the wait soon, as dt_watcher_leave does, and returns when the thread has ended. */
void dt_watcher_stop(dt_watcher *watcher);
/* Frees the watcher. Must be called after dt_watcher_stop. */
void dt_watcher_free(dt_watcher *watcher);
