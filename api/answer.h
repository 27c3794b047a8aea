/*
 * Steps that several handlers share: parse a body and an id, show a job, make a problem of a status, answer a page of a
 * list.
 *
 * A function that returns a bool fills in the answer if it returns false. A function that returns an enum dt_next
 * fills in the answer and always returns DT_REPLY, so that a handler ends with `return dt_answer_…`.
 */
#pragma once

#include "api.h"
#include "features/operations/operations.h"
#include "job/job_json.h"
#include "job/list/list.h"
#include "request/cursor.h"
#include "request/request.h"
#include "store/store.h"

struct dt_view;

/* Allocates req->state, filled with zeros. NULL: out of memory; the answer 503 is filled in. */
void *dt_answer_state(struct dt_request *req, size_t n);

/*
 * Returns the configured limits for decoders. The installation's name is borrowed from the snapshot `view`, or from the
 * configuration if view is NULL.
 */
struct dt_job_rules dt_answer_rules(const struct dt_api *api, const struct dt_view *view);

/*
 * Parses the body with this thread's parser (request/workers.h), and initializes the list of faults. The tree lives
 * until this thread parses again. NULL: a problem is filled in, and the list is not initialized.
 */
dt_json *dt_answer_parse(struct dt_request *req, struct dt_faults *faults);

/* Reads a query parameter that is a duration of at most max_ms; if it is absent, *out_ms is unchanged. False: 422. */
bool dt_answer_duration(struct dt_request *req, const char *name, int64_t max_ms, int64_t *out_ms);
/* Reads a query parameter that is true or false; absent = false. Returns false: 422. */
bool dt_answer_flag(struct dt_request *req, const char *name, bool *out);

/* Reads a time. False: it is absent, and *ms is unchanged; or it is invalid, and a fault was added. */
bool dt_answer_time(const struct dt_request *req, const char *name, int64_t *ms, struct dt_faults *faults);
/* Reads a range of time from two query parameters, which may be absent. Adds its faults. */
struct dt_list_times dt_answer_times(const struct dt_request *req, const char *from, const char *to,
                                     struct dt_faults *faults);

/* Reads params[0] as a job's id. False: 404. */
bool dt_answer_id(struct dt_request *req, int64_t *id);

/* Checks that MySQL's clock is known, so that delays can be added to it. False: 503, MySQL was never reached. */
bool dt_answer_clock(struct dt_request *req);

/* Answers 422 with one fault. pointer: of a member, or "?name" for a query parameter. */
enum dt_next dt_answer_fault(struct dt_request *req, const char *pointer, const char *reason);
/* Answers a decoder's refusal: 413, 422 with all faults, or the problem of another status. */
enum dt_next dt_answer_faults(struct dt_request *req, dt_status status, const struct dt_faults *faults);

/*
 * Answers the problem for a status of the store. job: the job as it is now, which too-late, not-dead and
 * version-mismatch show; NULL = unknown. err may be NULL. An error of MySQL is logged as an outage.
 */
enum dt_next dt_answer_status(struct dt_request *req, dt_status status, const struct dt_job *job,
                              const struct dt_error *err);
/* 404: "no such job", for what = "job". */
enum dt_next dt_answer_not_found(struct dt_request *req, const char *what);
/* As dt_answer_not_found for NOT_FOUND, as dt_answer_status for other statuses. */
enum dt_next dt_answer_failed(struct dt_request *req, dt_status status, const char *what, const struct dt_error *err);

/* Answers the job as JSON with its ETag. status: 200, or 201, which adds Location. */
enum dt_next dt_answer_job(struct dt_request *req, int status, const struct dt_job *job,
                           const struct dt_job_view *view);

/*
 * A page ends when its answer reaches this size, whatever its limit, but has at least one row. Memory is reserved
 * before the page is read: for the rows, and for the answer, whose buffer may be twice as large as its text.
 */
#define DT_PAGE_BYTES ((size_t)4 << 20)
static inline size_t dt_page_room(size_t bytes)
{
    return 3 * bytes;
}
/* Returns the end of a page of at most this many rows, most of which have at most row_bytes. */
static inline struct dt_page_end dt_page_end(unsigned rows, size_t row_bytes)
{
    size_t bytes = rows * row_bytes;
    return (struct dt_page_end){rows, bytes < DT_PAGE_BYTES ? bytes : DT_PAGE_BYTES};
}
/*
 * Returns how many bytes reading and answering one job may take: the payload in the client library, in a cell, in the
 * arena, and in a buffer that grew by doubling, perhaps as base64.
 */
