/*
 * One job: reading, changing, replacing, cancelling, running now, redriving, listing its attempts; also a job that is
 * archived in `history`. Callers update the index with the job's new time.
 *
 * Every change is one transaction: lock the job's row by its id, decide by dt_job_state_after, write with the same
 * condition again, read the row back. Invariants:
 *
 *   - A transaction that has a job's row locked never waits for a shard's row. It reads the claiming shard's in-flight
 *     list without a lock, in a separate statement *after* the job's row is locked. An attempt enters a list only
 *     together with its job's row, so an attempt that is not in the list at that time cannot enter it.
 *   - If a change would alter or forbid a message that is in flight, the change is TOO_LATE.
 *   - next_at and near are always written together (dt_near_end_ms); attempt and id are never written.
 *   - If a change does not change any value, the version is not raised.
 *   - history is read only if `jobs` has no such row. A job moves in one transaction, so a job that is no longer in
 *     `jobs` is in history. If it was redriven meanwhile, it is in `jobs` again, and `jobs` is read once more.
 */
#include "base/assert.h"
#include "base/guard.h"
#include "events/events.h"
#include "job/archive/archive.h"
#include "job/job.h"
#include "job/job_state.h"
#include "jobs.h"
#include "jobs_row.h"
#include "jobs_txn.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

/* The arguments and the state of a change, or of a read, of one job. */
struct change {
    int64_t id;
    struct dt_str topic; /* topic that the job must have; absent: any */
    const struct dt_patch *patch;
    const struct dt_new_job *body; /* new body, for a replace */
    bool keep_attempt;
    const struct dt_config *config;
    dt_db *db;
    int64_t now_ms;
    struct dt_arena *arena;
    struct dt_job *job; /* the locked row; once `written`, the row after the change */
    bool archived;      /* the job is in history, where its row is not locked */
    bool counted;       /* `decide` has already counted that a manual edit ended the job */
    bool written;
    bool unsettled; /* only an earlier attempt that is in flight prevents the change */
    dt_status (*decide)(struct change *);
    struct dt_counts *counts; /* changes of the counters of jobs by the current try of the transaction */
    struct dt_str actor;      /* actor in events; absent: no event */
    const char *action;       /* name of the change in events */
    bool passes_locked;       /* the change does not wait if another session has the row locked */
    bool locked;              /* another session had the row locked */
    struct dt_error *err;
};

/* Reads the job with a statement that has the id as its first parameter. */
static dt_status read_job_row(struct change *c, const char *sql, struct dt_params params)
{
    dt_status status = dt_db_query(c->db, sql, params, c->err);
    if (status != DT_OK)
        return status;
    if (!dt_db_next(c->db))
        status = dt_fail(c->err, DT_NOT_FOUND, "no job %lld", (long long)c->id);
    else if ((status = dt_row_full(c->db, 0, c->arena, c->job)) != DT_OK)
        status = dt_fail(c->err, status, "job %lld cannot be read: %s", (long long)c->id, dt_status_text(status));
    dt_status ended = dt_db_end(c->db, status == DT_NOT_FOUND || status == DT_OK ? c->err : NULL);
    return ended != DT_OK ? ended : status;
}

/* Reads the job from `jobs` with the statement `sql`, or from history; if it is in history, sets c->archived. */
static dt_status read_job_anywhere(struct change *c, const char *sql)
{
    struct dt_archive_search search = dt_archive_search_of(c->id);
    c->archived = false;
    dt_status status = read_job_row(c, sql, DT_PARAMS(DT_P_INT(c->id)));
    if (status != DT_NOT_FOUND)
        return status;
    do {
        status = dt_archive_search_next(c->db, &search, c->err);
        DT_THEN(status,
                read_job_row(c, dt_sql_select_archived_job, (struct dt_params){search.params, DT_ARCHIVE_PARAMS}));
    } while (dt_archive_search_more(&search, status));
    c->archived = status == DT_OK;
    return status == DT_NOT_FOUND ? read_job_row(c, sql, DT_PARAMS(DT_P_INT(c->id))) : status;
}

dt_status dt_store_get(dt_store *store, int64_t id, struct dt_arena *arena, struct dt_job *job, struct dt_error *err)
{
    struct change c = {.id = id, .arena = arena, .job = job, .err = err};
    dt_status status;
    unsigned tries = 0;
    do {
        status = dt_store_db(store, &c.db, err);
        if (status != DT_OK)
            return status;
        status = read_job_anywhere(&c, dt_sql_select_job);
    } while (dt_store_read_again(&tries, status));
    return status;
}

