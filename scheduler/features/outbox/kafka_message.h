/* A message for Kafka. The library, which has no client of Kafka, passes it to the program, which has one. */
#pragma once

#include "base/text/strbuf.h"

struct dt_kafka_header {
    struct dt_str name, value;
};
struct dt_kafka_message {
    /* key: absent = no key, so Kafka's client chooses any partition; otherwise it chooses the partition that Java's
     * default partitioner would choose, even for an empty key. value: absent = null. */
    struct dt_str topic, key, value;
    const struct dt_kafka_header *headers;
    size_t n_headers;
};
