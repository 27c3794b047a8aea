/* A message for Kafka, as the library passes it to the programs that write to Kafka. The library does not know how
 * it is sent. */
#pragma once

#include "base/text/strbuf.h"

struct dt_kafka_header {
    struct dt_str name, value;
};
struct dt_kafka_message {
    /* key: absent = none, any partition; otherwise, also if empty, the partition that Java's default partitioner
     * chooses. value: absent = null. */
    struct dt_str topic, key, value;
    const struct dt_kafka_header *headers;
    size_t n_headers;
};
