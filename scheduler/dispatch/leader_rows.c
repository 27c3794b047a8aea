/*
 * What a leader transaction writes for the jobs that it claims or offers: the claim, rows of `hands`, offers to pops;
 * and the messages of claimed attempts.
 *
 * Invariants:
 * - The previous attempt of a job is archived before its columns in the job's row are overwritten.
 * - A message is sent as it was read when its job's row was locked. The listener is called before the claim is written;
 *   if large messages have to be read separately, after that.
 * - Rows of `hands` are read after the rows of their jobs were locked, and written under these locks. A job is claimed
 *   only if no attempt of it is in the hands of a process, so a job has at most one row in `hands`, that of its latest
 *   attempt.
 * - If a stored result waits for its job's row, the result is applied before the attempt can be ended as lost.
 * - One commit writes the row of pop_queue and the mark in the job's row. An existing offer stays, so a job may be
 *   offered again at any time.
 */

#include "base/guard.h"
#include "job/job_state.h"
#include "leader_parts.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"

/* ---- messages ---- */

/* The id of a claimed job, and the index of its claim. */
struct message_place {
    int64_t id;
    size_t at;
};

static bool copy_column(dt_db *db, unsigned column, struct dt_arena *arena, struct dt_str *out)
{
    struct dt_str s = dt_db_bytes(db, column);
    *out = dt_arena_copy(arena, s);
    return out->p || !s.p;
}

/* The columns of a message, in their order: the key, the columns that callers set, the payload. */
enum { GIVEN = 0 DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_ONE, DT_COLUMN_ONE), PAYLOAD = 1 + GIVEN };

#define TAKE(kind, member, column) TAKE_##kind(member)
#define TAKE_TEXT(member)          copied &= copy_column(db, n++, arena, &out->member);
#define TAKE_FLAG(member)          out->member = dt_db_i64(db, n++) != 0;

static bool copy_message(dt_db *db, unsigned first, struct dt_arena *arena, struct dt_outgoing *out)
{
    unsigned n = first;
    bool copied = copy_column(db, n++, arena, &out->key);
    DT_JOB_COLUMNS(DT_COLUMN_NONE, TAKE, TAKE)
    return copy_column(db, n, arena, &out->payload) && copied;
}

/* Reads the messages of claims from the jobs' current rows, in the order of the claims, in one statement. */
static dt_status read_messages(dt_db *db, const struct dt_inflight *claims, struct dt_arena *arena,
                               struct dt_outgoing **out, struct dt_error *err)
{
    struct dt_strbuf ids = {0};
    struct message_place *places = dt_arena_alloc(arena, (claims->n ? claims->n : 1) * sizeof(*places));
    *out = dt_arena_alloc(arena, (claims->n ? claims->n : 1) * sizeof(**out));
    dt_status status = places && *out ? dt_inflight_format_by_id(claims->v, claims->n, &ids) : DT_NOMEM;
    for (size_t i = 0; status == DT_OK && i < claims->n; i++) {
        (*out)[i] = (struct dt_outgoing){.claim = claims->v[i]};
        places[i] = (struct message_place){claims->v[i].id, i};
    }
    if (status == DT_OK) {
        qsort(places, claims->n, sizeof(*places), dt_by_job_id);
        status = dt_db_query(db, dt_sql_select_messages, DT_PARAMS(DT_P_BUF(&ids)), err);
    }
    while (status == DT_OK && dt_db_next(db)) {
        struct message_place key = {.id = dt_db_i64(db, 0)};
        const struct message_place *place = bsearch(&key, places, claims->n, sizeof(*places), dt_by_job_id);
        struct dt_outgoing *message = place ? &(*out)[place->at] : NULL;
        if (!message)
            status = DT_INTERNAL;
        else if (!copy_column(db, 1, arena, &message->topic) || !copy_column(db, 2, arena, &message->kafka_topic) ||
                 !copy_message(db, 3, arena, message))
            status = DT_NOMEM;
    }
    dt_status end = dt_db_end(db, status == DT_OK ? err : NULL);
    dt_strbuf_clear(&ids);
    return status == DT_OK ? end : status;
}

