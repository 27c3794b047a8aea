/*
 * Watches what librdkafka's threads do with a transaction that is open: its requests, its connections, its log. Used by
 * kafka_txn_producer.c alone. The producer's thread opens and closes the watch; librdkafka's threads report to it.
 *
 * Connections are watched because librdkafka sends EndTxn again by itself when its connection breaks. The first EndTxn
 * may still lie in a buffer on the way. It could arrive when the next transaction of the same transactional id is open,
 * and would end that one half-way. So a request that went over a connection which broke, or an EndTxn that was sent
 * twice, is a doubt, even if the commit was answered.
 */
#ifndef DT_DISPATCHER_KAFKA_WATCH_H
#define DT_DISPATCHER_KAFKA_WATCH_H

#include "kafka_common.h"

#include <pthread.h>
#include <sys/types.h>

enum { DT_KAFKA_WATCHED_MAX = 32 };

struct dt_kafka_watch {
    pthread_mutex_t lock;
    bool open;
    bool broken;       /* a connection that carried a request of the transaction was closed */
    unsigned end_txns; /* EndTxn requests sent */
    int fds[DT_KAFKA_WATCHED_MAX];
    unsigned n_fds;
    int64_t asked_us;                      /* when partitions were first asked for; 0 = not yet */
    bool too_soon;                         /* that was refused, because the one before under this id was not over */
    char unjoined[DT_KAFKA_TOPIC_MAX + 1]; /* topic that was not let into the transaction */
    _Atomic(pid_t) spinner;                /* librdkafka's main thread, from its start */
    int usual_nice;
};

void dt_kafka_watch_init(struct dt_kafka_watch *w);
void dt_kafka_watch_clear(struct dt_kafka_watch *w);
/* Handles made with this configuration report their requests and threads. */
DT_MUST_CHECK dt_status dt_kafka_watch_requests(struct dt_kafka_watch *w, rd_kafka_conf_t *conf, struct dt_error *err);
/* For closesocket_cb: notes the connection, and closes it. */
int dt_kafka_watch_close_socket(struct dt_kafka_watch *w, int fd);
/* For log_cb: notes lines that tell of the transaction. */
void dt_kafka_watch_log(struct dt_kafka_watch *w, const char *facility, const char *text);
/* Once the handle is connected: its main thread gives way from now on. */
void dt_kafka_watch_nice(struct dt_kafka_watch *w);

void dt_kafka_watch_open(struct dt_kafka_watch *w);
/* A connection that carried something of what is open was closed. */
bool dt_kafka_watch_broken(struct dt_kafka_watch *w);
/* The topic that was not let into the transaction, empty if none is known. */
void dt_kafka_watch_unjoined(struct dt_kafka_watch *w, char *topic, size_t size);

struct dt_kafka_watched {
    bool clean; /* the transaction's requests went over whole connections, and EndTxn went out once */
    unsigned end_txns;
    bool too_soon;
};
struct dt_kafka_watched dt_kafka_watch_close(struct dt_kafka_watch *w);

#endif
