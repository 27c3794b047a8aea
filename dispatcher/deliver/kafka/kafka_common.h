/* Shared by the parts of the interface to Kafka: configuration of librdkafka handles, translation of librdkafka's
 * errors, and destruction of handles (on a thread of its own, because it may block). Included by kafka_*.c only. */
#pragma once

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <sys/types.h>

#include "base/secrets.h"
#include "base/text/strbuf.h"
#include "job/job.h"
#include "kafka.h"

#define DT_KAFKA_MESSAGE_MAX 1200000 /* our limit: 900,000 bytes of payload, 8 KiB of headers, keys, our own headers */
#define DT_KAFKA_BATCH_BYTES 1000000 /* messages batched for one partition; below Kafka's default limit of 1 MiB */
/* Size of a batch of one record, without the record's key, value and headers. */
#define DT_KAFKA_RECORD_OVERHEAD 96
#define DT_KAFKA_HEADER_OVERHEAD 10 /* size of a record header, without its name and value: two lengths */
/* A constant as the text of a setting. */
#define DT_KAFKA_TEXT_OF(constant) #constant
#define DT_KAFKA_TEXT(constant)    DT_KAFKA_TEXT_OF(constant)

struct dt_kafka_setting {
    const char *name, *value; /* name and value of a setting of librdkafka */
};
/* What a handle is made of. */
struct dt_kafka_handle {
    rd_kafka_type_t type; /* zero: a producer */
    const char *group;    /* the handle's consumer group is <installation>.<group>; NULL: none */
    /* Settings besides those that all handles share and [kafka] client.*; ends with a row without a name; may be
     * NULL. */
    const struct dt_kafka_setting *settings;
    dt_status (*adds)(rd_kafka_conf_t *conf, void *opaque, struct dt_error *err); /* adds callbacks; may be NULL */
};
/* Creates a handle. Every callback gets `opaque`. *out is NULL unless OK. */
dt_status dt_kafka_handle_new(const struct dt_kafka_env *env, const struct dt_kafka_handle *how, void *opaque,
                              rd_kafka_t **out, struct dt_error *err);

/* Writes <installation>.<suffix> into buf, which has DT_KAFKA_TOPIC_MAX + 1 bytes. */
dt_status dt_kafka_topic_name(const struct dt_kafka_env *env, const char *suffix, char *buf, struct dt_error *err);

/* Returns REFUSED if Kafka would refuse the request again, otherwise UNAVAILABLE. */
dt_status dt_kafka_error_status(rd_kafka_resp_err_t code);
/* Returns whether the code means that Kafka refuses one message, or all messages to its topic, and would do so again.
 * Other codes that map to REFUSED concern this client. */
bool dt_kafka_refuses_message(rd_kafka_resp_err_t code);
/* Whether the code means that Kafka refuses all messages to the topic. */
bool dt_kafka_refuses_topic(rd_kafka_resp_err_t code);
void dt_kafka_on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text);
/* Calls dt_fail with the code's status and the text "<what>: <Kafka's reason>". */
dt_status dt_kafka_fail(struct dt_error *err, rd_kafka_resp_err_t code, const char *what);

/* Maximal size of a message in a batch of its own. */
size_t dt_kafka_message_size(const struct dt_kafka_message *message);
/* Gives a copy of the message to librdkafka. topic: RD_KAFKA_VTYPE_TOPIC or _RKT. NULL: librdkafka has the message, and
 * its delivery report will have `opaque`. */
rd_kafka_error_t *dt_kafka_produce(rd_kafka_t *rk, rd_kafka_vu_t topic, int32_t partition,
                                   const struct dt_kafka_message *message, void *opaque);

/* Reads partitions, replicas and brokers of one topic into *info (may be NULL); waits until deadline_us or until *stop
 * is set (stop may be NULL; checked every 100 ms). UNAVAILABLE: no answer, or a partition has no leader. REFUSED: no
 * such topic, or no right to it. SHUTDOWN: *stop is set. */
dt_status dt_kafka_await_topic(rd_kafka_t *rk, rd_kafka_topic_t *topic, int64_t deadline_us, const _Atomic bool *stop,
                               struct dt_kafka_topic_info *info, struct dt_error *err);

/* Fills in the offsets at which the list's partitions begin or end (`which`: RD_KAFKA_OFFSET_BEGINNING or _END), in one
 * request. If the handle reads only committed messages, the end is that of the committed messages. */
dt_status dt_kafka_ask_offsets(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list, int64_t which,
                               struct dt_error *err);

/* Returns what the last dt_kafka_admin_topic found, however old, without a request. False: the topic was never looked
 * up. Thread-safe (kafka_topics.c). */
bool dt_kafka_admin_known(dt_kafka_admin *admin, struct dt_str topic, struct dt_kafka_topic_info *out);

/* Destroys a handle without blocking the caller: another thread calls before(arg), which may block too, destroys the
 * handle, and calls done(arg), which frees what the handle's callbacks used (before and done may be NULL). The caller
 * waits (about a second at most) only if many handles are still being destroyed. */
void dt_kafka_reap(rd_kafka_t *rk, void (*before)(void *arg), void (*done)(void *arg), void *arg);

static inline int64_t dt_kafka_now_us(void)
{
    return dt_clock_mono_us(dt_clock_system());
}

/*
 * An on-demand handle: a librdkafka handle that exists only while it is used and for keep_ms after that, because an
 * idle handle wakes up four times a second. The owner's lock ensures that there is one user at a time.
 *
 *   hold ─▶ use ─▶ let_go, or discard if the handle failed
 */

struct dt_kafka_on_demand_ops {
    struct dt_kafka_handle handle;
    void (*closing)(void *rk); /* called before a handle is destroyed, on another thread; may be NULL */
};

