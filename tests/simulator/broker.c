/*
 * kafka.h on a broker in memory.
 *
 *   coordinator   two transactional ids a shard, used by turns; of each its epoch, the transaction that is open.
 *                 InitProducerId raises the epoch, ends what was open and waits for its markers. EndTxn is answered
 *                 before the markers; asked again, it is answered again. A transaction that is open for too long is
 *                 aborted.
 *   partitions    A topic has one, the ledger one a shard. A record is visible to a read_committed reader when the
 *                 marker of its transaction is in its partition, and no earlier record's is missing.
 *   network       A request can be held and come later; its sender asks again, or gives up. What comes with an old
 *                 epoch is refused.
 *
 * The producer keeps the real one's promises, by the same rules: one EndTxn request, or it is in doubt.
 */
#include "simulator/broker.h"

#include "base/guard.h"
#include "deliver/kafka/kafka.h"
#include "simulator/faults.h"
#include "simulator/intake/intake.h"
#include "simulator/nemesis.h"
#include "simulator/processes.h"

#define PARTITIONS_MAX 24
#define TOUCHED_MAX    16
#define IDS            2
#define NONSENSE       "nonsense "

enum txn_state { TXN_OPEN, TXN_COMMITTED, TXN_ABORTED };

struct partition;
struct txn {
    enum txn_state state;
    unsigned shard, id;
    int64_t epoch, begun_us, decided_us;
    struct partition *touched[TOUCHED_MAX];
    bool marked[TOUCHED_MAX];
    unsigned n_touched, n_marked, n_records;
};

struct record {
    struct broker_record r;
    struct txn *txn; /* NULL: not in a transaction */
    bool marker;
};

struct partition {
    char name[64];
    struct record **records; /* offset = index */
    size_t n, cap;
    int64_t start;    /* what lies below was deleted */
    int64_t fresh_us; /* a reader may see it as it was a moment ago until then */
    size_t stale_n;
    int64_t missing_until_us;
    bool ledger;
};

struct coordinator {
    int64_t epoch;
    struct txn *txn; /* the latest */
    bool held_end;   /* an EndTxn (commit) of held_epoch is still under way */
    int64_t held_epoch;
};

/* A topic of our own. */
struct stream {
    struct partition *partitions[2];
    int64_t committed[2], applied[2]; /* offsets of its readers; applied: the furthest that was ever committed */
};

static struct {
    struct coordinator coordinators[SHARDS_MAX][IDS];
    struct partition *topics[PARTITIONS_MAX];
    unsigned n_topics, shards;
    struct partition *ledgers[SHARDS_MAX];
    struct stream results, commands;
    struct record **messages; /* to consumers, in the order of commits */
    size_t n_messages, cap_messages;
    struct record **ledger_records[SHARDS_MAX]; /* ever committed */
    size_t n_ledger[SHARDS_MAX], cap_ledger[SHARDS_MAX];
    bool filled;     /* a ledger that was made anew was filled by others */
    bool lost_young; /* a young ledger was made anew: nothing else takes away what the new one has to tell */
    int64_t down_until_us, coordinator_down_until_us, results_late_until_us;
    struct proc *cut_proc;
    int64_t cut_until_us;
    struct {
        int64_t job, until_us;
    } poison[32];
    unsigned n_poison;
    struct {
        int64_t job, attempt;
    } refused[256]; /* alone */
    unsigned n_refused;
    struct letter {
        int64_t job, attempt;
        int64_t refused_until_us;
        bool sent;
    } letters[512]; /* dead letters that somebody tried to send */
    unsigned n_letters;
    enum { NOT_OFFERED, PUT_ASIDE } nonsense[64]; /* what became of what no reader of results understands */
    unsigned n_nonsense;
    struct fiber *subscriber, *pollers[16];
    unsigned n_pollers;
} broker;

/* ---- partitions ---- */

static struct partition *partition_new(struct dt_str name, bool ledger)
{
    struct partition *p = world_alloc(sizeof *p);
    snprintf(p->name, sizeof p->name, "%.*s", (int)name.n, name.p);
    p->ledger = ledger;
    return p;
}

static struct partition *topic_named(struct dt_str name)
{
    for (unsigned i = 0; i < broker.n_topics; i++)
        if (dt_str_is(name, broker.topics[i]->name))
            return broker.topics[i];
    if (broker.n_topics == PARTITIONS_MAX)
        broken("too many topics");
    return broker.topics[broker.n_topics++] = partition_new(name, false);
}

static struct record *append(struct partition *p, struct txn *txn, bool marker)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 32;
        struct record **bigger = world_alloc(p->cap * sizeof *bigger);
        if (p->n)
            memcpy(bigger, p->records, p->n * sizeof *bigger);
        p->records = bigger;
    }
    struct record *r = world_alloc(sizeof *r);
    r->txn = txn;
    r->marker = marker;
    r->r.offset = (int64_t)p->n;
    r->r.produced_us = now_us;
    p->records[p->n++] = r;
    return r;
}

static void keep(struct record ***list, size_t *n, size_t *cap, struct record *r)
{
    if (*n == *cap) {
        *cap = *cap ? *cap * 2 : 32;
        struct record **bigger = world_alloc(*cap * sizeof *bigger);
        if (*n)
            memcpy(bigger, *list, *n * sizeof *bigger);
        *list = bigger;
    }
    (*list)[(*n)++] = r;
}

static unsigned touched_index(const struct txn *t, const struct partition *p)
{
    unsigned i = 0;
    while (i < t->n_touched && t->touched[i] != p)
        i++;
    return i;
}

/* Is the fate of this record known in its partition? */
static bool is_marked(const struct record *r, const struct partition *p)
{
    return !r->txn || r->marker || r->txn->marked[touched_index(r->txn, p)];
}

static size_t last_stable(const struct partition *p)
{
    size_t n = (size_t)p->start;
    while (n < p->n && is_marked(p->records[n], p))
        n++;
    return n;
}

/* ---- transactions ---- */

static void put_marker(struct txn *t, unsigned i)
{
    struct partition *p = t->touched[i];
    if (t->marked[i])
        return;
    for (size_t k = (size_t)p->start; k < p->n; k++) {
        struct record *r = p->records[k];
        if (r->txn != t || r->marker || t->state != TXN_COMMITTED)
            continue;
        r->r.committed_us = t->decided_us;
        r->r.shard = t->shard;
        if (p->ledger)
            keep(&broker.ledger_records[t->shard], &broker.n_ledger[t->shard], &broker.cap_ledger[t->shard], r);
        else
            keep(&broker.messages, &broker.n_messages, &broker.cap_messages, r);
    }
    append(p, t, true);
    if (broker.subscriber && !p->ledger)
        fiber_wake(broker.subscriber);
    t->marked[i] = true;
    t->n_marked++;
}

