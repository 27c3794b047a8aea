/* See store.h. The connection is made when first needed, and replaced after it broke or if a COMMIT is in doubt. */
#include "store.h"

#include <time.h>

#include "base/assert.h"
#include "job/job_json.h"
#include "mysql/statements.h"
#include "store_internal.h"

/* Bytes of a statement in addition to the payload: mostly the job's other members. A byte of headers may take two
 * bytes. */
#define PAYLOAD_SLACK  24576u
#define TRIES_MAX      8u
#define PAUSE_FIRST_US 500
#define AGAIN_US       INT64_C(900000) /* time after which a BUSY was a lock timeout: shorter than any lock timeout */
#define NOW_FRESH_US   INT64_C(250000) /* how long after a sample the server's time counts as known */
#define PROBE_IDLE_US                                                                                                  \
    INT64_C(1000000) /* after this idle time, the connection is checked, because the server may have closed it */

struct dt_store {
    const struct dt_config *config;
    dt_refclock *ref;
    dt_db *db;
    bool used;                    /* a connection was requested */
    int64_t asked_us;             /* monotonic time of the last sample for the reference clock; 0: none */
    char actor[DT_ACTOR_MAX + 1]; /* name of the actor; "": none */
    void *scratch;
    size_t scratch_cap;
};

dt_status dt_store_new(const struct dt_config *config, dt_refclock *ref, dt_store **out)
{
    *out = NULL;
    dt_store *store = calloc(1, sizeof(*store));
    if (!store)
        return DT_NOMEM;
    store->config = config;
    store->ref = ref;
    dt_status status = dt_db_new(config, &store->db);
    if (status == DT_OK)
        *out = store;
    else
        free(store);
    return status;
}

size_t dt_store_payload_max(const struct dt_config *config)
{
    const size_t fits = dt_db_packet_max(NULL) - PAYLOAD_SLACK;
    const size_t limit = (size_t)config->limits_payload;
    return limit < fits ? limit : fits;
}

struct dt_job_rules dt_store_job_rules(const struct dt_config *config, const char *installation)
{
    return (struct dt_job_rules){
        .max_delay_ms = config->limits_max_delay,
        .payload_max = dt_store_payload_max(config),
        .headers_max = (size_t)config->limits_headers,
        .json_depth = (unsigned)config->limits_json_depth,
        .callbacks = config->callbacks_enabled,
        .allow_hosts = dt_str(config->callbacks_allow_hosts),
        .installation = dt_str(installation),
    };
}

void dt_store_cut(dt_store *store)
{
    dt_db_cut(store->db);
}

void dt_store_free(dt_store *store)
{
    if (!store)
        return;
    dt_db_free(store->db);
    free(store->scratch);
    free(store);
}

bool dt_store_lost(const dt_store *store)
{
    return store->used && !dt_db_alive(store->db);
}

void dt_store_act_as(dt_store *store, struct dt_str actor)
{
    size_t n = actor.n < DT_ACTOR_MAX ? actor.n : DT_ACTOR_MAX;
    memcpy(store->actor, actor.p ? actor.p : "", n);
    store->actor[n] = '\0';
}

struct dt_str dt_store_actor(const dt_store *store)
{
    return store->actor[0] ? dt_str(store->actor) : DT_STR_NONE;
}

const struct dt_config *dt_store_config(const dt_store *store)
{
    return store->config;
}

void *dt_store_scratch(dt_store *store, size_t n)
{
    if (n <= store->scratch_cap)
        return store->scratch;
    free(store->scratch);
    store->scratch = malloc(n);
    store->scratch_cap = store->scratch ? n : 0;
    return store->scratch;
}

dt_status dt_store_db(dt_store *store, struct dt_db **out, struct dt_error *err)
{
    dt_db *db = store->db;
    *out = db;
    store->used = true;
    if (dt_db_alive(db) && dt_clock_mono_us(dt_clock_system()) - dt_db_used_us(db) < PROBE_IDLE_US)
        return DT_OK;
    if (dt_db_alive(db) && dt_db_ping(db, NULL) == DT_OK)
        return DT_OK;
    return dt_db_reconnect(db, err);
}

dt_db *dt_store_asked(dt_store *store)
{
    return dt_db_owes(store->db) ? store->db : NULL;
}

void dt_store_heard_now(dt_store *store, int64_t now_ms, int64_t asked_us)
{
    if (!store->ref)
        return;
    store->asked_us = dt_clock_mono_us(dt_clock_system());
    dt_refclock_sample(store->ref, now_ms, asked_us, store->asked_us);
}

dt_status dt_store_first(dt_store *store, dt_db **db, dt_first_fn *first, void *arg, struct dt_error *err)
{
    bool fresh = !dt_db_alive(store->db);
    dt_status status = dt_store_db(store, db, err);
    DT_THEN(status, first(store, *db, arg, err));
    if (status == DT_UNAVAILABLE && !fresh &&
        !dt_db_alive(*db)) { /* nothing was done yet, so the first call can be repeated on a new connection */
        status = dt_db_reconnect(*db, err);
        DT_THEN(status, first(store, *db, arg, err));
    }
    return status;
}

