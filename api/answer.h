/*
 * Steps that several handlers share: parse a body and an id, show a job, turn a status into a problem, answer a page of
 * a list.
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
#include "request/workers.h"
#include "store/store.h"

struct dt_view;

/* Allocates req->state, filled with zeros. NULL: memory ran out, and the answer, 503, is filled in. */
void *dt_answer_state(struct dt_request *req, size_t n);

/* Returns the configured limits of decoders. Borrows the installation's name from the snapshot `view`; if view is NULL,
 * from the configuration. */
struct dt_job_rules dt_answer_rules(const struct dt_api *api, const struct dt_view *view);

/* Parses the body with this thread's parser (request/workers.h), and initializes the list of faults. The tree lives
 * until this thread parses again. NULL: a problem is filled in, and the list is not initialized. */
dt_json *dt_answer_parse(struct dt_request *req, struct dt_faults *faults);

/* Decodes the body, whose tree is `json`, into the request's state, and adds a fault for everything that is wrong. */
typedef dt_status dt_decode_fn(struct dt_request *req, const dt_json *json, const struct dt_job_rules *rules,
                               struct dt_faults *faults);
/* Parses the body and calls `decode`. False: the body cannot be parsed or was refused; the answer is filled in. */
DT_MUST_CHECK bool dt_answer_decode(struct dt_request *req, dt_decode_fn *decode);

/* Reads a query parameter that is a duration of at most max_ms. If it is absent, *out_ms is unchanged. False: answered
 * 422. */
bool dt_answer_duration(struct dt_request *req, const char *name, int64_t max_ms, int64_t *out_ms);
/* Reads a query parameter that is true or false; *out is false if it is absent. Returns false after answering 422. */
bool dt_answer_flag(struct dt_request *req, const char *name, bool *out);

/* Reads a query parameter that is a time, not before least_ms. reason: text of the fault if it is invalid; NULL: the
 * usual text. False: it is absent and *ms is unchanged, or it is invalid and a fault was added. */
bool dt_answer_time(const struct dt_request *req, const char *name, int64_t least_ms, const char *reason, int64_t *ms,
                    struct dt_faults *faults);
/* Reads a range of time from two query parameters, which may be absent. If one is invalid, adds a fault. */
struct dt_list_times dt_answer_times(const struct dt_request *req, const char *from, const char *to,
                                     struct dt_faults *faults);

/* Returns the query parameter "topic"; absent if the query does not have it. If it is no name of a topic, adds a
 * fault. */
struct dt_str dt_answer_topic(const struct dt_request *req, struct dt_faults *faults);

/* Reads the first parameter of the path as the id of a job. False: answered 404. */
bool dt_answer_id(struct dt_request *req, int64_t *id);

/* Checks that MySQL's clock is known, because delays are added to it. False: answered 503, because MySQL was never
 * reached. */
bool dt_answer_clock(struct dt_request *req);

/* Answers 422 with one fault. pointer: JSON pointer of a member, or "?name" for a query parameter. */
enum dt_next dt_answer_fault(struct dt_request *req, const char *pointer, const char *reason);
/* Answers that a decoder refused the body: 413, 422 with all faults, or the problem of another status. */
enum dt_next dt_answer_faults(struct dt_request *req, dt_status status, const struct dt_faults *faults);
/* Submits the request to a worker, which calls `work`. If there are faults, answers them instead. */
enum dt_next dt_answer_submit(struct dt_request *req, const struct dt_faults *faults, dt_worker_fn work);

/* Answers the problem for a status of the store. job: the job as it is now; NULL: unknown. The problems too-late,
 * not-dead and version-mismatch show it. err may be NULL. If the status is an error of MySQL, logs an outage. */
enum dt_next dt_answer_status(struct dt_request *req, dt_status status, const struct dt_job *job,
                              const struct dt_error *err);
/* Answers 404 with the detail "no such <what>". */
enum dt_next dt_answer_not_found(struct dt_request *req, const char *what);
/* Answers a failed read or change: for NOT_FOUND 404 with the detail "no such <what>", otherwise the problem for the
 * status. */
enum dt_next dt_answer_failed(struct dt_request *req, dt_status status, const char *what, const struct dt_error *err);

/* Answers the job as JSON with its ETag. status: 200; or 201, which adds the header Location. */
enum dt_next dt_answer_job(struct dt_request *req, int status, const struct dt_job *job,
                           const struct dt_job_view *view);

/* A page ends at its limit of rows, or earlier if its answer reaches DT_PAGE_BYTES; it has at least one row. Before the
 * page is read, memory is reserved for the rows, and for the answer, whose buffer may be twice as large as its text. */
#define DT_PAGE_BYTES ((size_t)4 << 20)
static inline size_t dt_page_room(size_t bytes)
{
    return 3 * bytes;
}
/* Returns limits for a page of at most this many rows, if most rows have at most row_bytes. */
static inline struct dt_page_end dt_page_end(unsigned rows, size_t row_bytes)
{
    size_t bytes = rows * row_bytes;
    return (struct dt_page_end){rows, bytes < DT_PAGE_BYTES ? bytes : DT_PAGE_BYTES};
}
/* Returns how many bytes it may take to read and answer one job. Its payload is held four times: by the client library,
 * in a cell, in the arena, and, perhaps as base64, in a buffer that grows by doubling. */