/* ---- changing a job ---- */

static dt_status is_in_flight(dt_db *db, int64_t id, int shard, bool *yes, struct dt_error *err)
{
    int64_t n;
    dt_status status =
        dt_db_read_number(db, dt_sql_find_in_flight, DT_PARAMS(DT_P_INT(id), DT_P_INT(shard)), NULL, &n, err);
    *yes = n != 0;
    return status;
}

dt_status dt_store_in_flight(dt_store *store, int64_t id, int shard, bool *yes, struct dt_error *err)
{
    dt_db *db;
    *yes = false;
    dt_status status = dt_store_db(store, &db, err);
    return status != DT_OK ? status : is_in_flight(db, id, shard, yes, err);
}

static dt_status fail_too_late(const struct change *c)
{
    return dt_fail(c->err, DT_TOO_LATE, "job %lld is %s, attempt %lld", (long long)c->id,
                   dt_job_state_name(c->job->state), (long long)c->job->attempt);
}

/* Returns TOO_LATE if an attempt of the locked job is in flight: if it is in the in-flight list of the shard that
 * claimed it or, without such a shard, if a process has claimed it for a callback (the table hands, job/delivery.h). */
static dt_status refuse_in_flight(struct change *c)
{
    bool yes = false;
    dt_status status = DT_OK;
    if (c->job->attempt >= 1 && c->job->claim_shard >= 0)
        status = is_in_flight(c->db, c->id, c->job->claim_shard, &yes, c->err);
    else if (c->job->attempt >= 1 && !DT_UNGUARDED(CANCEL_IN_HANDS))
        status = dt_db_read_number(c->db, dt_sql_find_hand, DT_PARAMS(DT_P_INT(c->id)), &yes, NULL, c->err);
    if (status != DT_OK || DT_GUARD(CANCEL_IN_FLIGHT, !yes))
        return status;
    c->unsettled = true;
    return fail_too_late(c);
}

/* Runs the statement of the change. The locked row must match the statement's condition. */
static dt_status write_changed_job(struct change *c, const char *sql, struct dt_params params)
{
    uint64_t affected = 0;
    dt_assert(!c->locked && !c->written);
    dt_status status = dt_db_run(c->db, sql, params, &affected, c->err);
    if (status == DT_OK && affected != 1)
        status = dt_fail(c->err, DT_INTERNAL, "job %lld changed although it was locked", (long long)c->id);
    c->written = status == DT_OK;
    return status;
}

/* Locks the key that c->body names, and sets c->id to the job that has it. NOT_FOUND: no job has the key. */
static dt_status lock_replaced_key(struct change *c, dt_db *db, struct dt_error *err)
{
    const struct dt_param topic = DT_P_STR(c->body->topic);
    struct dt_str name;
    bool found = false;
    dt_status status = DT_OK;
    /* If the key has the form of a schedule's fire, the result is NOT_FOUND, because only the schedule may use such a
     * key. If the caller then inserts the job, that insert reports that the key is reserved. */
    if (dt_fire_key_split(c->body->key, &name))
        status =
            dt_db_read_number(db, dt_sql_find_schedule_of_key, DT_PARAMS(DT_P_STR(name), topic), &found, NULL, err);
    if (status == DT_OK && found)
        status = dt_fail(err, DT_NOT_FOUND, "the key belongs to a fire of a schedule");
    if (status != DT_OK)
        return status;
    /* The lock on the key also stops another transaction that wants to give the key to another job. */
    status = dt_db_read_number(db, dt_sql_lock_key, DT_PARAMS(topic, DT_P_STR(c->body->key)), &found, &c->id, err);
    return status == DT_OK && !found ? dt_fail(err, DT_NOT_FOUND, "no job with this key") : status;
}

