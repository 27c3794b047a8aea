/* Implements schedules.h: the transactions on schedules. Each transaction first locks the schedule's row of
 * schedule_fires, so two transactions never work on one schedule at the same time. */
#include <sys/random.h>

#include "base/assert.h"
#include "base/fail_point.h"
#include "events/events.h"
#include "fire_batch.h"
#include "job/change/jobs.h"
#include "job/change/jobs_txn.h"
#include "mysql/statements.h"

#define SCHEDULES_AT_ONCE 64
#define IDS_AT_ONCE       (2 * DT_FIRES_AT_ONCE)

/* ---- running a transaction ---- */

struct task {
    struct dt_fire_batch batch;
    struct dt_str name;
    struct dt_schedule *out;
    struct dt_job *job; /* out: the job that is due at once */
    struct dt_schedule_put *put;
    struct dt_fires_made *made;
    bool paused, cancel;
    const struct dt_turn *turns; /* owners with schedules that are due for a check */
    size_t n_turns;
    size_t limit;        /* most schedules in the transaction */
    const char *refused; /* if the only schedule of the batch cannot make its jobs: the reason; otherwise NULL */
    dt_status (*work)(struct task *t);
};

/* Runs one try of the transaction. Each try begins with an empty batch, and with empty counts. */
static dt_status try_commit_task(struct task *t, struct dt_error *err)
{
    dt_db *db;
    int64_t now_ms;
    dt_status status = dt_store_begin(t->batch.maker->store, &db, &now_ms, err);
    if (status == DT_OK) {
        status = dt_fire_batch_init(&t->batch, t->batch.maker, err);
        t->batch.db = db;
        t->batch.now_ms = now_ms;
        DT_THEN(status, t->work(t));
    } else
        dt_counts_init(&t->batch.counts);
    status = dt_counts_commit(db, &t->batch.counts, status, err);
    DT_FAIL_POINT_STATUS("fires.committed", status, err);
    return status;
}

/* Repeats the transaction until it is committed. If an id is taken (because its block was reserved before MySQL was
 * restored from a copy), reserves another block. */
static dt_status commit_task(struct dt_fire_maker *maker, struct task *t, struct dt_error *err)
{
    struct dt_again again = {0};
    dt_status status;
    t->batch.maker = maker;
    do {
        status = DT_OK;
        if (maker->ids < DT_FIRES_AT_ONCE) {
            uint64_t random;
            maker->ids = 0;
            if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
                status = dt_fail(err, DT_SYSTEM, "no random numbers from the system");
            else {
                maker->number = (int64_t)(random >> 1);
                status = dt_store_reserve_ids(maker->store, IDS_AT_ONCE, &maker->id, err);
            }
            maker->ids = status == DT_OK ? IDS_AT_ONCE : 0;
        }
        DT_THEN(status, try_commit_task(t, err));
        if (status == DT_EXISTS) {
            maker->ids = 0;
            status = DT_BUSY;
        }
    } while (dt_store_again(&again, status));
    if (status != DT_OK)
        maker->n_moves = 0;
    return status;
}

/* Locks and reads a schedule. NOT_FOUND: there is no such schedule. DENIED: the token's prefixes do not allow its
 * topic. The topic is checked under the lock, because a change may have given the schedule another topic. */
static dt_status lock_and_read_schedule(struct task *t, struct dt_schedule *s)
{
    struct dt_fire_batch *b = &t->batch;
    dt_status status = dt_db_read_number(b->db, dt_sql_lock_schedule, DT_PARAMS(DT_P_STR(t->name)), NULL, NULL, b->err);
    DT_THEN(status, dt_schedule_read(b->db, t->name, b->maker->arena, s, b->err));
    if (status == DT_OK && !dt_topic_within(b->maker->bound, s->job.topic))
        return dt_fail(b->err, DT_DENIED, "the token has no access to the schedule's topic");
    return status;
}

/* ---- making fires ---- */

struct due {
    struct dt_schedule *v; /* memory for t->limit schedules */
    struct dt_turn *turns;
    size_t n;
};