dt_status dt_store_read_outgoing(dt_store *store, const struct dt_inflight *claims, struct dt_arena *arena,
                                 struct dt_outgoing **out, struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    return status == DT_OK ? read_messages(db, claims, arena, out, err) : status;
}

/* ---- candidates ---- */

struct dt_candidate *dt_candidates_find(struct dt_open_txn *t, int64_t id)
{
    struct dt_candidate key = {.id = id};
    dt_assert(!t->by_due);
    return bsearch(&key, t->v, t->n, sizeof(*t->v), dt_by_job_id);
}

const int64_t *dt_candidates_ids(const struct dt_open_txn *t, bool (*wanted)(const struct dt_candidate *c), size_t *n)
{
    int64_t *ids = dt_arena_alloc(t->io->arena, (t->n ? t->n : 1) * sizeof(*ids));
    *n = 0;
    for (size_t i = 0; ids && i < t->n; i++)
        if (!wanted || wanted(&t->v[i]))
            ids[(*n)++] = t->v[i].id;
    return ids;
}

/* Reads one row of the answer to dt_sql_lock_hinted into its candidate. */
static dt_status read_candidate(void *arg)
{
    struct dt_open_txn *t = arg;
    struct dt_candidate *c = dt_candidates_find(t, dt_db_i64(t->db, 0));
    const struct dt_str topic = dt_db_bytes(t->db, 7);
    if (!c)
        return dt_fail(t->err, DT_INTERNAL, "MySQL returned a job that was not requested");
    if (!t->topic.p || !dt_str_eq(t->topic, topic)) /* consecutive jobs of a topic share one copy of its name */
        t->topic = dt_arena_copy(t->io->arena, topic);
    c->found = true;
    c->state = (enum dt_job_state)(dt_db_i64(t->db, 1) - 1);
    c->attempt = dt_db_i64(t->db, 2);
    c->next_ms = dt_db_i64(t->db, 3);
    c->hint_ms = c->hint_ms ? c->hint_ms : c->next_ms;
    c->claim_shard = (int)dt_db_i64(t->db, 4);
    c->ack_timeout_ms = dt_db_i64(t->db, 5);
    c->bytes = dt_db_i64(t->db, 6);
    c->topic = t->topic;
    c->callback_url = dt_arena_copy(t->io->arena, dt_db_bytes(t->db, 11));
    if (!c->topic.p || (!c->callback_url.p && !dt_db_is_null(t->db, 11)))
        return DT_NOMEM;
    c->message = NULL;
    if (dt_db_is_null(t->db, 8 + PAYLOAD)) /* a large message is read later */
        return DT_OK;
    c->message = dt_arena_alloc(t->io->arena, sizeof(*c->message));
    if (!c->message)
        return DT_NOMEM;
    *c->message = (struct dt_outgoing){0};
    return copy_message(t->db, 8, t->io->arena, c->message) ? DT_OK : DT_NOMEM;
}

static bool candidate_not_found(const struct dt_candidate *c)
{
    return !c->found;
}

dt_status dt_candidate_leave(void *arg)
{
    struct dt_open_txn *t = arg;
    struct dt_candidate *c = dt_candidates_find(t, dt_db_i64(t->db, 0));
    if (c)
        c->fate = DT_FATE_LEFT;
    return DT_OK;
}

static bool is_claimed_by_other_shard(const struct dt_open_txn *t, const struct dt_candidate *c)
{
    return c->found && c->attempt > 0 && c->claim_shard >= 0 && c->claim_shard != (int)t->fence->shard;
}

/* Reads the in-flight lists of the other shards that have claimed attempts of candidates. Must be called after the
 * jobs' rows were locked. */
