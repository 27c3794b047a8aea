/*
 * Operations: one change for all jobs that a filter finds.
 *
 *     make ─▶ find (windows of a table, in the order of its primary key)
 *          ─▶ change (pieces, in order of run_at and id) ─▶ done
 *
 * Each step is one transaction under the lock of the operation's row: it does a bounded piece and moves the cursor. So
 * whoever dies, the next one goes on where the last commit was, and each job is changed once. All jobs are found before
 * the first one is changed, by ids, which never change, and none that was made after the start: so none is met twice,
 * whatever the operation does to it, and those that others make or move meanwhile are not followed. A piece
 * locks its jobs' rows, decides like the single changes of store.h, and holds them no longer than a leader holds those
 * of a batch. A job that is in another state by then, or has an attempt in flight, is refused and left as it is.
 *
 * Owners take turns, piece by piece. An operation belongs to the owner of its topic (topic/owner.h), or, if it may be
 * about several topics, to the owner whose token asked for it. If a token for all topics asked, the operation has the
 * same number below zero: what an administrator does to the topics of an owner waits for nothing that the owner does.
 */
#ifndef DT_OPERATIONS_OPERATIONS_H
#define DT_OPERATIONS_OPERATIONS_H

#include "job/job.h"
#include "job/list/list.h"
#include "store/store.h"

#define DT_OPERATION_IDS_MAX  1000
#define DT_OPERATION_SAMPLE   10
#define DT_OPERATIONS_RUNNING 100 /* of one owner at once */

enum dt_operation_kind {
    DT_OPERATION_CANCEL,
    DT_OPERATION_RESCHEDULE,
    DT_OPERATION_REDRIVE,
    DT_OPERATION_RUN_NOW,
    DT_OPERATION_DELETE_TOPIC /* operations.h makes it */
};
enum dt_operation_state { DT_OPERATION_RUNNING, DT_OPERATION_DONE, DT_OPERATION_STOPPED, DT_OPERATION_FAILED };

/* The jobs that an operation is about. Absent texts, times that are not given and NULL match any. */
struct dt_operation_filter {
    struct dt_str topic;                  /* a name, or its beginning with * behind it; absent only with ids */
    struct dt_str key_prefix, error_code; /* key_prefix: with one topic only */
    struct dt_list_times run, created;
    struct dt_list_times failed; /* when its last failure was */
    int64_t *ids;                /* ascending, each once */
    size_t n_ids;
};
struct dt_operation_ask {
    enum dt_operation_kind kind;
    struct dt_operation_filter filter;
    struct dt_str request; /* the filter as JSON, to be shown */
    /* Of a reschedule: at_ms (the past is now), or with `delays` so long from now; or with `shifts` so much later
     * than each would run. */
    bool delays, shifts;
    int64_t at_ms, shift_ms, spread_ms; /* spread_ms: 0 = all at once */
    struct dt_str rate;                 /* topic/rate.h; absent = any */
    const struct dt_topic_bound *bound; /* of ids: jobs of other topics are passed by; NULL = none are */
    int64_t tenant;                     /* the owner whose token asks; 0 = the token is for all topics */
};
struct dt_operation {
    int64_t id;
    enum dt_operation_kind kind;
    enum dt_operation_state state;
    struct dt_str request, topic_from, topic_to; /* topics from the one name to the other, "" to DEL for any */
    int64_t matched, changed, refused;
    bool found;                /* all that match are: matched is final */
    struct dt_str sample;      /* JSON: ids of the first ten */
    struct dt_str rate, error; /* absent: none */
    struct dt_str actor;       /* who asked for it; absent: nobody is noted */
    int64_t started_at_ms, finished_at_ms;
};

/* Makes an operation, which runs; with ids its jobs are found already. Dispatchers leave it alone for lease_ms. *out:
 * as it was made; its texts are in the arena, here and below. FULL: DT_OPERATIONS_RUNNING of its owner run. */
DT_MUST_CHECK dt_status dt_store_operation_make(dt_store *store, const struct dt_operation_ask *ask, int64_t lease_ms,
                                                struct dt_arena *arena, struct dt_operation *out, struct dt_error *err);
/* Reads an operation. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_store_operation_get(dt_store *store, int64_t id, struct dt_arena *arena,
                                               struct dt_operation *out, struct dt_error *err);
struct dt_operation_list {
    struct dt_operation *v; /* in the arena */
    size_t n;
    bool more; /* there may be more below the last one */
};
/* Lists operations below an id (INT64_MAX: all), the latest first, up to the end of the page. */
DT_MUST_CHECK dt_status dt_store_operation_list(dt_store *store, int64_t below_id, struct dt_page_end end,
                                                struct dt_arena *arena, struct dt_operation_list *out,
                                                struct dt_error *err);
/* Ends a running operation after the piece that is under way. Nothing happens to one that has finished. *out: as it is
 * then. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_store_operation_stop(dt_store *store, int64_t id, struct dt_arena *arena,
                                                struct dt_operation *out, struct dt_error *err);
/* Gives a running operation to the dispatchers: its lease is over. They do its next piece in wait_ms, as its rate
 * wants. */
