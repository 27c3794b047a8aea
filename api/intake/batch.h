/*
 * A batch: many elements of one request, taken one by one in order. The answers have the same order; chunks are
 * committed meanwhile. The kind of the batch says what an element is: a new job, or a result.
 *
 *   element -> decoded into the open chunk (a unit of its queue) -> full: submitted -> done -> answers written
 *
 * An element that is refused (400, 413, 422, 404) takes its place in the chunk as text. At most DT_BATCH_UNDER_WAY
 * chunks are queued at a time: the feeder asks dt_batch_room, and waits suspended.
 *
 * A batch may end early: its deadline passes, the server ends, memory is scarce, its answer would be too large for its
 * body, or the body breaks off. Then no further element is done, and the answer has the outcome of each element that
 * arrived before; one last answer covers the later elements (dt_batch_remainder). So no client needs to repeat finished
 * elements.
 *
 * The thread that owns the request owns the batch; other threads only set `done` of a chunk. A batch lives until its
 * request is cleaned up and the last chunk has returned, whichever is later.
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

/* A chunk's element. */
struct dt_chunk_slot {
    int64_t row;  /* of the unit; -1 = refused */
    size_t at, n; /* the text in refusals */
};

/* Elements of a batch that are queued together: the rows of one unit, and the texts of refused elements. It owns their
 * memory. While its unit is queued, the queue owns rows and unit. */
struct dt_chunk {
    struct dt_chunk *prev, *next; /* list of the batch */
    void *batch;
    union { /* by the kind of the batch */
        struct dt_unit jobs;
        struct dt_reports results;
    } unit;
    char *rows; /* the decoder fills in its members, the queue fills in the others */
    size_t row_bytes;
    struct dt_chunk_slot *slots;
    size_t n_rows, n_slots;
    size_t room, room_max; /* of rows and slots: now, and at most */
    uint64_t *keys; /* hashes of its rows' keys: a table with keys_room cells, 0 = free; allocated for the first key */
    size_t keys_room;
    size_t bytes;  /* of elements and refusals */
    size_t weight; /* bytes of its memory that the batch has counted */
    struct dt_strbuf refusals;
    struct dt_arena arena; /* memory of the rows' texts */
    bool submitted;
    _Atomic bool done; /* set under the gate's lock, read without it */
};

/* Returns row i. The next element is decoded into row n_rows. */
static inline void *dt_chunk_row(const struct dt_chunk *chunk, size_t i)
{
    return chunk->rows + i * chunk->row_bytes;
}

/* A chunk is full with this much text, or with as many rows as a unit may have. */
#define DT_BATCH_CHUNK_BYTES (1U << 20)

typedef struct dt_batch dt_batch;

/* What decoding an element needs. It lives as long as the batch. */
struct dt_batch_terms {
    const struct dt_api *api;
    struct dt_caller caller;            /* a copy: chunks outlive the request */
    const struct dt_topic_bound *bound; /* the topics that the caller sees; NULL: all */
    struct dt_view *view;               /* the rules borrow from it */
    struct dt_job_rules rules;
};

/* A kind of element. The thread that owns the batch calls the functions; any thread may call the unit's done. */
struct dt_batch_kind {
    struct dt_stream stream; /* first: the stream of a route is its kind */
    const char *nothing;     /* for problems: nothing was done with a refused element */
    const char *elements;    /* for problems: what an array contains */
    size_t row_bytes;
    struct dt_gate *(*gate)(const struct dt_api *api);
    /* Decodes an element into the chunk's next row. keep: copies texts that would otherwise be borrowed from the
     * element. If it is refused, err or faults have the reason. */
    dt_status (*decode)(const struct dt_batch_terms *terms, const dt_json *json, bool keep, struct dt_chunk *chunk,
                        struct dt_faults *faults, struct dt_error *err);
    /* Returns the hash of an element's key: elements with one key are queued in order. 0 = no key. NULL: the queue
     * keeps the order. */
    uint64_t (*key_of)(const void *row);
    /* Queues the chunk's unit, whose done calls dt_batch_came_back. */
    void (*submit)(const struct dt_batch_terms *terms, struct dt_chunk *chunk, int64_t deadline_us);
    /* Adds the answer of a row whose unit has returned; returns its HTTP status. */
    int (*answer)(struct dt_chunk *chunk, size_t row, struct dt_strbuf *out);
    void (*clear)(struct dt_chunk *chunk); /* releases what a returned unit holds; NULL: nothing */
};
extern const struct dt_batch_kind dt_batch_of_jobs;    /* create_rest.c */
extern const struct dt_batch_kind dt_batch_of_results; /* results_rest.c */
/* Called when a chunk's unit is done. Any thread. */
void dt_batch_came_back(struct dt_chunk *chunk);

