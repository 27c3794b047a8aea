/*
 * The inbox: rows of job_inbox, which applications insert in transactions of their own, and what becomes of them.
 *
 *   look ─▶ lock what is open ─▶ decode, carry out ─▶ remove the rows, or write their errors ─▶ COMMIT ─▶ index
 *           └───────────────────────── one transaction ────────────────────────────────────────┘
 *
 * A row and its effect are one transaction's, so each row has one effect, whoever dies when. Several may do so at the
 * same time: rows that one has locked are passed by, and so are later rows of their keys. Rows are looked for from the
 * first one on each time: those of a transaction that lasted long have low ids.
 */
#ifndef DT_INTENTS_INBOX_H
#define DT_INTENTS_INBOX_H

#include "intents.h"
#include "job/job_json.h"

#define DT_INBOX_AT_ONCE  1000 /* rows in one transaction */
#define DT_INBOX_PATIENCE 64

/* The state of a mover of rows, owned by one thread. All zero but for what is marked in. */
struct dt_inbox_mover {
    dt_store *store;           /* in */
    struct dt_job_rules rules; /* in */
    dt_json *json;             /* in */
    const dt_clock *clock;     /* in */
    struct dt_arena arena;     /* of the last call; in: made; the caller clears it */
    struct dt_id_block ids;
    struct dt_intent_topics topics;
    int64_t after, last; /* ids: open rows were seen behind `after`, up to `last`, at the last look */
    struct dt_inbox_patience {
        int64_t id, since_us; /* a row that waits for a batch to be settled */
    } patience[DT_INBOX_PATIENCE];
    size_t n_patience;
};

/* The outcome of one move. */
struct dt_inbox_moved {
    size_t done, refused, waiting;
    const struct dt_job_move *moves; /* for the index; in the mover's arena */
    size_t n_moves;
    bool again; /* what waits may go on at once: its topic was made */
};
/* Looks for open rows behind those that it saw last; *some: there are. */
DT_MUST_CHECK dt_status dt_store_look_at_inbox(struct dt_inbox_mover *mover, bool *some, struct dt_error *err);
/* Moves what was seen. UNKNOWN: it was moved, or it stands there still. */
DT_MUST_CHECK dt_status dt_store_move_inbox(struct dt_inbox_mover *mover, struct dt_inbox_moved *out,
                                            struct dt_error *err);
/* Removes rows with errors from before a time, a thousand at most; counts those that there are, up to 100,000. */
DT_MUST_CHECK dt_status dt_store_purge_inbox(dt_store *store, int64_t before_ms, uint64_t *purged,
                                             struct dt_error *err);
DT_MUST_CHECK dt_status dt_store_count_inbox_errors(dt_store *store, int64_t *n, struct dt_error *err);

#endif