DT_MUST_CHECK dt_status dt_store_operation_hand_over(dt_store *store, int64_t id, int64_t wait_ms,
                                                     struct dt_error *err);

struct dt_operation_piece {
    int64_t id;    /* in: the operation; 0 = one whose look is due. Out: which it was; 0 = there was none to be had */
    int64_t owner; /* in, with id 0: one of this owner */
    int64_t lease_ms;          /* in: dispatchers leave it alone for so long */
    struct dt_operation shown; /* out, as the rest: as it is after the piece; valid with OK, where id is one */
    int64_t changed, refused;  /* by this piece */
    int64_t wait_ms;           /* before the next piece, by the operation's rate */
    struct dt_job_move *moves; /* in the arena */
    size_t n_moves;
};
/*
 * Does one piece of an operation: finds or changes jobs, or removes what is left of a finished one. One that somebody
 * else is at is passed by. A status whose class is not retry: the operation cannot go on, see dt_store_operation_fail;
 * piece->id says which.
 */
DT_MUST_CHECK dt_status dt_store_operation_step(dt_store *store, struct dt_operation_piece *piece,
                                                struct dt_arena *arena, struct dt_error *err);
/* Ends a running operation as failed, with the reason. */
DT_MUST_CHECK dt_status dt_store_operation_fail(dt_store *store, int64_t id, struct dt_str why, struct dt_error *err);
/* When the next look at an operation of an owner is due, by MySQL's clock. */
struct dt_operation_turn {
    int64_t owner, look_ms;
};
/* Lists all owners of operations, in the arena. */
DT_MUST_CHECK dt_status dt_store_operation_turns(dt_store *store, struct dt_arena *arena,
                                                 struct dt_operation_turn **out, size_t *n, struct dt_error *err);

/* A look at what an operation would find, with nothing kept. Zero at first, but for ask. */
struct dt_operation_preview {
    const struct dt_operation_ask *ask;
    bool over;                        /* out: all were found */
    int64_t matched;                  /* out: so far */
    int64_t ids[DT_OPERATION_SAMPLE]; /* out: the first ones */
    int walk;                         /* its own, as the rest */
    int64_t after_id, started_ms;
    struct dt_str after_key; /* in the arena */
};
/* Looks through one more window; again until it is over. The arena lives as long as the preview. */
DT_MUST_CHECK dt_status dt_store_operation_preview(dt_store *store, struct dt_operation_preview *preview,
                                                   struct dt_arena *arena, struct dt_error *err);

/*
 * Deleting topics. A topic goes only when none of its jobs is unfinished, so nothing waits for it. Its finished jobs,
 * in `jobs` and in history, stay as long as they would without the deletion.
 *
 * Whoever makes jobs knows topics from a snapshot that is a second old at most, or older in a process that was stopped
 * for a while. So a job may still be made in a topic that is gone. It is treated as the first job of a new topic: the
 * topic is made again, with defaults. dt_store_topics_revive sees to that for a day.
 */

enum dt_topic_keeper { DT_TOPIC_GOES, DT_TOPIC_HAS_JOBS, DT_TOPIC_HAS_SCHEDULE };
struct dt_topic_deletion {
    enum dt_topic_keeper keeper; /* why nothing was deleted */
    int64_t jobs;                /* HAS_JOBS: scheduled and dispatched ones */
    struct dt_str schedule;      /* HAS_SCHEDULE: one of those that make jobs of the topic; in the arena */
    /* Of dt_store_topic_delete_with_jobs: the operation that deletes the topic; its id 0 = keeper says why there is
     * none. */
    struct dt_operation operation;
};
/* Deletes a topic, with its gate; forgets deletions that are older than a day. NOT_FOUND: there is none. OK:
 * out->keeper says whether it is gone. */
DT_MUST_CHECK dt_status dt_store_topic_delete(dt_store *store, struct dt_str name, struct dt_arena *arena,
                                              struct dt_topic_deletion *out, struct dt_error *err);
/*
 * Begins to delete a topic with its jobs, unless a schedule makes some: marks it (topics.deletion), so that nothing new
 * is taken for it, and makes an operation, which dispatchers leave alone for lease_ms. One that is under way already is
 * told again. Stopped or failed, it takes the mark off and leaves the rest as it is. Of ask the filter's topic and the
 * tenant count. NOT_FOUND; FULL as of dt_store_operation_make.
 */
DT_MUST_CHECK dt_status dt_store_topic_delete_with_jobs(dt_store *store, const struct dt_operation_ask *ask,
                                                        int64_t lease_ms, struct dt_arena *arena,
                                                        struct dt_topic_deletion *out, struct dt_error *err);
/* Makes topics again that were deleted within a day and have jobs which are not finished, a bounded number at once. *n:
 * how many were made. */
DT_MUST_CHECK dt_status dt_store_topics_revive(dt_store *store, struct dt_arena *arena, size_t *n,
                                               struct dt_error *err);

#endif
