/* Owns: the settings that all librdkafka handles share, the mapping of librdkafka's errors to statuses, and the
 * destruction of handles. Refuses to know: what a handle is for. Invariant: no caller's thread destroys a handle,
 * because that may block for seconds if a broker hangs. */
#include "kafka_common.h"

#include <time.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/outage.h"
#include "base/thread.h"

/* ---- settings ---- */

void dt_kafka_on_log(const rd_kafka_t *, int level, const char *facility, const char *text)
{
    static _Thread_local struct dt_outage_part outage;
    struct dt_error err = {0};
    /* While a broker is unreachable, transactions fail, and librdkafka logs a line for each connection and each handle.
     * All these lines are reported as one outage. */
    bool away = strcmp(facility, "FAIL") == 0 || strcmp(facility, "ERROR") == 0 || strcmp(facility, "TXNERR") == 0;
    if (level <= 3 && away) {
        (void)dt_fail(&err, DT_UNAVAILABLE, "%s", text);
        dt_outage_failed(&outage, DT_OUTAGE_KAFKA, "kafka", "a broker does not answer", DT_UNAVAILABLE, &err);
    } else if (level <= 3) {
        DT_LOG(WARN, "kafka", text, DT_S("facility", facility));
    } else {
        DT_LOG(DEBUG, "kafka", text, DT_S("facility", facility));
    }
}

static dt_status apply_settings(rd_kafka_conf_t *conf, const struct dt_kafka_setting *settings, struct dt_error *err)
{
    char reason[200];
    for (; settings && settings->name; settings++)
        if (rd_kafka_conf_set(conf, settings->name, settings->value, reason, sizeof(reason)) != RD_KAFKA_CONF_OK)
            return dt_fail(err, DT_INVALID, "kafka: %s", reason);
    return DT_OK;
}

dt_status dt_kafka_topic_name(const struct dt_kafka_env *env, const char *suffix, char *buf, struct dt_error *err)
{
    int n = snprintf(buf, DT_KAFKA_TOPIC_MAX + 1, "%s.%s", env->installation, suffix);
    if (n < 0 || n > DT_KAFKA_TOPIC_MAX)
        return dt_fail(err, DT_INVALID, "kafka: the installation's name is too long for a topic");
    return DT_OK;
}

dt_status dt_kafka_handle_new(const struct dt_kafka_env *env, const struct dt_kafka_handle *how, void *opaque,
                              rd_kafka_t **out, struct dt_error *err)
{
    const struct dt_kafka_setting shared[] = {
        {"bootstrap.servers", env->config->kafka_brokers},
        {"client.id", env->installation},
        {"socket.nagle.disable", "true"}, /* requests are small, and callers wait for them */
        {"socket.keepalive.enable", "true"},
        {"socket.connection.setup.timeout.ms",
         "10000"}, /* after a timeout the connection starts again with the first step of its handshake */
        {"reconnect.backoff.ms", "50"},
        {"reconnect.backoff.max.ms", "2000"},
        {"retry.backoff.ms", "20"},
        {"topic.metadata.refresh.fast.interval.ms", "50"},
        {"statistics.interval.ms", "0"},
        {"connections.max.idle.ms", "0"}, /* connections of a leader stay open between transactions */
        {"log.connection.close", "false"},
        {NULL, NULL},
    };
    char group[DT_KAFKA_TOPIC_MAX + 1];
    char reason[200] = "";
    const struct dt_kafka_setting of_group[] = {{"group.id", group}, {NULL, NULL}};
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    dt_status status = apply_settings(conf, shared, err);
    DT_THEN(status, dt_kafka_client_set(conf, env->config, err));
    DT_THEN(status, apply_settings(conf, how->settings, err));
    if (how->group) {
        DT_THEN(status, dt_kafka_topic_name(env, how->group, group, err));
        DT_THEN(status, apply_settings(conf, of_group, err));
    }
    rd_kafka_conf_set_log_cb(conf, dt_kafka_on_log);
    rd_kafka_conf_enable_sasl_queue(conf, 1);
    rd_kafka_conf_set_opaque(conf, opaque);
    if (how->adds)
        DT_THEN(status, how->adds(conf, opaque, err));
    *out = status == DT_OK ? rd_kafka_new(how->type, conf, reason, sizeof(reason)) : NULL;
    if (*out) { /* the handle owns the configuration now */
        dt_kafka_token_background(*out);
        dt_kafka_client_enter(*out);
        return DT_OK;
    }
    rd_kafka_conf_destroy(conf);
    return status == DT_OK ? dt_fail(err, DT_SYSTEM, "kafka: %s", reason) : status;
}

/* ---- errors ---- */

