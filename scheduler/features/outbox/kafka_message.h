/* A message for Kafka, as the library passes it to programs that write to Kafka. The library has no client of Kafka. */
#pragma once

#include "base/text/strbuf.h"

struct dt_kafka_header {
    struct dt_str name, value;
};
struct dt_kafka_message {
    /* key: absent = no key, so any partition; otherwise, even if empty, the partition that Java's default partitioner
     * chooses. value: absent = null. */
    struct dt_str topic, key, value;
    const struct dt_kafka_header *headers;
    size_t n_headers;
};
