/*
 * The choice of a leader transaction: chooses which of the hinted jobs are claimed. These must have room within the
 * limits of their topics, and fit into one batch. Writes `chosen` and `limits` of struct dt_leader_txn.
 *
 * Invariants of reading:
 *   - Rows are locked in order of ids; a row that another session has locked is skipped.
 *   - The committed in-flight list of another shard is read after the rows were locked. An attempt enters a list only
 *     together with its job's row, so an attempt that is not in the list cannot enter it while the row is locked.
 *
 * Invariants of the choice:
 *   - Within a topic, jobs are claimed in order of (due, id).
 *   - A topic's gate is locked only if the topic has a candidate, and the caller allows jobs of the topic.
 *   - If not all jobs fit, each owner gets an equal part of the bytes, and each of its topics an equal part of that.
 *     Bytes that an owner or topic does not need are then divided among the others. The owner and topic that waited
 *     longest are first (base/fair.h).
 *   - A message that may be too large for its topic is sent in a batch of one, so that a refusal concerns only that
 *     message.
 */

#include "base/guard.h"
#include "base/http/callback_rules.h"
#include "job/job_state.h"
#include "leader_parts.h"

/* ---- limits of topics ---- */

/* How many jobs of a topic with limits this transaction may claim, and how many it has chosen. */
struct dt_limited {
    size_t allowed; /* maximal number of jobs that the caller allows (struct dt_leader_gate) */
    size_t taken;
};

static bool is_limited(const struct dt_candidate *c)
{
    return c->fate == DT_FATE_CLAIM && c->limited;
}

static size_t find_topic_gate(const struct dt_open_txn *t, struct dt_str topic)
{
    for (size_t i = 0; i < t->n_gates; i++)
        if (dt_str_eq(t->gates[i].topic, topic))
            return i;
    return t->n_gates;
}

static void hold_job_at_limit(struct dt_open_txn *t, struct dt_candidate *c)
{
    c->fate = DT_FATE_HELD;
    c->at_limit = true;
    t->io->limits.held++;
}

/* Holds the jobs that exceed the limits of their topics. Locks the row with a topic's limits only if the caller allows
 * jobs of the topic. */
static dt_status hold_jobs_beyond_limits(struct dt_open_txn *t)
{
    const struct dt_leader_gate *gate = &t->io->gate;
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += is_limited(&t->v[i]);
    if (n == 0 || DT_UNGUARDED(LIMIT_LEADER))
        return DT_OK;
    t->gates = dt_arena_alloc(t->io->arena, n * sizeof(*t->gates));
    t->limited = dt_arena_alloc(t->io->arena, n * sizeof(*t->limited));
    if (!t->gates || !t->limited)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++) {
        struct dt_candidate *c = &t->v[i];
        if (!is_limited(c) || find_topic_gate(t, c->topic) < t->n_gates)
            continue;
        size_t most = gate->allowed ? gate->allowed(gate->limits, c->topic) : SIZE_MAX;
        if (most == 0) {
            hold_job_at_limit(t, c);
            continue;
        }
        t->limited[t->n_gates] = (struct dt_limited){.allowed = most};
        t->gates[t->n_gates++] = (struct dt_gate){.topic = c->topic};
    }
    dt_status status = dt_topic_gates_lock(t->db, t->row.now_ms, t->gates, t->n_gates, t->err);
    for (size_t i = 0; status == DT_OK && i < t->n; i++) {
        struct dt_candidate *c = &t->v[i];
        if (!is_limited(c))
            continue;
        const size_t at = find_topic_gate(t, c->topic);
        dt_assert_cmp(at, <, t->n_gates);
        if (t->gates[at].busy) {
            c->fate = DT_FATE_LEFT;
            c->busy = true;
            t->io->limits.busy++;
        } else if (t->limited[at].taken < t->gates[at].room && t->limited[at].taken < t->limited[at].allowed)
            t->limited[at].taken++;
        else
            hold_job_at_limit(t, c);
    }
    return status;
}