/* Locks the job, calls c->decide (which decides and writes), reads the row again, and counts the change. */
static dt_status run_change_in_txn(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    struct change *c = arg;
    c->db = db;
    c->now_ms = now_ms;
    c->written = c->unsettled = c->locked = false;
    dt_status status = c->body ? lock_replaced_key(c, db, err) : DT_OK;
    if (status != DT_OK)
        return status;
    status = read_job_anywhere(c, c->passes_locked ? dt_sql_lock_free_job : dt_sql_lock_job);
    if (status == DT_NOT_FOUND && c->passes_locked) {
        status = read_job_row(c, dt_sql_select_job, DT_PARAMS(DT_P_INT(c->id)));
        c->locked = status == DT_OK; /* the row exists but was skipped, so another session has it locked */
        if (c->locked)
            status = dt_fail(err, DT_BUSY, "job %lld is locked by another session", (long long)c->id);
    }
    if (status == DT_OK && c->topic.p && !dt_str_eq(c->topic, c->job->topic))
        status = dt_fail(err, DT_NOT_FOUND, "job %lld is of another topic", (long long)c->id);
    const struct dt_job before = status == DT_OK ? *c->job : (struct dt_job){.state = DT_SCHEDULED};
    const enum dt_job_state was = before.state;
    DT_THEN(status, c->decide(c));
    if (status == DT_OK && c->written)
        status = read_job_row(c, dt_sql_select_job, DT_PARAMS(DT_P_INT(c->id)));
    if (status == DT_OK && c->written && c->actor.p)
        status =
            dt_event_of_job(db, &(struct dt_job_event){.at_ms = now_ms, .actor = c->actor, .action = dt_str(c->action)},
                            &before, c->job, err);
    c->job->was_next_at_ms = before.next_at_ms;
    c->job->unsettled = c->unsettled;
    if (status != DT_OK || !c->written)
        return status;
    dt_assert_cmp(c->job->id, ==, c->id);
    if (c->archived)
        dt_counts_add(c->counts, c->job->topic, dt_count_piece(c->id), (int)c->job->state, 1);
    else if ((was == DT_DISPATCHED || before.attempt_status != DT_ATTEMPT_DISPATCHED || c->counted) &&
             !DT_UNGUARDED(COUNT_CHANGE)) /* if a manual edit ended the job, housekeeping counts that (archive.h) */
        dt_counts_move(c->counts, c->job->topic, c->id, was, c->job->state);
    return DT_OK;
}

/* ---- cancel ---- */

/* keep_attempt: an attempt in flight continues, and only further attempts are cancelled. */
static dt_status decide_cancel(struct change *c)
{
    const enum dt_job_state state = c->job->state;
    const struct dt_param now = DT_P_INT(c->now_ms);
    const struct dt_param retention = DT_P_INT(DT_RETENTION_DEFAULT_MS);
    const bool cancels = dt_job_state_after(state, DT_EVENT_CANCEL) == DT_CANCELLED;
    /* A manual edit or a forged result may have set the state cancelled while the attempt is in flight. */
    if (state == DT_CANCELLED || cancels) {
        dt_status status = c->keep_attempt ? DT_OK : refuse_in_flight(c);
        if (status != DT_OK || state == DT_CANCELLED)
            return status;
        return write_changed_job(
            c, dt_sql_cancel_job,
            DT_PARAMS(now, now, retention, now, retention, DT_P_INT(c->config->history_after), now, DT_P_INT(c->id)));
    }
    if (!c->keep_attempt || dt_job_state_after(state, DT_EVENT_NO_RETRIES) != (int)state)
        return fail_too_late(c);
    return c->job->no_retries ? DT_OK : write_changed_job(c, dt_sql_cancel_retries, DT_PARAMS(now, DT_P_INT(c->id)));
}

/* ---- run now, redrive ---- */

static dt_status decide_run_now(struct change *c)
{
    if (dt_job_state_after(c->job->state, DT_EVENT_CHANGE) != DT_SCHEDULED)
        return fail_too_late(c);
    return write_changed_job(c, dt_sql_run_job_now,
                             DT_PARAMS(DT_P_INT(c->now_ms), DT_P_INT(c->now_ms), DT_P_INT(c->now_ms), DT_P_INT(c->id)));
}