struct marker_order {
    struct txn *txn;
    unsigned index;
};

static void marker_arrives(void *arg)
{
    struct marker_order *order = arg;
    put_marker(order->txn, order->index);
}

static void decide(struct txn *t, enum txn_state state)
{
    t->state = state;
    t->decided_us = now_us;
    TRACE("kafka: shard %u epoch %lld: transaction with %u records %s", t->shard, (long long)t->epoch, t->n_records,
          state == TXN_COMMITTED ? "committed" : "aborted");
    for (unsigned i = 0; i < t->n_touched; i++) {
        struct marker_order *order = world_alloc(sizeof *order);
        *order = (struct marker_order){t, i};
        at(now_us + (one_in(8) && faults_on() && !faults_calm() ? rnd_in(1 * MS, 400 * MS) : rnd_in(0, 1 * MS)),
           marker_arrives, order);
    }
}

static bool under_way(const struct txn *t)
{
    return t && t->state != TXN_OPEN && t->n_marked < t->n_touched;
}

static void timeout_check(void *arg)
{
    struct txn *t = arg;
    struct coordinator *c = &broker.coordinators[t->shard][t->id];
    if (t->state != TXN_OPEN || c->txn != t)
        return;
    TRACE("kafka: shard %u: the transaction timed out", t->shard);
    c->epoch++;
    decide(t, TXN_ABORTED);
}

/* FENCED: DEPOSED. Not now: BUSY. */
static dt_status add_partition(unsigned shard, unsigned id, int64_t epoch, struct partition *p)
{
    struct coordinator *c = &broker.coordinators[shard][id];
    if (epoch != c->epoch)
        return DT_DEPOSED;
    if (under_way(c->txn))
        return DT_BUSY;
    if (!c->txn || c->txn->state != TXN_OPEN) {
        c->txn = world_alloc(sizeof *c->txn);
        *c->txn = (struct txn){.shard = shard, .id = id, .epoch = epoch, .begun_us = now_us};
        at(now_us + TRANSACTION_US, timeout_check, c->txn);
    }
    if (touched_index(c->txn, p) == c->txn->n_touched) {
        if (c->txn->n_touched == TOUCHED_MAX)
            broken("a transaction over too many partitions");
        c->txn->touched[c->txn->n_touched++] = p;
    }
    return DT_OK;
}

/* The answer to EndTxn (commit): OK, also when it is asked again; DEPOSED: fenced; BUSY; INVALID. */
static dt_status end_txn(unsigned shard, unsigned id, int64_t epoch)
{
    struct coordinator *c = &broker.coordinators[shard][id];
    if (epoch != c->epoch)
        return DT_DEPOSED;
    if (!c->txn || c->txn->epoch != epoch)
        return DT_INVALID;
    if (c->txn->state == TXN_OPEN)
        decide(c->txn, TXN_COMMITTED);
    return c->txn->state == TXN_COMMITTED ? DT_OK : DT_INVALID;
}

struct held_end {
    unsigned shard, id;
    int64_t epoch;
};

static void held_end_arrives(void *arg)
{
    struct held_end *held = arg;
    dt_status status = end_txn(held->shard, held->id, held->epoch);
    TRACE("kafka: shard %u: a held EndTxn of epoch %lld arrives: %s", held->shard, (long long)held->epoch,
          dt_status_name(status));
}

static void hold_end(unsigned shard, unsigned id, int64_t epoch, int64_t us)
{
    struct held_end *held = world_alloc(sizeof *held);
    *held = (struct held_end){shard, id, epoch};
    at(now_us + us, held_end_arrives, held);
}

/* ---- the way to the broker ---- */

static bool away(bool coordinator)
{
    return now_us < broker.down_until_us || (coordinator && now_us < broker.coordinator_down_until_us);
}

static bool replies_cut(void)
{
    return broker.cut_proc && broker.cut_proc == proc_self() && now_us < broker.cut_until_us;
}

static bool in_reach(bool coordinator)
{
    return !away(coordinator) && !replies_cut();
}

/* Waits for the broker, the deadline at most. */
static dt_status reach(bool coordinator, int64_t deadline_us, const _Atomic bool *stop, struct dt_error *err)
{
    op("kafka");
    while (!in_reach(coordinator)) {
        if (stop && *stop)
            return dt_fail(err, DT_SHUTDOWN, "stopped");
        if (now_us >= deadline_us)
            return dt_fail(err, DT_UNAVAILABLE, "the broker does not answer");
        fiber_sleep(rnd_in(20 * MS, 100 * MS));
    }
    return DT_OK;
}

/* ---- admin ---- */

struct dt_kafka_admin {
    int unused;
};

STUB(void, dt_kafka_drain, (int timeout_ms), )

dt_status dt_kafka_admin_new(const struct dt_kafka_env *, dt_kafka_admin **out, struct dt_error *)
{
    *out = calloc(1, sizeof **out);
    return *out ? DT_OK : DT_NOMEM;
}

void dt_kafka_admin_free(dt_kafka_admin *admin)
{
    free(admin);
}

dt_status dt_kafka_admin_prepare(dt_kafka_admin *, struct dt_error *err)
{
    return reach(false, now_us + 1 * SEC, NULL, err);
}

dt_status dt_kafka_admin_ledger(dt_kafka_admin *, unsigned shard, enum dt_ledger_care care, struct dt_error *err)
{
    dt_status status = reach(false, now_us + 1 * SEC, NULL, err);
    if (status == DT_OK && care == DT_LEDGER_CHECK && !broker.ledgers[shard])
        return dt_fail(err, DT_REFUSED, "no partition");
    for (unsigned i = 0; status == DT_OK && care == DT_LEDGER_GROW && i <= shard; i++)
        if (!broker.ledgers[i])
            broker.ledgers[i] = partition_new(DT_STR_LIT("ledger"), true);
    return status;
}

STUB(void, dt_kafka_admin_forget, (dt_kafka_admin * admin, struct dt_str topic), )

