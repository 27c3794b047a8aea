/*
 * See oracles.h. Shares no code with the product: lists, states and times are read here anew.
 *
 * MySQL that came back from an earlier copy has lost what it has lost; what was promised since that copy is not asked
 * of it. That nothing is sent twice is, and that what disagrees is halted.
 */
#include "simulator/oracles.h"

#include "simulator/deliveries/arrivals.h"
#include "simulator/faults.h"
#include "simulator/intake/intake.h"
#include "simulator/mysql.h"
#include "simulator/redis.h"

#define ON_TIME_MS 400
#define CHANGE_MS  2000  /* while the number of shards changes nothing may wait for longer than a takeover takes */
#define ORDER_MS   500   /* what was asked for so long before it is due is in the index then */
#define FAR_MS     30000 /* what is due later than that is not waited for */

static bool is(const struct row *row, const char *column, const char *word)
{
    return dt_str_is(cell_text(row, column), word);
}

static bool live(const struct row *row)
{
    return is(row, "state", "scheduled") || is(row, "state", "dispatched");
}

static int64_t ms_of(int64_t us)
{
    return EPOCH_MS + us / 1000;
}

static bool halted(int64_t shard)
{
    const struct row *row = table_find(table_named("shards"), shard);
    return row && !cell_null(row, "halted");
}

uint64_t history_kept;

/* Halting is an answer only to a history that was lost. */
bool history_lost;

/* As MySQL says now. */
static struct dt_shard_map map;

static void read_map(void)
{
    const struct row *row = table_named("installation")->rows[0];
    dt_shard_map_init(&map, cell_int(row, "generation"), (unsigned)cell_int(row, "shards"));
}

static unsigned shard_of(int64_t id)
{
    return dt_shard_of(&map, id);
}

/* Waits for an operator: its shard does, or the one that has its latest attempt in flight. */
static bool waits_halted(const struct row *job)
{
    return halted(shard_of(cell_int(job, "id"))) || halted(cell_int(job, "claim_shard"));
}

/* Where a job stands: among the live ones, or in history. */
static const struct row *job_row(int64_t id)
{
    const struct row *row = table_find(table_named("jobs"), id);
    return row ? row : table_find(table_named("history"), id);
}

static const struct journal_job *journal_of(int64_t id)
{
    for (unsigned i = 0; i < journal->n_jobs; i++)
        if (journal->jobs[i].id == id)
            return &journal->jobs[i];
    return NULL;
}

/* By which ways attempts of this job may have gone. */
static unsigned journal_topic(const struct row *job)
{
    for (unsigned i = 0; i < TOPICS; i++)
        if (dt_str_eq(cell_text(job, "topic"), workload_topic(i)))
            return i;
    broken("a job of a topic that there is not");
}

static unsigned journal_ways(const struct row *job)
{
    return journal->ways[journal_topic(job)];
}

/* ---- rest ---- */

/* A halted shard is led until it was cleared, and with it what lies below: shards are led up to a number. */
static bool halted_from(unsigned shard)
{
    const struct table *shards = table_named("shards");
    while (shard < shards->n && !halted(shard))
        shard++;
    return shard < shards->n;
}

/* A halted shard keeps the places of what it has in flight: then others wait for them. */
static bool waits_for_halted(const struct row *row)
{
    return waits_halted(row) || (journal->limited[journal_topic(row)] && halted_from(0));
}

static const char *unrest_of_job(const struct row *row, int64_t now_ms)
{
    if (!live(row) || cell_int(row, "next_at") > now_ms + FAR_MS || waits_for_halted(row))
        return NULL;
    return is(row, "state", "scheduled") ? "a job is scheduled" : "a job is dispatched";
}

/* Zero or less is now, and stands at 1 in the index. */
static int64_t due_ms_of(const struct row *row)
{
    return cell_int(row, "next_at") > 1 ? cell_int(row, "next_at") : 1;
}

static const char *unrest_of_index(const struct table *jobs, int64_t horizon_ms)
{
    for (size_t i = 0; i < jobs->n; i++) {
        const struct row *row = jobs->rows[i];
        bool held;
        int64_t id = cell_int(row, "id"), score = redis_score(shard_of(id), id, &held);
        if (waits_for_halted(row))
            continue;
        if (held)
            return "an entry is held";
        if (live(row) && cell_int(row, "next_at") < horizon_ms && score != due_ms_of(row))
            return "an entry is missing or wrong";
        if (!live(row) && score)
            return "an entry of a finished job is there";
    }
    for (unsigned shard = 0; shard < map.shards; shard++) {
        int64_t id, score;
        for (size_t n = 0; !halted(shard) && redis_entry(shard, n, &id, &score); n++)
            if (!table_find(table_named("jobs"), id))
                return "an entry of no job is there";
            else if (shard_of(id) != shard)
                return "an entry of another shard's job is there";
    }
    return NULL;
}

/* Rows that are not committed yet have no values to look at, in whichever table they are. */
static bool in_transaction(void)
{
    for (unsigned k = 0; k < sql_tables(); k++) {
        const struct table *table = table_named(sql_table_at(k)->name);
        for (size_t i = 0; i < table->n; i++)
            if (!table->rows[i]->committed)
                return true;
    }
    return false;
}

static bool unrest_of_hands(void)
{
    const struct table *hands = table_named("hands");
    for (size_t i = 0; i < hands->n; i++) {
        const struct row *job = table_find(table_named("jobs"), cell_int(hands->rows[i], "job_id"));
        if (job && !waits_for_halted(job))
            return true;
    }
    return false;
}

/* ---- fires ---- */

static const struct journal_schedule *schedule_of(const struct row *job)
{
    const struct dt_str key = cell_null(job, "job_key") ? DT_STR_NONE : cell_text(job, "job_key");
    for (unsigned i = 0; i < journal->n_schedules && key.p; i++) {
        const size_t n = strlen(journal->schedules[i].name);
        if (key.n > n && memcmp(key.p, journal->schedules[i].name, n) == 0 && key.p[n] == '@')
            return &journal->schedules[i];
    }
    return NULL;
}

