/*
 * POST /v1/commands: all commands are decoded on the HTTP thread, then carried out in their order, group by group: adds
 * by the committer, finishes by the results batcher once a worker has found their jobs, deletes and pops by a worker.
 * After each group the request comes back to its HTTP thread, which writes the answers and begins the next.
 *
 * What a command asks for and does not get is told in its answer, with 200. A single command that cannot be read, is
 * beyond the token's scopes or meets a server that fails is a problem as anywhere else; in an array it fails alone.
 */
#include <stddef.h>

#include "answer.h"
#include "auth/auth.h"
#include "command_answer.h"
#include "command_run.h"
#include "handlers.h"
#include "intake/create.h"
#include "pop_room.h"
#include "topics/topic_cache.h"
#include "work/scratch.h"
#include "work/workers.h"

/* ---- answers ---- */

static const char *error_of(const struct dt_run_command *command)
{
    return command->status == DT_INVALID ? command->error : dt_status_text(command->status);
}

static void add_answer(struct dt_run *run, const struct dt_run_command *command)
{
    if (command->answered)
        return;
    run->refused += command->status == DT_INVALID;
    dt_run_begin_answer(run);
    dt_strbuf_adds(&run->out, command->status == DT_OK ? "{\"success\":true" : "{\"success\":false,\"error\":");
    if (command->status != DT_OK)
        dt_json_add_string(&run->out, dt_str(error_of(command)));
    if (command->command.id.p) {
        dt_strbuf_adds(&run->out, ",\"id\":");
        dt_json_add_string(&run->out, command->command.id);
    }
    dt_strbuf_addc(&run->out, '}');
}

static enum dt_next answer_all(struct dt_run *run)
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

/* ---- groups ---- */

static void take_add(struct dt_run *run, struct dt_run_command *command, const struct dt_create *row)
{
    struct dt_faults faults;
    struct dt_problem problem;
    if (run->unit.status != DT_OK) {
        command->status = run->unit.status;
        return;
    }
    dt_faults_init(&faults, &run->req->arena);
    run->req->changed |= row->row.outcome == DT_INSERT_CREATED;
    if (row->row.outcome == DT_INSERT_CONFLICT)
        dt_run_fail(command, "an unequal add made a job with this id");
    else if (dt_create_verdict(&run->unit, row, &faults, &problem) == 0)
        dt_run_fail(command, problem.detail.p ? problem.detail.p : "the job cannot be stored");
}

static void end_adds(struct dt_run *run)
{
    if (run->unit.n == 0)
        return;
    for (size_t i = 0; i < run->unit.n; i++)
        take_add(run, &run->v[run->next + i], &run->unit.rows[i]);
    dt_unit_clear(&run->unit);
    run->unit.n = 0;
}

static void end_group(struct dt_run *run)
{
    end_adds(run);
    for (; run->next < run->end; run->next++)
        add_answer(run, &run->v[run->next]);
}

static size_t most_of(const struct dt_run *run, enum dt_verb verb)
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

static void choose_group(struct dt_run *run)
{
    const struct dt_run_command *first = &run->v[run->next];
    const size_t most = first->status == DT_OK ? most_of(run, first->command.verb) : 1;
    for (run->end = run->next + 1; run->end < run->n && run->end - run->next < most; run->end++)
        if (run->v[run->end].status != DT_OK || run->v[run->end].command.verb != first->command.verb)
            break;
}

/* On a committer's thread, or inside the submit. */
static void added(struct dt_unit *unit)
{
    dt_request_resume(unit->arg);
}

static enum dt_next begin_adds(struct dt_run *run)
{
    struct dt_request *req = run->req;
    run->unit = (struct dt_unit){.rows = &run->rows[run->next],
                                 .n = run->end - run->next,
                                 .deadline_us = req->deadline_us,
                                 .caller = &req->caller,
                                 .done = added,
                                 .arg = req};
    dt_request_suspend(req);
    dt_committer_submit(req->api->committer, &run->unit);
    return DT_PENDING;
}

/* REPLY: there was nothing to do. */
static enum dt_next begin_group(struct dt_run *run)
{
    static const dt_worker_fn fns[] = {
        [DT_VERB_POP] = dt_run_pop, [DT_VERB_FINISH] = dt_run_finish, [DT_VERB_DELETE] = dt_run_delete};
    const struct dt_run_command *first = &run->v[run->next];
    choose_group(run);
    if (first->status != DT_OK)
        return DT_REPLY;
    if (first->command.verb == DT_VERB_ADD)
        return begin_adds(run);
    return dt_workers_submit(run->req->api->workers, run->req, fns[first->command.verb]);
}

/* The workers had no place for the request, or no time: nothing of this group happened, and nothing will of later
 * ones. */
