/*
 * Does operations, one piece after the other:
 *
 * piece (MySQL, one transaction: jobs, and the progress of their operation) ─▶ update the index ─▶ next piece
 *
 * Owners take turns: in a round each owner with a due operation gets one piece, however many operations it has. An
 * operation that waits for its rate is not due.
 *
 * If the process is killed, another process continues with the piece that was not committed, and the reconciler finds
 * moved jobs that are missing in the index. If an operation becomes due, because it is new or an API has handed it
 * over, the process's watcher (dispatch/watch.h) wakes this chore. Without the watcher, this chore polls every LOOK_US
 * or REST_US.
 */
#include "intake.h"

#include <stdatomic.h>

#include "base/fail_point.h"
#include "base/fair.h"
#include "base/log.h"
#include "base/metrics.h"
#include "features/operations/operations.h"
#include "topic/owners.h"

#define LOOK_US INT64_C(500000)
#define REST_US INT64_C(15000000) /* time between two polls if no operation ran for BUSY_US */
/* Time for which polls stay frequent after an operation. It is longer than a wait of the watcher in MySQL. */
#define BUSY_US   INT64_C(10000000)
#define RETRY_US  INT64_C(500000)
#define WANTED_US INT64_C(20000000) /* time between two searches for deleted topics that got a job */
#define OWNERS_US INT64_C(40000000) /* time between two comparisons of the topics' owners with the tokens */

struct dt_operation_runner {
    struct dt_resting resting;
    const struct dt_process_env *env;
    struct dt_arena arena, turns; /* arena: reset for each piece; turns: reset for each round */
    struct dt_turns had;          /* turns of owners: which owners got the last pieces */
    dt_index *index;
    dt_store *store;              /* the store of the running tick */
    int64_t wanted_us, owners_us; /* mono: when to search for deleted topics again; when to compare owners again */
    int64_t busy_us;              /* mono: when an operation was last seen; 0 = never */
    dt_metric *changed, *refused, *due;
};

/* Handles a failed piece. Returns when the runner may try again (monotonic). 0: now, because the operation was ended as
 * failed, and the next operation need not wait. */
static int64_t handle_failed_piece(struct dt_operation_runner *r, const struct dt_operation_piece *piece,
                                   dt_status status, const struct dt_error *err)
{
    enum dt_class class = dt_status_class(status);
    if (status == DT_UNKNOWN && r->index) /* MySQL may have moved jobs whose index entries were not updated */
        r->env->index_entries_lost(r->env->arg, r->index);
    if (piece->id && (class == DT_CLASS_PERMANENT || status == DT_INTERNAL || class == DT_CLASS_CONFLICT)) {
        struct dt_error again = {0};
        DT_LOG(ERROR, "operations", "an operation failed", DT_I("operation", piece->id), DT_S("reason", err->text));
        status = dt_store_operation_fail(r->store, piece->id, dt_str(err->text), &again);
        if (status != DT_OK)
            (void)dt_chore_failed(&r->resting.chore, DT_OUTAGE_MYSQL, "operations do not continue", status, &again, 0);
        return 0; /* the next operation can begin now */
    }
    return dt_chore_failed(&r->resting.chore, DT_OUTAGE_MYSQL, "operations do not continue", status, err, RETRY_US);
}

/* Finds owners with a due operation. *due: these owners, in the order of their turns. *rests: no operation is due.
 * Returns when to poll next (monotonic); 0: an operation is due. */
static int64_t find_due_owners(struct dt_operation_runner *r, struct dt_turn **due, size_t *n, bool *rests)
{
    struct dt_operation_piece none = {0};
    struct dt_error err = {0};
    struct dt_operation_turn *all = NULL;
    size_t owners = 0;
    int64_t look_us = INT64_MAX;
    *n = 0;
    dt_arena_reset(&r->turns);
    dt_status status = dt_store_operation_turns(r->store, &r->turns, &all, &owners, &err);
    if (status == DT_OK && !(*due = dt_arena_alloc(&r->turns, (owners + 1) * sizeof(**due))))
        status = DT_NOMEM;
    if (status != DT_OK)
        return handle_failed_piece(r, &none, status, &err);
    for (size_t i = 0; i < owners; i++) {
        int64_t at_us =
            all[i].look_ms == INT64_MAX ? INT64_MAX : dt_refclock_mono_us_at(r->env->ref, all[i].look_ms) + 1000;
        look_us = dt_earlier(look_us, at_us);
        if (at_us <= dt_clock_mono_us(r->env->clock))
            (*due)[(*n)++] = (struct dt_turn){.owner = all[i].owner};
    }
    dt_turns_sort(&r->had, *due, *n);
    dt_metric_set(r->due, *n > 0);
    if (*n > 0) {
        r->busy_us = dt_clock_mono_us(r->env->clock);
        return 0;
    }
    *rests = true;
    bool busy = r->busy_us && dt_clock_mono_us(r->env->clock) - r->busy_us < BUSY_US;
    return dt_earlier(look_us, dt_clock_mono_us(r->env->clock) + (busy ? LOOK_US : REST_US));
}

