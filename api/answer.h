/*
 * Steps that several handlers share: parse a body and an id, show a job, turn a status of the store into a problem,
 * page through a list. Knows requests and JSON, and none of the store's functions.
 *
 * Functions that return a bool fill in the answer themselves when they say false. Functions that return an enum dt_next
 * fill in the answer and return DT_REPLY always, so that a handler ends with `return dt_answer_…`.
 */
#ifndef DT_API_ANSWER_H
#define DT_API_ANSWER_H

#include "api.h"
#include "features/operations/topic_deletion.h"
#include "job/job_decode.h"
#include "job/job_encode.h"
#include "job/list/list.h"
#include "request/cursor.h"
#include "request/request.h"
#include "store/store.h"

struct dt_view;

/* Allocates req->state, filled with zeros. NULL: memory is out, and the answer is 503. */
void *dt_answer_state(struct dt_request *req, size_t n);

/*
 * The limits of the configuration, as decoders want them. The installation's name is borrowed from the snapshot, or
 * taken from the configuration when view is NULL.
 */
struct dt_job_rules dt_answer_rules(const struct dt_api *api, const struct dt_view *view);

/*
 * Parses the body with this thread's parser (request/workers.h), and begins the list of its faults in the request's
 * arena. The tree lives until this thread parses again. NULL: a problem is filled in, and the list is not begun.
 */
dt_json *dt_answer_parse(struct dt_request *req, const struct dt_job_rules *rules, struct dt_faults *faults);

/* Reads a query parameter that is a duration, max_ms at most; *out_ms stays as it is when it is not given. False is
 * returned: 422. */
bool dt_answer_duration(struct dt_request *req, const char *name, int64_t max_ms, int64_t *out_ms);
/* Reads a query parameter that is true or false; false when it is not given. False is returned: 422. */
bool dt_answer_flag(struct dt_request *req, const char *name, bool *out);

/* Reads a time. False: it is not given, and *ms stays, or it is none: a fault was added. */
bool dt_answer_time(const struct dt_request *req, const char *name, int64_t *ms, struct dt_faults *faults);
/* Reads a stretch of time from two query parameters; the side that is not given has no bound. What is wrong with it is
 * added to the faults. */
struct dt_list_times dt_answer_times(const struct dt_request *req, const char *from, const char *to,
                                     struct dt_faults *faults);

/* Reads params[0] as a job's id. False: 404. */
bool dt_answer_id(struct dt_request *req, int64_t *id);

/* Says whether MySQL's clock is known, so that delays can be added to it. False: 503, MySQL was never reached. */
bool dt_answer_clock(struct dt_request *req);

/* 422 with one fault. pointer: of a member, or "?name" of a query parameter. */
enum dt_next dt_answer_fault(struct dt_request *req, const char *pointer, const char *reason);
/* A decoder's refusal: 413, or 422 with all faults, or what the status is otherwise. */
enum dt_next dt_answer_faults(struct dt_request *req, dt_status status, const struct dt_faults *faults);

/*
 * A problem for a status of the store. job: the job as it is now, which too-late, not-dead and version-mismatch show;
 * NULL = unknown. err: NULL = nothing more is known. What is MySQL's fault is logged as an outage.
 */
enum dt_next dt_answer_status(struct dt_request *req, dt_status status, const struct dt_job *job,
                              const struct dt_error *err);
/* 404: "no such job", for what = "job". */
enum dt_next dt_answer_not_found(struct dt_request *req, const char *what);
/* dt_answer_not_found for NOT_FOUND, dt_answer_status for other statuses of the store. */
enum dt_next dt_answer_failed(struct dt_request *req, dt_status status, const char *what, const struct dt_error *err);

/* The job as JSON with its ETag. status: 200, or 201 which adds Location. */
enum dt_next dt_answer_job(struct dt_request *req, int status, const struct dt_job *job,
                           const struct dt_job_view *view);

/*
 * A page ends when its answer has this many bytes, whatever its limit; one row always comes. The memory for a page is
 * held (dt_hold_more) before it is read: the rows, and the answer, whose buffer may be twice as large as its text.
 */
#define DT_PAGE_BYTES ((size_t)4 << 20)
static inline size_t dt_page_room(size_t bytes)
{
    return 3 * bytes;
}
/* The end of a page of so many rows, most of which have no more than row_bytes. */
static inline struct dt_page_end dt_page_end(unsigned rows, size_t row_bytes)
{
    size_t bytes = rows * row_bytes;
    return (struct dt_page_end){rows, bytes < DT_PAGE_BYTES ? bytes : DT_PAGE_BYTES};
}
/*
 * Bytes that reading and answering one job may take: its payload with the client library, in a cell, in the arena, and
 * in a buffer that grew by doubling, perhaps as base64.
 */
