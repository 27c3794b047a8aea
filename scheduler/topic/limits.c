/*
 * Limits of topics (limits.h).
 *
 * Invariants: the number of attempts in flight is read after the gate was locked, by a separate statement. If a gate
 * could not be locked, no job of its topic is claimed.
 */
#include "limits.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/guard.h"
#include "mysql/db.h"
#include "mysql/statements.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)
#define BURST_NS  (NS_PER_S / 10 * 9)
#define CLOCK_NS  (10 * NS_PER_S) /* the clocks of two transactions differ by less than this */

bool dt_rate_parse(struct dt_str text, int64_t *interval_ns)
{
    int64_t n = 0;
    size_t i = 0;
    for (; i < text.n && i < 7 && text.p[i] >= '0' && text.p[i] <= '9'; i++)
        n = n * 10 + (text.p[i] - '0');
    bool unit = i + 2 == text.n && text.p[i] == '/' && (text.p[i + 1] == 's' || text.p[i + 1] == 'm');
    if (!unit || text.p[0] == '0' || n < 1 || n > DT_RATE_MAX)
        return false;
    int64_t period_ns = text.p[i + 1] == 's' ? NS_PER_S : 60 * NS_PER_S;
    *interval_ns = (period_ns + n - 1) / n;
    return true;
}

/* Returns how long before next_ns an attempt may begin (the burst). */
static int64_t burst_ns(const struct dt_rate *rate)
{
    return rate->interval_ns < BURST_NS ? BURST_NS - rate->interval_ns : 0;
}

void dt_rate_adopt(struct dt_rate *rate, int64_t was_interval_ns, int64_t now_ms)
{
    int64_t last_ns = now_ms * NS_PER_MS + burst_ns(rate);
    int64_t slower_ns = was_interval_ns ? rate->interval_ns - was_interval_ns : 0;
    bool same = slower_ns == 0 && rate->next_ns - last_ns <= rate->interval_ns + CLOCK_NS;
    if (same || rate->next_ns <= last_ns)
        return;
    int64_t owed_ns = slower_ns ? rate->next_ns + slower_ns : last_ns;
    rate->next_ns = dt_later(last_ns, dt_earlier(owed_ns, last_ns + rate->interval_ns));
}

size_t dt_rate_room(const struct dt_rate *rate, int64_t now_ms)
{
    int64_t now_ns = now_ms * NS_PER_MS;
    int64_t left_ns = now_ns + burst_ns(rate) - dt_later(rate->next_ns, now_ns);
    return left_ns < 0 ? 0 : (size_t)(left_ns / rate->interval_ns) + 1;
}

void dt_rate_take(struct dt_rate *rate, int64_t now_ms, size_t n)
{
    if (n)
        rate->next_ns = dt_later(rate->next_ns, now_ms * NS_PER_MS) + (int64_t)n * rate->interval_ns;
}

int64_t dt_rate_opens_ms(const struct dt_rate *rate)
{
    return (rate->next_ns - burst_ns(rate) + NS_PER_MS - 1) / NS_PER_MS;
}

#define AT_ONCE        8   /* most topics in one statement */
#define FIRST_LIMIT_MS 500 /* a claim that began before a topic got its first limit ends within this time */

/* The topics whose limits one statement reads, at most AT_ONCE. */
struct some {
    dt_db *db;
    struct dt_gate *v;
    size_t n;
    bool locked[AT_ONCE], missing[AT_ONCE];
    bool made;      /* this transaction has inserted a row of topic_gates; it may insert only one */
    int64_t now_ms; /* time of the claims; 0: the server's clock */
};

/* Returns the index of the topic in some->v, or AT_ONCE if it is not in the array. */
static size_t find_gate_index(const struct some *some, struct dt_str topic)
{
    for (size_t i = 0; i < some->n; i++)
        if (dt_str_eq(some->v[i].topic, topic))
            return i;
    return AT_ONCE;
}

static dt_status query_gates(const struct some *some, const char *sql, struct dt_error *err)
{
    struct dt_param names[AT_ONCE];
    for (size_t i = 0; i < AT_ONCE; i++)
        names[i] = DT_P_STR(some->v[i < some->n ? i : some->n - 1].topic);
    return dt_db_query(some->db, sql, (struct dt_params){names, AT_ONCE}, err);
}

static dt_status lock_gates(struct some *some, struct dt_error *err)
{
    dt_status status = query_gates(some, dt_sql_lock_gates, err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(some->db)) {
        size_t at = find_gate_index(some, dt_db_bytes(some->db, 0));
        if (at < AT_ONCE)
            some->locked[at] = true;
    }
    return dt_db_end(some->db, err);
}

static void lower_gate_room(struct dt_gate *gate, size_t room, int64_t opens_ms)
{
    gate->room = room < gate->room ? room : gate->room;
    if (room == 0)
        gate->opens_ms = opens_ms > gate->opens_ms ? opens_ms : gate->opens_ms;
}