static void take_refusal(struct dt_run *run)
{
    struct dt_request *req = run->req;
    req->status = 0;
    dt_strbuf_reset(&req->out);
    for (size_t i = run->next; i < run->n; i++)
        if (run->v[i].status == DT_OK)
            run->v[i].status = DT_UNAVAILABLE;
}

static enum dt_next go_on(struct dt_request *req);

/* To the waiting room, with the connection; where that takes nobody, there is nothing. */
static enum dt_next go_and_wait(struct dt_run *run)
{
    const struct dt_pop_wish wish = dt_command_wish(&run->v[0].command);
    run->waits = false;
    if (dt_pop_room_enter(run->req->api->pops, run->req, &wish, run->heard))
        return DT_AWAY;
    dt_command_add_popped(&run->out, wish.form, NULL, 0, NULL);
    run->v[0].answered = true;
    return go_on(run->req);
}

/* ---- a rest before the answer, where very many are refused (quota/refusals.h) ---- */

static struct dt_request *request_of(struct dt_gate_entry *entry)
{
    return ((struct dt_run *)((char *)entry - offsetof(struct dt_run, rest)))->req;
}

static void end_rest(struct dt_gate_entry *entry)
{
    dt_request_resume(request_of(entry));
}

static void begin_rest(struct dt_gate_entry *entry)
{
    dt_request_suspend(request_of(entry));
}

static bool rests(struct dt_run *run)
{
    struct dt_request *req = run->req;
    if (run->rest.gate || !run->array)
        return false;
    int64_t until_us = dt_tenant_refused_elements(req->caller.tenant, run->refused);
    if (until_us == 0)
        return false;
    dt_gate_entry_init(&run->rest, req->api->job_gate, req->deadline_us, end_rest);
    return dt_gate_rest(&run->rest, until_us, begin_rest);
}

static enum dt_next go_on(struct dt_request *req)
{
    struct dt_run *run = req->state;
    req->then = go_on;
    if (run->waits && req->status == 0)
        return go_and_wait(run);
    if (req->status != 0 && !run->array)
        return DT_REPLY;
    if (req->status != 0)
        take_refusal(run);
    do {
        end_group(run);
        if (run->next == run->n)
            return rests(run) ? DT_PENDING : answer_all(run);
    } while (begin_group(run) == DT_REPLY);
    return DT_PENDING;
}

/* ---- decoding ---- */

static void drop_run(struct dt_request *req)
{
    struct dt_run *run = req->state;
    if (run->unit.n)
        dt_unit_clear(&run->unit);
    if (run->rest.gate)
        dt_gate_entry_clear(&run->rest);
    dt_strbuf_clear(&run->out);
}

static struct dt_run *run_new(struct dt_request *req, size_t n, bool array)
{
    struct dt_run *run = dt_arena_alloc(&req->arena, sizeof(*run));
    if (!run)
        return NULL;
    *run = (struct dt_run){.req = req, .n = n, .array = array};
    dt_strbuf_init(&run->out);
    run->v = dt_arena_alloc(&req->arena, (n + 1) * sizeof(*run->v));
    run->rows = dt_arena_alloc(&req->arena, (n + 1) * sizeof(*run->rows));
    run->applies = dt_arena_alloc(&req->arena, (n + 1) * sizeof(*run->applies));
    run->applied_to = dt_arena_alloc(&req->arena, (n + 1) * sizeof(*run->applied_to));
    if (!run->v || !run->rows || !run->applies || !run->applied_to)
        return NULL;
    memset(run->v, 0, (n + 1) * sizeof(*run->v));
    memset(run->rows, 0, (n + 1) * sizeof(*run->rows));
    req->state = run;
    req->cleanup = drop_run;
    return run;
}

/* Room for n commands and their texts, beside the body. */
static bool hold_room(struct dt_request *req, size_t n)
{
    const size_t each = sizeof(struct dt_run_command) + sizeof(struct dt_create) + sizeof(struct dt_apply) + 512;
    return dt_request_hold_bulk(req, n * each + 2 * req->body.n);
}

static dt_status decode(struct dt_run *run, size_t i, const dt_json *json, const struct dt_job_rules *rules,
                        struct dt_faults *faults)
{
    const struct dt_request *req = run->req;
    struct dt_run_command *one = &run->v[i];
    one->command.job = &run->rows[i].row.job;
    return dt_command_decode(json, rules, dt_refclock_latest_ms(req->api->ref), faults, &one->command);
}

static const char no_scope[] = "the token lacks the scope that this command needs";

/* What a token is refused. NULL: nothing. */
static const char *refusal_of(const struct dt_request *req, const struct dt_command *command)
{
    if (!dt_caller_may(&req->caller, dt_command_scope(command->verb)))
        return no_scope;
    bool names_topic = command->verb == DT_VERB_ADD || command->verb == DT_VERB_POP;
    return names_topic && !dt_caller_sees(&req->caller, command->topic) ? "there is no such topic" : NULL;
}

