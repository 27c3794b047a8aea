/*
 * Operations: an operation makes one change to all jobs that a filter finds.
 *
 *     make ─▶ find (windows of a table, in the order of its primary key)
 *          ─▶ change (pieces, in order of run_at and id) ─▶ done
 *
 * Each step is one transaction under the lock of the operation's row: it does a bounded piece and moves the cursor. So
 * after a crash another process continues from the last commit, and each job is changed once. All jobs are found, by
 * ids, before the first is changed, and jobs made after the start are excluded. So the operation never finds a job
 * again that it has changed. A piece locks the rows of its jobs, decides like the changes of single jobs
 * (job/change/jobs.h), and keeps its locks no longer than a leader's batch. If a job has changed its state, or has an
 * attempt in flight, it is refused.
 *
 * Owners take turns, piece by piece. An operation belongs to the owner of its topic (topic/owners.h). If its filter
 * allows several topics, it belongs to the owner of the caller's token. If the caller's token is for all topics, the
 * operation's owner is the negative number of the topic's owner, so that an administrator's operation and those of the
 * topic's owner do not wait for each other.
 */
#pragma once

#include "job/job.h"
#include "job/list/list.h"
#include "store/store.h"

#define DT_OPERATION_IDS_MAX  1000
#define DT_OPERATION_SAMPLE   10
#define DT_OPERATIONS_RUNNING 100 /* most running operations of one owner */

enum dt_operation_kind {
    DT_OPERATION_CANCEL,
    DT_OPERATION_RESCHEDULE,
    DT_OPERATION_REDRIVE,
    DT_OPERATION_RUN_NOW,
    DT_OPERATION_DELETE_TOPIC /* made by dt_store_topic_delete_with_jobs */
};
enum dt_operation_state { DT_OPERATION_RUNNING, DT_OPERATION_DONE, DT_OPERATION_STOPPED, DT_OPERATION_FAILED };

/* Selects the jobs that an operation changes. Absent texts, times that are not given, and NULL match any job. */
struct dt_operation_filter {
    struct dt_str topic;                  /* a name, or a prefix followed by *; absent only with ids */
    struct dt_str key_prefix, error_code; /* key_prefix: only with a single topic */
    struct dt_list_times run, created;
    struct dt_list_times failed; /* time of the last failure */
    int64_t *ids;                /* ascending, each once */
    size_t n_ids;
};
struct dt_operation_ask {
    enum dt_operation_kind kind;
    struct dt_operation_filter filter;
    struct dt_str request; /* the filter as JSON, as callers see it */
    /* For a reschedule. at_ms: the new time (a past time becomes now); with `delays`, it counts from now. With
     * `shifts`, each job is moved by shift_ms. */
    bool delays, shifts;
    int64_t at_ms, shift_ms, spread_ms; /* spread_ms: time over which the jobs are spread; 0 = all at once */
    struct dt_str rate;                 /* see topic/limits.h; absent = no limit */
    const struct dt_topic_bound *bound; /* for ids: jobs of other topics are skipped; NULL = any topic */
    int64_t tenant;                     /* owner of the caller's token; 0 = the token is for all topics */
};
struct dt_operation {
    int64_t id;
    enum dt_operation_kind kind;
    enum dt_operation_state state;
    struct dt_str request, topic_from, topic_to; /* topics from topic_from to topic_to; "" and DEL: any topic */
    int64_t matched, changed, refused;
    bool found;                /* all jobs are found, so `matched` is final */
    struct dt_str sample;      /* JSON list with the ids of the first ten jobs */
    struct dt_str rate, error; /* absent: no rate; no error */
    struct dt_str actor;       /* actor of events; absent: no events are written */
    int64_t started_at_ms, finished_at_ms;
};

/* Creates a running operation; if ids are given, its jobs are found at once. For lease_ms, dispatchers leave the
 * operation to the caller. *out: the operation; here and below its texts are in the arena. FULL: its owner has
 * DT_OPERATIONS_RUNNING running operations. */
DT_MUST_CHECK dt_status dt_store_operation_make(dt_store *store, const struct dt_operation_ask *ask, int64_t lease_ms,
                                                struct dt_arena *arena, struct dt_operation *out, struct dt_error *err);
/* Reads an operation. NOT_FOUND: there is no such operation. */
DT_MUST_CHECK dt_status dt_store_operation_get(dt_store *store, int64_t id, struct dt_arena *arena,
                                               struct dt_operation *out, struct dt_error *err);
struct dt_operation_list {
    struct dt_operation *v; /* in the arena */
    size_t n;
    bool more; /* there may be further operations after the last one */
};
/* Lists operations with ids below a given one (INT64_MAX: all), the latest first, up to the end of the page. */
DT_MUST_CHECK dt_status dt_store_operation_list(dt_store *store, int64_t below_id, struct dt_page_end end,
                                                struct dt_arena *arena, struct dt_operation_list *out,
                                                struct dt_error *err);
/* Stops a running operation after its current piece. A finished operation is not changed. *out: the operation after the
 * change. NOT_FOUND: there is no such operation. */
DT_MUST_CHECK dt_status dt_store_operation_stop(dt_store *store, int64_t id, struct dt_arena *arena,
                                                struct dt_operation *out, struct dt_error *err);
