/*
 * The one wait of a process in MySQL: a statement in which the server looks for the process, and which ends when
 * something that the process asks about has happened (procedure dt_wait in sql/). What it finds are hints: whoever is
 * woken looks itself. It locks nothing. A process at rest costs the server a statement in a few seconds this way, and
 * still hears in time. Who asks about what: watch.h.
 */
#ifndef DT_DISPATCH_WATCH_H
#define DT_DISPATCH_WATCH_H

#include "base/clock.h"
#include "base/config.h"
#include "scan.h"

#define DT_WATCH_DUE 1000 /* as dt_wait has it */

/* Bits, as dt_wait has them. */
enum { DT_WATCH_INBOX = 1, DT_WATCH_OPERATIONS = 2, DT_WATCH_SCHEDULES = 4, DT_WATCH_INTAKE = 7 };

/* What a process asks about, and what it knows of it. */
struct dt_watch {
    int64_t wait_ms; /* 0: not at all */
    int64_t process; /* processes.id: its turns among dispatchers */

    /* What is due, asked about by a dispatcher without an index: shards.owner; NULL = nobody asks. */
    const char *owner;
    int64_t due_from_ms; /* a near row that is due from then on ends the wait */
    /* What the caller knows; another one ends the wait. */
    int64_t generation, topics_version, leads;
    int64_t look_from_ms; /* what is due from then on is told */

    unsigned intake;      /* open rows of job_inbox, operations and schedules that are due: bits */
    int64_t intake_at_ms; /* when the next look at them is this process's: the last answer's */

    bool clock; /* the test clock: another version ends the wait */
    int64_t clock_version;
};
/* A shard's row as it is: its fence. */
struct dt_watched_row {
    unsigned shard;
    int64_t epoch, token, version;
};
struct dt_watched {
    int64_t generation, topics_version;
    int64_t leads;  /* stands for the owner's leaderships: another number when one begins, ends, or is halted */
    int64_t now_ms; /* by the clock by which jobs are due */
    size_t n_due;   /* DT_WATCH_DUE: perhaps more */
    size_t n_rows;
    struct dt_due due[DT_WATCH_DUE];           /* of any shard, in order of time */
    struct dt_watched_row rows[DT_SHARDS_MAX]; /* the owner's */
    unsigned intake;                           /* which of the bits that were asked about were found */
    int64_t intake_at_ms;
    int64_t clock_version; /* 0: there is no test clock */
};
/* Waits, and tells. It takes wait_ms at most, beside what the server takes for a look. */
DT_MUST_CHECK dt_status dt_store_watch(dt_store *store, const struct dt_watch *watch, struct dt_watched *out,
                                       struct dt_error *err);

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
