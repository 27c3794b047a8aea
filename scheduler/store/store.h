/*
 * The port to MySQL, as callers see it: each function is one transaction, or one question. Leaders also include
 * the headers of dispatch/. Refuses to know Redis, Kafka and HTTP.
 *
 * A dt_store is one connection. It belongs to one thread at a time, and lives until dt_store_free.
 *
 * For every function that takes an err:
 *   - Inputs are borrowed for the call. Slices in outputs live in the arena that was given.
 *   - Times are milliseconds since 1970 by MySQL's clock, durations are milliseconds; 0 is the absence of a time.
 *   - UNAVAILABLE: there is no connection, or it broke under the call, and nothing was committed. The next call
 *     connects anew by itself.
 *   - UNKNOWN: the connection broke under the COMMIT: the change is there as a whole, or not at all.
 *   - BUSY: a deadlock or a lock timeout; the transaction was repeated a bounded number of times before, and nothing
 *     was committed.
 *   - SCHEMA, FORBIDDEN: an operator has to act. NOMEM, CORRUPT, INTERNAL: as base/status.h says.
 *   - err tells the reason in words for an operator; it may be NULL.
 */
#ifndef DT_STORE_STORE_H
#define DT_STORE_STORE_H

#include <stdio.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/http/host_name.h"
#include "features/quotas/quota.h"
#include "job/delivery.h"
#include "job/job.h"
#include "job/job_state.h"
#include "job/patch.h"
#include "job/shard.h"

typedef struct dt_store dt_store;

/* Makes a store, which is not connected yet. ref (may be NULL) is fed with samples of MySQL's clock. Both are borrowed
 * and outlive the store. NOMEM. */
DT_MUST_CHECK dt_status dt_store_new(const struct dt_config *config, dt_refclock *ref, dt_store **out);
/* Bytes of a payload that are taken: limits.payload, or less if MySQL takes no such statement (max_allowed_packet, as
 * the latest connection of this process found it). */
size_t dt_store_payload_max(const struct dt_config *config);
/* Ends the connection. Accepts NULL. */
void dt_store_free(dt_store *store);
/* Ends what waits in the server, and the connection for good: calls answer UNAVAILABLE from here on. Any thread; for
 * the end of the one that waits. */
void dt_store_cut(dt_store *store);
#define DT_ACTOR_MAX 100
/* Says for whom the store acts from here on, to be noted with what it changes (events/events.h); absent: nobody, as at
 * first. */
void dt_store_act_as(dt_store *store, struct dt_str actor);
/* Asserts that nothing of one user's remains for the next: no open transaction, no result that is not
 * read to its end, no actor. */
void dt_store_assert_idle(const dt_store *store);
/* Connects when needed, and asks the server for its time, which feeds ref. */
DT_MUST_CHECK dt_status dt_store_ping(dt_store *store, struct dt_error *err);
/* Says whether the last attempt to use MySQL lost the connection, or made none. False before the first one. */
bool dt_store_lost(const dt_store *store);
/* Gives the connection beneath, connected when needed; for the other files of store/ only. */
struct dt_db;
DT_MUST_CHECK dt_status dt_store_db(dt_store *store, struct dt_db **out, struct dt_error *err);
/* Gives the connection as it is if it owes an answer (dt_db_ask_index); NULL: it owes none. */
struct dt_db *dt_store_asked(dt_store *store);

/* ---- schema (store_schema.c) ---- */

/* Applies missing migrations under GET_LOCK; the first one also makes the installation (name, UUID, shards from
 * config). log (may be NULL) is called with each migration's name as it is applied. BUSY: another process has been
 * migrating for minutes. */
DT_MUST_CHECK dt_status dt_store_migrate(dt_store *store, void (*log)(const char *name), struct dt_error *err);
/* SCHEMA: the schema is older than this program, or newer, and says that this program must not work on it
 * (sql/README.md, "Migrations and programs"). */
DT_MUST_CHECK dt_status dt_store_check_schema(dt_store *store, struct dt_error *err);
/* Prints the least rights in MySQL as GRANT statements for four accounts of a database: for migrations, the API,
 * dispatchers and an application (grants.c). */
