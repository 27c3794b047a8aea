/*
 * Pages of jobs: by id, by key, or by time.
 */
#ifndef DT_JOB_LIST_H
#define DT_JOB_LIST_H

#include "base/text/strbuf.h"
#include "job/job.h"
#include "store/store.h"

/*
 * Where a list by time goes on: which part of its way (0: it begins), the value of the due index that was looked at
 * last, and the id within it. split_ms: finished jobs that leave the table later come first.
 */
struct dt_list_place {
    int part;
    int64_t split_ms, due_ms, id;
};
/*
 * Which jobs a page has; absent and 0 mean any unless said otherwise. What decides the way through the tables: with
 * `key` or `key_prefix` the index of keys, in the order of keys, each key's latest job; with `id` that row; with `due`
 * or `finished`, or of dead jobs `failed`, the due index, in the order of due times, or as jobs leave the table, then
 * history; else ids.
 */
struct dt_list_filter {
    struct dt_str topic, key, key_prefix; /* absent = any; the key and the prefix need a topic */
    bool bound; /* topics must start with one of the prefixes; an empty one, or none at all, fits nothing */
    const struct dt_str *prefixes;
    size_t n_prefixes;
    int state; /* -1 = any */
    bool has_run_from, has_run_to;
    int64_t run_from_ms, run_to_ms;
    struct dt_list_times created, failed; /* when it was made; when its last failure was */
    struct dt_list_times due, finished;   /* next_at of live jobs; finished_at of others: one of them at most */
    struct dt_str error_code, error_text; /* of the last failure: its code; what its message or its code contains */
    int64_t id;                           /* 0 = any */
    bool payload;                         /* read payloads too */
    int64_t after_id;                     /* cursor of a list by id: ids above it */
    struct dt_str after_key;              /* cursor of a list by key; absent = from the start */
    struct dt_list_place after;           /* cursor of a list by time; where it begins split_ms alone is set */
    unsigned limit;
    size_t bytes; /* a page ends before its rows have more, but one row always comes; 0 = no bound */
};
enum dt_list_way { DT_LIST_BY_ID, DT_LIST_BY_KEY, DT_LIST_BY_TIME };
enum dt_list_way dt_list_way(const struct dt_list_filter *filter);

struct dt_job_list {
    struct dt_job *v; /* in the arena */
    size_t n;
    bool more; /* there may be more from the cursor on: */
    int64_t last_id;
    struct dt_str last_key;                   /* of a list by key */
    struct dt_list_place last_place, *places; /* of a list by time; of each job, for a cursor behind it */
};
/*
 * Lists a page of jobs. Looks at a bounded number of rows (>= 10,000 unless the page is full). Rows are read one by
 * one: beside those of the page there is one more in memory at most. The list is empty unless OK. A list by time may
 * have a job twice, or miss it, when its time is changed, or it moves to history, between two pages.
 */
DT_MUST_CHECK dt_status dt_store_list(dt_store *store, const struct dt_list_filter *filter, struct dt_arena *arena,
                                      struct dt_job_list *out, struct dt_error *err);

/* Where the keys end that begin with a prefix, for statements that read a range of job_keys. For store/ only. */

/* Adds the lowest text above all keys that begin with the prefix, in hexadecimal digits: it may be no valid UTF-8. */
void dt_key_range_add_end(struct dt_strbuf *out, struct dt_str prefix);

#endif
