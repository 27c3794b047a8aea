/*
 * The plan of fires, in pure functions (first part), and the jobs of fires, in one transaction (second part).
 *
 * The plan has fires that were missed, fires that are due soon, and one more, so that the next fire always has a job.
 * If fires must not overlap, the plan has at most one fire, and only if the previous job is finished or the fire's own
 * time has passed.
 *
 * If a job has the key of a fire already, it is the job of this fire. If the job was withdrawn, it is scheduled again
 * with the schedule's current settings; otherwise it is not changed.
 */
#include "fire_batch.h"

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/text/timetext.h"
#include "job/change/jobs.h"
#include "job/change/jobs_txn.h"
#include "mysql/statements.h"

#define REST_MAX_MS DT_FIRES_AHEAD_MS

dt_status dt_schedule_recurrence(const struct dt_schedule *schedule, dt_zone_files *zones, struct dt_recurrence *out,
                                 dt_zone **zone, struct dt_error *err)
{
    dt_status status = DT_OK;
    *zone = NULL;
    *out = (struct dt_recurrence){
        .every_ms = schedule->cron.p ? 0 : schedule->every_ms,
        .anchor_ms = schedule->anchor_ms,
        .starts_at_ms = schedule->has_start ? schedule->starts_at_ms : INT64_MIN,
        .ends_at_ms = dt_earlier(schedule->has_end ? schedule->ends_at_ms : INT64_MAX, DT_TIME_MAX_MS + 1),
    };
    if (schedule->cron.p)
        status = dt_cron_parse(schedule->cron, &out->cron, err);
    else if (schedule->every_ms <= 0)
        status = dt_fail(err, DT_INVALID, "it has neither cron nor every");
    DT_THEN(status, dt_zone_files_get(zones, schedule->time_zone, zone, err));
    out->zone = *zone;
    return status;
}

int64_t dt_fire_runs_at_ms(const struct dt_schedule *s, int64_t fire_ms)
{
    return dt_earlier(fire_ms + dt_recurrence_jitter_ms(s->name, fire_ms, s->jitter_ms), DT_TIME_MAX_MS);
}

void dt_fire_plan_from(struct dt_schedule *s, const struct dt_recurrence *r, int64_t from_ms)
{
    const int64_t next_ms = dt_recurrence_next_ms(r, from_ms - 1);
    s->next_fire_ms = next_ms == DT_NEVER ? 0 : next_ms;
}

/* Skips missed fires: those older than catch_up, and all but the newest catch_up_max. */
static void skip_missed_fires(struct dt_schedule *s, const struct dt_fire_plan *plan)
{
    int64_t fires[DT_CATCH_UP_MAX];
    const int64_t since_ms = s->waits_since_ms ? dt_earlier(s->waits_since_ms, plan->now_ms) : plan->now_ms;
    int64_t oldest_ms = since_ms - s->jitter_ms - dt_later(s->catch_up_ms, DT_FIRE_GRACE_MS);

    if (s->next_fire_ms < oldest_ms)
        dt_fire_plan_from(s, plan->recurrence, oldest_ms);
    if ((!s->catch_up_max && !s->waits_since_ms) || !s->next_fire_ms || s->next_fire_ms > plan->now_ms)
        return;
    size_t max = (size_t)dt_earlier(s->catch_up_max ? s->catch_up_max : DT_FIRES_AHEAD, DT_CATCH_UP_MAX);
    if (dt_recurrence_newest(plan->recurrence, s->next_fire_ms - 1, plan->now_ms, fires, max) == max)
        s->next_fire_ms = fires[0];
}

static void plan_next_fire(struct dt_schedule *s, struct dt_fire_plan *plan, enum dt_fire_how how)
{
    dt_assert_cmp(plan->n, <, plan->room);
    plan->fires[plan->n++] = (struct dt_fire){s->next_fire_ms, how};
    s->last_fire_ms = s->next_fire_ms;
    dt_fire_plan_from(s, plan->recurrence, s->next_fire_ms + 1);
}

