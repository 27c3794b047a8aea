/*
 * Pages of jobs: by id, by key, or by time.
 */
#pragma once

#include "base/text/strbuf.h"
#include "job/job.h"
#include "store/store.h"

/* Where a list by time continues: the part of the list (0 = at the beginning), the last value of the due index that
 * was read, and the id within that value. Finished jobs that leave the table after split_ms come first. */
struct dt_list_place {
    int part;
    int64_t split_ms, due_ms, id;
};
/*
 * Filters a list; absent and 0 mean any, unless said otherwise. The filter determines the order:
 *
 *   key, key_prefix                   by key: each key's latest job
 *   id                                that job
 *   due, finished, failed (of dead)   by time: the due index in order of due times, or as jobs leave the table; then
 *                                     history
 *   otherwise                         by id
 */
struct dt_list_filter {
    struct dt_str topic, key, key_prefix; /* absent = any; the key and the prefix need a topic */
    bool bound; /* topics must start with one of the prefixes; without prefixes, or if one is empty, none matches */
    const struct dt_str *prefixes;
    size_t n_prefixes;
    int state; /* -1 = any */
    bool has_run_from, has_run_to;
    int64_t run_from_ms, run_to_ms;
    struct dt_list_times created, failed; /* when the job was made; when its last failure happened */
    struct dt_list_times due, finished;   /* next_at of live jobs; finished_at of finished ones; only one of the two */
    struct dt_str error_code, error_text; /* of the last failure: its code; a part of its message or code */
    int64_t id;                           /* 0 = any */
    bool payload;                         /* read payloads too */
    int64_t after_id;                     /* cursor of a list by id: ids above it */
    struct dt_str after_key;              /* cursor of a list by key; absent = from the start */
    struct dt_list_place after;           /* cursor of a list by time; at the beginning only split_ms is set */
    unsigned limit;
    size_t bytes; /* a page ends before its rows have more bytes, but has at least one row; 0 = no limit */
};
enum dt_list_way { DT_LIST_BY_ID, DT_LIST_BY_KEY, DT_LIST_BY_TIME };
enum dt_list_way dt_list_way(const struct dt_list_filter *filter);

struct dt_job_list {
    struct dt_job *v; /* in the arena */
    size_t n;
    bool more; /* there may be more, from this cursor on: */
    int64_t last_id;
    struct dt_str last_key;                   /* cursor of a list by key */
    struct dt_list_place last_place, *places; /* for a list by time; `places`: for each job, the cursor after it */
};
/*
 * Lists a page of jobs. Reads a bounded number of rows (>= 10,000 unless the page is full), one by one: besides the
 * page, at most one more is in memory. The list is empty unless OK. A list by time may have a job twice, or not at all,
 * if its time changes or it moves to history between two pages.
 */
DT_MUST_CHECK dt_status dt_store_list(dt_store *store, const struct dt_list_filter *filter, struct dt_arena *arena,
                                      struct dt_job_list *out, struct dt_error *err);

/* Appends the end of the range of keys that begin with the prefix, exclusive, in hexadecimal digits: it may not be
 * valid UTF-8. For statements that read a range of job_keys. */
void dt_key_range_add_end(struct dt_strbuf *out, struct dt_str prefix);