dt_status dt_limits_write(struct dt_open_txn *t)
{
    dt_status status = DT_OK;
    for (size_t i = 0; status == DT_OK && i < t->n_gates; i++) {
        size_t claimed = 0;
        for (size_t k = 0; k < t->n; k++)
            claimed += is_limited(&t->v[k]) && dt_str_eq(t->v[k].topic, t->gates[i].topic);
        dt_assert_cmp(claimed, <=, t->limited[i].taken);
        status = dt_topic_gate_claimed(t->db, t->row.now_ms, &t->gates[i], claimed, t->err);
    }
    return status;
}

/*
 * ---- which Kafka topics a batch has, if it cannot have all ----
 *
 * Kafka's client sends each partition of a transaction in a separate request, and the shard's next batch waits for the
 * last answer. If a batch had hundreds of topics, all jobs that become due meanwhile would be late. So a batch has a
 * few topics, and owners (topic/owners.h) take turns: an owner with many topics delays only its own jobs. If several
 * owners use a Kafka topic, it counts once.
 *
 * Invariants: candidates are sorted by (next_ms, id). The batch has all of an owner's jobs of a topic or none, so that
 * their order is kept. An older backlog does not keep other owners, or other topics of its owner, out of batches.
 */

/* Leaves a job that does not fit into the batch for a later transaction. */
static void postpone_candidate(struct dt_open_txn *t, struct dt_candidate *c)
{
    struct dt_leader_chosen *chosen = &t->io->chosen;
    dt_assert_cmp(chosen->n_left, <, t->n);
    c->fate = DT_FATE_LEFT;
    chosen->more = true;
    chosen->left[chosen->n_left++] = c->id;
}

/* A Kafka topic of an owner, as an element of a list. A list begins with one element for each job; duplicates are
 * removed afterwards. */
struct place {
    struct dt_str kafka_topic;
    int64_t owner;
    size_t first;  /* index of the topic's first job among the candidates */
    size_t number; /* number of the Kafka topic within the list */
    bool chosen;
};

static bool is_claimed_for_kafka(const struct dt_candidate *c)
{
    return c->fate == DT_FATE_CLAIM && !c->by_hands && !c->lost;
}

static int compare_places_by_topic(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    int names = dt_str_order(x->kafka_topic, y->kafka_topic);
    return names ? names : DT_ORDER(x->owner, y->owner);
}

static int compare_by_topic_and_position(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    int topics = compare_places_by_topic(a, b);
    return topics ? topics : DT_ORDER(x->first, y->first);
}

/* Lists the Kafka topics of all jobs that would be sent, by owner. *n: length of the list; *n_topics: number of
 * different Kafka topics. NULL: memory ran out. */
static struct place *list_batch_topics(const struct dt_open_txn *t, size_t n_jobs, size_t *n, size_t *n_topics)
{
    struct place *v = dt_arena_alloc(t->io->arena, n_jobs * sizeof(*v));
    size_t jobs = 0;
    *n = *n_topics = 0;
    if (!v)
        return NULL;
    for (size_t i = 0; i < t->n; i++)
        if (is_claimed_for_kafka(&t->v[i]))
            v[jobs++] = (struct place){.kafka_topic = t->v[i].kafka_topic, .owner = t->v[i].owner, .first = i};
    dt_assert_cmp(jobs, ==, n_jobs);
    qsort(v, jobs, sizeof(*v), compare_by_topic_and_position);
    for (size_t i = 0; i < jobs; i++) {
        if (*n && compare_places_by_topic(&v[*n - 1], &v[i]) == 0)
            continue;
        *n_topics += *n == 0 || !dt_str_eq(v[*n - 1].kafka_topic, v[i].kafka_topic);
        v[*n] = v[i];
        v[(*n)++].number = *n_topics;
    }
    return v;
}