static dt_status read_lists_of_other_shards(struct dt_open_txn *t)
{
    bool listed[DT_SHARDS_MAX] = {false};
    struct dt_inflight list = {0};
    struct dt_strbuf shards = {0};
    for (size_t i = 0; i < t->n; i++) {
        const struct dt_candidate *c = &t->v[i];
        if (!is_claimed_by_other_shard(t, c) || c->claim_shard >= DT_SHARDS_MAX || listed[c->claim_shard])
            continue;
        dt_id_list_add(&shards, c->claim_shard);
        listed[c->claim_shard] = true;
    }
    if (shards.n == 0 && !shards.failed)
        return DT_OK;
    dt_id_list_end(&shards);
    dt_status status = dt_db_query(t->db, dt_sql_select_lists_of_shards, DT_PARAMS(DT_P_BUF(&shards)), t->err);
    while (status == DT_OK && dt_db_next(t->db)) {
        status = dt_inflight_parse(dt_db_bytes(t->db, 0), &list);
        t->foreign_unknown |= status == DT_MALFORMED;
        if (status == DT_OK)
            status = dt_inflight_append(&t->foreign, &list);
        else if (status == DT_MALFORMED)
            status = DT_OK;
    }
    dt_status end = dt_db_end(t->db, status == DT_OK ? t->err : NULL);
    dt_inflight_sort_by_id(&t->foreign);
    dt_inflight_clear(&list);
    dt_strbuf_clear(&shards);
    return status == DT_OK ? end : status;
}

bool dt_candidate_in_flight_elsewhere(const struct dt_open_txn *t, const struct dt_candidate *c)
{
    return is_claimed_by_other_shard(t, c) && (t->foreign_unknown || dt_inflight_has(&t->foreign, c->id));
}

dt_status dt_candidates_read(struct dt_open_txn *t)
{
    const struct dt_leader_due *due = &t->io->due;
    struct dt_arena *arena = t->io->arena;
    size_t n = due->n_hints;
    if (n == 0)
        return DT_OK;
    t->n = n;
    t->v = dt_arena_alloc(arena, n * sizeof(*t->v));
    t->claims = dt_arena_alloc(arena, n * sizeof(*t->claims));
    t->hands = dt_arena_alloc(arena, n * sizeof(*t->hands));
    if (!t->v || !t->claims || !t->hands)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++)
        t->v[i] = (struct dt_candidate){.id = due->hints[i].id, .hint_ms = due->hints[i].due_ms, .fate = DT_FATE_LEFT};
    qsort(t->v, n, sizeof(*t->v), dt_by_job_id);
    dt_status status = t->io->sent.frozen ? dt_inflight_append(&t->frozen, t->io->sent.list) : DT_OK;
    dt_inflight_sort_by_id(&t->frozen);
    DT_THEN(status, dt_topic_snapshot_refresh(due->topics, t->db, t->row.topics_version, t->err));
    const int64_t *ids = dt_candidates_ids(t, NULL, &n);
    DT_THEN(status, !ids ? DT_NOMEM
                         : dt_id_in_read(t->db, &dt_sql_lock_hinted, DT_PARAMS(DT_P_INT(t->fence->shard)),
                                         DT_IDS(ids, n), read_candidate, t, t->err));
    if (status != DT_OK)
        return status;
    /* A hint without a locked row: either the job does not exist, or another session has its row locked. */
    ids = dt_candidates_ids(t, candidate_not_found, &n);
    if (!ids)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++)
        if (!t->v[i].found)
            t->v[i].fate = DT_FATE_GONE;
    status = dt_id_in_read(t->db, &dt_sql_find_jobs, DT_NO_PARAMS, DT_IDS(ids, n), dt_candidate_leave, t, t->err);
    return status == DT_OK ? read_lists_of_other_shards(t) : status;
}

/* ---- attempts in the hands of processes ---- */

/* Returns true if the latest attempt is in no in-flight list: it was popped, or it is in the hands of a process. */
static bool may_be_popped_or_called(const struct dt_candidate *c)
{
    return c->found && c->attempt > 0 && c->claim_shard < 0;
}