/* The count of failures restarts; the numbers of attempts continue. If a newer job has the key, that job keeps it. */
static dt_status decide_redrive(struct change *c)
{
    if (dt_job_state_after(c->job->state, DT_EVENT_REDRIVE) != DT_SCHEDULED)
        return dt_fail(c->err, DT_NOT_DEAD, "job %lld is %s", (long long)c->id, dt_job_state_name(c->job->state));
    char ids[32];
    snprintf(ids, sizeof(ids), "[%lld]", (long long)c->id);
    dt_status status = c->archived ? dt_archive_bring_back(c->db, c->job, c->now_ms, c->err)
                                   : dt_edited_end(c->db, c->config, dt_str(ids), c->counts, c->arena, c->err);
    if (status != DT_OK)
        return status;
    c->counted = true;
    return write_changed_job(c, dt_sql_redrive_job,
                             DT_PARAMS(DT_P_INT(c->now_ms), DT_P_INT(c->now_ms), DT_P_INT(c->id)));
}

/* ---- patch ---- */

/* Reads the topic's defaults, for `null` in a patch. */
static dt_status read_topic_defaults(struct change *c, struct dt_str *retry, int64_t *ack_timeout_ms)
{
    *retry = DT_STR_LIT(DT_RETRY_DEFAULT);
    *ack_timeout_ms = DT_ACK_TIMEOUT_DEFAULT_MS;
    dt_status status = dt_db_query(c->db, dt_sql_select_topic_defaults, DT_PARAMS(DT_P_STR(c->job->topic)), c->err);
    if (status != DT_OK)
        return status;
    if (dt_db_next(c->db)) {
        struct dt_str text = dt_db_bytes(c->db, 0);
        if (text.p)
            *retry = dt_arena_copy(c->arena, text);
        if (!dt_db_is_null(c->db, 1))
            *ack_timeout_ms = dt_db_i64(c->db, 1);
    }
    status = dt_db_end(c->db, c->err);
    return status == DT_OK && !retry->p ? dt_fail(c->err, DT_NOMEM, "out of memory") : status;
}

#define TAKE(kind, member, column) want->member = p->member;
#define TAKE_EXTRA(kind, member, column)                                                                               \
    if (p->has_##member)                                                                                               \
        want->member = p->member;

static dt_status make_wanted_job(struct change *c, struct dt_job *want)
{
    const struct dt_patch *p = c->patch;
    struct dt_str retry = p->retry;
    int64_t ack_timeout_ms = p->ack_timeout_ms;
    *want = *c->job;
    if ((p->has_retry && !retry.p) || (p->has_ack_timeout && !ack_timeout_ms)) {
        struct dt_str default_retry;
        int64_t default_ms;
        dt_status status = read_topic_defaults(c, &default_retry, &default_ms);
        if (status != DT_OK)
            return status;
        retry = retry.p ? retry : default_retry;
        ack_timeout_ms = ack_timeout_ms ? ack_timeout_ms : default_ms;
    }
    if (p->has_run_at) {
        /* A time in the past becomes now. now_ms was rounded down to milliseconds, so one millisecond is added to a
         * delay: it must never be too short. */
        int64_t at_ms = p->run_at_ms;
        if (p->run_at_is_delay)
            at_ms = at_ms > 0 ? c->now_ms + at_ms + 1 : c->now_ms;
        want->run_at_ms = want->next_at_ms = at_ms > c->now_ms ? at_ms : c->now_ms;
    }
    if (p->has_retry)
        want->retry = retry;
    if (p->has_ack_timeout)
        want->ack_timeout_ms = ack_timeout_ms;
    DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_NONE, TAKE_EXTRA)
    if (p->has_payload) {
        want->payload = p->payload;
        DT_JOB_COLUMNS(DT_COLUMN_NONE, TAKE, DT_COLUMN_NONE)
    }
    return DT_OK;
}

#define SAME(kind, member, column) SAME_##kind(member)
#define SAME_TEXT(member)          same &= !a->member.p == !b->member.p && dt_str_eq(a->member, b->member);
#define SAME_FLAG(member)          same &= a->member == b->member;

static bool has_same_content(const struct dt_job *a, const struct dt_job *b)
{
    bool same = dt_str_eq(a->payload, b->payload);
    DT_JOB_COLUMNS(DT_COLUMN_NONE, SAME, DT_COLUMN_NONE)
    return same;
}

static bool is_same_job(const struct dt_job *a, const struct dt_job *b)
{
    bool same = a->run_at_ms == b->run_at_ms && a->next_at_ms == b->next_at_ms && dt_str_eq(a->retry, b->retry) &&
                a->ack_timeout_ms == b->ack_timeout_ms;
    DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_NONE, SAME)
    return same && has_same_content(a, b);
}

#define PARAM(kind, member, column) DT_COLUMN_PARAM_##kind(want->member),