/* What an asker has found out, in the order in which it asked; the fiber is on its way while something is wanted. */
struct dt_kafka_asker {
    void (*told)(void *arg);
    void *arg;
    const struct partition *asked[PARTITIONS_MAX];
    bool known[PARTITIONS_MAX];
    unsigned n;
    bool on_its_way, freed;
    int64_t down_until_us;
};

dt_status dt_kafka_asker_new(dt_kafka_admin *, void (*told)(void *arg), void *arg, dt_kafka_asker **out)
{
    *out = world_alloc(sizeof **out);
    **out = (struct dt_kafka_asker){.told = told, .arg = arg};
    return DT_OK;
}

void dt_kafka_asker_free(dt_kafka_asker *asker)
{
    if (asker)
        asker->freed = true;
}

STUB(void, dt_kafka_asker_sends, (dt_kafka_asker * asker, int64_t owner), )

/* Some are found out, others with the next request. */
static void *find_out(void *arg)
{
    dt_kafka_asker *asker = arg;
    fiber_sleep(rnd_in(1 * MS, 60 * MS));
    bool reached = reach(false, now_us + 500 * MS, NULL, NULL) == DT_OK;
    asker->on_its_way = false;
    if (!reached)
        asker->down_until_us = now_us + 1 * SEC;
    for (unsigned i = 0, some = 0; reached && i < asker->n; i++)
        if (!asker->known[i] && (some++ == 0 || rnd_in(0, 1)))
            asker->known[i] = true;
    if (!asker->freed)
        asker->told(asker->arg);
    return NULL;
}

static unsigned place_of(dt_kafka_asker *asker, const struct partition *topic)
{
    for (unsigned i = 0; i < asker->n; i++)
        if (asker->asked[i] == topic)
            return i;
    asker->asked[asker->n] = topic;
    return asker->n++;
}

dt_status dt_kafka_asker_ask(dt_kafka_asker *asker, struct dt_str topic, int64_t, struct dt_kafka_topic_info *out,
                             struct dt_error *err)
{
    const struct partition *part = topic_named(topic);
    unsigned i = place_of(asker, part);
    *out = (struct dt_kafka_topic_info){.max_message_bytes = 1000000, .partitions = 1};
    if (asker->known[i] && now_us < part->missing_until_us)
        return dt_fail(err, DT_REFUSED, "%.*s cannot be written", (int)topic.n, topic.p);
    if (asker->known[i])
        return DT_OK;
    if (now_us < asker->down_until_us)
        return dt_fail(err, DT_UNAVAILABLE, "the broker does not answer");
    if (!asker->on_its_way) {
        asker->on_its_way = true;
        fiber_start(proc_self(), find_out, asker);
    }
    return dt_fail(err, DT_BUSY, "%.*s is being looked up", (int)topic.n, topic.p);
}

/* ---- the transactional producer ---- */

struct dt_producer {
    unsigned shard;
    int64_t epochs[IDS];
    unsigned id; /* whose turn it is */
    bool failed;
    struct dt_kafka_refusal refusal;
    const struct partition *added[TOUCHED_MAX]; /* to the transaction that it believes in */
    unsigned n_added;

    /* what was begun; the client sends it by itself, some of it at once */
    bool open;
    const struct dt_kafka_message *messages;
    size_t n, sent;
    struct dt_str record_key, record_value;
    struct record *record; /* sent */
    bool ending;           /* EndTxn was asked for */
    int64_t deadline_us;
};

static struct coordinator *coordinator_of(const dt_producer *p)
{
    return &broker.coordinators[p->shard][p->id];
}

static int64_t epoch_of(const dt_producer *p)
{
    return p->epochs[p->id];
}

/* InitProducerId: fences, ends what is open, waits for its markers. */
static dt_status fence(struct coordinator *c, int64_t deadline_us, const _Atomic bool *stop, struct dt_error *err)
{
    for (;;) {
        dt_status status = reach(true, deadline_us, stop, err);
        if (status != DT_OK)
            return status;
        if (c->txn && c->txn->state == TXN_OPEN) {
            c->epoch++;
            decide(c->txn, TXN_ABORTED);
        }
        if (!under_way(c->txn))
            break;
        if (now_us >= deadline_us)
            return dt_fail(err, DT_UNAVAILABLE, "init_transactions: markers are under way");
        fiber_sleep(rnd_in(1 * MS, 20 * MS));
    }
    c->epoch++;
    return DT_OK;
}

/* One id after the other, as either may be slower. */
dt_status dt_producer_new(const struct dt_kafka_env *env, unsigned shard, const _Atomic bool *stop, dt_producer **out,
                          struct dt_error *err)
{
    int64_t deadline_us = now_us + env->config->kafka_transaction_timeout * 1000;
    dt_producer made = {.shard = shard};
    *out = NULL;
    for (unsigned i = 0, first = one_in(2); i < IDS; i++) {
        unsigned id = (first + i) % IDS;
        struct coordinator *c = &broker.coordinators[shard][id];
        dt_status status = DT_UNGUARDED(FENCE_BOTH) && i > 0 ? DT_OK : fence(c, deadline_us, stop, err);
        if (status != DT_OK)
            return status;
        made.epochs[id] = c->epoch;
    }
    dt_producer *p = malloc(sizeof *p);
    if (!p)
        return DT_NOMEM;
    *p = made;
    TRACE("kafka: shard %u: producer epochs %lld, %lld", shard, (long long)p->epochs[0], (long long)p->epochs[1]);
    *out = p;
    return DT_OK;
}

static void abort_arrives(void *arg)
{
    const struct held_end *asked = arg;
    struct coordinator *c = &broker.coordinators[asked->shard][asked->id];
    if (c->epoch != asked->epoch || !c->txn || c->txn->epoch != asked->epoch || c->txn->state != TXN_OPEN)
        return;
    TRACE("kafka: shard %u: given up by its producer", asked->shard);
    decide(c->txn, TXN_ABORTED);
}

/* Best effort: what was begun, and not asked to be committed, is aborted, now or in a moment. */
void dt_producer_free(dt_producer *p)
{
    if (p && p->open && !p->ending && in_reach(true) && !one_in(4)) {
        struct held_end *asked = world_alloc(sizeof *asked);
        *asked = (struct held_end){p->shard, p->id, epoch_of(p)};
        at(now_us + (one_in(2) ? 0 : rnd_in(0, 500 * MS)), abort_arrives, asked);
    }
    free(p);
}

