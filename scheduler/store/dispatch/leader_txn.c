/*
 * The leader transaction: settle what was sent, decide acknowledgement timeouts, claim what is due. It takes a
 * handful of statements whatever the number of jobs (by id: one for every 960):
 *
 *   lock the shard row ─▶ extend old deadlines ─▶ lock and judge the hinted jobs ─▶ time out ─▶ archive ─▶ claim
 *                      ─▶ write the row ─▶ count, and commit
 *
 * Invariants (each repeated in the deciding statement):
 *   - Nothing is claimed or timed out while anything is left in flight (a list of which only the head was sent): the
 *     list is replaced, or shortened at its head, never added to.
 *   - An attempt enters the list in the transaction that writes it into its job's row, so an attempt that is not in a
 *     list cannot come.
 *   - A job with an earlier attempt in another shard's list (its slot has moved) waits.
 *   - Locks are taken in one order: the own shard row, then job rows by id. Rows that others hold locked are skipped,
 *     not waited for.
 */
#include <stdlib.h>

#include "base/hooks/fail_point.h"
#include "base/hooks/guard.h"
#include "store/db/id_in.h"
#include "store/db/id_list.h"
#include "store/dispatch/fence.h"
#include "store/dispatch/outgoing.h"
#include "store/dispatch/store_results.h"
#include "store/dispatch/topic_snapshot.h"
#include "store/jobs/counts.h"
#include "store/jobs/store_row.h"
#include "store/sql/statements.h"
#include "store/store_internal.h"

enum fate { FATE_GONE, FATE_ELSEWHERE, FATE_LEFT, FATE_MOVED, FATE_HELD, FATE_CLAIM, FATE_TIMEOUT };

/* A hinted job as its locked row says. */
struct candidate {
    int64_t id, hint_ms, next_ms, attempt, ack_timeout_ms, bytes;
    int claim_shard;
    enum dt_job_state state;
    enum fate fate;
    bool found, alone, chosen, unknown;
    struct dt_str topic, kafka_topic; /* the second one once it is FATE_CLAIM */
    struct dt_outgoing *message;      /* NULL: too large to be read before it is chosen */
};

struct txn {
    dt_db *db;
    const struct dt_config *config;
    const struct dt_fence *fence;
    struct dt_leader_txn *io;
    struct dt_error *err;
    struct dt_fence_row row;
    struct candidate *v; /* by id while judging, then by (next_ms, id) */
    size_t n;
    struct dt_claim *claims;
    size_t n_claims, n_timeouts, n_retries;
    struct dt_str topic, kafka_topic; /* the latest copies */
    struct dt_counts counts;
    struct dt_shrink shrink;    /* of the list that was sent */
    struct dt_inflight foreign; /* what other shards that claimed some of these have in flight: by id */
    bool foreign_unknown;       /* somebody wrote into such a list by hand: it may have any job */
};

static int by_id(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_due(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    if (x->next_ms != y->next_ms)
        return x->next_ms < y->next_ms ? -1 : 1;
    return by_id(a, b);
}

static struct candidate *find(struct txn *t, int64_t id)
{
    struct candidate key = {.id = id};
    return bsearch(&key, t->v, t->n, sizeof(*t->v), by_id);
}

/* ---- reading ---- */

static dt_status candidates_from_hints(struct txn *t)
{
    t->n = t->io->n_hints;
    t->v = dt_arena_alloc(t->io->arena, (t->n ? t->n : 1) * sizeof(*t->v));
    t->claims = dt_arena_alloc(t->io->arena, (t->n ? t->n : 1) * sizeof(*t->claims));
    if (!t->v || !t->claims)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++)
        t->v[i] = (struct candidate){.id = t->io->hints[i].id, .hint_ms = t->io->hints[i].due_ms, .fate = FATE_LEFT};
    qsort(t->v, t->n, sizeof(*t->v), by_id);
    return DT_OK;
}

/* The ids of the candidates that `wanted` picks, ascending; n of them. NULL: no memory. */
static const int64_t *ids_of(const struct txn *t, bool (*wanted)(const struct candidate *c), size_t *n)
{
    int64_t *ids = dt_arena_alloc(t->io->arena, (t->n ? t->n : 1) * sizeof(*ids));
    *n = 0;
    for (size_t i = 0; ids && i < t->n; i++)
        if (wanted(&t->v[i]))
            ids[(*n)++] = t->v[i].id;
    return ids;
}

static bool any(const struct candidate *c)
{
    (void)c;
    return true;
}