/* Does one piece for each owner in `due`. Returns when the next round is due (monotonic). */
static int64_t run_due_pieces(struct dt_operation_runner *r, const struct dt_turn *due, size_t n)
{
    int64_t next_us = INT64_MAX;
    for (size_t i = 0; i < n && !dt_chore_stopping(&r->resting.chore); i++) {
        struct dt_operation_piece piece = {.owner = due[i].owner};
        struct dt_error err = {0};
        int64_t at_us = 0;
        dt_turns_note(&r->had, piece.owner, 0);
        dt_arena_reset(&r->arena);
        dt_status status = dt_store_operation_step(r->store, &piece, &r->arena, &err);
        if (status != DT_OK) {
            at_us = handle_failed_piece(r, &piece, status, &err);
            if (at_us && status != DT_BUSY) /* if BUSY, only this owner must wait */
                return at_us;
        } else if (!piece.id) { /* another dispatcher has locked the operation */
            at_us = dt_clock_mono_us(r->env->clock) + RETRY_US;
        } else {
            if (piece.changed)
                DT_FAIL_POINT("operation.changed");
            dt_metric_add(r->changed, piece.changed);
            dt_metric_add(r->refused, piece.refused);
            dt_intake_tell_index(r->env, r->index, &r->arena, piece.moves, piece.n_moves);
        }
        next_us = dt_earlier(next_us, at_us);
    }
    return next_us;
}

static void recreate_wanted_topics(struct dt_operation_runner *r)
{
    struct dt_error err = {0};
    size_t n = 0;
    if (dt_clock_mono_us(r->env->clock) < r->wanted_us)
        return;
    r->wanted_us = dt_clock_mono_us(r->env->clock) + WANTED_US;
    dt_arena_reset(&r->arena);
    dt_status status = dt_store_topics_revive(r->store, &r->arena, &n, &err);
    if (status != DT_OK)
        (void)dt_chore_failed(&r->resting.chore, DT_OUTAGE_MYSQL, "deleted topics are not checked for new jobs", status,
                              &err, 0);
    if (n)
        DT_LOG(INFO, "operations", "deleted topics that got jobs were created again", DT_I("topics", n));
}

static void update_owners(struct dt_operation_runner *r)
{
    struct dt_error err = {0};
    if (dt_clock_mono_us(r->env->clock) < r->owners_us)
        return;
    r->owners_us = dt_clock_mono_us(r->env->clock) + OWNERS_US;
    dt_status status = dt_store_topic_owners_update(r->store, &err);
    if (status == DT_FORBIDDEN)
        DT_LOG(WARN, "operations",
               "owners of topics cannot be updated: the account needs new grants (duetime-api --print-grants)",
               DT_S("reason", err.text));
    else if (status != DT_OK)
        (void)dt_chore_failed(&r->resting.chore, DT_OUTAGE_MYSQL, "owners of topics are not updated", status, &err, 0);
}

static int64_t tick_operations(void *arg, void *store)
{
    struct dt_operation_runner *r = arg;
    bool rests = false;
    struct dt_turn *due;
    size_t n;
    atomic_store(&r->resting.rests, false);
    r->store = store;
    recreate_wanted_topics(r);
    update_owners(r);
    int64_t next_us = find_due_owners(r, &due, &n, &rests);
    if (n)
        next_us = run_due_pieces(r, due, n);
    atomic_store(&r->resting.rests, rests);
    return next_us;
}

dt_status dt_operation_runner_start(const struct dt_process_env *env, struct dt_resting **out, struct dt_error *err)
{
    const char *name = "duetime_operation_jobs_total";
    const char *help = "Jobs of operations that this process changed, by outcome.";
    struct dt_operation_runner *r = calloc(1, sizeof(*r));
    if (!r)
        return DT_NOMEM;
    r->env = env;
    r->changed = dt_counter(name, help, "outcome=\"changed\"");
    r->refused = dt_counter(name, help, "outcome=\"refused\"");
    r->due = dt_gauge("duetime_operations_due", "1 while a step of an operation is due and not done.", "");
    r->resting.chore = (struct dt_chore){.name = "operations", .tick = tick_operations, .arg = r};
    const dt_status status = dt_index_new(env->config, env->installation, env->clock, &r->index, err);
    if (status != DT_OK) {
        dt_operation_runner_stop(&r->resting);
        return status;
    }
    dt_chores_add(env->chores, &r->resting.chore);
    *out = &r->resting;
    return DT_OK;
}

void dt_operation_runner_stop(struct dt_resting *resting)
{
    struct dt_operation_runner *r = (struct dt_operation_runner *)resting; /* resting is its first member */
    if (!r)
        return;
    dt_chore_remove(&r->resting.chore);
    dt_index_free(r->index);
    dt_arena_clear(&r->arena);
    dt_arena_clear(&r->turns);
    free(r);
}