static dt_status read_callback_row(void *arg)
{
    struct dt_open_txn *t = arg;
    struct dt_candidate *c = dt_candidates_find(t, dt_db_i64(t->db, 0));
    if (!c)
        return dt_fail(t->err, DT_INTERNAL, "MySQL returned a job that was not requested");
    c->lost = DT_GUARD(CALL_OWNER_GONE, dt_db_i64(t->db, 2) == 0);
    c->in_hands = !c->lost;
    return DT_OK;
}

static bool is_attempt_lost(const struct dt_candidate *c)
{
    return c->lost;
}

static dt_status mark_attempt_not_lost(void *arg)
{
    struct dt_open_txn *t = arg;
    struct dt_candidate *c = dt_candidates_find(t, dt_db_i64(t->db, 0));
    if (c) {
        c->lost = false;
        c->in_hands = true;
    }
    return DT_OK;
}

static dt_status end_lost_attempts(struct dt_open_txn *t)
{
    const struct dt_results_txn txn = dt_open_txn_results(t);
    uint64_t deleted = 0;
    size_t n;
    const int64_t *ids = dt_candidates_ids(t, is_attempt_lost, &n);
    if (!ids)
        return DT_NOMEM;
    if (n == 0)
        return DT_OK;
    struct dt_apply *results = dt_arena_alloc(t->io->arena, n * sizeof(*results));
    if (!results)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct dt_candidate *c = dt_candidates_find(t, ids[i]);
        dt_assert(c && c->lost && !c->in_hands);
        results[i] = (struct dt_apply){
            .result = {.job_id = c->id, .attempt = c->attempt, .status = DT_RESULT_LOST, .retry_after_ms = -1}};
    }
    dt_status status = dt_results_apply_within(&txn, results, n, t->err);
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        struct dt_candidate *c = dt_candidates_find(t, ids[i]);
        if (results[i].outcome != DT_OUTCOME_APPLIED)
            continue;
        /* The result has changed the row: updates the candidate. */
        c->state = results[i].next_at_ms ? DT_SCHEDULED : DT_CANCELLED;
        c->next_ms = results[i].next_at_ms;
        t->io->hands.lost++;
    }
    t->n_emptied = n;
    DT_THEN(status, dt_id_list_delete(t->db, dt_sql_delete_hands, DT_IDS(ids, n), &deleted, t->err));
    return status;
}

dt_status dt_hands_look(struct dt_open_txn *t)
{
    size_t n;
    const int64_t *ids = dt_candidates_ids(t, may_be_popped_or_called, &n);
    if (!ids)
        return DT_NOMEM;
    if (n == 0)
        return DT_OK;
    dt_status status =
        dt_id_in_read(t->db, &dt_sql_find_in_hands, DT_NO_PARAMS, DT_IDS(ids, n), read_callback_row, t, t->err);
    ids = dt_candidates_ids(t, is_attempt_lost, &n);
    if (status == DT_OK && !ids)
        status = DT_NOMEM;
    if (status == DT_OK && n)
        status =
            dt_id_in_read(t->db, &dt_sql_find_deferred, DT_NO_PARAMS, DT_IDS(ids, n), mark_attempt_not_lost, t, t->err);
    return status == DT_OK ? end_lost_attempts(t) : status;
}

static dt_status write_callback_rows(struct dt_open_txn *t)
{
    enum { COLUMNS = 4 };
    if (t->n_hands == 0)
        return DT_OK;
    struct dt_param *params = dt_arena_alloc(t->io->arena, t->n_hands * COLUMNS * sizeof(*params));
    struct dt_param *p = params;
    if (!params)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n_hands; i++) {
        p = dt_params_add(p, DT_PARAMS(DT_P_INT(t->hands[i].id), DT_P_INT(t->hands[i].attempt),
                                       DT_P_INT(t->fence->shard), DT_P_INT(t->owner)));
    }
    return dt_db_run_many(t->db, dt_sql_insert_hands, (struct dt_param_rows){params, COLUMNS, t->n_hands}, NULL,
                          t->err);
}

/* ---- the claim ---- */