static bool not_found(const struct candidate *c)
{
    return !c->found;
}

/* One copy for as long as the same one comes. */
static struct dt_str topic_of_row(struct txn *t)
{
    struct dt_str topic = dt_db_bytes(t->db, 7);
    if (!t->topic.p || !dt_str_eq(t->topic, topic))
        t->topic = dt_arena_copy(t->io->arena, topic);
    return t->topic;
}

static dt_status take_row(void *arg)
{
    struct txn *t = arg;
    struct candidate *c = find(t, dt_db_i64(t->db, 0));
    if (!c)
        return dt_fail(t->err, DT_INTERNAL, "a job that was not asked for");
    c->found = true;
    c->state = (enum dt_job_state)(dt_db_i64(t->db, 1) - 1);
    c->attempt = dt_db_i64(t->db, 2);
    c->next_ms = dt_db_i64(t->db, 3);
    c->claim_shard = (int)dt_db_i64(t->db, 4);
    c->ack_timeout_ms = dt_db_i64(t->db, 5);
    c->bytes = dt_db_i64(t->db, 6);
    c->topic = topic_of_row(t);
    return c->topic.p ? dt_outgoing_small(t->db, 8, t->io->arena, &c->message) : DT_NOMEM;
}

/*
 * A row whose attempt is in flight elsewhere (its slot has moved here since) is not even locked: the shard that has it
 * in flight will renew its deadline, and passes by what is locked.
 */
#define NOT_IN_FLIGHT_ELSEWHERE                                                                                        \
    " WHERE (j.claim_shard IN (-1, ?) OR NOT EXISTS (SELECT 1 FROM shards s WHERE s.shard = j.claim_shard"             \
    " AND INSTR(s.inflight, CONCAT('[', j.id, ',')) > 0))"

static const struct dt_id_in lock_hinted =
    DT_ID_IN("SELECT j.id, j.state+0, j.attempt, " DT_SQL_NEXT_AT ", COALESCE(j.claim_shard, -1), " DT_SQL_ACK_MS ","
             " LENGTH(j.payload) + COALESCE(LENGTH(j.headers), 0) + LENGTH(j.topic)"
             /* the key stands in two headers; names and values of ours, the installation's among them */
             " + 2 * COALESCE(LENGTH(j.job_key), 0) + COALESCE(LENGTH(j.partition_key), 0)"
             " + COALESCE(LENGTH(j.content_type), 0) + 900, j.topic, " DT_OUTGOING_SQL
             " FROM jobs j FORCE INDEX (PRIMARY)" DT_GUARD_SQL(LIST_ELSEWHERE, NOT_IN_FLIGHT_ELSEWHERE,
                                                               " WHERE ? IS NOT NULL") " AND j.id",
             " ORDER BY j.id" DT_GUARD_SQL(CLAIM, " FOR UPDATE SKIP LOCKED", ""));

static dt_status lock_candidates(struct txn *t)
{
    size_t n;
    const int64_t *ids = ids_of(t, any, &n);
    if (!ids)
        return DT_NOMEM;
    return dt_id_in_read(t->db, &lock_hinted, DT_PARAMS(DT_P_INT(t->fence->shard)), ids, n, take_row, t, t->err);
}

static dt_status is_there(void *arg)
{
    struct txn *t = arg;
    struct candidate *c = find(t, dt_db_i64(t->db, 0));
    if (c)
        c->fate = FATE_LEFT;
    return DT_OK;
}

/* Hints without a locked row: gone, or locked by somebody? */
static dt_status tell_gone_from_locked(struct txn *t)
{
    size_t n;
    const int64_t *ids = ids_of(t, not_found, &n);
    if (!ids)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++)
        if (!t->v[i].found)
            t->v[i].fate = FATE_GONE;
    return dt_id_in_read(t->db, &dt_sql_find_jobs, DT_NO_PARAMS, ids, n, is_there, t, t->err);
}

/* ---- judging ---- */

