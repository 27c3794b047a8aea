/* Carries out intents in order. Creates are collected for one INSERT, which is executed at the end, or before an intent
 * that names one of the new jobs. So intents for the same job keep their order, and a batch of creates costs as much as
 * over HTTP. */
#include "base/assert.h"
#include "base/guard.h"
#include "intents_txn.h"
#include "job/change/jobs.h"
#include "job/change/jobs_txn.h"
#include "job/delivery.h"
#include "job/job_json.h"
#include "mysql/statements.h"
#include "topic/topics.h"

/* The settings of a topic, read once in this transaction. */
struct dt_intent_topic {
    struct dt_str name, retry;
    int64_t ack_timeout_ms;
    struct dt_callback_terms callback;
    bool there, deleting;
};

/* ---- sets of names ---- */

/* Returns a hash of the name of a job (topic and key, or id); 0 if no job is named. */
static uint64_t name_hash(struct dt_str topic, struct dt_str key, int64_t job_id)
{
    return key.p ? dt_key_hash(topic, key) : (uint64_t)job_id * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t *find_name_slot(const struct dt_name_set *set, uint64_t hash)
{
    size_t i = (size_t)hash & set->mask;
    while (set->v[i] && set->v[i] != hash)
        i = (i + 1) & set->mask;
    return &set->v[i];
}

static bool has_name(const struct dt_name_set *set, const struct dt_intent *x)
{
    return set->n > 0 && *find_name_slot(set, name_hash(x->topic, x->key, x->job_id));
}

static void add_job_name(struct dt_name_set *set, uint64_t hash)
{
    uint64_t *place = find_name_slot(set, hash);
    set->n += *place == 0 && hash;
    *place = hash;
    dt_assert_cmp(2 * set->n, <=, set->mask + 1); /* at least half of the slots are free, so the search ends */
}

static void clear_names(struct dt_name_set *set)
{
    memset(set->v, 0, (set->mask + 1) * sizeof(*set->v));
    set->n = 0;
}

/* Allocates a set that is at most half full with this number of names. */
static bool allocate_name_set(struct dt_name_set *set, struct dt_arena *arena, size_t names)
{
    size_t room = 16;
    while (room < 2 * names)
        room *= 2;
    set->v = dt_arena_alloc(arena, room * sizeof(*set->v));
    set->mask = room - 1;
    if (set->v)
        clear_names(set);
    return set->v;
}

dt_status dt_intents_init(struct dt_intents_txn *t, size_t foreign, struct dt_error *err)
{
    size_t room = t->n + 1;
    t->room = t->n;
    t->pending = dt_arena_alloc(t->arena, room * sizeof(struct dt_intent *));
    t->known = dt_arena_alloc(t->arena, room * sizeof(*t->known));
    t->moves = dt_arena_alloc(t->arena, room * sizeof(*t->moves));
    t->foreign = dt_arena_alloc(t->arena, (foreign + 1) * sizeof(*t->foreign));
    t->n_pending = t->n_known = t->n_moves = t->n_foreign = t->n_passed = 0;
    t->topics->n_wanted = 0;
    bool made = t->pending && t->known && t->moves && t->foreign && allocate_name_set(&t->created, t->arena, room) &&
                allocate_name_set(&t->waiting, t->arena, room + foreign);
    return made ? DT_OK : dt_fail(err, DT_NOMEM, "out of memory");
}

void dt_intents_stand_behind(struct dt_intents_txn *t, size_t from, struct dt_str topic, struct dt_str key,
                             int64_t job_id)
{
    t->foreign[t->n_foreign++] = (struct dt_foreign_name){from, name_hash(topic, key, job_id)};
}

static void postpone_intent(struct dt_intents_txn *t, struct dt_intent *x)
{
    x->outcome = DT_INTENT_WAITS;
    if (x->stopped)
        *x->stopped = true;
    add_job_name(&t->waiting, name_hash(x->topic, x->key, x->job_id));
}

/* ---- topics of intents ---- */

/* Finds a topic by its name. Begins with the topic that was found last, which is usually the same. */
static dt_status find_intent_topic(struct dt_intents_txn *t, struct dt_str name, const struct dt_intent_topic **found,
                                   struct dt_error *err)
{
    for (size_t i = t->n_known; i > 0; i--) {
        if (!dt_str_eq(t->known[i - 1].name, name))
            continue;
        *found = &t->known[i - 1];
        return DT_OK;
    }
    dt_assert_cmp(t->n_known, <=, t->room);
    struct dt_intent_topic *out = &t->known[t->n_known++];
    *found = out;
    dt_status status = dt_db_query(t->db, dt_sql_select_intent_topic, DT_PARAMS(DT_P_STR(name)), err);
    if (status != DT_OK)
        return status;
    *out = (struct dt_intent_topic){.name = name, .there = dt_db_next(t->db)};
    if (out->there) {
        out->retry = dt_arena_copy(t->arena, dt_db_bytes(t->db, 0));
        out->ack_timeout_ms = dt_db_i64(t->db, 1);
        out->deleting = dt_db_i64(t->db, 5) != 0;
        out->callback =
            (struct dt_callback_terms){.delivery = (enum dt_delivery_id)dt_db_i64(t->db, 2),
                                       .has_url = dt_db_i64(t->db, 3) != 0,
                                       .timeout_ms = dt_callback_timeout_ms(dt_db_i64(t->db, 4), dt_db_i64(t->db, 1))};
    }
    if (!out->retry.p)
        out->retry = DT_STR_LIT(DT_RETRY_DEFAULT);
    if (out->ack_timeout_ms <= 0)
        out->ack_timeout_ms = DT_ACK_TIMEOUT_DEFAULT_MS;
    return dt_db_end(t->db, err);
}

static struct dt_wanted_topic *find_wanted_topic(struct dt_wanted_topic *v, size_t n, struct dt_str name)
{
    for (size_t i = 0; i < n; i++)
        if (dt_str_is(name, v[i].name))
            return &v[i];
    return NULL;
}

/* Refuses the intent if its job does not fit the delivery of the topic. */
static void refuse_callback_misfit(struct dt_intent *x, const struct dt_intent_topic *topic,
                                   const struct dt_callback_asked *asked)
{
    struct dt_callback_misfit misfit;
    if (!topic->there || dt_callback_fits(&topic->callback, asked, &misfit))
        return;
    x->outcome = DT_INTENT_REFUSED;
    dt_job_misfits(&misfit, &x->faults, &x->problem);
}

/* Checks a change against the delivery of its job's topic. If the change has no members that depend on the delivery, it
 * fits any topic. */
static dt_status check_change_fits_topic(struct dt_intents_txn *t, struct dt_intent *x, struct dt_error *err)
{
    const struct dt_patch *patch = &x->patch;
    const struct dt_callback_asked asked = {.asks_url = patch->has_callback_url,
                                            .url = patch->callback_url,
                                            .ack_timeout_ms = patch->has_ack_timeout ? patch->ack_timeout_ms : 0,
                                            .header_fault = patch->header_fault};
    const struct dt_intent_topic *topic = NULL;
    struct dt_str name = DT_STR_NONE;
    if (!asked.asks_url && !asked.ack_timeout_ms && !asked.header_fault.reason)
        return DT_OK;
    dt_status status =
        x->job_id
            ? dt_db_read_text(t->db, dt_sql_select_topic_of_job, DT_PARAMS(DT_P_INT(x->job_id)), t->arena, &name, err)
            : dt_db_read_text(t->db, dt_sql_select_topic_of_key, DT_PARAMS(DT_P_STR(x->topic), DT_P_STR(x->key)),
                              t->arena, &name, err);
    if (status == DT_OK && name.p) /* no name: the job does not exist yet, or it cannot be changed any more */
        status = find_intent_topic(t, name, &topic, err);
    if (status == DT_OK && topic)
        refuse_callback_misfit(x, topic, &asked);
    return status;
}

/* ---- creates ---- */

/* Sets the outcome of a create or replace from that of its insert. EXISTS: the id is taken. BUSY: a replace found no
 * job with the key, but the insert did. */
static dt_status set_create_outcome(struct dt_intents_txn *t, struct dt_intent *x, struct dt_error *err)
{
    const struct dt_new_job *job = &x->insert.job;
    enum dt_insert_outcome outcome = x->insert.outcome;
    if (outcome == DT_INSERT_ID_TAKEN)
        return dt_fail(err, DT_EXISTS, "another job has an id that was reserved for a new job");
    if (x->insert.replace && (outcome == DT_INSERT_SAME || outcome == DT_INSERT_CONFLICT))
        return dt_fail(err, DT_BUSY, "another job took the key meanwhile");
    if (!dt_insert_is_job(&x->insert, NULL, &x->faults, &x->problem)) {
        x->outcome = DT_INTENT_REFUSED;
        return DT_OK;
    }
    x->outcome = DT_INTENT_DONE;
    dt_assert_cmp(t->n_moves, <, t->room);
    if (outcome == DT_INSERT_CREATED)
        t->moves[t->n_moves++] = (struct dt_job_move){.id = job->id, .due_ms = job->run_at_ms};
    return DT_OK;
}

static dt_status insert_pending_jobs(struct dt_intents_txn *t, struct dt_error *err)
{
    struct dt_insert **v = dt_arena_alloc(t->arena, (t->n_pending + 1) * sizeof(*v));
    if (!v)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < t->n_pending; i++) {
        v[i] = &t->pending[i]->insert;
        v[i]->job.id = dt_job_id(v[i]->job.run_at_ms, dt_id_block_next(t->ids));
    }
    const struct dt_insert_rows rows = {
        .v = v, .n = t->n_pending, .maker = t->ids->maker, .singly = t->singly, .no_fires = true};
    dt_status status = dt_insert_in_txn(t->store, t->db, t->now_ms, &rows, t->counts, err);
    for (size_t i = 0; i < t->n_pending && status == DT_OK; i++)
        status = set_create_outcome(t, t->pending[i], err);
    t->n_pending = 0;
    clear_names(&t->created);
    return status;
}

