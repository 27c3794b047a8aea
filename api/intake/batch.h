/*
 * A batch: many elements of one request, taken one by one in order. The answers have the same order. Earlier chunks of
 * elements are committed while later elements arrive. An element is a new job or a result; the kind of the batch says
 * which.
 *
 *   element -> decoded into the open chunk (a unit of its queue) -> full: submitted -> done -> answers written
 *
 * An element that is refused (400, 413, 422, 404) keeps its place in the chunk, with the text of its answer. At most
 * DT_BATCH_UNDER_WAY chunks are queued at a time: before each element the feeder calls dt_batch_room. If dt_batch_room
 * returns false, the feeder waits with the request suspended.
 *
 * A batch may end early: its deadline passes, the server ends, memory is scarce, its answer would be too large for its
 * body, or the body breaks off. After that no further element is submitted. The answer has the outcome of each element
 * that arrived before the end; one last answer covers the later elements (dt_batch_remainder). So no client needs to
 * repeat finished elements.
 *
 * The thread that owns the request owns the batch; other threads only set `done` of a chunk. A batch lives until its
 * request is cleaned up and its last chunk has returned.
 */
#pragma once

#include "api.h"
#include "batch_gate.h"
#include "committer.h"
#include "job/job_json.h"
#include "job/problem.h"
#include "request/auth.h"
#include "request/request.h"
#include "results_rest.h"

/* One element of a chunk. */
struct dt_chunk_slot {
    int64_t row;  /* index in the rows of the unit; -1: the element was refused */
    size_t at, n; /* position and length of a refused element's answer in `refusals` */
};

/* Elements of a batch that are queued together: the rows of one unit, and the answers of refused elements. The chunk
 * owns the memory of both. While the unit is queued, the queue owns the unit and its rows. */
struct dt_chunk {
    struct dt_chunk *prev, *next; /* neighbours in the batch's list of chunks */
    void *batch;
    union { /* which member is used depends on the kind of the batch */
        struct dt_unit jobs;
        struct dt_reports results;
    } unit;
    char *rows; /* rows of the unit: the decoder sets the inputs, the queue sets the outputs */
    size_t row_bytes;
    struct dt_chunk_slot *slots;
    size_t n_rows, n_slots;
    size_t room, room_max; /* current and maximal number of rows and slots */
    uint64_t *keys; /* hash table of the rows' keys, with keys_room cells; 0: free cell. Allocated for the first key */
    size_t keys_room;
    size_t bytes;  /* total size of elements and refusals */
    size_t weight; /* bytes of the chunk's memory that count in the batch's weight */
    struct dt_strbuf refusals;
    struct dt_arena arena; /* memory of texts in the rows */
    bool submitted;
    _Atomic bool done; /* set under the gate's lock, read without it */
};

/* Returns row i. The next element is decoded into row n_rows. */
static inline void *dt_chunk_row(const struct dt_chunk *chunk, size_t i)
{
    return chunk->rows + i * chunk->row_bytes;
}

/* A chunk is full if its elements have this many bytes, or if it has the maximal number of rows of a unit. */
#define DT_BATCH_CHUNK_BYTES (1U << 20)

typedef struct dt_batch dt_batch;

/* What the decoder of elements needs; lives as long as the batch. */
struct dt_batch_terms {
    const struct dt_api *api;
    struct dt_caller caller;            /* a copy, because chunks outlive the request */
    const struct dt_topic_bound *bound; /* topics that the caller sees; NULL: all topics */
    struct dt_view *view;               /* the snapshot that `rules` borrows from */
    struct dt_job_rules rules;
};

/* Functions for a kind of element. The thread that owns the batch calls these functions; a unit's `done` may be called
 * on any thread. */
struct dt_batch_kind {
    struct dt_stream stream; /* must be the first member: a route's stream is cast to its kind */
    const char *nothing;     /* text for problems that says that nothing was done with an element */
    const char *elements;    /* text for problems that names the elements of an array */
    size_t row_bytes;
    struct dt_gate *(*gate)(const struct dt_api *api);
    /* Decodes an element into the chunk's next row. keep: copy texts that would otherwise be borrowed from the element.
     * If the element is refused, err or faults have the reason. */
    dt_status (*decode)(const struct dt_batch_terms *terms, const dt_json *json, bool keep, struct dt_chunk *chunk,
                        struct dt_faults *faults, struct dt_error *err);
    /* Returns the hash of an element's key; 0: it has no key. Elements with the same key are committed in their order.
     * key_of NULL: all chunks may be submitted at once, because the queue of this kind is first in, first out. */
    uint64_t (*key_of)(const void *row);
    /* Queues the chunk's unit. When the unit is done, its `done` must call dt_batch_came_back. */
    void (*submit)(const struct dt_batch_terms *terms, struct dt_chunk *chunk, int64_t deadline_us);
    /* Adds the answer of a row whose unit has returned; returns the row's HTTP status. */
    int (*answer)(struct dt_chunk *chunk, size_t row, struct dt_strbuf *out);
    void (*clear)(struct dt_chunk *chunk); /* releases what a returned unit holds; NULL: there is nothing to release */
};
extern const struct dt_batch_kind dt_batch_of_jobs;    /* new jobs (create_rest.c) */
extern const struct dt_batch_kind dt_batch_of_results; /* results (results_rest.c) */
/* Marks the chunk as done. Called when its unit is done, on any thread. */
void dt_batch_came_back(struct dt_chunk *chunk);

