/* The inside of the reconciler. Only for reconcile/. */
#pragma once

#include <stdatomic.h>

#include "base/metrics.h"
#include "base/outage.h"
#include "dispatch/scan.h"
#include "job/archive/archive.h"
#include "reconcile.h"

/* A process that changed a row updates the index within this time, or never. */
#define DT_RECONCILE_DOUBT_US INT64_C(2000000)

/* A job whose row and index entry differ. */
struct dt_suspect {
    int64_t id;
    int64_t seen_ms; /* score in Redis; 0: no entry; DT_NOT_SEEN: not read yet */
    int64_t row_ms;  /* due time in the row; used if the score was not read yet */
    unsigned shard;  /* shard whose set has the entry, or to which the job belongs */
    bool row;        /* the job was found in MySQL's due index */
};
#define DT_NOT_SEEN INT64_C(-1)

/* Compares the range [from, to) of some shards piece by piece; see repair.c. */
struct dt_compare {
    enum { DT_COMPARE_IDLE, DT_COMPARE_ROWS, DT_COMPARE_ENTRIES } phase;
    struct dt_shard_set shards; /* shards that are compared; a shard whose Redis does not answer is removed */
    int64_t from_ms, to_ms;     /* the part of the range that is not compared yet */
    int64_t piece_end_ms;       /* end of the piece [from_ms, piece_end_ms) that is being compared */
    bool ties;                  /* the piece is a single millisecond with more rows than a slice */
    int64_t tie_id;
    struct dt_due *rows; /* rows of the current piece and of our shards; room for a slice */
    bool *matched;
    size_t n_rows;
    unsigned shard; /* shard whose entries are being read */
    struct dt_entry after;
    bool has_after;
};

#define DT_WINDOWS 4

enum dt_drift { DT_DRIFT_MISSING, DT_DRIFT_EXTRA, DT_DRIFT_WRONG, DT_DRIFTS };

struct dt_shard_view {
    int64_t drift[DT_DRIFTS], reported[DT_DRIFTS];
    dt_metric *meter[DT_DRIFTS];
    /* All rows that are due before loaded_ms were in the index once: if such an entry is missing, that is drift. A
     * missing entry of a later row is loading. */
    int64_t loaded_ms;
    int64_t near_ms;   /* end of the near window that was last compared */
    bool overdue_seen; /* overdue rows were compared since the shard was gained */
    bool scanned;      /* the whole horizon was compared since the shard was gained */
    int64_t overdue, oldest_ms, held;
};

struct dt_rebuild {
    /* shards: our shards whose set was lost; again: those of them whose rebuild must start again. */
    struct dt_shard_set shards, again;
    struct dt_shard_set filling; /* sets that the current pass fills: our own and other leaders' */
    bool active, passing;
    bool helped; /* since a shard first requested a rebuild, a pass has filled sets of other leaders, too */
    struct dt_filling *notes; /* records of the fillings that this process has taken; room for all shards */
    int64_t *told;            /* scratch for the ids of fillings; room for all shards */
    size_t n_notes;
    int64_t at_ms, at_id; /* the next page begins after this (time, id); at_id 0: at at_ms */
    bool has_page;
    struct dt_due *page; /* rows that were read and not added yet; room for a slice */
    size_t n_page;
    int64_t page_end_ms; /* end of the horizon when `page` was read */
    int64_t started_us, entries, not_before_us, told_us;
};

struct dt_reconciler {
    const struct dt_config *config;
    dt_index *index; /* NULL: the installation has no Redis */
    size_t slice;
    _Atomic uint64_t lost[DT_SHARDS_MAX / 64];
    _Atomic bool doubt;
    struct dt_shard_view *views; /* one for each shard, DT_SHARDS_MAX in all */
    struct dt_shard_set leads;

    /* Valid only during a tick. */
    dt_store *store;
    const struct dt_shard_map *map;
    int64_t now_ms, now_us;
    struct dt_reconcile_out *out;
    int64_t work_us; /* estimated cost of this tick's compare in µs, in this process and in the servers */

