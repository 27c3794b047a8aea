/*
 * Shared by the parts of the Kafka port: configuration of librdkafka handles, translation of its errors, and their
 * destruction, which may block and is therefore left to a thread of its own. Included by kafka_*.c only.
 */
#ifndef DT_DISPATCHER_KAFKA_COMMON_H
#define DT_DISPATCHER_KAFKA_COMMON_H

#include <librdkafka/rdkafka.h>

#include "job/job.h"
#include "kafka.h"

enum {
    DT_KAFKA_MESSAGE_MAX = 1200000, /* client's limit: 900,000 bytes of payload, 8 KiB of headers, keys and ours */
    DT_KAFKA_BATCH_BYTES = 1000000, /* messages put together for one partition; below Kafka's default limit of 1 MiB */
    DT_KAFKA_RECORD_OVERHEAD = 96,  /* of a batch of one record: its own header and the record's */
    DT_KAFKA_HEADER_OVERHEAD = 10,  /* of a record header: two lengths */
};

/* A configuration with what every handle of ours has in common. opaque goes to every callback. */
DT_MUST_CHECK dt_status dt_kafka_conf_new(const struct dt_kafka_env *env, void *opaque, rd_kafka_conf_t **out,
                                          struct dt_error *err);
/* Names and values in turn, ended by NULL. */
DT_MUST_CHECK dt_status dt_kafka_conf_set(rd_kafka_conf_t *conf, const char *const *pairs, struct dt_error *err);
/* Takes conf over, also when it fails. */
DT_MUST_CHECK dt_status dt_kafka_handle_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, rd_kafka_t **out,
                                            struct dt_error *err);

/* <installation>.<suffix> into buf of DT_KAFKA_TOPIC_MAX + 1 bytes. */
DT_MUST_CHECK dt_status dt_kafka_topic_name(const struct dt_kafka_env *env, const char *suffix, char *buf,
                                            struct dt_error *err);

/* REFUSED for what Kafka will never take, UNAVAILABLE for everything else. */
dt_status dt_kafka_error_status(rd_kafka_resp_err_t code);
/* Refusals of one message, or of the topic that it goes to, that will come again: the rest of what is REFUSED is
 * about ourselves. */
bool dt_kafka_refuses_message(rd_kafka_resp_err_t code);
/* Of these the ones that are about the whole topic. */
bool dt_kafka_refuses_topic(rd_kafka_resp_err_t code);
/* librdkafka's log lines into ours. */
void dt_kafka_on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text);
/* dt_fail with the code's class, "<what>: <Kafka's reason>". */
dt_status dt_kafka_fail(struct dt_error *err, rd_kafka_resp_err_t code, const char *what);

/* Bytes that a message takes at most in a batch of its own. */
size_t dt_kafka_message_size(const struct dt_kafka_message *message);
/* Header list for librdkafka (NULL when there are none or memory is out: *ok tells which). */
rd_kafka_headers_t *dt_kafka_headers(const struct dt_kafka_message *message, bool *ok);

/* A topic's partitions by Kafka's metadata. */
struct dt_kafka_shape {
    int partitions, replicas, brokers; /* replicas: of the partition that has fewest */
};
/*
 * Metadata of one topic, waited for until deadline_us or stop (may be NULL; looked at every 100 ms). UNAVAILABLE: no
 * answer, or a partition without a leader; REFUSED: no such topic, or no right to it; SHUTDOWN.
 */
DT_MUST_CHECK dt_status dt_kafka_await_topic(rd_kafka_t *rk, rd_kafka_topic_t *topic, int64_t deadline_us,
                                             const _Atomic bool *stop, struct dt_kafka_shape *shape,
                                             struct dt_error *err);

/* Where partitions begin or end (`which`: RD_KAFKA_OFFSET_BEGINNING or _END), in one request; a reader of committed
 * messages is told their end. Fills the offsets in. */
DT_MUST_CHECK dt_status dt_kafka_ask_offsets(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list, int64_t which,
                                             struct dt_error *err);

/* The last finding of dt_kafka_admin_topic, however old; asks nobody. False: nothing yet. Thread-safe
 * (kafka_topics.c). */
bool dt_kafka_admin_known(dt_kafka_admin *admin, struct dt_str topic, struct dt_kafka_topic_info *out);

/*
 * Destroys a handle without holding up the caller: before(arg), which may block too, then the handle, then done(arg),
 * which frees what the handle's callbacks used (both may be NULL). Waits only (about a second at most) when many are
 * still being destroyed.
 */
void dt_kafka_reap(rd_kafka_t *rk, void (*before)(void *arg), void (*done)(void *arg), void *arg);

static inline int64_t dt_kafka_now_us(void)
{
    return dt_clock_mono_us(dt_clock_system());
}

#endif
