/* GET /v1/jobs/{id}/explain: why a job is in its state, in sentences for readers who do not know the product. The
 * handler reads the job, the leaders' reports, the topics, and the job's entry in the index; the other functions are
 * pure. */
#include "explain_rest.h"
#include "answer.h"
#include "base/text/timetext.h"
#include "handlers.h"
#include "index/index.h"
#include "job/change/jobs.h"
#include "job/delivery.h"
#include "job/job_state.h"
#include "topic/limits.h"

#define SILENT_MS 15000

/* ---- shards ---- */

struct dt_shard_cause dt_shard_judge(const struct dt_shard_info *shard, const struct dt_dispatchers *dispatchers,
                                     int64_t now_ms)
{
    if (shard && shard->halted.p)
        return (struct dt_shard_cause){.why = DT_SHARD_HALTED, .detail = shard->halted};
    if (!shard || !shard->owner.p) {
        if (dispatchers->n && dispatchers->waits_kafka)
            return (struct dt_shard_cause){.why = DT_SHARD_WAITS, .waits = DT_STR_LIT("kafka")};
        return (struct dt_shard_cause){.why = dispatchers->n ? DT_SHARD_NO_LEADER : DT_SHARD_NO_DISPATCHER};
    }
    if (now_ms - shard->seen_at_ms > SILENT_MS)
        return (struct dt_shard_cause){.why = DT_SHARD_SILENT};
    return (struct dt_shard_cause){
        .why = shard->waiting.p ? DT_SHARD_WAITS : DT_SHARD_OK, .waits = shard->waiting, .detail = shard->detail};
}

int64_t dt_shard_oldest_ms(const struct dt_shard_info *shard, int64_t now_ms)
{
    int64_t oldest_ms = shard->overdue > 0 && shard->oldest_due_at_ms > 0 ? now_ms - shard->oldest_due_at_ms : 0;
    return oldest_ms > 0 ? oldest_ms : 0;
}

bool dt_shard_has_index(const struct dt_shard_info *shard)
{
    return shard->owner.p && shard->generation > 0 && !dt_str_is(shard->waiting, "redis");
}

void dt_shard_put_drift(struct dt_strbuf *out, const struct dt_shard_info *shard)
{
    dt_json_put_bool(out, "index_whole", dt_shard_has_index(shard));
    dt_json_begin_object(out, "drift");
    dt_json_put_int(out, "missing", shard->drift_missing);
    dt_json_put_int(out, "extra", shard->drift_extra);
    dt_json_put_int(out, "wrong", shard->drift_wrong);
    dt_json_end_object(out);
    dt_json_put_time(out, "seen_at", shard->seen_at_ms);
}

void dt_shard_put(struct dt_strbuf *out, const char *name, const struct dt_shard_info *shard,
                  const struct dt_dispatchers *dispatchers, int64_t now_ms)
{
    static const char *const words[] = {[DT_SHARD_HALTED] = "halted",       [DT_SHARD_NO_DISPATCHER] = "no-dispatcher",
                                        [DT_SHARD_NO_LEADER] = "no-leader", [DT_SHARD_SILENT] = "silent",
                                        [DT_SHARD_WAITS] = "waiting",       [DT_SHARD_OK] = "ok"};
    const struct dt_shard_cause cause = dt_shard_judge(shard, dispatchers, now_ms);
    dt_json_begin_object(out, name);
    dt_json_put_int(out, "shard", shard->shard);
    dt_json_put_int(out, "epoch", shard->epoch);
    dt_json_put_word(out, "health", words[cause.why]);
    dt_json_put_string(out, "leader", shard->owner);
    dt_json_put_string(out, "halted", shard->halted);
    dt_json_put_string(out, "waiting_for", cause.waits);
    dt_json_put_string(out, "detail", shard->detail);
    dt_json_put_int(out, "in_flight", shard->inflight);
    dt_json_put_int(out, "overdue", shard->overdue);
    dt_json_put_int(out, "oldest_overdue_ms", dt_shard_oldest_ms(shard, now_ms));
    dt_json_put_int(out, "held", shard->held);
    dt_shard_put_drift(out, shard);
    dt_json_end_object(out);
}

/* ---- what jobs wait for ---- */