/* Returns a time shortly after the last fire, for the next check. The time depends on the schedule's name, so that
 * schedules with the same fire are not all due for a check at once. */
static int64_t first_check_ms(const struct dt_schedule *s)
{
    int64_t rest_ms = dt_earlier(REST_MAX_MS, (s->next_fire_ms - s->last_fire_ms) / 4);
    return s->last_fire_ms + 1 + dt_recurrence_jitter_ms(s->name, s->last_fire_ms, rest_ms);
}

static bool is_fire_due(const struct dt_schedule *s, const struct dt_fire_plan *plan)
{
    return s->next_fire_ms && dt_fire_runs_at_ms(s, s->next_fire_ms) <= plan->now_ms;
}

/* Returns the time up to which fires count as due soon: when DT_FIRES_AHEAD more fires have passed, but at most
 * 2 * DT_FIRES_AHEAD_MS from now. *half_ms: time of the middle one of these fires, or INT64_MAX if fewer are within
 * that time. */
static int64_t find_last_soon_fire_ms(const struct dt_fire_plan *plan, int64_t *half_ms)
{
    const int64_t soon_ms = plan->now_ms + 2 * DT_FIRES_AHEAD_MS;
    int64_t at_ms = plan->now_ms;
    for (int i = 0; i < DT_FIRES_AHEAD; i++) {
        at_ms = dt_recurrence_next_ms(plan->recurrence, at_ms);
        if (at_ms > soon_ms) {
            *half_ms = INT64_MAX;
            return soon_ms;
        }
        if (i == DT_FIRES_AHEAD / 2)
            *half_ms = at_ms;
    }
    return at_ms;
}

/* Plans all fires that are due soon, and at least one future fire. */
static void plan_soon_fires(struct dt_schedule *s, struct dt_fire_plan *plan)
{
    int64_t half_ms = INT64_MAX;
    const int64_t soon_ms = find_last_soon_fire_ms(plan, &half_ms);
    while (plan->due_only ? is_fire_due(s, plan)
                          : s->next_fire_ms && (s->next_fire_ms <= soon_ms || s->last_fire_ms <= plan->now_ms)) {
        if (plan->n == plan->room) {
            plan->look_ms = plan->now_ms;
            return;
        }
        plan_next_fire(s, plan, DT_FIRE_RUNS);
    }
    plan->look_ms = !s->next_fire_ms       ? 0
                    : half_ms != INT64_MAX ? half_ms
                                           : dt_earlier(s->next_fire_ms - DT_FIRES_AHEAD_MS, first_check_ms(s));
    if (plan->look_ms && plan->look_ms <= plan->now_ms)
        plan->look_ms = plan->now_ms + 1;
}

/* Plans at most one fire, because how the next fire runs depends on the job of this one. */
static void plan_single_fire(struct dt_schedule *s, struct dt_fire_plan *plan)
{
    bool runs = !plan->unfinished || (s->overlap == DT_OVERLAP_CANCEL && plan->retries_ended);

    if (s->next_fire_ms && !plan->unfinished && !plan->due_only) {
        plan_next_fire(s, plan, DT_FIRE_RUNS);
    } else if (is_fire_due(s, plan)) {
        plan->cancel_first = s->overlap == DT_OVERLAP_CANCEL && !runs;
        if (!plan->cancel_first)
            plan_next_fire(s, plan, runs ? DT_FIRE_RUNS : DT_FIRE_SKIPPED);
    }
    if (!s->next_fire_ms)
        return;
    /* The next check is at the earliest of three times that are in the future: some time after the last fire, shortly
     * before the next fire, and at the next fire. */
    const int64_t rested_at_ms = s->last_fire_ms ? first_check_ms(s) : 0;
    const int64_t ahead_ms = s->next_fire_ms - DT_FIRES_AHEAD_MS;
    plan->look_ms = dt_later(dt_fire_runs_at_ms(s, s->next_fire_ms), plan->now_ms);
    if (rested_at_ms > plan->now_ms)
        plan->look_ms = dt_earlier(plan->look_ms, rested_at_ms);
    if (ahead_ms > plan->now_ms)
        plan->look_ms = dt_earlier(plan->look_ms, ahead_ms);
}

