/*
 * Applies the migrations that are compiled in, checks whether the schema fits this program, reads the installation's
 * row, and prints the least privileges of accounts.
 *
 * If two processes migrate at once, GET_LOCK admits one, and the other then finds nothing to do. A lease (leases.h) is
 * not possible: a migration creates the table of leases, and during an ALTER that takes hours nothing renews the lease.
 * DDL commits by itself on both servers, so an interrupted migration is not undone: schema_migrations counts the
 * statements that are done (`step`), and the next run continues after them. A row with applied_at = 0 is an unfinished
 * migration.
 */
#include <ctype.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/log.h"
#include "job/shard.h"
#include "migrations.h"
#include "mysql/statements.h"
#include "store_internal.h"

/* ---- splitting a file into statements ---- */

struct dt_str dt_sql_split_next(struct dt_sql_split *s)
{
    const char *start = NULL;
    while (*s->p) {
        const char *line = s->p;
        const char *end = strchrnul(line, '\n');
        const size_t n = strlen(s->delimiter);
        s->p = *end ? end + 1 : end;
        if (!start && strncmp(line, "DELIMITER ", 10) == 0) {
            snprintf(s->delimiter, sizeof(s->delimiter), "%.*s", (int)(end - line) - 10, line + 10);
        } else if (start || (line < end && strncmp(line, "--", 2) != 0)) {
            start = start ? start : line;
            if ((size_t)(end - line) >= n && memcmp(end - n, s->delimiter, n) == 0)
                return (struct dt_str){start, (size_t)(end - start) - n};
        }
    }
    return start ? dt_str(start) : DT_STR_NONE;
}

/* ---- migrating ---- */

#define LOCK_WAIT_S    5
#define LOCK_TRIES     120
#define DDL_TIMEOUT_MS (INT64_C(6) * 3600 * 1000) /* long enough for an ALTER of a large table */

/* Number of migrations before the baseline, and the last commit of a program that has exactly these migrations. */
#define CHAIN_N      51
#define CHAIN_COMMIT "101109e9"

/* Replaces the rows of all earlier migrations by the baseline's row, because both lead to the same schema. If some of
 * the earlier migrations are missing, returns SCHEMA. */
static dt_status adopt_chain(dt_db *db, struct dt_error *err)
{
    struct dt_param baseline[] = {DT_P_INT(dt_migrations[0].version), DT_P_STR(dt_str(dt_migrations[0].name))};
    bool found;
    int64_t applied;
    dt_status status =
        dt_db_read_number(db, dt_sql_count_chain, (struct dt_params){baseline, 2}, &found, &applied, err);
    if (status != DT_OK || !found)
        return status;
    if (applied != CHAIN_N)
        return dt_fail(err, DT_SCHEMA,
                       "this schema has %lld of the %d migrations before the baseline: migrate it with the programs of "
                       "commit " CHAIN_COMMIT " first",
                       (long long)applied, CHAIN_N);
    status = dt_db_begin(db, err);
    DT_THEN(status, dt_db_run(db, dt_sql_delete_chain, DT_NO_PARAMS, NULL, err));
    DT_THEN(status, dt_db_run(db, dt_sql_insert_migration, (struct dt_params){baseline, 2}, NULL, err));
    DT_THEN(status, dt_db_run(db, dt_sql_end_migration, (struct dt_params){baseline, 1}, NULL, err));
    status = dt_store_commit(db, status, err);
    if (status == DT_OK)
        DT_LOG(INFO, "schema", "the schema of earlier migrations equals the baseline and was adopted",
               DT_I("was", applied));
    return status;
}

