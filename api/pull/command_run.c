/* Carries finish, delete and pop out: see command_run.h. */
#include "command_run.h"

#include "answer.h"
#include "auth/auth.h"
#include "command_answer.h"
#include "intake/index_writer.h"
#include "pop_room.h"

void dt_run_begin_answer(struct dt_run *run)
{
    if (run->array)
        dt_strbuf_addc(&run->out, run->out.n == 0 ? '[' : ',');
}

void dt_run_fail(struct dt_run_command *command, const char *error)
{
    command->status = DT_INVALID;
    command->error = error;
}

static void fail_group(struct dt_run *run, dt_status status)
{
    for (size_t i = run->next; i < run->end; i++)
        run->v[i].status = status;
}

/* The jobs of the group, by their ids; those that there are not, or that the caller does not see, fail. NULL: all
 * fail. */
static struct dt_command_job *find_jobs(struct dt_run *run, dt_store *store, struct dt_error *err)
{
    struct dt_request *req = run->req;
    const size_t n = run->end - run->next;
    struct dt_command_job *jobs = dt_arena_alloc(&req->arena, n * sizeof(*jobs));
    for (size_t i = 0; jobs && i < n; i++)
        jobs[i] = (struct dt_command_job){.id = run->v[run->next + i].command.id};
    dt_status status = jobs ? dt_store_command_jobs(store, jobs, n, &req->arena, err) : DT_NOMEM;
    if (status != DT_OK) {
        fail_group(run, status);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        if (jobs[i].job_id == 0 || !dt_caller_sees(&req->caller, jobs[i].topic))
            dt_run_fail(&run->v[run->next + i], "there is no job with this id");
    return jobs;
}

/* ---- finish ---- */

static void take_outcome(struct dt_run_command *command, enum dt_outcome outcome)
{
    switch (outcome) {
    case DT_OUTCOME_APPLIED:
    case DT_OUTCOME_DUPLICATE:
        break;
    case DT_OUTCOME_STALE:
        dt_run_fail(command, "the job has ended otherwise, or was popped again this very moment");
        break;
    case DT_OUTCOME_UNKNOWN_JOB:
        dt_run_fail(command, "there is no job with this id");
        break;
    case DT_OUTCOME_BUSY:
        command->status = DT_BUSY;
        break;
    }
}

/* On the batcher's thread, or inside the submit. */
static void finished(struct dt_reports *reports)
{
    struct dt_run *run = reports->arg;
    for (size_t i = 0; i < reports->n; i++) {
        struct dt_run_command *command = &run->v[run->applied_to[i]];
        if (reports->status == DT_OK)
            take_outcome(command, reports->v[i].outcome);
        else
            command->status = reports->status;
        run->req->changed |= reports->v[i].outcome == DT_OUTCOME_APPLIED;
    }
    dt_request_resume(run->req);
}

static size_t list_results(struct dt_run *run, const struct dt_command_job *jobs)
{
    size_t n = 0;
    for (size_t i = run->next; i < run->end; i++) {
        const struct dt_command_job *job = &jobs[i - run->next];
        if (run->v[i].status == DT_OK && job->attempt == 0)
            dt_run_fail(&run->v[i], "the job was not popped yet");
        if (run->v[i].status != DT_OK)
            continue;
        run->applied_to[n] = i;
        run->applies[n++] = (struct dt_apply){
            .result = {
                .job_id = job->job_id, .attempt = job->attempt, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}};
    }
    return n;
}

enum dt_next dt_run_finish(struct dt_request *req, dt_store *store)
{
    struct dt_run *run = req->state;
    struct dt_error err = {0};
    const struct dt_command_job *jobs = find_jobs(run, store, &err);
    const size_t n = jobs ? list_results(run, jobs) : 0;
    if (n == 0)
        return DT_REPLY;
    run->reports = (struct dt_reports){.v = run->applies,
                                       .n = n,
                                       .bound = dt_caller_bound(&req->caller),
                                       .of_batch = run->array,
                                       .deadline_us = req->deadline_us,
                                       .done = finished,
                                       .arg = run};
    dt_results_batcher_submit(req->api->results, &run->reports);
    return DT_PENDING;
}

/* ---- delete ---- */

static void delete_one(struct dt_run *run, dt_store *store, struct dt_run_command *command, int64_t job_id)
{
    struct dt_request *req = run->req;
    struct dt_arena row; /* with its payload */
    struct dt_job job = {0};
    dt_arena_init(&row);
    dt_status status = dt_store_cancel(store, job_id, true, &row, &job, NULL);
    if (status == DT_OK) {
        req->changed = true;
        struct dt_entry entry = {.id = job.id,
                                 .due_ms = dt_job_state_terminal(job.state) ? 0 : job.next_at_ms,
                                 .was_ms = job.was_next_at_ms};
        dt_index_writer_post(req->api->index, &entry, 1);
    } else if (status == DT_TOO_LATE) {
        dt_run_fail(command, "the job has ended already");
    } else if (status == DT_NOT_FOUND) {
        dt_run_fail(command, "there is no job with this id");
    } else {
        command->status = status;
    }
    dt_arena_clear(&row);
}

enum dt_next dt_run_delete(struct dt_request *req, dt_store *store)
{
    struct dt_run *run = req->state;
    struct dt_error err = {0};
    const struct dt_command_job *jobs = find_jobs(run, store, &err);
    for (size_t i = run->next; jobs && i < run->end; i++) {
        if (run->v[i].status != DT_OK)
            continue;
        if (dt_clock_mono_us(req->api->clock) >= req->deadline_us)
            dt_run_fail(&run->v[i], "the request's time is up; nothing was deleted");
        else
            delete_one(run, store, &run->v[i], jobs[i - run->next].job_id);
    }
    return DT_REPLY;
}

/* ---- pop ---- */

/* Bytes of payloads that there is room for: what earlier pops of the request have left; 0: not even for one job. */
static size_t hold_room(struct dt_run *run, size_t max)
{
    const size_t one = (size_t)run->req->api->config->limits_payload;
    const size_t left = run->popped_bytes < DT_POP_BYTES ? DT_POP_BYTES - run->popped_bytes : 0;
    size_t bytes = max < left / one ? max * one : left;
    for (; bytes >= one; bytes /= 2)
        if (dt_request_hold(run->req, DT_POP_ROOM_EACH * bytes))
            return bytes;
    return 0;
}

static void answer_pop(struct dt_run *run, const struct dt_pop_wish *wish, const struct dt_popped *popped,
                       const struct dt_command_job *names)
{
    dt_run_begin_answer(run);
    dt_command_add_popped(&run->out, wish->form, popped->jobs, popped->n, names);
    run->v[run->next].answered = true;
}

enum dt_next dt_run_pop(struct dt_request *req, dt_store *store)
{
    struct dt_run *run = req->state;
    struct dt_run_command *command = &run->v[run->next];
    const struct dt_pop_wish wish = dt_command_wish(&command->command);
    struct dt_pop_taker taker = {.max = wish.max, .ttr_ms = wish.ttr_ms};
    struct dt_popped popped = {.n = 0};
    const size_t bytes = hold_room(run, wish.max);
    run->heard = dt_pop_room_heard(req->api->pops, &wish);
    dt_status status = DT_UNAVAILABLE;
    if (bytes)
        status = dt_pop_take(req->api, store, &wish, &taker, 1, bytes, &req->arena, &popped, NULL);
    run->popped_bytes += popped.bytes;
    req->changed |= popped.n > 0;
    if (status != DT_OK && popped.n == 0)
        command->status = status;
    else if (popped.refused.p)
        dt_run_fail(command, dt_command_refusal(popped.why));
    else if (popped.n || wish.wait_ms == 0)
        answer_pop(run, &wish, &popped, dt_command_name_jobs(store, &req->arena, &popped));
    else
        run->waits = true;
    return DT_REPLY;
}