void dt_fire_plan_make(struct dt_schedule *s, struct dt_fire_plan *plan)
{
    plan->n = 0;
    plan->cancel_first = false;
    plan->look_ms = 0;
    if (s->paused || !s->next_fire_ms)
        return;
    skip_missed_fires(s, plan);
    if (plan->room == 0)
        plan->look_ms = plan->now_ms;
    else if (s->overlap == DT_OVERLAP_ALLOW)
        plan_soon_fires(s, plan);
    else
        plan_single_fire(s, plan);
}

/* ---- jobs of fires ---- */
#define WITHDRAWN     "withdrawn"
#define AGAIN_MS      INT64_C(60000) /* pause before the next check of a schedule whose jobs cannot be made */
#define MOVES_START   64
#define BYTES_AT_ONCE ((size_t)16 << 20) /* most bytes of jobs in one transaction, unless a single job is larger */

struct dt_fire_row {
    struct dt_insert insert;
    struct dt_schedule *schedule;
    enum dt_fire_how how;
};

dt_status dt_fire_batch_init(struct dt_fire_batch *b, struct dt_fire_maker *maker, struct dt_error *err)
{
    struct dt_arena *arena = maker->arena;
    *b = (struct dt_fire_batch){.maker = maker, .err = err};
    dt_counts_init(&b->counts);
    b->rows = dt_arena_alloc(arena, DT_FIRES_AT_ONCE * sizeof(*b->rows));
    /* There is memory for twice as many entries, because a refused job adds a second entry for its schedule. */
    b->progress = dt_arena_alloc(arena, 2 * DT_FIRES_AT_ONCE * sizeof(*b->progress));
    b->cancel_first = dt_arena_alloc(arena, DT_FIRES_AT_ONCE * sizeof(*b->cancel_first));
    maker->moves = NULL;
    maker->n_moves = 0;
    return b->rows && b->progress && b->cancel_first ? DT_OK : dt_fail(err, DT_NOMEM, "out of memory");
}

/* The array of changed times has as many cells as it has entries, rounded up to a power of two. */
static dt_status add_job_move(struct dt_fire_batch *b, struct dt_job_move move)
{
    struct dt_fire_maker *m = b->maker;
    size_t n = m->n_moves;
    if (n == 0 || (n >= MOVES_START && (n & (n - 1)) == 0)) {
        size_t room = n ? 2 * n : MOVES_START;
        struct dt_job_move *moves = dt_arena_alloc(m->arena, room * sizeof(*moves));
        if (!moves)
            return dt_fail(b->err, DT_NOMEM, "out of memory");
        if (n)
            memcpy(moves, m->moves, n * sizeof(*moves));
        m->moves = moves;
    }
    m->moves[m->n_moves++] = move;
    return DT_OK;
}

/* ---- planning the jobs ---- */

static dt_status read_topic_defaults(struct dt_fire_batch *b, struct dt_str topic)
{
    if (b->topic.p && dt_str_eq(b->topic, topic))
        return DT_OK;
    bool ok = true;
    dt_status status = dt_db_query(b->db, dt_sql_select_topic_defaults, DT_PARAMS(DT_P_STR(topic)), b->err);
    if (status != DT_OK)
        return status;
    b->topic = topic;
    b->topic_there = dt_db_next(b->db);
    b->retry = b->topic_there ? dt_store_text(b->db, 0, b->maker->arena, &ok) : DT_STR_NONE;
    b->ack_timeout_ms = b->topic_there ? dt_db_i64(b->db, 1) : 0;
    b->owner = b->topic_there ? dt_db_i64(b->db, 2) : 0;
    if (!b->retry.p)
        b->retry = DT_STR_LIT(DT_RETRY_DEFAULT);
    if (b->ack_timeout_ms <= 0)
        b->ack_timeout_ms = DT_ACK_TIMEOUT_DEFAULT_MS;
    status = dt_db_end(b->db, b->err);
    return status == DT_OK && !ok ? dt_fail(b->err, DT_NOMEM, "out of memory") : status;
}

