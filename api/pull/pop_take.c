/* A pop for several topics takes an equal share from each topic that has jobs; if a topic has fewer jobs, the other
 * topics give more. The topics take turns at being first. */
#include "pop_take.h"

#include <stdatomic.h>
#include <time.h>

#include "base/assert.h"
#include "base/metrics.h"
#include "base/text/json_table.h"
#include "base/text/json_write.h"
#include "intake/index_writer.h"
#include "job/job_json.h"
#include "request/workers.h"

static void read_topics(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    struct dt_pop_wish *wish = r->out;
    if (wish->topics || node->type != DT_JSON_ARRAY || node->n < 1 || node->n > DT_POP_TOPICS) {
        dt_json_fault(r, field,
                      wish->topics ? "is not allowed: the path has the topic" : "must be a list of 1 to 100 topics");
        return;
    }
    struct dt_str *topics = dt_arena_alloc(r->faults->arena, node->n * sizeof(*topics));
    r->faults->failed |= !topics;
    wish->topics = topics;
    size_t i = 0;
    for (const struct dt_json_node *t = topics ? dt_json_first(r->json, node) : NULL; t;
         t = dt_json_sibling(r->json, node, t), i++) {
        bool fine = t->type == DT_JSON_STRING;
        for (size_t k = 0; fine && k < wish->n_topics; k++)
            fine = !dt_str_eq(t->str, topics[k]);
        if (fine)
            topics[wish->n_topics++] = dt_json_keep(r->faults, t->str);
        else
            dt_faults_add_item(r->faults, "/topics", i, "must be the name of a topic, without duplicates");
    }
}

static const struct dt_json_field fields[] = {
    DT_FIELD("max", COUNT, struct dt_pop_wish, max, .min = 1, .max = DT_POP_MAX),
    DT_FIELD("wait", DURATION, struct dt_pop_wish, wait_ms, .max = DT_POP_WAIT_MS,
             .reason = "must be at most a minute"),
    DT_FIELD("ttr", DURATION, struct dt_pop_wish, ttr_ms, .min = 1, .reason = DT_REASON_NOT_ZERO,
             .flags = DT_FIELD_NULLABLE),
    DT_FIELD_BY("topics", read_topics),
};
static const struct dt_json_table table = DT_TABLE(fields, .unknown = DT_REASON_UNKNOWN);

dt_status dt_pop_wish_decode(const dt_json *json, struct dt_str topic, struct dt_faults *faults,
                             struct dt_pop_wish *out)
{
    struct dt_json_reader r = {.json = json, .faults = faults, .out = out};
    *out = (struct dt_pop_wish){.max = 1};
    if (topic.p) {
        struct dt_str *topics = dt_arena_alloc(faults->arena, sizeof(*topics));
        faults->failed |= !topics;
        if (topics)
            *topics = topic;
        out->topics = topics;
        out->n_topics = topics ? 1 : 0;
    }
    if (json)
        dt_json_read(&r, &table, dt_json_root(json));
    if (!out->topics && faults->n == 0 && !faults->failed)
        dt_faults_add(faults, "/topics", "is missing");
    return dt_faults_status(faults);
}

/* ---- the claim ---- */

#define LOOKS 8 /* maximal number of claims for a pop that does not wait, if other pops have locked the offered jobs */

static const struct timespec pause_between_looks = {.tv_nsec = 4000000};

/* State of a claim. After all jobs of a topic were claimed, the topic is treated like one without offers. */
struct round {
    const struct dt_pop_wish *wish;
    enum dt_pop_topic *topics;
    struct dt_pop_taker *taker; /* the client that gets the next job */
    /* Number of jobs claimed for this client; also counts jobs that it does not get, because their deadlines passed
     * during the claim. */
    size_t taken;
    int64_t *ttrs_ms; /* ttr of each job that may be claimed */
    size_t claimed, max;
    size_t max_bytes;
    struct dt_arena *arena;
};

static dt_status claim_from_topic(const struct dt_api *api, dt_store *store, struct round *r, struct dt_pop *pop,
                                  struct dt_popped *out, struct dt_error *err)
{
    int64_t begun_us = dt_clock_mono_us(api->clock);
    dt_status status = dt_store_pop(store, pop, err);
    out->at_limit |= status == DT_OK && pop->at_limit;
    out->passed |= status == DT_OK && pop->passed;
    if (status != DT_OK || pop->n == 0)
        return status;
    struct dt_entry *entries = dt_arena_alloc(pop->arena, (pop->n + 1) * sizeof(*entries));
    for (size_t i = 0; entries && i < pop->n; i++)
        entries[i] = (struct dt_entry){pop->jobs[i].id, pop->jobs[i].next_at_ms, pop->jobs[i].due_at_ms};
    if (entries) /* if memory ran out, the reconciler adds the entries later */
        dt_index_writer_post(api->index, entries, pop->n);
    dt_metric *in_time = dt_counter("duetime_popped_total", "Attempts handed to pops.", "");
    dt_metric *late = dt_counter("duetime_pops_late_total",
                                 "Attempts that were not handed out because their deadline had passed.", "");
    dt_metric *lateness =
        dt_histogram("duetime_pop_lateness_seconds", "Time from when a job was due until a pop claimed it.", "");
    const int64_t passed_us = dt_clock_mono_us(api->clock) - begun_us;
    r->claimed += pop->n;
    dt_assert_cmp(r->claimed, <=, r->max);
    for (size_t i = 0; i < pop->n; i++) {
        const struct dt_job *job = &pop->jobs[i];
        const bool fresh = passed_us < (job->next_at_ms - job->dispatched_at_ms) * 1000;
        for (; r->taken == r->taker->max; r->taken = 0)
            r->taker++;
        r->taken++;
        dt_metric_observe(lateness, (double)(job->dispatched_at_ms - job->due_at_ms) / 1000);
        dt_metric_add(fresh ? in_time : late, 1);
        if (!fresh)
            continue;
        r->taker->n++;
        out->bytes += job->payload.n;
        out->jobs[out->n++] = *job;
    }
    return DT_OK;
}

