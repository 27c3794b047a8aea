/*
 * Some elements of a batch, decoded and on their way to their queue together: rows of one unit, and the texts of
 * elements that were refused, in the order of the elements. Owns their memory. Knows neither the gate nor the answer,
 * nor what a row is.
 *
 * A chunk belongs to its batch's thread; while its unit is at the queue, rows and unit are the queue's. Only `done` is
 * set by other threads.
 */
#ifndef DT_API_BATCH_H
#define DT_API_BATCH_H

#include "api.h"
#include "batch_gate.h"
#include "committer.h"
#include "job/job_decode.h"
#include "job/job_encode.h"
#include "job/problem.h"
#include "request/auth.h"
#include "request/request.h"
#include "results_rest.h"

/* One element. */
struct dt_chunk_slot {
    int64_t row;  /* of the unit; -1 = refused */
    size_t at, n; /* where the refusal stands in refusals */
};

struct dt_chunk {
    struct dt_chunk *prev, *next; /* the batch's */
    void *batch;
    union { /* by the kind of the batch */
        struct dt_unit jobs;
        struct dt_reports results;
    } unit;
    char *rows; /* what is not the decoder's to fill in is the queue's */
    size_t row_bytes;
    struct dt_chunk_slot *slots;
    size_t n_rows, n_slots;
    size_t room, room_max; /* of rows and slots: now, and at most */
    uint64_t *keys;        /* hashes of its rows' keys: a table with keys_room cells, 0 = free; made with the first */
    size_t keys_room;
    size_t bytes;  /* of elements and refusals */
    size_t weight; /* of its memory, as the batch has counted it */
    struct dt_strbuf refusals;
    struct dt_arena arena; /* texts of rows */
    bool submitted;
    _Atomic bool done; /* set under the gate's lock, read without it */
};

/* Makes a chunk with room for so many elements at first, and at most. NULL: memory is out. */
struct dt_chunk *dt_chunk_new(void *batch, size_t first, size_t most, size_t row_bytes);
/* Accepts NULL. */
void dt_chunk_free(struct dt_chunk *chunk);
/* Empties it for other elements; its memory is kept. */
void dt_chunk_reset(struct dt_chunk *chunk);
/* Makes room for one more element. False: memory is out. */
DT_MUST_CHECK bool dt_chunk_reserve(struct dt_chunk *chunk);
/* The bytes that the chunk's memory takes now. */
size_t dt_chunk_weight(const struct dt_chunk *chunk);

/* Row i; row n_rows is the one that the next element is decoded into. */
static inline void *dt_chunk_row(const struct dt_chunk *chunk, size_t i)
{
    return chunk->rows + i * chunk->row_bytes;
}
/* Makes the next row an element, decoded from so many bytes. */
void dt_chunk_add_row(struct dt_chunk *chunk, size_t bytes);
/* Makes the next element a refusal, as text; there is room. */
void dt_chunk_add_refusal(struct dt_chunk *chunk, const struct dt_problem *problem);

/* Notes that the chunk has a row with this key. False: memory is out. */
DT_MUST_CHECK bool dt_chunk_note_key(struct dt_chunk *chunk, uint64_t hash);
/* Says whether the chunk has a row with a key of this hash. */
bool dt_chunk_has_key(const struct dt_chunk *chunk, uint64_t hash);

/*
 * A batch, many elements of one request: they go in, one by one, in order; answers come out, one for each, in the same
 * order, while chunks of them are committed meanwhile. Its kind says what an element is: a new job, a result.
 *
 *   element -> decoded into the open chunk (a unit of its queue) -> full: submitted -> done -> answers written
 *
 * An element that is refused (400, 413, 422, 404) takes its place in the chunk as text and nothing is done. At most
 * DT_BATCH_UNDER_WAY chunks are at the queue at a time: whoever feeds asks dt_batch_room and waits, suspended.
 *
 * A batch may end early: its time is up, the server ends, memory is scarce, its answer would be out of proportion, the
 * body breaks off. Then nothing more of it is done, and the answer still tells what became of each element that came by
 * until then; what is not looked at any more is told in one last answer (dt_batch_remainder). So nobody need repeat
 * what was done.
 *
 * Owned by the thread that owns the request; only `done` of a unit comes from elsewhere. A batch lives until its
 * request is cleaned up and the last chunk came back, whichever is later.
 */

/* A chunk is full with this much text, or with the most rows of a unit. */
#define DT_BATCH_CHUNK_BYTES (1U << 20)

typedef struct dt_batch dt_batch;

/* The terms by which the elements of a batch are decoded; they live as long as the batch. */
struct dt_batch_terms {
    const struct dt_api *api;
    struct dt_caller caller;            /* chunks outlive the request */
    const struct dt_topic_bound *bound; /* what the wall says of the caller */
    struct dt_view *view;               /* whose installation the rules borrow */
    struct dt_job_rules rules;
};