/* A fire that is made late runs at once: its key says which it is. */
static int64_t fire_of(const struct row *job)
{
    const struct dt_str key = cell_text(job, "job_key");
    return strtoll((const char *)memchr(key.p, '@', key.n) + 1, NULL, 10);
}

static unsigned jobs_of_fire(const struct journal_schedule *s, int64_t fire_ms)
{
    const char *const places[] = {"jobs", "history"};
    unsigned n = 0;
    for (size_t p = 0; p < 2; p++) {
        const struct table *table = table_named(places[p]);
        for (size_t i = 0; i < table->n; i++)
            n += schedule_of(table->rows[i]) == s && fire_of(table->rows[i]) == fire_ms;
    }
    return n;
}

static const char *unrest_of_fires(const struct journal_schedule *s, int64_t now_ms)
{
    if (now_ms < s->ends_ms + 1000)
        return "a schedule goes on";
    for (int64_t at_ms = s->starts_ms; at_ms < s->ends_ms; at_ms += s->step_ms)
        if (jobs_of_fire(s, at_ms) == 0)
            return "a fire is to be made";
    return NULL;
}

/* ---- rest ---- */

const char *oracles_unrest(const struct dt_config *config)
{
    const struct table *jobs = table_named("jobs");
    struct table *shards = table_named("shards");
    int64_t now_ms = mysql_now_ms();
    read_map();
    if (!workload_done())
        return "something is still to be asked";
    if (in_transaction())
        return "a transaction is open";
    for (unsigned i = 0; i < journal->n_schedules; i++) {
        const char *why = unrest_of_fires(&journal->schedules[i], now_ms);
        if (why)
            return why;
    }
    for (size_t i = 0; i < jobs->n; i++) {
        const char *why = unrest_of_job(jobs->rows[i], now_ms);
        if (why)
            return why;
    }
    for (unsigned i = 0; i < shards->n; i++) {
        const struct row *row = table_find(shards, i);
        if (!is(row, "inflight", "[]") && !halted(i))
            return "a list is not settled";
        if (halted(i) && !history_lost)
            return "a shard is halted";
        if (i >= map.shards && !cell_null(row, "owner") && !halted_from(i))
            return "a shard that is not named any more was not given up";
    }
    if (unrest_of_hands())
        return "an attempt is in hands";
    const char *intake = intake_unrest();
    if (intake)
        return intake;
    if (!broker_results_read() || table_named("deferred_results")->n)
        return "results are not applied";
    for (size_t i = 0; i < table_named("messages")->n; i++)
        if (!halted(cell_int(table_named("messages")->rows[i], "sender") % map.shards))
            return "the outbox is not empty";
    return dt_index_configured(config) ? unrest_of_index(jobs, now_ms + config->index_horizon - 2000) : NULL;
}

/* ---- messages ---- */

static const struct broker_record *message_of(int64_t job, int64_t attempt)
{
    const struct broker_record *m;
    for (size_t n = 0; (m = arrival(n)); n++)
        if (m->job == job && m->attempt == attempt)
            return m;
    return NULL;
}

/* A MySQL of before knows no more of callbacks and pops than it says: its attempts are claimed again. */
static void judge_once(void)
{
    const struct broker_record *a, *b;
    for (size_t n = 0; (a = arrival(n)); n++)
        for (size_t k = 0; k < n && (b = arrival(k)); k++)
            if (a->job == b->job && a->attempt == b->attempt && !(mysql_restored_us && a->way != BY_KAFKA))
                violated("O2", "job %lld attempt %lld was sent twice: at %.3f and at %.3f", (long long)a->job,
                         (long long)a->attempt, (double)(b->committed_us - 100 * SEC) / 1000,
                         (double)(a->committed_us - 100 * SEC) / 1000);
}

/* The record of an attempt: its row in `attempts` (or where they are kept), or the job's own for the latest one. */
static const struct row *attempt_row(const struct row *job, int64_t attempt, bool *own)
{
    const char *const places[] = {"attempts", "history_attempts"};
    *own = cell_int(job, "attempt") == attempt;
    if (*own)
        return job;
    for (size_t k = 0; k < 2; k++) {
        const struct table *attempts = table_named(places[k]);
        for (size_t i = 0; i < attempts->n; i++)
            if (cell_int(attempts->rows[i], "job_id") == cell_int(job, "id") &&
                cell_int(attempts->rows[i], "attempt") == attempt)
                return attempts->rows[i];
    }
    return NULL;
}

static bool attempt_is(const struct row *job, int64_t attempt, const char *word)
{
    bool own;
    const struct row *row = attempt_row(job, attempt, &own);
    return row && is(row, own ? "attempt_status" : "status", word);
}

/* The shard whose list the attempt was in. An earlier one's is not written down: that of the job's slot. */
static unsigned claimed_by(const struct row *row, int64_t attempt)
{
    return attempt == cell_int(row, "attempt") ? (unsigned)cell_int(row, "claim_shard") : shard_of(cell_int(row, "id"));
}

/* A MySQL that went back has forgotten claims, but what it says is claimed was sent, or the shard that claimed it has
 * halted. */
static void judge_claims_of_copy(const struct row *row)
{
    int64_t id = cell_int(row, "id");
    for (int64_t n = 1; n <= cell_int(row, "attempt") && journal_ways(row) == 1u << BY_KAFKA; n++)
        if (!halted(claimed_by(row, n)) && !message_of(id, n) && !attempt_is(row, n, "undeliverable"))
            violated("O3", "job %lld attempt %lld was claimed and never sent, and its shard has not halted",
                     (long long)id, (long long)n);
}

/* Nobody heard of the attempt, and that may be: it was lost in the hands of a process that is gone, or the answer to a
 * pop was. (A report that was forged, or an edit by hand, may have ended it first.) */