static size_t count_topics_with_offers(const struct round *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->wish->n_topics; i++)
        n += r->topics[i] == DT_POP_TOPIC_OFFERS;
    return n;
}

/* Claims, from each topic with offers, an equal share of the jobs that are still wanted. */
static dt_status claim_from_each_topic(const struct dt_api *api, dt_store *store, struct round *r,
                                       struct dt_popped *out, struct dt_error *err)
{
    static _Atomic size_t turn; /* makes another topic the first one in each claim */
    const size_t n = r->wish->n_topics;
    const size_t first = n > 1 ? atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) % n : 0;
    dt_status status = DT_OK;
    size_t left = count_topics_with_offers(r);
    for (size_t k = 0; status == DT_OK && k < n && r->claimed < r->max; k++) {
        const size_t at = (first + k) % n;
        if (r->topics[at] != DT_POP_TOPIC_OFFERS)
            continue;
        const size_t room = r->max - r->claimed;
        struct dt_pop pop = {.topic = r->wish->topics[at],
                             .max = (room + left - 1) / left,
                             .max_bytes = r->max_bytes > out->bytes ? r->max_bytes - out->bytes : 0,
                             .must_fit = out->n > 0,
                             .ttrs_ms = r->ttrs_ms + r->claimed,
                             .arena = r->arena};
        if (out->n && pop.max_bytes == 0)
            break;
        status = claim_from_topic(api, store, r, &pop, out, err);
        r->topics[at] = pop.more ? DT_POP_TOPIC_OFFERS : DT_POP_TOPIC_EMPTY;
        left--;
    }
    return status;
}

static dt_status find_and_claim_jobs(const struct dt_api *api, dt_store *store, struct round *r, struct dt_popped *out,
                                     struct dt_error *err)
{
    out->passed = false;
    dt_status status = dt_store_pop_look(store, r->wish->topics, r->wish->n_topics, r->topics, err);
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < r->wish->n_topics && !out->refused.p; i++)
        if (r->topics[i] == DT_POP_TOPIC_UNKNOWN || r->topics[i] == DT_POP_TOPIC_OTHER) {
            out->refused = r->wish->topics[i];
            out->why = r->topics[i];
        }
    if (out->refused.p || count_topics_with_offers(r) == 0)
        return DT_OK;
    status = claim_from_each_topic(api, store, r, out, err);
    if (status == DT_OK && r->wish->n_topics > 1 && r->claimed < r->max && out->bytes < r->max_bytes)
        status = claim_from_each_topic(api, store, r, out, err);
    out->more = count_topics_with_offers(r) > 0;
    return status;
}

dt_status dt_pop_take(const struct dt_api *api, dt_store *store, const struct dt_pop_wish *wish,
                      struct dt_pop_taker *takers, size_t n, size_t max_bytes, struct dt_arena *arena,
                      struct dt_popped *out, struct dt_error *err)
{
    struct round r = {.wish = wish, .taker = takers, .max_bytes = max_bytes, .arena = arena};
    for (size_t i = 0; i < n; i++)
        r.max += takers[i].max;
    *out = (struct dt_popped){.jobs = dt_arena_alloc(arena, r.max * sizeof(*out->jobs))};
    r.topics = dt_arena_alloc(arena, wish->n_topics * sizeof(*r.topics));
    r.ttrs_ms = dt_arena_alloc(arena, r.max * sizeof(*r.ttrs_ms));
    if (!out->jobs || !r.topics || !r.ttrs_ms)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0, at = 0; i < n; at += takers[i++].max) {
        takers[i].n = 0;
        for (size_t k = 0; k < takers[i].max; k++)
            r.ttrs_ms[at + k] = takers[i].ttr_ms;
    }
    const int looks = wish->wait_ms ? 1 : LOOKS;
    dt_status status = DT_OK;
    for (int i = 0; status == DT_OK && i < looks && (i == 0 || (out->passed && r.claimed < r.max)); i++) {
        if (i)
            nanosleep(&pause_between_looks, NULL);
        status = find_and_claim_jobs(api, store, &r, out, err);
    }
    for (size_t i = 0, from = 0; i < n; from += takers[i++].n)
        qsort(out->jobs + from, takers[i].n, sizeof(*out->jobs), dt_pop_by_due);
    return status;
}

/* ---- the answer ---- */

size_t dt_pop_bytes(const struct dt_api *api, size_t max, size_t most)
{
    const size_t one = (size_t)api->config->limits_payload;
    return max < most / one ? max * one : most;
}

size_t dt_pop_hold(struct dt_request *req, size_t max, size_t most)
{
    const size_t one = (size_t)req->api->config->limits_payload;
    size_t bytes = dt_pop_bytes(req->api, max, most);
    for (; bytes >= one; bytes /= 2)
        if (dt_hold_more(&req->hold, DT_POP_ROOM_EACH * bytes))
            return bytes;
    return 0;
}

void dt_pop_add(struct dt_strbuf *out, const struct dt_job *jobs, size_t n)
{
    dt_json_begin_object(out, NULL);
    dt_json_begin_array(out, "jobs");
    for (size_t i = 0; i < n; i++)
        dt_job_add(
            out, &jobs[i],
            &(struct dt_job_view){
                .payload = true, .waiting_for = "ack", .deadline_ms = jobs[i].next_at_ms, .check = dt_scratch_json()});
    dt_json_end_array(out);
    dt_json_end_object(out);
}