bool dt_kafka_refuses_topic(rd_kafka_resp_err_t code)
{
    switch ((int)code) {
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
        return true;
    default:
        return false;
    }
}

bool dt_kafka_refuses_message(rd_kafka_resp_err_t code)
{
    switch ((int)code) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
        return true;
    default:
        return dt_kafka_refuses_topic(code);
    }
}

dt_status dt_kafka_error_status(rd_kafka_resp_err_t code)
{
    if (dt_kafka_refuses_message(code))
        return DT_REFUSED;
    switch ((int)code) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        return DT_OK;
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT:
    case RD_KAFKA_RESP_ERR_INVALID_CONFIG:
    case RD_KAFKA_RESP_ERR_INVALID_PARTITIONS:
    case RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR:
        return DT_REFUSED;
    default:
        return DT_UNAVAILABLE;
    }
}

dt_status dt_kafka_fail(struct dt_error *err, rd_kafka_resp_err_t code, const char *what)
{
    return dt_fail(err, dt_kafka_error_status(code), "%s: %s", what, rd_kafka_err2str(code));
}

/* ---- messages ---- */

size_t dt_kafka_message_size(const struct dt_kafka_message *message)
{
    size_t n = DT_KAFKA_RECORD_OVERHEAD + message->key.n + message->value.n;
    for (size_t i = 0; i < message->n_headers; i++)
        n += DT_KAFKA_HEADER_OVERHEAD + message->headers[i].name.n + message->headers[i].value.n;
    return n;
}

rd_kafka_error_t *dt_kafka_produce(rd_kafka_t *rk, rd_kafka_vu_t topic, int32_t partition,
                                   const struct dt_kafka_message *message, void *opaque)
{
    rd_kafka_headers_t *headers = message->n_headers ? rd_kafka_headers_new(message->n_headers) : NULL;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (size_t i = 0; code == RD_KAFKA_RESP_ERR_NO_ERROR && i < message->n_headers; i++) {
        const struct dt_kafka_header *h = &message->headers[i];
        code = rd_kafka_header_add(headers, h->name.p, (ssize_t)h->name.n, h->value.p, (ssize_t)h->value.n);
    }
    const rd_kafka_vu_t v[] = {
        topic,
        {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = partition},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {(void *)(uintptr_t)message->key.p, message->key.n}},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {(void *)(uintptr_t)message->value.p, message->value.n}},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = opaque},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
    };
    rd_kafka_error_t *error = code == RD_KAFKA_RESP_ERR_NO_ERROR
                                  ? rd_kafka_produceva(rk, v, sizeof(v) / sizeof(*v) - (headers ? 0 : 1))
                                  : rd_kafka_error_new(code, "out of memory for headers");
    if (headers && error) /* otherwise librdkafka owns the headers now */
        rd_kafka_headers_destroy(headers);
    return error;
}

/* ---- metadata ---- */

/* Timeouts of requests. librdkafka drops an answer that arrives after the request's timeout. So each retry waits twice
 * as long as the request before it, until a slow broker answers in time. Later requests of this process begin with
 * twice the time that the answer took. */
enum { ASK_FIRST_MS = 100, ASK_MAX_MS = 6400 };
static _Atomic int ask_ms = ASK_FIRST_MS;

static rd_kafka_resp_err_t ask_for_topic(rd_kafka_t *rk, rd_kafka_topic_t *topic, int64_t deadline_us,
                                         struct dt_kafka_topic_info *info)
{
    int64_t begun_us = dt_kafka_now_us();
    int64_t left_ms = (deadline_us - begun_us) / 1000 + 1;
    int64_t ms = dt_later(dt_earlier(left_ms, ask_ms), ASK_FIRST_MS);
    const struct rd_kafka_metadata *md = NULL;
    rd_kafka_resp_err_t code = rd_kafka_metadata(rk, 0, topic, &md, (int)ms);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        code = md->topic_cnt == 1 ? md->topics[0].err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const struct rd_kafka_metadata_topic *seen = &md->topics[0];
        int replicas = 0;
        for (int i = 0; i < seen->partition_cnt; i++) {
            if (i == 0 || seen->partitions[i].replica_cnt < replicas)
                replicas = seen->partitions[i].replica_cnt;
            if (seen->partitions[i].leader < 0)
                code = RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
        }
        if (info) {
            info->partitions = seen->partition_cnt;
            info->replicas = replicas;
            info->brokers = md->broker_cnt;
        }
    }
    if (md)
        rd_kafka_metadata_destroy(md);
    int64_t need_ms = ask_ms;
    if (code == RD_KAFKA_RESP_ERR__TIMED_OUT)
        need_ms = dt_later(need_ms, 2 * ms);
    else if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        need_ms = 2 * (dt_kafka_now_us() - begun_us) / 1000;
    ask_ms = (int)dt_later(dt_earlier(need_ms, ASK_MAX_MS), ASK_FIRST_MS);
    return code;
}