static bool may_be_unheard(const struct row *job, int64_t attempt)
{
    const unsigned ways = journal_ways(job);
    const struct journal_job *j = journal_of(cell_int(job, "id"));
    if (ways & 1u << BY_POP)
        return true;
    return ways & 1u << BY_CALLBACK &&
           (attempt_is(job, attempt, "lost") || arrivals_refused(cell_int(job, "id"), attempt) || (j && j->edited) ||
            fault_drawn(F_RESULTS));
}

static void judge_claimed(const struct row *row, int64_t n)
{
    const int64_t id = cell_int(row, "id");
    const struct broker_record *m = message_of(id, n);
    const bool undeliverable = attempt_is(row, n, "undeliverable");
    if (!m && !undeliverable && !may_be_unheard(row, n))
        violated("O3", "job %lld attempt %lld was claimed and never sent", (long long)id, (long long)n);
    else if (m && undeliverable)
        violated("O3", "job %lld attempt %lld was sent, and is recorded as undeliverable", (long long)id, (long long)n);
    else if (undeliverable && !broker_refused_alone(id, n))
        violated("O3", "job %lld attempt %lld is recorded as undeliverable, and was never refused alone", (long long)id,
                 (long long)n);
}

static void judge_sent(const struct row *row)
{
    int64_t id = cell_int(row, "id"), attempts = cell_int(row, "attempt");
    const struct broker_record *m;
    if (history_lost) {
        judge_claims_of_copy(row);
        return;
    }
    for (int64_t n = 1; n <= attempts; n++)
        judge_claimed(row, n);
    for (size_t n = 0; (m = arrival(n)); n++)
        if (m->job == id && m->attempt > attempts)
            violated("O3", "job %lld attempt %lld was sent, and MySQL does not know of it", (long long)id,
                     (long long)m->attempt);
}

/* ---- the ledger ---- */

struct listing {
    const char *p, *end;
};

static bool next_number(struct listing *l, int64_t *out)
{
    while (l->p < l->end && (*l->p < '0' || *l->p > '9'))
        l->p++;
    for (*out = 0; l->p < l->end && *l->p >= '0' && *l->p <= '9'; l->p++)
        *out = *out * 10 + (*l->p - '0');
    return *out > 0;
}

/* Its row went with the MySQL that came back: there was no message any more for the claim that a leader still had in
 * mind. */
static bool forgotten(int64_t id)
{
    return history_lost && !table_find(table_named("jobs"), id);
}

static size_t judge_ledger_record(const struct broker_record *r)
{
    static const char before[] = "\"list\":[";
    size_t entries = 0;
    int64_t id, attempt, due;
    const char *list = r->value.n ? memmem(r->value.p, r->value.n, before, sizeof before - 1) : NULL;
    if (!list)
        return 0;
    for (struct listing l = {list + sizeof before - 1, r->value.p + r->value.n};
         next_number(&l, &id) && next_number(&l, &attempt) && next_number(&l, &due); entries++)
        if (!message_of(id, attempt) && forgotten(id))
            entries--;
        else if (!message_of(id, attempt))
            violated("O4", "the ledger has job %lld attempt %lld, its topic has not", (long long)id,
                     (long long)attempt);
    return entries;
}

static void judge_ledger(void)
{
    size_t entries = 0, messages = 0;
    const struct broker_record *r;
    for (unsigned shard = 0; shard < SHARDS_MAX; shard++)
        for (size_t n = 0; (r = broker_ledger(shard, n)); n++)
            entries += judge_ledger_record(r);
    while (broker_message(messages))
        messages++;
    if (entries != messages)
        violated("O4", "%zu messages, and %zu in the ledger", messages, entries);
}

/* ---- answers ---- */

static bool asked_since(unsigned job, int64_t since_us, bool (*what)(const struct answer *a))
{
    for (unsigned i = 0; i < journal->n_answers; i++) {
        const struct answer *a = &journal->answers[i];
        bool over = a->answered_us && a->answered_us < since_us;
        if (a->job == job && what(a) && !over)
            return true;
    }
    return false;
}

static bool revives(const struct answer *a)
{
    return a->ask == ASK_REDRIVE || (a->ask == ASK_EDIT && a->revives);
}

static bool moves(const struct answer *a)
{
    return a->ask == ASK_REDRIVE || a->ask == ASK_EDIT || a->ask == ASK_RUN_NOW || a->ask == ASK_PATCH;
}

/* Of a job that was edited by hand while an API was stopped with its pop: nobody can take the attempt back. */
static bool popped_before(const struct answer *a, const struct broker_record *m)
{
    return m->way == BY_POP && m->attempt <= a->attempt && journal->jobs[a->job].edited;
}

static void judge_cancelled(const struct answer *a, int64_t id)
{
    const struct broker_record *m;
    if (a->status != DT_OK || a->state != DT_CANCELLED || asked_since(a->job, a->asked_us, revives))
        return;
    for (size_t n = 0; (m = arrival(n)); n++)
        if (m->job == id && m->committed_us > a->answered_us && !popped_before(a, m))
            violated("cancelled", "job %lld was sent (attempt %lld) after `cancelled` was answered", (long long)id,
                     (long long)m->attempt);
    const struct row *row = job_row(id);
    if (row && !is(row, "state", "cancelled"))
        violated("cancelled", "job %lld was answered `cancelled`, and is not", (long long)id);
}

static void judge_too_late(const struct answer *a, int64_t id)
{
    const struct row *row = job_row(id);
    if (a->status != DT_TOO_LATE || a->attempt < 1 || message_of(id, a->attempt))
        return;
    if (!row || !(attempt_is(row, a->attempt, "undeliverable") || may_be_unheard(row, a->attempt)))
        violated("too-late", "job %lld was answered `too_late, attempt %lld`, which was never sent", (long long)id,
                 (long long)a->attempt);
}