/* Claims of one kind: into the shard's in-flight list, or into the hands of this process. */
struct group {
    const struct dt_claim *claims;
    size_t n;
    bool by_hands;
    struct dt_leader_batch *batch; /* the messages, in the order of the claims */
};

/* Writes the claims of a group. A claim into the hands of a process gets no claim_shard, so cancels and later claims do
 * not look for it in an in-flight list. */
static dt_status write_claim_group(struct dt_open_txn *t, const struct group *group)
{
    uint64_t changed = 0;
    int64_t now = t->row.now_ms;
    int64_t near_end = dt_near_end_ms(now);
    int64_t claim_shard = group->by_hands ? -1 : (int64_t)t->fence->shard;
    dt_status status = DT_OK;
    if (group->n == 0)
        return DT_OK;
    if (t->n_retries) { /* archives the previous attempts of the retried jobs in `attempts` */
        struct dt_strbuf list = {0};
        status = dt_inflight_format_by_id(group->claims, group->n, &list);
        DT_THEN(status, dt_db_run(t->db, dt_sql_keep_latest_attempts, DT_PARAMS(DT_P_BUF(&list)), NULL, t->err));
        dt_strbuf_clear(&list);
    }
    int64_t *ids = dt_arena_alloc(t->io->arena, group->n * sizeof(*ids));
    if (status == DT_OK && !ids)
        status = DT_NOMEM;
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < group->n; i++)
        ids[i] = group->claims[i].id;
    qsort(ids, group->n, sizeof(*ids), dt_by_job_id);
    status = dt_id_in_run(t->db, &dt_sql_claim_jobs,
                          DT_PARAMS(DT_P_INT(now), DT_P_INT(now), DT_P_INT(claim_shard), DT_P_INT(now), DT_P_INT(now),
                                    DT_P_INT(near_end), DT_P_INT(now), DT_P_INT(now)),
                          DT_IDS(ids, group->n), &changed, t->err);
    if (status == DT_OK && changed != group->n)
        status = dt_fail(t->err, DT_INTERNAL, "claimed %llu of %zu locked jobs", (unsigned long long)changed, group->n);
    return status;
}

/* Messages that were too large to be read with the locked rows. One statement reads them after their jobs were
 * chosen. */
struct large {
    struct dt_inflight claims;
    struct dt_outgoing **to;        /* where to store each message */
    const struct dt_candidate **of; /* the candidate of each message */
};

/* Lists the messages of a group in the order of its claims, which is that of the candidates. Large messages are read
 * later. */
static void list_group_messages(struct dt_open_txn *t, const struct group *group, struct large *large)
{
    size_t n = 0;
    group->batch->n = group->n;
    for (size_t i = 0; i < t->n; i++) {
        const struct dt_candidate *c = &t->v[i];
        if (c->fate != DT_FATE_CLAIM || c->by_hands != group->by_hands)
            continue;
        dt_assert_cmp(n, <, group->n);
        dt_assert_cmp(group->claims[n].id, ==, c->id);
        struct dt_outgoing *out = &group->batch->jobs[n];
        if (c->message) {
            *out = *c->message;
            out->claim = group->claims[n];
            out->topic = c->topic;
            out->kafka_topic = c->kafka_topic;
        } else {
            large->to[large->claims.n] = out;
            large->of[large->claims.n] = c;
            large->claims.v[large->claims.n++] = group->claims[n];
        }
        n++;
    }
    dt_assert_cmp(n, ==, group->n);
}

static void notify_listener(const struct dt_open_txn *t)
{
    const struct dt_leader_listener *listener = &t->io->listener;
    struct dt_fence next = *t->fence;
    if (!listener->claiming || t->n_claims == 0)
        return;
    next.batch_no++;
    next.inflight = next.send_n = t->n_claims;
    listener->claiming(listener->arg, &next, t->io->batch.jobs, t->claims, t->n_claims);
}