/* Waits for a topic's metadata. A broker may not know a new topic for a moment, so the request is repeated a few
 * times. */
dt_status dt_kafka_await_topic(rd_kafka_t *rk, rd_kafka_topic_t *topic, int64_t deadline_us, const _Atomic bool *stop,
                               struct dt_kafka_topic_info *info, struct dt_error *err)
{
    const int64_t unknown_until_us = dt_kafka_now_us() + 300000;
    const struct timespec pause = {.tv_nsec = 5000000};
    rd_kafka_resp_err_t code;
    for (;;) {
        if (stop && *stop)
            return dt_fail(err, DT_SHUTDOWN, "kafka: stopped while asking for metadata");
        code = ask_for_topic(rk, topic, deadline_us, info);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            return DT_OK;
        if (dt_kafka_now_us() >= deadline_us)
            break;
        if (dt_kafka_error_status(code) == DT_REFUSED && dt_kafka_now_us() >= unknown_until_us)
            break;
        nanosleep(&pause, NULL);
    }
    return dt_kafka_fail(err, code, rd_kafka_topic_name(topic));
}

/* ---- destroying handles ---- */

enum { REAPING_MAX = 8 };

struct reaped {
    rd_kafka_t *rk;
    void (*before)(void *arg);
    void (*done)(void *arg);
    void *arg;
};

static pthread_mutex_t reaper_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t reaper_changed = PTHREAD_COND_INITIALIZER;
static unsigned reaping;

static void destroy_handle_now(const struct reaped *r)
{
    dt_kafka_client_leave(r->rk);
    if (r->before)
        r->before(r->arg);
    rd_kafka_destroy_flags(r->rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    if (r->done)
        r->done(r->arg);
}

static void reaper_main(void *arg)
{
    struct reaped *r = arg;
    destroy_handle_now(r);
    free(r);
    pthread_mutex_lock(&reaper_lock);
    dt_assert_cmp(reaping, >, 0);
    reaping--;
    pthread_cond_broadcast(&reaper_changed);
    pthread_mutex_unlock(&reaper_lock);
}

/* Waits until fewer than n handles are being destroyed, or until until_us. The caller holds the lock. */
static void await_fewer_handles_than(unsigned n, int64_t until_us)
{
    while (reaping >= n && dt_clock_wait(&reaper_changed, &reaper_lock, until_us))
        ;
}

void dt_kafka_reap(rd_kafka_t *rk, void (*before)(void *arg), void (*done)(void *arg), void *arg)
{
    struct reaped *r = malloc(sizeof(*r));
    struct reaped here = {.rk = rk, .before = before, .done = done, .arg = arg};
    if (!r) {
        destroy_handle_now(&here);
        return;
    }
    *r = here;
    /* Counts the handle as being destroyed. Waits if too many are, so that no caller frees handles faster than they are
     * destroyed. */
    pthread_mutex_lock(&reaper_lock);
    await_fewer_handles_than(REAPING_MAX, dt_kafka_now_us() + 1000000);
    reaping++;
    pthread_mutex_unlock(&reaper_lock);
    if (!dt_thread_start_detached(reaper_main, r))
        reaper_main(r);
}

void dt_kafka_drain(int timeout_ms)
{
    pthread_mutex_lock(&reaper_lock);
    await_fewer_handles_than(1, dt_kafka_now_us() + timeout_ms * INT64_C(1000));
    pthread_mutex_unlock(&reaper_lock);
}

/* Timeout that is enough for one answer of a busy broker; after a shorter timeout the request would only be
 * repeated. */
enum { OFFSETS_MS = 5000 };

dt_status dt_kafka_ask_offsets(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list, int64_t which,
                               struct dt_error *err)
{
    for (int i = 0; i < list->cnt; i++)
        list->elems[i].offset = which;
    rd_kafka_resp_err_t code = rd_kafka_offsets_for_times(rk, list, OFFSETS_MS);
    for (int i = 0; code == RD_KAFKA_RESP_ERR_NO_ERROR && i < list->cnt; i++)
        code = list->elems[i].err;
    for (int i = 0; code == RD_KAFKA_RESP_ERR_NO_ERROR && i < list->cnt; i++)
        code = list->elems[i].offset < 0 ? RD_KAFKA_RESP_ERR__BAD_MSG : code;
    return code == RD_KAFKA_RESP_ERR_NO_ERROR
               ? DT_OK
               : dt_kafka_fail(err, code, list->cnt > 0 ? list->elems[0].topic : "offsets");
}

/* Owns: a handle that exists only while it is used, and a while longer.
 * Refuses to know: what the handle is used for.
 * Invariants: while there is a handle, a thread sleeps until the handle may have been unused for long enough to be
 * destroyed (if the thread could not be started, the handle stays). A handle is lent only if its settings are current,
 * and if it is younger than AGE_MAX_US, because certificates and passwords in files may have changed. */

#define AGE_MAX_US INT64_C(600000000)

struct dt_kafka_on_demand {
    const struct dt_kafka_env *env;
    const struct dt_kafka_on_demand_ops *ops;
    int64_t keep_us;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    rd_kafka_t *rk;
    bool held, janitor, closing;
    int64_t used_us; /* when the handle was last given back */
    int64_t made_us;
    unsigned generation; /* generation of the settings that the handle was created with */
};

static void destroy_handle_later(const struct dt_kafka_on_demand_ops *ops, rd_kafka_t *rk)
{
    if (rk)
        dt_kafka_reap(rk, ops->closing, NULL, rk);
}

static void close_idle_handle_main(void *arg)
{
    struct dt_kafka_on_demand *h = arg;
    const struct dt_kafka_on_demand_ops *ops = h->ops;
    rd_kafka_t *unused = NULL;
    pthread_mutex_lock(&h->lock);
    while (!h->closing && h->rk) {
        const int64_t now_us = dt_kafka_now_us();
        const int64_t again_us = (h->held ? now_us : h->used_us) + h->keep_us;
        if (!h->held && now_us >= again_us) {
            unused = h->rk;
            h->rk = NULL;
        } else {
            dt_clock_wait(&h->changed, &h->lock, again_us);
        }
    }
    h->janitor = false;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock); /* h may be freed from here on */
    destroy_handle_later(ops, unused);
}

