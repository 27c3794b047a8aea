/* Kafka for tests: an installation name of a test's own on the broker that DUETIME_KAFKA names, and a reader that
 * shares no code with the product. Everything here fails the running cmocka test when it cannot do its work. */
#pragma once

#include "base/config.h"
#include "deliver/kafka/kafka.h"
#include "support/wait.h"

struct kafka_fixture {
    struct dt_config config;
    struct dt_kafka_env env;
    char installation[64], topic[96];
    char brokers[256];
};

/* A name, a topic name (nothing is made yet), a configuration with nothing but the Kafka options. */
void kafka_fixture_init(struct kafka_fixture *fx, const char *prefix);
/* The same, and the installation's topics are made; env.admin is set. */
void kafka_fixture_make(struct kafka_fixture *fx, const char *prefix);
void kafka_fixture_clear(struct kafka_fixture *fx);

/* The name of the installation's own topic "<installation>.<suffix>", in one of a few buffers. */
const char *kafka_fixture_own(const struct kafka_fixture *fx, const char *suffix);
int64_t kafka_fixture_now_us(void); /* monotonic */

/* Makes a topic with settings (names and values in turn, ended by NULL; may be NULL). */
void kafka_fixture_topic(struct kafka_fixture *fx, const char *topic, int partitions, const char *const *settings);
/* Changes one setting of a topic. */
void kafka_fixture_configure(struct kafka_fixture *fx, const char *topic, const char *name, const char *value);
/* Partitions of a topic, 0 = it does not exist; never makes one. */
int kafka_fixture_partitions(struct kafka_fixture *fx, const char *topic);
/* Waits until the topic has so many: a broker learns of them after the controller. */
void kafka_fixture_await_partitions(struct kafka_fixture *fx, const char *topic, int partitions);
/* Deletes the records of a partition below the offset. */
void kafka_fixture_trim(struct kafka_fixture *fx, const char *topic, int partition, int64_t before);
/* Deletes a topic and waits until it is gone. */
void kafka_fixture_delete(struct kafka_fixture *fx, const char *topic);
/* From now on nobody may write to the topic. */
void kafka_fixture_deny_write(struct kafka_fixture *fx, const char *topic);
/* Writes plain records, outside any transaction. */
void kafka_fixture_write(struct kafka_fixture *fx, const char *topic, int partition, const char *key,
                         const char *value);

/* A record as a consumer sees it. */
struct kafka_seen {
    int32_t partition;
    int64_t offset;
    char key[64], value[64], header[64]; /* texts, cut; header: the value of "ce_id" */
    size_t value_n;
    bool null_key, null_value;
};
/* KAFKA_COMMITTED waits until no transaction is open, KAFKA_UP_TO_OPEN reads up to one that is. */
enum kafka_view { KAFKA_ALL, KAFKA_COMMITTED, KAFKA_UP_TO_OPEN };
/* Every record of a topic up to its end at the time of the call; free() the array. */
size_t kafka_fixture_read(struct kafka_fixture *fx, const char *topic, enum kafka_view view, struct kafka_seen **seen);

#define KAFKA_FIXTURE_OK(status, err) kafka_fixture_ok((status), (err), __FILE__, __LINE__)
void kafka_fixture_ok(dt_status status, const struct dt_error *err, const char *file, int line);
/* Asks again as the product does, if a broker that has just started is not ready for the request. */
#define KAFKA_FIXTURE_INSIST(call, err)                                                                                \
    do {                                                                                                               \
        dt_status insist_status_;                                                                                      \
        AWAIT((insist_status_ = (call)) != DT_UNAVAILABLE);                                                            \
        KAFKA_FIXTURE_OK(insist_status_, err);                                                                         \
    } while (0)