void dt_store_print_grants(const char *database, FILE *out);

struct dt_installation {
    char name[101], uuid[37];
    int64_t generation;     /* of the slot map; rises with each change of `shards` */
    int64_t topics_version; /* rises with each change of a topic */
    unsigned shards;
};
/* Reads the installation's row. SCHEMA: there is none. */
DT_MUST_CHECK dt_status dt_store_installation(dt_store *store, struct dt_installation *out, struct dt_error *err);

#define DT_CURSOR_KEY 32
/* Reads the key that seals cursors, one for all processes: made by whoever asks first, or after a manual edit emptied
 * it. */
DT_MUST_CHECK dt_status dt_store_cursor_key(dt_store *store, unsigned char key[DT_CURSOR_KEY], struct dt_error *err);

/* ---- the number of shards (shards_store.c) ---- */

/* Makes slots map to `shards` of them (1 to DT_SHARDS_MAX): their rows exist and the generation has risen, in one
 * transaction. Nothing changes when the number is the same. HALTED: a shard is halted, and nothing was changed. *inst:
 * the installation as it is afterwards; valid with OK. */
DT_MUST_CHECK dt_status dt_store_set_shards(dt_store *store, unsigned shards, struct dt_installation *inst,
                                            struct dt_error *err);
/* The shards that there are. */
struct dt_shard_range {
    /* Shards below it are to be led: those that the map names, and up to the last whose list is not empty. */
    unsigned led;
    unsigned rows; /* shards below it have a row */
    /* Of a shard that the map does not name: the token of the leadership that its row tells of; 0 = the last one has
     * stepped down. */
    int64_t standing[DT_SHARDS_MAX];
};
DT_MUST_CHECK dt_status dt_store_shard_range(dt_store *store, const struct dt_installation *inst,
                                             struct dt_shard_range *out, struct dt_error *err);

/* ---- making jobs (store_ids.c, store_insert.c) ---- */

/*
 * Reserves a block of n sequence numbers, [*first, *first + n), never below 16 for each millisecond of the server's
 * clock (since 1970): a server that was restored from a copy goes on above what it gave out since, whoever still has a
 * block of that time, and whatever became of the jobs. dt_job_id takes 39 bits of them: numbers come round in 397 days,
 * for the jobs of one home day.
 */
DT_MUST_CHECK dt_status dt_store_reserve_ids(dt_store *store, int64_t n, int64_t *first, struct dt_error *err);

enum dt_insert_outcome {
    DT_INSERT_CREATED,
    DT_INSERT_SAME,     /* the key exists, with an equal request */
    DT_INSERT_CONFLICT, /* the key exists, with another request */
    DT_INSERT_NO_TOPIC,
    DT_INSERT_ID_TAKEN, /* give the row another id and insert it again */
    DT_INSERT_REFUSED,  /* the server does not take this row */
    DT_INSERT_TOO_LARGE /* it is larger than max_allowed_packet of MySQL */,
    DT_INSERT_RESERVED, /* the key is that of a schedule's fire */
    DT_INSERT_DELETING  /* the topic is being deleted, as the caller knows and the store does not ask */
};
struct dt_insert {
    struct dt_new_job job;          /* in: final, with id, retry and ack_timeout */
    bool popped;                    /* in: workers pop the topic's jobs: one that is due is offered at once */
    bool replace;                   /* in: a job that is finished hands its key over, whatever made it */
    enum dt_insert_outcome outcome; /* out */
    int64_t existing_id;            /* out: of SAME and CONFLICT */
    int64_t near;                   /* scratch */
};
/*
 * Inserts all rows in one transaction. OK: every outcome is set, and CREATED is durable. UNAVAILABLE, BUSY: nothing
 * happened. UNKNOWN: the COMMIT's answer was lost and reading back by id did not succeed either: any of them may exist.
 * Other statuses: nothing happened. maker: the random number of this process's block of ids, by which it knows its rows
 * again. *created_ms: MySQL's time at the transaction.
 */