static int claim_by_id(const void *a, const void *b)
{
    const struct dt_claim *x = a;
    const struct dt_claim *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static bool claimed_elsewhere(const struct txn *t, const struct candidate *c)
{
    return c->found && c->attempt > 0 && c->claim_shard >= 0 && c->claim_shard != (int)t->fence->shard;
}

/* The shards, as a JSON list, that claimed the latest attempt of a candidate whose slot has moved here since. */
static void foreign_shards(const struct txn *t, struct dt_strbuf *out)
{
    bool listed[DT_SHARDS_MAX] = {false};
    for (size_t i = 0; i < t->n; i++) {
        unsigned shard = claimed_elsewhere(t, &t->v[i]) ? (unsigned)t->v[i].claim_shard : DT_SHARDS_MAX;
        if (shard < DT_SHARDS_MAX && !listed[shard])
            dt_id_list_add(out, shard);
        if (shard < DT_SHARDS_MAX)
            listed[shard] = true;
    }
    dt_id_list_end(out);
}

static dt_status add_claims(struct dt_inflight *to, const struct dt_inflight *from)
{
    if (from->n == 0)
        return DT_OK;
    struct dt_claim *v = realloc(to->v, (to->n + from->n) * sizeof(*v));
    if (!v)
        return DT_NOMEM;
    memcpy(v + to->n, from->v, from->n * sizeof(*v));
    to->v = v;
    to->n = to->cap = to->n + from->n;
    return DT_OK;
}

static const char read_lists[] = "SELECT s.inflight FROM JSON_TABLE(?, '$[*]' COLUMNS(shard INT PATH '$')) t"
                                 " STRAIGHT_JOIN shards s FORCE INDEX (PRIMARY) ON s.shard = t.shard";

/*
 * Read after the jobs' rows were locked, as committed now: the claiming shard's list is authoritative for the latest
 * attempt of a job. An attempt enters a list only together with its job's row, so what is not there cannot come while
 * the row is locked.
 */
static dt_status read_foreign_lists(struct txn *t)
{
    struct dt_inflight list = {0};
    struct dt_strbuf shards;
    dt_strbuf_init(&shards);
    foreign_shards(t, &shards);
    bool some = shards.n > 2;
    dt_status status = shards.failed ? DT_NOMEM : DT_OK;
    if (status == DT_OK && some)
        status = dt_db_query(t->db, read_lists, DT_PARAMS(DT_P_STR(dt_strbuf_str(&shards))), t->err);
    while (status == DT_OK && some && dt_db_next(t->db)) {
        status = dt_inflight_parse(dt_db_bytes(t->db, 0), &list);
        t->foreign_unknown |= status == DT_MALFORMED;
        if (status == DT_OK)
            status = add_claims(&t->foreign, &list);
        else if (status == DT_MALFORMED)
            status = DT_OK;
    }
    dt_status end = some ? dt_db_end(t->db, status == DT_OK ? t->err : NULL) : DT_OK;
    if (t->foreign.n)
        qsort(t->foreign.v, t->foreign.n, sizeof(*t->foreign.v), claim_by_id);
    dt_inflight_clear(&list);
    dt_strbuf_clear(&shards);
    return status == DT_OK ? end : status;
}

static bool in_flight_elsewhere(const struct txn *t, const struct candidate *c)
{
    struct dt_claim key = {.id = c->id};
    if (!claimed_elsewhere(t, c))
        return false;
    return t->foreign_unknown || (t->foreign.n && bsearch(&key, t->foreign.v, t->foreign.n, sizeof(key), claim_by_id));
}

/* One copy for as long as the same one comes: the snapshot may be read again before the batch is sent. */
static struct dt_str kafka_topic_of(struct txn *t, const struct dt_topic_entry *topic)
{
    if (!t->kafka_topic.p || !dt_str_eq(t->kafka_topic, topic->kafka_name))
        t->kafka_topic = dt_arena_copy(t->io->arena, topic->kafka_name);
    return t->kafka_topic;
}

static dt_status judge_writable(struct txn *t, struct candidate *c, const struct dt_topic_entry *topic)
{
    enum dt_writable writable = !DT_UNGUARDED(PAUSE) && topic->paused
                                    ? DT_WRITABLE_NO
                                    : t->io->writable(t->io->arg, topic->kafka_name, c->bytes);
    c->kafka_topic = kafka_topic_of(t, topic);
    if (!c->kafka_topic.p)
        return DT_NOMEM;
    c->alone = writable == DT_WRITABLE_ALONE;
    c->unknown = writable == DT_WRITABLE_UNKNOWN;
    if (writable != DT_WRITABLE_UNKNOWN)
        c->fate = writable == DT_WRITABLE_NO ? FATE_HELD : FATE_CLAIM;
    return DT_OK;
}

static const char find_topic[] = "SELECT 1 FROM topics WHERE name = ?";

/* Either its topic was made after this transaction read the snapshot (the next leader transaction knows it), or
 * somebody deleted the topic's row by hand: then nobody can say where the job goes, and it waits in its held set until
 * the row is back. */
static dt_status judge_orphan(struct txn *t, struct candidate *c)
{
    if (t->io->orphan.p && dt_str_eq(t->io->orphan, c->topic)) {
        c->fate = FATE_HELD;
        return DT_OK;
    }
    dt_status status = dt_db_query(t->db, find_topic, DT_PARAMS(DT_P_STR(c->topic)), t->err);
    if (status == DT_OK && !dt_db_next(t->db)) {
        t->io->orphan = c->topic;
        c->fate = FATE_HELD;
    }
    dt_status end = dt_db_end(t->db, status == DT_OK ? t->err : NULL);
    return status == DT_OK ? end : status;
}

/* A report that came before the deadline counts, also when it is read later. */
static void judge_timeout(struct txn *t, struct candidate *c)
{
    if (DT_GUARD(UNREAD, c->next_ms <= t->io->read_up_to_ms)) {
        c->fate = FATE_TIMEOUT;
        return;
    }
    t->io->unread++;
    if (t->io->unread_ms < c->next_ms)
        t->io->unread_ms = c->next_ms;
}

static dt_status judge_due(struct txn *t, struct candidate *c)
{
    c->fate = FATE_LEFT;
    if (!DT_UNGUARDED(LIST_ELSEWHERE) && in_flight_elsewhere(t, c))
        return DT_OK;
    if (c->state == DT_DISPATCHED) {
        judge_timeout(t, c);
        return DT_OK;
    }
    const struct dt_topic_entry *topic = dt_topic_snapshot_find(t->io->topics, c->topic);
    return topic ? judge_writable(t, c, topic) : judge_orphan(t, c);
}

static dt_status judge(struct txn *t, struct candidate *c)
{
    if (!c->found)
        return DT_OK;
    if (dt_job_state_terminal(c->state))
        c->fate = FATE_GONE;
    else if (dt_shard_of(t->io->map, c->id) != t->fence->shard)
        c->fate = FATE_ELSEWHERE;
    else if (c->next_ms > t->row.now_ms && !(DT_UNGUARDED(DEADLINE) && c->state == DT_DISPATCHED))
        c->fate = FATE_MOVED;
    else
        return judge_due(t, c);
    return DT_OK;
}

static bool times_out(const struct candidate *c)
{
    return c->fate == FATE_TIMEOUT;
}

static dt_status leave_to_result(void *arg)
{
    struct txn *t = arg;
    struct candidate *c = find(t, dt_db_i64(t->db, 0));
    if (c)
        c->fate = FATE_LEFT;
    return DT_OK;
}

static const struct dt_id_in find_deferred =
    DT_ID_IN("SELECT d.job_id FROM deferred_results d FORCE INDEX (by_job) WHERE d.job_id", "");

/* Their results were read, and wait for a row that somebody kept locked: whoever reads applies them soon. */
static dt_status leave_deferred(struct txn *t)
{
    size_t n;
    const int64_t *ids = ids_of(t, times_out, &n);
    if (!ids)
        return DT_NOMEM;
    return dt_id_in_read(t->db, &find_deferred, DT_NO_PARAMS, ids, n, leave_to_result, t, t->err);
}

/* What one topic has of a batch that cannot take all. */
struct part {
    struct dt_str topic;
    size_t jobs, bytes;
    bool full; /* one of it did not fit: its later ones wait, too */
};

/* The first one due goes alone; when other topics wait, every other time. */
static const struct candidate *goes_alone(const struct txn *t)
{
    const struct candidate *first = NULL;
    bool others = false;
    for (size_t i = 0; i < t->n; i++) {
        const struct candidate *c = &t->v[i];
        if (c->fate != FATE_CLAIM)
            continue;
        first = first ? first : c;
        others |= !c->alone && !dt_str_eq(c->topic, first->topic);
    }
    return first && first->alone && (!others || t->fence->batch_no % 2 == 0) ? first : NULL;
}

static struct part *part_of(struct part *parts, size_t *n, struct dt_str topic)
{
    for (size_t i = 0; i < *n; i++)
        if (dt_str_eq(parts[i].topic, topic))
            return &parts[i];
    parts[*n] = (struct part){.topic = topic};
    return &parts[(*n)++];
}

/* Takes, in order of due time, what fits into the batch and into its topic's part; one of a topic at least. */
static void fill(struct txn *t, struct part *parts, size_t n_parts, size_t part_bytes, size_t *jobs, size_t *bytes)
{
    for (size_t i = 0; i < n_parts; i++)
        parts[i].full = false;
    for (size_t i = 0; i < t->n; i++) {
        struct candidate *c = &t->v[i];
        if (c->fate != FATE_CLAIM || c->chosen)
            continue;
        struct part *part = part_of(parts, &n_parts, c->topic);
        size_t size = (size_t)c->bytes;
        part->full |= c->alone || *jobs == t->io->max_jobs || (*jobs && *bytes + size > t->io->max_bytes) ||
                      (part->jobs && part->bytes + size > part_bytes);
        c->chosen = !part->full;
        if (part->full)
            continue;
        (*jobs)++;
        *bytes += size;
        part->jobs++;
        part->bytes += size;
    }
}

/* Not all fits: each topic gets an equal part of the bytes, and then what others left. */
static dt_status choose_fairly(struct txn *t)
{
    struct part *parts = dt_arena_alloc(t->io->arena, (t->n ? t->n : 1) * sizeof(*parts));
    size_t n_parts = 0;
    size_t jobs = 0;
    size_t bytes = 0;
    if (!parts)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].fate == FATE_CLAIM)
            (void)part_of(parts, &n_parts, t->v[i].topic);
    fill(t, parts, n_parts, t->io->max_bytes / n_parts, &jobs, &bytes);
    fill(t, parts, n_parts, t->io->max_bytes, &jobs, &bytes);
    return DT_OK;
}