/* Sorts the schedules that wait for a quota before the others, the longest wait first. */
static int compare_by_quota_wait(const void *a, const void *b)
{
    int64_t x = ((const struct dt_schedule *)a)->waits_since_ms;
    int64_t y = ((const struct dt_schedule *)b)->waits_since_ms;
    x = x ? x : INT64_MAX;
    y = y ? y : INT64_MAX;
    return DT_ORDER(x, y);
}

/* Locks schedules that are due for a check. Each owner gets the same number, unless it has fewer. */
static dt_status lock_due_schedules(struct task *t, struct due *due)
{
    struct dt_fire_batch *b = &t->batch;
    const size_t part = (t->limit + t->n_turns - 1) / t->n_turns;
    int64_t owners[SCHEDULES_AT_ONCE];
    dt_status status = DT_OK;
    dt_assert_cmp(t->limit, <=, SCHEDULES_AT_ONCE);
    *due = (struct due){.v = dt_arena_alloc(b->maker->arena, t->limit * sizeof(*due->v)),
                        .turns = dt_arena_alloc(b->maker->arena, t->limit * sizeof(*due->turns))};
    if (!due->v || !due->turns)
        return dt_fail(b->err, DT_NOMEM, "out of memory");
    for (size_t i = 0; status == DT_OK && i < t->n_turns && due->n < t->limit; i++) {
        struct dt_rows rows = {.row_bytes = sizeof(struct dt_schedule), .read = dt_schedule_take};
        const int64_t owner = t->turns[i].owner;
        const size_t left = t->limit - due->n;
        const size_t most = part < left ? part : left;
        status = dt_db_query(b->db, dt_sql_lock_due_schedules,
                             DT_PARAMS(DT_P_INT(owner), DT_P_INT(b->now_ms), DT_P_INT(most)), b->err);
        DT_THEN(status, dt_store_read_rows(b->db, b->maker->arena, &rows, b->err));
        struct dt_schedule *v = rows.v;
        if (status == DT_OK && rows.n)
            qsort(v, rows.n, sizeof(*v), compare_by_quota_wait);
        for (size_t k = 0; status == DT_OK && k < rows.n && k < most; k++, due->n++) {
            due->v[due->n] = v[k];
            due->turns[due->n] = (struct dt_turn){.owner = owner, .at = due->n};
            owners[due->n] = owner;
        }
        dt_turns_note(&b->maker->had, owner, 0);
    }
    DT_THEN(status, dt_fire_quotas_open(&b->quotas, b->db, b->now_ms, b->maker->store, b->maker->arena, owners, due->n,
                                        b->err));
    dt_turns_sort(&b->maker->had, due->turns, due->n);
    return status;
}

static dt_status read_owner_turn(const dt_db *db, struct dt_arena *, void *row, void *arg)
{
    int64_t *look_ms = arg;
    int64_t at_ms = dt_db_is_null(db, 1) ? INT64_MAX : dt_later(dt_db_i64(db, 1), 1);
    *(struct dt_turn *)row = (struct dt_turn){.owner = dt_db_i64(db, 0), .at = at_ms <= dt_db_i64(db, 2)};
    *look_ms = dt_earlier(*look_ms, at_ms);
    return DT_OK;
}

/* Reads which owners have schedules that are due for a check, in the order of their turns. *look_ms: when the next
 * schedule is due for a check; 0 = none is. */
static dt_status find_due_owners(struct dt_fire_maker *maker, dt_db *db, int64_t *look_ms, struct dt_rows *due,
                                 struct dt_error *err)
{
    int64_t first_ms = INT64_MAX;
    *due = (struct dt_rows){.row_bytes = sizeof(struct dt_turn), .read = read_owner_turn, .arg = &first_ms};
    dt_status status = dt_db_query(db, dt_sql_select_schedule_turns, DT_NO_PARAMS, err);
    DT_THEN(status, dt_store_read_rows(db, maker->arena, due, err));
    if (status != DT_OK)
        return status;
    struct dt_turn *v = due->v;
    size_t n = 0;
    for (size_t i = 0; i < due->n; i++)
        if (v[i].at)
            v[n++] = (struct dt_turn){.owner = v[i].owner};
    due->n = n;
    dt_turns_sort(&maker->had, v, n);
    *look_ms = first_ms == INT64_MAX ? 0 : first_ms;
    return DT_OK;
}