dt_status dt_kafka_on_demand_hold(dt_kafka_on_demand *h, rd_kafka_t **rk, struct dt_error *err)
{
    rd_kafka_t *outdated = NULL;
    dt_status status = DT_OK;
    pthread_mutex_lock(&h->lock);
    dt_assert(!h->held);
    if (h->generation != dt_kafka_client_generation() || dt_kafka_now_us() >= h->made_us + AGE_MAX_US) {
        outdated = h->rk;
        h->rk = NULL;
    }
    if (!h->rk) {
        h->generation = dt_kafka_client_generation();
        h->made_us = dt_kafka_now_us();
        status = dt_kafka_handle_new(h->env, &h->ops->handle, NULL, &h->rk, err);
    }
    if (status == DT_OK) {
        h->held = true;
        h->janitor = h->janitor || dt_thread_start_detached(close_idle_handle_main, h);
    }
    *rk = h->rk;
    pthread_mutex_unlock(&h->lock);
    destroy_handle_later(h->ops, outdated);
    return status;
}

void dt_kafka_on_demand_let_go(dt_kafka_on_demand *h)
{
    pthread_mutex_lock(&h->lock);
    dt_assert(h->held);
    h->held = false;
    h->used_us = dt_kafka_now_us();
    pthread_mutex_unlock(&h->lock);
}

void dt_kafka_on_demand_discard(dt_kafka_on_demand *h)
{
    pthread_mutex_lock(&h->lock);
    dt_assert(h->held);
    h->held = false;
    rd_kafka_t *rk = h->rk;
    h->rk = NULL;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    destroy_handle_later(h->ops, rk);
}

bool dt_kafka_on_demand_open(dt_kafka_on_demand *h)
{
    pthread_mutex_lock(&h->lock);
    bool open = h->rk;
    pthread_mutex_unlock(&h->lock);
    return open;
}

dt_status dt_kafka_on_demand_new(const struct dt_kafka_env *env, const struct dt_kafka_on_demand_ops *ops, int keep_ms,
                                 dt_kafka_on_demand **out, struct dt_error *err)
{
    struct dt_kafka_on_demand *h = calloc(1, sizeof(*h));
    *out = h;
    if (!h)
        return dt_fail(err, DT_NOMEM, "kafka handle: out of memory");
    h->env = env;
    h->ops = ops;
    h->keep_us = keep_ms * INT64_C(1000);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    return DT_OK;
}

void dt_kafka_on_demand_free(dt_kafka_on_demand *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    dt_assert(!h->held);
    h->closing = true;
    pthread_cond_broadcast(&h->changed);
    while (h->janitor)
        pthread_cond_wait(&h->changed, &h->lock);
    rd_kafka_t *rk = h->rk;
    pthread_mutex_unlock(&h->lock);
    destroy_handle_later(h->ops, rk);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    free(h);
}