void dt_waiting_init(struct dt_waiting *waiting, dt_topic_cache *cache, const dt_refclock *ref, dt_store *store)
{
    *waiting = (struct dt_waiting){.view = dt_topic_cache_view(cache),
                                   .shards = dt_topic_cache_shards(cache),
                                   .now_ms = dt_refclock_earliest_ms(ref),
                                   .latest_ms = dt_refclock_latest_ms(ref),
                                   .store = store};
}

void dt_waiting_clear(struct dt_waiting *waiting)
{
    dt_view_release(waiting->view);
    dt_shards_release(waiting->shards);
    *waiting = (struct dt_waiting){0};
}

/* Returns whether the topic is at a limit. Reads each topic from MySQL at most once. */
static bool is_topic_at_limit(struct dt_waiting *w, struct dt_str topic)
{
    for (size_t i = 0; i < w->n_limits; i++)
        if (dt_str_eq(w->limits[i].topic, topic))
            return w->limits[i].full;
    struct dt_gate gate = {.topic = topic};
    if (!w->store || w->n_limits == DT_WAITING_LIMITS || dt_store_gates_look(w->store, &gate, 1, NULL) != DT_OK)
        return false;
    w->limits[w->n_limits++] = (struct dt_waiting_limit){topic, gate.full || gate.room == 0};
    return gate.full || gate.room == 0;
}

const char *dt_waiting_for(struct dt_waiting *w, const struct dt_job *job)
{
    /* MySQL's clock must have reached the time of the job's latest change, even if this process's sample of the clock
     * is older. */
    struct dt_wait_facts facts = {.now_ms = dt_later(w->now_ms, dt_earlier(job->updated_at_ms, w->latest_ms))};
    if (dt_job_is_due(job, facts.now_ms)) {
        const struct dt_topic_settings *topic = w->view ? dt_view_topic(w->view, job->topic) : NULL;
        if (topic) {
            facts.paused = topic->paused;
            facts.dealing = dt_delivery_dealing(topic->delivery);
            facts.full = topic->limited && !topic->paused && is_topic_at_limit(w, topic->name);
        }
        if (w->shards) {
            const struct dt_shard_info *shard =
                w->view ? dt_shards_find(w->shards, dt_shard_of(&w->view->map, job->id)) : NULL;
            const struct dt_shard_cause cause = dt_shard_judge(shard, &w->shards->dispatchers, w->now_ms);
            facts.led = shard && shard->owner.p && cause.why >= DT_SHARD_WAITS;
            facts.leader_says = cause.waits;
            facts.no_place = facts.led && shard->callbacks.p;
        }
    }
    if (job->state == DT_DISPATCHED) {
        const struct dt_shard_info *shard =
            w->shards && job->claim_shard >= 0 ? dt_shards_find(w->shards, (unsigned)job->claim_shard) : NULL;
        facts.unsent =
            shard && shard->inflight > 0 && (!shard->owner.p || shard->halted.p || dt_str_is(shard->waiting, "kafka"));
        if (facts.unsent && w->store &&
            dt_store_in_flight(w->store, job->id, job->claim_shard, &facts.unsent, NULL) != DT_OK)
            facts.unsent = false;
    }
    return dt_job_waits_for(job, &facts);
}

/* ---- sentences ---- */

struct dt_explained dt_explained_of(const struct dt_waiting *w, const struct dt_job *job, const char *waiting_for)
{
    struct dt_explained e = {.job = job, .waiting_for = waiting_for, .now_ms = w->now_ms};
    e.dispatchers = &w->shards->dispatchers;
    e.topic = dt_view_topic(w->view, job->topic);
    e.shard_number = dt_shard_of(&w->view->map, job->id);
    e.shard = dt_shards_find(w->shards, e.shard_number);
    e.claimed = job->claim_shard >= 0 ? dt_shards_find(w->shards, (unsigned)job->claim_shard) : NULL;
    e.cause = dt_shard_judge(e.shard, e.dispatchers, w->now_ms);
    return e;
}

static bool is_waiting_for(const struct dt_explained *e, const char *word)
{
    return e->waiting_for && strcmp(e->waiting_for, word) == 0;
}

/* Rounds to the nearest unit, so that a job that was created with a delay of three hours a moment ago is due "in 3
 * h". */