size_t dt_answer_job_room(const struct dt_api *api);
/* Reserves that many bytes before a job is read; releases what an earlier run reserved. False: the answer is 503. */
DT_MUST_CHECK bool dt_answer_hold_job(struct dt_request *req);

/*
 * Names a list for its cursors (request/cursor.h): kind, fields of the filter, and caller. False: 503, MySQL was never
 * reached.
 */
bool dt_answer_list(struct dt_request *req, char kind, const struct dt_str *fields, size_t n,
                    struct dt_cursor_list *list);
/*
 * Reads the parameter "cursor": the position after which the list continues; absent: the list begins. False: a fault
 * was added; the answer is not filled in.
 */
bool dt_answer_cursor(struct dt_request *req, const struct dt_cursor_list *list, struct dt_faults *faults,
                      struct dt_str *position);
/* Reads the rows of a page into `rows` and writes the answer, or returns a status of the store. */
typedef dt_status dt_page_fn(struct dt_request *req, dt_store *store, struct dt_arena *rows, struct dt_error *err);
/* Answers a page, on a worker. room: bytes reserved while `page` runs; if they are not available, the answer is 503.
 * The rows are freed before the answer is sent. what: as in dt_answer_failed. */
enum dt_next dt_answer_page(struct dt_request *req, dt_store *store, size_t room, const char *what, dt_page_fn *page);
/* Begins a page: 200, `{"jobs":[` for name = "jobs". */
void dt_answer_begin_list(struct dt_request *req, const char *name);
/* Ends a page: `],"next_cursor":…}`. more: the list continues after position. */
void dt_answer_next_cursor(struct dt_request *req, const struct dt_cursor_list *list, bool more,
                           struct dt_str position);

/* Ends a page; last: the id or number of its last row. */
void dt_answer_next_id(struct dt_request *req, const struct dt_cursor_list *list, bool more, int64_t last);

/* A page of a list by ids: it begins after `id`. */
struct dt_id_page {
    int64_t id;
    unsigned limit;
    struct dt_cursor_list cursor;
};
/* Reads "limit" and "cursor" into the request's arena. first: the list begins after this id. NULL: the answer is
 * filled in. */
struct dt_id_page *dt_answer_id_page(struct dt_request *req, char kind, int64_t first);

/* Reads a parameter that is a whole number from 1 to `most`; if it is absent, *count is unchanged. False: it is
 * invalid. */
bool dt_answer_count(const struct dt_request *req, const char *name, unsigned most, unsigned *count);

/* Reads the parameter "limit": 1 to 1,000, default 100. False: a fault was added; the answer is not filled in. */
bool dt_answer_limit(const struct dt_request *req, struct dt_faults *faults, unsigned *limit);

/*
 * ---- secrets in the body of a topic, of its callbacks and of its alerts ----
 *
 * Answers have "***" instead of a secret. A body with "***" keeps the secret that the topic has; "*** whsec_new" adds a
 * second one. If the body names another place to which the secret would be sent, it must have the secret itself. Pure.
 */

#define DT_TOPIC_HIDDEN "***"
#define DT_TOPIC_SECRET_WIDENED                                                                                        \
    "must be written in full: it would go to another scheme, host or port, so \"***\" does not keep it"

/* Checks the text of a member. Returns NULL if it is valid, otherwise the reason, static text. Sets *keeps if the text
 * has "***". */
const char *dt_topic_secret_check(struct dt_str text, bool *keeps);
/* Returns the secret to store, in the faults' arena: "***" is replaced by `had`, which may be absent. widen: the secret
 * would be sent to another place. If it cannot be kept, adds a fault at `pointer`. */
struct dt_str dt_topic_secret_keep(struct dt_str wanted, struct dt_str had, bool widen, const char *pointer,
                                   struct dt_faults *faults);

/* ---- topics ---- */

/* Refuses the request: the topic has unfinished jobs, or a schedule creates jobs in it. */
enum dt_next dt_answer_topic_in_use(struct dt_request *req, const struct dt_topic_deletion *deletion);
/* Called after topics or shards were changed: this process reads them again, and notifies the dispatchers. */
void dt_topics_announce(struct dt_request *req);