static dt_status choose(struct txn *t)
{
    size_t jobs = 0;
    size_t bytes = 0;
    bool some_alone = false;
    const struct candidate *alone = goes_alone(t);
    for (size_t i = 0; i < t->n; i++) {
        struct candidate *c = &t->v[i];
        c->chosen = c == alone;
        if (c->fate != FATE_CLAIM)
            continue;
        jobs++;
        bytes += (size_t)c->bytes;
        some_alone |= c->alone;
    }
    if (alone)
        return DT_OK;
    if (some_alone || jobs > t->io->max_jobs || (jobs > 1 && bytes > t->io->max_bytes))
        return choose_fairly(t);
    for (size_t i = 0; i < t->n; i++)
        t->v[i].chosen = true;
    return DT_OK;
}

/* When its attempt was due; what is due whenever it was (next_at zero or less) is so from now on. */
static int64_t due_of(const struct txn *t, const struct candidate *c)
{
    return c->next_ms > 1 ? c->next_ms : t->row.now_ms;
}

/* In order of due time, as far as the limits of one batch reach. */
static dt_status choose_claims(struct txn *t)
{
    qsort(t->v, t->n, sizeof(*t->v), by_due);
    t->io->shortest_ack_ms = INT64_MAX;
    dt_status status = choose(t);
    for (size_t i = 0; status == DT_OK && i < t->n; i++) {
        struct candidate *c = &t->v[i];
        t->n_timeouts += c->fate == FATE_TIMEOUT;
        if (c->fate != FATE_CLAIM)
            continue;
        if (!c->chosen) {
            c->fate = FATE_LEFT;
            t->io->more = true;
            continue;
        }
        t->n_retries += c->attempt > 0;
        t->io->shortest_ack_ms = dt_earlier(t->io->shortest_ack_ms, c->ack_timeout_ms);
        t->claims[t->n_claims++] = (struct dt_claim){c->id, c->attempt + 1, due_of(t, c)};
    }
    return status;
}