static void judge_time(const struct answer *a, int64_t id)
{
    int64_t since = a->ask == ASK_CREATE ? 0 : a->attempt;
    int64_t due_ms = a->ask == ASK_CREATE ? journal->jobs[a->job].run_at_ms : a->next_at_ms;
    const struct broker_record *m = message_of(id, since + 1);
    unsigned changes = 0;
    if (a->status != DT_OK || (a->ask != ASK_CREATE && a->state != DT_SCHEDULED) || !m)
        return;
    for (unsigned i = 0; i < journal->n_answers; i++) {
        const struct answer *b = &journal->answers[i];
        changes += b != a && b->job == a->job && moves(b) && !(b->answered_us && b->answered_us < a->asked_us);
    }
    if (changes == 0 && ms_of(m->committed_us) < due_ms)
        violated("O6", "job %lld attempt %lld was sent %lld ms before what was answered", (long long)id,
                 (long long)m->attempt, (long long)(due_ms - ms_of(m->committed_us)));
}

static void judge_succeeded(const struct answer *a, int64_t id)
{
    if (a->status != DT_OK || a->outcome != DT_OUTCOME_APPLIED || a->result != DT_RESULT_SUCCEEDED)
        return;
    if (journal->jobs[a->job].edited || journal->jobs[a->job].revived)
        return;
    if (message_of(id, a->attempt + 1))
        violated("succeeded", "job %lld went on after attempt %lld had succeeded", (long long)id,
                 (long long)a->attempt);
}

/* Deadlines that were answered. */
static void judge_extended(const struct answer *a, int64_t id)
{
    const struct row *row = job_row(id);
    bool own;
    if (a->status != DT_OK || a->outcome != DT_OUTCOME_APPLIED || a->result != DT_RESULT_EXTENDED || !row)
        return;
    for (unsigned i = 0; i < journal->n_answers; i++) {
        const struct answer *b = &journal->answers[i];
        if (b != a && b->ask == ASK_REPORT && b->job == a->job && b->attempt == a->attempt &&
            b->result == DT_RESULT_EXTENDED)
            return; /* another one may have set another deadline */
    }
    const struct row *attempt = attempt_row(row, a->attempt, &own);
    if (attempt && attempt_is(row, a->attempt, "timed_out") && cell_int(attempt, "finished_at") < a->next_at_ms)
        violated("extended", "job %lld attempt %lld timed out %lld ms before the deadline that was answered",
                 (long long)id, (long long)a->attempt, (long long)(a->next_at_ms - cell_int(attempt, "finished_at")));
}

static void judge_answers(void)
{
    for (unsigned i = 0; i < journal->n_answers; i++) {
        const struct answer *a = &journal->answers[i];
        if (!a->answered_us || a->ask == ASK_PAUSE || a->ask == ASK_RESUME || a->ask == ASK_TOPIC ||
            a->ask == ASK_EDIT || history_lost)
            continue;
        int64_t id = journal->jobs[a->job].id;
        if (a->ask == ASK_CANCEL)
            judge_cancelled(a, id);
        if (a->ask == ASK_CANCEL || a->ask == ASK_PATCH || a->ask == ASK_RUN_NOW)
            judge_too_late(a, id);
        if (a->ask == ASK_CREATE || a->ask == ASK_PATCH)
            judge_time(a, id);
        if (a->ask == ASK_REPORT) {
            judge_succeeded(a, id);
            judge_extended(a, id);
        }
    }
}

/* ---- pauses, timeouts ---- */

static int64_t paused_until_us(const struct answer *pause)
{
    int64_t until = NEVER;
    for (unsigned i = 0; i < journal->n_answers; i++) {
        const struct answer *b = &journal->answers[i];
        bool over = b->answered_us && b->answered_us < pause->asked_us;
        if (b->ask == ASK_RESUME && b->job == pause->job && !over && b->asked_us < until)
            until = b->asked_us;
    }
    return until;
}

/* A claim that began during the pause may have read of the resume: what was produced before that was not. */
static void judge_claim_time(const struct row *job, const struct row *attempt, const struct broker_record *m)
{
    int64_t at_ms = cell_int(attempt, "dispatched_at");
    for (unsigned i = 0; i < journal->n_answers; i++) {
        const struct answer *a = &journal->answers[i];
        if (a->ask != ASK_PAUSE || !a->answered_us || a->status != DT_OK ||
            !dt_str_eq(cell_text(job, "topic"), workload_topic(a->job)))
            continue;
        int64_t until = paused_until_us(a);
        if (at_ms > ms_of(a->answered_us) + 1 && until != NEVER && m && m->produced_us < until)
            violated("paused", "job %lld was claimed while its topic was paused", (long long)cell_int(job, "id"));
    }
}

/* Others may have held the row locked when its deadline was to be renewed; then it keeps the one that it had. */
static bool touched_by_others(int64_t id)
{
    if (fault_drawn(F_LOCKS) || !journal_of(id)) /* what is reported on fires stands in no journal */
        return true;
    for (unsigned i = 0; i < journal->n_answers; i++) {
        const struct answer *a = &journal->answers[i];
        bool of_job =
            a->ask != ASK_PAUSE && a->ask != ASK_RESUME && a->ask != ASK_TOPIC && journal->jobs[a->job].id == id;
        if (of_job && a->ask != ASK_CREATE)
            return true;
    }
    return false;
}

/* A slow commit eats nobody's time: an attempt that timed out had its time from when it could be read, but for what is
 * not worth a statement, a twentieth, 100 ms at least and a second at most. */
static int64_t not_worth_it(int64_t timeout_ms)
{
    int64_t ms = timeout_ms / 20;
    return ms < 100 ? 100 : ms > 1000 ? 1000 : ms;
}

static void judge_time_to_report(const struct row *job, const struct row *attempt, const struct broker_record *m)
{
    int64_t had_ms = cell_int(attempt, "finished_at") - ms_of(m->committed_us);
    int64_t timeout_ms = cell_int(job, "ack_timeout_ms");
    if (had_ms < timeout_ms - not_worth_it(timeout_ms) - 2 && !touched_by_others(cell_int(job, "id")))
        violated("timeout", "job %lld attempt %lld timed out %lld ms after it was sent", (long long)m->job,
                 (long long)m->attempt, (long long)had_ms);
}

/* A report that lay in the topic before the deadline counts, however late it is read; for that nobody waits longer than
 * this. Deadlines are only ever renewed, so the first one is the earliest. */
