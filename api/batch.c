/*
 * Many jobs of one request: see batch.h.
 *
 * All batches of the process pass one gate, so that however many there are, they take at most half of the committer's
 * queue and single creates find room: a batch with a full chunk waits its turn. Invariants, under the gate's lock: rows
 * = rows of all chunks at the committer; a batch stands in the line exactly while it waits for room; when chunks come
 * back as many of the first in the line are woken as fit. One chunk always passes when no other is under way.
 *
 * Elements with one key must be made in their order, but chunks that are under way together are committed in any: a
 * chunk with a key of an earlier chunk that may still be under way waits until all of them are back.
 */
#include "batch.h"

#include <pthread.h>
#include <stdlib.h>

#include "answer.h"
#include "create.h"
#include "scratch.h"

/* The place of one element: a row of the unit, or the text of its refusal. */
struct slot {
    int64_t row; /* -1 = refused */
    size_t at, n;
};

struct chunk {
    struct chunk *next;
    struct dt_batch *batch;
    struct dt_unit unit;
    struct dt_create *rows; /* unit_rows of them; what is not the decoder's to fill in is the committer's */
    struct slot *slots;     /* likewise */
    uint64_t *keys;         /* hashes of its rows' keys, keys_room(batch) places, 0 = free */
    size_t n_rows, n_slots, bytes;
    struct dt_strbuf refusals;
    struct dt_arena arena;
    _Atomic bool done; /* set under the gate's lock, looked at without: for each line */
};

enum wait { WAIT_NONE, WAIT_ROOM, WAIT_ALL };

