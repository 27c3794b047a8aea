/*
 * What several handlers need: reading a body and an id, showing a job, turning a status of the store into a problem.
 * Knows requests and JSON, not the store's functions.
 */
#ifndef DT_API_ANSWER_H
#define DT_API_ANSWER_H

#include "api.h"
#include "auth/cursor.h"
#include "jobs/job_json.h"
#include "request.h"

/* From the configuration and a snapshot (whose installation it borrows; NULL: the name from the configuration). */
struct dt_job_rules dt_answer_rules(const struct dt_api *api, const struct dt_view *view);

/* The body parsed with this thread's parser; NULL: a problem is filled in. *root is the top of the document. */
dt_json *dt_answer_parse(struct dt_request *req, const struct dt_job_rules *rules, const struct dt_json_node **root);

/* params[0] as a job's id. False: 404 is filled in. */
bool dt_answer_id(struct dt_request *req, int64_t *id);

/* Can the clock be trusted to add delays to? False: 503 is filled in (MySQL was never reached). */
bool dt_answer_clock(struct dt_request *req);

/* 413 or 422 with all faults, or 503/500 for other statuses of a decoder. Always DT_REPLY. */
enum dt_next dt_answer_faults(struct dt_request *req, dt_status status, const struct dt_faults *faults);

/* A problem for a status of the store. job: as it is now (too-late, not-dead, version-mismatch), NULL = unknown. */
enum dt_next dt_answer_status(struct dt_request *req, dt_status status, const struct dt_job *job,
                              const struct dt_error *err);
enum dt_next dt_answer_not_found(struct dt_request *req, const char *what);

/* The job as JSON with its ETag; status is 200 or 201 (then with Location). */
enum dt_next dt_answer_job(struct dt_request *req, int status, const struct dt_job *job,
                           const struct dt_job_view *view);

/*
 * A page ends when its answer has so many bytes, whatever its limit; one row always comes. What a page is made of is
 * held (dt_request_hold) before it is read: the rows, and the answer, whose buffer may be twice as large as its text.
 */
#define DT_PAGE_BYTES ((size_t)4 << 20)
static inline size_t dt_page_room(size_t bytes)
{
    return 3 * bytes;
}
/*
 * What reading and answering one job may take: its payload with the client library, in a cell, in the arena, and in a
 * buffer that grew by doubling, perhaps as base64.
 */
size_t dt_answer_job_room(const struct dt_api *api);

/* A list as this caller looks at it (see cursor.h). False: 503 is filled in (MySQL was never reached). */
bool dt_answer_list(struct dt_request *req, char kind, const struct dt_str *fields, size_t n,
                    struct dt_cursor_list *list);
/* "cursor": where to go on; absent = from the beginning. False: a fault was added. */
bool dt_answer_cursor(struct dt_request *req, const struct dt_cursor_list *list, struct dt_faults *faults,
                      struct dt_str *position);
/* The end of a page: `],"next_cursor":…}`. */
void dt_answer_next_cursor(struct dt_request *req, const struct dt_cursor_list *list, bool more,
                           struct dt_str position);

/* "limit": 1-1,000, default 100. False: a fault was added. */
bool dt_answer_limit(const struct dt_request *req, struct dt_faults *faults, unsigned *limit);

#endif
