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

/* Makes a store without a connection. It adds samples of MySQL's clock to ref, which may be NULL. config and ref must
 * outlive the store. Returns NOMEM if memory runs out. */
dt_status dt_store_new(const struct dt_config *config, dt_refclock *ref, dt_store **out);
/* Returns the limit of a payload in bytes: limits.payload, or less if the server's max_allowed_packet (as the latest
 * connection of this process reported it) does not allow a statement with a payload of this size. */
size_t dt_store_payload_max(const struct dt_config *config);
/* Returns the limits that a job's body must meet now: those of the configuration, and dt_store_payload_max. The texts
 * are borrowed from the arguments. */
struct dt_job_rules dt_store_job_rules(const struct dt_config *config, const char *installation);
/* Closes the connection. Accepts NULL. */
void dt_store_free(dt_store *store);
/* Interrupts a call that waits for the server, and closes the connection permanently: calls then return UNAVAILABLE.
 * May be called from any thread. Used when the process ends. */
void dt_store_cut(dt_store *store);
#define DT_ACTOR_MAX 100
/* Sets the actor that the events of later changes record (events/events.h). Absent, as in a new store: no actor. */
void dt_store_act_as(dt_store *store, struct dt_str actor);
/* Connects if needed, and adds a sample of the server's time to the reference clock. */
dt_status dt_store_ping(dt_store *store, struct dt_error *err);
/* Returns whether the last call to MySQL lost the connection or could not connect. False before the first call. */
bool dt_store_lost(const dt_store *store);
/* Returns the connection, after connecting if needed. Only for files with SQL. */
struct dt_db;
dt_status dt_store_db(dt_store *store, struct dt_db **out, struct dt_error *err);
/* Returns the connection if an answer to dt_db_ask_index was not read completely, else NULL. */
struct dt_db *dt_store_asked(dt_store *store);

/* ---- schema (store_schema.c) ---- */

/* Applies missing migrations under GET_LOCK; the first migration also makes the installation (name, UUID, shards from
 * config). Calls log, which may be NULL, with the name of each migration. BUSY: another process has been migrating for
 * minutes. */
dt_status dt_store_migrate(dt_store *store, void (*log)(const char *name), struct dt_error *err);
/* Checks whether this program may use the schema. SCHEMA: it may not, because the schema lacks migrations of this
 * program, or is newer and excludes this program (sql/README.md, "Migrations and programs"). */
dt_status dt_store_check_schema(dt_store *store, struct dt_error *err);
/* Prints GRANT statements with the least privileges of four accounts: migrations, the API, dispatchers and an
 * application. */
void dt_store_print_grants(const char *database, FILE *out);

struct dt_installation {
    char name[101], uuid[37];
    int64_t generation;     /* generation of the slot map; rises when the number of shards changes */
    int64_t topics_version; /* rises when a topic changes */
    unsigned shards;
};
/* Reads the row of the installation. SCHEMA: the row does not exist. */
dt_status dt_store_installation(dt_store *store, struct dt_installation *out, struct dt_error *err);

#define DT_CURSOR_KEY 32
/* Reads the key that seals the cursors of lists; all processes use the same key. The first call makes the key. If a
 * manual edit has removed the key, the next call makes a new one. */
dt_status dt_store_cursor_key(dt_store *store, unsigned char key[DT_CURSOR_KEY], struct dt_error *err);

/* Where a page ends: after `rows` rows, or after `bytes` bytes if that is earlier (0: no limit). A page has at least
 * one row. */
struct dt_page_end {
    unsigned rows;
    size_t bytes;
};

/* A range of time. If `given` is false, the list includes jobs of any time, and jobs without a time. */
struct dt_list_times {
    bool given;
    int64_t from_ms, to_ms; /* to_ms is exclusive */
};

/* ---- chores (base/chores.h) whose contexts are stores: each thread of the runtime has one connection to MySQL, made
 * when a tick first uses it. Ticks cast their context to dt_store. ---- */

/* The arguments of dt_store_new. */
struct dt_store_source {
    const struct dt_config *config;
    dt_refclock *ref;
};

/* Starts the chore runtime. `name` becomes the name of its threads. All arguments must outlive the runtime. Returns
 * NOMEM or SYSTEM if it cannot be started. */
dt_status dt_store_chores_start(const struct dt_store_source *source, const dt_clock *clock, const char *name,
                                unsigned threads, dt_chores **out, struct dt_error *err);

/* ---- settings of the server that decide whether a committed change survives the loss of the server's machine. Used by
 * GET /v1/doctor. ---- */

struct dt_server_settings {
    int64_t flush; /* innodb_flush_log_at_trx_commit; 1: each commit flushes InnoDB's log */
    bool has_binlog;
    int64_t sync_binlog; /* sync_binlog; 1: each commit also flushes the binary log */
    int64_t now_ms;      /* the server's time */
    int64_t packet;      /* max_allowed_packet in bytes */
};
/* A table whose AUTO_INCREMENT numbers will soon be used up. */
struct dt_ending_numbers {
    struct dt_str table, next;
};
/* Semi-synchronous replication, as configured on the primary. */
struct dt_semi_sync {
    bool waits;       /* commits now wait for a replica */
    bool before_seen; /* commits wait before other sessions can see the change (AFTER_SYNC) */
    int64_t alone_ms; /* time after which commits no longer wait for a missing replica; 0: no such setting */
};
dt_status dt_store_semi_sync(dt_store *store, struct dt_semi_sync *out, struct dt_error *err);
/* Finds tables whose AUTO_INCREMENT numbers will soon be used up, among the tables that the account may see. */
dt_status dt_store_ending_numbers(dt_store *store, struct dt_arena *arena, struct dt_ending_numbers **v, size_t *n,
                                  struct dt_error *err);
dt_status dt_store_server_settings(dt_store *store, struct dt_server_settings *out, struct dt_error *err);
