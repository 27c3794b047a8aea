/* What suites on one store begin and end with, on a real server (mysql_fixture.c) as on the simulator's engine
 * (simulator/contract/mysql_fixture.c). */
#include "support/suite.h"

#include "support/mysql_fixture.h"
#include "topic/counts.h"

struct mysql_fixture mysql_fixture;

dt_store *mysql_fixture_store(void)
{
    dt_store *store;
    MYSQL_FIXTURE_OK(dt_store_new(&mysql_fixture.config, NULL, &store), NULL);
    return store;
}

void mysql_fixture_open(const char *prefix, unsigned shards, dt_store **store)
{
    mysql_fixture_make(prefix);
    if (shards)
        mysql_fixture.config.shards_count = shards;
    mysql_fixture_migrate();
    *store = mysql_fixture_store();
}

void mysql_fixture_empty(struct dt_arena *arena)
{
    run_sql("DELETE FROM jobs; DELETE FROM job_keys; DELETE FROM attempts; DELETE FROM topics; DELETE FROM messages; "
            "DELETE FROM deferred_results; DELETE FROM removed_jobs; DELETE FROM shard_stats; DELETE FROM history; "
            "DELETE FROM history_attempts; DELETE FROM history_counts; DELETE FROM history_days; DELETE FROM key_ends; "
            "DELETE FROM job_counts; DELETE FROM count_audits; DELETE FROM schedules; DELETE FROM schedule_fires; "
            "UPDATE shards SET inflight = '[]', halted = NULL, owner = NULL, ledger_offset = 0, send_n = 0");
    dt_arena_reset(arena);
}

int64_t mysql_fixture_audit(void)
{
    dt_audit *audit;
    dt_store *store;
    struct dt_error err = {0};
    int64_t corrected = 0;
    MYSQL_FIXTURE_OK(dt_audit_new(&audit), NULL);
    MYSQL_FIXTURE_OK(dt_store_new(&mysql_fixture.config, NULL, &store), NULL);
    for (unsigned pieces = 0; pieces < 32;) {
        struct dt_audited audited;
        OK(dt_audit_step(audit, store, 1000, &audited, &err));
        pieces += audited.done;
        corrected += audited.corrected;
    }
    dt_audit_free(audit);
    dt_store_free(store);
    return corrected;
}

void mysql_fixture_close(dt_store *store, struct dt_arena *arena)
{
    dt_arena_clear(arena);
    dt_store_free(store);
    mysql_fixture_drop();
}