size_t dt_answer_job_room(const struct dt_api *api);
/* Reserves that room before a job is read, in place of an earlier run's reservation. False: the answer is 503. */
DT_MUST_CHECK bool dt_answer_hold_job(struct dt_request *req);

/*
 * Names a list for its cursors (request/cursor.h): its kind, the fields of its filter, and who asks. False: 503, MySQL
 * was never reached.
 */
bool dt_answer_list(struct dt_request *req, char kind, const struct dt_str *fields, size_t n,
                    struct dt_cursor_list *list);
/*
 * Reads the parameter "cursor": where the list goes on. The position is absent when the list begins. False: a fault was
 * added, and the answer is not filled in.
 */
bool dt_answer_cursor(struct dt_request *req, const struct dt_cursor_list *list, struct dt_faults *faults,
                      struct dt_str *position);
/* Reads the rows of a page into `rows` and writes the answer, or returns a status of the store. */
typedef dt_status dt_page_fn(struct dt_request *req, dt_store *store, struct dt_arena *rows, struct dt_error *err);
/* Answers a page on a worker. room: bytes that are held while `page` runs; without them, the answer is 503. The rows
 * are freed before the client reads the answer. what: the word in 404, as in dt_answer_failed. */
enum dt_next dt_answer_page(struct dt_request *req, dt_store *store, size_t room, const char *what, dt_page_fn *page);
/* Begins a page: 200, `{"jobs":[` for name = "jobs". */
void dt_answer_begin_list(struct dt_request *req, const char *name);
/* Ends a page: `],"next_cursor":…}`. more: the list goes on behind position. */
void dt_answer_next_cursor(struct dt_request *req, const struct dt_cursor_list *list, bool more,
                           struct dt_str position);

/* Ends a page whose last row has the id, or number, `last`. */
void dt_answer_next_id(struct dt_request *req, const struct dt_cursor_list *list, bool more, int64_t last);

/* A page of a list that goes by ids: it begins behind `id`. */
struct dt_id_page {
    int64_t id;
    unsigned limit;
    struct dt_cursor_list cursor;
};
/* Reads "limit" and "cursor"; first: the id behind which the list begins. In the request's arena. NULL: it is answered.
 */
struct dt_id_page *dt_answer_id_page(struct dt_request *req, char kind, int64_t first);

/* Reads a parameter that is a whole number from 1 to `most`; *count stays where it is absent. False: it is something
 * else. */
bool dt_answer_count(const struct dt_request *req, const char *name, unsigned most, unsigned *count);

/*
 * Reads the parameter "limit": 1 to 1,000, default 100. False: a fault was added, and the answer is not filled in.
 */
bool dt_answer_limit(const struct dt_request *req, struct dt_faults *faults, unsigned *limit);

/*
 * The members of a topic's body that hold a secret (of its callbacks, of its alerts). Answers never show a secret; they
 * have "***" in its place. A body that says "***" keeps the secret that the topic has, and "*** whsec_new" adds a
 * second one to it. If the body names another place that the secret would go to, it must have the secret itself. Pure.
 */

#define DT_TOPIC_HIDDEN "***"
#define DT_TOPIC_SECRET_WIDENED                                                                                        \
    "must be written in full: it would go to another scheme, host or port, so \"***\" does not keep it"

/* Checks the text of a member. NULL: it is fine; else the reason, static text. *keeps is set if it has "***". */
const char *dt_topic_secret_check(struct dt_str text, bool *keeps);
/* Gives the secret that is to be stored, in the faults' arena: `had` in the place of "***". had: absent = there is
 * none. widen: it would go to another place. What cannot be kept is a fault at `pointer`. */
struct dt_str dt_topic_secret_keep(struct dt_str wanted, struct dt_str had, bool widen, const char *pointer,
                                   struct dt_faults *faults);

/* ---- topics ---- */

/* Refuses the request because jobs of the topic are not finished, or a schedule makes some. */
enum dt_next dt_answer_topic_in_use(struct dt_request *req, const struct dt_topic_deletion *deletion);
/* Called after topics or shards were changed: this process reads them again, and notifies the dispatchers. */
void dt_topics_announce(struct dt_request *req);

#endif