/* Makes `s` the current schedule: reads the defaults of its topic, and opens the quota that its jobs spend. */
static dt_status select_schedule(struct dt_fire_batch *b, struct dt_schedule *s)
{
    b->quota = NULL;
    dt_status status = read_topic_defaults(b, s->job.topic);
    if (status != DT_OK || !b->topic_there)
        return status;
    s->owner = b->owner;
    status = dt_fire_quotas_open(&b->quotas, b->db, b->now_ms, b->maker->store, b->maker->arena, &s->owner, 1, b->err);
    b->quota = dt_fire_quotas_find(&b->quotas, s->owner);
    return status;
}

static dt_status fire_key(struct dt_fire_batch *b, struct dt_str name, int64_t fire_ms, struct dt_str *out)
{
    *out = dt_arena_printf(b->maker->arena, "%.*s@%lld", (int)name.n, name.p, (long long)fire_ms);
    return out->p ? DT_OK : dt_fail(b->err, DT_NOMEM, "out of memory");
}

static dt_status add_fire_row(struct dt_fire_batch *b, struct dt_schedule *s, const struct dt_fire *fire)
{
    struct dt_fire_row *row = &b->rows[b->n_rows];
    struct dt_fire_maker *m = b->maker;
    dt_assert_cmp(b->n_rows, <, DT_FIRES_AT_ONCE);
    dt_assert_cmp(m->ids, >, 0);
    *row = (struct dt_fire_row){.schedule = s, .how = fire->how, .insert.job = s->job};
    struct dt_new_job *job = &row->insert.job;
    job->run_at_ms = dt_fire_runs_at_ms(s, fire->at_ms);
    job->id = dt_job_id(job->run_at_ms, m->id);
    m->id++;
    m->ids--;
    if (!job->retry.p)
        job->retry = b->retry;
    if (job->ack_timeout_ms <= 0)
        job->ack_timeout_ms = b->ack_timeout_ms;
    b->n_rows++;
    b->bytes += dt_new_job_bytes(job);
    dt_fire_quota_spend(b->quota);
    return fire_key(b, s->name, fire->at_ms, &job->key);
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t dt_fire_batch_room(const struct dt_fire_batch *b, const struct dt_schedule *s)
{
    size_t rows = min_size(DT_FIRES_AT_ONCE - b->n_rows, (size_t)b->maker->ids);
    rows = min_size(rows, dt_fire_quota_room(b->quota));
    if (b->bytes >= BYTES_AT_ONCE)
        return 0;
    return min_size(rows, (BYTES_AT_ONCE - b->bytes) / (dt_new_job_bytes(&s->job) + 1) + 1);
}

static dt_status check_unfinished_job(struct dt_fire_batch *b, const struct dt_schedule *s, struct dt_fire_plan *plan)
{
    if (s->overlap == DT_OVERLAP_ALLOW || !s->last_job_id)
        return DT_OK;
    int64_t ended;
    dt_status status = dt_db_read_number(b->db, dt_sql_find_unfinished, DT_PARAMS(DT_P_INT(s->last_job_id)),
                                         &plan->unfinished, &ended, b->err);
    plan->retries_ended = ended != 0;
    return status;
}

static void add_schedule_progress(struct dt_fire_batch *b, const struct dt_schedule *s, int64_t look_ms)
{
    dt_assert_cmp(b->n_progress, <, 2 * DT_FIRES_AT_ONCE);
    b->progress[b->n_progress++] = (struct dt_schedule_progress){s, look_ms};
}

/* If the quota is used up, the fires wait for it. Returns the time of the schedule's next check. */
static int64_t wait_for_quota(struct dt_fire_batch *b, struct dt_schedule *s, int64_t look_ms)
{
    const char *why;
    if (!look_ms || look_ms > b->now_ms) {
        s->waits_since_ms = 0;
        return look_ms;
    }
    /* The schedule waits for the transaction's limit of jobs, not for the quota, so waits_since_ms does not change. */
    if (!b->quota || dt_fire_quota_room(b->quota) > 0)
        return look_ms;
    look_ms = b->now_ms + dt_fire_quota_wait_ms(b->quota, &why);
    if (!s->waits_since_ms)
        s->waits_since_ms = b->now_ms;
    if (s->next_fire_ms <= b->now_ms) {
        s->error = dt_str(why);
        s->error_at_ms = b->now_ms;
    }
    return look_ms;
}

static dt_status plan_fires(struct dt_fire_batch *b, struct dt_schedule *s, const struct dt_recurrence *r)
{
    struct dt_fire fires[DT_FIRES_AT_ONCE];
    const bool returns = b->n_rows > 0 && b->rows[b->n_rows - 1].schedule == s;
    struct dt_fire_plan plan = {.recurrence = r, .now_ms = b->now_ms, .room = dt_fire_batch_room(b, s), .fires = fires};
    dt_status status = check_unfinished_job(b, s, &plan);
    if (status != DT_OK)
        return status;
    plan.unfinished = plan.unfinished || returns;
    dt_fire_plan_make(s, &plan);
    if (plan.cancel_first) {
        dt_assert_cmp(b->n_cancel_first, <, DT_FIRES_AT_ONCE);
        b->cancel_first[b->n_cancel_first++] = s->last_job_id;
    }
    for (size_t i = 0; i < plan.n && status == DT_OK; i++)
        status = add_fire_row(b, s, &fires[i]);
    s->error = DT_STR_NONE;
    s->error_at_ms = 0;
    add_schedule_progress(b, s, wait_for_quota(b, s, plan.look_ms));
    return status;
}

dt_status dt_fire_batch_refuse(struct dt_fire_batch *b, struct dt_schedule *s, const char *why)
{
    s->error = dt_arena_copy(b->maker->arena, dt_str(why));
    s->error_at_ms = b->now_ms;
    add_schedule_progress(b, s, b->now_ms + AGAIN_MS);
    return s->error.p ? DT_OK : dt_fail(b->err, DT_NOMEM, "out of memory");
}

/* ---- fires that fell due just before a change ---- */

static dt_status add_due_fires(struct dt_fire_batch *b, struct dt_schedule *s, const struct dt_recurrence *r,
                               struct dt_schedule *then)
{
    struct dt_fire fires[DT_FIRES_AT_ONCE];
    struct dt_fire_plan plan = {.recurrence = r, .now_ms = b->now_ms, .due_only = true, .fires = fires};
    dt_status status = check_unfinished_job(b, s, &plan);
    if (status != DT_OK)
        return status;
    plan.room = dt_fire_batch_room(b, s);
    dt_fire_plan_make(s, &plan);
    if (plan.cancel_first) {
        const struct dt_change_txn txn = {
            .store = b->maker->store, .db = b->db, .now_ms = b->now_ms, .counts = &b->counts, .arena = b->maker->arena};
        struct dt_job_change cancel = {.how = DT_CHANGE_CANCEL, .id = s->last_job_id, .keep_attempt = true};
        status = dt_change_in_txn(&txn, &cancel, b->err);
        if (status == DT_NOT_FOUND || status == DT_TOO_LATE) /* the job is finished meanwhile */
            status = DT_OK;
        plan.retries_ended = true;
        dt_fire_plan_make(s, &plan);
    }
    for (size_t i = 0; i < plan.n && status == DT_OK; i++) {
        status = add_fire_row(b, s, &fires[i]);
        b->rows[b->n_rows - 1].schedule = then;
    }
    return status;
}

dt_status dt_fire_batch_add_due(struct dt_fire_batch *b, struct dt_schedule *s, struct dt_schedule *then)
{
    struct dt_recurrence r;
    dt_zone *zone = NULL;
    dt_status status = select_schedule(b, s);
    if (status != DT_OK || !b->topic_there || s->paused)
        return status;
    status = dt_schedule_recurrence(s, b->maker->zones, &r, &zone, b->err);
    DT_THEN(status, add_due_fires(b, s, &r, then));
    dt_zone_free(zone);
    return status == DT_INVALID ? DT_OK : status; /* INVALID: the expression is not valid any more, so no fire is due */
}

dt_status dt_fire_batch_advance(struct dt_fire_batch *b, struct dt_schedule *s)
{
    struct dt_recurrence r;
    dt_zone *zone = NULL;
    struct dt_error why = {0};
    dt_status status = select_schedule(b, s);
    if (status != DT_OK)
        return status;
    if (!b->topic_there)
        return dt_fire_batch_refuse(b, s, "its topic does not exist");
    status = dt_schedule_recurrence(s, b->maker->zones, &r, &zone, &why);
    if (status != DT_OK)
        return dt_fire_batch_refuse(b, s, why.text);
    const int64_t stamp = dt_zone_stamp(r.zone);
    if (s->zone_stamp != stamp && s->zone_stamp && !s->paused) {
        /* tzdata has changed, so future fires are computed again. */
        status = add_due_fires(b, s, &r, s);
        DT_THEN(status, dt_fire_batch_withdraw(b, s, dt_fire_batch_room(b, s)));
        s->last_fire_ms = dt_earlier(s->last_fire_ms, b->now_ms);
        dt_fire_plan_from(s, &r, b->now_ms + 1);
    }
    s->zone_stamp = stamp;
    /* Fires that were withdrawn although only jitter delayed them get jobs again, if the schedule still has these
     * fires. */
    for (size_t i = 0; i < b->n_put_off && !s->paused && status == DT_OK; i++)
        if (dt_recurrence_next_ms(&r, b->put_off[i] - 1) == b->put_off[i] && dt_fire_batch_room(b, s) > 0)
            status = add_fire_row(b, s, &(struct dt_fire){b->put_off[i], DT_FIRE_RUNS});
    b->n_put_off = 0;
    DT_THEN(status, plan_fires(b, s, &r));
    dt_zone_free(zone);
    return status;
}

dt_status dt_fire_batch_now(struct dt_fire_batch *b, struct dt_schedule *s)
{
    struct dt_schedule at_once = *s;
    dt_status status = read_topic_defaults(b, s->job.topic);
    if (status != DT_OK)
        return status;
    if (!b->topic_there)
        return dt_fail(b->err, DT_INVALID, "its topic does not exist");
    at_once.jitter_ms = 0;
    b->quota = NULL; /* no quota is spent, because the caller's token has spent its own */
    status = add_fire_row(b, &at_once, &(struct dt_fire){b->now_ms, DT_FIRE_RUNS});
    b->rows[b->n_rows - 1].schedule = s;
    add_schedule_progress(b, s, s->look_ms);
    return status;
}

/* ---- writing the jobs ---- */

static dt_status end_fire(struct dt_fire_batch *b, int64_t id, const char *code, const char *message, int64_t until_ms,
                          bool *ended)
{
    uint64_t changed = 0;
    int64_t leave_ms = until_ms + dt_store_config(b->maker->store)->history_after;
    dt_status status = dt_db_run(b->db, dt_sql_end_fire,
                                 DT_PARAMS(DT_P_INT(b->now_ms), DT_P_STR(dt_str(code)), DT_P_STR(dt_str(message)),
                                           DT_P_INT(b->now_ms), DT_P_INT(leave_ms), DT_P_INT(b->now_ms),
                                           DT_P_INT(DT_RETENTION_DEFAULT_MS), DT_P_INT(b->now_ms), DT_P_INT(id)),
                                 &changed, b->err);
    *ended = changed == 1;
    return status;
}

/* The fire has a job already. If the job was withdrawn, schedules it again. */
static dt_status reschedule_fire(struct dt_fire_batch *b, struct dt_fire_row *row)
{
    const struct dt_new_job *job = &row->insert.job;
    int64_t id = row->insert.existing_id;
    uint64_t changed = 0;
    dt_status status = dt_db_run(b->db, dt_sql_return_fire,
                                 DT_PARAMS(DT_P_INT(job->run_at_ms), DT_P_INT(job->run_at_ms),
                                           DT_P_INT(job->run_at_ms < dt_near_end_ms(b->now_ms)), DT_P_INT(b->now_ms),
                                           DT_P_STR(((struct dt_str){(const char *)job->digest, sizeof(job->digest)})),
                                           DT_P_STR(job->retry), DT_P_INT(job->ack_timeout_ms),
                                           DT_P_STR_OR_NULL(job->partition_key), DT_P_STR_OR_NULL(job->headers),
                                           DT_P_STR_OR_NULL(job->callback_url), DT_P_STR_OR_NULL(job->content_type),
                                           DT_P_INT(job->payload_binary), DT_P_STR(job->payload), DT_P_INT(id)),
                                 &changed, b->err);
    if (status != DT_OK || row->how == DT_FIRE_SKIPPED)
        return status;
    row->schedule->last_job_id = id;
    if (changed == 0)
        return DT_OK;
    b->returned++;
    dt_counts_move(&b->counts, job->topic, id, DT_CANCELLED, DT_SCHEDULED);
    return add_job_move(b, (struct dt_job_move){id, job->run_at_ms, 0});
}

static dt_status handle_insert_outcome(struct dt_fire_batch *b, struct dt_fire_row *row)
{
    const struct dt_new_job *job = &row->insert.job;
    switch (row->insert.outcome) {
    case DT_INSERT_CREATED:
        break;
    case DT_INSERT_SAME:
    case DT_INSERT_CONFLICT:
        return reschedule_fire(b, row);
    case DT_INSERT_NO_TOPIC:
    case DT_INSERT_ID_TAKEN:
    case DT_INSERT_REFUSED:
    case DT_INSERT_TOO_LARGE:
    case DT_INSERT_RESERVED:
    case DT_INSERT_DELETING:
        return dt_fire_batch_refuse(b, row->schedule, "the server rejects its jobs");
    }
    dt_assert(row->insert.outcome == DT_INSERT_CREATED);
    if (row->how == DT_FIRE_SKIPPED) {
        static const char why[] = "the previous job is not finished";
        bool ended;
        dt_status status = end_fire(b, job->id, "overlap", why, b->now_ms, &ended);
        if (status == DT_OK && ended)
            dt_counts_move(&b->counts, job->topic, job->id, DT_SCHEDULED, DT_CANCELLED);
        b->skipped++;
        return status;
    }
    row->schedule->last_job_id = job->id;
    b->made++;
    return add_job_move(b, (struct dt_job_move){job->id, job->run_at_ms, 0});
}

dt_status dt_fire_batch_write(struct dt_fire_batch *b)
{
    struct dt_insert **v = dt_arena_alloc(b->maker->arena, (b->n_rows + 1) * sizeof(*v));
    struct dt_insert_rows rows = {.v = v, .n = b->n_rows, .maker = b->maker->number};
    for (size_t i = 0; v && i < b->n_rows; i++)
        v[i] = &b->rows[i].insert;
    dt_status status = v ? dt_insert_in_txn(b->maker->store, b->db, b->now_ms, &rows, &b->counts, b->err)
                         : dt_fail(b->err, DT_NOMEM, "out of memory");
    DT_FAIL_POINT_STATUS("fires.inserted", status, b->err);
    for (size_t i = 0; i < b->n_rows && status == DT_OK; i++)
        status = handle_insert_outcome(b, &b->rows[i]);
    DT_THEN(status, dt_schedule_write_progress(b->db, b->maker->arena, b->progress, b->n_progress, b->err));
    DT_THEN(status, dt_fire_quotas_write(&b->quotas, b->db, b->now_ms, b->err));
    DT_FAIL_POINT_STATUS("fires.written", status, b->err);
    return status;
}

/* ---- withdrawing fires ---- */

struct pending {
    int64_t id, next_at_ms, fire_ms; /* id: id of the fire's job; fire_ms: nominal time of the fire */
};

static dt_status read_pending_fire(const dt_db *db, struct dt_arena *, void *row, void *arg)
{
    const struct dt_str *name = arg;
    struct pending *p = row;
    *p = (struct pending){dt_db_i64(db, 0), dt_db_i64(db, 1), dt_fire_key_time_ms(dt_db_bytes(db, 2), *name)};
    return DT_OK;
}

/* Reads the fires after after_ms whose jobs have not begun, in the order of their keys. That is the order of time for
 * keys whose times have the same number of digits. After the next minutes a schedule has at most one fire. */
static dt_status list_pending_fires(struct dt_fire_batch *b, const struct dt_schedule *s, int64_t after_ms,
                                    struct dt_rows *rows)
{
    struct dt_str name = s->name;
    struct dt_str after;
    struct dt_str last;
    struct dt_str below = dt_arena_printf(b->maker->arena, "%.*s@:", (int)s->name.n, s->name.p);
    dt_status status = fire_key(b, s->name, after_ms, &after);
    DT_THEN(status, fire_key(b, s->name, dt_later(s->last_fire_ms, b->now_ms + 1), &last));
    if (status == DT_OK && !below.p)
        status = dt_fail(b->err, DT_NOMEM, "out of memory");
    if (status != DT_OK)
        return status;
    *rows = (struct dt_rows){.row_bytes = sizeof(struct pending), .read = read_pending_fire, .arg = &name};
    status = dt_db_query(b->db, dt_sql_select_pending_fires,
                         DT_PARAMS(DT_P_STR(s->job.topic), DT_P_STR(after), DT_P_STR(below), DT_P_STR(last)), b->err);
    DT_THEN(status, dt_store_read_rows(b->db, b->maker->arena, rows, b->err));
    /* Skips jobs that callers made with keys that sort between the keys of fires, such as `<name>@17x`. */
    struct pending *v = rows->v;
    size_t kept = 0;
    for (size_t i = 0; i < rows->n; i++)
        if (v[i].fire_ms >= 0)
            v[kept++] = v[i];
    rows->n = kept;
    return status;
}

static dt_status withdraw_fire(struct dt_fire_batch *b, const struct dt_schedule *s, const struct pending *p)
{
    bool ended;
    dt_status status = end_fire(b, p->id, WITHDRAWN, "its schedule was changed, paused or deleted",
                                dt_later(p->next_at_ms, b->now_ms) + s->catch_up_ms, &ended);
    if (status != DT_OK || !ended)
        return status;
    dt_counts_move(&b->counts, s->job.topic, p->id, DT_SCHEDULED, DT_CANCELLED);
    if (p->fire_ms <= b->now_ms)
        b->put_off[b->n_put_off++] = p->fire_ms;
    return add_job_move(b, (struct dt_job_move){p->id, 0, p->next_at_ms});
}

dt_status dt_fire_batch_withdraw(struct dt_fire_batch *b, const struct dt_schedule *s, size_t most)
{
    struct dt_rows rows = {.n = 0};
    dt_status status = list_pending_fires(b, s, b->now_ms - s->jitter_ms, &rows);
    const struct pending *v = rows.v;
    b->n_put_off = 0;
    if (status == DT_OK)
        b->put_off = dt_arena_alloc(b->maker->arena, (rows.n + 1) * sizeof(*b->put_off));
    if (status == DT_OK && !b->put_off)
        status = dt_fail(b->err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < rows.n && status == DT_OK; i++) {
        const bool put_off = v[i].fire_ms <= b->now_ms && v[i].next_at_ms > b->now_ms;
        if (v[i].fire_ms > b->now_ms || (put_off && b->n_put_off < most))
            status = withdraw_fire(b, s, &v[i]);
    }
    return status;
}

dt_status dt_fire_batch_withdraw_but_next(struct dt_fire_batch *b, const struct dt_schedule *s)
{
    struct dt_rows rows = {.n = 0};
    dt_status status = list_pending_fires(b, s, b->now_ms, &rows);
    const struct pending *v = rows.v;
    for (size_t i = 1; i < rows.n && status == DT_OK; i++)
        status = withdraw_fire(b, s, &v[i]);
    return status;
}