size_t dt_answer_job_room(const struct dt_api *api);
/* Reserves the bytes of dt_answer_job_room before a job is read, and releases what an earlier run of the request
 * reserved. False: answered 503. */
DT_MUST_CHECK bool dt_answer_hold_job(struct dt_request *req);

/* Identifies a list for its cursors (request/cursor.h): kind, fields of the filter, and caller. False: answered 503,
 * because MySQL was never reached. */
bool dt_answer_list(struct dt_request *req, char kind, const struct dt_str *fields, size_t n,
                    struct dt_cursor_list *list);
/* Reads the parameter "cursor". *position: the position after which the list continues; absent: from the beginning.
 * False: a fault was added; the answer is not filled in. */
bool dt_answer_cursor(struct dt_request *req, const struct dt_cursor_list *list, struct dt_faults *faults,
                      struct dt_str *position);
/* Reads the parameter "cursor" of a list in order of ids or numbers. If it is absent or a fault was added, *id is
 * unchanged. */
void dt_answer_cursor_id(struct dt_request *req, const struct dt_cursor_list *list, struct dt_faults *faults,
                         int64_t *id);
/* Reads the rows of a page into `rows`, and writes the answer. Returns the status of the store. */
typedef dt_status dt_page_fn(struct dt_request *req, dt_store *store, struct dt_arena *rows, struct dt_error *err);
/* Answers a page, on a worker. room: bytes reserved while `page` runs; if they are not available, answers 503. The
 * rows are freed before the answer is sent. If `page` returns NOT_FOUND, the answer is 404 with the detail "no such
 * <what>". */
enum dt_next dt_answer_page(struct dt_request *req, dt_store *store, size_t room, const char *what, dt_page_fn *page);
/* Begins a page: status 200 and `{"jobs":[` if name is "jobs". */
void dt_answer_begin_list(struct dt_request *req, const char *name);
/* Ends a page: `],"next_cursor":…}`. more: the list continues after position. */
void dt_answer_next_cursor(struct dt_request *req, const struct dt_cursor_list *list, bool more,
                           struct dt_str position);

/* Ends a page as dt_answer_next_cursor does, but the next page begins after the id or number `last` of this page's last
 * row. */
void dt_answer_next_id(struct dt_request *req, const struct dt_cursor_list *list, bool more, int64_t last);

/* A list whose query has only "limit" and "cursor": a column of routes.c. dt_handle_list answers a page of it. */
struct dt_list {
    char letter;      /* names the list in its cursors */
    const char *row;  /* what a row is, "alert" */
    size_t row_bytes; /* size of most rows in the answer */
    bool by_name;     /* the rows are in order of names, otherwise of ids */
    int64_t first;    /* id after which the list begins */
    dt_page_fn *write;
};
/* The state of a request for a page of a list. */
struct dt_page {
    struct dt_page_end end;
    struct dt_str after; /* name after which the page begins; absent: the list begins with this page */
    int64_t id;          /* id after which the page begins */
    struct dt_cursor_list cursor;
};
enum dt_next dt_handle_list(struct dt_request *req);

/* Reads a parameter that is a whole number from 1 to `most`; if it is absent, *count is unchanged. False: it is
 * invalid. */
bool dt_answer_count(const struct dt_request *req, const char *name, unsigned most, unsigned *count);

/* Reads the parameter "limit": 1 to 1,000; 100 if it is absent. False: a fault was added; the answer is not filled
 * in. */
bool dt_answer_limit(const struct dt_request *req, struct dt_faults *faults, unsigned *limit);

/*
 * ---- secrets in the body of a topic, of its callbacks and of its alerts ----
 *
 * Answers show "***" instead of a secret. A body with "***" keeps the secret that the topic has; "*** whsec_new" adds a
 * second secret. If the body names another place to which the secret would be sent, the body must contain the secret
 * itself. Pure.
 */

#define DT_TOPIC_HIDDEN "***"
#define DT_TOPIC_SECRET_WIDENED                                                                                        \
    "must be written in full: it would go to another scheme, host or port, so \"***\" does not keep it"

/* Checks the text of a secret. Returns NULL if it is valid, otherwise the reason, static text. Sets *keeps if the text
 * begins with "***". */
const char *dt_topic_secret_check(struct dt_str text, bool *keeps);
/* Returns the secret to store, in the arena of the faults: `wanted` with "***" replaced by `had`, which may be absent.
 * widen: the secret would be sent to another place. If the secret cannot be kept, adds a fault at `pointer`. */
struct dt_str dt_topic_secret_keep(struct dt_str wanted, struct dt_str had, bool widen, const char *pointer,
                                   struct dt_faults *faults);

/* ---- topics ---- */

/* Refuses to delete the topic, because it has unfinished jobs, or a schedule creates jobs in it. */
enum dt_next dt_answer_topic_in_use(struct dt_request *req, const struct dt_topic_deletion *deletion);
/* Called after topics or shards were changed: makes this process read topics and shards again, and notifies the
 * dispatchers. */
void dt_topics_announce(struct dt_request *req);