/* Of the messages that the product makes: what the oracles know them by. */
static int64_t number_of(struct dt_str s, size_t *at_char)
{
    int64_t n = 0;
    for (; *at_char < s.n && s.p[*at_char] >= '0' && s.p[*at_char] <= '9'; ++*at_char)
        n = n * 10 + (s.p[*at_char] - '0');
    return n;
}

static int64_t days_before(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = year / 400, of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* 2026-11-21T10:30:00.000Z */
int64_t broker_time_of(struct dt_str s)
{
    int64_t part[7] = {0};
    size_t at_char = 0;
    for (int i = 0; i < 7 && at_char < s.n; i++, at_char++)
        part[i] = number_of(s, &at_char);
    return ((days_before(part[0], part[1], part[2]) * 24 + part[3]) * 60 + part[4]) * 60000 + part[5] * 1000 + part[6];
}

static struct dt_str text_copy(struct dt_str s)
{
    char *p = world_alloc(s.n + 1);
    if (s.n)
        memcpy(p, s.p, s.n);
    return (struct dt_str){p, s.n};
}

static void describe(struct record *r, const struct dt_kafka_message *m)
{
    size_t at_char = 0;
    for (size_t i = 0; i < m->n_headers; i++) {
        if (dt_str_is(m->headers[i].name, "ce_id")) {
            r->r.job = number_of(m->headers[i].value, &at_char);
            at_char++;
            r->r.attempt = number_of(m->headers[i].value, &at_char);
        } else if (dt_str_is(m->headers[i].name, "ce_scheduledtime"))
            r->r.due_ms = broker_time_of(m->headers[i].value);
        else if (dt_str_is(m->headers[i].name, "ce_type"))
            r->r.topic = text_copy(m->headers[i].value);
    }
}

static dt_status doubt(dt_producer *p, const char *why, struct dt_error *err)
{
    p->failed = true;
    TRACE("kafka: shard %u: in doubt: %s", p->shard, why);
    return dt_fail(err, DT_DOUBT, "%s", why);
}

static void may_stop_producing(void)
{
    struct proc *self = proc_self();
    if (!self || !fault(F_PAUSE_IN_TXN, 8))
        return;
    self->paused_until_us = now_us + TRANSACTION_US + rnd_in(-SEC, 3 * SEC);
    zookeeper_noticed_silence(self);
    fiber_sleep(1);
}

/* The client asks for a partition once a transaction: AddPartitionsToTxn. */
static dt_status add_once(dt_producer *p, struct partition *part)
{
    for (unsigned i = 0; i < p->n_added; i++)
        if (p->added[i] == part)
            return DT_OK;
    dt_status status = add_partition(p->shard, p->id, epoch_of(p), part);
    if (status == DT_OK && p->n_added < TOUCHED_MAX)
        p->added[p->n_added++] = part;
    return status;
}

/* One record. A request that is held is sent again by the client; what comes late is a duplicate, or of an old epoch.
 */
static dt_status produce(dt_producer *p, struct partition *part, struct record **out, struct dt_error *err)
{
    struct coordinator *c = coordinator_of(p);
    dt_status status;
    do {
        status = reach(true, p->deadline_us, NULL, err);
        if (status != DT_OK)
            return doubt(p, "produce: no answer", err);
        if (proc_self() && fault(F_PRODUCING, 8))
            process_crash(proc_self());
        may_stop_producing();
        if (fault(F_PRODUCE_HELD, 8)) {
            if (one_in(2))
                return doubt(p, "produce: held until the client gave up", err);
            fiber_sleep(rnd_in(100 * MS, 1 * SEC));
        }
        status = add_once(p, part);
    } while (status == DT_BUSY);
    if (status != DT_OK)
        return doubt(p, "fenced", err);
    op("produce");
    if (c->epoch != epoch_of(p) || !c->txn || c->txn->state != TXN_OPEN)
        return doubt(p, "produce: the transaction is not open", err);
    if (touched_index(c->txn, part) == c->txn->n_touched)
        return doubt(p, "produce: the partition is not in the transaction", err);
    *out = append(part, c->txn, false);
    c->txn->n_records++;
    if (c->held_end && c->held_epoch == epoch_of(p)) { /* on purpose, into this transaction */
        c->held_end = false;
        hold_end(p->shard, p->id, epoch_of(p), 0);
    }
    return DT_OK;
}

static dt_status end(dt_producer *p, int64_t deadline_us, struct dt_error *err)
{
    struct coordinator *c = coordinator_of(p);
    unsigned requests = 1;
    dt_status status = reach(true, deadline_us, NULL, err);
    if (status != DT_OK)
        return doubt(p, "EndTxn: no answer", err);
    if (fault(F_AFTER_ENDTXN, 4)) {
        switch (rnd_in(0, 2)) {
        case 0:
            (void)end_txn(p->shard, p->id, epoch_of(p));
            break;
        case 1:
            hold_end(p->shard, p->id, epoch_of(p), rnd_in(1 * MS, 2 * SEC));
            break;
        default:
            break;
        }
        process_crash(proc_self());
    }
    may_stop_producing();
    if (fault(F_ENDTXN_CUT, 4)) {
        bool heard = one_in(2);
        if (one_in(2))
            (void)end_txn(p->shard, p->id, epoch_of(p));
        else if (one_in(2))
            hold_end(p->shard, p->id, epoch_of(p), rnd_in(1 * MS, 2 * SEC));
        if (!heard)
            return doubt(p, "EndTxn: the connection was closed", err);
        fiber_sleep(rnd_in(10 * MS, 300 * MS));
        requests++;
    } else if (fault(F_ENDTXN_HELD, 4)) { /* asked again after a while; the first one is still under way */
        c->held_end = true;
        c->held_epoch = epoch_of(p);
        fiber_sleep(rnd_in(10 * MS, 300 * MS));
        requests++;
    }
    status = end_txn(p->shard, p->id, epoch_of(p));
    op("EndTxn's answer");
    if (status != DT_OK)
        return doubt(p, "EndTxn: refused", err);
    if (replies_cut())
        return doubt(p, "EndTxn: no answer", err);
    if (!DT_GUARD(ENDTXN_COUNT, requests == 1))
        return doubt(p, "more than one EndTxn request", err);
    return DT_OK;
}

static bool poisoned(int64_t job)
{
    for (unsigned i = 0; i < broker.n_poison; i++)
        if (broker.poison[i].job == job && now_us < broker.poison[i].until_us)
            return true;
    return false;
}

static dt_status send_next(dt_producer *p, struct dt_error *err)
{
    const struct dt_kafka_message *m = &p->messages[p->sent];
    struct partition *part = topic_named(m->topic);
    struct record described = {0}, *r;
    describe(&described, m);
    if (now_us < part->missing_until_us || poisoned(described.r.job)) {
        op("produce");
        p->failed = true;
        p->refusal = (struct dt_kafka_refusal){part->name, now_us < part->missing_until_us};
        TRACE("kafka: shard %u: refused job %lld attempt %lld", p->shard, (long long)described.r.job,
              (long long)described.r.attempt);
        if (p->n == 1 && broker.n_refused < 256) {
            broker.refused[broker.n_refused].job = described.r.job;
            broker.refused[broker.n_refused++].attempt = described.r.attempt;
        }
        return dt_fail(err, DT_REFUSED, "the message of job %lld is refused", (long long)described.r.job);
    }
    dt_status status = produce(p, part, &r, err);
    if (status != DT_OK)
        return status;
    p->sent++;
    describe(r, m);
    TRACE("kafka: shard %u: produced job %lld attempt %lld", p->shard, (long long)r->r.job, (long long)r->r.attempt);
    return DT_OK;
}

static dt_status send_record(dt_producer *p, struct dt_error *err)
{
    if (!broker.ledgers[p->shard])
        return doubt(p, "the ledger has no such partition", err);
    dt_status status = produce(p, broker.ledgers[p->shard], &p->record, err);
    if (status != DT_OK)
        return status;
    p->record->r.key = p->record_key;
    p->record->r.value = p->record_value;
    TRACE("kafka: shard %u: ledger %lld: %.*s", p->shard, (long long)p->record->r.offset, (int)p->record_value.n,
          p->record_value.p);
    return DT_OK;
}

/* A topic is known here when it exists. */
STUB(void, dt_producer_meet, (dt_producer * p, const struct dt_str *topics, size_t n), )

bool dt_producer_ready(dt_producer *p, const struct dt_kafka_message *, size_t)
{
    return !p->failed && !one_in(4);
}

/* Never waits: what would have to is sent with the commit. */
dt_status dt_producer_begin(dt_producer *p, const struct dt_kafka_message *messages, size_t n, struct dt_str record_key,
                            struct dt_str record_value, struct dt_error *err)
{
    size_t at_once = n ? (size_t)rnd_in(0, (int64_t)n) : 0;
    dt_status status = DT_OK;
    if (p->failed || p->open)
        return doubt(p, "it has failed before", err);
    p->n_added = 0;
    p->open = true;
    p->messages = messages;
    p->n = n;
    p->sent = 0;
    p->record = NULL;
    p->ending = false;
    p->record_key = text_copy(record_key);
    p->record_value = text_copy(record_value);
    p->deadline_us = now_us + TRANSACTION_US;
    while (status == DT_OK && p->sent < at_once && in_reach(true))
        status = send_next(p, err);
    if (status == DT_OK && p->sent == n && one_in(2) && in_reach(true))
        status = send_record(p, err);
    return status;
}

dt_status dt_producer_commit(dt_producer *p, int64_t *ledger_offset, struct dt_error *err)
{
    dt_status status = DT_OK;
    if (p->failed || !p->open)
        return doubt(p, "no transaction is open", err);
    while (status == DT_OK && p->sent < p->n)
        status = send_next(p, err);
    if (status == DT_OK && !p->record)
        status = send_record(p, err);
    p->ending = status == DT_OK;
    if (status == DT_OK)
        status = end(p, p->deadline_us, err);
    if (status != DT_OK)
        return status;
    p->open = false;
    p->id = (p->id + 1) % IDS;
    *ledger_offset = p->record->r.offset;
    if (p->n)
        fiber_notes()->just_sent = true;
    return DT_OK;
}

dt_status dt_producer_send(dt_producer *p, const struct dt_kafka_message *messages, size_t n, struct dt_str record_key,
                           struct dt_str record_value, int64_t *ledger_offset, struct dt_error *err)
{
    dt_status status = dt_producer_begin(p, messages, n, record_key, record_value, err);
    return status == DT_OK ? dt_producer_commit(p, ledger_offset, err) : status;
}

struct dt_kafka_refusal dt_producer_refusal(const dt_producer *p)
{
    return p->refusal.topic ? p->refusal : (struct dt_kafka_refusal){"", false};
}

/* ---- the ledger ---- */

struct dt_ledger_trim {
    unsigned shard;
    int64_t before, when_us;
    bool gone;
};

static void trim_arrives(void *arg)
{
    const struct dt_ledger_trim *t = arg;
    struct partition *p = broker.ledgers[t->shard];
    if (t->before > p->start && t->before <= (int64_t)p->n) {
        p->start = t->before;
        TRACE("kafka: ledger %u trimmed below %lld, as asked", t->shard, (long long)t->before);
    }
}

dt_status dt_ledger_trim_start(const struct dt_kafka_env *, unsigned shard, int64_t before, dt_ledger_trim **out,
                               struct dt_error *)
{
    dt_ledger_trim *t = world_alloc(sizeof *t);
    *t = (dt_ledger_trim){.shard = shard, .before = before, .when_us = now_us + rnd_in(1 * MS, 3 * SEC)};
    at(t->when_us, trim_arrives, t);
    nemesis_while_trimming(shard);
    *out = t;
    return DT_OK;
}

bool dt_ledger_trim_done(dt_ledger_trim *t, dt_status *status, struct dt_error *)
{
    *status = DT_OK;
    return now_us > t->when_us;
}

STUB(void, dt_ledger_trim_free, (dt_ledger_trim * t), )

/* How far a reader sees now: a new leader of the partition may lag. */
static size_t seen_end(struct partition *p)
{
    size_t stable = last_stable(p);
    if (now_us < p->fresh_us && p->stale_n < stable)
        return p->stale_n > (size_t)p->start ? p->stale_n : (size_t)p->start;
    return stable;
}

dt_status dt_ledger_read(const struct dt_kafka_env *, unsigned shard, struct dt_ledger_reading *reading,
                         struct dt_error *err)
{
    struct partition *p = broker.ledgers[shard];
    const int64_t from = reading->from;
    reading->next = from;
    fiber_notes()->ledger_read = reading->fn != NULL;
    dt_status status = reach(false, reading->deadline_us, reading->stop, err);
    if (status != DT_OK)
        return status;
    if (from < p->start || from > (int64_t)p->n)
        return dt_fail(err, DT_INVALID, "offset out of range");
    if (!reading->fn)
        return DT_OK;
    if (fault(F_STRANGERS, 3))
        broker_strangers(shard, 1);
    if (fault(F_IN_TAKEOVER, 2)) {
        p->stale_n = last_stable(p) - (size_t)rnd_in(0, (int64_t)(last_stable(p) - (size_t)p->start));
        p->fresh_us = now_us + rnd_in(1 * MS, 800 * MS);
    }
    for (int64_t offset = from;;) {
        while (offset < (int64_t)seen_end(p)) {
            const struct record *r = p->records[offset++];
            if (r->marker || (r->txn && r->txn->state != TXN_COMMITTED))
                continue;
            reading->next = offset;
            if (!reading->fn(reading->arg, r->r.offset, r->r.key, r->r.value))
                return DT_OK;
        }
        if (DT_UNGUARDED(BARRIER)) /* the end of the partition taken for the end */
            return DT_OK;
        if (reading->stop && *reading->stop)
            return dt_fail(err, DT_SHUTDOWN, "stopped while reading");
        if (now_us >= reading->deadline_us)
            return dt_fail(err, DT_UNAVAILABLE, "nothing more came in time");
        fiber_sleep(rnd_in(2 * MS, 20 * MS));
    }
}

/* ---- plain sends ---- */

struct dt_notice_producer {
    int unused;
};

dt_status dt_notice_producer_new(const struct dt_kafka_env *, dt_notice_producer **out, struct dt_error *)
{
    *out = calloc(1, sizeof **out);
    return *out ? DT_OK : DT_NOMEM;
}

void dt_notice_producer_free(dt_notice_producer *notices)
{
    free(notices);
}

static struct letter *letter_of(int64_t job, int64_t attempt)
{
    for (unsigned i = 0; i < broker.n_letters; i++)
        if (broker.letters[i].job == job && broker.letters[i].attempt == attempt)
            return &broker.letters[i];
    if (broker.n_letters == sizeof broker.letters / sizeof *broker.letters)
        broken("too many dead letters");
    struct letter *l = &broker.letters[broker.n_letters++];
    *l = (struct letter){.job = job, .attempt = attempt};
    return l;
}

/* One message, whose own fate may be another than that of its neighbours. */
static bool take_letter(const struct dt_kafka_message *m)
{
    struct record r = {0};
    describe(&r, m);
    struct letter *l = letter_of(r.r.job, r.r.attempt);
    if (now_us >= l->refused_until_us && fault(F_REFUSED, 3))
        l->refused_until_us = now_us + rnd_in(100 * MS, 8 * SEC);
    if (faults_on() && now_us < l->refused_until_us) {
        TRACE("kafka: the letter of job %lld attempt %lld is refused", (long long)l->job, (long long)l->attempt);
        return false;
    }
    l->sent = true;
    return true;
}

/* A message that was refused: none comes with an answer that is wanted. */
static bool take_rejected(const struct dt_kafka_message *m)
{
    intake_rejected(m->value, m->n_headers ? m->headers[m->n_headers - 1].value : DT_STR_NONE);
    return !fault(F_REFUSED, 3);
}

/* What is refused for good may be forgotten by who put it aside. */
static bool take_nonsense(const struct dt_kafka_message *m)
{
    size_t at_char = sizeof NONSENSE - 1;
    broker.nonsense[number_of(m->value, &at_char) % 64] = PUT_ASIDE;
    return !fault(F_REFUSED, 3);
}

static bool take_notice(const struct dt_kafka_message *m)
{
    if (dt_str_is(m->topic, "sim.commands.rejected"))
        return take_rejected(m);
    return m->n_headers > 1 ? take_letter(m) : take_nonsense(m); /* what is put aside has its reason alone */
}

/* Of a batch some may have arrived when nothing more is heard of the others. */
dt_status dt_notice_producer_send(dt_notice_producer *, const struct dt_kafka_message *messages, size_t n, bool *sent,
                                  int timeout_ms, struct dt_error *err)
{
    bool refused = false;
    memset(sent, 0, n * sizeof *sent);
    dt_status status = reach(false, now_us + (int64_t)timeout_ms * 1000, NULL, err);
    if (status != DT_OK)
        return status;
    size_t heard = n && fault(F_PRODUCE_HELD, 3) ? (size_t)rnd_in(0, (int64_t)n - 1) : n;
    for (size_t i = 0; i < heard; i++) {
        sent[i] = take_notice(&messages[i]);
        refused |= !sent[i];
    }
    op("delivery reports");
    if (heard < n)
        return dt_fail(err, DT_UNAVAILABLE, "no answer for some messages");
    return refused ? dt_fail(err, DT_REFUSED, "some messages are refused") : DT_OK;
}

/* ---- topics of our own that are read partition by partition ---- */

struct dt_kafka_reader {
    struct stream *stream;
    struct dt_kafka_reading reading;
    unsigned rank, members;
    bool shared, commands;
    bool owed;    /* messages of a poll were neither applied nor rewound */
    bool left[2]; /* not read until the next share that begins anew */
    int64_t position[2];
    int64_t before[2];
    int64_t again_us; /* when it commits its offsets once more */
    struct dt_kafka_record *records;
    size_t n;
};

dt_status dt_kafka_reader_new(const struct dt_kafka_env *, const struct dt_kafka_reading *reading,
                              dt_kafka_reader **out, struct dt_error *err)
{
    dt_status status = reach(false, now_us + 1 * SEC, NULL, err);
    if (status != DT_OK)
        return status;
    *out = calloc(1, sizeof **out);
    if (!*out)
        return DT_NOMEM;
    (*out)->reading = *reading;
    (*out)->commands = strcmp(reading->suffix, "commands") == 0;
    (*out)->stream = (*out)->commands ? &broker.commands : &broker.results;
    return DT_OK;
}

void dt_kafka_reader_free(dt_kafka_reader *consumer)
{
    free(consumer);
}

static bool has(const dt_kafka_reader *c, unsigned partition)
{
    return c->shared && partition % c->members == c->rank && !c->left[partition];
}

/* Its owner says where the partitions are read from: all of them anew. */
static dt_status begin_anew(dt_kafka_reader *c, struct dt_error *err)
{
    struct dt_kafka_start starts[2];
    size_t n = 0;
    for (unsigned i = 0; i < 2; i++) {
        c->left[i] = false;
        if (has(c, i))
            starts[n++] = (struct dt_kafka_start){.partition = (int32_t)i, .end = (int64_t)c->stream->partitions[i]->n};
    }
    dt_status status = c->reading.begin(c->reading.arg, starts, n, err);
    for (size_t i = 0; i < n && status == DT_OK; i++) {
        c->left[starts[i].partition] = starts[i].next < 0;
        c->position[starts[i].partition] = starts[i].next;
    }
    c->shared = status == DT_OK;
    return status;
}

dt_status dt_kafka_reader_share(dt_kafka_reader *c, unsigned rank, unsigned members, struct dt_error *err)
{
    dt_kafka_reader was = *c;
    if (c->shared && c->rank == rank && c->members == members)
        return DT_OK;
    c->shared = true;
    c->rank = rank;
    c->members = members;
    if (c->reading.begin)
        return begin_anew(c, err);
    for (unsigned i = 0; i < 2; i++)
        if (has(c, i) && !has(&was, i))
            c->position[i] = c->stream->committed[i];
    return DT_OK;
}

void dt_kafka_reader_restart(dt_kafka_reader *c)
{
    c->shared = c->owed = false;
}

bool dt_kafka_reader_must_restart(const dt_kafka_reader *c)
{
    return c->owed;
}

void dt_kafka_reader_leave(dt_kafka_reader *c, int32_t partition)
{
    c->left[partition] = true;
}

/* No message here has headers. */
dt_status dt_kafka_reader_headers(const dt_kafka_reader *, size_t, struct dt_arena *, const struct dt_kafka_header **,
                                  size_t *n)
{
    *n = 0;
    return DT_OK;
}

STUB(int64_t, dt_kafka_reader_lag, (const dt_kafka_reader *c), 0)

static bool anything(const dt_kafka_reader *c)
{
    for (unsigned i = 0; i < 2; i++)
        if (has(c, i) && c->position[i] < (int64_t)c->stream->partitions[i]->n)
            return true;
    return false;
}

static bool is_late(const dt_kafka_reader *c)
{
    return !c->commands && now_us < broker.results_late_until_us;
}

dt_status dt_kafka_reader_poll(dt_kafka_reader *c, size_t max, int wait_ms, int, const _Atomic bool *stop,
                               const struct dt_kafka_record **records, size_t *n, struct dt_error *err)
{
    *n = c->n = 0;
    if (!*stop) {
        int64_t until_us = now_us + wait_ms * MS;
        if (is_late(c)) /* the reader is slow, or stands still altogether */
            fiber_sleep((one_in(2) ? until_us : broker.results_late_until_us) - now_us);
        while (!anything(c) && now_us < until_us) {
            if (broker.n_pollers == sizeof broker.pollers / sizeof broker.pollers[0])
                broker.n_pollers = 0;
            broker.pollers[broker.n_pollers++] = fiber_self();
            fiber_block(until_us);
        }
    }
    dt_status status = reach(false, now_us + 1 * SEC, stop, err);
    if (status != DT_OK)
        return status;
    c->records = world_alloc(64 * sizeof *c->records);
    for (unsigned i = 0; i < 2 && (!is_late(c) || !faults_on()); i++) {
        c->before[i] = c->position[i];
        while (has(c, i) && c->position[i] < (int64_t)c->stream->partitions[i]->n && c->n < 64 && c->n < max) {
            const struct record *r = c->stream->partitions[i]->records[c->position[i]++];
            c->records[c->n++] = (struct dt_kafka_record){.key = r->r.key,
                                                          .value = r->r.value,
                                                          .partition = (int32_t)i,
                                                          .offset = r->r.offset,
                                                          .timestamp_ms = EPOCH_MS + r->r.produced_us / MS};
        }
    }
    c->owed |= c->n > 0;
    *records = c->records;
    *n = c->n;
    if (c->n == 0 && now_us >= c->again_us) {
        c->again_us = now_us + 5 * SEC;
        return dt_kafka_reader_commit(c, err);
    }
    return DT_OK;
}

dt_status dt_kafka_reader_commit(dt_kafka_reader *c, struct dt_error *)
{
    op("commit offsets");
    c->owed = false;
    for (unsigned i = 0; i < 2; i++)
        if (has(c, i)) {
            c->stream->committed[i] = c->position[i];
            if (c->stream->applied[i] < c->position[i])
                c->stream->applied[i] = c->position[i];
        }
    return DT_OK;
}

void dt_kafka_reader_rewind(dt_kafka_reader *c)
{
    for (unsigned i = 0; i < 2; i++)
        c->position[i] = c->before[i];
    c->owed = false;
}

struct dt_result_lag {
    bool noted;
    int64_t ends[2];
};

dt_status dt_result_lag_new(const struct dt_kafka_env *, dt_result_lag **out, struct dt_error *)
{
    *out = calloc(1, sizeof **out);
    return *out ? DT_OK : DT_NOMEM;
}

void dt_result_lag_free(dt_result_lag *lag)
{
    free(lag);
}

dt_status dt_result_lag_mark(dt_result_lag *lag, struct dt_error *err)
{
    lag->noted = false;
    dt_status status = reach(false, now_us + 2 * SEC, NULL, err);
    for (unsigned i = 0; status == DT_OK && i < 2; i++)
        lag->ends[i] = (int64_t)broker.results.partitions[i]->n;
    lag->noted = status == DT_OK;
    return status;
}

dt_status dt_result_lag_passed(dt_result_lag *lag, bool *passed, struct dt_error *err)
{
    *passed = lag->noted;
    dt_status status = reach(false, now_us + 2 * SEC, NULL, err);
    for (unsigned i = 0; status == DT_OK && i < 2; i++)
        *passed &= broker.results.committed[i] >= lag->ends[i];
    return status;
}

/* ---- for consumers, the nemesis and the oracles ---- */

static void put_and_wake(struct partition *p, struct dt_str key, struct dt_str value)
{
    struct record *r = append(p, NULL, false);
    r->r.key = text_copy(key);
    r->r.value = text_copy(value);
    for (unsigned i = 0; i < broker.n_pollers; i++)
        fiber_wake(broker.pollers[i]);
    broker.n_pollers = 0;
}

void broker_report(struct dt_str key, struct dt_str value)
{
    put_and_wake(broker.results.partitions[rnd() % 2], key, value);
}

void broker_command(unsigned partition, struct dt_str key, struct dt_str value)
{
    put_and_wake(broker.commands.partitions[partition], key, value);
}

int64_t broker_commands(unsigned partition)
{
    return (int64_t)broker.commands.partitions[partition]->n;
}

bool broker_results_read(void)
{
    return broker.results.applied[0] >= (int64_t)broker.results.partitions[0]->n &&
           broker.results.applied[1] >= (int64_t)broker.results.partitions[1]->n;
}

const struct broker_record *broker_message(size_t n)
{
    return n < broker.n_messages ? &broker.messages[n]->r : NULL;
}

size_t broker_messages(void)
{
    return broker.n_messages;
}

const struct broker_record *broker_ledger(unsigned shard, size_t n)
{
    return n < broker.n_ledger[shard] ? &broker.ledger_records[shard][n]->r : NULL;
}
bool broker_refused_alone(int64_t job, int64_t attempt)
{
    for (unsigned i = 0; i < broker.n_refused; i++)
        if (broker.refused[i].job == job && broker.refused[i].attempt == attempt)
            return true;
    return broker.n_refused == 256;
}

void broker_subscribe(void)
{
    broker.subscriber = fiber_self();
}

bool broker_letter_sent(int64_t job, int64_t attempt)
{
    for (unsigned i = 0; i < broker.n_letters; i++)
        if (broker.letters[i].job == job && broker.letters[i].attempt == attempt)
            return broker.letters[i].sent;
    return false;
}

void broker_report_nonsense(void)
{
    char value[32];
    if (broker.n_nonsense == sizeof broker.nonsense / sizeof *broker.nonsense)
        return;
    snprintf(value, sizeof value, NONSENSE "%u", broker.n_nonsense++);
    broker_report(DT_STR_LIT("?"), dt_str(value));
}

bool broker_nonsense_put_aside(void)
{
    for (unsigned i = 0; i < broker.n_nonsense; i++)
        if (broker.nonsense[i] == NOT_OFFERED)
            return false;
    return true;
}

void broker_down(int64_t until_us)
{
    broker.down_until_us = until_us;
}
void broker_results_late(int64_t until_us)
{
    broker.results_late_until_us = until_us;
}
void broker_coordinator_down(int64_t until_us)
{
    broker.coordinator_down_until_us = until_us;
}
void broker_cut_replies(struct proc *proc, int64_t until_us)
{
    broker.cut_proc = proc;
    broker.cut_until_us = until_us;
}
void broker_topic_missing(struct dt_str topic, int64_t until_us)
{
    topic_named(topic)->missing_until_us = until_us;
}

void broker_poison(int64_t job, int64_t until_us)
{
    if (broker.n_poison == 32)
        return;
    broker.poison[broker.n_poison].job = job;
    broker.poison[broker.n_poison++].until_us = until_us;
}

void broker_trim_ledger(unsigned shard)
{
    struct partition *p = broker.ledgers[shard];
    if (!p || broker.lost_young)
        return;
    p->start = rnd_in(p->start, (int64_t)last_stable(p));
    TRACE("kafka: ledger %u trimmed below %lld", shard, (long long)p->start);
}

void broker_recreate_ledger(unsigned shard, bool filled)
{
    for (unsigned id = 0; id < IDS; id++) {
        const struct txn *t = broker.coordinators[shard][id].txn;
        if (t && (t->state == TXN_OPEN || under_way(t)))
            return;
    }
    if (!broker.ledgers[shard] || broker.lost_young)
        return;
    broker.lost_young |= ledger_age == 0 || (int64_t)broker.ledgers[shard]->n < ledger_age; /* a new shard's */
    size_t n = broker.ledgers[shard]->n;
    broker.ledgers[shard] = partition_new(DT_STR_LIT("ledger"), true);
    TRACE("kafka: ledger %u made anew", shard);
    broker.filled |= filled;
    if (filled)
        broker_strangers(shard, (unsigned)n + (unsigned)rnd_in(0, 6));
}

void broker_recreate_ledger_up_to(unsigned shard, int64_t end)
{
    const struct partition *was = broker.ledgers[shard];
    broker_recreate_ledger(shard, false);
    if (broker.ledgers[shard] == was)
        return;
    broker.filled = true;
    broker.lost_young |= end > 0; /* it is as long as the one before soon */
    broker_strangers(shard, (unsigned)end);
}

bool broker_filled_ledger(void)
{
    return broker.filled;
}

void broker_strangers(unsigned shard, unsigned n)
{
    static const struct {
        const char *key, *value;
    } written[] = {{NULL, "hi"}, {"batch", NULL}, {"batch", "{\"list\":[[1,1,1]]}"}, {"barrier", "{}"}, {"x", "[1"}};
    struct partition *p = broker.ledgers[shard];
    for (unsigned i = 0; p && i < n; i++) {
        size_t which = (size_t)rnd_in(0, 4);
        struct record *r = append(p, NULL, false);
        r->r.key = dt_str(written[which].key);
        r->r.value = dt_str(written[which].value);
    }
    TRACE("kafka: %u records of others in ledger %u", n, shard);
}

bool broker_lost_young_ledger(void)
{
    return broker.lost_young;
}

int64_t ledger_age;

/* It has used up ledger_age offsets, and deleted what was there. */
static struct partition *ledger_of_age(void)
{
    struct partition *p = partition_new(DT_STR_LIT("ledger"), true);
    if (!ledger_age)
        return p;
    struct record *gone = append(p, NULL, true);
    p->n = p->cap = (size_t)ledger_age;
    p->records = world_alloc(p->cap * sizeof(struct record *));
    for (size_t i = 0; i < p->n; i++)
        p->records[i] = gone;
    p->start = ledger_age;
    return p;
}

/* New; a takeover reads it from its beginning still, or would if that were there; trimmed by its leaders. */
static const int64_t ages[] = {0, 60, 1000};

void broker_begin(unsigned shards)
{
    ledger_age = ages[rnd_in(0, 2)];
    memset(&broker, 0, sizeof broker);
    broker.shards = shards;
    for (unsigned i = 0; i < shards; i++)
        broker.ledgers[i] = ledger_of_age();
    for (unsigned i = 0; i < 2; i++) {
        broker.results.partitions[i] = partition_new(DT_STR_LIT("results"), false);
        broker.commands.partitions[i] = partition_new(DT_STR_LIT("commands"), false);
    }
}