static dt_status run_statements(dt_db *db, const struct dt_migration *m, int64_t done, struct dt_error *err)
{
    struct dt_sql_split split = {m->sql, ";"};
    int64_t step = 0;
    for (struct dt_str text; (text = dt_sql_split_next(&split)).p;) {
        if (step++ < done)
            continue;
        dt_status status = dt_db_script(db, text, err);
        /* If a statement adds a column, an index, a constraint or a procedure that exists, or drops a constraint that
         * does not exist, it was run manually, or by a run that ended before counting the step. So it counts as done,
         * and a statement must not do anything else besides. (MySQL has no ADD COLUMN IF NOT EXISTS. The statement
         * before a CREATE PROCEDURE drops the procedure.) */
        bool adds = memmem(text.p, text.n, "ADD COLUMN", strlen("ADD COLUMN")) ||
                    memmem(text.p, text.n, "ADD KEY", strlen("ADD KEY")) ||
                    memmem(text.p, text.n, "ADD CONSTRAINT", strlen("ADD CONSTRAINT")) ||
                    memmem(text.p, text.n, "PROCEDURE", strlen("PROCEDURE"));
        bool drops = memmem(text.p, text.n, "DROP CONSTRAINT", strlen("DROP CONSTRAINT"));
        if ((status == DT_EXISTS && adds) || (status == DT_NOT_FOUND && drops))
            status = DT_OK;
        /* A trigger only protects against accounts with more privileges than the printed ones. If the account may not
         * create the trigger, the migration continues without it. */
        if (status == DT_FORBIDDEN && memmem(text.p, text.n, "CREATE TRIGGER", strlen("CREATE TRIGGER"))) {
            DT_LOG(WARN, "schema", "a trigger could not be created: create it manually (deploy/README.md)",
                   DT_S("reason", err ? err->text : ""));
            status = DT_OK;
        }
        DT_THEN(status,
                dt_db_run(db, dt_sql_set_migration_step, DT_PARAMS(DT_P_INT(step), DT_P_INT(m->version)), NULL, err));
        if (status != DT_OK) {
            struct dt_error why = err ? *err : (struct dt_error){0};
            return dt_fail(err, status, "migration %04d_%s, statement %lld: %.200s", m->version, m->name,
                           (long long)step, why.text);
        }
    }
    return DT_OK;
}

/* Inserts the rows that every installation has. Existing rows are not changed. */
static dt_status make_installation(dt_db *db, const struct dt_config *config, struct dt_error *err)
{
    struct dt_str name = dt_str(config->installation_name);
    bool valid = name.n > 0 && name.n <= 100 && !dt_str_is(name, ".") && !dt_str_is(name, "..");
    for (size_t i = 0; i < name.n && valid; i++)
        valid = isalnum((unsigned char)name.p[i]) || strchr("._-", name.p[i]);
    if (!valid)
        return dt_fail(err, DT_INVALID, "[installation] name: it must have 1 to 100 of A-Z a-z 0-9 . _ -");
    dt_status status = dt_db_begin(db, err);
    DT_THEN(status, dt_db_run(db, dt_sql_insert_installation, DT_PARAMS(DT_P_STR(name), DT_P_INT(config->shards_count)),
                              NULL, err));
    DT_THEN(status, dt_db_run(db, dt_sql_insert_id_sequence, DT_NO_PARAMS, NULL, err));
    int64_t shards = 0;
    DT_THEN(status, dt_db_read_number(db, dt_sql_select_shards_number, DT_NO_PARAMS, NULL, &shards, err));
    if (status == DT_OK && (shards < 1 || shards > DT_SHARDS_MAX))
        status = dt_fail(err, DT_CORRUPT, "installation.shards is %lld, but must be 1 to %d", (long long)shards,
                         DT_SHARDS_MAX);
    if (status == DT_OK) {
        struct dt_param params[DT_SHARDS_MAX];
        for (unsigned i = 0; i < shards; i++)
            params[i] = DT_P_INT(i);
        status = dt_db_run_many(db, dt_sql_insert_shard, (struct dt_param_rows){params, 1, (size_t)shards}, NULL, err);
    }
    return dt_store_commit(db, status, err);
}

static dt_status apply_migration(dt_db *db, const struct dt_config *config, const struct dt_migration *m,
                                 void (*log)(const char *name), struct dt_error *err)
{
    bool found;
    int64_t done;
    dt_status status =
        dt_db_read_number(db, dt_sql_select_migration, DT_PARAMS(DT_P_INT(m->version)), &found, &done, err);
    if (status != DT_OK || (found && done < 0))
        return status;
    if (!found)
        status = dt_db_run(db, dt_sql_insert_migration, DT_PARAMS(DT_P_INT(m->version), DT_P_STR(dt_str(m->name))),
                           NULL, err);
    DT_THEN(status, run_statements(db, m, done, err));
    if (status == DT_OK && m->version == 1)
        status = make_installation(db, config, err);
    DT_THEN(status, dt_db_run(db, dt_sql_end_migration, DT_PARAMS(DT_P_INT(m->version)), NULL, err));
    if (status == DT_OK && log)
        log(m->name);
    return status;
}

