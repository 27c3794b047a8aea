/* An explanation as JSON: the sentences, the shard and the entry in the index, and facts one by one. Pure. */
#include "base/text/timetext.h"
#include "job/job_encode.h"
#include "jobs/explain.h"
#include "jobs/shard_json.h"

static const char *const entry_names[] = {
    [DT_ENTRY_THERE] = "there",           [DT_ENTRY_MISSING] = "missing", [DT_ENTRY_DIFFERS] = "differs",
    [DT_ENTRY_NOT_NEEDED] = "not-needed", [DT_ENTRY_NONE] = "none",       [DT_ENTRY_UNKNOWN] = "unknown"};

/* ---- facts ---- */

struct facts {
    struct dt_strbuf *out;
    struct dt_strbuf value; /* of the fact that is being made */
    unsigned n;
};

/* Nothing is added of a fact without a value. */
static void end_fact(struct facts *f, const char *what)
{
    if (f->value.n) {
        dt_strbuf_addf(f->out, "%s{\"what\":\"%s\",\"value\":", f->n++ ? "," : "", what);
        dt_json_add_string(f->out, dt_strbuf_str(&f->value));
        dt_strbuf_addc(f->out, '}');
    }
    dt_strbuf_reset(&f->value);
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

static void add_shard_fact(struct facts *f, const struct dt_explained *e)
{
    dt_strbuf_addf(&f->value, "%u (slot %u), led by ", e->shard_number, dt_slot(e->job->id));
    add_text(&f->value, e->shard && e->shard->owner.p ? e->shard->owner : DT_STR_LIT("nobody"));
    end_fact(f, "shard");
}

static void add_policy(struct facts *f, const struct dt_job *job)
{
    dt_strbuf_addf(&f->value, "%lld so far, %lld failed", (long long)job->attempt, (long long)job->failures);
    end_fact(f, "attempts");
    add_text(&f->value, job->retry.n ? job->retry : DT_STR_LIT("none"));
    dt_strbuf_addf(&f->value, "; a report is expected within %lld ms", (long long)job->ack_timeout_ms);
    end_fact(f, "retry");
}

static void add_facts(struct facts *f, const struct dt_explained *e, enum dt_entry_state entry)
{
    const struct dt_job *job = e->job;
    dt_explain_reason(e, &f->value);
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
        dt_strbuf_adds(&f->value, job->state == DT_DISPATCHED ? " (its report is waited for until then)" : "");
        end_fact(f, "next at");
    }
    add_policy(f, job);
    add_latest_attempt(f, job);
    add_last_error(f, job);
    add_shard_fact(f, e);
    dt_strbuf_adds(&f->value, entry_names[entry]);
    end_fact(f, "index");
    add_time(&f->value, "created ", job->created_at_ms);
    add_time(&f->value, ", changed ", job->updated_at_ms);
    dt_strbuf_addf(&f->value, ", version %lld", (long long)job->version);
    end_fact(f, "history");
}

/* ---- the whole ---- */

static void add_time_or_null(struct dt_strbuf *out, const char *name, int64_t ms)
{
    dt_strbuf_addf(out, ",\"%s\":", name);
    if (ms)
        dt_json_add_time(out, ms);
    else
        dt_strbuf_adds(out, "null");
}

/* A shard that nobody has led yet has no row that says anything. */
static void add_shard(const struct dt_explained *e, struct dt_strbuf *out)
{
    const struct dt_shard_info unknown = {.shard = e->shard_number};
    dt_strbuf_adds(out, ",\"shard\":");
    dt_shard_add_json(out, e->shard ? e->shard : &unknown, e->dispatchers, e->now_ms);
}

static void add_sentences(const struct dt_explained *e, struct dt_strbuf *value, struct dt_strbuf *out)
{
    dt_explain_reason(e, value);
    dt_strbuf_adds(out, ",\"reason\":");
    dt_json_add_string(out, dt_strbuf_str(value));
    dt_strbuf_reset(value);
    dt_explain_action(e, value);
    dt_strbuf_adds(out, ",\"action\":");
    dt_json_add_string_or_null(out, value->n ? dt_strbuf_str(value) : DT_STR_NONE);
    dt_strbuf_reset(value);
}

void dt_explain_add_json(const struct dt_explained *e, enum dt_entry_state entry, int64_t entry_ms,
                         struct dt_strbuf *out)
{
    const struct dt_job *job = e->job;
    struct facts facts = {.out = out};
    dt_strbuf_init(&facts.value);
    dt_strbuf_addf(out, "{\"id\":\"%lld\",\"topic\":", (long long)job->id);
    dt_json_add_string(out, job->topic);
    dt_strbuf_adds(out, ",\"key\":");
    dt_json_add_string_or_null(out, job->key);
    dt_strbuf_addf(out, ",\"state\":\"%s\",\"waiting_for\":", dt_job_state_name(job->state));
    dt_json_add_string_or_null(out, dt_str(e->waiting_for));
    add_sentences(e, &facts.value, out);
    add_time_or_null(out, "run_at", job->run_at_ms);
    add_time_or_null(out, "next_at", job->next_at_ms);
    dt_strbuf_addf(out, ",\"attempt\":%lld", (long long)job->attempt);
    add_shard(e, out);
    dt_strbuf_addf(out, ",\"index\":{\"state\":\"%s\"", entry_names[entry]);
    add_time_or_null(out, "at", entry_ms);
    dt_strbuf_adds(out, "},\"facts\":[");
    add_facts(&facts, e, entry);
    dt_strbuf_adds(out, "]}");
    if (facts.value.failed)
        out->failed = true;
    dt_strbuf_clear(&facts.value);
}