#define REPORT_WAIT_MS 30000

static bool extended(unsigned job, int64_t attempt)
{
    for (unsigned i = 0; i < journal->n_answers; i++) {
        const struct answer *a = &journal->answers[i];
        if (a->ask == ASK_REPORT && a->job == job && a->attempt == attempt && a->result == DT_RESULT_EXTENDED)
            return true;
    }
    return false;
}

static void judge_reported(const struct row *job, const struct row *attempt, const struct broker_record *m)
{
    int64_t deadline_ms =
        m->deadline_ms ? m->deadline_ms : cell_int(attempt, "dispatched_at") + cell_int(job, "ack_timeout_ms");
    const struct journal_job *j = journal_of(m->job);
    unsigned number = j ? (unsigned)(j - journal->jobs) : JOBS_MAX;
    if (!j || j->edited || extended(number, m->attempt) ||
        cell_int(attempt, "finished_at") >= deadline_ms + REPORT_WAIT_MS)
        return;
    for (unsigned i = 0; i < journal->n_answers; i++) {
        const struct answer *a = &journal->answers[i];
        if (a->by_kafka && a->job == number && a->attempt == m->attempt && a->asked_us >= m->committed_us &&
            ms_of(a->asked_us) < deadline_ms)
            violated("reported", "job %lld attempt %lld timed out, and was reported %lld ms before its deadline",
                     (long long)m->job, (long long)m->attempt, (long long)(deadline_ms - ms_of(a->asked_us)));
    }
}

/* Where nothing failed nothing is lost, and what a receiver answered counts. */
static void judge_callback(const struct row *job, int64_t n, const struct broker_record *m)
{
    const struct journal_job *j = journal_of(cell_int(job, "id"));
    if (!faults_calm() || !j || j->edited)
        return;
    if (attempt_is(job, n, "lost"))
        violated("lost", "job %lld attempt %lld was lost, though nothing failed", (long long)cell_int(job, "id"),
                 (long long)n);
    if (m && m->succeeded && !attempt_is(job, n, "succeeded"))
        violated("answered", "job %lld attempt %lld was answered 2xx, and has not succeeded",
                 (long long)cell_int(job, "id"), (long long)n);
}

static void judge_attempts(const struct row *job)
{
    int64_t id = cell_int(job, "id");
    for (int64_t n = 1; n <= cell_int(job, "attempt"); n++) {
        bool own;
        const struct row *attempt = attempt_row(job, n, &own);
        const struct broker_record *m = message_of(id, n);
        if (!attempt || history_lost)
            continue;
        judge_claim_time(job, attempt, m);
        judge_callback(job, n, m);
        if (!m && may_be_unheard(job, n))
            continue;
        if (attempt_is(job, n, "timed_out") && (!m || ms_of(m->committed_us) > cell_int(attempt, "finished_at")))
            violated("timeout", "job %lld attempt %lld timed out while it was in flight", (long long)id, (long long)n);
        else if (attempt_is(job, n, "timed_out")) {
            if (m->way == BY_KAFKA) /* the others' time begins with the claim */
                judge_time_to_report(job, attempt, m);
            judge_reported(job, attempt, m);
        }
    }
}

/* ---- all ---- */

static void judge_never_early(void)
{
    const struct broker_record *m;
    for (size_t n = 0; (m = arrival(n)); n++)
        if (ms_of(m->committed_us) < m->due_ms)
            violated("O6", "job %lld attempt %lld was sent %lld ms early", (long long)m->job, (long long)m->attempt,
                     (long long)(m->due_ms - ms_of(m->committed_us)));
}

static bool may_wait(const struct journal_job *j, unsigned number)
{
    if (j->edited || !workload_plain(j->topic))
        return true;
    for (unsigned i = 0; i < journal->n_answers; i++) {
        const struct answer *a = &journal->answers[i];
        /* two at once may tell the index in another order than they were committed: the reconciler mends it */
        if (a->job == number && moves(a))
            return true;
        if ((a->ask == ASK_PAUSE && a->job == j->topic) ||
            (a->ask == ASK_CREATE && a->job == number && !a->answered_us))
            return true;
    }
    return false;
}

/* In a world where nothing failed. What is due while everything starts has time; so has what waits for its turn. */
static void judge_on_time(void)
{
    const struct broker_record *m;
    int64_t allowed_ms = fault_drawn(F_RESHARD) ? CHANGE_MS : ON_TIME_MS;
    if (!faults_calm() || journal->hot)
        return;
    for (size_t n = 0; (m = broker_message(n)); n++)
        for (unsigned i = 0; i < journal->n_jobs; i++) {
            int64_t late_ms = ms_of(m->committed_us) - m->due_ms;
            if (journal->jobs[i].id == m->job && late_ms > allowed_ms && m->due_ms > ms_of(103 * SEC) &&
                !may_wait(&journal->jobs[i], i))
                violated("late", "job %lld attempt %lld was sent %lld ms late, though nothing failed",
                         (long long)m->job, (long long)m->attempt, (long long)late_ms);
        }
}

/* First attempts of topic 0 that the same shard sent while m was due; and how many it sent in all. */
static int64_t went_before(const struct broker_record *m, int64_t *all)
{
    const struct broker_record *other;
    int64_t n = 0;
    *all = 0;
    for (size_t i = 0; (other = broker_message(i)); i++) {
        const struct journal_job *j = journal_of(other->job);
        if (!j || j->topic != 0 || other->attempt > 1 || other->shard != m->shard)
            continue;
        ++*all;
        n += ms_of(other->committed_us) >= m->due_ms && other->committed_us < m->committed_us;
    }
    return n;
}

/* A topic with many due at once keeps the others waiting for as many batches as the looks that see all of it, and a
 * few. */