/* Leaves the jobs whose Kafka topics do not fit into one batch for later transactions. */
static dt_status postpone_other_topics(struct dt_open_txn *t)
{
    size_t most = t->io->due.max_topics;
    size_t jobs = 0;
    size_t n;
    size_t n_topics;
    for (size_t i = 0; i < t->n; i++)
        jobs += is_claimed_for_kafka(&t->v[i]);
    if (jobs <= most)
        return DT_OK;
    struct place *v = list_batch_topics(t, jobs, &n, &n_topics);
    if (!v)
        return DT_NOMEM;
    if (n_topics <= most)
        return DT_OK;
    struct dt_turn *turns = dt_arena_alloc(t->io->arena, n * sizeof(*turns));
    bool *counted = dt_arena_alloc(t->io->arena, (n_topics + 1) * sizeof(*counted));
    if (!turns || !counted)
        return DT_NOMEM;
    memset(counted, 0, (n_topics + 1) * sizeof(*counted));
    for (size_t i = 0; i < n; i++)
        turns[i] = (struct dt_turn){v[i].owner, (int64_t)dt_str_hash(v[i].kafka_topic), .at = i};
    dt_turns_sort(t->io->due.turns, turns, n);
    for (size_t i = 0; i < n; i++) {
        struct place *place = &v[turns[i].at];
        if (!counted[place->number] && most > 0) {
            counted[place->number] = true;
            most--;
        }
        place->chosen = counted[place->number];
    }
    for (size_t i = 0; i < t->n; i++) {
        struct dt_candidate *c = &t->v[i];
        const struct place own = {.kafka_topic = c->kafka_topic, .owner = c->owner};
        const struct place *place =
            is_claimed_for_kafka(c) ? bsearch(&own, v, n, sizeof(*v), compare_places_by_topic) : NULL;
        dt_assert(place || !is_claimed_for_kafka(c));
        if (place && !place->chosen)
            postpone_candidate(t, c);
    }
    return DT_OK;
}

/* ---- choosing the batch ---- */

/* The parts of a batch that owners and their topics get, if the batch cannot have all jobs. */
struct owner_part {
    size_t n_topics, bytes;
};
struct topic_part {
    struct owner_part *owner;
    struct dt_candidate *first;
    size_t bytes;
    bool full; /* a job of the topic did not fit into the batch, so later jobs of the topic must wait as well */
};

struct parts {
    struct owner_part *owners;
    struct topic_part *topics;
    struct topic_part **of; /* the part of each candidate's topic; NULL: the candidate is not to be claimed */
    struct dt_turn *turns;  /* turns of the topics; the topics are in this order */
    size_t n, n_owners;
    size_t jobs, bytes; /* size of the batch so far */
};

static int compare_candidates_by_due(const void *a, const void *b)
{
    const struct dt_candidate *x = a;
    const struct dt_candidate *y = b;
    return x->next_ms != y->next_ms ? DT_ORDER(x->next_ms, y->next_ms) : DT_ORDER(x->id, y->id);
}

static int compare_by_owner_and_topic(const void *a, const void *b)
{
    const struct dt_candidate *x = *(struct dt_candidate *const *)a;
    const struct dt_candidate *y = *(struct dt_candidate *const *)b;
    if (x->owner != y->owner)
        return DT_ORDER(x->owner, y->owner);
    int topics = dt_str_order(x->topic, y->topic);
    return topics ? topics : DT_ORDER(x, y);
}

static dt_status list_owner_and_topic_parts(const struct dt_open_txn *t, struct parts *parts)
{
    struct dt_arena *arena = t->io->arena;
    struct dt_candidate **v = dt_arena_alloc(arena, t->n * sizeof(struct dt_candidate *));
    size_t n = 0;
    *parts = (struct parts){.owners = dt_arena_alloc(arena, t->n * sizeof(struct owner_part)),
                            .topics = dt_arena_alloc(arena, t->n * sizeof(struct topic_part)),
                            .of = dt_arena_alloc(arena, t->n * sizeof(struct topic_part *)),
                            .turns = dt_arena_alloc(arena, t->n * sizeof(struct dt_turn))};
    if (!v || !parts->topics || !parts->owners || !parts->of || !parts->turns)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++) {
        parts->of[i] = NULL;
        if (t->v[i].fate == DT_FATE_CLAIM)
            v[n++] = &t->v[i];
    }
    qsort(v, n, sizeof(struct dt_candidate *), compare_by_owner_and_topic);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || v[i]->owner != v[i - 1]->owner)
            parts->owners[parts->n_owners++] = (struct owner_part){0};
        if (i == 0 || !dt_str_eq(v[i]->topic, v[i - 1]->topic)) {
            struct owner_part *owner = &parts->owners[parts->n_owners - 1];
            owner->n_topics++;
            parts->turns[parts->n] = (struct dt_turn){v[i]->owner, (int64_t)dt_str_hash(v[i]->topic), .at = parts->n};
            parts->topics[parts->n++] = (struct topic_part){.owner = owner, .first = v[i]};
        }
        parts->of[v[i] - t->v] = &parts->topics[parts->n - 1];
    }
    dt_turns_sort(t->io->due.turns, parts->turns, parts->n);
    return DT_OK;
}

