/* POST /v1/results: results as elements of a batch (batch.h), which go to the results batcher. */
#include "base/text/json_write.h"
#include "batch_feed.h"
#include "job/results/result_json.h"
#include "job/results/results.h"
#include "results_batcher.h"

static struct dt_gate *gate_of(const struct dt_api *api)
{
    return api->result_gate;
}

static dt_status decode(const struct dt_batch_terms *terms, const dt_json *json, bool keep, struct dt_chunk *chunk,
                        struct dt_faults *faults, struct dt_error *err)
{
    struct dt_apply *row = dt_chunk_row(chunk, chunk->n_rows);
    (void)terms;
    (void)keep; /* all texts are copied */
    (void)err;
    *row = (struct dt_apply){.outcome = DT_OUTCOME_UNKNOWN_JOB, .result.job_id = -1};
    return dt_result_decode(json, dt_json_root(json), NULL, faults, &row->result);
}

static void came_back(struct dt_reports *reports)
{
    dt_batch_came_back(reports->arg);
}

static void submit(const struct dt_batch_terms *terms, struct dt_chunk *chunk, int64_t deadline_us)
{
    chunk->unit.results = (struct dt_reports){.v = dt_chunk_row(chunk, 0),
                                              .n = chunk->n_rows,
                                              .bound = terms->bound,
                                              .of_batch = true,
                                              .deadline_us = deadline_us,
                                              .done = came_back,
                                              .arg = chunk};
    dt_results_batcher_submit(terms->api->results, &chunk->unit.results);
}

static int add_answer(struct dt_chunk *chunk, size_t i, struct dt_strbuf *out)
{
    const struct dt_apply *row = dt_chunk_row(chunk, i);
    dt_status status = chunk->unit.results.status;
    if (status == DT_OK && row->outcome == DT_OUTCOME_BUSY)
        status = DT_BUSY;
    const bool unknown = status == DT_OK && row->outcome == DT_OUTCOME_UNKNOWN_JOB;
    if (status != DT_OK || unknown) {
        const struct dt_problem problem = {.type = dt_problem_of_status(unknown ? DT_NOT_FOUND : status),
                                           .detail = dt_str(unknown ? "no such job" : dt_status_text(status))};
        dt_problem_add(out, &problem, DT_STR_NONE);
        return dt_problem_http_status(problem.type);
    }
    dt_strbuf_addc(out, '{'); /* perhaps a line after another one: no comma */
    dt_json_put_int(out, "status", 200);
    dt_json_put_word(out, "outcome", dt_report_outcome(row->outcome));
    dt_json_end_object(out);
    return 200;
}

const struct dt_batch_kind dt_batch_of_results = {.stream = {dt_batch_feed_begin, dt_batch_feed, dt_batch_feed_cut},
                                                  .nothing = "no result was applied",
                                                  .elements = "results",
                                                  .row_bytes = sizeof(struct dt_apply),
                                                  .gate = gate_of,
                                                  .decode = decode,
                                                  .submit = submit,
                                                  .answer = add_answer};
