/* Implements process_findings.h: findings that only one process can see, such as a failed assertion. */
#include "process_findings.h"

#include "base/log.h"
#include "mysql/statements.h"
#include "store/processes.h"
#include "store/store_internal.h"
#include "topic/counts.h"

#define OLD_MS     3600000
#define DEATHS_MAX 3
/* if DEATHS_MAX leaders of a shard die within this time, the shard has no leader for the same time */
#define DEATHS_MS     60000
#define DEATH_ROWS    100  /* most deaths that are read: the latest ones, of all shards */
#define DEATH_WAIT_MS 2000 /* longest time for which a dying process waits for MySQL */

struct putting {
    int64_t process;
    const struct dt_process_finding *v;
    size_t n;
};

static dt_status put_findings(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct putting *p = arg;
    const struct dt_param process = DT_P_INT(p->process);
    const struct dt_param now = DT_P_INT(now_ms);
    dt_status status = dt_db_run(db, dt_sql_delete_process_findings, DT_PARAMS(process), NULL, err);
    DT_THEN(status, dt_db_run(db, dt_sql_delete_old_process_findings, DT_PARAMS(DT_P_INT(now_ms - OLD_MS)), NULL, err));
    for (size_t i = 0; i < p->n && status == DT_OK; i++) {
        const struct dt_process_finding *f = &p->v[i];
        status = dt_db_run(db, dt_sql_put_process_finding,
                           DT_PARAMS(process, DT_P_STR(f->finding), DT_P_STR(f->subject), DT_P_STR(f->detail), now),
                           NULL, err);
    }
    return status;
}

dt_status dt_store_put_findings(dt_store *store, int64_t process, const struct dt_process_finding *v, size_t n,
                                struct dt_error *err)
{
    struct putting putting = {process, v, n};
    return dt_store_commit_work(store, NULL, put_findings, &putting, err);
}

dt_status dt_store_put_stuck(dt_store *store, int64_t process, const char *chore, int64_t seconds, struct dt_error *err)
{
    char detail[100];
    snprintf(detail, sizeof(detail), "it has not returned for %lld s", (long long)seconds);
    dt_status status = dt_store_run(store, dt_sql_delete_stuck_chores, DT_PARAMS(DT_P_INT(process)), NULL, err);
    if (status == DT_OK && chore)
        status =
            dt_store_run(store, dt_sql_put_stuck_chore,
                         DT_PARAMS(DT_P_INT(process), DT_P_STR(dt_str(chore)), DT_P_STR(dt_str(detail))), NULL, err);
    return status;
}

static dt_status read_finding(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    struct dt_process_finding *f = row;
    *f = (struct dt_process_finding){.finding = dt_arena_copy(arena, dt_db_bytes(db, 0)),
                                     .subject = dt_arena_copy(arena, dt_db_bytes(db, 1)),
                                     .detail = dt_arena_copy(arena, dt_db_bytes(db, 2)),
                                     .process = dt_arena_copy(arena, dt_db_bytes(db, 3)),
                                     .found_at_ms = dt_db_i64(db, 4)};
    return f->finding.p && f->subject.p && f->detail.p && f->process.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_findings(dt_store *store, struct dt_arena *arena, struct dt_process_finding **out, size_t *n,
                            struct dt_error *err)
{
    return dt_store_read(store, dt_sql_select_process_findings,
                         DT_PARAMS(DT_P_INT(DT_PROCESS_FRESH_MS), DT_P_INT(OLD_MS), DT_P_INT(DT_PROCESS_FINDINGS_MAX)),
                         arena, DT_ROWS(out, n, read_finding), err);
}

void dt_store_put_death(const struct dt_config *config, int64_t process, const char *where, const char *what, int shard)
{
    struct dt_config brief = *config;
    struct dt_error err = {0};
    char subject[100];
    dt_db *db = NULL;
    brief.mysql_connect_timeout = brief.mysql_io_timeout = brief.mysql_lock_timeout = DEATH_WAIT_MS;
    if (shard < 0)
        snprintf(subject, sizeof(subject), "%s", where);
    else
        snprintf(subject, sizeof(subject), "shard %d, %s", shard, where);
    dt_status status = dt_db_open(&brief, &db, &err);
    DT_THEN(status,
            dt_db_run(db, dt_sql_put_death,
                      DT_PARAMS(DT_P_INT(-process), DT_P_STR(dt_str(subject)), DT_P_STR(dt_str(what))), NULL, &err));
    if (status != DT_OK)
        DT_LOG(WARN, "assert", "could not write the finding to MySQL", DT_S("reason", err.text));
    dt_db_free(db);
}

struct death {
    struct dt_str subject;
    int64_t age_ms;
};

static dt_status read_death(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    *(struct death *)row = (struct death){dt_arena_copy(arena, dt_db_bytes(db, 0)), dt_db_i64(db, 1)};
    return ((struct death *)row)->subject.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_deaths(dt_store *store, unsigned shard, struct dt_deaths *out, struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(struct death), .read = read_death};
    struct dt_arena arena = {0};
    char prefix[32];
    size_t prefix_n = (size_t)snprintf(prefix, sizeof(prefix), "shard %u, ", shard);
    *out = (struct dt_deaths){0};
    dt_status status = dt_store_read(store, dt_sql_select_deaths,
                                     DT_PARAMS(DT_P_INT(2 * DEATHS_MS), DT_P_INT(DEATH_ROWS)), &arena, &rows, err);
    const struct death *v = rows.v;
    for (size_t i = 0; i < rows.n && !out->wait_ms; i++) {
        unsigned deaths = 0;
        /* A death whose time is in the future, because MySQL's clock was set back, is ignored. */
        if (v[i].subject.n < prefix_n || memcmp(v[i].subject.p, prefix, prefix_n) != 0 || v[i].age_ms < 0 ||
            v[i].age_ms >= DEATHS_MS)
            continue;
        for (size_t j = i; j < rows.n; j++)
            deaths += dt_str_eq(v[j].subject, v[i].subject) && v[j].age_ms - v[i].age_ms <= DEATHS_MS;
        if (deaths < DEATHS_MAX)
            continue;
        out->wait_ms = DEATHS_MS - v[i].age_ms;
        snprintf(out->where, sizeof(out->where), "%.*s", (int)(v[i].subject.n - prefix_n), v[i].subject.p + prefix_n);
    }
    dt_arena_clear(&arena);
    return status;
}