static dt_status make_due_fires(struct task *t)
{
    struct due due;
    struct dt_rows next;
    struct dt_fire_batch *b = &t->batch;
    dt_status status = lock_due_schedules(t, &due);
    *t->made = (struct dt_fires_made){.schedules = due.n};
    for (size_t i = 0; i < due.n && status == DT_OK && b->n_rows < DT_FIRES_AT_ONCE; i++) {
        struct dt_schedule *s = &due.v[due.turns[i].at];
        const struct dt_str name = s->name;
        /* If another session has locked the settings, lock_due_schedules does not return them; then this reads their
         * last committed version. If a manual edit deleted the settings, deletes the row of schedule_fires, too. */
        if (!s->job.topic.p)
            status = dt_schedule_read(b->db, name, b->maker->arena, s, b->err);
        if (status == DT_NOT_FOUND)
            status = dt_db_run(b->db, dt_sql_delete_schedule_fires, DT_PARAMS(DT_P_STR(name)), NULL, b->err);
        else if (status == DT_OK)
            status = t->refused ? dt_fire_batch_refuse(b, s, t->refused) : dt_fire_batch_advance(b, s);
    }
    if (status == DT_OK && due.n)
        status = dt_fire_batch_write(b);
    return status == DT_OK ? find_due_owners(b->maker, b->db, &t->made->next_look_ms, &next, b->err) : status;
}

/* If no schedule is due for a check, this only reads an index. */
dt_status dt_store_make_fires(struct dt_fire_maker *maker, struct dt_fires_made *out, struct dt_error *err)
{
    struct task t = {.made = out, .work = make_due_fires, .limit = SCHEDULES_AT_ONCE};
    struct dt_error why = {0};
    struct dt_rows due;
    dt_db *db;
    *out = (struct dt_fires_made){0};
    maker->n_moves = 0;
    dt_status status = dt_store_db(maker->store, &db, err);
    DT_THEN(status, find_due_owners(maker, db, &out->next_look_ms, &due, err));
    if (status != DT_OK || due.n == 0)
        return status;
    t.turns = due.v;
    t.n_turns = due.n;
    status = commit_task(maker, &t, err);
    if (status == DT_INVALID) {
        /* The server refuses one of the jobs. Each further transaction has one schedule. If its job is refused, its row
         * gets the reason. */
        t.limit = 1;
        status = commit_task(maker, &t, &why);
        if (status == DT_INVALID) {
            t.refused = why.text;
            status = commit_task(maker, &t, err);
        }
    }
    if (status != DT_OK)
        return status;
    out->made = t.batch.made;
    out->skipped = t.batch.skipped;
    out->returned = t.batch.returned;
    /* The schedules of the jobs in cancel_first are still due for a check. Their next fires wait until the retries of
     * these jobs are cancelled. */
    for (size_t i = 0; i < t.batch.n_cancel_first && status == DT_OK; i++) {
        struct dt_job job;
        status = dt_store_cancel(maker->store, t.batch.cancel_first[i], true, maker->arena, &job, err);
        if (status == DT_TOO_LATE || status == DT_NOT_FOUND) /* the job is finished meanwhile */
            status = DT_OK;
    }
    return status;
}

/* ---- after a new tzdata ---- */

static dt_status read_schedule_name(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    struct dt_str *name = row;
    *name = dt_arena_copy(arena, dt_db_bytes(db, 0));
    return name->p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_schedule_zones(dt_store *store, struct dt_arena *arena, struct dt_schedule_zones *out,
                                  struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(struct dt_str), .read = read_schedule_name};
    *out = (struct dt_schedule_zones){0};
    dt_status status = dt_store_read(store, dt_sql_select_schedule_zones, DT_NO_PARAMS, arena, &rows, err);
    if (status == DT_OK)
        *out = (struct dt_schedule_zones){rows.v, rows.n};
    return status;
}