/* Ends the caller's lease of a running operation, so that dispatchers may do its next piece after wait_ms (by its
 * rate). */
DT_MUST_CHECK dt_status dt_store_operation_hand_over(dt_store *store, int64_t id, int64_t wait_ms,
                                                     struct dt_error *err);

struct dt_operation_piece {
    int64_t id;       /* in: the operation; 0 = any that is due. Out: the operation of the piece; 0 = none was due
                       * and free */
    int64_t owner;    /* in, with id 0: owner whose operations are tried */
    int64_t lease_ms; /* in: for this time, other processes leave the operation to the caller */
    struct dt_operation shown; /* out, like the following members: the operation after the piece; valid if OK and id
                                * is not 0 */
    int64_t changed, refused;  /* jobs that this piece changed or refused */
    int64_t wait_ms;           /* pause before the next piece, by the operation's rate */
    struct dt_job_move *moves; /* in the arena */
    size_t n_moves;
};
/* Does one piece of an operation: finds jobs, changes jobs, or deletes remains of a finished operation. If another
 * process has an operation locked, it is skipped. If the status is not of class retry, the operation cannot continue:
 * the caller must call dt_store_operation_fail with piece->id. */
DT_MUST_CHECK dt_status dt_store_operation_step(dt_store *store, struct dt_operation_piece *piece,
                                                struct dt_arena *arena, struct dt_error *err);
/* Ends a running operation as failed, with a reason. */
DT_MUST_CHECK dt_status dt_store_operation_fail(dt_store *store, int64_t id, struct dt_str why, struct dt_error *err);
/* The time at which the next piece of an owner's operations is due, by MySQL's clock. */
struct dt_operation_turn {
    int64_t owner, look_ms;
};
/* Lists the turns of all owners of operations, in the arena. */
DT_MUST_CHECK dt_status dt_store_operation_turns(dt_store *store, struct dt_arena *arena,
                                                 struct dt_operation_turn **out, size_t *n, struct dt_error *err);

/* A dry run: finds the jobs of an operation without creating it. All zero at first, except ask. */
struct dt_operation_preview {
    const struct dt_operation_ask *ask;
    bool over;                        /* out: all jobs were found */
    int64_t matched;                  /* out: number of jobs found so far */
    int64_t ids[DT_OPERATION_SAMPLE]; /* out: ids of the first jobs */
    int walk;                         /* used by dt_store_operation_preview only, like the following members */
    int64_t after_id, started_ms;
    struct dt_str after_key; /* in the arena */
};
/* Searches one more window. The caller repeats the call until preview->over. The arena must live as long as the
 * preview. */
DT_MUST_CHECK dt_status dt_store_operation_preview(dt_store *store, struct dt_operation_preview *preview,
                                                   struct dt_arena *arena, struct dt_error *err);

/*
 * Deleting topics. A topic is deleted only if all of its jobs are finished. Its finished jobs, in `jobs` and in
 * history, are kept as long as without the deletion.
 *
 * An API knows topics from a snapshot that is up to a second old, or older if the process was stopped for a while. So
 * it may make a job in a topic that was just deleted. Such a job counts as the first job of a new topic: for a day
 * dt_store_topics_revive creates the topic again, with defaults.
 */

enum dt_topic_keeper { DT_TOPIC_GOES, DT_TOPIC_HAS_JOBS, DT_TOPIC_HAS_SCHEDULE };
struct dt_topic_deletion {
    enum dt_topic_keeper keeper; /* reason why nothing was deleted */
    int64_t jobs;                /* with HAS_JOBS: number of scheduled and dispatched jobs */
    struct dt_str schedule;      /* with HAS_SCHEDULE: a schedule that creates jobs in the topic; in the arena */
    /* Set by dt_store_topic_delete_with_jobs: the operation that deletes the topic. If there is none, its id is 0, and
     * `keeper` has the reason. */
    struct dt_operation operation;
};
/* Deletes a topic and its gate, and records of deletions older than a day. OK: out->keeper says whether the topic was
 * deleted. NOT_FOUND: there is no such topic. */
DT_MUST_CHECK dt_status dt_store_topic_delete(dt_store *store, struct dt_str name, struct dt_arena *arena,
                                              struct dt_topic_deletion *out, struct dt_error *err);
/* Begins to delete a topic with its jobs, unless a schedule makes jobs in it. Marks the topic (topics.deletion), so
 * that no new jobs are accepted, and creates an operation, which dispatchers leave to the caller for lease_ms. If such
 * an operation runs already, returns that one. If the operation is stopped or fails, the mark is removed and the
 * remaining jobs are kept. Only the filter's topic and the tenant of `ask` are used. NOT_FOUND: there is no such topic.
 * FULL: as in dt_store_operation_make. */
DT_MUST_CHECK dt_status dt_store_topic_delete_with_jobs(dt_store *store, const struct dt_operation_ask *ask,
                                                        int64_t lease_ms, struct dt_arena *arena,
                                                        struct dt_topic_deletion *out, struct dt_error *err);
/* Creates topics again that were deleted within a day and have unfinished jobs, a bounded number in a call. *n: their
 * number. */
DT_MUST_CHECK dt_status dt_store_topics_revive(dt_store *store, struct dt_arena *arena, size_t *n,
                                               struct dt_error *err);