static dt_status write_patch(struct change *c, const struct dt_job *want)
{
    const struct dt_param params[] = {
        DT_P_INT(want->run_at_ms),
        DT_P_INT(want->next_at_ms),
        DT_P_INT(want->next_at_ms < dt_near_end_ms(c->now_ms)),
        DT_P_STR(want->retry),
        DT_P_INT(want->ack_timeout_ms),
        DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_NONE, PARAM) DT_P_INT(c->now_ms),
        DT_P_INT(c->id),
        DT_P_INT(c->job->version),
    };
    const struct dt_param content[] = {DT_P_STR(want->payload),
                                       DT_JOB_COLUMNS(DT_COLUMN_NONE, PARAM, DT_COLUMN_NONE) DT_P_INT(c->id)};
    dt_status status =
        write_changed_job(c, dt_sql_patch_job, (struct dt_params){params, sizeof(params) / sizeof(*params)});
    if (status == DT_OK && !has_same_content(want, c->job))
        status = dt_db_run(c->db, dt_sql_patch_content, (struct dt_params){content, sizeof(content) / sizeof(*content)},
                           NULL, c->err);
    return status;
}

#define CHANGES(kind, member, column) changes |= p->has_##member;

/* Times and policy of a scheduled job may always change. Its message may change only if no attempt is in flight. */
static dt_status decide_patch(struct change *c)
{
    const struct dt_patch *p = c->patch;
    struct dt_job want;
    dt_status status = DT_OK;
    bool changes = p->has_payload; /* becomes true if the message changes */
    DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_NONE, CHANGES)
    if (dt_job_state_after(c->job->state, DT_EVENT_CHANGE) != DT_SCHEDULED)
        return fail_too_late(c);
    if (changes)
        status = refuse_in_flight(c);
    if (status == DT_OK && p->if_version && p->if_version != c->job->version)
        status = dt_fail(c->err, DT_VERSION, "job %lld has version %lld", (long long)c->id, (long long)c->job->version);
    DT_THEN(status, make_wanted_job(c, &want));
    if (status == DT_OK && !is_same_job(c->job, &want))
        status = write_patch(c, &want);
    return status;
}

/* ---- replace ---- */

#define TAKE_BODY(kind, member, column) patch.member = body->member;
#define TAKE_ALL(kind, member, column)                                                                                 \
    patch.member = body->member;                                                                                       \
    patch.has_##member = true;

/* Replaces the whole body of the job. If an attempt with the old body is in flight, the change is TOO_LATE, because
 * that attempt cannot be changed any more. */
static dt_status decide_replace(struct change *c)
{
    const struct dt_new_job *body = c->body;
    const struct dt_str digest = {(const char *)body->digest, sizeof(body->digest)};
    struct dt_patch patch = {.has_run_at = true,
                             .run_at_ms = body->run_at_ms,
                             .has_payload = true,
                             .payload = body->payload,
                             .has_retry = true,
                             .retry = body->retry,
                             .has_ack_timeout = true,
                             .ack_timeout_ms = body->ack_timeout_ms};
    struct dt_job want;
    DT_JOB_COLUMNS(DT_COLUMN_NONE, TAKE_BODY, TAKE_ALL)
    if (c->archived || dt_job_state_terminal(c->job->state))
        return dt_fail(c->err, DT_NOT_FOUND, "the key's job is finished");
    if (dt_job_state_after(c->job->state, DT_EVENT_CHANGE) != DT_SCHEDULED)
        return fail_too_late(c);
    dt_status status = refuse_in_flight(c);
    if (status != DT_OK)
        return status;
    c->patch = &patch;
    status = make_wanted_job(c, &want);
    DT_THEN(status, write_patch(c, &want));
    c->patch = NULL;
    DT_THEN(status, dt_db_run(c->db, dt_sql_renew_job, DT_PARAMS(DT_P_STR(digest), DT_P_INT(c->id)), NULL, c->err));
    return status;
}

/* ---- the public changes ---- */

static const struct way {
    dt_status (*decide)(struct change *);
    const char *action;
} ways[] = {[DT_CHANGE_CANCEL] = {decide_cancel, "cancel"},
            [DT_CHANGE_PATCH] = {decide_patch, "change"},
            [DT_CHANGE_RUN_NOW] = {decide_run_now, "run_now"},
            [DT_CHANGE_REDRIVE] = {decide_redrive, "redrive"},
            [DT_CHANGE_REPLACE] = {decide_replace, "replace"}};