static void judge_fair(void)
{
    const struct broker_record *m;
    if (!faults_calm() || !journal->hot || !workload_plain(0))
        return;
    for (size_t n = 0; (m = broker_message(n)); n++) {
        const struct journal_job *j = journal_of(m->job);
        int64_t all, before = went_before(m, &all), looks = all / (7 * journal->batch) + 8;
        if (j && j->topic != 0 && m->attempt == 1 && !may_wait(j, (unsigned)(j - journal->jobs)) &&
            before > looks * journal->batch)
            violated("fair", "job %lld waited for %lld of %lld jobs of the hot topic, in batches of %lld",
                     (long long)m->job, (long long)before, (long long)all, (long long)journal->batch);
    }
}

/* When a job's request was answered: soon after, its entry is in the index. */
static int64_t created_ms(const struct journal_job *j)
{
    for (unsigned i = 0; i < journal->n_answers; i++)
        if (journal->answers[i].ask == ASK_CREATE && journal->answers[i].job == (unsigned)(j - journal->jobs))
            return ms_of(journal->answers[i].answered_us);
    return INT64_MAX;
}

/* In its turn like all others: nobody changed it, and it was there long before it was due. */
static bool in_its_turn(const struct broker_record *m)
{
    const struct journal_job *j = journal_of(m->job);
    return j && j->topic == 0 && !j->poisoned && m->attempt == 1 && !may_wait(j, (unsigned)(j - journal->jobs)) &&
           created_ms(j) < m->due_ms - ORDER_MS;
}

/* Where nothing failed, one shard's jobs of one topic leave in order, however many wait. (While slots move two shards
 * may reach for the same rows, and who comes second puts them aside.) */
static void judge_order(void)
{
    const struct broker_record *m, *last[SHARDS_MAX] = {0};
    if (!faults_calm() || !journal->hot || fault_drawn(F_RESHARD))
        return;
    for (size_t n = 0; (m = broker_message(n)); n++) {
        if (!in_its_turn(m))
            continue;
        if (last[m->shard] && m->due_ms < last[m->shard]->due_ms)
            violated("order", "job %lld, due %lld, was sent after job %lld, due %lld", (long long)m->job,
                     (long long)m->due_ms, (long long)last[m->shard]->job, (long long)last[m->shard]->due_ms);
        last[m->shard] = m;
    }
}

/* ---- schedules ---- */

/* Each fire has one job, however many dispatchers made them, and none lies outside of the schedule's time. */
static void judge_fires(const struct journal_schedule *s)
{
    const char *const places[] = {"jobs", "history"};
    for (int64_t at_ms = s->starts_ms; at_ms < s->ends_ms; at_ms += s->step_ms)
        if (jobs_of_fire(s, at_ms) != 1)
            violated("fires", "the fire of %s at %lld has %u jobs", s->name, (long long)at_ms, jobs_of_fire(s, at_ms));
    for (size_t p = 0; p < 2; p++) {
        const struct table *table = table_named(places[p]);
        for (size_t i = 0; i < table->n; i++) {
            const int64_t at_ms = schedule_of(table->rows[i]) == s ? fire_of(table->rows[i]) : s->starts_ms;
            if (at_ms < s->starts_ms || at_ms >= s->ends_ms || (at_ms - s->starts_ms) % s->step_ms != 0)
                violated("fires", "job %lld of %s is at %lld, where there is no fire",
                         (long long)cell_int(table->rows[i], "id"), s->name, (long long)at_ms);
        }
    }
}

/* Accepted once, there once, in one of the two tables. */
static void judge_conservation(void)
{
    const char *const places[] = {"jobs", "history"};
    for (unsigned i = 0; i < journal->n_jobs && !history_lost; i++)
        if (journal->jobs[i].accepted && !job_row(journal->jobs[i].id))
            violated("O1", "job %lld was accepted, and is not there", (long long)journal->jobs[i].id);
    for (size_t p = 0; p < 2 && !history_lost; p++) {
        const struct table *table = table_named(places[p]);
        for (size_t i = 0; i < table->n; i++) {
            int64_t id = cell_int(table->rows[i], "id");
            unsigned known = 0;
            for (unsigned k = 0; k < journal->n_jobs; k++)
                known += journal->jobs[k].id == id;
            known += schedule_of(table->rows[i]) != NULL || intake_knows(table->rows[i]);
            if (known != 1)
                violated("conservation", "job %lld is there, and %u requests asked for it", (long long)id, known);
            if (p == 0 && table_find(table_named("history"), id))
                violated("conservation", "job %lld is there, and in history, too", (long long)id);
        }
    }
}

static bool same_place(const struct row *counted, const struct row *row)
{
    return cell_int(counted, "part") == cell_int(row, "part") &&
           dt_str_eq(cell_text(counted, "state"), cell_text(row, "state")) &&
           dt_str_eq(cell_text(counted, "topic"), cell_text(row, "topic"));
}

static bool is_noted(const struct row *job)
{
    const struct table *days = table_named("history_days");
    for (size_t i = 0; i < days->n; i++)
        if (cell_int(days->rows[i], "home_day") == dt_job_home_day(cell_int(job, "id")) &&
            cell_int(days->rows[i], "part") == cell_int(job, "part"))
            return true;
    return false;
}

/* What is counted of history is there, and can be found; attempts lie where their job does. */
static void judge_history(void)
{
    const struct table *counts = table_named("history_counts"), *history = table_named("history");
    const struct table *attempts = table_named("history_attempts");
    int64_t counted = 0;
    for (size_t i = 0; i < counts->n; i++) {
        int64_t found = 0;
        for (size_t k = 0; k < history->n; k++)
            found += same_place(counts->rows[i], history->rows[k]);
        counted += cell_int(counts->rows[i], "jobs");
        if (found != cell_int(counts->rows[i], "jobs"))
            violated("counts", "%lld jobs are counted where history has %lld",
                     (long long)cell_int(counts->rows[i], "jobs"), (long long)found);
    }
    if (counted != (int64_t)history->n)
        violated("counts", "%lld jobs are counted, history has %zu", (long long)counted, history->n);
    for (size_t i = 0; i < history->n; i++)
        if (!is_noted(history->rows[i]))
            violated("counts", "job %lld is in history where nobody looks for it",
                     (long long)cell_int(history->rows[i], "id"));
    for (size_t i = 0; i < attempts->n; i++) {
        const struct row *job = table_find(table_named("history"), cell_int(attempts->rows[i], "job_id"));
        if (!job || cell_int(job, "part") != cell_int(attempts->rows[i], "part"))
            violated("counts", "attempts of job %lld are kept, and the job is elsewhere",
                     (long long)cell_int(attempts->rows[i], "job_id"));
    }
    history_kept += history->n;
}

