/* POST /v1/jobs:batch: new jobs as elements of a batch (batch.h), which go to the committer. */
#include "base/text/json_write.h"
#include "batch_feed.h"
#include "committer.h"
#include "create.h"

static struct dt_gate *gate_of(const struct dt_api *api)
{
    return api->job_gate;
}

static dt_status decode(const struct dt_batch_terms *terms, const dt_json *json, bool keep, struct dt_chunk *chunk,
                        struct dt_faults *faults, struct dt_error *err)
{
    struct dt_create *row = dt_chunk_row(chunk, chunk->n_rows);
    struct dt_new_job *job = &row->row.job;
    dt_status status = dt_job_decode(json, &terms->rules, &(struct dt_job_path){.topic = DT_STR_NONE},
                                     dt_refclock_latest_ms(terms->api->ref), faults, job);
    if (status != DT_OK)
        return status;
    if (keep && !job->payload_binary) { /* a binary one is in the arena already */
        job->payload = dt_arena_copy(&chunk->arena, job->payload);
        if (!job->payload.p)
            return DT_NOMEM;
    }
    if (!dt_topic_within(terms->bound, job->topic))
        return dt_fail(err, DT_NOT_FOUND, "no such topic");
    /* Mostly the topic of the element before: with one text for both, later comparisons need not read it. */
    const struct dt_create *before = chunk->n_rows > 0 ? dt_chunk_row(chunk, chunk->n_rows - 1) : NULL;
    if (before && dt_str_eq(before->row.job.topic, job->topic))
        job->topic = before->row.job.topic;
    return DT_OK;
}

static uint64_t key_of(const void *row)
{
    const struct dt_create *create = row;
    const struct dt_new_job *job = &create->row.job;
    return job->key.p ? dt_key_hash(job->topic, job->key) : 0;
}

static void came_back(struct dt_unit *unit)
{
    dt_batch_came_back(unit->arg);
}

static void submit(const struct dt_batch_terms *terms, struct dt_chunk *chunk, int64_t deadline_us)
{
    chunk->unit.jobs = (struct dt_unit){.rows = dt_chunk_row(chunk, 0),
                                        .n = chunk->n_rows,
                                        .of_batch = true,
                                        .deadline_us = deadline_us,
                                        .caller = &terms->caller,
                                        .done = came_back,
                                        .arg = chunk};
    dt_committer_submit(terms->api->committer, &chunk->unit.jobs);
}

static int add_answer(struct dt_chunk *chunk, size_t i, struct dt_strbuf *out)
{
    const struct dt_create *row = dt_chunk_row(chunk, i);
    struct dt_faults faults;
    struct dt_problem problem;
    dt_faults_init(&faults, &chunk->arena);
    int status = dt_create_verdict(&chunk->unit.jobs, row, &faults, &problem);
    if (status == 0) {
        dt_problem_add(out, &problem, DT_STR_NONE);
        return dt_problem_http_status(problem.type);
    }
    dt_strbuf_addc(out, '{'); /* perhaps a line after another one: no comma */
    dt_json_put_int(out, "status", status);
    dt_json_put_id(out, "id", status == 201 ? row->row.job.id : row->row.existing_id);
    dt_json_end_object(out);
    return status;
}

static void clear(struct dt_chunk *chunk)
{
    dt_unit_clear(&chunk->unit.jobs);
}

const struct dt_batch_kind dt_batch_of_jobs = {.stream = {dt_batch_feed_begin, dt_batch_feed, dt_batch_feed_cut},
                                               .nothing = "no job was made",
                                               .elements = "jobs",
                                               .row_bytes = sizeof(struct dt_create),
                                               .gate = gate_of,
                                               .decode = decode,
                                               .key_of = key_of,
                                               .submit = submit,
                                               .answer = add_answer,
                                               .clear = clear};