static dt_status begin_and_sample_clock(dt_store *store, dt_db *db, void *now_ms, struct dt_error *err)
{
    int64_t asked_us = dt_clock_mono_us(dt_clock_system());
    int64_t *now = now_ms;
    dt_status status = dt_db_begin_at(db, now, err);
    if (status == DT_OK)
        dt_store_heard_now(store, *now, asked_us);
    return status;
}

dt_status dt_store_begin(dt_store *store, dt_db **db, int64_t *now_ms, struct dt_error *err)
{
    int64_t now;
    dt_status status = dt_store_first(store, db, begin_and_sample_clock, &now, err);
    if (status != DT_OK)
        *db = NULL;
    else if (now_ms)
        *now_ms = now;
    return status;
}

bool dt_store_knows_now(const dt_store *store, int64_t *now_ms)
{
    if (store->asked_us == 0 || dt_clock_mono_us(dt_clock_system()) - store->asked_us > NOW_FRESH_US)
        return false;
    dt_assert(store->ref);
    *now_ms = dt_refclock_earliest_ms(store->ref);
    return true;
}

dt_status dt_store_commit(dt_db *db, dt_status status, struct dt_error *err)
{
    if (!db)
        return status;
    DT_THEN(status, dt_db_commit(db, err));
    if (status != DT_OK)
        dt_db_rollback(db);
    return status;
}

dt_status dt_store_read_rows(dt_db *db, struct dt_arena *arena, struct dt_rows *rows, struct dt_error *err)
{
    const struct dt_page_end *end = &rows->end;
    const size_t before = arena->size;
    const size_t room = end->rows ? end->rows : dt_db_rows(db) + 1;
    char *v = dt_arena_alloc(arena, room * rows->row_bytes);
    dt_status status = v ? DT_OK : DT_NOMEM;
    size_t found = 0;
    rows->v = NULL;
    rows->n = 0;
    rows->more = false;
    while (status == DT_OK) {
        /* A page is full after end->rows rows, or after the row that reaches end->bytes. Then there may be more
         * rows. */
        rows->more = end->rows && (found == end->rows || (end->bytes && found && arena->size - before >= end->bytes));
        if (rows->more || !dt_db_next(db))
            break;
        dt_assert_cmp(found, <, room);
        status = rows->read(db, arena, v + found * rows->row_bytes, rows->arg);
        found += status == DT_OK;
    }
    dt_status ended = dt_db_end(db, err);
    if (status != DT_OK || ended != DT_OK)
        return status != DT_OK ? dt_fail(err, status, "%s", dt_status_text(status)) : ended;
    rows->v = v;
    rows->n = found;
    return DT_OK;
}

dt_status dt_store_run(dt_store *store, const char *sql, struct dt_params params, uint64_t *changed,
                       struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    return status == DT_OK ? dt_db_run(db, sql, params, changed, err) : status;
}

dt_status dt_store_query(dt_store *store, dt_db **db, const char *sql, struct dt_params params, struct dt_error *err)
{
    dt_status status = dt_store_db(store, db, err);
    return status == DT_OK ? dt_db_query(*db, sql, params, err) : status;
}

dt_status dt_store_number(dt_store *store, const char *sql, struct dt_params params, int64_t *n, struct dt_error *err)
{
    unsigned tries = 0;
    dt_db *db;
    dt_status status;
    do {
        status = dt_store_db(store, &db, err);
        DT_THEN(status, dt_db_read_number(db, sql, params, NULL, n, err));
    } while (dt_store_read_again(&tries, status));
    return status;
}

dt_status dt_store_read(dt_store *store, const char *sql, struct dt_params params, struct dt_arena *arena,
                        struct dt_rows *rows, struct dt_error *err)
{
    unsigned tries = 0;
    dt_db *db;
    dt_status status;
    do {
        status = dt_store_db(store, &db, err);
        DT_THEN(status, rows->end.rows ? dt_db_query_stream(db, sql, params, err) : dt_db_query(db, sql, params, err));
        DT_THEN(status, dt_store_read_rows(db, arena, rows, err));
    } while (dt_store_read_again(&tries, status));
    if (rows->to) {
        memcpy(rows->to, &rows->v, sizeof(rows->v));
        *rows->to_n = rows->n;
    }
    return status;
}

bool dt_store_again(struct dt_again *again, dt_status status)
{
    if (status != DT_BUSY || ++again->tries >= TRIES_MAX)
        return false;
    /* The server reports a deadlock at once, so the transaction may be repeated often. After a lock timeout it is
     * repeated only once: a lock that was held during two waits may be held during eight. */
    if (again->tries == 1)
        again->first_us = dt_clock_mono_us(dt_clock_system());
    else if (dt_clock_mono_us(dt_clock_system()) - again->first_us > AGAIN_US)
        return false;
    /* The address of `again`, on the stack, is random enough to separate two processes that collided. */
    long us = PAUSE_FIRST_US * (1L << (again->tries / 2)) + (long)((uintptr_t)again / 64 % 500);
    struct timespec pause = {.tv_sec = 0, .tv_nsec = us * 1000};
    nanosleep(&pause, NULL);
    return true;
}