static dt_status commit_change(dt_store *store, struct change *c, enum dt_change_how how)
{
    struct dt_counts counts;
    c->actor = dt_store_actor(store);
    c->action = ways[how].action;
    c->config = dt_store_config(store);
    c->decide = ways[how].decide;
    c->counts = &counts;
    return dt_store_commit_work(store, &counts, run_change_in_txn, c, c->err);
}

dt_status dt_store_cancel(dt_store *store, int64_t id, bool keep_attempt, struct dt_arena *arena, struct dt_job *job,
                          struct dt_error *err)
{
    return commit_change(
        store, &(struct change){.id = id, .keep_attempt = keep_attempt, .arena = arena, .job = job, .err = err},
        DT_CHANGE_CANCEL);
}

dt_status dt_store_run_now(dt_store *store, int64_t id, struct dt_arena *arena, struct dt_job *job,
                           struct dt_error *err)
{
    return commit_change(store, &(struct change){.id = id, .arena = arena, .job = job, .err = err}, DT_CHANGE_RUN_NOW);
}

dt_status dt_store_redrive(dt_store *store, int64_t id, struct dt_arena *arena, struct dt_job *job,
                           struct dt_error *err)
{
    return commit_change(store, &(struct change){.id = id, .arena = arena, .job = job, .err = err}, DT_CHANGE_REDRIVE);
}

dt_status dt_store_patch(dt_store *store, int64_t id, const struct dt_patch *patch, struct dt_arena *arena,
                         struct dt_job *job, struct dt_error *err)
{
    return commit_change(store, &(struct change){.id = id, .patch = patch, .arena = arena, .job = job, .err = err},
                         DT_CHANGE_PATCH);
}

dt_status dt_store_replace(dt_store *store, const struct dt_new_job *body, struct dt_arena *arena, struct dt_job *job,
                           struct dt_error *err)
{
    return commit_change(store, &(struct change){.body = body, .arena = arena, .job = job, .err = err},
                         DT_CHANGE_REPLACE);
}

dt_status dt_change_in_txn(const struct dt_change_txn *t, struct dt_job_change *change, struct dt_error *err)
{
    struct change c = {.id = change->id,
                       .topic = change->topic,
                       .patch = change->patch,
                       .keep_attempt = change->keep_attempt,
                       .body = change->body,
                       .config = dt_store_config(t->store),
                       .arena = t->arena,
                       .job = &change->job,
                       .passes_locked = true,
                       .decide = ways[change->how].decide,
                       .actor = t->actor,
                       .action = ways[change->how].action,
                       .counts = t->counts,
                       .err = err};
    dt_status status = DT_OK;
    change->job = (struct dt_job){0};
    if (!c.id && !c.body)
        status = dt_key_find(t->db, change->topic, change->key, &c.id, err);
    DT_THEN(status, run_change_in_txn(&c, t->db, t->now_ms, err));
    change->locked = c.locked;
    return status;
}

dt_status dt_job_read_in_txn(const struct dt_change_txn *t, int64_t id, struct dt_job *job, struct dt_error *err)
{
    struct change c = {.id = id, .db = t->db, .arena = t->arena, .job = job, .err = err};
    return read_job_anywhere(&c, dt_sql_select_job);
}

/* ---- attempts: archived ones, and the latest one from the job's row ---- */

struct attempt_page {
    struct dt_arena *arena;
    int64_t after;
    size_t limit, n;
    struct dt_attempt *list; /* memory for `limit` attempts */
    bool more;
    struct dt_error *err;
};

static bool copy_attempt(const dt_db *db, struct dt_arena *arena, struct dt_attempt *a)
{
    struct dt_str code = dt_db_bytes(db, 5);
    struct dt_str message = dt_db_bytes(db, 6);
    *a = (struct dt_attempt){.attempt = dt_db_i64(db, 0),
                             .status = dt_row_attempt_status(db, 1),
                             .due_at_ms = dt_db_i64(db, 2),
                             .dispatched_at_ms = dt_db_i64(db, 3),
                             .finished_at_ms = dt_db_i64(db, 4),
                             .error_code = dt_arena_copy(arena, code),
                             .error_message = dt_arena_copy(arena, message),
                             .http_status = dt_db_i64(db, 7),
                             .duration_ms = dt_db_is_null(db, 8) ? -1 : dt_db_i64(db, 8)};
    if (a->status == DT_ATTEMPT_NONE) /* possible after a manual edit */
        a->status = DT_ATTEMPT_DISPATCHED;
    return (!code.p || a->error_code.p) && (!message.p || a->error_message.p);
}

