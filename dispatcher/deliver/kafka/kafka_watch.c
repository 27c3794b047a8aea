/* Owns the watch of a transaction: the requests that librdkafka's threads send, the connections that they close and the
 * lines that they log, because librdkafka does not report these. See kafka_common.h. */
#include "kafka_common.h"

#include <sys/resource.h>
#include <unistd.h>

#include "base/fail_point.h"
#include "base/guard.h"

enum { API_PRODUCE = 0, API_ADD_PARTITIONS = 24, API_END_TXN = 26 };
enum {
    NICER = 15,
    /* If a transaction sends two add-partitions requests at least this far apart, Kafka refused the first. */
    REFUSED_US = 15000,
};

void dt_kafka_watch_init(struct dt_kafka_watch *w)
{
    *w = (struct dt_kafka_watch){.usual_nice = getpriority(PRIO_PROCESS, 0)};
    pthread_mutex_init(&w->lock, NULL);
}

void dt_kafka_watch_clear(struct dt_kafka_watch *w)
{
    pthread_mutex_destroy(&w->lock);
}

static rd_kafka_resp_err_t on_request_sent(rd_kafka_t *, int fd, const char *, int32_t, int16_t api, int16_t, int32_t,
                                           size_t, void *opaque)
{
    struct dt_kafka_watch *w = opaque;
    unsigned i = 0;
    if (api != API_PRODUCE && api != API_ADD_PARTITIONS && api != API_END_TXN)
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    pthread_mutex_lock(&w->lock);
    bool open = w->open; /* the transaction is open, so the request belongs to it */
    if (open) {
        w->end_txns += api == API_END_TXN;
        if (api == API_ADD_PARTITIONS) {
            int64_t now_us = dt_kafka_now_us();
            w->asked_us = w->asked_us ? w->asked_us : now_us;
            w->too_soon = w->too_soon || now_us - w->asked_us >= REFUSED_US;
        }
        while (i < w->n_fds && w->fds[i] != fd)
            i++;
        if (i == w->n_fds && w->n_fds < DT_KAFKA_WATCHED_MAX)
            w->fds[w->n_fds++] = fd;
    }
    pthread_mutex_unlock(&w->lock);
    if (open && api == API_END_TXN)
        DT_FAIL_POINT("endtxn.sent");
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* Records librdkafka's main thread, and resets the priority of the other threads. While partitions join a transaction,
 * the main thread polls the clock, for two milliseconds a transaction (2.0.2; not in 2.4), so its priority is lowered
 * (dt_kafka_watch_nice). But it also starts the threads of brokers, and they inherit its priority. Therefore its
 * priority is lowered only after the threads of the known brokers have started, and a thread that starts later resets
 * its own priority, if the process may. */
static rd_kafka_resp_err_t on_thread_start(rd_kafka_t *, rd_kafka_thread_type_t type, const char *, void *opaque)
{
    struct dt_kafka_watch *w = opaque;
    if (type == RD_KAFKA_THREAD_MAIN)
        w->spinner = gettid();
    else
        (void)setpriority(PRIO_PROCESS, (id_t)gettid(), w->usual_nice);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

void dt_kafka_watch_nice(struct dt_kafka_watch *w)
{
    if (w->spinner != 0)
        (void)setpriority(PRIO_PROCESS, (id_t)w->spinner, w->usual_nice + NICER);
}

static rd_kafka_resp_err_t on_client_created(rd_kafka_t *rk, const rd_kafka_conf_t *, void *opaque, char *, size_t)
{
    rd_kafka_resp_err_t code = rd_kafka_interceptor_add_on_thread_start(rk, "duetime", on_thread_start, opaque);

    return code ? code : rd_kafka_interceptor_add_on_request_sent(rk, "duetime", on_request_sent, opaque);
}

/* Closes a connection. If it carried part of the transaction, the outcome is in doubt. Other connections may break: an
 * unreachable broker does no harm. */
int dt_kafka_watch_close_socket(struct dt_kafka_watch *w, int fd)
{
    pthread_mutex_lock(&w->lock);
    if (w->open) {
        bool carried = w->n_fds == DT_KAFKA_WATCHED_MAX;
        for (unsigned i = 0; i < w->n_fds; i++)
            carried = carried || w->fds[i] == fd;
        w->broken = w->broken || carried;
    }
    pthread_mutex_unlock(&w->lock);
    return close(fd);
}

/* Reads from the log which topic was not admitted to the transaction. Only librdkafka's log names this topic: the
 * delivery reports of its messages say that they were purged, and the transaction's error names no topic. */
void dt_kafka_watch_log(struct dt_kafka_watch *w, const char *facility, const char *text)
{
    static const char lead[] = "Failed to add partition \"";
    const char *from = strcmp(facility, "ADDPARTS") == 0 ? strstr(text, lead) : NULL;
    size_t n = from ? strcspn(from + sizeof(lead) - 1, "\"") : 0;
    /* ignores a topic that was not admitted only because another topic failed */
    if (n == 0 || n > DT_KAFKA_TOPIC_MAX || strstr(text, rd_kafka_err2str(RD_KAFKA_RESP_ERR_OPERATION_NOT_ATTEMPTED)))
        return;
    pthread_mutex_lock(&w->lock);
    if (w->open && w->unjoined[0] == '\0') {
        memcpy(w->unjoined, from + sizeof(lead) - 1, n);
        w->unjoined[n] = '\0';
    }
    pthread_mutex_unlock(&w->lock);
}

void dt_kafka_watch_open(struct dt_kafka_watch *w)
{
    pthread_mutex_lock(&w->lock);
    w->unjoined[0] = '\0';
    w->open = true;
    w->broken = false;
    w->end_txns = 0;
    w->n_fds = 0;
    w->asked_us = 0;
    w->too_soon = false;
    pthread_mutex_unlock(&w->lock);
}

void dt_kafka_watch_unjoined(struct dt_kafka_watch *w, char *topic, size_t size)
{
    pthread_mutex_lock(&w->lock);
    snprintf(topic, size, "%s", w->unjoined);
    pthread_mutex_unlock(&w->lock);
}

bool dt_kafka_watch_broken(struct dt_kafka_watch *w)
{
    pthread_mutex_lock(&w->lock);
    bool broken = w->broken;
    pthread_mutex_unlock(&w->lock);
    return broken;
}

struct dt_kafka_watched dt_kafka_watch_close(struct dt_kafka_watch *w)
{
    pthread_mutex_lock(&w->lock);
    w->open = false;
    struct dt_kafka_watched seen = {.end_txns = w->end_txns, .too_soon = w->too_soon};
    seen.clean = !w->broken && DT_GUARD(ENDTXN_COUNT, w->end_txns == 1);
    pthread_mutex_unlock(&w->lock);
    return seen;
}

dt_status dt_kafka_watch_requests(struct dt_kafka_watch *w, rd_kafka_conf_t *conf, struct dt_error *err)
{
    if (rd_kafka_conf_interceptor_add_on_new(conf, "duetime", on_client_created, w) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return dt_fail(err, DT_INTERNAL, "kafka producer: could not add the interceptor");
    return DT_OK;
}
