/*
 * One connection to MySQL, its schema and its installation. The headers of each subject (job/, topic/, dispatch/,
 * features/) have the functions that use it; each is one transaction, or one read.
 *
 * A dt_store is one connection, and belongs to one thread at a time.
 *
 * For every function that has an err:
 *   - Inputs are borrowed for the call. Texts in outputs are in the arena that was given.
 *   - Times are milliseconds since 1970 by MySQL's clock, durations are milliseconds; 0 means no time.
 *   - UNAVAILABLE: there is no connection, or it broke during the call; nothing was committed. The next call connects
 *     again.
 *   - UNKNOWN: the connection broke during the COMMIT: the whole change was committed, or nothing.
 *   - BUSY: a deadlock or a lock timeout; nothing was committed, although the transaction was repeated a few times.
 *   - SCHEMA, FORBIDDEN: an operator must act. NOMEM, CORRUPT, INTERNAL: see base/status.h.
 *   - err has the reason for an operator; it may be NULL.
 */
#pragma once

#include "base/chores.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/text/strbuf.h"

struct dt_job_rules;
typedef struct dt_store dt_store;

/* Makes a store without a connection. It adds samples of MySQL's clock to ref, which may be NULL. config and ref
 * must outlive the store. NOMEM. */
DT_MUST_CHECK dt_status dt_store_new(const struct dt_config *config, dt_refclock *ref, dt_store **out);
/* Returns the limit of bytes of a payload: limits.payload, or less if MySQL would not accept such a statement
 * (max_allowed_packet of the latest connection of this process). */
size_t dt_store_payload_max(const struct dt_config *config);
/* Returns the present rules for bodies, from all sources: see dt_store_payload_max. Texts are borrowed. */
struct dt_job_rules dt_store_job_rules(const struct dt_config *config, const char *installation);
/* Closes the connection. Accepts NULL. */
void dt_store_free(dt_store *store);
/* Interrupts a call that waits for the server, and closes the connection permanently: calls then return UNAVAILABLE.
 * Any thread; for the end of a process. */
void dt_store_cut(dt_store *store);
#define DT_ACTOR_MAX 100
/* Sets the actor that events of the following changes name (events/events.h). Absent: none, as at first. */
void dt_store_act_as(dt_store *store, struct dt_str actor);
/* Asserts that a user of the store leaves nothing for the next: no open transaction, no unread result, no actor. */
void dt_store_assert_idle(const dt_store *store);
/* Connects if needed, and reads the server's time, for ref. */
DT_MUST_CHECK dt_status dt_store_ping(dt_store *store, struct dt_error *err);
/* Returns whether the last use of MySQL lost the connection, or could not make one. False before the first use. */
bool dt_store_lost(const dt_store *store);
/* Returns the connection, connected if needed. Only for files with SQL. */
struct dt_db;
DT_MUST_CHECK dt_status dt_store_db(dt_store *store, struct dt_db **out, struct dt_error *err);
/* Returns the connection if an answer of dt_db_ask_index was not read yet, else NULL. */
struct dt_db *dt_store_asked(dt_store *store);

/* ---- schema (store_schema.c) ---- */

/* Applies missing migrations under GET_LOCK; the first one also makes the installation (name, UUID, shards from
 * config). Calls log, which may be NULL, with the name of each. BUSY: another process has been migrating for
 * minutes. */
DT_MUST_CHECK dt_status dt_store_migrate(dt_store *store, void (*log)(const char *name), struct dt_error *err);
/* SCHEMA: this program must not use the schema, because it is older than the program, or newer and says so
 * (sql/README.md, "Migrations and programs"). */
DT_MUST_CHECK dt_status dt_store_check_schema(dt_store *store, struct dt_error *err);
/* Prints the least privileges as GRANT statements for four accounts: migrations, the API, dispatchers and an
 * application. */
void dt_store_print_grants(const char *database, FILE *out);

struct dt_installation {
    char name[101], uuid[37];
    int64_t generation;     /* generation of the slot map; rises when `shards` changes */
    int64_t topics_version; /* rises when a topic changes */
    unsigned shards;
};
/* SCHEMA: there is no installation. */
DT_MUST_CHECK dt_status dt_store_installation(dt_store *store, struct dt_installation *out, struct dt_error *err);

#define DT_CURSOR_KEY 32
/* Reads the key that seals cursors, the same for all processes. The first call makes it. If a manual edit has
 * removed it, the next call makes a new one. */
DT_MUST_CHECK dt_status dt_store_cursor_key(dt_store *store, unsigned char key[DT_CURSOR_KEY], struct dt_error *err);

/* Where a page ends: after `rows` rows, or earlier after `bytes` bytes (0: no limit). It has at least one row. */
struct dt_page_end {
    unsigned rows;
    size_t bytes;
};

/* A range of time. Not `given`: any time, or none. */
struct dt_list_times {
    bool given;
    int64_t from_ms, to_ms; /* to_ms is exclusive */
};

/* ---- chores (base/chores.h) whose contexts are stores: each thread has one connection to MySQL, made when a tick
 * first uses it. Ticks cast their context to dt_store. ---- */

/* For dt_store_new. */
struct dt_store_source {
    const struct dt_config *config;
    dt_refclock *ref;
};

/* name: of the threads. All arguments must outlive the runtime. NOMEM, SYSTEM. */
DT_MUST_CHECK dt_status dt_store_chores_start(const struct dt_store_source *source, const dt_clock *clock,
                                              const char *name, unsigned threads, dt_chores **out,
                                              struct dt_error *err);

/* ---- settings of the server that decide whether a committed change survives the loss of the server's machine; for
 * GET /v1/doctor ---- */

struct dt_server_settings {
    int64_t flush; /* innodb_flush_log_at_trx_commit; 1: each commit is flushed */
    bool has_binlog;
    int64_t sync_binlog; /* 1: each commit flushes the binary log too */
    int64_t now_ms;      /* the server's clock */
    int64_t packet;      /* max_allowed_packet */
};
/* A table whose row numbers will soon be exhausted. */
struct dt_ending_numbers {
    struct dt_str table, next;
};
/* Semi-synchronous replication, on the primary. */
struct dt_semi_sync {
    bool waits;       /* commits wait for a replica at present */
    bool before_seen; /* they wait before other sessions can see the change: AFTER_SYNC */
    int64_t alone_ms; /* without a replica, commits stop waiting after this time; 0: there is no such setting */
};
DT_MUST_CHECK dt_status dt_store_semi_sync(dt_store *store, struct dt_semi_sync *out, struct dt_error *err);
/* Finds tables, among those that the account may see, whose row numbers will soon be exhausted. */
DT_MUST_CHECK dt_status dt_store_ending_numbers(dt_store *store, struct dt_arena *arena, struct dt_ending_numbers **v,
                                                size_t *n, struct dt_error *err);
DT_MUST_CHECK dt_status dt_store_server_settings(dt_store *store, struct dt_server_settings *out, struct dt_error *err);