static dt_status judge_all(struct txn *t)
{
    dt_status status = candidates_from_hints(t);
    if (status != DT_OK || t->n == 0)
        return status;
    status = dt_topic_snapshot_refresh(t->io->topics, t->db, t->row.topics_version, t->err);
    if (status == DT_OK)
        status = lock_candidates(t);
    if (status == DT_OK)
        status = tell_gone_from_locked(t);
    if (status == DT_OK)
        status = read_foreign_lists(t);
    for (size_t i = 0; status == DT_OK && i < t->n; i++)
        status = judge(t, &t->v[i]);
    if (status == DT_OK)
        status = leave_deferred(t);
    return status == DT_OK ? choose_claims(t) : status;
}

/* ---- writing ---- */

static dt_status time_out(struct txn *t)
{
    if (t->n_timeouts == 0)
        return DT_OK;
    struct dt_apply *results = dt_arena_alloc(t->io->arena, t->n_timeouts * sizeof(*results));
    struct candidate **of = dt_arena_alloc(t->io->arena, t->n_timeouts * sizeof(*of));
    size_t n = 0;
    if (!results || !of)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].fate == FATE_TIMEOUT) {
            of[n] = &t->v[i];
            results[n++] = (struct dt_apply){.result = {.job_id = t->v[i].id,
                                                        .attempt = t->v[i].attempt,
                                                        .status = DT_RESULT_TIMED_OUT,
                                                        .retry_after_ms = -1,
                                                        .error_code = dt_str("ack_timeout"),
                                                        .error_message = dt_str("no result was reported in time")}};
        }
    dt_status status = dt_results_apply_within(t->db, t->config, t->io->map, t->row.now_ms, results, n, &t->counts,
                                               t->io->arena, t->err);
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        bool applied = results[i].outcome == DT_OUTCOME_APPLIED;
        of[i]->fate = !applied ? FATE_LEFT : results[i].next_at_ms ? FATE_MOVED : FATE_GONE;
        of[i]->next_ms = results[i].next_at_ms;
        t->io->timed_out += applied;
        t->io->outbox |= results[i].outbox;
    }
    return status;
}