static void add_duration(struct dt_strbuf *out, int64_t ms)
{
    static const struct {
        int64_t ms, below_ms;
        const char *word;
    } units[] = {{1, 1000, "ms"}, {1000, 120000, "s"}, {60000, 7200000, "min"}, {3600000, 172800000, "h"}};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (ms < units[i].below_ms - units[i].ms / 2) {
            dt_strbuf_addf(out, "%lld %s", (long long)((dt_later(ms, 0) + units[i].ms / 2) / units[i].ms),
                           units[i].word);
            return;
        }
    dt_strbuf_addf(out, "%lld days", (long long)((ms + 43200000) / 86400000));
}

static void add_time(struct dt_strbuf *out, const char *before, int64_t ms)
{
    char text[25];
    dt_time_format(ms, text);
    dt_strbuf_addf(out, "%s%s", before, text);
}

static void add_text(struct dt_strbuf *out, struct dt_str text)
{
    dt_strbuf_add(out, text.p, text.n);
}

static bool waits_for_callback_places(const struct dt_explained *e)
{
    return e->topic && dt_delivery_dealing(e->topic->delivery) == DT_DEALING_HANDS && e->shard && e->shard->callbacks.p;
}

static void add_leader(const struct dt_explained *e, struct dt_strbuf *out)
{
    switch (e->cause.why) {
    case DT_SHARD_HALTED:
        dt_strbuf_addf(out, "its shard %u is halted until an operator decides how it goes on: ", e->shard_number);
        add_text(out, e->cause.detail);
        return;
    case DT_SHARD_NO_DISPATCHER:
        dt_strbuf_addf(out, "no dispatcher runs, so its shard %u has no leader", e->shard_number);
        return;
    case DT_SHARD_NO_LEADER:
        dt_strbuf_addf(out, "its shard %u has no leader, though dispatchers run", e->shard_number);
        return;
    case DT_SHARD_SILENT:
        dt_strbuf_addf(out, "the leader of its shard %u has not reported for more than 15 s", e->shard_number);
        return;
    case DT_SHARD_WAITS:
    case DT_SHARD_OK:
        break;
    }
    if (!e->shard || !e->shard->owner.p)
        dt_strbuf_addf(out, "its shard %u has no leader, because the dispatchers wait for Kafka", e->shard_number);
    else if (e->shard->overdue > 1)
        dt_strbuf_addf(out, "the leader of its shard %u has at least %lld due jobs to send", e->shard_number,
                       (long long)e->shard->overdue);
    else
        dt_strbuf_addf(out, "the leader of its shard %u is about to pick it up", e->shard_number);
}

static void add_wait_for_server(const struct dt_explained *e, const char *server, struct dt_strbuf *out)
{
    if (!e->shard || !e->shard->owner.p)
        dt_strbuf_addf(out, "the dispatchers wait for %s before they elect a leader of its shard %u", server,
                       e->shard_number);
    else
        dt_strbuf_addf(out, "the leader of its shard %u waits for %s", e->shard_number, server);
    if (e->cause.detail.n) {
        dt_strbuf_adds(out, ": ");
        add_text(out, e->cause.detail);
    }
}

static void explain_scheduled(const struct dt_explained *e, struct dt_strbuf *out)
{
    const struct dt_job *job = e->job;
    if (is_waiting_for(e, "time")) {
        dt_strbuf_addf(out, "%s is due in ", job->attempt ? "The next attempt" : "It");
        add_duration(out, job->next_at_ms - e->now_ms);
        add_time(out, ", at ", job->next_at_ms);
        dt_strbuf_addc(out, '.');
        return;
    }
    dt_strbuf_adds(out, "It has been due for ");
    add_duration(out, job->next_at_ms > 0 ? e->now_ms - job->next_at_ms : 0);
    dt_strbuf_adds(out, ", and ");
    if (is_waiting_for(e, "paused"))
        dt_strbuf_adds(out, "its topic is paused");
    else if (is_waiting_for(e, "limit") && !waits_for_callback_places(e))
        dt_strbuf_adds(
            out, "its topic is at its limit (max_in_flight or rate_limit): it is dispatched when an attempt ends, or "
                 "when the rate allows it");
    else if (is_waiting_for(e, "limit"))
        dt_strbuf_adds(out, dt_str_is(e->shard->callbacks, "off")
                                ? "its topic is delivered by HTTP, and its shard's dispatcher has callbacks disabled"
                                : "its owner uses all of its places for callbacks in the dispatcher of its shard "
                                  "(callbacks.max_in_flight, per_host or max_bytes)");
    else if (is_waiting_for(e, "pop"))
        dt_strbuf_adds(out, "it is offered to workers that pop its topic, and no worker has popped it yet");
    else if (is_waiting_for(e, "kafka"))
        add_wait_for_server(e, "Kafka", out);
    else if (is_waiting_for(e, "redis"))
        add_wait_for_server(e, "Redis", out);
    else
        add_leader(e, out);
    dt_strbuf_addc(out, '.');
}

