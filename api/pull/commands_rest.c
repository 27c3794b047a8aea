/*
 * POST /v1/commands. The HTTP thread decodes all commands. Commands are carried out in order, in groups of adjacent
 * commands of one kind. The committer carries out adds; the results batcher carries out finishes, after a worker has
 * found their jobs; a worker carries out deletes and pops. After each group the HTTP thread writes the group's answers
 * and begins the next group.
 *
 * If a command fails, its answer says so, with status 200. If a command cannot be read, needs another scope, or a
 * server fails, the answer is a problem; in an array, only the answer of this command is a problem.
 *
 * Invariants: next <= end <= n; commands before `next` are answered; `unit.n` is 0 unless a group of adds runs.
 */

#include "answer.h"
#include "base/assert.h"
#include "command.h"
#include "handlers.h"
#include "intake/batch_gate.h"
#include "intake/create_rest.h"
#include "intake/results_rest.h"
#include "job/change/jobs.h"
#include "job/results/results.h"
#include "pop_room.h"
#include "request/topic_cache.h"

/* A command, and its outcome. */
struct run_command {
    struct dt_command command;
    dt_status status;  /* OK: success; INVALID: failed because of `error`; others: a server failed */
    const char *error; /* text of the failure; lives as long as the request */
    bool answered;     /* the answer of the command is already written */
};

struct run {
    struct dt_request *req;
    const struct dt_topic_bound *bound; /* topics that the caller sees; NULL: all topics */
    struct run_command *v;
    size_t n;
    bool array;       /* the body and the answer are arrays */
    size_t next, end; /* range of commands that are carried out together now (a group); next = end: none are */
    size_t refused;   /* number of answered commands that failed because of a fault in the command */
    /* entry in the gate's queue while the answer is delayed because elements were refused; at first all zeros */
    struct dt_gate_entry rest;
    struct dt_strbuf out; /* answers so far */
    size_t popped_bytes;  /* bytes of payloads in the answers so far */
    uint64_t heard;       /* count of notifications that was read before the claim (dt_pop_room_heard) */
    bool waits;           /* the only command is a pop that found nothing and may wait */
    struct dt_create *rows;
    struct dt_unit unit; /* unit of a group of adds */
    struct dt_apply *applies;
    size_t *applied_to; /* for each element of `applies`: index of its command in `v` */
    struct dt_reports reports;
};

/* ---- answers ---- */

/* Begins the array of answers, before its first answer. */
static void begin_answer_array(struct run *run)
{
    if (run->array && run->out.n == 0)
        dt_json_begin_array(&run->out, NULL);
}

/* Marks the command as failed. error: static text, or text in the request's arena. */
static void fail_command(struct run_command *command, const char *error)
{
    command->status = DT_INVALID;
    command->error = error;
}

static enum dt_next send_all_answers(struct run *run)
{
    struct dt_request *req = run->req;
    if (run->array)
        dt_strbuf_adds(&run->out, run->n == 0 ? "[]" : "]");
    else if (run->v[0].status != DT_OK && run->v[0].status != DT_INVALID)
        return dt_answer_status(req, run->v[0].status, NULL, NULL);
    if (run->out.failed)
        return dt_answer_status(req, req->changed ? DT_UNKNOWN : DT_NOMEM, NULL, NULL);
    struct dt_strbuf empty = req->out;
    req->out = run->out;
    run->out = empty;
    req->status = 200;
    return DT_REPLY;
}

/* Finds the jobs of the running group by the ids in its commands. If a job does not exist, or the caller does not see
 * it, the command fails. NULL: all commands of the group fail. */