dt_status dt_store_migrate(dt_store *store, void (*log)(const char *name), struct dt_error *err)
{
    struct dt_config config = *dt_store_config(store);
    config.mysql_io_timeout = DDL_TIMEOUT_MS;
    dt_db *db;
    dt_status status = dt_db_open(&config, &db, err); /* closing the connection releases the lock */
    if (status != DT_OK)
        return status;
    int64_t locked = 0;
    for (int i = 0; i < LOCK_TRIES && status == DT_OK && !locked; i++)
        status = dt_db_read_number(db, dt_sql_lock_migrations, DT_PARAMS(DT_P_INT(LOCK_WAIT_S)), NULL, &locked, err);
    if (status == DT_OK && !locked)
        status = dt_fail(err, DT_BUSY, "another process has been migrating for %d s", LOCK_WAIT_S * LOCK_TRIES);
    /* Literals in views keep the collation of the session that creates the view. With a binary collation, clients of
     * any collation can compare their own values with these literals. */
    DT_THEN(status, dt_db_script(db, dt_str(dt_sql_set_migration_collation), err));
    DT_THEN(status, dt_db_script(db, dt_str(dt_sql_create_migrations), err));
    DT_THEN(status, adopt_chain(db, err));
    for (int i = 0; i < dt_migrations_n && status == DT_OK; i++) {
        dt_assert_cmp(dt_migrations[i].version, ==, i + 1);
        status = apply_migration(db, &config, &dt_migrations[i], log, err);
    }
    if (status == DT_OK && config.installation_test_clock)
        status = dt_db_run(db, dt_sql_insert_test_clock, DT_NO_PARAMS, NULL, err);
    dt_db_free(db);
    return status;
}

/* ---- reading the schema ---- */

dt_status dt_store_check_schema(dt_store *store, struct dt_error *err)
{
    struct dt_param baseline[] = {DT_P_INT(dt_migrations_n), DT_P_STR(dt_str(dt_migrations[0].name))};
    dt_db *db;
    int64_t applied = 0;
    int64_t newest = 0;
    int64_t needed = 0;
    int64_t rows = 0;
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status,
            dt_db_read_number(db, dt_sql_count_migrations, (struct dt_params){baseline, 2}, NULL, &applied, err));
    DT_THEN(status, dt_db_read_number(db, dt_sql_select_newest_migration, DT_NO_PARAMS, NULL, &newest, err));
    DT_THEN(status, dt_db_read_number(db, dt_sql_count_installations, DT_NO_PARAMS, NULL, &rows, err));
    if (status != DT_OK)
        return status;
    if (applied < dt_migrations_n)
        return dt_fail(err, DT_SCHEMA, "%lld of %d migrations are applied: run duetime-api --migrate",
                       (long long)applied, dt_migrations_n);
    /* A schema that is newer than this program says which programs may use it. */
    if (newest > dt_migrations_n)
        status =
            dt_db_read_number(db, dt_sql_select_needed_migration, (struct dt_params){baseline, 1}, NULL, &needed, err);
    if (status != DT_OK)
        return status;
    if (needed > dt_migrations_n)
        return dt_fail(err, DT_SCHEMA,
                       "the schema has version %lld, which needs programs of %lld or later; this one has %d",
                       (long long)newest, (long long)needed, dt_migrations_n);
    if (rows != 1)
        return dt_fail(err, DT_SCHEMA, "the installation row is missing: run duetime-api --migrate");
    return DT_OK;
}