DT_MUST_CHECK dt_status dt_store_insert(dt_store *store, struct dt_insert *const *rows, size_t n, int64_t maker,
                                        int64_t *created_ms, struct dt_error *err);

/*
 * ---- one job (store_jobs.c) ----
 *
 * Each change fills *job with the row as it is afterwards, also with TOO_LATE, NOT_DEAD and VERSION, which change
 * nothing. NOT_FOUND: there is no such job, neither in `jobs` nor in `history`. TOO_LATE with job->unsettled: only an
 * earlier attempt's batch is in the way, which its leader settles within milliseconds as a rule; the caller may ask
 * again.
 */

/* Reads a job, archived ones too, with its payload. */
DT_MUST_CHECK dt_status dt_store_get(dt_store *store, int64_t id, struct dt_arena *arena, struct dt_job *job,
                                     struct dt_error *err);
/* Finds the id of the job that has the key. NOT_FOUND: none has it. */
DT_MUST_CHECK dt_status dt_store_find_key(dt_store *store, struct dt_str topic, struct dt_str key, int64_t *id,
                                          struct dt_error *err);
/* Says whether an attempt of the job stands in this shard's in-flight list; to tell, not to decide. */
DT_MUST_CHECK dt_status dt_store_in_flight(dt_store *store, int64_t id, int shard, bool *yes, struct dt_error *err);

/* Changes the members that the patch has; equal values write nothing. VERSION: the row has another one. */
DT_MUST_CHECK dt_status dt_store_patch(dt_store *store, int64_t id, const struct dt_patch *patch,
                                       struct dt_arena *arena, struct dt_job *job, struct dt_error *err);
/*
 * Gives the job that has the body's topic and key that body in place of its own: its times, its message, its policy,
 * and a new count of failures; the id stays, and attempts go on upward. retry and ack_timeout as in dt_insert's job,
 * absent and 0 = the topic's; the id is not looked at. Decided under the locks of the key and the job's row, so that an
 * attempt is claimed before it, with the old body (TOO_LATE), or after it, with the new one. NOT_FOUND: no job that is
 * not finished has the key, and nothing was changed; insert the body with `replace` set then, which is SAME or CONFLICT
 * when there is such a job by then.
 */
DT_MUST_CHECK dt_status dt_store_replace(dt_store *store, const struct dt_new_job *body, struct dt_arena *arena,
                                         struct dt_job *job, struct dt_error *err);
/* Cancels a job. OK: it is cancelled (now or before). With keep_attempt further attempts of a dispatched job are
 * cancelled; an attempt that is in flight is sent nevertheless then. TOO_LATE: job->state and attempt say why. */
DT_MUST_CHECK dt_status dt_store_cancel(dt_store *store, int64_t id, bool keep_attempt, struct dt_arena *arena,
                                        struct dt_job *job, struct dt_error *err);
/* Makes a scheduled job due now. TOO_LATE: it is not scheduled. */
DT_MUST_CHECK dt_status dt_store_run_now(dt_store *store, int64_t id, struct dt_arena *arena, struct dt_job *job,
                                         struct dt_error *err);
/* Makes a dead job scheduled again, due now, with a new count of failures. NOT_DEAD: it is in another state. */
DT_MUST_CHECK dt_status dt_store_redrive(dt_store *store, int64_t id, struct dt_arena *arena, struct dt_job *job,
                                         struct dt_error *err);

/* A job as a command names it. */
struct dt_command_job {
    struct dt_str id;    /* in: as the command that added it gave it, or the job's number */
    int64_t job_id;      /* out; 0 = there is none, or it is not kept any more */
    struct dt_str topic; /* out, in the arena */
    int64_t attempt;     /* out: the latest; 0 = there was none */
};
/* Finds jobs by what commands call them (store_commands.c), archived ones too where a command gave the id. */
DT_MUST_CHECK dt_status dt_store_command_jobs(dt_store *store, struct dt_command_job *v, size_t n,
                                              struct dt_arena *arena, struct dt_error *err);

