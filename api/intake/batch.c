/*
 * Chunks of a batch, and the batch's answer. A chunk is filled (`open`), passes the gate (batch_gate.h) to the queue,
 * and returns when its unit is done (`done`). Its answers are written after the answers of all earlier chunks.
 *
 * Elements with the same key must be applied in order, but chunks that are queued at the same time may be committed in
 * any order. So a chunk waits until all earlier chunks have returned if it has a key that one of them has.
 *
 * Invariants: a chunk that is not done belongs to the queue, except for its refusals; after a batch has ended early
 * (ending is set) none of its chunks is submitted any more; `hold` is at least `weight`, minus FREE_WEIGHT, and grows
 * in steps of STEP, unless the batch has ended early.
 */
#include "batch.h"

#include <utlist.h>

#include "answer.h"
#include "base/assert.h"

#define FIRST_ROWS  64                 /* capacity of a batch's first chunk, which is often the only one */
#define FREE_WEIGHT ((size_t)64 << 10) /* bytes of a batch that are not charged to the budget (limits.memory) */
#define STEP        ((size_t)64 << 10) /* the bytes that a batch charges to the budget grow by multiples of this */
#define KEEP_HELD   ((size_t)1 << 20)  /* a batch gives charged bytes back if it holds this many more than it needs */
/* The answer may be RESULTS_TIMES as long as the elements, or RESULTS_MIN bytes if that is more. Without this limit,
 * 200 KB of line feeds would cause an answer of 24 MB. */
#define RESULTS_TIMES 4
#define RESULTS_MIN   ((size_t)256 << 10)

/* Reasons why a batch ends early, and the problem that its remaining elements get. */
static const struct ending {
    enum dt_problem_type type;
    bool answers_each; /* each further element gets an answer; false: all of them get one answer together */
    const char *why;
} endings[] = {
    [DT_BATCH_LATE] = {DT_PROBLEM_TIMEOUT, true, "the request's time has ended"},
    [DT_BATCH_SHUTDOWN] = {DT_PROBLEM_UNAVAILABLE, true, "the server is shutting down"},
    [DT_BATCH_MEMORY] = {DT_PROBLEM_UNAVAILABLE, false, "all memory that limits.memory allows is in use"},
    [DT_BATCH_LONG] = {DT_PROBLEM_TOO_LARGE, false, "the results are many times as long as the request"},
    [DT_BATCH_CUT] = {DT_PROBLEM_MALFORMED, true, "the body is incomplete"},
};

struct dt_batch {
    struct dt_gate_entry entry; /* must be the first member: a pointer to it is cast to the batch */
    struct dt_slice slice;
    bool (*step)(struct dt_request *req); /* function that does one slice of feeding; NULL: not fed in slices */
    struct dt_request *req;               /* request of the batch; valid until the request ends */
    const struct dt_batch_kind *kind;
    struct dt_batch_terms terms;
    struct dt_detached *detached; /* detached answer, sent after all chunks have returned; NULL: not detached */
    bool array;
    bool has_place; /* the batch has taken one of the token's few places for paused batches (dt_tenant_take_place) */
    size_t unit_rows, elements, elements_max, bytes;
    size_t refused; /* number of elements that were refused because of a fault in them */
    bool owed;      /* the refused elements were added to the token's debt */
    struct dt_strbuf results;
    struct dt_chunk *head; /* submitted chunks, in order (utlist) */
    struct dt_chunk *open, *spare;
    const struct ending *ending; /* why the batch ended early; NULL: it has not */
    bool remainder;              /* elements after the end of the batch get one answer together */
    bool failed;                 /* memory ran out: the answer is 503 */
    struct dt_hold hold;
    size_t weight;         /* bytes of chunks and results */
    _Atomic unsigned refs; /* references: one by the request or the detached answer, and one by each queued chunk */
};

/* ---- the memory of a chunk ---- */

