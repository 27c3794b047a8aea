/* The rule of kafka_pause.h. */
#include "kafka_pause.h"

int64_t dt_kafka_pause(int64_t pause_us, bool too_soon)
{
    int64_t next_us = too_soon ? pause_us + DT_KAFKA_PAUSE_MORE_US : pause_us - DT_KAFKA_PAUSE_LESS_US;

    if (next_us > DT_KAFKA_PAUSE_MAX_US)
        return DT_KAFKA_PAUSE_MAX_US;
    return next_us < DT_KAFKA_PAUSE_MIN_US ? DT_KAFKA_PAUSE_MIN_US : next_us;
}
