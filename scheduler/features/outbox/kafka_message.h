/* A message for Kafka, as the programs that write to it are given it. The library refuses to know how it is sent. */
#ifndef DT_OUTBOX_KAFKA_MESSAGE_H
#define DT_OUTBOX_KAFKA_MESSAGE_H

#include "base/text/strbuf.h"

struct dt_kafka_header {
    struct dt_str name, value;
};
struct dt_kafka_message {
    /* key: absent = none, the message may lie in any partition; else, empty too, where Java's default partitioner puts
     * it. value: absent = null */
    struct dt_str topic, key, value;
    const struct dt_kafka_header *headers;
    size_t n_headers;
};

#endif