dt_status dt_store_schedule_zone_is(dt_store *store, struct dt_str zone, int64_t stamp, uint64_t *n,
                                    struct dt_error *err)
{
    *n = 0;
    return dt_store_run(store, dt_sql_look_at_zone, DT_PARAMS(DT_P_STR(zone), DT_P_INT(stamp)), n, err);
}

/* Writes the event of a schedule that was created (before is NULL), changed, deleted (after is NULL), or that made a
 * job at once (before is equal to after). */
static dt_status note_schedule_event(struct task *t, const char *action, const struct dt_schedule *before,
                                     const struct dt_schedule *after)
{
    const struct dt_fire_batch *batch = &t->batch;
    static const struct dt_schedule none;
    const struct dt_schedule *a = before ? before : &none;
    const struct dt_schedule *b = after ? after : &none;
    struct dt_job_event e = {
        .at_ms = batch->now_ms, .actor = dt_store_actor(batch->maker->store), .action = dt_str(action)};
    if (!e.actor.p)
        return DT_OK;
    struct dt_event_diff d;
    e.topic = after ? after->job.topic : before->job.topic;
    e.subject = after ? after->name : before->name;
    if (before == after)
        return dt_events_write(batch->db, &e, 1, batch->err);
    dt_event_diff_begin(&d);
    dt_event_diff_text(&d, "topic", a->job.topic, b->job.topic);
    dt_event_diff_text(&d, "cron", a->cron, b->cron);
    dt_event_diff_duration(&d, "every", a->every_ms, b->every_ms);
    dt_event_diff_text(&d, "time_zone", a->time_zone, b->time_zone);
    dt_event_diff_time(&d, "starts_at", a->starts_at_ms, b->starts_at_ms);
    dt_event_diff_time(&d, "ends_at", a->ends_at_ms, b->ends_at_ms);
    dt_event_diff_text(&d, "overlap", dt_str(dt_overlap_name(a->overlap)), dt_str(dt_overlap_name(b->overlap)));
    dt_event_diff_duration(&d, "catch_up", a->catch_up_ms, b->catch_up_ms);
    dt_event_diff_number(&d, "catch_up_max", a->catch_up_max, b->catch_up_max);
    dt_event_diff_duration(&d, "jitter", a->jitter_ms, b->jitter_ms);
    dt_event_diff_bool(&d, "paused", a->paused, b->paused);
    dt_event_diff_text(&d, "retry", a->job.retry, b->job.retry);
    dt_event_diff_duration(&d, "ack_timeout", a->job.ack_timeout_ms, b->job.ack_timeout_ms);
    dt_event_diff_text(&d, "callback_url", a->job.callback_url, b->job.callback_url);
    dt_event_diff_hidden(&d, "headers", a->job.headers, b->job.headers);
    dt_event_diff_hidden(&d, "payload", a->job.payload, b->job.payload);
    dt_event_diff_number(&d, "version", a->version, b->version);
    return dt_event_diff_write(&d, batch->db, &e, batch->err);
}

/* ---- changes of a schedule ---- */

/* Sets next_fire_ms to the first missed fire that is not older than within_ms. Older fires get no job, unless jitter
 * makes their jobs due later than now: those are added to put_off. */
static dt_status plan_missed_fires(struct dt_fire_batch *b, struct dt_schedule *s, const struct dt_recurrence *r,
                                   int64_t missed_ms, int64_t within_ms)
{
    const int64_t waits_ms = s->waits_since_ms ? b->now_ms - s->waits_since_ms : 0;
    const int64_t from_ms = dt_later(missed_ms, b->now_ms - within_ms - dt_later(waits_ms, 0));
    const size_t most = b->n_put_off + dt_fire_batch_room(b, s);
    int64_t *put_off = dt_arena_alloc(b->maker->arena, (most + 1) * sizeof(*put_off));
    if (!put_off)
        return dt_fail(b->err, DT_NOMEM, "out of memory");
    if (b->n_put_off)
        memcpy(put_off, b->put_off, b->n_put_off * sizeof(*put_off));
    b->put_off = put_off;
    dt_fire_plan_from(s, r, dt_later(missed_ms, b->now_ms - s->jitter_ms));
    while (s->next_fire_ms && s->next_fire_ms < from_ms && b->n_put_off < most) {
        if (dt_fire_runs_at_ms(s, s->next_fire_ms) > b->now_ms)
            b->put_off[b->n_put_off++] = s->next_fire_ms;
        dt_fire_plan_from(s, r, s->next_fire_ms + 1);
    }
    dt_fire_plan_from(s, r, from_ms);
    return DT_OK;
}