/* Grows the chunk's arrays: of rows, and of slots (one for each element). False: memory ran out. */
static bool grow_chunk(struct dt_chunk *chunk, size_t room)
{
    char *rows = reallocarray(chunk->rows, room, chunk->row_bytes);
    chunk->rows = rows ? rows : chunk->rows;
    struct dt_chunk_slot *slots = reallocarray(chunk->slots, room, sizeof(*slots));
    chunk->slots = slots ? slots : chunk->slots;
    if (!rows || !slots)
        return false;
    memset(rows + chunk->room * chunk->row_bytes, 0, (room - chunk->room) * chunk->row_bytes);
    chunk->room = room;
    return true;
}

static void chunk_free(struct dt_chunk *chunk)
{
    if (!chunk)
        return;
    free(chunk->rows);
    free(chunk->slots);
    free(chunk->keys);
    dt_strbuf_clear(&chunk->refusals);
    dt_arena_clear(&chunk->arena);
    free(chunk);
}

static struct dt_chunk *chunk_new(void *batch, size_t first, size_t most, size_t row_bytes)
{
    struct dt_chunk *chunk = calloc(1, sizeof(*chunk));
    if (!chunk)
        return NULL;
    chunk->batch = batch;
    chunk->room_max = most;
    chunk->row_bytes = row_bytes;
    if (grow_chunk(chunk, first < most ? first : most))
        return chunk;
    chunk_free(chunk);
    return NULL;
}

static void chunk_add_refusal(struct dt_chunk *chunk, const struct dt_problem *problem)
{
    dt_assert_cmp(chunk->n_slots, <, chunk->room);
    struct dt_chunk_slot *slot = &chunk->slots[chunk->n_slots++];
    slot->row = -1;
    slot->at = chunk->refusals.n;
    dt_problem_add(&chunk->refusals, problem, DT_STR_NONE);
    slot->n = chunk->refusals.n - slot->at;
    chunk->bytes += slot->n;
}

/* Returns the cell that holds the hash in the table of keys; if there is none, the free cell for it. */
static uint64_t *find_key_cell(const struct dt_chunk *chunk, uint64_t hash)
{
    size_t mask = chunk->keys_room - 1;
    size_t i = (size_t)hash & mask;
    while (chunk->keys[i] != 0 && chunk->keys[i] != hash)
        i = (i + 1) & mask;
    return &chunk->keys[i];
}

/* ---- memory ---- */

/* Charges the batch's weight to the budget. If the budget is used up, the batch ends early. */
static void charge_batch_bytes(struct dt_batch *batch)
{
    const size_t beyond = batch->weight > FREE_WEIGHT ? batch->weight - FREE_WEIGHT : 0;
    const size_t held = (beyond + STEP - 1) / STEP * STEP;
    if (held > batch->hold.n && !dt_hold_bulk(&batch->hold, held - batch->hold.n))
        dt_batch_end(batch, DT_BATCH_MEMORY);
    else if (held + KEEP_HELD < batch->hold.n)
        dt_hold_less(&batch->hold, batch->hold.n - held);
    dt_assert(batch->hold.n >= held || batch->ending);
}

static void update_chunk_bytes(struct dt_batch *batch, struct dt_chunk *chunk)
{
    const size_t weight =
        chunk->room * (chunk->row_bytes + sizeof(*chunk->slots)) + chunk->arena.size + chunk->refusals.cap;
    if (weight == chunk->weight)
        return;
    dt_assert_cmp(batch->weight, >=, chunk->weight);
    batch->weight = batch->weight - chunk->weight + weight;
    chunk->weight = weight;
    charge_batch_bytes(batch);
}

/* ---- chunks ---- */

/* Makes room for one more element in the open chunk. The first chunk is small at first, because it is often the only
 * one. */
static bool ensure_open_chunk(struct dt_batch *batch)
{
    if (!batch->open && batch->spare) {
        batch->open = batch->spare;
        batch->spare = NULL;
    } else if (!batch->open) {
        batch->open = chunk_new(batch, batch->elements > FIRST_ROWS ? batch->unit_rows : FIRST_ROWS, batch->unit_rows,
                                batch->kind->row_bytes);
    }
    struct dt_chunk *chunk = batch->open;
    if (chunk)
        dt_assert_cmp(chunk->n_slots, <, chunk->room_max);
    const bool open = chunk && (chunk->n_slots < chunk->room || grow_chunk(chunk, chunk->room_max));
    batch->failed = batch->failed || !open;
    return open;
}