/* A kind of element. The functions run on the thread that owns the batch; submit's done on any. */
struct dt_batch_kind {
    struct dt_stream stream; /* first: the stream of a request's route is its kind */
    const char *nothing;     /* in words: nothing is done with an element that is refused */
    const char *elements;    /* in words: the content of an array */
    size_t row_bytes;
    struct dt_gate *(*gate)(const struct dt_api *api);
    /* Decodes an element into the chunk's next row, with texts in the chunk's arena; keep: also those that stay in the
     * element's text else. Otherwise err or faults say why it is refused, with the status. */
    dt_status (*decode)(const struct dt_batch_terms *terms, const dt_json *json, bool keep, struct dt_chunk *chunk,
                        struct dt_faults *faults, struct dt_error *err);
    /* Elements with one key go to the queue in their order: the key's hash, 0 = none. NULL: elements keep their order
     * by themselves. */
    uint64_t (*key_of)(const void *row);
    /* Queues the chunk's unit; its done calls dt_batch_came_back. */
    void (*submit)(const struct dt_batch_terms *terms, struct dt_chunk *chunk, int64_t deadline_us);
    /* Adds the answer of a row whose unit came back, and gives its HTTP status. */
    int (*answer)(struct dt_chunk *chunk, size_t row, struct dt_strbuf *out);
    void (*clear)(struct dt_chunk *chunk); /* gives back what a unit that came back holds; NULL: nothing */
};
extern const struct dt_batch_kind dt_batch_of_jobs;    /* create_rest.c */
extern const struct dt_batch_kind dt_batch_of_results; /* results_rest.c */
/* Takes back a chunk whose unit is done. Any thread. */
void dt_batch_came_back(struct dt_chunk *chunk);

/* Makes the batch of a request. array: answers are elements of one JSON array; else a line each. NULL: memory is
 * out. */
dt_batch *dt_batch_new(struct dt_request *req, const struct dt_batch_kind *kind, bool array);
/* Gives the request's reference back; chunks that are under way keep the batch. Accepts NULL. */
void dt_batch_release(dt_batch *batch);

/* Says whether another element may go in now. Writes the answers of chunks that came back. */
bool dt_batch_room(dt_batch *batch);
/* Parses and decodes one element's text, and puts it into the open chunk; there is room. keep: the text does not live
 * on, so what is kept of it is copied. A batch that has ended, and one beyond limits.batch_lines, gets the element's
 * refusal. */
void dt_batch_add(dt_batch *batch, struct dt_str text, bool keep);
/* Adds the refusal of an element that was not looked at (too long a line); there is room. why: a sentence, to which the
 * batch adds that nothing was done; onward: from here on. */
void dt_batch_refuse(dt_batch *batch, enum dt_problem_type type, const char *why, bool onward);
/* Says that no element is looked at any more: memory is out, or twice limits.batch_lines came. Looks at the proportions
 * of the answer. */
bool dt_batch_over(dt_batch *batch);

enum dt_batch_end { DT_BATCH_LATE, DT_BATCH_SHUTDOWN, DT_BATCH_MEMORY, DT_BATCH_LONG, DT_BATCH_CUT };
/* Does nothing more. The first reason counts. CUT: all elements count as refused by their sender's fault, at once. */
void dt_batch_end(dt_batch *batch, enum dt_batch_end why);
/* Looks at the clock, and whether the server ends. True: the batch has ended early. */
bool dt_batch_look(dt_batch *batch);
/* Notes that there is more that gets no answer of its own; does nothing when the batch has not ended early. */
void dt_batch_remainder(dt_batch *batch);

/* Submits the open chunk. False: there is no room for it now. */
bool dt_batch_flush(dt_batch *batch);
/*
 * Waits until there is room or the batch ends (finished: until all chunks came back, or their time was up, too). On an
 * HTTP thread the request is suspended; in time slices the step says false, and is called again after the wait. After
 * true the request is not the caller's any more. False: no need to wait.
 */
bool dt_batch_wait(dt_batch *batch, bool finished);

/*
 * A batch whose request is suspended and that is fed in time slices (workers.h): step does a piece of it and says
 * whether there is more to do now. False: the server ends, step is not called.
 */
bool dt_batch_run_in_slices(dt_batch *batch, bool (*step)(struct dt_request *req));
/* Ends the time slices, in a step that says false, before the request is resumed: from here on it waits on its HTTP
 * thread. */
void dt_batch_leave_slices(dt_batch *batch);

/*
 * Before the first element, once: a batch whose token owes for very many elements that were refused, or came in batches
 * that were cut off, rests before it begins (dt_batch_rest), in one of its token's places. NO_PLACE: all are taken. The
 * place is given back by dt_batch_rest_over, or with the batch.
 */
enum dt_batch_beginning { DT_BATCH_AT_ONCE, DT_BATCH_RESTS, DT_BATCH_NO_PLACE };
enum dt_batch_beginning dt_batch_begin(dt_batch *batch);
void dt_batch_rest_over(dt_batch *batch);
/*
 * FIRST: see dt_batch_begin. LAST: after all chunks returned, a batch whose token has very many elements refused rests
 * before it is answered (request/quotas.h). Waits as dt_batch_wait does; each once.
 */
enum dt_batch_rest { DT_BATCH_REST_FIRST, DT_BATCH_REST_LAST };
bool dt_batch_rest(dt_batch *batch, enum dt_batch_rest when);
/* Fills in the answers as the request's (200, or 503 when memory was out), after the last chunk came back. */
void dt_batch_answer(dt_batch *batch);
/* Has the answer sent past the HTTP server (dt_request_detach) when all chunks are back: the request ends unanswered,
 * because its body is incomplete. For a batch that has ended early. */
void dt_batch_detach(dt_batch *batch);

/*
 * The feeding of a batch with a request's body: a stream of lines (application/x-ndjson), or an array. A route of
 * batches has the stream of its kind (struct dt_batch_kind), and dt_batch_feed_handle as its handler. request.h says
 * when each function is called.
 */

enum dt_next dt_batch_feed_begin(struct dt_request *req, bool *buffer);
enum dt_feed dt_batch_feed(struct dt_request *req, const char *p, size_t n, size_t *taken);
void dt_batch_feed_cut(struct dt_request *req, enum dt_cut why);
/* The handler: ends the lines, or takes the array. */
enum dt_next dt_batch_feed_handle(struct dt_request *req);

#endif