/* Reads a row with the columns of dt_sql_select_limits. */
static void read_limits_row(struct dt_gate *gate, const dt_db *db, int64_t now_ms)
{
    const int64_t at_ms = now_ms ? now_ms : dt_db_i64(db, 8);
    const int64_t opens_at_ms = dt_db_i64(db, 6);
    *gate = (struct dt_gate){.topic = gate->topic, .room = SIZE_MAX, .rate = {.next_ns = dt_db_i64(db, 4)}};
    if (!dt_db_is_null(db, 1)) {
        const int64_t most = dt_db_i64(db, 1);
        const int64_t left = most - dt_db_i64(db, 7);
        lower_gate_room(gate, !DT_UNGUARDED(LIMIT_LOWERED) && left < 0 ? 0 : (size_t)left, 0);
        gate->full |= left * 10 < most;
    }
    if (!dt_db_is_null(db, 2) && dt_rate_parse(dt_db_bytes(db, 2), &gate->rate.interval_ns)) {
        dt_rate_adopt(&gate->rate, dt_db_i64(db, 5), at_ms);
        const size_t room = dt_rate_room(&gate->rate, at_ms);
        lower_gate_room(gate, room, dt_rate_opens_ms(&gate->rate));
        gate->full |= room == 0 || gate->rate.next_ns / 1000000 > at_ms + 450;
    }
    if (gate->room != SIZE_MAX && opens_at_ms > at_ms)
        lower_gate_room(gate, 0, opens_at_ms);
}

static dt_status read_limits(struct some *some, struct dt_error *err)
{
    dt_status status = query_gates(some, dt_sql_select_limits, err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(some->db)) {
        size_t at = find_gate_index(some, dt_db_bytes(some->db, 0));
        if (at == AT_ONCE)
            continue;
        read_limits_row(&some->v[at], some->db, some->now_ms);
        some->missing[at] = !dt_db_i64(some->db, 3) && some->v[at].room != SIZE_MAX;
    }
    return dt_db_end(some->db, err);
}

static dt_status lock_gates_at_once(struct some *some, struct dt_error *err)
{
    dt_status status = DT_UNGUARDED(LIMIT_COUNT_AFTER_GATE) ? read_limits(some, err) : lock_gates(some, err);
    DT_THEN(status, DT_UNGUARDED(LIMIT_COUNT_AFTER_GATE) ? lock_gates(some, err) : read_limits(some, err));
    /* If a manual edit gave the topic its limit, the topic has no gate. This makes the gate, which also locks it, and
     * reads it again. A transaction makes at most one gate. */
    for (size_t i = 0; status == DT_OK && !some->made && i < some->n; i++) {
        if (!some->missing[i])
            continue;
        some->made = some->locked[i] = true;
        status = dt_topic_gate_make(some->db, some->v[i].topic, err);
        DT_THEN(status, read_limits(some, err));
    }
    for (size_t i = 0; i < some->n; i++) {
        struct dt_gate *gate = &some->v[i];
        gate->busy = !some->locked[i] && gate->room != SIZE_MAX;
        if (gate->busy)
            gate->room = 0;
    }
    return status;
}

static void reset_gates(struct dt_gate *gates, size_t n)
{
    for (size_t i = 0; i < n; i++)
        gates[i] = (struct dt_gate){.topic = gates[i].topic, .room = SIZE_MAX};
}

dt_status dt_topic_gates_lock(dt_db *db, int64_t now_ms, struct dt_gate *gates, size_t n, struct dt_error *err)
{
    bool made = false;
    dt_status status = DT_OK;
    reset_gates(gates, n);
    for (size_t i = 0; status == DT_OK && i < n; i += AT_ONCE) {
        struct some some = {
            .db = db, .v = gates + i, .n = n - i < AT_ONCE ? n - i : AT_ONCE, .made = made, .now_ms = now_ms};
        status = lock_gates_at_once(&some, err);
        made = some.made;
    }
    return status;
}

dt_status dt_store_gates_look(dt_store *store, struct dt_gate *gates, size_t n, struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    reset_gates(gates, n);
    for (size_t i = 0; status == DT_OK && i < n; i += AT_ONCE) {
        struct some some = {.db = db, .v = gates + i, .n = n - i < AT_ONCE ? n - i : AT_ONCE};
        status = read_limits(&some, err);
    }
    return status;
}

dt_status dt_topic_gate_claimed(dt_db *db, int64_t now_ms, struct dt_gate *gate, size_t claimed, struct dt_error *err)
{
    if (!gate->rate.interval_ns || !claimed) /* without a rate nothing is stored; without a limit no gate is locked */
        return DT_OK;
    dt_assert(claimed <= gate->room);
    dt_rate_take(&gate->rate, now_ms, claimed);
    return dt_db_run(db, dt_sql_write_gate,
                     DT_PARAMS(DT_P_INT(gate->rate.next_ns), DT_P_INT(gate->rate.interval_ns), DT_P_STR(gate->topic)),
                     NULL, err);
}

dt_status dt_topic_gate_make(dt_db *db, struct dt_str topic, struct dt_error *err)
{
    return dt_db_run(db, dt_sql_make_gate, DT_PARAMS(DT_P_STR(topic)), NULL, err);
}

dt_status dt_topic_gate_close(dt_db *db, struct dt_str topic, int64_t now_ms, struct dt_error *err)
{
    return dt_db_run(db, dt_sql_close_gate,
                     DT_PARAMS(DT_P_INT(now_ms + FIRST_LIMIT_MS), DT_P_STR(topic), DT_P_STR(topic)), NULL, err);
}