static const char archive_attempts[] =
    "INSERT INTO attempts (job_id, attempt, status, due_at, dispatched_at, finished_at, error_code, error_message)"
    " SELECT j.id, j.attempt, COALESCE(j.attempt_status, 'dispatched'), j.due_at, j.dispatched_at, j.finished_at,"
    " IF(j.attempt_status IN ('failed','timed_out','gave_up','undeliverable'), j.error_code, NULL),"
    " IF(j.attempt_status IN ('failed','timed_out','gave_up','undeliverable'), j.error_message, NULL)"
    " FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$[0]')) t STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON "
    "j.id = t.id"
    " WHERE j.attempt > 0"
    " ON DUPLICATE KEY UPDATE status = VALUES(status)";

/* The previous attempt of a job that is claimed again moves from its row to `attempts`. */
static dt_status archive(struct txn *t)
{
    struct dt_strbuf list;
    if (t->n_retries == 0)
        return DT_OK;
    dt_strbuf_init(&list);
    dt_status status = dt_inflight_format_by_id(t->claims, t->n_claims, &list);
    if (status == DT_OK)
        status = dt_db_run(t->db, archive_attempts, DT_PARAMS(DT_P_STR(dt_strbuf_str(&list))), NULL, t->err);
    dt_strbuf_clear(&list);
    return status;
}

/* What was read when the row was locked is what is written here: nobody changes a locked row. */
static const struct dt_id_in claim_jobs =
    DT_ID_IN("UPDATE jobs j FORCE INDEX (PRIMARY)"
             " SET j.state = 'dispatched', j.attempt = j.attempt + 1, j.attempt_status = 'dispatched',"
             " j.due_at = IF(j.next_at > 1, j.next_at, ?),"
             " j.dispatched_at = ?, j.finished_at = 0, j.claim_shard = ?, j.next_at = ? + " DT_SQL_ACK_MS ","
             " j.near = (? + " DT_SQL_ACK_MS " < ?), j.updated_at = ?, j.version = j.version + 1" DT_GUARD_SQL(
                 CLAIM, " WHERE j.state = 'scheduled' AND j.next_at <= ?", " WHERE ? > 0") " AND j.id",
             "");

static int by_number(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;
    return (*x > *y) - (*x < *y);
}

static dt_status write_claims(struct txn *t)
{
    uint64_t changed = 0;
    int64_t now = t->row.now_ms;
    int64_t near_end = dt_near_end_ms(now);
    int64_t *ids = dt_arena_alloc(t->io->arena, t->n_claims * sizeof(*ids));
    if (!ids)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n_claims; i++)
        ids[i] = t->claims[i].id;
    qsort(ids, t->n_claims, sizeof(*ids), by_number);
    dt_status status = dt_id_in_run(t->db, &claim_jobs,
                                    DT_PARAMS(DT_P_INT(now), DT_P_INT(now), DT_P_INT(t->fence->shard), DT_P_INT(now),
                                              DT_P_INT(now), DT_P_INT(near_end), DT_P_INT(now), DT_P_INT(now)),
                                    ids, t->n_claims, &changed, t->err);
    if (status == DT_OK && changed != t->n_claims)
        status =
            dt_fail(t->err, DT_INTERNAL, "claimed %llu of %zu locked jobs", (unsigned long long)changed, t->n_claims);
    return status;
}