/* What a manual edit ended and the housekeeper has not met yet counts as before. */
static bool counts_as(const struct row *job, const char *state)
{
    if (cell_int(job, "due_band") != 2 || cell_int(job, "due_key") != 0)
        return is(job, "state", state);
    if (is(job, "attempt_status", "dispatched"))
        return strcmp(state, "dispatched") == 0;
    return cell_int(job, "leave_at") == 0 ? strcmp(state, "scheduled") == 0 : is(job, "state", state);
}

/* Jobs of a topic and a piece in a state: by their rows less by the counters. */
static int64_t miscounted(struct dt_str topic, int64_t piece, const char *state)
{
    const struct table *jobs = table_named("jobs"), *counts = table_named("job_counts");
    int64_t n = 0;
    for (size_t i = 0; i < jobs->n; i++)
        n += jobs->rows[i]->committed && (cell_int(jobs->rows[i], "id") >> 40) % 32 == piece &&
             counts_as(jobs->rows[i], state) && dt_str_eq(cell_text(jobs->rows[i], "topic"), topic);
    for (size_t i = 0; i < counts->n; i++)
        if (counts->rows[i]->committed && cell_int(counts->rows[i], "piece") == piece &&
            dt_str_eq(cell_text(counts->rows[i], "topic"), topic))
            n -= cell_int(counts->rows[i], state);
    return n;
}

static void judge_counters_of(const struct row *row, int64_t piece)
{
    static const char *const states[] = {"scheduled", "dispatched", "succeeded", "dead", "cancelled"};
    struct dt_str topic = cell_text(row, "topic");
    for (size_t s = 0; s < sizeof states / sizeof *states; s++) {
        int64_t wrong = miscounted(topic, piece, states[s]);
        if (wrong)
            violated("counters", "%lld more jobs of %.*s are %s than counted", (long long)wrong, (int)topic.n, topic.p,
                     states[s]);
    }
}

/* What is counted of jobs is there; what was made is there, or kept, or was removed. */
static void judge_counters(void)
{
    const struct table *jobs = table_named("jobs"), *counts = table_named("job_counts");
    const struct table *removed = table_named("removed_jobs");
    int64_t made = 0, found = (int64_t)(jobs->n + table_named("history")->n);
    for (size_t i = 0; i < jobs->n; i++)
        judge_counters_of(jobs->rows[i], (cell_int(jobs->rows[i], "id") >> 40) % 32);
    for (size_t i = 0; i < counts->n; i++) {
        judge_counters_of(counts->rows[i], cell_int(counts->rows[i], "piece"));
        made += cell_int(counts->rows[i], "created");
    }
    for (size_t i = 0; i < removed->n; i++)
        found += cell_int(removed->rows[i], "removed");
    if (made != found)
        violated("counters", "%lld jobs were made by the counters, %lld are accounted for", (long long)made,
                 (long long)found);
}

/* A live job has its key, however often it was finished, kept and driven back. */
static void judge_keys(void)
{
    const struct table *jobs = table_named("jobs"), *keys = table_named("job_keys");
    for (size_t i = 0; i < jobs->n && !history_lost; i++) {
        bool there = cell_null(jobs->rows[i], "job_key");
        for (size_t k = 0; k < keys->n && !there; k++)
            there = dt_str_eq(cell_text(keys->rows[k], "job_key"), cell_text(jobs->rows[i], "job_key"));
        if (!there && live(jobs->rows[i]))
            violated("keys", "job %lld lives, and its key is free", (long long)cell_int(jobs->rows[i], "id"));
    }
}

/* Its letter was sent, if nobody's hands buried it. */
static void judge_letter(const struct row *row)
{
    int64_t id = cell_int(row, "id"), attempt = cell_int(row, "attempt");
    const struct journal_job *j = journal_of(id);
    if (is(row, "state", "dead") && j && !j->edited && !history_lost && !waits_halted(row) &&
        !broker_letter_sent(id, attempt))
        violated("letters", "job %lld is dead, and no letter of attempt %lld was sent", (long long)id,
                 (long long)attempt);
}

/* ---- limits ---- */

static struct {
    int64_t dispatched[TOPICS];
    int64_t healed_us;
    struct {
        int64_t job, attempt, since_us;
    } nobodys[JOBS_MAX];
} watched;

static const struct row *topic_row(unsigned topic)
{
    const struct table *t = table_named("topics");
    for (size_t i = 0; i < t->n; i++)
        if (t->rows[i]->committed && dt_str_eq(cell_text(t->rows[i], "name"), workload_topic(topic)))
            return t->rows[i];
    return NULL;
}

static int64_t dispatched_of(unsigned topic)
{
    const struct table *jobs = table_named("jobs");
    int64_t n = 0;
    for (size_t i = 0; i < jobs->n; i++)
        n += jobs->rows[i]->committed && is(jobs->rows[i], "state", "dispatched") &&
             dt_str_eq(cell_text(jobs->rows[i], "topic"), workload_topic(topic));
    return n;
}

/* Whoever claims stays within the limit that is committed by then: a lowered one, too. */
void oracles_committed(bool by_hand)
{
    intake_committed();
    for (unsigned i = 0; i < TOPICS; i++) {
        const struct row *row = journal && journal->limited[i] ? topic_row(i) : NULL;
        if (!row)
            continue;
        const int64_t n = dispatched_of(i);
        if (n > watched.dispatched[i] && !by_hand && !cell_null(row, "max_in_flight") &&
            n > cell_int(row, "max_in_flight"))
            violated("limit", "%lld jobs of a topic are in flight, of which %lld may be", (long long)n,
                     (long long)cell_int(row, "max_in_flight"));
        watched.dispatched[i] = n;
    }
}