/* ---- life ---- */

static struct dt_batch *batch_of(struct dt_gate_entry *entry)
{
    return (struct dt_batch *)entry;
}

static void resume_request(struct dt_gate_entry *entry)
{
    dt_request_resume(batch_of(entry)->req);
}

static void suspend_request(struct dt_gate_entry *entry)
{
    dt_request_suspend(batch_of(entry)->req);
}

dt_batch *dt_batch_new(struct dt_request *req, const struct dt_batch_kind *kind, bool array)
{
    struct dt_batch *batch = calloc(1, sizeof(*batch));
    if (!batch)
        return NULL;
    batch->req = req;
    batch->kind = kind;
    batch->terms.api = req->api;
    dt_caller_copy(&req->caller, &batch->terms.caller);
    batch->terms.bound = dt_wall_bound(req) ? &batch->terms.caller.topics : NULL; /* the copy, which outlives req */
    batch->terms.view = dt_topic_cache_view(req->api->topics);
    batch->terms.rules = dt_answer_rules(req->api, batch->terms.view);
    batch->array = array;
    batch->unit_rows = dt_gate_chunk_rows(kind->gate(req->api));
    batch->elements_max = (size_t)req->api->config->limits_batch_lines;
    batch->refs = 1;
    dt_gate_entry_init(&batch->entry, kind->gate(req->api), req->deadline_us, resume_request);
    dt_hold_init(&batch->hold, req->api->memory);
    return batch;
}

/* Releases what a returned chunk's unit still refers to, such as the snapshot of topics. */
static void clear_chunk(struct dt_batch *batch, struct dt_chunk *chunk)
{
    if (chunk->submitted && batch->kind->clear)
        batch->kind->clear(chunk);
}

/* Adds refused elements to the token's debt, even if the batch ended early. Returns until when the batch must pause. */
static int64_t add_refused_elements(struct dt_batch *batch, size_t elements)
{
    batch->owed = true;
    return dt_tenant_refused_elements(batch->terms.caller.tenant, elements);
}

static void release_batch_reference(struct dt_batch *batch)
{
    const unsigned refs = atomic_fetch_sub(&batch->refs, 1);
    dt_assert_cmp(refs, >, 0);
    if (refs > 1)
        return;
    while (batch->head) {
        struct dt_chunk *chunk = batch->head;
        DL_DELETE(batch->head, chunk);
        /* otherwise the queue would still use the chunk, and the batch would have another reference */
        dt_assert(chunk->done);
        clear_chunk(batch, chunk);
        chunk_free(chunk);
    }
    chunk_free(batch->open);
    chunk_free(batch->spare);
    dt_strbuf_clear(&batch->results);
    dt_view_release(batch->terms.view);
    if (!batch->owed)
        add_refused_elements(batch, batch->refused);
    dt_batch_rest_over(batch);
    dt_caller_clear(&batch->terms.caller);
    dt_hold_less(&batch->hold, DT_HOLD_ALL);
    dt_gate_entry_clear(&batch->entry);
    free(batch);
}

void dt_batch_release(dt_batch *batch)
{
    if (!batch)
        return;
    dt_gate_leave(&batch->entry);
    release_batch_reference(batch);
}

/* ---- results ---- */

static void begin_result(struct dt_batch *batch)
{
    if (batch->array)
        dt_strbuf_addc(&batch->results, batch->results.n == 0 ? '[' : ',');
}

static void end_result(struct dt_batch *batch)
{
    if (!batch->array)
        dt_strbuf_addc(&batch->results, '\n');
}

static void write_problem(struct dt_batch *batch, enum dt_problem_type type, const char *detail)
{
    dt_problem_add(&batch->results, &(struct dt_problem){.type = type, .detail = dt_str(detail)}, DT_STR_NONE);
}

