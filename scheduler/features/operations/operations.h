/*
 * Operations: an operation makes one change to all jobs that a filter finds.
 *
 *     make ─▶ find (windows of a table, in the order of its primary key)
 *          ─▶ change (pieces, in order of run_at and id) ─▶ done
 *
 * Each step is one transaction under the lock of the operation's row: it does a piece of bounded size and moves the
 * cursor. So after a crash another process continues from the last commit, and each job is changed once. All jobs are
 * found, and their ids stored, before the first is changed; jobs made after the start are excluded. So the operation
 * never finds a job again that it has changed. A piece locks the rows of its jobs, and decides like the changes of
 * single jobs (job/change/jobs.h). It keeps its locks no longer than a leader's batch. A job whose state has changed,
 * or that is in flight, is refused.
 *
 * Owners take turns, piece by piece. An operation belongs to the owner of its topic (topic/owners.h). If its filter
 * allows several topics, it belongs to the owner of the caller's token. If the caller is an administrator, whose token
 * is for all topics, its owner number is the negative number of the topic's owner: so the operations of administrators
 * and those of the topic's owner do not wait for each other.
 */
#pragma once

#include "job/job.h"
#include "job/list/list.h"
#include "store/store.h"

#define DT_OPERATION_IDS_MAX  1000
#define DT_OPERATION_SAMPLE   10
#define DT_OPERATIONS_RUNNING 100 /* most running operations that an owner may have */

enum dt_operation_kind {
    DT_OPERATION_CANCEL,
    DT_OPERATION_RESCHEDULE,
    DT_OPERATION_REDRIVE,
    DT_OPERATION_RUN_NOW,
    DT_OPERATION_DELETE_TOPIC /* made by dt_store_topic_delete_with_jobs */
};
enum dt_operation_state { DT_OPERATION_RUNNING, DT_OPERATION_DONE, DT_OPERATION_STOPPED, DT_OPERATION_FAILED };

/* Selects the jobs that an operation changes. An absent text, a time that is not given, and NULL match every job. */
struct dt_operation_filter {
    struct dt_str topic;                  /* a name, or a prefix and *; may be absent only if ids are given */
    struct dt_str key_prefix, error_code; /* key_prefix: needs a single topic */
    struct dt_list_times run, created;
    struct dt_list_times failed; /* range of the time of the last failure */
    int64_t *ids;                /* only these jobs: ids, ascending, each once; NULL = all */
    size_t n_ids;
};
struct dt_operation_ask {
    enum dt_operation_kind kind;
    struct dt_operation_filter filter;
    struct dt_str request; /* the filter as JSON, to be shown by the API */
    /* For a reschedule. at_ms: the new time of all jobs; a past time becomes now. If `delays` is set, at_ms is a delay
     * from now. If `shifts` is set, each job is moved by shift_ms instead. */
    bool delays, shifts;
    int64_t at_ms, shift_ms, spread_ms; /* spread_ms: length of the period over which the new times are spread; 0 = all
                                         * jobs get the same time */
    struct dt_str rate;                 /* jobs per time, as text (topic/limits.h); absent = no limit */
    const struct dt_topic_bound *bound; /* jobs of other topics are skipped (used with ids); NULL = any topic */
    int64_t tenant;                     /* number of the owner of the caller's token; 0 = the token is for all topics */
};
struct dt_operation {
    int64_t id;
    enum dt_operation_kind kind;
    enum dt_operation_state state;
    struct dt_str request, topic_from, topic_to; /* names of the first and the last topic; "" and DEL: all topics */
    int64_t matched, changed, refused;
    bool found;                /* the search for jobs has ended, so `matched` is final */
    struct dt_str sample;      /* JSON list with the ids of the first ten jobs */
    struct dt_str rate, error; /* absent: the operation has no rate; it has not failed */
    struct dt_str actor;       /* actor of its events; absent: it writes no events */
    int64_t started_at_ms, finished_at_ms;
};

/* Creates a running operation. If ids are given, finds its jobs at once. Dispatchers do not work on the operation for
 * lease_ms, so that the caller can. *out: the operation; here and below, its texts are in the arena. FULL: the owner
 * has DT_OPERATIONS_RUNNING running operations. */
dt_status dt_store_operation_make(dt_store *store, const struct dt_operation_ask *ask, int64_t lease_ms,
                                  struct dt_arena *arena, struct dt_operation *out, struct dt_error *err);
/* Reads an operation. NOT_FOUND: there is no such operation. */
dt_status dt_store_operation_get(dt_store *store, int64_t id, struct dt_arena *arena, struct dt_operation *out,
                                 struct dt_error *err);
struct dt_operation_list {
    struct dt_operation *v; /* in the arena */
    size_t n;
    bool more; /* there may be further operations, with lower ids */
};
/* Lists operations with ids below below_id (INT64_MAX: all), the latest first, up to the end of the page. */
dt_status dt_store_operation_list(dt_store *store, int64_t below_id, struct dt_page_end end, struct dt_arena *arena,
                                  struct dt_operation_list *out, struct dt_error *err);
/* Stops a running operation after its current piece. If it is not running, nothing changes. *out: the operation after
 * the call. NOT_FOUND: there is no such operation. */