static dt_status add_pending_create(struct dt_intents_txn *t, struct dt_intent *x, struct dt_error *err)
{
    const struct dt_intent_topic *topic = NULL;
    dt_status status = find_intent_topic(t, x->topic, &topic, err);
    if (status != DT_OK)
        return status;
    if (!topic->there) {
        /* The intent waits for the missing topic, which is created after this transaction. If the topic was refused,
         * the intent is refused. */
        struct dt_intent_topics *topics = t->topics;
        const struct dt_wanted_topic *refused = find_wanted_topic(topics->refused, topics->n_refused, x->topic);
        const bool makes = dt_store_config(t->store)->topics_auto_create;
        if (!makes || refused) {
            x->insert.outcome = makes ? DT_INSERT_REFUSED : DT_INSERT_NO_TOPIC;
            x->outcome = DT_INTENT_REFUSED;
            (void)dt_insert_is_job(&x->insert, refused ? refused->reason : NULL, &x->faults, &x->problem);
            return DT_OK;
        }
        if (topics->n_wanted < DT_INTENT_TOPICS && !find_wanted_topic(topics->wanted, topics->n_wanted, x->topic)) {
            struct dt_wanted_topic *wanted = &topics->wanted[topics->n_wanted++];
            dt_assert_cmp(x->topic.n, <=, DT_TOPIC_MAX); /* the topic's name was checked before */
            memcpy(wanted->name, x->topic.p, x->topic.n);
            wanted->name[x->topic.n] = '\0';
        }
        postpone_intent(t, x);
        return DT_OK;
    }
    struct dt_new_job *job = &x->insert.job;
    job->retry = job->retry.p ? job->retry : topic->retry;
    job->ack_timeout_ms = job->ack_timeout_ms ? job->ack_timeout_ms : topic->ack_timeout_ms;
    dt_assert_cmp(t->n_pending, <, t->room);
    t->pending[t->n_pending++] = x;
    if (x->key.p)
        add_job_name(&t->created, name_hash(x->topic, x->key, 0));
    return DT_OK;
}