#define DETAIL_BYTES 200

/* Formats "the request's time is up; no job was created", with " from here on" if onward is set. Returns text. */
static const char *format_problem_detail(const struct dt_batch *batch, const char *why, bool onward,
                                         char text[DETAIL_BYTES])
{
    snprintf(text, DETAIL_BYTES, "%s; %s%s", why, batch->kind->nothing, onward ? " from here on" : "");
    return text;
}

/* Returns whether the status says that an element was refused because of a fault in it, not because of a timeout or a
 * quota. */
static bool is_refusal(int status)
{
    return status >= 400 && status < 500 && status != 408 && status != 429;
}

static void write_chunk_answers(struct dt_batch *batch, struct dt_chunk *chunk)
{
    struct dt_strbuf *out = &batch->results;
    const size_t before = out->cap;
    char text[DETAIL_BYTES];
    dt_assert(chunk->submitted || chunk->n_rows == 0 || batch->ending);
    for (size_t i = 0; i < chunk->n_slots; i++) {
        const struct dt_chunk_slot *slot = &chunk->slots[i];
        begin_result(batch);
        if (slot->row < 0)
            dt_strbuf_add(out, chunk->refusals.p + slot->at, slot->n);
        else if (!chunk->submitted)
            write_problem(batch, batch->ending->type, format_problem_detail(batch, batch->ending->why, false, text));
        else if (!chunk->done)
            write_problem(batch, DT_PROBLEM_OUTCOME_UNKNOWN, "the database did not answer in the request's time");
        else
            batch->refused += is_refusal(batch->kind->answer(chunk, (size_t)slot->row, out));
        end_result(batch);
    }
    batch->failed = batch->failed || chunk->refusals.failed || out->failed;
    batch->weight += out->cap - before;
}

/* Writes the answers of returned chunks, in order. Keeps the memory of one chunk for the next chunk. */
static void collect_results(struct dt_batch *batch)
{
    while (batch->head && batch->head->done) {
        struct dt_chunk *chunk = batch->head;
        DL_DELETE(batch->head, chunk);
        write_chunk_answers(batch, chunk);
        clear_chunk(batch, chunk);
        chunk->n_rows = chunk->n_slots = chunk->bytes = 0;
        chunk->submitted = false;
        chunk->done = false;
        if (chunk->keys)
            memset(chunk->keys, 0, chunk->keys_room * sizeof(*chunk->keys));
        dt_strbuf_reset(&chunk->refusals);
        dt_arena_reset(&chunk->arena);
        if (batch->spare) {
            dt_assert_cmp(batch->weight, >=, chunk->weight);
            batch->weight -= chunk->weight;
            chunk_free(chunk);
        } else {
            batch->spare = chunk;
        }
        charge_batch_bytes(batch);
    }
}

/* ---- to the queue and back ---- */

static void mark_chunk_done(void *arg, unsigned)
{
    struct dt_chunk *chunk = arg;
    dt_assert(chunk->submitted && !chunk->done);
    chunk->done = true; /* from now on, the thread that owns the batch may empty the chunk */
}

void dt_batch_came_back(struct dt_chunk *chunk)
{
    struct dt_batch *batch = chunk->batch;
    dt_gate_back(&batch->entry, dt_gate_weight(batch->entry.gate, chunk->n_rows, chunk->bytes), mark_chunk_done, chunk);
    release_batch_reference(batch);
}

static void append_open_chunk(struct dt_batch *batch, struct dt_chunk *chunk)
{
    batch->open = NULL;
    batch->entry.in_order = false;
    DL_APPEND(batch->head, chunk);
}

/* Closes the open chunk without submitting it. Its elements get the problem that ended the batch. */
static void close_open_chunk(struct dt_batch *batch)
{
    if (!batch->open || batch->open->n_slots == 0)
        return;
    batch->open->done = true;
    append_open_chunk(batch, batch->open);
}