struct dt_attempt {
    int64_t attempt, due_at_ms, dispatched_at_ms, finished_at_ms;
    enum dt_attempt_status status;
    struct dt_str error_code, error_message;
    int64_t http_status; /* that a receiver answered; 0 = none */
    int64_t duration_ms; /* of a callback that ended; -1 = none */
};
struct dt_attempt_filter {
    int64_t job_id, after; /* attempts with a higher number than `after` */
    unsigned limit;
};
struct dt_attempt_list {
    struct dt_attempt *v; /* in the arena */
    size_t n;
    bool more; /* there are more behind the last one */
};
/* Lists attempts in ascending order. NOT_FOUND: no such job. The list is empty unless OK. */
DT_MUST_CHECK dt_status dt_store_attempts(dt_store *store, const struct dt_attempt_filter *filter,
                                          struct dt_arena *arena, struct dt_attempt_list *out, struct dt_error *err);

/* Where a page ends: behind so many rows, or sooner where these take so many bytes (0: any); one row always comes. */
struct dt_page_end {
    unsigned rows;
    size_t bytes;
};

/* A stretch of time; not given = any time, and none at all. */
struct dt_list_times {
    bool given;
    int64_t from_ms, to_ms; /* from_ms inclusive, to_ms exclusive */
};
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

/* ---- results (store_results.c) ---- */

/* How a receiver answered a callback. */
struct dt_answer {
    int http_status;     /* 0 = none */
    int64_t duration_ms; /* -1 = none */
};

#define DT_WAS_MAX 3
/* A result, and what came of it. */
struct dt_apply {
    struct dt_result result;            /* in */
    const struct dt_answer *answer;     /* in: written with an outcome that is APPLIED; borrowed; NULL = none */
    const struct dt_topic_bound *bound; /* in: a job of another topic is an UNKNOWN_JOB; NULL = of any topic */
    enum dt_outcome outcome;            /* out */
    /* Out, for the index: where the job is due now. next_at_ms 0 = remove it. Valid when outcome is APPLIED. was_ms:
     * where its entry may be: at its deadline, at the deadline that its claim gave it, at the time that it was claimed
     * at, if the leader has not told yet; 0 = no such. */
    int64_t next_at_ms, was_ms[DT_WAS_MAX];
    bool outbox; /* a dead letter was written: wake the shard's leader */
};
/*
 * Applies results in one transaction. Rows are locked in the order of ids; several results of one job are applied in
 * the order given. A row that somebody keeps locked is waited for once (mysql.lock_timeout), then all results of that
 * job have the outcome BUSY and the others are applied. OK: every outcome is set and durable.
 */
DT_MUST_CHECK dt_status dt_store_apply(dt_store *store, const struct dt_shard_map *map, struct dt_apply *results,
                                       size_t n, struct dt_error *err);

/* ---- results that wait for a locked row (store_deferred.c) ---- */

/*
 * Applies results as dt_store_apply does, and stores what is BUSY in the same transaction (deferred_results), to be
 * applied later: after OK the caller need not remember it. some_wait: results may be stored already, so a result whose
 * job has earlier ones there is BUSY, too, whether its row is locked or not, and no locked row is waited for.
 */
DT_MUST_CHECK dt_status dt_store_apply_or_defer(dt_store *store, const struct dt_shard_map *map,
                                                struct dt_apply *results, size_t n, bool some_wait,
                                                struct dt_error *err);
/* A page of the results that are stored, in the order in which they were stored. */
struct dt_deferred_page {
    size_t limit;
    int64_t after_id;   /* in and out: behind this one, which becomes the last of the page; 0 = from the first one on */
    struct dt_apply *v; /* out, in the arena */
    size_t n;           /* out; 0: there are no more */
};
/*
 * Tries the results of a page. Those of jobs whose row is still locked, or that have earlier ones stored, are BUSY and
 * stay; the others are applied and go, in one transaction. Nothing is waited for. Several callers at once may each
 * apply a result: the second one finds a DUPLICATE, or extends a deadline once more.
 */