static void check_token(const struct dt_run *run, size_t i)
{
    if (run->array && run->v[i].command.wait_ms)
        dt_run_fail(&run->v[i], "/wait goes with a command that comes alone");
    const char *refusal = refusal_of(run->req, &run->v[i].command);
    if (refusal)
        dt_run_fail(&run->v[i], refusal);
}

static enum dt_next run_single(struct dt_request *req, const struct dt_job_rules *rules)
{
    struct dt_faults faults;
    dt_json *json = dt_answer_parse(req, rules, &faults);
    if (!json)
        return DT_REPLY;
    if (!hold_room(req, 1))
        return dt_request_no_room(req);
    struct dt_run *run = run_new(req, 1, false);
    dt_status status = run ? decode(run, 0, json, rules, &faults) : DT_NOMEM;
    if (status != DT_OK)
        return dt_answer_faults(req, status, &faults);
    check_token(run, 0);
    if (run->v[0].error == no_scope) {
        dt_request_refuse(req, DT_PROBLEM_FORBIDDEN, "%s", no_scope);
        return DT_REPLY;
    }
    return go_on(req);
}

/* ---- an array ---- */

/* "/delay must be …; /x is not known" */
static const char *text_of(const struct dt_faults *faults, struct dt_arena *arena)
{
    struct dt_strbuf text;
    dt_strbuf_init(&text);
    for (size_t i = 0; i < faults->n && i < DT_FAULTS_MAX; i++) {
        dt_strbuf_adds(&text, i ? "; " : "");
        dt_strbuf_add(&text, faults->v[i].pointer.p, faults->v[i].pointer.n);
        dt_strbuf_adds(&text, faults->v[i].pointer.n ? " " : "");
        dt_strbuf_add(&text, faults->v[i].reason.p, faults->v[i].reason.n);
    }
    struct dt_str copy = dt_arena_copy(arena, dt_strbuf_str(&text));
    dt_strbuf_clear(&text);
    return copy.p ? copy.p : "memory is out";
}

static void decode_element(struct dt_run *run, size_t i, struct dt_str text, const struct dt_job_rules *rules)
{
    struct dt_faults faults;
    struct dt_error err = {0};
    struct dt_json_limits limits = dt_job_json_limits(rules, 0);
    dt_json *json = dt_scratch_json();
    dt_faults_init(&faults, &run->req->arena);
    dt_status status = json ? dt_json_parse(json, text, &limits, &err) : DT_NOMEM;
    if (status == DT_OK)
        status = decode(run, i, json, rules, &faults);
    if (status == DT_OK)
        check_token(run, i);
    else if (status == DT_NOMEM)
        run->v[i].status = status;
    else
        dt_run_fail(&run->v[i], faults.n ? text_of(&faults, &run->req->arena) : "the command cannot be read");
}

static enum dt_next run_elements(struct dt_request *req, const struct dt_job_rules *rules, const dt_json *json)
{
    const struct dt_json_node *root = dt_json_root(json);
    if (root->n > DT_COMMANDS_MAX) {
        dt_request_refuse(req, DT_PROBLEM_TOO_LARGE, "%u commands came, at most %d are taken", root->n,
                          DT_COMMANDS_MAX);
        return DT_REPLY;
    }
    if (!hold_room(req, root->n))
        return dt_request_no_room(req);
    struct dt_run *run = run_new(req, root->n, true);
    if (!run)
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    size_t i = 0;
    for (const struct dt_json_node *e = dt_json_first(json, root); e; e = dt_json_sibling(json, root, e))
        decode_element(run, i++, e->raw, rules);
    return go_on(req);
}

/* The array has a parser of its own: each element is parsed with the thread's. */
static enum dt_next run_array(struct dt_request *req, const struct dt_job_rules *rules)
{
    struct dt_error err = {0};
    struct dt_json_limits limits = {.depth = rules->json_depth + 1, .elements = true, .nodes = 4 * DT_COMMANDS_MAX};
    dt_json *json = NULL;
    dt_status status = dt_json_new(&json);
    if (status == DT_OK)
        status = dt_json_parse(json, req->body, &limits, &err);
    enum dt_next next = status == DT_OK ? run_elements(req, rules, json) : dt_answer_status(req, status, NULL, &err);
    dt_json_free(json);
    return next;
}

static bool is_array(struct dt_str body)
{
    size_t i = 0;
    while (i < body.n && memchr(" \t\r\n", body.p[i], 4))
        i++;
    return i < body.n && body.p[i] == '[';
}

enum dt_next dt_handle_commands(struct dt_request *req)
{
    if (!dt_answer_clock(req))
        return DT_REPLY;
    struct dt_view *view = dt_topic_cache_view(req->api->topics);
    struct dt_job_rules rules = dt_answer_rules(req->api, view);
    enum dt_next next = is_array(req->body) ? run_array(req, &rules) : run_single(req, &rules);
    dt_view_release(view);
    return next;
}