/* Reads the rows of a statement that has the job's id as its first parameter into the page. */
static dt_status read_attempts(struct attempt_page *p, dt_db *db, const char *sql, struct dt_params params)
{
    size_t rows = 0;
    p->n = 0;
    p->more = false;
    dt_status status = dt_db_query(db, sql, params, p->err);
    if (status != DT_OK)
        return status;
    for (; status == DT_OK && dt_db_next(db); rows++) {
        /* The statement always selects the attempt in the job's row. If an earlier page has shown it, skips it. */
        int64_t attempt = dt_db_i64(db, 0);
        if (attempt < 1 || attempt <= p->after)
            continue;
        p->more = p->n == p->limit;
        if (!p->more && !copy_attempt(db, p->arena, &p->list[p->n++]))
            status = dt_fail(p->err, DT_NOMEM, "out of memory");
    }
    dt_assert_cmp(p->n, <=, p->limit);
    dt_status ended = dt_db_end(db, status != DT_OK ? NULL : p->err);
    DT_THEN(status, ended);
    if (status == DT_OK && rows == 0)
        return dt_fail(p->err, DT_NOT_FOUND, "no job %lld", (long long)params.v[0].i);
    return status;
}

/* Requests two rows more than the page has. One of them shows that the list continues. The other may be the attempt in
 * the job's row, which an earlier page had. */
#define ROWS(p) DT_P_INT((p)->limit + 2)

static dt_status read_live_attempts(struct attempt_page *p, dt_db *db, int64_t id)
{
    return read_attempts(p, db, dt_sql_select_attempts,
                         DT_PARAMS(DT_P_INT(id), DT_P_INT(p->after), ROWS(p), DT_P_INT(id), ROWS(p)));
}

static dt_status read_archived_attempts(struct attempt_page *p, dt_db *db, int64_t id)
{
    struct dt_param params[2 * DT_ARCHIVE_PARAMS + 3];
    struct dt_archive_search search = dt_archive_search_of(id);
    dt_status status;
    do {
        status = dt_archive_search_next(db, &search, p->err);
        memcpy(params, search.params, sizeof(search.params));
        params[DT_ARCHIVE_PARAMS] = DT_P_INT(p->after);
        params[DT_ARCHIVE_PARAMS + 1] = ROWS(p);
        memcpy(params + DT_ARCHIVE_PARAMS + 2, search.params, sizeof(search.params));
        params[2 * DT_ARCHIVE_PARAMS + 2] = ROWS(p);
        DT_THEN(status, read_attempts(p, db, dt_sql_select_archived_attempts,
                                      (struct dt_params){params, 2 * DT_ARCHIVE_PARAMS + 3}));
    } while (dt_archive_search_more(&search, status));
    return status;
}

dt_status dt_store_attempts(dt_store *store, const struct dt_attempt_filter *filter, struct dt_arena *arena,
                            struct dt_attempt_list *out, struct dt_error *err)
{
    struct attempt_page p = {.arena = arena, .after = filter->after, .limit = filter->limit, .err = err};
    dt_db *db;
    dt_status status;
    unsigned tries = 0;
    *out = (struct dt_attempt_list){0};
    p.list = dt_arena_alloc(arena, (p.limit + 1) * sizeof(*p.list));
    if (!p.list)
        return dt_fail(err, DT_NOMEM, "out of memory");
    do {
        status = dt_store_db(store, &db, err);
        if (status != DT_OK)
            return status;
        status = read_live_attempts(&p, db, filter->job_id);
        if (status == DT_NOT_FOUND)
            status = read_archived_attempts(&p, db, filter->job_id);
        if (status == DT_NOT_FOUND) /* the job was redriven since `jobs` was read */
            status = read_live_attempts(&p, db, filter->job_id);
    } while (dt_store_read_again(&tries, status));
    if (status != DT_OK)
        return status;
    *out = (struct dt_attempt_list){.v = p.list, .n = p.n, .more = p.more};
    return DT_OK;
}