DT_MUST_CHECK dt_status dt_store_apply_deferred(dt_store *store, const struct dt_shard_map *map, struct dt_arena *arena,
                                                struct dt_deferred_page *page, struct dt_error *err);

/* ---- topics (topics_store.c) ---- */

/* Settings of a topic's callbacks. Values of headers and secrets are told to nobody. */
struct dt_topic_callback {
    struct dt_callback_places places;
    struct dt_str headers, secret; /* absent: there is none; headers: a JSON object of strings */
    int64_t timeout_ms;            /* 0 = the default */
};
/* A topic's settings as they were set. */
struct dt_topic {
    struct dt_str name, kafka_topic /* absent = own name */, retry /* absent = default */;
    int64_t ack_timeout_ms, retention_ms; /* 0 / -1 = default; retention 0 is a value */
    /* UNSET in a setting: as it is; of a topic that is made kafka, or pull without Kafka. */
    enum dt_delivery_id delivery;
    int64_t max_in_flight;    /* attempts that may be dispatched and not reported; 0 = any number */
    struct dt_str rate_limit; /* topic/rate.h; absent = any number of attempts may begin */
    bool paused;
    struct dt_str alerts; /* features/alerts/alert.h, as it is stored; absent = the defaults */
    struct dt_topic_callback callback;
    int64_t deletion; /* out: the operation that deletes the topic; 0 = none */
    int64_t owner;    /* out: topic/owner.h */
    int64_t created_at_ms, updated_at_ms, version;
};
struct dt_topic_counts {
    int64_t by_state[DT_JOB_STATES]; /* exact, but for what manual edits have changed since the audit came by */
    int64_t oldest_overdue_ms;       /* age of it, 0 = none */
};
/* Reads a topic. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_store_topic_get(dt_store *store, struct dt_str name, struct dt_arena *arena,
                                           struct dt_topic *out, struct dt_error *err);
/* Counts the jobs of a topic, whether or not it has a row. */
DT_MUST_CHECK dt_status dt_store_topic_counts(dt_store *store, struct dt_str name, struct dt_topic_counts *out,
                                              struct dt_error *err);
/* The reason why a topic cannot be made, or not be as it is put. */
enum dt_topic_refusal {
    DT_TOPIC_FINE,
    DT_TOPIC_CLASH,        /* its Kafka topic and another topic's are one name to Kafka: a_b beside a.b */
    DT_TOPIC_INTERNAL,     /* its Kafka topic is, or clashes with, one that is internal to an installation */
    DT_TOPIC_FOREIGN,      /* its Kafka topic is not the maker's to name */
    DT_TOPIC_CHANGED,      /* it is not the version that the terms name */
    DT_TOPIC_LIMIT,        /* there are topics_max already */
    DT_TOPIC_PREFIX_LIMIT, /* prefix_topics_max begin with one of the maker's prefixes already */
    DT_TOPIC_REFUSALS
};
/* The rights of a maker of topics. Both bounds are of topics that are made: those that are there may be changed. */
struct dt_topic_terms {
    int64_t topics_max, prefix_topics_max; /* 0 = no bound */
    const struct dt_str *prefixes;         /* of the maker; topics are counted for each that the name begins with */
    size_t n_prefixes;
    bool of_version; /* the topic must have this version, 0: not be there */
    int64_t version;
    enum dt_delivery_id delivery;  /* of a topic that is made by its first job; UNSET = the default */
    bool foreign;                  /* kafka_topic is not the maker's to name: it may stay as it is, and no more */
    enum dt_topic_refusal refusal; /* out, with INVALID */
};
/* A topic as a change leaves it. */
struct dt_topic_now {
    struct dt_arena *arena; /* in: of its texts */
    struct dt_topic topic;
    bool created; /* it was not there before */
};
/* Makes a topic, or replaces all its settings but paused (unless set_paused). INVALID: terms->refusal says why; nobody
 * else's topic is named in err. terms may be NULL: no bounds. */
DT_MUST_CHECK dt_status dt_store_topic_put(dt_store *store, const struct dt_topic *topic, bool set_paused,
                                           struct dt_topic_terms *terms, struct dt_topic_now *now,
                                           struct dt_error *err);
