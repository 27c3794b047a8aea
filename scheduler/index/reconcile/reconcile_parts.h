/*
 * The inside of the reconciler, which the files of reconcile/ share: the reconciler itself, a compare (repair.c), the
 * repair (repair.c), the rebuild (rebuild.c). Internal.
 */
#ifndef DT_INDEX_RECONCILE_PARTS_H
#define DT_INDEX_RECONCILE_PARTS_H

#include <stdatomic.h>

#include "base/metrics.h"
#include "base/outage.h"
#include "dispatch/scan.h"
#include "job/archive/archive.h"
#include "reconcile.h"

/* Whoever changed a row has told the index by then, or does not any more. */
#define DT_RECONCILE_DOUBT_US INT64_C(2000000)

/* A job or an entry whose row and index entry do not look alike. */
struct dt_suspect {
    int64_t id;
    int64_t seen_ms; /* score in Redis; 0 = absent; NOT_SEEN = to be asked */
    int64_t row_ms;  /* where the row was met, if it is to be asked */
    unsigned shard;  /* of the set that it was seen in, or belongs into */
    bool row;        /* it was met in MySQL's due index */
};
#define DT_NOT_SEEN INT64_C(-1)

/* Compares [from, to) of some shards piece by piece; see repair.c. */
struct dt_compare {
    enum { DT_COMPARE_IDLE, DT_COMPARE_ROWS, DT_COMPARE_ENTRIES } phase;
    struct dt_shard_set shards; /* those whose Redis does not answer leave it */
    int64_t from_ms, to_ms;     /* what is left */
    int64_t piece_end_ms;       /* [from, piece_end) is being compared */
    bool ties;                  /* the piece is one millisecond with more rows than a slice */
    int64_t tie_id;
    struct dt_due *rows; /* of the piece, ours only; room for a slice */
    bool *matched;
    size_t n_rows;
    unsigned shard; /* whose entries are being read */
    struct dt_entry after;
    bool has_after;
};

#define DT_WINDOWS 4

enum dt_drift { DT_DRIFT_MISSING, DT_DRIFT_EXTRA, DT_DRIFT_WRONG, DT_DRIFTS };

struct dt_shard_view {
    int64_t drift[DT_DRIFTS], reported[DT_DRIFTS];
    dt_metric *meter[DT_DRIFTS];
    int64_t loaded_ms; /* all below it was in the index once: what is missing there is drift, above it loading */
    int64_t near_ms;   /* end of the last near window that was compared */
    bool overdue_seen; /* what is overdue was compared once since the shard was gained */
    bool scanned;      /* the whole horizon was seen since the shard was gained */
    int64_t overdue, oldest_ms, held;
};

struct dt_rebuild {
    struct dt_shard_set shards, again; /* ours that were lost; again: Redis failed, from the start once more */
    struct dt_shard_set filling;       /* by the pass that is under way, ours and others' */
    bool active, passing;
    bool helped;              /* others, since the first shard asked */
    struct dt_filling *notes; /* on what is being filled; room for all shards */
    int64_t *told;            /* scratch for as many */
    size_t n_notes;
    int64_t at_ms, at_id; /* the page after this one begins behind it; at_id 0: with it */
    bool has_page;
    struct dt_due *page; /* room for a slice; what was read and is not added yet */
    size_t n_page;
    int64_t page_end_ms; /* the horizon's end when it was read */
    int64_t started_us, entries, not_before_us, told_us;
};

struct dt_reconciler {
    const struct dt_config *config;
    dt_index *index; /* NULL: there is none */
    size_t slice;
    _Atomic uint64_t lost[DT_SHARDS_MAX / 64];
    _Atomic bool doubt;
    struct dt_shard_view *views; /* DT_SHARDS_MAX */
    struct dt_shard_set leads;

    /* this tick */
    dt_store *store;
    const struct dt_shard_map *map;
    int64_t now_ms, now_us;
    struct dt_reconcile_out *out;
    int64_t work_us; /* about what this tick's compare cost, here and in the servers: counted, not measured */