static void add_state_explanation(const struct dt_explained *e, struct dt_strbuf *out)
{
    const struct dt_job *job = e->job;
    if (job->state == DT_SCHEDULED) {
        explain_scheduled(e, out);
        return;
    }
    if (job->state == DT_DISPATCHED) {
        bool halted = e->claimed && e->claimed->halted.p;
        dt_strbuf_addf(out, "Attempt %lld ", (long long)job->attempt);
        if (is_waiting_for(e, "kafka"))
            dt_strbuf_adds(out,
                           halted ? "is claimed, and its shard is halted until an operator decides whether it was sent."
                                  : "is claimed and on its way to Kafka, which its leader waits for.");
        else {
            add_time(out, "was sent at ", job->dispatched_at_ms);
            add_time(out, ", and was not reported yet; without a report it fails at ", job->next_at_ms);
            dt_strbuf_addc(out, '.');
        }
        if (job->no_retries)
            dt_strbuf_adds(out, " No attempt follows: it was cancelled meanwhile.");
        return;
    }
    if (job->state == DT_SUCCEEDED)
        dt_strbuf_addf(out, "It succeeded with attempt %lld, at ", (long long)job->attempt);
    else if (job->state == DT_CANCELLED)
        dt_strbuf_adds(out, "It was cancelled, at ");
    else
        dt_strbuf_addf(out, "It was given up after attempt %lld, at ", (long long)job->attempt);
    add_time(out, "", job->finished_at_ms ? job->finished_at_ms : job->updated_at_ms);
    if (job->state == DT_DEAD && job->error_code.n) {
        dt_strbuf_adds(out, ", because of ");
        add_text(out, job->error_code);
        if (job->error_message.n) {
            dt_strbuf_adds(out, ": ");
            add_text(out, job->error_message);
        }
    }
    dt_strbuf_addc(out, '.');
}

static void add_command_with_name(struct dt_strbuf *out, const char *before, struct dt_str name, const char *after)
{
    dt_strbuf_adds(out, before);
    add_text(out, name);
    dt_strbuf_adds(out, after);
}

void dt_explain_action(const struct dt_explained *e, struct dt_strbuf *out)
{
    const struct dt_job *job = e->job;
    char id[24];
    snprintf(id, sizeof(id), "%lld", (long long)job->id);
    if (is_waiting_for(e, "paused"))
        add_command_with_name(out, "duetime topics resume ", job->topic, "");
    else if (is_waiting_for(e, "limit") && !waits_for_callback_places(e))
        add_command_with_name(out, "wait, or raise the limit: duetime topics set ", job->topic,
                              " --max-in-flight N --rate-limit N/s");
    else if (is_waiting_for(e, "limit"))
        dt_strbuf_adds(out, dt_str_is(e->shard->callbacks, "off")
                                ? "set callbacks.enabled for the dispatchers, and start them again"
                                : "see which receivers are slow; or raise callbacks.max_in_flight of the dispatchers");
    else if (is_waiting_for(e, "pop"))
        add_command_with_name(out, "start a worker that pops the topic; by hand: duetime pop ", job->topic, "");
    else if (is_waiting_for(e, "leader") && e->cause.why == DT_SHARD_HALTED)
        dt_strbuf_addf(out, "decide as described in sql/README.md (halted shards), then CALL dt_clear_halt(%u, …)",
                       e->shard_number);
    else if (is_waiting_for(e, "leader") && e->cause.why == DT_SHARD_NO_DISPATCHER)
        dt_strbuf_adds(out, "start a dispatcher: systemctl start duetime-dispatcher; then duetime doctor");
    else if (is_waiting_for(e, "kafka") || is_waiting_for(e, "redis") ||
             (is_waiting_for(e, "leader") && e->cause.why != DT_SHARD_OK))
        dt_strbuf_adds(out, "duetime doctor");
    else if (!is_waiting_for(e, "leader") && job->state == DT_DEAD)
        add_command_with_name(out, "fix the cause of its failure, then duetime jobs redrive ", dt_str(id), "");
}

/* ---- JSON ---- */