static bool has_batch_room(const struct dt_leader_due *due, const struct parts *parts, const struct dt_candidate *c)
{
    return parts->jobs < due->max_jobs && (!parts->jobs || parts->bytes + (size_t)c->bytes <= due->max_bytes);
}

static void choose_candidate(struct parts *parts, struct topic_part *part, struct dt_candidate *c)
{
    dt_assert(!c->chosen);
    c->chosen = true;
    parts->jobs++;
    parts->bytes += (size_t)c->bytes;
    part->bytes += (size_t)c->bytes;
    part->owner->bytes += (size_t)c->bytes;
}

/* Chooses, in order of due time, the jobs that fit into the batch and into their owner's part, and, if `each`, also
 * into their topic's part. */
static void choose_within_parts(struct dt_open_txn *t, struct parts *parts, size_t owner_bytes, bool each)
{
    for (size_t i = 0; i < parts->n; i++)
        parts->topics[i].full = false;
    for (size_t i = 0; i < t->n; i++) {
        struct dt_candidate *c = &t->v[i];
        struct topic_part *part = parts->of[i];
        if (!part || c->chosen)
            continue;
        const size_t bytes = (size_t)c->bytes;
        part->full |= c->alone || !has_batch_room(&t->io->due, parts, c) || part->owner->bytes + bytes > owner_bytes ||
                      (each && part->bytes + bytes > owner_bytes / part->owner->n_topics);
        if (!part->full)
            choose_candidate(parts, part, c);
    }
}

static void choose_fairly(struct dt_open_txn *t, struct parts *parts)
{
    const size_t all = t->io->due.max_bytes;
    const size_t each = all / parts->n_owners;
    /* Chooses the first job of each topic, even if the job is larger than the topic's part, until the owner's part is
     * used up. */
    for (size_t i = 0; i < parts->n; i++) {
        struct topic_part *part = &parts->topics[parts->turns[i].at];
        const size_t bytes = part->owner->bytes + (size_t)part->first->bytes;
        if (!part->first->alone && has_batch_room(&t->io->due, parts, part->first) &&
            (!part->owner->bytes || bytes <= each))
            choose_candidate(parts, part, part->first);
    }
    choose_within_parts(t, parts, each, true);
    choose_within_parts(t, parts, each, false);
    choose_within_parts(t, parts, all, false);
}

static dt_status choose_batch(struct dt_open_txn *t)
{
    struct parts parts;
    size_t jobs = 0;
    size_t bytes = 0;
    bool some_alone = false;
    for (size_t i = 0; i < t->n; i++) {
        const struct dt_candidate *c = &t->v[i];
        if (c->fate != DT_FATE_CLAIM)
            continue;
        jobs++;
        bytes += (size_t)c->bytes;
        some_alone |= c->alone;
    }
    const bool fits = !some_alone && jobs <= t->io->due.max_jobs && (jobs <= 1 || bytes <= t->io->due.max_bytes);
    for (size_t i = 0; i < t->n; i++)
        t->v[i].chosen = fits;
    if (fits)
        return DT_OK;
    dt_status status = list_owner_and_topic_parts(t, &parts);
    if (status != DT_OK)
        return status;
    dt_assert_cmp(parts.n_owners, >, 0);
    /* Chooses a message that must be sent in a batch of one, if it is the first of its topic. If other topics have
     * jobs, only every second batch consists of one message. */
    struct dt_candidate *alone = NULL;
    bool others = false;
    for (size_t i = 0; i < parts.n; i++) {
        struct dt_candidate *first = parts.topics[parts.turns[i].at].first;
        others |= !first->alone;
        alone = alone || !first->alone ? alone : first;
    }
    if (alone && (!others || t->io->due.turns->round % 2 == 0))
        alone->chosen = true;
    else
        choose_fairly(t, &parts);
    dt_assert_cmp(parts.jobs, <=, t->io->due.max_jobs);
    dt_assert(parts.jobs <= 1 || parts.bytes <= t->io->due.max_bytes);
    return DT_OK;
}

