/*
 * Owns: which program does what to which table. A new table gets its line here; a check of the sources misses it
 * otherwise, and tests/integration/secured runs both programs under exactly these rights.
 */
#include "store.h"

/* Letters: Select, Insert, Update, Delete. */
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

/* Run with the rights of their caller. */
static const char *const routines[] = {"dt_renew_member", "dt_wait", "dt_watch_alerts"};

/* Tables with an AUTO_INCREMENT in which an API has no other right. */
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
    for (size_t i = 0; i < N(numbered); i++) /* GET /v1/doctor sees how far the numbers of a table are */
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