dt_status dt_store_installation(dt_store *store, struct dt_installation *out, struct dt_error *err)
{
    dt_db *db;
    memset(out, 0, sizeof(*out));
    dt_status status = dt_store_query(store, &db, dt_sql_select_installation, DT_NO_PARAMS, err);
    if (status != DT_OK)
        return status;
    bool found = dt_db_next(db);
    if (found) {
        const struct dt_str name = dt_db_bytes(db, 0);
        const struct dt_str uuid = dt_db_bytes(db, 1);
        snprintf(out->name, sizeof(out->name), "%.*s", (int)name.n, name.p ? name.p : "");
        snprintf(out->uuid, sizeof(out->uuid), "%.*s", (int)uuid.n, uuid.p ? uuid.p : "");
        out->shards = (unsigned)dt_db_i64(db, 2);
        out->generation = dt_db_i64(db, 3);
        out->topics_version = dt_db_i64(db, 4);
    }
    status = dt_db_end(db, err);
    if (status == DT_OK && !found)
        status = dt_fail(err, DT_SCHEMA, "the installation row is missing");
    return status;
}

static dt_status read_cursor_key(dt_db *db, unsigned char key[DT_CURSOR_KEY], bool *made, struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_select_cursor_key, DT_NO_PARAMS, err);
    if (status != DT_OK)
        return status;
    struct dt_str found = dt_db_next(db) ? dt_db_bytes(db, 0) : DT_STR_NONE;
    *made = found.n == DT_CURSOR_KEY;
    if (*made)
        memcpy(key, found.p, DT_CURSOR_KEY);
    return dt_db_end(db, err);
}

dt_status dt_store_cursor_key(dt_store *store, unsigned char key[DT_CURSOR_KEY], struct dt_error *err)
{
    dt_db *db;
    bool made = false;
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status, read_cursor_key(db, key, &made, err));
    if (status != DT_OK || made)
        return status;
    /* If several processes find no key at once, all use the key that was stored first. */
    char random[DT_CURSOR_KEY];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return dt_fail(err, DT_SYSTEM, "no random numbers from the system");
    status =
        dt_db_run(db, dt_sql_set_cursor_key,
                  DT_PARAMS(DT_P_STR(((struct dt_str){random, sizeof(random)})), DT_P_INT(DT_CURSOR_KEY)), NULL, err);
    DT_THEN(status, read_cursor_key(db, key, &made, err));
    return status || made ? status : dt_fail(err, DT_SCHEMA, "the installation row is missing");
}

/* ---- grants: which program may do what with which table. A new table needs a row here: tests/integration/secured
 * finds missing rows, and runs both programs with exactly these privileges. ---- */

/* Privileges by their first letters: Select, Insert, Update, Delete. */
static const struct {
    const char *table, *api, *dispatcher;
} grants[] = {
    {"alert_judge", "SIU", "SIU"},
    {"alerts", "SIUD", "SIUD"},
    {"api_tokens", "SIUD", ""},
    {"attempts", "SIU", "SIUD"},
    {"command_ids", "SIUD", "SIUD"},
    {"command_offsets", "", "SIU"},
    {"count_audits", "S", "SIU"},
    {"deferred_results", "", "SID"},
    {"deleted_topics", "SID", "S"},
    {"election_members", "", "SIUD"},
    {"figures", "SIUD", "SIUD"},
    {"figures_lateness", "SIUD", "SIUD"},
    {"hand_owners", "S", "SIUD"},
    {"hands", "S", "SIUD"},
    {"history", "SD", "SIUD"},
    {"history_attempts", "SD", "SIUD"},
    {"history_counts", "SU", "SIUD"},
    {"history_days", "S", "SIUD"},
    {"id_sequence", "SIU", "SU"},
    {"installation", "SIU", "SU"},
    {"job_counts", "SIU", "SIU"},
    {"job_events", "SI", "SI"},
    {"job_inbox", "S", "SD"},
    {"job_keys", "SIUD", "SIUD"},
    {"jobs", "SIU", "SIUD"},
    {"key_ends", "SD", "SID"},
    {"leases", "", "SID"},
    {"messages", "SIUD", "SIUD"},
    {"operation_jobs", "SIUD", "SIUD"},
    {"operations", "SIUD", "SUD"},
    {"pop_queue", "SIUD", "SIUD"},
    {"process_findings", "S", "SID"},
    {"processes", "SIUD", "SIUD"},
    {"quota_shares", "SIUD", "SIUD"},
    {"removed_jobs", "", "SIU"},
    {"schedule_fires", "SIUD", "SIUD"},
    {"schedules", "SID", "S"},
    {"schema_migrations", "S", "S"},
    {"shard_stats", "S", "SIU"},
    {"shards", "SIU", "SU"},
    {"test_clock", "SU", "S"},
    {"token_usage", "SIUD", ""},
    {"topic_gates", "SIUD", "SIU"},
    {"topics", "SIUD", "SIU"},
    {"work_leases", "SIUD", "SIUD"},
};