dt_status dt_store_operation_stop(dt_store *store, int64_t id, struct dt_arena *arena, struct dt_operation *out,
                                  struct dt_error *err);
/* Ends the caller's lease of a running operation. Dispatchers may do its next piece after wait_ms. */
dt_status dt_store_operation_hand_over(dt_store *store, int64_t id, int64_t wait_ms, struct dt_error *err);

struct dt_operation_piece {
    int64_t id;       /* in: id of the operation; 0 = any that is due. out: id of the operation that was worked on; 0 =
                       * no operation was due and unlocked */
    int64_t owner;    /* in, if id is 0: owner whose operations are tried */
    int64_t lease_ms; /* in: for this time, no other process works on the operation */
    struct dt_operation shown; /* out, like the following members; valid if the status is OK and id is not 0: the
                                * operation after the piece */
    int64_t changed, refused;  /* numbers of jobs that this piece changed and refused */
    int64_t wait_ms;           /* pause before the next piece, according to the rate */
    struct dt_job_move *moves; /* jobs whose time changed, for the index; in the arena */
    size_t n_moves;
};
/* Does one piece of an operation: finds jobs, changes jobs, or deletes what is left of a finished operation. Skips
 * operations that another process has locked. If the status is not of class retry, the operation cannot continue: the
 * caller must call dt_store_operation_fail with piece->id. */
dt_status dt_store_operation_step(dt_store *store, struct dt_operation_piece *piece, struct dt_arena *arena,
                                  struct dt_error *err);
/* Sets the state of a running operation to `failed`, with a reason. */
dt_status dt_store_operation_fail(dt_store *store, int64_t id, struct dt_str why, struct dt_error *err);
/* When the next piece of an owner's operations is due, by MySQL's clock. */
struct dt_operation_turn {
    int64_t owner, look_ms;
};
/* Returns for each owner of operations when the next piece is due; in the arena. */
dt_status dt_store_operation_turns(dt_store *store, struct dt_arena *arena, struct dt_operation_turn **out, size_t *n,
                                   struct dt_error *err);

/* A preview: finds the jobs of an operation without creating it. All zero at first, except `ask`. */
struct dt_operation_preview {
    const struct dt_operation_ask *ask;
    bool over;                        /* out: the search has ended */
    int64_t matched;                  /* out: number of jobs found so far */
    int64_t ids[DT_OPERATION_SAMPLE]; /* out: ids of the first jobs */
    int walk;                         /* private to dt_store_operation_preview, like the following members */
    int64_t after_id, started_ms;
    struct dt_str after_key; /* in the arena */
};
/* Searches one more window. Must be called until preview->over is set. The arena must live as long as the preview. */
dt_status dt_store_operation_preview(dt_store *store, struct dt_operation_preview *preview, struct dt_arena *arena,
                                     struct dt_error *err);

/*
 * Deleting topics. A topic is deleted only when all of its jobs are finished. The deletion does not change how long
 * finished jobs are kept.
 *
 * An API knows topics from a snapshot that is up to a second old, or older if the process was stopped for a while. So
 * it may make a job in a topic that was just deleted. Such a job counts as the first job of a new topic: if this
 * happens within a day, dt_store_topics_revive creates the topic again, with default settings.
 */

enum dt_topic_keeper { DT_TOPIC_GOES, DT_TOPIC_HAS_JOBS, DT_TOPIC_HAS_SCHEDULE };
struct dt_topic_deletion {
    enum dt_topic_keeper keeper; /* DT_TOPIC_GOES: the topic was deleted; otherwise why it was not */
    int64_t jobs;                /* with HAS_JOBS: number of scheduled and dispatched jobs */
    struct dt_str schedule;      /* with HAS_SCHEDULE: name of a schedule that creates jobs in the topic; in the
                                  * arena */
    /* Set by dt_store_topic_delete_with_jobs: the operation that deletes the topic. If its id is 0, there is no
     * operation, and `keeper` has the reason. */
    struct dt_operation operation;
};
/* Deletes a topic and its gate; also deletes records of deletions that are older than a day. OK: out->keeper says
 * whether the topic was deleted. NOT_FOUND: there is no such topic. */
dt_status dt_store_topic_delete(dt_store *store, struct dt_str name, struct dt_arena *arena,
                                struct dt_topic_deletion *out, struct dt_error *err);
/* Begins to delete a topic with its jobs, unless a schedule creates jobs in the topic. Marks the topic
 * (topics.deletion), so that it accepts no new jobs, and creates an operation. Dispatchers do not work on the operation
 * for lease_ms. If the topic is being deleted already, returns the running operation. If the operation is stopped or
 * fails, the mark is removed, and the remaining jobs are kept. Of `ask`, only the filter's topic and the tenant are
 * used. NOT_FOUND: there is no such topic. FULL: as in dt_store_operation_make. */
dt_status dt_store_topic_delete_with_jobs(dt_store *store, const struct dt_operation_ask *ask, int64_t lease_ms,
                                          struct dt_arena *arena, struct dt_topic_deletion *out, struct dt_error *err);
/* Creates topics again that were deleted less than a day ago and have unfinished jobs; a bounded number in each call.
 * *n: number of topics that were created. */
dt_status dt_store_topics_revive(dt_store *store, struct dt_arena *arena, size_t *n, struct dt_error *err);