/* A topic that the first of its jobs makes. */
struct dt_topic_ensure {
    struct dt_str name;
    struct dt_topic_terms *terms; /* as of dt_store_topic_put */
    dt_status status;             /* out: OK: it is there now. INVALID: it may not be made */
    bool there;                   /* out: it was there before */
};
/* Makes those topics with defaults that do not exist (auto-creation), a few in a transaction: processes that keep
 * settings in memory read them anew after each. Any status but OK: some may have been made. */
DT_MUST_CHECK dt_status dt_store_topics_ensure(dt_store *store, struct dt_topic_ensure *v, size_t n,
                                               struct dt_error *err);
/* Makes one. INVALID as of dt_store_topic_put. */
DT_MUST_CHECK dt_status dt_store_topic_ensure(dt_store *store, struct dt_str name, struct dt_topic_terms *terms,
                                              struct dt_error *err);
/* Pauses or resumes a topic. now may be NULL: nobody wants to see it. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_store_topic_pause(dt_store *store, struct dt_str name, bool paused, struct dt_topic_now *now,
                                             struct dt_error *err);
struct dt_topic_filter {
    struct dt_str after; /* names above it in byte order */
    bool bound;          /* names must start with one of the prefixes; an empty one, or none at all, fits nothing */
    const struct dt_str *prefixes;
    size_t n_prefixes;
    unsigned limit;
};
struct dt_topic_list {
    struct dt_topic *v; /* in the arena */
    size_t n;
    bool more;          /* there may be more, above … */
    struct dt_str last; /* … this name, in the arena */
};
/* Lists topics in byte order. Looks at nothing outside of the prefixes, and at a bounded number of them. The list is
 * empty unless OK. */
DT_MUST_CHECK dt_status dt_store_topic_list(dt_store *store, const struct dt_topic_filter *filter,
                                            struct dt_arena *arena, struct dt_topic_list *out, struct dt_error *err);

/* ---- tokens (tokens_store.c) ---- */

#define DT_TOPICS_ALL "*"
struct dt_token {
    struct dt_str name;
    unsigned char hash[32];
    struct dt_str scopes, topics; /* topics: DT_TOPICS_ALL, or prefixes separated by commas; empty = no topic */
    int64_t created_at_ms;
    struct dt_quota_limits quotas; /* DT_QUOTA_UNSET: the configuration's */
};
/* installation.token_rule: what holds while there is no token. Whatever cannot be read as one of these is ASKED. */
enum dt_token_rule { DT_TOKENS_ASKED = 1, DT_TOKENS_NEVER_MADE, DT_TOKENS_WAIVED };
/* Adds a token. The rule is ASKED from then on, whatever becomes of the token. EXISTS: a token has this name. */
DT_MUST_CHECK dt_status dt_store_token_add(dt_store *store, const struct dt_token *token, struct dt_error *err);
/* Changes a token's quotas, all but those that are DT_QUOTA_KEPT, and gives it as it is then: name, scopes, topics,
 * quotas. NOT_FOUND: none has this name. */
DT_MUST_CHECK dt_status dt_store_token_set(dt_store *store, struct dt_str name, const struct dt_quota_limits *quotas,
                                           struct dt_arena *arena, struct dt_token *out, struct dt_error *err);
/* Removes a token. NOT_FOUND: none has this name. */
DT_MUST_CHECK dt_status dt_store_token_revoke(dt_store *store, struct dt_str name, struct dt_error *err);
/* Lists all tokens. A row whose hash is none (a manual edit) comes as a token that nobody can present. *rule (may be
 * NULL): what holds while there is no token. *out is NULL and *n is 0 unless OK. */
DT_MUST_CHECK dt_status dt_store_token_list(dt_store *store, struct dt_arena *arena, struct dt_token **out, size_t *n,
                                            enum dt_token_rule *rule, struct dt_error *err);