/* Creates the batch of a request. array: the answer is one JSON array; otherwise one line for each element. NULL:
 * memory ran out. */
dt_batch *dt_batch_new(struct dt_request *req, const struct dt_batch_kind *kind, bool array);
/* Releases the request's reference. The batch lives on while chunks are queued. Accepts NULL. */
void dt_batch_release(dt_batch *batch);

/* Returns true if another element may be added now. Before that, writes the answers of returned chunks. */
bool dt_batch_room(dt_batch *batch);
/* Parses and decodes one element, and adds it to the open chunk, which must have room. keep: copy the text, because it
 * does not outlive the call. If the batch has ended, or has more than limits.batch_lines elements, the element is
 * refused. */
void dt_batch_add(dt_batch *batch, struct dt_str text, bool keep);
/* Refuses an element that was not parsed, such as a line that is too long. The open chunk must have room. The batch
 * adds to `why` that nothing was done, and "from here on" if onward is set. */
void dt_batch_refuse(dt_batch *batch, enum dt_problem_type type, const char *why, bool onward);
/* Returns true if no more elements are accepted: memory ran out, the answer is too large for the body, or the body had
 * twice as many elements as limits.batch_lines allows. */
bool dt_batch_over(dt_batch *batch);

enum dt_batch_end { DT_BATCH_LATE, DT_BATCH_SHUTDOWN, DT_BATCH_MEMORY, DT_BATCH_LONG, DT_BATCH_CUT };
/* Ends the batch early. If it has ended early before, the first reason stays. CUT: adds all elements to the token's
 * debt. */
void dt_batch_end(dt_batch *batch, enum dt_batch_end why);
/* Ends the batch if its deadline has passed or the server ends. Returns true if the batch has ended early. */
bool dt_batch_look(dt_batch *batch);
/* From now on, further elements get one answer together. Does nothing unless the batch has ended early. */
void dt_batch_remainder(dt_batch *batch);

/* Submits the open chunk. False: the queue has no room now. */
bool dt_batch_flush(dt_batch *batch);
/* Waits until the queue has room or the batch ends. finished: waits until all chunks have returned or their time is up.
 * On an HTTP thread, the request is suspended. In slices, the step must return false; it is called again after the
 * wait. True: the caller no longer owns the request. False: there is nothing to wait for. */
bool dt_batch_wait(dt_batch *batch, bool finished);

/* Feeds the batch of a suspended request in slices (workers.h): `step` does one slice, and returns true if another
 * slice can follow at once. False: the server ends, and step is not called. */
bool dt_batch_run_in_slices(dt_batch *batch, bool (*step)(struct dt_request *req));
/* Ends the slices. Called inside a step that returns false, before the request is resumed. Later waits resume the
 * request on its HTTP thread. */
void dt_batch_leave_slices(dt_batch *batch);

/* Called once, before the first element. If the batch's token has a debt (request/quotas.h), the batch must pause
 * before it begins, and the caller calls dt_batch_rest. A token may have only a few such batches at a time: NO_PLACE:
 * it has them already. After dt_batch_rest_over, or after the batch is freed, another batch of the token may pause. */
enum dt_batch_beginning { DT_BATCH_AT_ONCE, DT_BATCH_RESTS, DT_BATCH_NO_PLACE };
enum dt_batch_beginning dt_batch_begin(dt_batch *batch);
void dt_batch_rest_over(dt_batch *batch);
/* Pauses until the token's debt is paid; waits as dt_batch_wait does. Called at most once for each `when`. FIRST: after
 * dt_batch_begin. LAST: after all chunks have returned, before the answer. */
enum dt_batch_rest { DT_BATCH_REST_FIRST, DT_BATCH_REST_LAST };
bool dt_batch_rest(dt_batch *batch, enum dt_batch_rest when);
/* Fills in the answer, after the last chunk has returned: 200, or 503 if memory ran out. */
void dt_batch_answer(dt_batch *batch);
/* Detaches the answer (dt_request_detach) of a batch that ended early because its body is incomplete. The answer is
 * sent after all chunks have returned. */
void dt_batch_detach(dt_batch *batch);

/* Feeds a batch from a request's body: a stream of lines (application/x-ndjson), or an array (batch_feed.c). A route
 * for batches has the stream of its kind, which consists of these functions, and dt_batch_feed_handle as its handler.
 * request.h says when each function is called. */
enum dt_next dt_batch_feed_begin(struct dt_request *req, bool *buffer);
enum dt_feed dt_batch_feed(struct dt_request *req, const char *p, size_t n, size_t *taken);
void dt_batch_feed_cut(struct dt_request *req, enum dt_cut why);
/* Handler of a route for batches: takes the last line, or begins to feed the array. */
enum dt_next dt_batch_feed_handle(struct dt_request *req);
