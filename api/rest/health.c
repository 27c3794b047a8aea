/*
 * Owns the API's row in `processes`, and the latest state of MySQL. The chore has a thread of its own, because
 * readiness must not wait until another chore gets a locked table.
 *
 * A check runs once a second. It writes the row; samples MySQL's clock; checks the schema, until the schema fits; reads
 * topics and shards. Every other check reads the tokens, and tests inserts into the three tables of new jobs. If no
 * request came since the last check and all is well, the chore rests: it checks half as often, reads shards in every
 * other check, and tests one of the three inserts. If MySQL is down, a check costs one failed call, and no other part
 * waits for the check.
 *
 * If the index writer has lost entries, the chore writes the row at once, without a check. The row tells the leaders
 * about the losses. After the row was written, the writer notifies the leaders, if Redis is reachable.
 */
#include "health.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "features/clock/clock.h"
#include "store/processes.h"

#define TICK_US  INT64_C(1000000)
#define REST_US  INT64_C(2000000) /* time between two checks while the chore rests */
#define APART_US INT64_C(50000)   /* minimal time between two writes of the row to report losses */

struct dt_health {
    const dt_clock *clock;
    dt_topic_cache *topics;
    dt_auth *auth;
    struct dt_chore chore;
    struct dt_session session;
    dt_index_writer *index;
    int64_t id; /* id of this process's row */
    char name[100];
    unsigned ticks;
    bool schema_fits, inserts; /* results of the last check */
    bool rests;
    int64_t check_us;  /* mono: when the next check is due */
    int64_t losses_us; /* mono: earliest time of the next write to report losses */
    struct dt_outage_part outage;
    _Atomic bool lost; /* the index writer lost entries, and the row does not report them yet */
    pthread_mutex_t lock;
    struct dt_health_state state; /* protected by the lock */
    dt_metric *mysql_up, *redis_up;
};

void dt_health_get(dt_health *h, struct dt_health_state *out)
{
    pthread_mutex_lock(&h->lock);
    *out = h->state;
    pthread_mutex_unlock(&h->lock);
    if (out->mysql != DT_OK || !dt_session_stalled(&h->session))
        return;
    out->mysql = DT_UNAVAILABLE;
    out->mysql_word = "unavailable";
    snprintf(out->mysql_text, sizeof(out->mysql_text), "the server does not answer");
}

void dt_health_drain(dt_health *h)
{
    pthread_mutex_lock(&h->lock);
    h->state.draining = true;
    pthread_mutex_unlock(&h->lock);
}

/* ---- one check ---- */

/* Writes the row, with the losses of the index writer. Leaders may be notified of the losses only after this write. */
static dt_status write_process_row(dt_health *h, struct dt_error *err)
{
    struct dt_index_verdict index;
    dt_index_writer_verdict(h->index, &index);
    struct dt_process row = {.id = h->id, .name = h->name, .index_down = index.down, .index_losses = index.losses};
    return dt_store_beat(h->session.store, &row, err);
}

static dt_status check_mysql(dt_health *h, struct dt_error *err)
{
    dt_store *store = h->session.store; /* dt_session_begin has sampled MySQL's clock */
    const bool odd = h->ticks % 2;
    dt_status status = DT_OK;
    if (!h->schema_fits) {
        status = dt_store_check_schema(store, err);
        DT_THEN(status, dt_store_check_test_clock(store, err));
        h->schema_fits = status == DT_OK;
    }
    /* The tokens are read even if another step failed: an old list would accept a token that was revoked. */
    dt_status known = DT_OK;
    if (!odd || !dt_auth_known(h->auth))
        known = dt_auth_load(h->auth, store, status == DT_OK ? err : NULL);
    DT_THEN(status, known);
    DT_THEN(status, write_process_row(h, err));
    if (status == DT_OK && !(h->inserts && odd)) /* while the chore rests, only one of the inserts is tested */
        status = dt_store_can_insert(store, h->rests && h->inserts ? h->ticks / 2 % DT_INSERT_TABLES : DT_INSERT_TABLES,
                                     err);
    h->inserts = status == DT_OK;
    DT_THEN(status, dt_topic_cache_refresh(
                        h->topics, h->rests && odd ? DT_SNAPSHOT_TOPICS : DT_SNAPSHOT_TOPICS_AND_SHARDS, store, err));
    return status;
}

/* Returns a word for the state of MySQL that every caller may see. MySQL's own text may contain names of users and
 * hosts. */
static const char *mysql_state_word(dt_status status, const struct dt_error *err)
{
    static const char prefix[] = "MySQL "; /* prefix of errors that the server sent; the number follows */
    unsigned long number = 0;
    if (status == DT_OK)
        return "ok";
    if (status == DT_SCHEMA)
        return "schema";
    if (strncmp(err->text, prefix, strlen(prefix)) == 0)
        number = strtoul(err->text + strlen(prefix), NULL, 10);
    if (number == 1290 || number == 1836 || number == 1792)
        return "read-only";
    if (status == DT_DENIED || number == 1044 || number == 1045 || number == 1698 || number == 1142 || number == 1143 ||
        number == 1227 || number == 1370)
        return "refused";
    return status == DT_UNAVAILABLE ? "unavailable" : "failing";
}