static dt_status change_job(struct dt_intents_txn *t, struct dt_intent *x, struct dt_error *err)
{
    static const enum dt_change_how how[DT_INTENT_ACTIONS] = {[DT_INTENT_CANCEL] = DT_CHANGE_CANCEL,
                                                              [DT_INTENT_CHANGE] = DT_CHANGE_PATCH,
                                                              [DT_INTENT_RUN_NOW] = DT_CHANGE_RUN_NOW,
                                                              [DT_INTENT_REPLACE] = DT_CHANGE_REPLACE};
    const struct dt_change_txn in = {.store = t->store,
                                     .db = t->db,
                                     .now_ms = t->now_ms,
                                     .counts = t->counts,
                                     .arena = t->arena,
                                     .actor = dt_store_actor(t->store)};
    struct dt_job_change change = {.how = how[x->action],
                                   .id = x->job_id,
                                   .topic = x->topic,
                                   .key = x->key,
                                   .patch = &x->patch,
                                   .keep_attempt = x->keep_attempt};
    if (x->action == DT_INTENT_REPLACE)
        change.body = &x->insert.job;
    dt_status status = dt_change_in_txn(&in, &change, err);
    x->insert.replace = status == DT_NOT_FOUND && change.body;
    if (x->insert.replace)
        return add_pending_create(t, x, err);
    const struct dt_job *job = &x->job;
    x->job = change.job;
    x->unsettled = status == DT_TOO_LATE && job->unsettled;
    if (status == DT_OK) {
        dt_assert_cmp(t->n_moves, <, t->room);
        x->outcome = DT_INTENT_DONE;
        t->moves[t->n_moves++] = (struct dt_job_move){.id = job->id,
                                                      .due_ms = dt_job_state_terminal(job->state) ? 0 : job->next_at_ms,
                                                      .was_ms = job->was_next_at_ms};
    } else if ((status == DT_BUSY && change.locked) || (x->unsettled && x->patient)) {
        postpone_intent(t, x);
    } else if (status == DT_NOT_FOUND) {
        x->outcome = DT_INTENT_REFUSED;
        x->problem = (struct dt_problem){.type = dt_problem_of_status(status), .detail = DT_STR_LIT("no such job")};
    } else if (status == DT_TOO_LATE) {
        x->outcome = DT_INTENT_REFUSED;
        x->problem = (struct dt_problem){
            .type = dt_problem_of_status(status), .detail = dt_str(dt_status_text(status)), .id = job->id, .job = job};
    } else
        return status;
    return DT_OK;
}