/* Creates the batch of a request. array: the answer is one JSON array; else a line for each element. NULL: memory is
 * out. */
dt_batch *dt_batch_new(struct dt_request *req, const struct dt_batch_kind *kind, bool array);
/* Releases the request's reference. Queued chunks keep the batch. Accepts NULL. */
void dt_batch_release(dt_batch *batch);

/* Returns true if another element may be added now. Writes the answers of returned chunks. */
bool dt_batch_room(dt_batch *batch);
/* Parses and decodes one element, and adds it to the open chunk, which has room. keep: the text does not outlive the
 * call, so it is copied. If the batch has ended, or is beyond limits.batch_lines, the element is refused. */
void dt_batch_add(dt_batch *batch, struct dt_str text, bool keep);
/* Refuses an element that was not parsed (a line that is too long); there is room. The batch adds to `why` that nothing
 * was done, and if onward is set, "from here on". */
void dt_batch_refuse(dt_batch *batch, enum dt_problem_type type, const char *why, bool onward);
/* Returns true if no more elements are accepted: memory ran out, the answer is too large for the body, or there were
 * twice limits.batch_lines. */
bool dt_batch_over(dt_batch *batch);

enum dt_batch_end { DT_BATCH_LATE, DT_BATCH_SHUTDOWN, DT_BATCH_MEMORY, DT_BATCH_LONG, DT_BATCH_CUT };
/* Ends the batch early. The first reason counts. CUT: all elements are added to the token's debt. */
void dt_batch_end(dt_batch *batch, enum dt_batch_end why);
/* Ends the batch if its deadline has passed or the server ends. True: the batch has ended early. */
bool dt_batch_look(dt_batch *batch);
/* Notes that further elements get one answer together. Does nothing unless the batch has ended early. */
void dt_batch_remainder(dt_batch *batch);

/* Submits the open chunk. False: there is no room now. */
bool dt_batch_flush(dt_batch *batch);
/*
 * Waits until there is room or the batch ends; finished: until all chunks have returned or their time is up. On an HTTP
 * thread the request is suspended; in slices the step returns false, and is called again after the wait. True: the
 * caller does not own the request any more. False: there is nothing to wait for.
 */
bool dt_batch_wait(dt_batch *batch, bool finished);

/*
 * Feeds the batch of a suspended request in slices (workers.h): step does one slice, and returns true if there is more
 * to do now. False: the server ends; step is not called.
 */
bool dt_batch_run_in_slices(dt_batch *batch, bool (*step)(struct dt_request *req));
/* Ends the slices. Called in a step that returns false, before the request is resumed; later waits are on its HTTP
 * thread. */
void dt_batch_leave_slices(dt_batch *batch);

/*
 * Called once, before the first element. If the batch's token has a debt (request/quotas.h), the batch takes one of the
 * token's places and pauses before it begins (dt_batch_rest). NO_PLACE: all places are taken. dt_batch_rest_over, or
 * freeing the batch, gives the place back.
 */
enum dt_batch_beginning { DT_BATCH_AT_ONCE, DT_BATCH_RESTS, DT_BATCH_NO_PLACE };
enum dt_batch_beginning dt_batch_begin(dt_batch *batch);
void dt_batch_rest_over(dt_batch *batch);
/*
 * Pauses until the token's debt is paid. FIRST: after dt_batch_begin. LAST: after all chunks have returned, before the
 * answer. Waits as dt_batch_wait does. Each once.
 */
enum dt_batch_rest { DT_BATCH_REST_FIRST, DT_BATCH_REST_LAST };
bool dt_batch_rest(dt_batch *batch, enum dt_batch_rest when);
/* Fills in the answer (200; 503 if memory ran out), after the last chunk has returned. */
void dt_batch_answer(dt_batch *batch);
/* Detaches the answer (dt_request_detach) of a batch that has ended early, because its body is incomplete. It is sent
 * when all chunks have returned. */
void dt_batch_detach(dt_batch *batch);

/*
 * Feeds a batch from a request's body: a stream of lines (application/x-ndjson), or an array (batch_feed.c). A route
 * uses the stream of its kind, and dt_batch_feed_handle as its handler. request.h says when each function is called.
 */
enum dt_next dt_batch_feed_begin(struct dt_request *req, bool *buffer);
enum dt_feed dt_batch_feed(struct dt_request *req, const char *p, size_t n, size_t *taken);
void dt_batch_feed_cut(struct dt_request *req, enum dt_cut why);
/* The handler of such a route: ends the lines, or begins the array. */
enum dt_next dt_batch_feed_handle(struct dt_request *req);