bool dt_batch_flush(dt_batch *batch)
{
    struct dt_chunk *chunk = batch->open;
    if (!chunk || chunk->n_slots == 0)
        return true;
    if (chunk->n_rows == 0) {
        close_open_chunk(batch);
        return true;
    }
    dt_assert(!batch->ending);
    dt_assert_cmp(chunk->n_rows, <=, batch->unit_rows);
    if (!dt_gate_pass(&batch->entry, dt_gate_weight(batch->entry.gate, chunk->n_rows, chunk->bytes)))
        return false;
    append_open_chunk(batch, chunk);
    chunk->submitted = true;
    atomic_fetch_add(&batch->refs, 1);
    batch->kind->submit(&batch->terms, chunk, batch->entry.deadline_us);
    return true;
}

/* ---- ends ---- */

void dt_batch_end(dt_batch *batch, enum dt_batch_end why)
{
    if (batch->ending)
        return;
    batch->ending = &endings[why];
    if (why == DT_BATCH_CUT)
        add_refused_elements(batch, batch->elements);
    close_open_chunk(batch);
}

bool dt_batch_look(dt_batch *batch)
{
    batch->entry.deadline_us = batch->req->deadline_us; /* the deadline moves if the process is stopped for a while */
    switch (dt_gate_ended(&batch->entry, dt_clock_mono_us(batch->terms.api->clock))) {
    case DT_GATE_CLOSED:
        dt_batch_end(batch, DT_BATCH_SHUTDOWN);
        break;
    case DT_GATE_LATE:
        dt_batch_end(batch, DT_BATCH_LATE);
        break;
    case DT_GATE_OPEN:
        break;
    }
    return batch->ending != NULL;
}

bool dt_batch_over(dt_batch *batch)
{
    const size_t n = batch->results.n + (batch->open ? batch->open->refusals.n : 0);
    if (n > RESULTS_MIN + RESULTS_TIMES * batch->bytes)
        dt_batch_end(batch, DT_BATCH_LONG);
    if (batch->ending && !batch->ending->answers_each)
        return true;
    return batch->failed || batch->elements >= 2 * batch->elements_max;
}

void dt_batch_remainder(dt_batch *batch)
{
    batch->remainder = batch->ending != NULL;
}

bool dt_batch_room(dt_batch *batch)
{
    collect_results(batch);
    const struct dt_chunk *chunk = batch->open;
    const bool full = chunk && (chunk->n_slots == batch->unit_rows || chunk->bytes >= DT_BATCH_CHUNK_BYTES);
    return !full || dt_batch_flush(batch);
}

bool dt_batch_wait(dt_batch *batch, bool finished)
{
    /* If the batch is fed in slices, its request is suspended already, so dt_gate_wait need not suspend it. */
    bool wait = dt_gate_wait(&batch->entry, finished ? DT_GATE_ALL : DT_GATE_ROOM,
                             batch->entry.call == resume_request ? suspend_request : NULL);
    if (!wait)
        dt_batch_look(batch); /* ends the batch if the server ends (the gate is closed) */
    return wait;
}

/* ---- slices ---- */

static bool run_batch_slice(struct dt_slice *slice)
{
    struct dt_batch *batch = (struct dt_batch *)((char *)slice - offsetof(struct dt_batch, slice));
    return batch->step(batch->req);
}

static void queue_batch_slice(struct dt_gate_entry *entry)
{
    struct dt_batch *batch = batch_of(entry);
    /* Queueing the slice cannot fail: the workers stop after the queues, and no batch waits after the queues have
     * stopped. */
    (void)dt_workers_slice(batch->terms.api->workers, &batch->slice);
}

bool dt_batch_run_in_slices(dt_batch *batch, bool (*step)(struct dt_request *req))
{
    batch->step = step;
    batch->slice.run = run_batch_slice;
    batch->entry.call = queue_batch_slice;
    bool queued = dt_workers_slice(batch->terms.api->workers, &batch->slice);
    if (!queued)
        dt_batch_leave_slices(batch);
    return queued;
}

void dt_batch_leave_slices(dt_batch *batch)
{
    batch->entry.call = resume_request;
}

