/* Pages of jobs: by id, by key, or by time. */
#pragma once

#include "base/text/strbuf.h"
#include "job/job.h"
#include "store/store.h"

/* The cursor of a list by time: the part of the list (0 = the first), the last value of the due index that was read,
 * and the last id that was read with that value. split_ms divides the finished jobs that are still in `jobs` into two
 * parts: jobs that move to history at split_ms or later are listed first, then jobs that move earlier. */
struct dt_list_place {
    int part;
    int64_t split_ms, due_ms, id;
};
/*
 * The filter of a list; absent and 0 match any value, unless a member says otherwise. The filter determines the order:
 *
 *   key, key_prefix                   by key: the latest job of each key
 *   id                                only the job with that id
 *   due, finished, failed (of dead)   by time: live jobs in order of due times, finished jobs in the order in which
 *                                     they leave `jobs`; then the jobs in history
 *   otherwise                         by id
 */
struct dt_list_filter {
    struct dt_str topic, key, key_prefix; /* absent = any; key and key_prefix need a topic */
    bool bound; /* only topics whose names begin with one of the prefixes; an empty prefix, or no prefix, matches no
                 * topic */
    const struct dt_str *prefixes;
    size_t n_prefixes;
    int state; /* state of the jobs; -1 = any */
    bool has_run_from, has_run_to;
    int64_t run_from_ms, run_to_ms;
    struct dt_list_times created, failed; /* time at which the job was made; time of its last failure */
    struct dt_list_times due, finished;   /* next_at of live jobs; finished_at of finished jobs. At most one of `due`
                                           * and `finished` may be set */
    struct dt_str error_code, error_text; /* error_code: code of the last failure; error_text: a part of its message or
                                           * code */
    int64_t id;                           /* only this job; 0 = any job */
    bool payload;                         /* read the payloads, too */
    int64_t after_id;                     /* cursor of a list by id: only ids above this one */
    struct dt_str after_key;              /* cursor of a list by key; absent = the first key */
    struct dt_list_place after;           /* cursor of a list by time; for the first page only split_ms is set */
    unsigned limit;
    size_t bytes; /* most bytes of a page's rows; the first row may be larger; 0 = no limit */
};
enum dt_list_way { DT_LIST_BY_ID, DT_LIST_BY_KEY, DT_LIST_BY_TIME };
enum dt_list_way dt_list_way(const struct dt_list_filter *filter);

struct dt_job_list {
    struct dt_job *v; /* in the arena */
    size_t n;
    bool more; /* there may be more jobs; one of the cursors below continues the list */
    int64_t last_id;
    struct dt_str last_key;                   /* cursor of a list by key */
    struct dt_list_place last_place, *places; /* for a list by time: last_place is the cursor after the page; places has
                                               * the cursor after each job */
};
/* Lists a page of jobs. Reads a bounded number of rows, but at least 10,000 unless the page is full earlier. Besides
 * the page, at most one row is in memory. The list is empty unless OK. If a job's time changes between two pages, or
 * the job moves to history, a list by time may have it twice or not at all. */
dt_status dt_store_list(dt_store *store, const struct dt_list_filter *filter, struct dt_arena *arena,
                        struct dt_job_list *out, struct dt_error *err);

/* Appends the exclusive end of the range of keys that begin with the prefix, for statements that read a range of
 * job_keys. It is written as hexadecimal digits, because it may not be valid UTF-8. */
void dt_key_range_add_end(struct dt_strbuf *out, struct dt_str prefix);