static void count_claims(struct txn *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].fate == FATE_CLAIM && !DT_UNGUARDED(COUNT_CLAIM))
            dt_counts_move(&t->counts, t->v[i].topic, t->v[i].id, t->v[i].state, DT_DISPATCHED);
}

/* The message goes where the gate was asked about, whatever `topics` says by now. */
static void address(struct dt_outgoing *out, const struct candidate *c)
{
    out->topic = c->topic;
    out->kafka_topic = c->kafka_topic;
}

/* Large messages, which are read when it is known that they go: all in one statement. */
struct large {
    struct dt_inflight claims;
    struct dt_outgoing **to;     /* where the message of each goes */
    const struct candidate **of; /* whose it is */
};

static dt_status read_large(struct txn *t, const struct large *large)
{
    struct dt_outgoing *read;
    dt_status status = large->claims.n ? dt_outgoing_read(t->db, &large->claims, t->io->arena, &read, t->err) : DT_OK;
    for (size_t i = 0; status == DT_OK && i < large->claims.n; i++) {
        *large->to[i] = read[i];
        address(large->to[i], large->of[i]);
    }
    return status;
}

static void add_large(struct large *large, struct dt_claim claim, struct dt_outgoing *to, const struct candidate *of)
{
    size_t n = large->claims.n++;
    large->claims.v[n] = claim;
    large->to[n] = to;
    large->of[n] = of;
}

/* In the order of the claims, which is that of the candidates. What is large is still to be read. */
static dt_status make_batch(struct txn *t, struct large *large)
{
    struct dt_arena *arena = t->io->arena;
    *large = (struct large){.claims = {.v = dt_arena_alloc(arena, t->n_claims * sizeof(*large->claims.v))},
                            .to = dt_arena_alloc(arena, t->n_claims * sizeof(*large->to)),
                            .of = dt_arena_alloc(arena, t->n_claims * sizeof(*large->of))};
    t->io->batch = dt_arena_alloc(arena, t->n_claims * sizeof(*t->io->batch));
    if (!large->claims.v || !large->to || !large->of || !t->io->batch)
        return DT_NOMEM;
    for (size_t i = 0, n = 0; i < t->n; i++) {
        const struct candidate *c = &t->v[i];
        struct dt_outgoing *out = &t->io->batch[n];
        if (c->fate != FATE_CLAIM)
            continue;
        if (c->message) {
            *out = *c->message;
            out->claim = t->claims[n];
            address(out, c);
        } else {
            add_large(large, t->claims[n], out, c);
        }
        n++;
    }
    return DT_OK;
}

static void tell_claiming(const struct txn *t)
{
    struct dt_fence next = *t->fence;
    if (!t->io->claiming)
        return;
    next.batch_no++;
    next.inflight = next.send_n = t->n_claims;
    t->io->claiming(t->io->claiming_arg, &next, t->io->batch, t->claims, t->n_claims);
}

static dt_status claim(struct txn *t)
{
    struct large large;
    if (t->n_claims == 0)
        return DT_OK;
    dt_status status = make_batch(t, &large);
    if (status == DT_OK && large.claims.n == 0)
        tell_claiming(t);
    if (status == DT_OK)
        status = archive(t);
    if (status == DT_OK)
        status = write_claims(t);
    if (status == DT_OK)
        status = read_large(t, &large);
    if (status == DT_OK && large.claims.n > 0)
        tell_claiming(t);
    if (status == DT_OK)
        count_claims(t);
    return status;
}

/* ---- telling ---- */

static dt_status report_seen(struct txn *t)
{
    struct dt_leader_txn *io = t->io;
    io->seen = dt_arena_alloc(io->arena, (t->n ? t->n : 1) * sizeof(*io->seen));
    if (!io->seen)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++) {
        const struct candidate *c = &t->v[i];
        struct dt_seen seen = {.id = c->id, .hint_ms = c->hint_ms};
        if (c->fate == FATE_LEFT) {
            io->locked |= !c->found || !io->more;
            io->unknown += c->unknown;
            continue;
        }
        if (c->fate == FATE_CLAIM)
            seen.next_ms = t->row.now_ms + c->ack_timeout_ms;
        else if (c->fate == FATE_MOVED || c->fate == FATE_ELSEWHERE)
            seen.next_ms = c->next_ms;
        else if (c->fate == FATE_HELD)
            seen.next_ms = c->next_ms, seen.hold = c->topic;
        seen.elsewhere = c->fate == FATE_ELSEWHERE;
        io->held += c->fate == FATE_HELD;
        io->seen[io->n_seen++] = seen;
    }
    return DT_OK;
}