typedef struct dt_kafka_on_demand dt_kafka_on_demand;

dt_status dt_kafka_on_demand_new(const struct dt_kafka_env *env, const struct dt_kafka_on_demand_ops *ops, int keep_ms,
                                 dt_kafka_on_demand **out, struct dt_error *err);
/* Lends the handle, and creates it if there is none. */
dt_status dt_kafka_on_demand_hold(dt_kafka_on_demand *handle, rd_kafka_t **rk, struct dt_error *err);
void dt_kafka_on_demand_let_go(dt_kafka_on_demand *handle);
/* Ends the use, and destroys the handle; the next hold creates a new handle. */
void dt_kafka_on_demand_discard(dt_kafka_on_demand *handle);
bool dt_kafka_on_demand_open(dt_kafka_on_demand *handle);
void dt_kafka_on_demand_free(dt_kafka_on_demand *handle); /* frees a handle that is not held; accepts NULL */

/* Settings of librdkafka from [kafka] client.*, and the handles that use them. */

/* Applies the settings of the configuration, and reads the files that these settings name again. INVALID:
 * dt_kafka_check refuses a setting. */
dt_status dt_kafka_client_set(rd_kafka_conf_t *conf, const struct dt_config *config, struct dt_error *err);
/* Returns how many times dt_kafka_renew was called. A handle that was created at a lower number has old settings. */
unsigned dt_kafka_client_generation(void);
/* Adds the handle to, and removes it from, the list of handles to which dt_kafka_renew gives new credentials. Call
 * leave before the handle is destroyed. */
void dt_kafka_client_enter(rd_kafka_t *rk);
void dt_kafka_client_leave(rd_kafka_t *rk);

/* Tokens for SASL/OAUTHBEARER, from a file that another program renews (a sidecar, a projected volume):
 * client.sasl.oauthbearer.jwt_file. librdkafka requests a new token after four fifths of the token's lifetime, and ten
 * seconds after a failure. */

/* Name of the property for the token; librdkafka has no property of this name. */
#define DT_KAFKA_TOKEN "sasl.oauthbearer.jwt"

struct dt_kafka_token {
    int64_t expires_ms;  /* ms since 1970 */
    char principal[256]; /* subject of the token, for librdkafka; the broker reads the subject from the token itself */
};

/* Reads the text of a token (a JWT). MALFORMED: it is no JWT, or has no expiry. NOMEM: memory ran out. */
dt_status dt_kafka_token_parse(struct dt_str jwt, struct dt_kafka_token *out, struct dt_error *err);

/* If the handle uses tokens, makes librdkafka refresh them on a thread of its own, because many handles are seldom
 * polled. */
void dt_kafka_token_background(rd_kafka_t *rk);

/*
 * Watches what librdkafka's threads do with an open transaction: its requests, its connections, its log. Used by
 * kafka_txn_producer.c alone. The producer's thread opens and closes the watch; librdkafka's threads report to it.
 *
 * Connections are watched because librdkafka sends EndTxn again by itself when its connection breaks. The first EndTxn
 * may still be buffered on the network. If it arrives when the next transaction of the same transactional id is open,
 * it ends the next transaction half-way. So if a request's connection broke, or EndTxn was sent twice, the outcome is
 * in doubt, even if the commit was answered.
 */

enum { DT_KAFKA_WATCHED_MAX = 32 };

struct dt_kafka_watch {
    pthread_mutex_t lock;
    bool open;
    bool broken;       /* a connection that carried a request of the transaction was closed */
    unsigned end_txns; /* number of EndTxn requests sent */
    int fds[DT_KAFKA_WATCHED_MAX];
    unsigned n_fds;
    int64_t asked_us; /* mono: when librdkafka first asked to add partitions; 0: not yet */
    /* Kafka refused to add the partitions at first, because the last transaction of the id had not ended. */
    bool too_soon;
    char unjoined[DT_KAFKA_TOPIC_MAX + 1]; /* a topic that Kafka did not admit to the transaction; empty: none */
    _Atomic(pid_t) spinner;                /* thread id of librdkafka's main thread, from its start on */
    int usual_nice;
};

void dt_kafka_watch_init(struct dt_kafka_watch *w);
void dt_kafka_watch_clear(struct dt_kafka_watch *w);
/* Adds callbacks to the configuration: handles that use it report their requests and threads to w. */
dt_status dt_kafka_watch_requests(struct dt_kafka_watch *w, rd_kafka_conf_t *conf, struct dt_error *err);
/* For closesocket_cb: records that the connection is closed, and closes it. */
int dt_kafka_watch_close_socket(struct dt_kafka_watch *w, int fd);
/* For log_cb: reads log lines about the transaction. */
void dt_kafka_watch_log(struct dt_kafka_watch *w, const char *facility, const char *text);
/* Lowers the priority of the handle's main thread. Called once the handle is connected. */
void dt_kafka_watch_nice(struct dt_kafka_watch *w);

void dt_kafka_watch_open(struct dt_kafka_watch *w);
/* Whether a connection that carried part of the open transaction was closed. */
bool dt_kafka_watch_broken(struct dt_kafka_watch *w);
/* Copies the name of a topic that Kafka did not admit to the transaction; empty: no such topic is known. */
void dt_kafka_watch_unjoined(struct dt_kafka_watch *w, char *topic, size_t size);

struct dt_kafka_watched {
    bool clean; /* all requests of the transaction used intact connections, and EndTxn was sent once */
    unsigned end_txns;
    bool too_soon;
};
struct dt_kafka_watched dt_kafka_watch_close(struct dt_kafka_watch *w);