static struct gate {
    pthread_mutex_t lock;
    size_t rows;
    struct dt_batch *first, *last; /* in line for room */
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct dt_batch {
    struct dt_request *req;
    struct dt_caller caller; /* chunks outlive the request */
    struct dt_view *view;    /* whose installation the rules borrow */
    struct dt_job_rules rules;
    bool array;
    size_t unit_rows, elements, elements_max;
    struct dt_strbuf results;
    struct chunk *head, **tail; /* submitted, in order */
    struct chunk *open, *spare;
    bool in_order; /* the open chunk has a key of one that may be under way */
    bool failed;   /* memory was out */

    size_t gate_rows; /* most rows of all batches at the committer */
    pthread_cond_t woken;
    /* Under the gate's lock. */
    unsigned refs; /* the request's, and one for each chunk under way */
    unsigned under_way;
    enum wait waiting;
    bool blocking; /* the waiter is a thread, not a suspended request */
    struct dt_batch *behind;
};

/* ---- chunks ---- */

static void chunk_free(struct chunk *chunk)
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

/* A power of two, at least twice as many as there can be keys. */
static size_t keys_room(const struct dt_batch *batch)
{
    size_t room = 16;
    while (room < 2 * batch->unit_rows)
        room *= 2;
    return room;
}

static struct chunk *chunk_new(struct dt_batch *batch)
{
    struct chunk *chunk = calloc(1, sizeof(*chunk));
    if (!chunk)
        return NULL;
    chunk->batch = batch;
    dt_strbuf_init(&chunk->refusals);
    dt_arena_init(&chunk->arena);
    chunk->rows = calloc(batch->unit_rows, sizeof(*chunk->rows));
    chunk->slots = calloc(batch->unit_rows, sizeof(*chunk->slots));
    chunk->keys = calloc(keys_room(batch), sizeof(*chunk->keys));
    if (chunk->rows && chunk->slots && chunk->keys)
        return chunk;
    chunk_free(chunk);
    return NULL;
}

static void chunk_empty(struct chunk *chunk)
{
    chunk->next = NULL;
    chunk->n_rows = chunk->n_slots = chunk->bytes = 0;
    chunk->done = false;
    memset(chunk->keys, 0, keys_room(chunk->batch) * sizeof(*chunk->keys));
    dt_strbuf_reset(&chunk->refusals);
    dt_arena_reset(&chunk->arena);
}

static bool open_chunk(struct dt_batch *batch)
{
    if (!batch->open) {
        batch->open = batch->spare ? batch->spare : chunk_new(batch);
        batch->spare = batch->open == batch->spare ? NULL : batch->spare;
    }
    batch->failed = batch->failed || !batch->open;
    return batch->open != NULL;
}

static bool is_full(const struct dt_batch *batch)
{
    const struct chunk *chunk = batch->open;
    return chunk && (chunk->n_slots == batch->unit_rows || chunk->bytes >= DT_BATCH_CHUNK_BYTES);
}

/* ---- life ---- */

dt_batch *dt_batch_new(struct dt_request *req, bool array)
{
    struct dt_batch *batch = calloc(1, sizeof(*batch));
    if (!batch)
        return NULL;
    batch->req = req;
    dt_caller_copy(&req->caller, &batch->caller);
    batch->array = array;
    batch->view = dt_topic_cache_view(req->api->topics);
    batch->rules = dt_answer_rules(req->api, batch->view);
    batch->unit_rows = dt_committer_unit_rows(req->api->committer);
    batch->elements_max = (size_t)req->api->config->limits_batch_lines;
    dt_strbuf_init(&batch->results);
    batch->tail = &batch->head;
    batch->refs = 1;
    batch->gate_rows = (size_t)req->api->config->api_queue_jobs / 2;
    pthread_cond_init(&batch->woken, NULL);
    return batch;
}

static void batch_free(struct dt_batch *batch)
{
    while (batch->head) {
        struct chunk *chunk = batch->head;
        batch->head = chunk->next;
        if (chunk->n_rows > 0)
            dt_unit_clear(&chunk->unit);
        chunk_free(chunk);
    }
    chunk_free(batch->open);
    chunk_free(batch->spare);
    dt_strbuf_clear(&batch->results);
    dt_view_release(batch->view);
    dt_caller_clear(&batch->caller);
    pthread_cond_destroy(&batch->woken);
    free(batch);
}

void dt_batch_release(dt_batch *batch)
{
    if (!batch)
        return;
    pthread_mutex_lock(&gate.lock);
    bool last = --batch->refs == 0;
    pthread_mutex_unlock(&gate.lock);
    if (last)
        batch_free(batch);
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

static void write_row(struct dt_batch *batch, struct chunk *chunk, const struct dt_create *row)
{
    struct dt_faults faults;
    struct dt_problem problem;
    dt_faults_init(&faults, &chunk->arena);
    int status = dt_create_verdict(&chunk->unit, row, &faults, &problem);
    if (status == 0) {
        dt_problem_add(&batch->results, &problem, DT_STR_NONE);
        return;
    }
    dt_strbuf_adds(&batch->results, status == 201 ? "{\"status\":201,\"id\":\"" : "{\"status\":200,\"id\":\"");
    dt_strbuf_add_i64(&batch->results, status == 201 ? row->row.job.id : row->row.existing_id);
    dt_strbuf_adds(&batch->results, "\"}");
}

static void write_chunk(struct dt_batch *batch, struct chunk *chunk)
{
    for (size_t i = 0; i < chunk->n_slots; i++) {
        const struct slot *slot = &chunk->slots[i];
        begin_result(batch);
        if (slot->row >= 0)
            write_row(batch, chunk, &chunk->rows[slot->row]);
        else
            dt_strbuf_add(&batch->results, chunk->refusals.p + slot->at, slot->n);
        end_result(batch);
    }
    batch->failed = batch->failed || chunk->refusals.failed || batch->results.failed;
}

/* Writes what came back, in order; one chunk's memory is kept for the next. */
static void collect(struct dt_batch *batch)
{
    while (batch->head && batch->head->done) {
        struct chunk *chunk = batch->head;
        batch->head = chunk->next;
        if (!batch->head)
            batch->tail = &batch->head;
        write_chunk(batch, chunk);
        if (chunk->n_rows > 0)
            dt_unit_clear(&chunk->unit);
        chunk_empty(chunk);
        if (batch->spare)
            chunk_free(chunk);
        else
            batch->spare = chunk;
    }
}

/* ---- the gate: all of it under its lock ---- */

static bool fits(const struct dt_batch *batch, size_t rows)
{
    if (batch->in_order && batch->under_way > 0)
        return false;
    return batch->under_way < DT_BATCH_UNDER_WAY && (rows == 0 || rows + batch->unit_rows <= batch->gate_rows);
}

static bool must_wait(const struct dt_batch *batch, enum wait what)
{
    return what == WAIT_ALL ? batch->under_way > 0 : !fits(batch, gate.rows);
}

static void stand_in_line(struct dt_batch *batch)
{
    batch->behind = NULL;
    if (gate.last)
        gate.last->behind = batch;
    else
        gate.first = batch;
    gate.last = batch;
}

static void wake(struct dt_batch *batch)
{
    batch->waiting = WAIT_NONE;
    if (batch->blocking)
        pthread_cond_signal(&batch->woken);
    else
        dt_request_resume(batch->req);
}

/* As many of the line as fit, first come first served; a batch that is held back by its own chunks lets others pass. */
static void call_line(void)
{
    size_t rows = gate.rows;
    struct dt_batch *batch = gate.first;
    gate.first = gate.last = NULL;
    while (batch) {
        struct dt_batch *behind = batch->behind;
        if (fits(batch, rows)) {
            rows += batch->unit_rows;
            wake(batch);
        } else {
            stand_in_line(batch);
        }
        batch = behind;
    }
}

static void wait_for(struct dt_batch *batch, enum wait what, bool blocking)
{
    batch->waiting = what;
    batch->blocking = blocking;
    if (what == WAIT_ROOM)
        stand_in_line(batch);
}

/* ---- to the committer and back ---- */

/* On a committer's thread, or inside the submit. */
static void came_back(struct dt_unit *unit)
{
    struct chunk *chunk = unit->arg;
    struct dt_batch *batch = chunk->batch;
    pthread_mutex_lock(&gate.lock);
    batch->under_way--;
    gate.rows -= chunk->n_rows;
    chunk->done = true; /* from here on it may be emptied */
    if (batch->waiting == WAIT_ALL && batch->under_way == 0)
        wake(batch);
    call_line();
    bool last = --batch->refs == 0;
    pthread_mutex_unlock(&gate.lock);
    if (last)
        batch_free(batch);
}

static bool pass_gate(struct dt_batch *batch, size_t rows)
{
    pthread_mutex_lock(&gate.lock);
    bool room = fits(batch, gate.rows);
    if (room) {
        gate.rows += rows;
        batch->under_way++;
        batch->refs++;
    }
    pthread_mutex_unlock(&gate.lock);
    return room;
}

static void append(struct dt_batch *batch, struct chunk *chunk)
{
    batch->open = NULL;
    batch->in_order = false;
    *batch->tail = chunk;
    batch->tail = &chunk->next;
}

bool dt_batch_flush(dt_batch *batch)
{
    struct chunk *chunk = batch->open;
    if (!chunk || chunk->n_slots == 0)
        return true;
    if (chunk->n_rows == 0) {
        chunk->done = true;
        append(batch, chunk);
        return true;
    }
    if (!pass_gate(batch, chunk->n_rows))
        return false;
    append(batch, chunk);
    chunk->unit = (struct dt_unit){.rows = chunk->rows,
                                   .n = chunk->n_rows,
                                   .deadline_us = batch->req->deadline_us,
                                   .caller = &batch->caller,
                                   .done = came_back,
                                   .arg = chunk};
    dt_committer_submit(batch->req->api->committer, &chunk->unit);
    return true;
}

bool dt_batch_room(dt_batch *batch)
{
    collect(batch);
    return !is_full(batch) || dt_batch_flush(batch);
}

bool dt_batch_suspend(dt_batch *batch, bool finished)
{
    enum wait what = finished ? WAIT_ALL : WAIT_ROOM;
    pthread_mutex_lock(&gate.lock);
    bool wait = must_wait(batch, what);
    if (wait) {
        dt_request_suspend(batch->req);
        wait_for(batch, what, false);
    }
    pthread_mutex_unlock(&gate.lock);
    return wait;
}

void dt_batch_wait(dt_batch *batch, bool finished)
{
    enum wait what = finished ? WAIT_ALL : WAIT_ROOM;
    pthread_mutex_lock(&gate.lock);
    if (must_wait(batch, what)) {
        wait_for(batch, what, true);
        while (batch->waiting != WAIT_NONE)
            pthread_cond_wait(&batch->woken, &gate.lock);
    }
    pthread_mutex_unlock(&gate.lock);
}

/* ---- elements ---- */

static void refuse(struct dt_batch *batch, const struct dt_problem *problem)
{
    struct chunk *chunk = batch->open;
    struct slot *slot = &chunk->slots[chunk->n_slots++];
    slot->row = -1;
    slot->at = chunk->refusals.n;
    dt_problem_add(&chunk->refusals, problem, DT_STR_NONE);
    slot->n = chunk->refusals.n - slot->at;
    chunk->bytes += slot->n;
}

void dt_batch_refuse(dt_batch *batch, enum dt_problem_type type, const char *detail)
{
    batch->elements++;
    if (open_chunk(batch))
        refuse(batch, &(struct dt_problem){.type = type, .detail = dt_str(detail)});
}

static dt_status decode(struct dt_batch *batch, struct dt_str text, struct dt_faults *faults, struct dt_new_job *job,
                        struct dt_error *err)
{
    struct dt_json_limits limits = dt_job_json_limits(&batch->rules, 0);
    dt_json *json = dt_scratch_json();
    dt_status status = json ? dt_json_parse(json, text, &limits, err) : DT_NOMEM;
    if (status != DT_OK)
        return status;
    return dt_job_decode(json, dt_json_root(json), &batch->rules, DT_STR_NONE, DT_STR_NONE,
                         dt_refclock_latest_ms(batch->req->api->ref), faults, job);
}

static void refuse_decoded(struct dt_batch *batch, dt_status status, const struct dt_faults *faults,
                           const struct dt_error *err)
{
    struct dt_problem problem = {.type = dt_problem_of_status(status), .faults = faults};
    char place[sizeof err->text + 40];
    if (status == DT_MALFORMED) {
        snprintf(place, sizeof place, "line %zu: %s", batch->elements, err->text);
        problem.detail = dt_str(place);
    } else if (err->text[0])
        problem.detail = dt_str(err->text);
    else if (faults->n > 0)
        problem.detail = DT_STR_LIT("see errors for each member that is wrong");
    refuse(batch, &problem);
}

/* The place of a hash in a chunk's table, or the free one where it would stand. */
static uint64_t *key_place(const struct dt_batch *batch, const struct chunk *chunk, uint64_t hash)
{
    size_t mask = keys_room(batch) - 1, i = (size_t)hash & mask;
    while (chunk->keys[i] != 0 && chunk->keys[i] != hash)
        i = (i + 1) & mask;
    return &chunk->keys[i];
}

static void note_key(struct dt_batch *batch, struct chunk *chunk, const struct dt_new_job *job)
{
    if (!job->key.p)
        return;
    uint64_t hash = dt_key_hash(job->topic, job->key);
    *key_place(batch, chunk, hash) = hash;
    for (const struct chunk *c = batch->head; c && !batch->in_order; c = c->next)
        batch->in_order = *key_place(batch, c, hash) != 0;
}

/* A payload of a request that is streamed lives in the chunk, others stay in the body. */
static bool keep_payload(struct chunk *chunk, struct dt_new_job *job)
{
    if (job->payload_binary)
        return true;
    job->payload = dt_arena_copy(&chunk->arena, job->payload);
    return job->payload.p != NULL;
}

/* Mostly the topic of the element before: with one text for both, whoever compares them later need not read it. */
static void share_topic(const struct chunk *chunk, struct dt_new_job *job)
{
    if (chunk->n_rows == 0)
        return;
    struct dt_str before = chunk->rows[chunk->n_rows - 1].row.job.topic;
    if (dt_str_eq(before, job->topic))
        job->topic = before;
}

static void add(struct dt_batch *batch, struct dt_str text, bool keep)
{
    struct chunk *chunk = batch->open;
    struct dt_create *row = &chunk->rows[chunk->n_rows];
    struct dt_faults faults;
    struct dt_error err; /* large: for each element only its beginning is emptied */
    err.status = DT_OK;
    err.text[0] = '\0';
    dt_faults_init(&faults, &chunk->arena);
    dt_status status = decode(batch, text, &faults, &row->row.job, &err);
    if (status == DT_OK && keep && !keep_payload(chunk, &row->row.job))
        status = DT_NOMEM;
    if (status != DT_OK) {
        refuse_decoded(batch, status, &faults, &err);
        return;
    }
    if (!dt_caller_sees(&batch->caller, row->row.job.topic)) {
        refuse(batch, &(struct dt_problem){.type = DT_PROBLEM_NOT_FOUND, .detail = DT_STR_LIT("no such topic")});
        return;
    }
    share_topic(chunk, &row->row.job);
    note_key(batch, chunk, &row->row.job);
    chunk->slots[chunk->n_slots++] = (struct slot){.row = (int64_t)chunk->n_rows++};
    chunk->bytes += text.n;
}

void dt_batch_add(dt_batch *batch, struct dt_str text, bool keep)
{
    if (batch->elements >= batch->elements_max) {
        dt_batch_refuse(batch, DT_PROBLEM_TOO_LARGE, "is beyond limits.batch_lines; no job was made");
        return;
    }
    batch->elements++;
    if (open_chunk(batch))
        add(batch, text, keep);
}

bool dt_batch_over(const dt_batch *batch)
{
    return batch->failed || batch->elements >= 2 * batch->elements_max;
}

void dt_batch_answer(dt_batch *batch)
{
    struct dt_request *req = batch->req;
    collect(batch);
    if (batch->array)
        dt_strbuf_adds(&batch->results, batch->results.n == 0 ? "[]" : "]");
    if (batch->failed || batch->results.failed) {
        dt_request_refuse(req, DT_PROBLEM_OUTCOME_UNKNOWN,
                          "memory was out in the middle: some jobs may have been made");
        return;
    }
    struct dt_strbuf empty = req->out;
    req->out = batch->results;
    batch->results = empty;
    req->status = 200;
    req->reply_type = batch->array ? "application/json" : "application/x-ndjson";
}