enum dt_batch_beginning dt_batch_begin(dt_batch *batch)
{
    dt_tenant *tenant = batch->terms.caller.tenant;
    if (dt_tenant_rests_until(tenant) == 0)
        return DT_BATCH_AT_ONCE;
    batch->has_place = dt_tenant_take_place(tenant);
    return batch->has_place ? DT_BATCH_RESTS : DT_BATCH_NO_PLACE;
}

void dt_batch_rest_over(dt_batch *batch)
{
    if (batch->has_place)
        dt_tenant_give_place(batch->terms.caller.tenant);
    batch->has_place = false;
}

bool dt_batch_rest(dt_batch *batch, enum dt_batch_rest when)
{
    int64_t until_us;
    if (when == DT_BATCH_REST_FIRST) {
        until_us = dt_tenant_rests_until(batch->terms.caller.tenant);
    } else {
        collect_results(batch);
        until_us = add_refused_elements(batch, batch->refused);
    }
    return until_us &&
           dt_gate_rest(&batch->entry, until_us, batch->entry.call == resume_request ? suspend_request : NULL);
}

/* ---- elements ---- */

void dt_batch_refuse(dt_batch *batch, enum dt_problem_type type, const char *why, bool onward)
{
    char text[DETAIL_BYTES];
    batch->elements++;
    batch->refused += is_refusal(dt_problem_http_status(type));
    batch->bytes++;
    if (!ensure_open_chunk(batch))
        return;
    chunk_add_refusal(
        batch->open,
        &(struct dt_problem){.type = type, .detail = dt_str(format_problem_detail(batch, why, onward, text))});
    update_chunk_bytes(batch, batch->open);
}

static void refuse_invalid_element(struct dt_batch *batch, dt_status status, const struct dt_faults *faults,
                                   const struct dt_error *err)
{
    struct dt_problem problem = {.type = dt_problem_of_status(status), .faults = faults};
    char text[sizeof(err->text) + 40];
    if (status == DT_MALFORMED) {
        snprintf(text, sizeof(text), "line %zu: %s", batch->elements, err->text);
        problem.detail = dt_str(text);
    } else if (err->text[0])
        problem.detail = dt_str(err->text);
    else if (faults->n > 0)
        problem.detail = DT_STR_LIT("see errors for each invalid member");
    batch->refused += is_refusal(dt_problem_http_status(problem.type));
    chunk_add_refusal(batch->open, &problem);
}

/* Adds the key of the next row to the open chunk. If an earlier chunk may have the same key, the open chunk must wait
 * until all earlier chunks have returned. False: out of memory. */
static bool record_key(struct dt_batch *batch, struct dt_chunk *chunk)
{
    uint64_t hash = batch->kind->key_of ? batch->kind->key_of(dt_chunk_row(chunk, chunk->n_rows)) : 0;
    if (hash == 0)
        return true;
    for (const struct dt_chunk *c = batch->head; c && !batch->entry.in_order; c = c->next)
        batch->entry.in_order = c->keys && *find_key_cell(c, hash) != 0;
    if (!chunk->keys) {
        /* The size is a power of two and at least twice the number of keys, so that there is always a free cell. */
        for (chunk->keys_room = 16; chunk->keys_room < 2 * chunk->room_max;)
            chunk->keys_room *= 2;
        chunk->keys = calloc(chunk->keys_room, sizeof(*chunk->keys));
    }
    dt_assert_cmp(chunk->n_rows, <, chunk->keys_room / 2);
    if (chunk->keys)
        *find_key_cell(chunk, hash) = hash;
    return chunk->keys != NULL;
}