dt_status dt_claims_write(struct dt_open_txn *t)
{
    struct dt_arena *arena = t->io->arena;
    const size_t n = t->n_claims + t->n_hands;
    if (n == 0)
        return DT_OK;
    struct dt_outgoing *read = NULL;
    struct large large = {.claims = {.v = dt_arena_alloc(arena, n * sizeof(*large.claims.v))},
                          .to = dt_arena_alloc(arena, n * sizeof(*large.to)),
                          .of = dt_arena_alloc(arena, n * sizeof(*large.of))};
    t->io->batch.jobs = dt_arena_alloc(arena, n * sizeof(*t->io->batch.jobs));
    if (!large.claims.v || !large.to || !large.of || !t->io->batch.jobs)
        return DT_NOMEM;
    t->io->hands.claimed.jobs = t->io->batch.jobs + t->n_claims;
    const struct group listed = {.claims = t->claims, .n = t->n_claims, .batch = &t->io->batch};
    const struct group by_hands = {
        .claims = t->hands, .n = t->n_hands, .by_hands = true, .batch = &t->io->hands.claimed};
    list_group_messages(t, &listed, &large);
    list_group_messages(t, &by_hands, &large);
    if (large.claims.n == 0)
        notify_listener(t);
    dt_status status = write_claim_group(t, &listed);
    DT_THEN(status, write_claim_group(t, &by_hands));
    DT_THEN(status, write_callback_rows(t));
    if (status == DT_OK && large.claims.n)
        status = read_messages(t->db, &large.claims, arena, &read, t->err);
    for (size_t i = 0; status == DT_OK && i < large.claims.n; i++) {
        *large.to[i] = read[i];
        /* The message is sent to the topic that was checked when the job was chosen, even if `topics` has changed
         * since. */
        large.to[i]->topic = large.of[i]->topic;
        large.to[i]->kafka_topic = large.of[i]->kafka_topic;
    }
    if (status == DT_OK && large.claims.n)
        notify_listener(t);
    for (size_t i = 0; status == DT_OK && i < t->n; i++)
        if (t->v[i].fate == DT_FATE_CLAIM && !DT_UNGUARDED(COUNT_CLAIM))
            dt_counts_move(&t->counts, t->v[i].topic, t->v[i].id, t->v[i].state, t->v[i].claimed);
    return status;
}

/* ---- offers ---- */

static bool is_offered(const struct dt_candidate *c)
{
    return c->fate == DT_FATE_OFFER;
}

dt_status dt_offers_write(struct dt_open_txn *t)
{
    enum { COLUMNS = 3 };
    struct dt_leader_offered *offered = &t->io->offered;
    size_t n;
    uint64_t changed;
    const int64_t *ids = dt_candidates_ids(t, is_offered, &n);
    if (!ids)
        return DT_NOMEM;
    if (n == 0)
        return DT_OK;
    struct dt_param *params = dt_arena_alloc(t->io->arena, n * COLUMNS * sizeof(*params));
    struct dt_param *p = params;
    offered->n = n;
    offered->topics = dt_arena_alloc(t->io->arena, n * sizeof(*offered->topics));
    if (!params || !offered->topics)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++) {
        const struct dt_candidate *c = &t->v[i];
        size_t place = 0;
        if (!is_offered(c))
            continue;
        p = dt_params_add(p, DT_PARAMS(DT_P_STR(c->topic), DT_P_INT(c->next_ms), DT_P_INT(c->id)));
        while (place < offered->n_topics && !dt_str_eq(offered->topics[place], c->topic))
            place++;
        if (place == offered->n_topics)
            offered->topics[offered->n_topics++] = c->topic;
    }
    dt_assert_cmp(p - params, ==, n * COLUMNS);
    dt_status status =
        dt_db_run_many(t->db, dt_sql_insert_offers, (struct dt_param_rows){params, COLUMNS, n}, NULL, t->err);
    return status == DT_OK ? dt_id_in_run(t->db, &dt_sql_mark_offered, DT_NO_PARAMS, DT_IDS(ids, n), &changed, t->err)
                           : status;
}