/* The batch was sent: it leaves the list, with the time for its results counted from now if it took long. */
static dt_status settle(struct txn *t)
{
    struct dt_leader_txn *io = t->io;
    if (io->settle->n == 0)
        return DT_OK;
    t->shrink = dt_inflight_sent(io->settle->n, t->fence->send_n);
    io->settled = t->shrink.leave;
    io->rest = io->settle->n - io->settled;
    if (!io->extend_deadlines)
        return DT_OK;
    io->moved = dt_arena_alloc(io->arena, (io->settled ? io->settled : 1) * sizeof(*io->moved));
    if (!io->moved)
        return DT_NOMEM;
    return dt_deadlines_extend(t->db, io->settle->v, io->settled, t->row.now_ms, io->moved, &io->n_moved, t->err);
}

static dt_status write_row(struct txn *t, struct dt_fence *next)
{
    const struct dt_leader_txn *io = t->io;
    int64_t offset = io->settled ? io->settle_offset : t->fence->ledger_offset;
    if (io->rest)
        return dt_fence_write(t->db, next, io->settle->v + io->settled, io->rest, t->shrink.send_n, offset,
                              t->fence->batch_no, t->err);
    return dt_fence_write(t->db, next, t->claims, t->n_claims, t->n_claims, offset,
                          t->fence->batch_no + (t->n_claims > 0), t->err);
}

static dt_status work(struct txn *t, struct dt_fence *next, bool *changed)
{
    t->io->now_ms = t->row.now_ms;
    t->io->stale_map = t->row.generation != t->io->map->generation;
    dt_status status = settle(t);
    if (status == DT_OK && !t->io->stale_map && DT_GUARD(REST, !t->io->rest))
        status = judge_all(t);
    if (status == DT_OK)
        status = time_out(t);
    if (status == DT_OK)
        status = claim(t);
    if (status == DT_OK)
        status = report_seen(t);
    *changed = t->io->settled > 0 || t->io->timed_out > 0 || t->n_claims > 0;
    if (status == DT_OK && *changed)
        status = write_row(t, next);
    return status;
}

static void reset_outputs(struct dt_leader_txn *io)
{
    io->now_ms = io->shortest_ack_ms = 0;
    io->stale_map = io->outbox = io->more = io->locked = false;
    io->batch = NULL;
    io->seen = io->moved = NULL;
    io->n_batch = io->n_seen = io->n_moved = io->timed_out = io->held = io->unknown = io->settled = io->rest = 0;
    io->unread = 0;
    io->unread_ms = 0;
    io->orphan = DT_STR_NONE;
}

dt_status dt_leader_txn_commit(dt_store *store, struct dt_fence *fence, struct dt_leader_txn *io, struct dt_error *err)
{
    struct txn t = {.config = dt_store_config(store), .fence = fence, .io = io, .err = err};
    struct dt_fence next = *fence;
    bool changed = false;
    reset_outputs(io);
    if (io->settle->n != fence->inflight)
        return dt_fail(err, DT_INTERNAL, "shard %u: %zu in flight, %zu to settle", fence->shard, fence->inflight,
                       io->settle->n);
    dt_counts_init(&t.counts);
    dt_status status = dt_fence_begin(store, fence, &t.db, &t.row, err);
    if (DT_UNGUARDED(FENCE_IN_LEADER_TXN) && status == DT_DEPOSED)
        status = DT_OK;
    if (status == DT_OK)
        status = work(&t, &next, &changed);
    dt_inflight_clear(&t.foreign);
    if (io->settle->n)
        DT_FAIL_POINT_STATUS("settle.commit", status, err);
    if (t.n_claims)
        DT_FAIL_POINT_STATUS("claim.commit", status, err);
    if (status == DT_OK && !changed)
        dt_db_rollback(t.db);
    else
        status = dt_counts_commit(t.db, &t.counts, status, err);
    dt_counts_clear(&t.counts);
    if (t.n_claims)
        DT_FAIL_POINT_STATUS("claim.committed", status, err);
    if (io->settle->n)
        DT_FAIL_POINT_STATUS("settle.committed", status, err);
    if (status != DT_OK) {
        reset_outputs(io);
        return status;
    }
    io->n_batch = t.n_claims;
    *fence = next;
    return DT_OK;
}