/* Sets next_fire_ms of a schedule that was created, changed or paused. */
static dt_status plan_changed_schedule(struct dt_fire_batch *b, struct dt_schedule *s, const struct dt_recurrence *r,
                                       const struct dt_schedule *old)
{
    const bool same_times = old && !s->cron.p == !old->cron.p && dt_str_eq(s->cron, old->cron) &&
                            s->every_ms == old->every_ms && dt_str_eq(s->time_zone, old->time_zone) &&
                            s->has_start == old->has_start && s->starts_at_ms == old->starts_at_ms &&
                            s->has_end == old->has_end && s->ends_at_ms == old->ends_at_ms;
    /* The first fire without a job. INT64_MAX: there is none, or the times of the schedule changed, so that the fire
     * may not exist any more. */
    const int64_t missed_ms = same_times && old->next_fire_ms ? old->next_fire_ms : INT64_MAX;
    if (!s->paused && missed_ms <= b->now_ms) {
        /* A fire that fell due just before the change gets its job, as it would if a maker were a little late. */
        const int64_t within_ms = old->paused ? s->catch_up_ms : dt_later(s->catch_up_ms, DT_FIRE_GRACE_MS);
        return plan_missed_fires(b, s, r, missed_ms, within_ms);
    }
    /* If the schedule was running before, a fire at exactly now_ms has its job already. If the schedule is paused,
     * next_fire_ms has the first fire without a job until it is resumed. */
    int64_t from_ms = old && !old->paused ? b->now_ms + 1 : b->now_ms;
    if (s->paused)
        from_ms = dt_earlier(from_ms, missed_ms);
    if (s->paused && b->n_put_off > 0)
        from_ms = dt_earlier(from_ms, b->put_off[0]);
    dt_fire_plan_from(s, r, from_ms);
    return DT_OK;
}

/* Prepares the fires of a schedule after a change; old = NULL for a new schedule. */
static dt_status replan_fires(struct task *t, struct dt_schedule *s, struct dt_schedule *old)
{
    struct dt_fire_batch *b = &t->batch;
    struct dt_recurrence r;
    dt_zone *zone = NULL;
    dt_status status = DT_OK;
    if (old) { /* fires that are due get jobs with the old settings; future fires are withdrawn */
        status = dt_fire_batch_add_due(b, old, s);
        DT_THEN(status, dt_fire_batch_withdraw(b, old, s->paused ? SIZE_MAX : dt_fire_batch_room(b, s)));
    }
    DT_THEN(status, dt_schedule_recurrence(s, b->maker->zones, &r, &zone, b->err));
    if (status == DT_INVALID && s->paused && old)
        return DT_OK; /* a schedule may be paused even if its time zone does not exist any more */
    if (status != DT_OK)
        return status;
    s->zone_stamp = dt_zone_stamp(zone);
    s->waits_since_ms = old && !old->paused ? old->waits_since_ms : 0;
    s->last_fire_ms = old ? dt_earlier(old->last_fire_ms, b->now_ms) : 0;
    s->last_job_id = old ? old->last_job_id : 0;
    status = plan_changed_schedule(b, s, &r, old);
    dt_zone_free(zone);
    return status;
}

/* Writes the schedule, and makes the jobs of its fires. If the jobs cannot be made, a PUT is refused; otherwise the
 * reason is stored in the row. */
static dt_status write_and_advance(struct task *t, struct dt_schedule *s)
{
    dt_status status = dt_schedule_write(t->batch.db, s, t->batch.err);
    DT_THEN(status, dt_fire_batch_advance(&t->batch, s));
    if (status == DT_OK && s->error.p && t->put && !s->waits_since_ms)
        status = dt_fail(t->batch.err, DT_NOT_FOUND, "%.*s", (int)s->error.n, s->error.p);
    return status == DT_OK ? dt_fire_batch_write(&t->batch) : status;
}