/* Makes the rule ASKED. */
DT_MUST_CHECK dt_status dt_store_tokens_ask(dt_store *store, struct dt_error *err);
/* Makes the rule WAIVED, until a token is made. EXISTS: there are tokens, and nothing changes. */
DT_MUST_CHECK dt_status dt_store_tokens_waive(dt_store *store, struct dt_error *err);

/* ---- processes (processes_store.c) ---- */

/*
 * Each process writes its row once a second, and at once when it could not tell the index of a change: leaders of
 * shards at an endpoint that is index_down for a process that lives read due jobs from MySQL, and all do so until the
 * index has been compared with MySQL after the last change of what dt_store_index_debts gives.
 */
struct dt_process {
    int64_t id; /* random */
    bool dispatcher;
    const char *name;       /* host:pid */
    const char *index_down; /* endpoints, separated by commas; * = all; NULL or empty: none */
    int64_t index_losses;
    const char *leads; /* NULL: an API */
    const char *waits; /* what its leaders wait for, separated by commas: "kafka", "redis"; NULL or empty: nothing */
    const char *elected_by; /* who elects it for a shard, led or not yet: "zookeeper", "mysql"; NULL: for none */
};
/* Writes the row of this process. */
DT_MUST_CHECK dt_status dt_store_beat(dt_store *store, const struct dt_process *process, struct dt_error *err);
#define DT_PROCESS_FRESH_MS 4000 /* a process that was not seen for longer is gone */
/* The dispatchers that live, taken together. */
struct dt_dispatchers {
    unsigned n;
    bool waits_kafka, waits_redis; /* a leader of one */
    int64_t seen_ms_ago;           /* of the one that was seen longest ago */
    int64_t now_ms;                /* MySQL's time of reading this */
};
/* A process that lives, as it says of itself. */
struct dt_live_process {
    int64_t id;
    bool dispatcher; /* otherwise an API */
    struct dt_str name, version;
    int64_t started_at_ms, seen_ms_ago;
    struct dt_str leads, waits, index_down; /* lists with commas; absent: nothing */
};
/* Reads the processes that live, by kind and name. */
DT_MUST_CHECK dt_status dt_store_processes(dt_store *store, struct dt_arena *arena, struct dt_live_process **out,
                                           size_t *n, struct dt_error *err);
#define DT_INSERT_TABLES 3
/* Inserts nothing into one of the tables that a new job needs (0 … 2), or DT_INSERT_TABLES: into all of them. Fails
 * where its insert would be refused (a server that is read-only, a right that is missing). */
DT_MUST_CHECK dt_status dt_store_can_insert(dt_store *store, unsigned table, struct dt_error *err);
/* The debts of all processes to the index. */
struct dt_index_debts {
    char down[1024]; /* endpoints that a process that lives cannot write to, as above; empty: none */
    uint64_t losses; /* another number whenever one of those that live has lost something, or one that had is gone */
};
/* Reads what processes could not tell the index. */
DT_MUST_CHECK dt_status dt_store_index_debts(dt_store *store, struct dt_index_debts *out, struct dt_error *err);

/* ---- what leaders say (topics_store.c) ---- */

struct dt_shard_info {
    unsigned shard;
    int64_t epoch;
    struct dt_str owner; /* whoever leads it now: the owner in its row, if that process lives and says so */
    struct dt_str halted;
    int64_t inflight;
    int64_t generation; /* of the map that the leader works with, its index filled for it; 0 = not yet */
    int64_t seen_at_ms;
    struct dt_str waiting, detail;
    struct dt_str callbacks; /* "full" or "off": due callbacks wait for places; absent: none do */
    int64_t held;            /* jobs that are due, of paused topics: they are not overdue */
    int64_t overdue, oldest_due_at_ms, drift_missing, drift_extra, drift_wrong;
};
/* Lists the shards of the map, the shards outside the map that still have a leader or need one, and, from the same
 * statement, what the dispatchers report. *out is NULL and *n is 0 unless OK. */
DT_MUST_CHECK dt_status dt_store_shards(dt_store *store, struct dt_arena *arena, struct dt_shard_info **out, size_t *n,
                                        struct dt_dispatchers *dispatchers, struct dt_error *err);

#endif