/* State of the job's entry in the index, as the answer names it. */
enum entry_state { ENTRY_THERE, ENTRY_MISSING, ENTRY_DIFFERS, ENTRY_NOT_NEEDED, ENTRY_NONE, ENTRY_UNKNOWN };

static const char *const entry_names[] = {
    [ENTRY_THERE] = "there",           [ENTRY_MISSING] = "missing", [ENTRY_DIFFERS] = "differs",
    [ENTRY_NOT_NEEDED] = "not-needed", [ENTRY_NONE] = "none",       [ENTRY_UNKNOWN] = "unknown"};

struct facts {
    struct dt_strbuf *out;
    struct dt_strbuf value; /* text of the next fact */
};

/* Adds the fact, unless its value is empty. */
static void end_fact(struct facts *f, const char *what)
{
    if (f->value.n) {
        dt_json_begin_object(f->out, NULL);
        dt_json_put_word(f->out, "what", what);
        dt_json_put_string(f->out, "value", dt_strbuf_str(&f->value));
        dt_json_end_object(f->out);
    }
    dt_strbuf_reset(&f->value);
}

static void add_latest_attempt(struct facts *f, const struct dt_job *job)
{
    if (!job->attempt)
        return;
    dt_strbuf_addf(&f->value, "%s", dt_attempt_status_name(job->attempt_status));
    add_time(&f->value, ", dispatched at ", job->dispatched_at_ms);
    if (job->due_at_ms > 0)
        dt_strbuf_addf(&f->value, ", late by %lld ms", (long long)dt_later(job->dispatched_at_ms - job->due_at_ms, 0));
    end_fact(f, "latest attempt");
}

static void add_last_error(struct facts *f, const struct dt_job *job)
{
    if (!job->error_at_ms)
        return;
    add_time(&f->value, "", job->error_at_ms);
    dt_strbuf_adds(&f->value, " ");
    add_text(&f->value, job->error_code.n ? job->error_code : DT_STR_LIT("(no code)"));
    if (job->error_message.n) {
        dt_strbuf_adds(&f->value, ": ");
        add_text(&f->value, job->error_message);
    }
    end_fact(f, "last error");
}

static void add_facts(struct facts *f, const struct dt_explained *e, enum entry_state entry)
{
    const struct dt_job *job = e->job;
    add_state_explanation(e, &f->value);
    end_fact(f, "why");
    dt_explain_action(e, &f->value);
    end_fact(f, "what to do");
    dt_strbuf_adds(&f->value, dt_job_state_name(job->state));
    end_fact(f, "state");
    add_text(&f->value, job->topic);
    if (e->topic && e->topic->paused)
        dt_strbuf_adds(&f->value, " (paused)");
    end_fact(f, "topic");
    add_text(&f->value, job->key);
    end_fact(f, "key");
    add_time(&f->value, "", job->run_at_ms);
    end_fact(f, "run at");
    if (job->next_at_ms) {
        add_time(&f->value, "", job->next_at_ms);
        dt_strbuf_adds(&f->value, job->state == DT_DISPATCHED ? " (the deadline for its report)" : "");
        end_fact(f, "next at");
    }
    dt_strbuf_addf(&f->value, "%lld so far, %lld failed", (long long)job->attempt, (long long)job->failures);
    end_fact(f, "attempts");
    add_text(&f->value, job->retry.n ? job->retry : DT_STR_LIT("none"));
    dt_strbuf_adds(&f->value, "; a report is expected within ");
    add_duration(&f->value, job->ack_timeout_ms);
    end_fact(f, "retry");
    add_latest_attempt(f, job);
    add_last_error(f, job);
    dt_strbuf_addf(&f->value, "%u (slot %u), led by ", e->shard_number, dt_slot(job->id));
    add_text(&f->value, e->shard && e->shard->owner.p ? e->shard->owner : DT_STR_LIT("nobody"));
    end_fact(f, "shard");
    dt_strbuf_adds(&f->value, entry_names[entry]);
    end_fact(f, "index");
    add_time(&f->value, "created ", job->created_at_ms);
    add_time(&f->value, ", changed ", job->updated_at_ms);
    dt_strbuf_addf(&f->value, ", version %lld", (long long)job->version);
    end_fact(f, "history");
}