/* If the batch left jobs, records that owner and topic of each chosen job had their turn. */
static void record_turns(const struct dt_open_txn *t)
{
    struct dt_turns *turns = t->io->due.turns;
    for (size_t i = 0; i < t->n; i++) {
        const struct dt_candidate *c = &t->v[i];
        if (c->fate != DT_FATE_CLAIM || !c->chosen)
            continue;
        dt_turns_note(turns, c->owner, (int64_t)dt_str_hash(c->topic));
        dt_turns_note(turns, c->owner, (int64_t)dt_str_hash(c->kafka_topic));
    }
    turns->round++;
}

/* Requests a place in the hands of this process for the candidate's next attempt. */
static enum dt_hand_place take_callback_place(struct dt_open_txn *t, const struct dt_candidate *c)
{
    const struct dt_leader_gate *gate = &t->io->gate;
    const struct dt_topic_callback *topic = dt_topic_snapshot_callback(t->io->due.topics, c->topic);
    struct dt_hand_wanted wanted = {.job_id = c->id,
                                    .attempt = dt_job_number_after(c->attempt, 1),
                                    .bytes = (size_t)c->bytes,
                                    .topic = c->topic,
                                    .topic_owner = dt_topic_snapshot_owner(t->io->due.topics, c->topic),
                                    .url = c->callback_url};
    wanted.own_url = wanted.url.p;
    if (!wanted.own_url && topic)
        wanted.url = topic->places.url;
    return gate->take && topic ? gate->take(gate->hands, &wanted, &t->owner) : DT_HAND_FULL;
}

/* Invariant: if an attempt ended as lost, the same transaction claims the job's next attempt. */
dt_status dt_claims_choose(struct dt_open_txn *t)
{
    struct dt_leader_chosen *chosen = &t->io->chosen;
    qsort(t->v, t->n, sizeof(*t->v), compare_candidates_by_due);
    t->by_due = true;
    chosen->shortest_ack_ms = INT64_MAX;
    chosen->left = dt_arena_alloc(t->io->arena, (t->n ? t->n : 1) * sizeof(*chosen->left));
    if (!chosen->left)
        return DT_NOMEM;
    dt_status status = hold_jobs_beyond_limits(t);
    DT_THEN(status, postpone_other_topics(t));
    DT_THEN(status, choose_batch(t));
    for (size_t i = 0; status == DT_OK && i < t->n; i++) {
        struct dt_candidate *c = &t->v[i];
        t->n_timeouts += c->fate == DT_FATE_TIMEOUT;
        if (c->fate != DT_FATE_CLAIM)
            continue;
        if (!c->chosen && !c->lost) {
            postpone_candidate(t, c);
            continue;
        }
        const enum dt_hand_place place = c->by_hands ? take_callback_place(t, c) : DT_HAND_TAKEN;
        if (place != DT_HAND_TAKEN) {
            c->fate = DT_FATE_HELD;
            c->host = place == DT_HAND_FULL_THERE ? dt_callback_host_of(c->callback_url) : 0;
            t->io->hands.full++;
            continue;
        }
        /* The due time of the attempt is that of the job. If a manual edit made next_at invalid, the attempt is due
         * now. */
        const struct dt_claim claim = {c->id, dt_job_number_after(c->attempt, 1),
                                       c->next_ms > 1 ? c->next_ms : t->row.now_ms};
        t->n_retries += c->attempt > 0;
        if (c->by_hands)
            t->hands[t->n_hands++] = claim;
        else {
            t->claims[t->n_claims++] = claim;
            chosen->shortest_ack_ms = dt_earlier(chosen->shortest_ack_ms, c->ack_timeout_ms);
        }
    }
    dt_assert_cmp(t->n_claims + t->n_hands + t->n_timeouts + chosen->n_left, <=, t->n);
    if (status == DT_OK && chosen->more)
        record_turns(t);
    qsort(chosen->left, chosen->n_left, sizeof(*chosen->left), dt_by_job_id);
    return status;
}