    union { /* four windows, by number and by name */
        struct dt_compare windows[DT_WINDOWS];
        struct {
            struct dt_compare near, overdue, edge, exact;
        };
    };
    bool promote_owed, held_owed, overdue_owed, stats_owed, edge_owed; /* work that this period must still do */
    /* One step of the work that belongs to no period (rebuild, full scan) must still be done before the next period. */
    bool slower_owed;
    bool awaits_compare, none_due;  /* copied from this tick's input */
    int64_t hurry_us;               /* time at which the next period begins, if a leader waits for a compare */
    struct dt_shard_set unrepaired; /* shards whose Redis failed in this step of a compare */
    int64_t next_period_us, next_overdue_us, next_scan_us, quiet_until_us;
    int64_t near_end_ms, edge_done_ms;
    struct dt_shard_set scan_shards;
    int64_t scan_at_ms;
    unsigned scan_rounds, scan_steps; /* rounds since the start; steps of this round */
    bool scan_hurries, scan_owed;     /* the current round of the full scan has no pauses; another round follows it */
    int64_t doubt_us;                 /* time when a full scan was last requested */
    struct dt_rebuild rebuild;

    /* Scratch arrays, with room for a slice each, except as noted. */
    struct dt_due *page;
    struct dt_entry *entries;
    struct dt_suspect *suspects; /* room for two slices */
    size_t n_suspects;
    struct dt_fix *fixes;
    int64_t *ids, *scores;
    struct dt_arena arena;      /* memory that is freed after each step */
    struct dt_arena held_arena; /* memory that is freed after each period */
    struct dt_held {
        unsigned shard;
        struct dt_str topic;
    } * held;
    size_t n_held;

    dt_metric *loaded, *rebuilt, *failures;
    struct dt_outage_part outage;
};

/* ---- repair.c ---- */

/* Begins a compare of [from_ms, to_ms) for the shards. */
void dt_compare_start(struct dt_compare *compare, const struct dt_shard_set *shards, int64_t from_ms, int64_t to_ms);
static inline bool dt_compare_active(const struct dt_compare *compare)
{
    return compare->phase != DT_COMPARE_IDLE;
}
/* Does one bounded step: compares, then repairs. Only MySQL can make it fail; the compare then ends. */
dt_status dt_compare_step(dt_reconciler *r, struct dt_compare *compare, struct dt_error *err);

/* Reads into r->held which topics of our shards have held sets: if a due row of one of these topics is not in the due
 * set, that is no mismatch. Fails only if memory runs out (NOMEM). */
dt_status dt_reconcile_list_held(dt_reconciler *r);

/* ---- rebuild.c ---- */

void dt_rebuild_request(dt_reconciler *r, const struct dt_shard_set *shards);
/* Returns whether a rebuild is due now. After a failure, the rebuild pauses for a while. */
bool dt_rebuild_active(const dt_reconciler *r);
/* Ends the rebuild of shards that are not in `leads`. */
void dt_rebuild_keep(dt_reconciler *r, const struct dt_shard_set *leads);
/* Does one bounded step: adds and reads some pages. Fails only if MySQL fails. */
dt_status dt_rebuild_step(dt_reconciler *r, struct dt_error *err);

/* ---- used by all files of the reconciler ---- */

#define DT_NEAR_MAX_MS (48 * DT_HOUR) /* rows that are due later than this may be in the far part of the due index */
#define DT_WAKE_MS     2000           /* leaders are woken for entries due within this time: they poll once a second */

/* Returns the end of the horizon, by this tick's clock. */
static inline int64_t dt_reconcile_horizon_end_ms(const dt_reconciler *r)
{
    return r->now_ms + dt_earlier(r->config->index_horizon, DT_NEAR_MAX_MS);
}
/* Returns whether the shard's leader must be woken for a job that is due at due_ms, because its own poll would be too
 * late. */
static inline bool dt_reconcile_is_soon(const dt_reconciler *r, int64_t due_ms)
{
    return due_ms <= r->now_ms + DT_WAKE_MS;
}
/* Requests a round of the full scan, soon and without pauses, because only the full scan finds changes that did not
 * reach the index. A round in progress stops pausing, too, and another round follows it. */
static inline void dt_reconcile_full_scan_soon(dt_reconciler *r)
{
    if (r->scan_at_ms)
        r->next_scan_us = r->now_us;
    else if (!r->scan_owed)
        r->next_scan_us = r->now_us + DT_RECONCILE_DOUBT_US;
    r->scan_owed = r->scan_hurries = true;
    r->doubt_us = r->now_us;
}
/* Returns whether a rebuild of the shard's set was requested and has not begun. */
static inline bool dt_reconcile_is_lost(const dt_reconciler *r, unsigned shard)
{
    return r->lost[shard / 64] >> (shard % 64) & 1;
}
