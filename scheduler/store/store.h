/*
 * One connection to MySQL, its schema and its installation. The headers of each subject (job/, topic/, dispatch/,
 * features/) have what is done with it: each of their functions is one transaction, or one read.
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

#include "base/chores.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/text/strbuf.h"

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
 * dispatchers and an application (store_schema.c). */
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
 * A runtime of chores (base/chores.h) whose contexts are stores: one connection to MySQL for each of its threads, made
 * when a tick uses it, and closed with its thread. Ticks cast their context to dt_store.
 */

/* What the stores are made with (dt_store_new). */
struct dt_store_source {
    const struct dt_config *config;
    dt_refclock *ref;
};

/* name: of the threads. All is borrowed, and outlives the runtime. NOMEM, SYSTEM. */
DT_MUST_CHECK dt_status dt_store_chores_start(const struct dt_store_source *source, const dt_clock *clock,
                                              const char *name, unsigned threads, dt_chores **out,
                                              struct dt_error *err);

/* Settings of MySQL on which the promise rests that a commit which was answered survives the loss of the server's
 * machine. Read for GET /v1/doctor. */

struct dt_server_settings {
    int64_t flush; /* innodb_flush_log_at_trx_commit: 1 = each commit is flushed */
    bool has_binlog;
    int64_t sync_binlog; /* 1 = so is the binary log */
    int64_t now_ms;      /* the server's clock */
    int64_t packet;      /* max_allowed_packet */
};
/* A table that soon has no number left for another row. */
struct dt_ending_numbers {
    struct dt_str table, next;
};
/* Semi-synchronous replication, as the primary has it. */
struct dt_semi_sync {
    bool waits;       /* commits wait for a replica just now */
    bool before_seen; /* before others can see what they wrote: AFTER_SYNC */
    int64_t alone_ms; /* without a replica the server goes on alone after so long; 0: it has no such setting */
};
DT_MUST_CHECK dt_status dt_store_semi_sync(dt_store *store, struct dt_semi_sync *out, struct dt_error *err);
/* Looks at the tables that the account may see. */
DT_MUST_CHECK dt_status dt_store_ending_numbers(dt_store *store, struct dt_arena *arena, struct dt_ending_numbers **v,
                                                size_t *n, struct dt_error *err);
DT_MUST_CHECK dt_status dt_store_server_settings(dt_store *store, struct dt_server_settings *out, struct dt_error *err);

#endif