/* Refuses a new schedule above limits.prefix_schedules. The schedules are counted under a lock that all creators take,
 * so the limit is exact. */
static dt_status refuse_schedule_beyond_limit(struct task *t)
{
    struct dt_fire_batch *b = &t->batch;
    const struct dt_str topic = t->put->schedule->job.topic;
    const struct dt_topic_bound *bound = b->maker->bound;
    dt_status status = dt_db_query(b->db, dt_sql_lock_topics, DT_NO_PARAMS, b->err);
    DT_THEN(status, dt_db_end(b->db, b->err));
    for (size_t i = 0; status == DT_OK && i < bound->n; i++) {
        struct dt_str above = dt_topic_above_prefix(b->maker->arena, bound->prefixes[i]);
        if (!dt_str_begins(topic, bound->prefixes[i]))
            continue;
        int64_t n = 0;
        status = above.p ? dt_db_read_number(b->db, dt_sql_count_schedules,
                                             DT_PARAMS(DT_P_STR(bound->prefixes[i]), DT_P_STR(above)), NULL, &n, b->err)
                         : dt_fail(b->err, DT_NOMEM, "out of memory");
        t->put->too_many = n >= dt_store_config(b->maker->store)->limits_prefix_schedules;
        if (status == DT_OK && t->put->too_many)
            return dt_fail(b->err, DT_INVALID, "the limit of schedules for the prefix is reached");
    }
    return status;
}

static dt_status put_locked_schedule(struct task *t)
{
    struct dt_fire_batch *b = &t->batch;
    struct dt_schedule old;
    dt_status status = dt_db_run(b->db, dt_sql_enter_schedule, DT_PARAMS(DT_P_STR(t->name)), NULL, b->err);
    DT_THEN(status, lock_and_read_schedule(t, &old));
    t->put->created = status == DT_NOT_FOUND;
    if (status != DT_OK && status != DT_NOT_FOUND)
        return status;
    const struct dt_schedule *asked = t->put->schedule;
    struct dt_schedule *was = t->put->created ? NULL : &old;
    struct dt_schedule *s = t->out;
    *s = *asked;
    s->paused = t->put->set_paused || !was ? asked->paused : was->paused;
    s->created_at_ms = was ? was->created_at_ms : b->now_ms;
    s->updated_at_ms = b->now_ms;
    s->version = was ? was->version + 1 : 1;
    s->anchor_ms = s->has_start ? s->starts_at_ms : s->created_at_ms;
    if (was && memcmp(was->job.digest, s->job.digest, sizeof(s->job.digest)) == 0 && was->paused == s->paused) {
        *s = old;
        return DT_OK;
    }
    t->put->too_many = false;
    status =
        b->maker->bound && (!was || !dt_str_eq(was->job.topic, s->job.topic)) ? refuse_schedule_beyond_limit(t) : DT_OK;
    DT_THEN(status, replan_fires(t, s, was));
    DT_THEN(status, write_and_advance(t, s));
    return status == DT_OK ? note_schedule_event(t, was ? "schedule_change" : "schedule_create", was, s) : status;
}

dt_status dt_store_schedule_put(struct dt_fire_maker *maker, struct dt_schedule_put *put, struct dt_schedule *out,
                                struct dt_error *err)
{
    struct task t = {.name = put->schedule->name, .put = put, .out = out, .work = put_locked_schedule};
    return commit_task(maker, &t, err);
}

