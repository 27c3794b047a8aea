/*
 * A row of job_inbox as an intent. Its columns are put into the form of a REST body, which is then decoded as one, so
 * that the two cannot part. Pure.
 */
#ifndef DT_STORE_INBOX_ROW_H
#define DT_STORE_INBOX_ROW_H

#include "job/request/job_decode.h"
#include "store/intents/intents.h"

#define DT_INBOX_OPTIONS_MAX ((size_t)65536)

/* The columns; texts are absent where they are NULL, and cut where they are too long. */
struct dt_inbox_row {
    int64_t id;
    int64_t action; /* of the ENUM, from 1 on; 0: none of its words */
    struct dt_str topic, key;
    bool has_job_id, has_run_at, has_delay;
    int64_t job_id, run_at_ms, delay_ms;
    struct dt_str payload, options;
    size_t payload_bytes, options_bytes; /* as they stand in the table */
    int64_t created_at_ms;
};

/* The means of decoding. All texts that come out are in the arena or in the row. */
struct dt_inbox_reader {
    const struct dt_job_rules *rules;
    dt_json *json;
    struct dt_arena *arena;
    int64_t now_ms; /* the server's time */
};
/* Decodes a row. *out is REFUSED, with its problem, when it cannot be carried out. NOMEM. */
DT_MUST_CHECK dt_status dt_inbox_decode(const struct dt_inbox_reader *reader, const struct dt_inbox_row *row,
                                        struct dt_intent *out);

#endif