static void publish_state(dt_health *h, dt_status status, const struct dt_error *err,
                          const struct dt_index_verdict *index)
{
    bool redis = index->status == DT_OK;
    pthread_mutex_lock(&h->lock);
    h->state.mysql_word = mysql_state_word(status, err);
    h->state.mysql_us = dt_clock_mono_us(h->clock);
    h->state.redis_us = index->at_us;
    snprintf(h->state.redis_text, sizeof(h->state.redis_text), "%s", index->text);
    dt_status before = h->state.mysql;
    h->state.mysql = status;
    h->state.redis = redis;
    snprintf(h->state.mysql_text, sizeof(h->state.mysql_text), "%s",
             status == DT_OK ? "" : (err->text[0] ? err->text : dt_status_text(status)));
    pthread_mutex_unlock(&h->lock);
    dt_metric_set(h->mysql_up, status == DT_OK);
    if (h->redis_up)
        dt_metric_set(h->redis_up, redis);
    if (before != status && status == DT_OK)
        DT_LOG(INFO, "health", "MySQL is ready");
    if (status != DT_OK)
        dt_outage_failed(&h->outage, DT_OUTAGE_MYSQL, "health", "MySQL is not ready", status, err);
    else
        dt_outage_over(&h->outage);
    dt_outage_look(dt_clock_mono_us(dt_clock_system()));
}

static void check_mysql_and_index(dt_health *h)
{
    struct dt_error err = {0};
    struct dt_index_verdict index;
    h->rests = !dt_topic_cache_was_asked(h->topics) && h->state.mysql == DT_OK;
    if (h->rests &&
        h->ticks % 5) /* skips the ping: the clock was just sampled, and the next statement notices a lost connection */
        h->session.used_us = dt_clock_mono_us(h->clock);
    dt_status status = dt_session_begin(&h->session, &err);
    DT_THEN(status, check_mysql(h, &err));
    if (status != DT_OK)
        h->schema_fits = h->rests = false; /* after an outage the address may belong to another server */
    dt_session_end(&h->session);
    dt_index_writer_verdict(h->index, &index);
    publish_state(h, status, &err, &index);
    h->ticks++;
}

/* ---- the chore ---- */

static void on_index_entries_lost(void *arg)
{
    dt_health *h = arg;
    atomic_store(&h->lost, true);
    dt_chore_wake(&h->chore);
}

static int64_t check_health(void *arg, void *)
{
    dt_health *h = arg;
    const int64_t now_us = dt_clock_mono_us(h->clock);
    if (now_us >= h->losses_us && atomic_exchange(&h->lost, false)) {
        struct dt_error err = {0};
        dt_status status = dt_session_begin(&h->session, &err);
        DT_THEN(status, write_process_row(h, &err));
        dt_session_end(&h->session);
        if (status == DT_OK)
            dt_index_writer_topics(h->index);
        else
            DT_LOG(DEBUG, "health", "lost index entries were not reported to leaders", DT_S("error", err.text));
        h->losses_us = dt_clock_mono_us(h->clock) + APART_US;
    }
    if (now_us >= h->check_us) {
        check_mysql_and_index(h);
        h->check_us = dt_clock_mono_us(h->clock) + (h->rests ? REST_US : TICK_US);
    }
    return atomic_load(&h->lost) ? dt_earlier(h->check_us, h->losses_us) : h->check_us;
}

/* ---- start and end ---- */

dt_status dt_health_start(const struct dt_session_env *env, dt_chores *urgent, dt_topic_cache *topics, dt_auth *auth,
                          dt_index_writer *index, dt_health **out, struct dt_error *err)
{
    *out = NULL;
    dt_health *h = calloc(1, sizeof(*h));
    if (!h)
        return dt_fail(err, DT_NOMEM, "no memory for the health chore");
    h->clock = env->clock;
    h->topics = topics;
    h->auth = auth;
    h->index = index;
    /* If two processes draw the same id, both write the same row for a while; nothing else depends on the id. */
    char host[64] = "localhost";
    uint64_t id = (uint64_t)getpid();
    if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
        DT_LOG(WARN, "health", "the row of this process in MySQL gets no id: the system returned no random number");
    h->id = (int64_t)(id >> 1);
    gethostname(host, sizeof(host) - 1);
    snprintf(h->name, sizeof(h->name), "%s:%ld", host, (long)getpid());
    h->state.mysql_word = "unavailable";
    h->state.mysql = DT_SHUTDOWN; /* not checked yet, so the first check counts as a change of state */
    h->mysql_up = dt_gauge("duetime_api_mysql_up", "1 if MySQL answers and has the schema of this version.", "");
    if (index)
        h->redis_up = dt_gauge("duetime_api_redis_up", "1 if every Redis endpoint accepts changes of the index.", "");
    pthread_mutex_init(&h->lock, NULL);
    dt_status status = dt_session_init(&h->session, env);
    if (status != DT_OK) {
        dt_health_free(h);
        return dt_fail(err, status, "the health chore cannot start");
    }
    check_mysql_and_index(h);
    h->check_us = dt_clock_mono_us(h->clock) + TICK_US;
    h->chore = (struct dt_chore){.name = "health", .tick = check_health, .arg = h};
    dt_chores_add(urgent, &h->chore);
    dt_index_writer_on_loss(index, on_index_entries_lost, h);
    *out = h;
    return DT_OK;
}

void dt_health_stop(dt_health *h)
{
    dt_chore_remove(&h->chore);
    dt_session_clear(&h->session);
}

int64_t dt_health_process(const dt_health *h)
{
    return h->id;
}

void dt_health_free(dt_health *h)
{
    if (!h)
        return;
    pthread_mutex_destroy(&h->lock);
    free(h);
}