/* ---- carrying out ---- */

static dt_status carry_out_intent(struct dt_intents_txn *t, struct dt_intent *x, struct dt_error *err)
{
    if (x->stopped && *x->stopped && !DT_UNGUARDED(COMMAND_ORDER)) {
        x->outcome = DT_INTENT_WAITS;
        return DT_OK;
    }
    if (x->outcome == DT_INTENT_REFUSED)
        return DT_OK;
    if (has_name(&t->waiting, x) && !DT_UNGUARDED(INBOX_ORDER)) {
        postpone_intent(t, x);
        return DT_OK;
    }
    bool behind = x->action != DT_INTENT_CREATE && has_name(&t->created, x);
    dt_status status = behind ? insert_pending_jobs(t, err) : DT_OK;
    if (status == DT_OK && x->action == DT_INTENT_CHANGE)
        status = check_change_fits_topic(t, x, err);
    else if (status == DT_OK && (x->action == DT_INTENT_CREATE || x->action == DT_INTENT_REPLACE)) {
        /* A replace is checked like a create, because the job gets a whole new body. */
        const struct dt_callback_asked asked = dt_callback_asked_of(&x->insert.job);
        const struct dt_intent_topic *topic = NULL;
        status = find_intent_topic(t, x->topic, &topic, err);
        if (status == DT_OK && topic->deleting) {
            x->outcome = DT_INTENT_REFUSED;
            x->problem = dt_topic_deleting();
        } else if (status == DT_OK)
            refuse_callback_misfit(x, topic, &asked);
    }
    if (status != DT_OK || x->outcome == DT_INTENT_REFUSED)
        return status;
    return x->action == DT_INTENT_CREATE ? add_pending_create(t, x, err) : change_job(t, x, err);
}

dt_status dt_intents_in_txn(struct dt_intents_txn *t, struct dt_error *err)
{
    dt_status status = DT_OK;
    for (size_t i = 0; i < t->n && status == DT_OK; i++) {
        /* If an earlier intent of another session is for the same job, v[i] and later intents wait. */
        while (t->n_passed < t->n_foreign && t->foreign[t->n_passed].from <= i)
            add_job_name(&t->waiting, t->foreign[t->n_passed++].hash);
        status = carry_out_intent(t, &t->v[i], err);
    }
    return status == DT_OK && t->n_pending ? insert_pending_jobs(t, err) : status;
}

/* ---- between two transactions ---- */

#define REFUSED_US INT64_C(5000000) /* for this time a refused topic is not created again */

dt_status dt_intent_topics_make(struct dt_intent_topics *topics, dt_store *store, int64_t now_us, struct dt_error *err)
{
    if (now_us > topics->refused_us + REFUSED_US) {
        topics->n_refused = 0;
        topics->refused_us = now_us;
    }
    const struct dt_config *config = dt_store_config(store);
    struct dt_topic_ensure v[DT_INTENT_TOPICS];
    struct dt_topic_terms terms[DT_INTENT_TOPICS];
    for (size_t i = 0; i < topics->n_wanted; i++) {
        terms[i] = (struct dt_topic_terms){.topics_max = config->limits_topics};
        v[i] = (struct dt_topic_ensure){.name = dt_str(topics->wanted[i].name), .terms = &terms[i]};
    }
    dt_status status = dt_store_topics_ensure(store, v, topics->n_wanted, err);
    for (size_t i = 0; status == DT_OK && i < topics->n_wanted; i++) {
        if (v[i].status != DT_INVALID)
            continue;
        if (topics->n_refused == DT_INTENT_TOPICS)
            topics->n_refused = 0;
        struct dt_wanted_topic *refused = &topics->refused[topics->n_refused++];
        *refused = topics->wanted[i];
        dt_topic_refusal_text(terms[i].refusal, config, refused->reason);
    }
    topics->n_wanted = 0;
    return status;
}

dt_status dt_intents_ended(dt_status status, struct dt_id_block *ids, bool *singly)
{
    const bool again = status == DT_EXISTS || (status == DT_INVALID && !*singly);
    if (status == DT_EXISTS) /* MySQL was restored from a copy that is older than the block of ids */
        dt_id_block_drop(ids);
    *singly |= status == DT_INVALID;
    return again ? DT_BUSY : status;
}