static struct dt_command_job *find_jobs(struct run *run, dt_store *store, struct dt_error *err)
{
    struct dt_request *req = run->req;
    const size_t n = run->end - run->next;
    struct dt_command_job *jobs = dt_arena_alloc(&req->arena, n * sizeof(*jobs));
    for (size_t i = 0; jobs && i < n; i++)
        jobs[i] = (struct dt_command_job){.id = run->v[run->next + i].command.id};
    dt_status status = jobs ? dt_store_command_jobs(store, jobs, n, &req->arena, err) : DT_NOMEM;
    if (status != DT_OK) {
        for (size_t i = run->next; i < run->end; i++)
            run->v[i].status = status;
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        if (jobs[i].job_id == 0 || !dt_topic_within(run->bound, jobs[i].topic))
            fail_command(&run->v[run->next + i], "there is no job with this id");
    return jobs;
}

/* ---- finish ---- */

/* Called on the batcher's thread, or inside dt_results_batcher_submit. */
static void on_results_applied(struct dt_reports *reports)
{
    struct run *run = reports->arg;
    for (size_t i = 0; i < reports->n; i++) {
        struct run_command *command = &run->v[run->applied_to[i]];
        const enum dt_outcome outcome = reports->v[i].outcome;
        if (reports->status != DT_OK)
            command->status = reports->status;
        else if (outcome == DT_OUTCOME_STALE)
            fail_command(command, "the job ended in another way, or was just popped again");
        else if (outcome == DT_OUTCOME_UNKNOWN_JOB)
            fail_command(command, "there is no job with this id");
        else if (outcome == DT_OUTCOME_BUSY)
            command->status = DT_BUSY;
        run->req->changed |= outcome == DT_OUTCOME_APPLIED;
    }
    dt_request_resume(run->req);
}

static enum dt_next run_finish_commands(struct dt_request *req, dt_store *store)
{
    struct run *run = req->state;
    struct dt_error err = {0};
    const struct dt_command_job *jobs = find_jobs(run, store, &err);
    size_t n = 0;
    for (size_t i = run->next; jobs && i < run->end; i++) {
        const struct dt_command_job *job = &jobs[i - run->next];
        if (run->v[i].status == DT_OK && job->attempt == 0)
            fail_command(&run->v[i], "the job was not popped yet");
        if (run->v[i].status != DT_OK)
            continue;
        run->applied_to[n] = i;
        run->applies[n++] = (struct dt_apply){
            .result = {
                .job_id = job->job_id, .attempt = job->attempt, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}};
    }
    if (n == 0)
        return DT_REPLY;
    run->reports = (struct dt_reports){.v = run->applies,
                                       .n = n,
                                       .bound = run->bound,
                                       .of_batch = run->array,
                                       .deadline_us = req->deadline_us,
                                       .done = on_results_applied,
                                       .arg = run};
    dt_results_batcher_submit(req->api->results, &run->reports);
    return DT_PENDING;
}

/* ---- delete ---- */

static void delete_job(struct run *run, dt_store *store, struct run_command *command, int64_t job_id)
{
    struct dt_request *req = run->req;
    struct dt_arena row = {0}; /* memory of the job with its payload */
    struct dt_job job = {0};
    dt_status status = dt_store_cancel(store, job_id, true, &row, &job, NULL);
    if (status == DT_OK) {
        req->changed = true;
        struct dt_entry entry = {.id = job.id,
                                 .due_ms = dt_job_state_terminal(job.state) ? 0 : job.next_at_ms,
                                 .was_ms = job.was_next_at_ms};
        dt_index_writer_post(req->api->index, &entry, 1);
    } else if (status == DT_TOO_LATE) {
        fail_command(command, "the job has ended already");
    } else if (status == DT_NOT_FOUND) {
        fail_command(command, "there is no job with this id");
    } else {
        command->status = status;
    }
    dt_arena_clear(&row);
}

static enum dt_next run_delete_commands(struct dt_request *req, dt_store *store)
{
    struct run *run = req->state;
    struct dt_error err = {0};
    const struct dt_command_job *jobs = find_jobs(run, store, &err);
    for (size_t i = run->next; jobs && i < run->end; i++) {
        if (run->v[i].status != DT_OK)
            continue;
        if (dt_clock_mono_us(req->api->clock) >= req->deadline_us)
            fail_command(&run->v[i], "the request's time has ended; nothing was deleted");
        else
            delete_job(run, store, &run->v[i], jobs[i - run->next].job_id);
    }
    return DT_REPLY;
}

/* ---- pop ---- */

static enum dt_next run_pop_command(struct dt_request *req, dt_store *store)
{
    struct run *run = req->state;
    struct run_command *command = &run->v[run->next];
    const struct dt_pop_wish wish = dt_command_wish(&command->command);
    struct dt_pop_taker taker = {.max = (size_t)wish.max, .ttr_ms = wish.ttr_ms};
    struct dt_popped popped = {.n = 0};
    /* Earlier pops of the same request may have used a part of DT_POP_BYTES. */
    const size_t left = run->popped_bytes < DT_POP_BYTES ? DT_POP_BYTES - run->popped_bytes : 0;
    const size_t bytes = dt_pop_hold(req, (size_t)wish.max, left);
    run->heard = dt_pop_room_heard(req->api->pops, &wish);
    dt_status status = DT_UNAVAILABLE;
    if (bytes)
        status = dt_pop_take(req->api, store, &wish, &taker, 1, bytes, &req->arena, &popped, NULL);
    run->popped_bytes += popped.bytes;
    req->changed |= popped.n > 0;
    if (status != DT_OK && popped.n == 0) {
        command->status = status;
    } else if (popped.refused.p) {
        fail_command(command, dt_command_refusal(popped.why));
    } else if (popped.n || wish.wait_ms == 0) {
        begin_answer_array(run);
        dt_command_add_popped(&run->out, wish.form, popped.jobs, popped.n,
                              dt_command_name_jobs(store, &req->arena, &popped));
        command->answered = true;
    } else {
        run->waits = true;
    }
    return DT_REPLY;
}

/* ---- groups ---- */

/* Ends the running group: takes the outcome of its adds, if it has adds, and writes the answers of its commands. */
static void finish_command_group(struct run *run)
{
    dt_assert(run->next <= run->end && run->end <= run->n);
    dt_assert(run->unit.n == 0 || run->unit.n == run->end - run->next);
    for (size_t i = 0; i < run->unit.n; i++) {
        struct run_command *command = &run->v[run->next + i];
        const struct dt_create *row = &run->unit.rows[i];
        struct dt_faults faults = {.arena = &run->req->arena};
        struct dt_problem problem;
        if (run->unit.status != DT_OK) {
            command->status = run->unit.status;
            continue;
        }
        run->req->changed |= row->row.outcome == DT_INSERT_CREATED;
        if (row->row.outcome == DT_INSERT_CONFLICT)
            fail_command(command, "a different add created a job with this id");
        else if (dt_create_verdict(&run->unit, row, &faults, &problem) == 0)
            fail_command(command, problem.detail.p ? problem.detail.p : "the job cannot be stored");
    }
    if (run->unit.n)
        dt_unit_clear(&run->unit);
    run->unit.n = 0;
    for (; run->next < run->end; run->next++) {
        const struct run_command *command = &run->v[run->next];
        if (command->answered)
            continue;
        run->refused += command->status == DT_INVALID;
        begin_answer_array(run);
        dt_json_begin_object(&run->out, NULL);
        dt_json_put_bool(&run->out, "success", command->status == DT_OK);
        if (command->status != DT_OK)
            dt_json_put_word(&run->out, "error",
                             command->status == DT_INVALID ? command->error : dt_status_text(command->status));
        dt_json_put_given(&run->out, "id", command->command.id);
        dt_json_end_object(&run->out);
    }
}

static size_t max_group_size(const struct run *run, enum dt_verb verb)
{
    const struct dt_api *api = run->req->api;
    switch (verb) {
    case DT_VERB_ADD:
        return dt_committer_unit_rows(api->committer);
    case DT_VERB_FINISH:
        return dt_results_batcher_unit(api->results);
    case DT_VERB_DELETE:
        return DT_COMMANDS_MAX;
    case DT_VERB_POP:
        break;
    }
    return 1;
}

/* Called on a committer's thread, or inside dt_committer_submit. */
static void on_adds_committed(struct dt_unit *unit)
{
    dt_request_resume(unit->arg);
}

/* Begins the next group. DT_REPLY: nothing had to be submitted, so the group has ended. */
static enum dt_next begin_command_group(struct run *run)
{
    static const dt_worker_fn fns[] = {[DT_VERB_POP] = run_pop_command,
                                       [DT_VERB_FINISH] = run_finish_commands,
                                       [DT_VERB_DELETE] = run_delete_commands};
    struct dt_request *req = run->req;
    const struct run_command *first = &run->v[run->next];
    const enum dt_verb verb = first->command.verb;
    const size_t most = first->status == DT_OK ? max_group_size(run, verb) : 1;
    dt_assert_cmp(run->next, <, run->n);
    for (run->end = run->next + 1; run->end < run->n && run->end - run->next < most; run->end++)
        if (run->v[run->end].status != DT_OK || run->v[run->end].command.verb != verb)
            break;
    if (first->status != DT_OK)
        return DT_REPLY;
    if (verb != DT_VERB_ADD)
        return dt_workers_submit(req->api->workers, req, fns[verb]);
    run->unit = (struct dt_unit){.rows = &run->rows[run->next],
                                 .n = run->end - run->next,
                                 .deadline_us = req->deadline_us,
                                 .caller = &req->caller,
                                 .done = on_adds_committed,
                                 .arg = req};
    dt_request_suspend(req);
    dt_committer_submit(req->api->committer, &run->unit);
    return DT_PENDING;
}

/* ---- the pause before the answer if very many commands were refused (request/quotas.h) ---- */

static struct dt_request *request_of_entry(struct dt_gate_entry *entry)
{
    return ((struct run *)((char *)entry - offsetof(struct run, rest)))->req;
}

static void end_pause(struct dt_gate_entry *entry)
{
    dt_request_resume(request_of_entry(entry));
}

static void begin_pause(struct dt_gate_entry *entry)
{
    dt_request_suspend(request_of_entry(entry));
}

static bool must_pause(struct run *run)
{
    struct dt_request *req = run->req;
    if (run->rest.gate || !run->array)
        return false;
    int64_t until_us = dt_tenant_refused_elements(req->caller.tenant, run->refused);
    if (until_us == 0)
        return false;
    dt_gate_entry_init(&run->rest, req->api->job_gate, req->deadline_us, end_pause);
    return dt_gate_rest(&run->rest, until_us, begin_pause);
}

static enum dt_next continue_run(struct dt_request *req)
{
    struct run *run = req->state;
    req->then = continue_run;
    if (run->waits && req->status == 0) {
        /* The pop enters the waiting room. If the room is full, the answer has no jobs. */
        const struct dt_pop_wish wish = dt_command_wish(&run->v[0].command);
        run->waits = false;
        if (dt_pop_room_enter(req->api->pops, req, &wish, run->heard))
            return DT_AWAY;
        dt_command_add_popped(&run->out, wish.form, NULL, 0, NULL);
        run->v[0].answered = true;
    }
    if (req->status != 0 && !run->array)
        return DT_REPLY;
    if (req->status != 0) {
        /* The workers have refused the request, so no command of this group was carried out, and later groups are not
         * begun. */
        req->status = 0;
        dt_strbuf_reset(&req->out);
        for (size_t i = run->next; i < run->n; i++)
            if (run->v[i].status == DT_OK)
                run->v[i].status = DT_UNAVAILABLE;
    }
    do {
        finish_command_group(run);
        if (run->next == run->n)
            return must_pause(run) ? DT_PENDING : send_all_answers(run);
    } while (begin_command_group(run) == DT_REPLY);
    return DT_PENDING;
}

/* ---- decoding ---- */

static void release_command_run(struct dt_request *req)
{
    struct run *run = req->state;
    if (run->unit.n)
        dt_unit_clear(&run->unit);
    if (run->rest.gate)
        dt_gate_entry_clear(&run->rest);
    dt_strbuf_clear(&run->out);
}

static struct run *new_command_run(struct dt_request *req, size_t n, bool array)
{
    struct run *run = dt_arena_alloc(&req->arena, sizeof(*run));
    if (!run)
        return NULL;
    *run = (struct run){.req = req, .n = n, .array = array, .bound = dt_wall_bound(req)};
    run->v = dt_arena_alloc(&req->arena, (n + 1) * sizeof(*run->v));
    run->rows = dt_arena_alloc(&req->arena, (n + 1) * sizeof(*run->rows));
    run->applies = dt_arena_alloc(&req->arena, (n + 1) * sizeof(*run->applies));
    run->applied_to = dt_arena_alloc(&req->arena, (n + 1) * sizeof(*run->applied_to));
    if (!run->v || !run->rows || !run->applies || !run->applied_to)
        return NULL;
    memset(run->v, 0, (n + 1) * sizeof(*run->v));
    memset(run->rows, 0, (n + 1) * sizeof(*run->rows));
    req->state = run;
    req->cleanup = release_command_run;
    return run;
}

/* Reserves memory for n commands and their texts, in addition to the memory of the body. */
static bool reserve_command_memory(struct dt_request *req, size_t n)
{
    const size_t each = sizeof(struct run_command) + sizeof(struct dt_create) + sizeof(struct dt_apply) + 512;
    return dt_hold_bulk(&req->hold, n * each + 2 * req->body.n);
}

static dt_status decode_command(struct run *run, size_t i, const dt_json *json, const struct dt_job_rules *rules,
                                struct dt_faults *faults)
{
    const struct dt_request *req = run->req;
    struct run_command *one = &run->v[i];
    one->command.job = &run->rows[i].row.job;
    return dt_command_decode(json, rules, dt_refclock_latest_ms(req->api->ref), faults, &one->command);
}

static const char no_scope[] = "the token lacks the scope that this command needs";

/* Marks the command as failed if the token may not use it. */
static void check_token(const struct run *run, size_t i)
{
    const struct dt_caller *caller = &run->req->caller;
    struct run_command *one = &run->v[i];
    const enum dt_verb verb = one->command.verb;
    if (run->array && one->command.wait_ms)
        fail_command(one, "/wait is only allowed with a single command");
    if (!dt_caller_may(caller, verb == DT_VERB_ADD || verb == DT_VERB_DELETE ? DT_SCOPE_WRITE : DT_SCOPE_REPORT))
        fail_command(one, no_scope);
    else if ((verb == DT_VERB_ADD || verb == DT_VERB_POP) && !dt_topic_within(run->bound, one->command.topic))
        fail_command(one, "there is no such topic");
}

static enum dt_next run_single(struct dt_request *req, const struct dt_job_rules *rules)
{
    struct dt_faults faults;
    dt_json *json = dt_answer_parse(req, &faults);
    if (!json)
        return DT_REPLY;
    if (!reserve_command_memory(req, 1))
        return dt_request_no_room(req);
    struct run *run = new_command_run(req, 1, false);
    dt_status status = run ? decode_command(run, 0, json, rules, &faults) : DT_NOMEM;
    if (status != DT_OK)
        return dt_answer_faults(req, status, &faults);
    check_token(run, 0);
    if (run->v[0].error == no_scope) {
        dt_request_refuse(req, DT_PROBLEM_FORBIDDEN, "%s", no_scope);
        return DT_REPLY;
    }
    return continue_run(req);
}

/* ---- an array ---- */

/* Joins all faults to one text: "/delay must be …; /x is not known". */
static const char *join_faults(const struct dt_faults *faults, struct dt_arena *arena)
{
    struct dt_strbuf text = {0};
    for (size_t i = 0; i < faults->n && i < DT_FAULTS_MAX; i++) {
        dt_strbuf_adds(&text, i ? "; " : "");
        dt_strbuf_add(&text, faults->v[i].pointer.p, faults->v[i].pointer.n);
        dt_strbuf_adds(&text, faults->v[i].pointer.n ? " " : "");
        dt_strbuf_add(&text, faults->v[i].reason.p, faults->v[i].reason.n);
    }
    struct dt_str copy = dt_arena_copy(arena, dt_strbuf_str(&text));
    dt_strbuf_clear(&text);
    return copy.p ? copy.p : "out of memory";
}

static void decode_element(struct run *run, size_t i, struct dt_str text, const struct dt_job_rules *rules)
{
    struct dt_faults faults = {.arena = &run->req->arena};
    struct dt_error err = {0};
    struct dt_json_limits limits = dt_job_json_limits(rules->json_depth);
    dt_json *json = dt_scratch_json();
    dt_status status = json ? dt_json_parse(json, text, &limits, &err) : DT_NOMEM;
    DT_THEN(status, decode_command(run, i, json, rules, &faults));
    if (status == DT_OK)
        check_token(run, i);
    else if (status == DT_NOMEM)
        run->v[i].status = status;
    else
        fail_command(&run->v[i], faults.n ? join_faults(&faults, &run->req->arena) : "the command cannot be read");
}

/* Parses the array with a parser of its own, because the thread's parser is used for each element. */
static enum dt_next run_array(struct dt_request *req, const struct dt_job_rules *rules)
{
    struct dt_error err = {0};
    const struct dt_json_limits limits = {
        .depth = rules->json_depth + 1, .elements = true, .nodes = 4 * DT_COMMANDS_MAX};
    struct run *run = NULL;
    dt_json *json = NULL;
    dt_status status = dt_json_new(&json);
    DT_THEN(status, dt_json_parse(json, req->body, &limits, &err));
    const struct dt_json_node *root = status == DT_OK ? dt_json_root(json) : NULL;
    if (root && root->n > DT_COMMANDS_MAX)
        dt_request_refuse(req, DT_PROBLEM_TOO_LARGE, "%u commands, at most %d are allowed", root->n, DT_COMMANDS_MAX);
    else if (root && !reserve_command_memory(req, root->n))
        dt_request_no_room(req);
    else if (!root || !(run = new_command_run(req, root->n, true)))
        dt_answer_status(req, root ? DT_NOMEM : status, NULL, &err);
    size_t i = 0;
    for (const struct dt_json_node *e = run ? dt_json_first(json, root) : NULL; e; e = dt_json_sibling(json, root, e))
        decode_element(run, i++, e->raw, rules);
    dt_json_free(json);
    return run ? continue_run(req) : DT_REPLY;
}

enum dt_next dt_handle_commands(struct dt_request *req)
{
    if (!dt_answer_clock(req))
        return DT_REPLY;
    struct dt_view *view = dt_topic_cache_view(req->api->topics);
    struct dt_job_rules rules = dt_answer_rules(req->api, view);
    size_t i = 0;
    while (i < req->body.n && memchr(" \t\r\n", req->body.p[i], 4))
        i++;
    const bool array = i < req->body.n && req->body.p[i] == '[';
    enum dt_next next = array ? run_array(req, &rules) : run_single(req, &rules);
    dt_view_release(view);
    return next;
}