void dt_batch_add(dt_batch *batch, struct dt_str text, bool keep)
{
    if (batch->ending || batch->elements >= batch->elements_max) {
        if (batch->ending)
            dt_batch_refuse(batch, batch->ending->type, batch->ending->why, false);
        else
            dt_batch_refuse(batch, DT_PROBLEM_TOO_LARGE, "the element is beyond limits.batch_lines", false);
        batch->bytes += text.n;
        return;
    }
    batch->elements++;
    batch->bytes += text.n + 1;
    if (!ensure_open_chunk(batch))
        return;
    struct dt_chunk *chunk = batch->open;
    const struct dt_json_limits limits = dt_job_json_limits(batch->terms.rules.json_depth);
    struct dt_faults faults = {.arena = &chunk->arena};
    struct dt_error err; /* initialized below: err is large, so only its beginning is cleared for each element */
    err.status = DT_OK;
    err.text[0] = '\0';
    dt_json *json = dt_scratch_json();
    dt_status status = json ? dt_json_parse(json, text, &limits, &err) : DT_NOMEM;
    DT_THEN(status, batch->kind->decode(&batch->terms, json, keep, chunk, &faults, &err));
    if (status == DT_OK && !record_key(batch, chunk))
        status = DT_NOMEM;
    if (status == DT_OK) {
        dt_assert_cmp(chunk->n_slots, <, chunk->room);
        dt_assert_cmp(chunk->n_rows, <=, chunk->n_slots);
        chunk->slots[chunk->n_slots++] = (struct dt_chunk_slot){.row = (int64_t)chunk->n_rows++};
        chunk->bytes += text.n;
    } else {
        refuse_invalid_element(batch, status, &faults, &err);
    }
    update_chunk_bytes(batch, chunk);
}

/* ---- the answer ---- */

/* Writes the answers of all chunks. If a chunk has not returned by now, its outcome is unknown. */
static void write_all_answers(struct dt_batch *batch)
{
    dt_gate_leave(&batch->entry);
    collect_results(batch);
    for (struct dt_chunk *chunk = batch->head; chunk; chunk = chunk->next)
        write_chunk_answers(batch, chunk);
    char text[DETAIL_BYTES];
    if (batch->remainder) {
        begin_result(batch);
        write_problem(batch, batch->ending->type, format_problem_detail(batch, batch->ending->why, true, text));
        end_result(batch);
    }
    if (batch->array)
        dt_strbuf_adds(&batch->results, batch->results.n == 0 ? "[]" : "]");
}

static const char *media_type_of(const struct dt_batch *batch)
{
    return batch->array ? "application/json" : "application/x-ndjson";
}

void dt_batch_answer(dt_batch *batch)
{
    struct dt_request *req = batch->req;
    write_all_answers(batch);
    if (batch->failed || batch->results.failed) {
        dt_request_refuse(req, DT_PROBLEM_OUTCOME_UNKNOWN, "out of memory: some elements may have been committed");
        return;
    }
    dt_strbuf_fit(&batch->results);
    struct dt_strbuf empty = req->out;
    req->out = batch->results;
    batch->results = empty;
    dt_hold_move(&batch->hold, &req->hold, req->out.cap);
    req->status = 200;
    req->reply_type = media_type_of(batch);
}

/* Called when all chunks have returned or their time is up, by the thread that feeds the batch in slices or by the one
 * that detached the answer. */
static bool send_answer(struct dt_slice *slice)
{
    struct dt_batch *batch = (struct dt_batch *)((char *)slice - offsetof(struct dt_batch, slice));
    write_all_answers(batch);
    dt_strbuf_fit(&batch->results);
    dt_detached_answer(batch->detached, batch->failed ? 0 : 200, media_type_of(batch), &batch->results, &batch->hold);
    release_batch_reference(batch);
    return false;
}

void dt_batch_detach(dt_batch *batch)
{
    if (batch->elements == 0)
        return; /* no element was submitted, so the request ends as usual */
    dt_batch_remainder(batch);
    dt_gate_leave(&batch->entry);
    batch->detached = dt_request_detach(batch->req);
    if (!batch->detached)
        return;
    atomic_fetch_add(&batch->refs, 1);
    batch->slice.run = send_answer;
    batch->entry.call = queue_batch_slice;
    if (!dt_gate_wait(&batch->entry, DT_GATE_ALL, NULL))
        send_answer(&batch->slice);
}