    union { /* by number, and by name */
        struct dt_compare windows[DT_WINDOWS];
        struct {
            struct dt_compare near, overdue, edge, exact;
        };
    };
    bool promote_owed, held_owed, overdue_owed, stats_owed, edge_owed; /* this period's */
    bool slower_owed;               /* one step of what does not belong to a period */
    bool awaits_compare;            /* as this tick was told */
    int64_t hurry_us;               /* while it is so, the next period begins no later */
    struct dt_shard_set unrepaired; /* of a compare's step: shards whose Redis did not do what was asked */
    int64_t next_period_us, next_overdue_us, next_scan_us, quiet_until_us;
    int64_t near_end_ms, edge_done_ms;
    struct dt_shard_set scan_shards;
    int64_t scan_at_ms;
    unsigned scan_rounds, scan_steps; /* steps: of this round */
    bool scan_hurries, scan_owed;     /* this round is not spread over its time; another one follows it */
    int64_t doubt_us;                 /* when it was last wanted */
    struct dt_rebuild rebuild;

    /* scratch, by slice */
    struct dt_due *page;
    struct dt_entry *entries;
    struct dt_suspect *suspects; /* two slices */
    size_t n_suspects;
    struct dt_fix *fixes;
    int64_t *ids, *scores;
    struct dt_arena arena;      /* of one step */
    struct dt_arena held_arena; /* of one period */
    struct dt_held {
        unsigned shard;
        struct dt_str topic;
    } * held;
    size_t n_held;

    dt_metric *loaded, *rebuilt, *failures;
    struct dt_outage_part outage;
};

/* ---- repair.c ---- */

/* Begins a compare of [from_ms, to_ms) for these shards. */
void dt_compare_start(struct dt_compare *compare, const struct dt_shard_set *shards, int64_t from_ms, int64_t to_ms);
static inline bool dt_compare_active(const struct dt_compare *compare)
{
    return compare->phase != DT_COMPARE_IDLE;
}
/* Does one bounded step. A failure is MySQL's: the compare is given up. */
DT_MUST_CHECK dt_status dt_compare_step(dt_reconciler *r, struct dt_compare *compare, struct dt_error *err);

/* ---- repair.c ---- */

/* Decides about r->suspects and empties them. A failure is MySQL's. */
DT_MUST_CHECK dt_status dt_repair(dt_reconciler *r, struct dt_error *err);

/* ---- rebuild.c ---- */

/* Asks for a rebuild of these shards' sets. */
void dt_rebuild_request(dt_reconciler *r, const struct dt_shard_set *shards);
/* True: there is something to rebuild now; after a failure there is none for a while. */
bool dt_rebuild_active(const dt_reconciler *r);
/* Forgets sets of shards that are not led any more. */
void dt_rebuild_keep(dt_reconciler *r, const struct dt_shard_set *leads);
/* Does one bounded step: a page. A failure is MySQL's. */
DT_MUST_CHECK dt_status dt_rebuild_step(dt_reconciler *r, struct dt_error *err);

/* ---- reconcile.c ---- */

/* The end of the horizon as of this tick. */
int64_t dt_reconcile_horizon_end_ms(const dt_reconciler *r);
/* True: the shard's leader must be woken for what is due then; it would look too late by itself. */
bool dt_reconcile_is_soon(const dt_reconciler *r, int64_t due_ms);
/* Reads into r->held which topics of the shards that are led have held sets. A failure is NOMEM. */
DT_MUST_CHECK dt_status dt_reconcile_list_held(dt_reconciler *r);
/* Asks for a whole round of the full scan, soon, and as fast as it goes. */
void dt_reconcile_full_scan_soon(dt_reconciler *r);

/* True: somebody has asked for a rebuild of the shard's set that has not begun. */
static inline bool dt_reconcile_is_lost(const dt_reconciler *r, unsigned shard)
{
    return r->lost[shard / 64] >> (shard % 64) & 1;
}

#endif