#define WINDOW_MS 10000

struct starts {
    int64_t v[1024];
    size_t n;
};

static void add_start(struct starts *starts, const struct row *row)
{
    if (cell_int(row, "dispatched_at") > 0 && starts->n < 1024)
        starts->v[starts->n++] = cell_int(row, "dispatched_at");
}

/* All attempts of a topic, by when they were claimed. */
static void collect_starts(unsigned topic, struct starts *starts)
{
    const char *const jobs[] = {"jobs", "history"}, *const attempts[] = {"attempts", "history_attempts"};
    for (size_t k = 0; k < 2; k++) {
        const struct table *of = table_named(jobs[k]), *earlier = table_named(attempts[k]);
        for (size_t i = 0; i < of->n; i++)
            if (journal_topic(of->rows[i]) == topic && cell_int(of->rows[i], "attempt") > 0)
                add_start(starts, of->rows[i]);
        for (size_t i = 0; i < earlier->n; i++) {
            const struct row *job = job_row(cell_int(earlier->rows[i], "job_id"));
            if (job && journal_topic(job) == topic)
                add_start(starts, earlier->rows[i]);
        }
    }
}

static void judge_rate(unsigned topic)
{
    struct starts starts = {.n = 0};
    const struct row *row = topic_row(topic);
    if (!row || cell_null(row, "rate_limit"))
        return;
    const struct dt_str text = cell_text(row, "rate_limit");
    const int64_t a_second = strtoll(text.p, NULL, 10) / (text.p[text.n - 1] == 'm' ? 60 : 1);
    collect_starts(topic, &starts);
    for (size_t i = 0; i < starts.n; i++) {
        int64_t n = 0;
        for (size_t k = 0; k < starts.n; k++)
            n += starts.v[k] >= starts.v[i] && starts.v[k] < starts.v[i] + WINDOW_MS;
        if (n > 10 * a_second + (a_second > 1 ? a_second : 1))
            violated("rate", "%lld attempts of a topic began in ten seconds, at %lld a second", (long long)n,
                     (long long)a_second);
    }
}

/* ---- hands ---- */

/* What lies between the end of an owner's lease, with everything in working order, and the end of its attempts: a shard
 * is taken over, and a second. */
#define NOBODYS_US (3 * SEC + 1 * SEC)
#define SETTLED_US (7 * SEC) /* after the healing the last fault is over, too */

static bool is_gone(const struct row *hand)
{
    const struct row *owner = table_find(table_named("hand_owners"), cell_int(hand, "owner"));
    return !owner || !owner->committed ||
           cell_int(owner, "renewed_at") + cell_int(owner, "timeout_ms") <= mysql_now_ms();
}

/* What goes on the wire is in hands, and its owner's lease runs by the server's clock. */
void oracles_called(int64_t job, int64_t attempt)
{
    const struct row *hand = table_find(table_named("hands"), job);
    if (mysql_restored_us || (hand && hand->committed && cell_int(hand, "attempt") == attempt && !is_gone(hand)))
        return;
    violated("hands", "job %lld attempt %lld was put on the wire, and is %s", (long long)job, (long long)attempt,
             hand && hand->committed ? "another's, or lost" : "in nobody's hands");
}

static void watch_hand(const struct row *hand, size_t place)
{
    const struct row *job = table_find(table_named("jobs"), cell_int(hand, "job_id"));
    const bool nobodys = job && !waits_halted(job) && is_gone(hand) && now_us > watched.healed_us + SETTLED_US;
    const bool known = watched.nobodys[place].job == cell_int(hand, "job_id") &&
                       watched.nobodys[place].attempt == cell_int(hand, "attempt");
    if (!nobodys || !known)
        watched.nobodys[place].since_us = now_us;
    watched.nobodys[place].job = cell_int(hand, "job_id");
    watched.nobodys[place].attempt = cell_int(hand, "attempt");
    if (now_us - watched.nobodys[place].since_us > NOBODYS_US)
        violated("nobody's", "job %lld attempt %lld is in nobody's hands for %lld ms",
                 (long long)cell_int(hand, "job_id"), (long long)cell_int(hand, "attempt"),
                 (long long)(now_us - watched.nobodys[place].since_us) / 1000);
}

static void watch(void *)
{
    const struct table *hands = table_named("hands");
    if (faults_on())
        watched.healed_us = now_us;
    read_map();
    for (size_t i = 0; i < hands->n; i++) {
        size_t place = hands->rows[i]->committed ? 0 : journal->n_jobs;
        while (place < journal->n_jobs && journal->jobs[place].id != cell_int(hands->rows[i], "job_id"))
            place++;
        if (place < journal->n_jobs)
            watch_hand(hands->rows[i], place);
    }
    at(now_us + 100 * MS, watch, NULL);
}

void oracles_begin(void)
{
    memset(&watched, 0, sizeof watched);
    journal = NULL;
    at(now_us + 100 * MS, watch, NULL);
}

void oracles_judge(void)
{
    const char *const places[] = {"jobs", "history"};
    judge_once();
    judge_ledger();
    judge_never_early();
    judge_on_time();
    judge_fair();
    judge_order();
    judge_conservation();
    judge_history();
    judge_counters();
    judge_keys();
    judge_answers();
    for (unsigned i = 0; i < journal->n_schedules && !history_lost; i++)
        judge_fires(&journal->schedules[i]);
    intake_judge();
    for (unsigned i = 0; i < TOPICS && !history_lost; i++)
        if (journal->rated[i])
            judge_rate(i);
    if (!broker_nonsense_put_aside())
        violated("nonsense", "what nobody understood was not put aside");
    for (size_t p = 0; p < 2; p++) {
        const struct table *table = table_named(places[p]);
        for (size_t i = 0; i < table->n; i++) {
            judge_sent(table->rows[i]);
            judge_attempts(table->rows[i]);
            judge_letter(table->rows[i]);
        }
    }
}