static dt_status pause_schedule(struct task *t)
{
    struct dt_fire_batch *b = &t->batch;
    struct dt_schedule *s = t->out;
    dt_status status = lock_and_read_schedule(t, s);
    if (status != DT_OK || s->paused == t->paused)
        return status;
    struct dt_schedule old = *s;
    s->paused = t->paused;
    s->version++;
    s->updated_at_ms = b->now_ms;
    if (t->paused)
        status = replan_fires(t, s, &old);
    else { /* fires that were missed during the pause get jobs, unless they are older than catch_up */
        struct dt_recurrence r;
        dt_zone *zone = NULL;
        status = dt_schedule_recurrence(s, b->maker->zones, &r, &zone, b->err);
        if (status == DT_OK) {
            s->zone_stamp = dt_zone_stamp(zone);
            if (s->next_fire_ms)
                status = plan_missed_fires(b, s, &r, s->next_fire_ms, s->catch_up_ms);
        }
        dt_zone_free(zone);
    }
    DT_THEN(status, write_and_advance(t, s));
    return status == DT_OK ? note_schedule_event(t, t->paused ? "schedule_pause" : "schedule_resume", &old, s) : status;
}

dt_status dt_store_schedule_pause(struct dt_fire_maker *maker, struct dt_str name, bool paused, struct dt_schedule *out,
                                  struct dt_error *err)
{
    struct task t = {.name = name, .paused = paused, .out = out, .work = pause_schedule};
    return commit_task(maker, &t, err);
}

static dt_status delete_locked_schedule(struct task *t)
{
    struct dt_fire_batch *b = &t->batch;
    struct dt_schedule s;
    dt_status status = lock_and_read_schedule(t, &s);
    if (status == DT_OK && !t->cancel)
        status = dt_fire_batch_add_due(b, &s, &s);
    DT_THEN(status, t->cancel ? dt_fire_batch_withdraw(b, &s, SIZE_MAX) : dt_fire_batch_withdraw_but_next(b, &s));
    DT_THEN(status, dt_db_run(b->db, dt_sql_delete_schedule, DT_PARAMS(DT_P_STR(t->name)), NULL, b->err));
    DT_THEN(status, dt_fire_batch_write(b));
    DT_THEN(status, dt_db_run(b->db, dt_sql_delete_schedule_fires, DT_PARAMS(DT_P_STR(t->name)), NULL, b->err));
    return status == DT_OK ? note_schedule_event(t, "schedule_delete", &s, NULL) : status;
}

dt_status dt_store_schedule_delete(struct dt_fire_maker *maker, struct dt_str name, bool cancel, struct dt_error *err)
{
    struct task t = {.name = name, .cancel = cancel, .work = delete_locked_schedule};
    return commit_task(maker, &t, err);
}

static dt_status run_schedule_now(struct task *t)
{
    struct dt_fire_batch *b = &t->batch;
    struct dt_schedule *s = t->out;
    dt_status status = lock_and_read_schedule(t, s);
    DT_THEN(status, dt_fire_batch_now(b, s));
    DT_THEN(status, dt_fire_batch_write(b));
    DT_THEN(status, note_schedule_event(t, "schedule_run_now", s, s));
    const struct dt_change_txn txn = {
        .store = b->maker->store, .db = b->db, .now_ms = b->now_ms, .arena = b->maker->arena};
    return status == DT_OK ? dt_job_read_in_txn(&txn, s->last_job_id, t->job, b->err) : status;
}

dt_status dt_store_schedule_run_now(struct dt_fire_maker *maker, struct dt_str name, struct dt_job *job,
                                    struct dt_error *err)
{
    struct dt_schedule s;
    struct task t = {.name = name, .out = &s, .job = job, .work = run_schedule_now};
    return commit_task(maker, &t, err);
}

dt_status dt_store_schedule_get(dt_store *store, struct dt_str name, struct dt_arena *arena, struct dt_schedule *out,
                                struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    return status == DT_OK ? dt_schedule_read(db, name, arena, out, err) : status;
}

dt_status dt_store_schedule_list(dt_store *store, struct dt_str after, struct dt_page_end end, struct dt_arena *arena,
                                 struct dt_schedule_list *out, struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(struct dt_schedule), .read = dt_schedule_take, .end = end};
    dt_status status = dt_store_read(store, dt_sql_select_schedules, DT_PARAMS(DT_P_STR(after), DT_P_INT(end.rows)),
                                     arena, &rows, err);
    *out = (struct dt_schedule_list){rows.v, rows.n, rows.more};
    return status;
}
