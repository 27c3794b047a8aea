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
#ifndef DT_API_BATCH_H
#define DT_API_BATCH_H

#include "api.h"
#include "batch_chunk.h"
#include "batch_gate.h"
#include "job_json.h"
#include "request/auth.h"
#include "request/request.h"

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

#endif
