/*
 * The inbox: rows of job_inbox, which applications insert in their own transactions, and how they are carried out.
 *
 *   find open rows ─▶ lock them ─▶ decode, carry out ─▶ remove the rows, or write their errors ─▶ COMMIT ─▶ index
 *                     └───────────────────────── one transaction ────────────────────────────────────────┘
 *
 * A row is removed in the transaction that carries it out, so each row takes effect once. Several processes may work at
 * the same time: a mover skips rows that another session has locked, and later rows of the same keys. Each search
 * begins with the first row, because a long transaction may commit rows with low ids late.
 */
#pragma once

#include "intents.h"
#include "job/job_json.h"

#define DT_INBOX_AT_ONCE  1000 /* most rows in one transaction */
#define DT_INBOX_PATIENCE 64

/* A mover carries out and removes rows of the inbox, for one thread. All zero at first, except members marked `in`. */
struct dt_inbox_mover {
    dt_store *store;           /* in */
    struct dt_job_rules rules; /* in */
    dt_json *json;             /* in */
    const dt_clock *clock;     /* in */
    struct dt_arena arena;     /* in: initialized; has the outputs of the last call; the caller clears it */
    struct dt_id_block ids;
    struct dt_intent_topics topics;
    int64_t after, last; /* the last search found open rows with ids above `after`; `last` is the highest of them */
    struct dt_inbox_patience {
        /* id of a row that waits until an attempt has left the in-flight list; since when it waits */
        int64_t id, since_us;
    } patience[DT_INBOX_PATIENCE];
    size_t n_patience;
};

struct dt_inbox_moved {
    size_t done, refused, waiting;
    const struct dt_job_move *moves; /* jobs whose time changed, for the index; in dt_inbox_mover.arena */
    size_t n_moves;
    bool again; /* the caller should try again at once: a topic that a row waits for was created */
};
/* Searches for open rows with ids above mover->after. *some: it found some. */
dt_status dt_store_look_at_inbox(struct dt_inbox_mover *mover, bool *some, struct dt_error *err);
/* Carries out the rows that the last search found. UNKNOWN: all of them were carried out, or none. */
dt_status dt_store_move_inbox(struct dt_inbox_mover *mover, struct dt_inbox_moved *out, struct dt_error *err);
/* Deletes rows whose error is older than before_ms, at most a thousand. Counts the rows with errors, up to 100,000. */
dt_status dt_store_purge_inbox(dt_store *store, int64_t before_ms, uint64_t *purged, struct dt_error *err);
dt_status dt_store_count_inbox_errors(dt_store *store, int64_t *n, struct dt_error *err);