dt_status dt_store_ping(dt_store *store, struct dt_error *err)
{
    dt_db *db;
    int64_t now_ms;
    dt_status status = dt_store_db(store, &db, err);
    if (status != DT_OK)
        return status;
    const int64_t before = dt_clock_mono_us(dt_clock_system());
    status = dt_db_read_number(db, dt_sql_select_now, DT_NO_PARAMS, NULL, &now_ms, err);
    if (status == DT_OK && store->ref)
        dt_refclock_sample(store->ref, now_ms, before, dt_clock_mono_us(dt_clock_system()));
    return status;
}

/* ---- chores ---- */

static dt_status open_chore_store(void *arg, void **context, struct dt_error *err)
{
    const struct dt_store_source *source = arg;
    dt_store *store = NULL;
    const dt_status status = dt_store_new(source->config, source->ref, &store);
    *context = store;
    return status == DT_OK ? DT_OK : dt_fail(err, status, "out of memory");
}

static void close_store(void *context)
{
    dt_store_free(context);
    dt_db_thread_end();
}

static void cut_store_connection(void *context)
{
    dt_store_cut(context);
}

/* Asserts that a tick left no open transaction, no unread result, and no actor. */
static void check_store(const void *context)
{
    const dt_store *store = context;
    dt_assert(dt_db_idle(store->db));
    dt_assert(!store->actor[0]);
}

dt_status dt_store_chores_start(const struct dt_store_source *source, const dt_clock *clock, const char *name,
                                unsigned threads, dt_chores **out, struct dt_error *err)
{
    const struct dt_chores_env env = {.name = name,
                                      .threads = threads,
                                      .clock = clock,
                                      .open = open_chore_store,
                                      .close = close_store,
                                      .cut = cut_store_connection,
                                      .check = check_store,
                                      .arg = (void *)(uintptr_t)source};
    return dt_chores_start(&env, out, err);
}

/* ---- settings of the server ---- */

dt_status dt_store_server_settings(dt_store *store, struct dt_server_settings *out, struct dt_error *err)
{
    dt_db *db;
    *out = (struct dt_server_settings){0};
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status, dt_db_query(db, dt_sql_select_server_settings, DT_NO_PARAMS, err));
    if (status != DT_OK)
        return status;
    if (dt_db_next(db))
        *out = (struct dt_server_settings){dt_db_i64(db, 0), dt_db_i64(db, 1) != 0, dt_db_i64(db, 2), dt_db_i64(db, 3),
                                           dt_db_i64(db, 4)};
    return dt_db_end(db, err);
}

static dt_status read_ending_numbers(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    struct dt_ending_numbers *ending = row;
    ending->table = dt_arena_copy(arena, dt_db_bytes(db, 0));
    ending->next = dt_arena_copy(arena, dt_db_bytes(db, 1));
    return ending->table.p && ending->next.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_ending_numbers(dt_store *store, struct dt_arena *arena, struct dt_ending_numbers **v, size_t *n,
                                  struct dt_error *err)
{
    return dt_store_read(store, dt_sql_select_ending_numbers, DT_NO_PARAMS, arena, DT_ROWS(v, n, read_ending_numbers),
                         err);
}

static dt_status read_semi_sync(dt_db *db, const char *statement, struct dt_semi_sync *out, struct dt_error *err)
{
    dt_status status = dt_db_query(db, statement, DT_NO_PARAMS, err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db)) {
        const struct dt_str name = dt_db_bytes(db, 0);
        const struct dt_str value = dt_db_bytes(db, 1);
        /* The name is that of the status variable, rpl_semi_sync_master_status. */
        if (name.n > 0 && name.p[name.n - 1] == 's') {
            out->waits = dt_str_is(value, "ON");
        } else if (value.n > 0 && value.p[0] >= '0' && value.p[0] <= '9') {
            int64_t n = 0; /* values above INT64_MAX become INT64_MAX */
            for (size_t i = 0; i < value.n && value.p[i] >= '0' && value.p[i] <= '9'; i++)
                n = n > (INT64_MAX - 9) / 10 ? INT64_MAX : n * 10 + (value.p[i] - '0');
            out->alone_ms = n;
        } else {
            out->before_seen = dt_str_is(value, "AFTER_SYNC");
        }
    }
    return dt_db_end(db, err);
}

dt_status dt_store_semi_sync(dt_store *store, struct dt_semi_sync *out, struct dt_error *err)
{
    dt_db *db;
    *out = (struct dt_semi_sync){0};
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status, read_semi_sync(db, dt_sql_select_semi_sync_settings, out, err));
    return status == DT_OK ? read_semi_sync(db, dt_sql_select_semi_sync_status, out, err) : status;
}