/* Procedures that run with the privileges of the caller. */
static const char *const routines[] = {"dt_renew_member", "dt_wait", "dt_watch_alerts"};

/* Tables with an AUTO_INCREMENT on which the API's account has no other privilege. */
static const char *const numbered[] = {"deferred_results"};

#define N(array) (sizeof(array) / sizeof((array)[0]))

static void print_table(const char *database, const char *table, const char *letters, const char *user, FILE *out)
{
    if (!*letters)
        return;
    for (const char *p = letters; *p; p++)
        fprintf(out, "%s%s", p == letters ? "GRANT " : ", ",
                *p == 'S'   ? "SELECT"
                : *p == 'I' ? "INSERT"
                : *p == 'U' ? "UPDATE"
                            : "DELETE");
    fprintf(out, " ON `%s`.%s TO %s;\n", database, table, user);
}

void dt_store_print_grants(const char *database, FILE *out)
{
    fputs("-- The least rights of four accounts. Make them first, with passwords of their own, such as\n"
          "--   CREATE USER 'duetime_api'@'%' IDENTIFIED BY '...' REQUIRE SSL;\n"
          "-- and run this again after each migration: a table must be there to be granted.\n\n"
          "-- duetime-api --migrate. Keep the account: the trigger of job_inbox runs with its rights. To make it while "
          "there\n"
          "-- is a binary log, servers want the right SUPER, or SET GLOBAL log_bin_trust_function_creators = 1; else "
          "it is\n"
          "-- left out, with a warning.\n",
          out);
    fprintf(
        out,
        "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES, CREATE VIEW, SHOW VIEW,\n"
        "  CREATE ROUTINE, ALTER ROUTINE, EXECUTE, TRIGGER ON `%s`.* TO 'duetime_migrate'@'%%';\n\n-- duetime-api\n",
        database);
    for (size_t i = 0; i < N(grants); i++)
        print_table(database, grants[i].table, grants[i].api, "'duetime_api'@'%'", out);
    fprintf(out,
            "GRANT EXECUTE ON PROCEDURE `%s`.dt_watch_alerts TO 'duetime_api'@'%%';\n"
            "GRANT EXECUTE ON PROCEDURE `%s`.dt_wait TO 'duetime_api'@'%%';\n",
            database, database);
    for (size_t i = 0; i < N(numbered); i++) /* for GET /v1/doctor, which reads the last row number */
        fprintf(out, "GRANT SELECT (id) ON `%s`.%s TO 'duetime_api'@'%%';\n", database, numbered[i]);
    fputs("\n-- duetime-dispatcher, which also adds and drops partitions\n", out);
    for (size_t i = 0; i < N(grants); i++)
        print_table(database, grants[i].table, grants[i].dispatcher, "'duetime_dispatcher'@'%'", out);
    fprintf(out,
            "GRANT SELECT (name, scopes, topics, jobs_per_second, pending_jobs) ON `%s`.api_tokens TO "
            "'duetime_dispatcher'@'%%';\n"
            "GRANT ALTER, CREATE, DROP ON `%s`.history TO 'duetime_dispatcher'@'%%';\n"
            "GRANT ALTER, CREATE, DROP ON `%s`.history_attempts TO 'duetime_dispatcher'@'%%';\n"
            "GRANT ALTER, CREATE, DROP ON `%s`.job_events TO 'duetime_dispatcher'@'%%';\n",
            database, database, database, database);
    for (size_t i = 0; i < N(routines); i++)
        fprintf(out, "GRANT EXECUTE ON PROCEDURE `%s`.%s TO 'duetime_dispatcher'@'%%';\n", database, routines[i]);
    fprintf(
        out,
        "\n-- An application that inserts into job_inbox: one such account for each. What the server and dispatchers "
        "write is\n-- not granted.\n"
        "GRANT INSERT (action, topic, job_key, job_id, run_at, delay_ms, payload, options) ON `%s`.job_inbox TO "
        "'duetime_application'@'%%';\n",
        database);
}