static void add_explanation(const struct dt_explained *e, enum entry_state entry, int64_t entry_ms,
                            struct dt_strbuf *out)
{
    const struct dt_job *job = e->job;
    struct facts facts = {.out = out};
    dt_json_begin_object(out, NULL);
    dt_json_put_id(out, "id", job->id);
    dt_json_put_string(out, "topic", job->topic);
    dt_json_put_string(out, "key", job->key);
    dt_json_put_word(out, "state", dt_job_state_name(job->state));
    dt_json_put_word(out, "waiting_for", e->waiting_for);
    add_state_explanation(e, &facts.value);
    dt_json_put_string(out, "reason", dt_strbuf_str(&facts.value));
    dt_strbuf_reset(&facts.value);
    dt_explain_action(e, &facts.value);
    dt_json_put_filled(out, "action", dt_strbuf_str(&facts.value));
    dt_strbuf_reset(&facts.value);
    dt_json_put_time(out, "run_at", job->run_at_ms);
    dt_json_put_time(out, "next_at", job->next_at_ms);
    dt_json_put_int(out, "attempt", job->attempt);
    /* A shard that never had a leader has no row in MySQL; the answer then shows only its number. */
    const struct dt_shard_info unknown = {.shard = e->shard_number};
    dt_shard_put(out, "shard", e->shard ? e->shard : &unknown, e->dispatchers, e->now_ms);
    dt_json_begin_object(out, "index");
    dt_json_put_word(out, "state", entry_names[entry]);
    dt_json_put_time(out, "at", entry_ms);
    dt_json_end_object(out);
    dt_json_begin_array(out, "facts");
    add_facts(&facts, e, entry);
    dt_json_end_array(out);
    dt_json_end_object(out);
    if (facts.value.failed)
        out->failed = true;
    dt_strbuf_clear(&facts.value);
}

/* ---- requests ---- */

static enum entry_state read_index_entry(const struct dt_api *api, const struct dt_view *view,
                                         const struct dt_explained *e, int64_t *entry_ms)
{
    const struct dt_job *job = e->job;
    const struct dt_entry entry = {.id = job->id, .due_ms = dt_later(job->next_at_ms, 1)};
    if (!dt_index_configured(api->config))
        return ENTRY_NONE;
    /* The index needs no entry of a job that is finished or is not due soon. It also needs none if the leader has set
     * the job aside, because the leader offers the job for pops or holds its topic back. */
    const char *word = e->waiting_for ? e->waiting_for : "";
    const bool aside = strcmp(word, "pop") == 0 || strcmp(word, "paused") == 0 || strcmp(word, "limit") == 0;
    if (dt_job_state_terminal(job->state) || aside || job->next_at_ms - e->now_ms >= api->config->index_horizon)
        return ENTRY_NOT_NEEDED;
    /* Requests to explain a job are rare, so each of them may open a connection to Redis. */
    dt_index *index = NULL;
    dt_status status = dt_index_new(api->config, view->installation.name, api->clock, &index, NULL);
    DT_THEN(status, dt_index_scores(index, e->shard_number, &entry, 1, entry_ms, NULL));
    dt_index_free(index);
    if (status != DT_OK)
        return ENTRY_UNKNOWN;
    if (!*entry_ms)
        return ENTRY_MISSING;
    return *entry_ms == entry.due_ms ? ENTRY_THERE : ENTRY_DIFFERS;
}

enum dt_next dt_handle_job_explain(struct dt_request *req, dt_store *store)
{
    const int64_t *id = req->state;
    struct dt_job job;
    struct dt_error err = {0};
    if (!dt_answer_hold_job(req))
        return DT_REPLY;
    dt_status status = dt_topic_cache_refresh(req->api->topics, DT_SNAPSHOT_TOPICS_AND_SHARDS, store, &err);
    DT_THEN(status, dt_store_get(store, *id, &req->arena, &job, &err));
    DT_THEN(status, dt_wall_found(req, job.topic));
    if (status != DT_OK)
        return dt_answer_failed(req, status, "job", &err);
    struct dt_waiting w;
    int64_t entry_ms = 0;
    dt_waiting_init(&w, req->api->topics, req->api->ref, store);
    const struct dt_explained e = dt_explained_of(&w, &job, dt_waiting_for(&w, &job));
    enum entry_state entry = read_index_entry(req->api, w.view, &e, &entry_ms);
    dt_strbuf_reset(&req->out);
    add_explanation(&e, entry, entry_ms, &req->out);
    dt_waiting_clear(&w);
    req->status = 200;
    return DT_REPLY;
}
