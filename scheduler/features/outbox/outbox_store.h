/*
 * The outbox: messages that were not sent to Kafka or webhooks yet. A message is a row, written in the transaction of
 * the change that it reports, and deleted after it arrived. So it is sent at least once, whichever process dies.
 *
 * Each kind has senders, by number, and a message belongs to one of them. The files that make the changes insert the
 * rows. next_at of a row that was never tried is 0, so it is due at once, whatever the time of a test clock.
 */
#pragma once

#include "job/job.h"
#include "store/store.h"

/* The numbers are those of the ENUM in MySQL. */
enum dt_message_kind {
    DT_MESSAGE_DEAD = 1, /* a dead letter; sent by the leader of the shard */
    DT_MESSAGE_ANSWERS,  /* answers to commands, for one Kafka topic; sent by the reader of the partition */
    DT_MESSAGE_ALERT,    /* a message about an alert; sent by the judge of alerts, sender 0 */
    DT_MESSAGE_KINDS_END
};

struct dt_senders {
    struct dt_sender {
        int64_t sender, next_ms; /* when its first message is due */
    } * v;                       /* in the arena, ascending */
    size_t n;
    int64_t now_ms; /* the server's clock; if there is no sender, it is not set */
};
/* Reads all senders that have a message of the kind. */
DT_MUST_CHECK dt_status dt_store_senders(dt_store *store, enum dt_message_kind kind, struct dt_arena *arena,
                                         struct dt_senders *out, struct dt_error *err);

/* Where a message goes. The numbers are those of the ENUM in MySQL; 0: to Kafka. */
enum dt_message_target { DT_TO_TOPICS_URL = 1, DT_TO_OUR_URL, DT_TO_KAFKA };

/* A message without its text. */
struct dt_message_row {
    int64_t id, sender, next_ms, made_ms;
    int tries;
    /* Of its topic (topic/owners.h); 0: the message is about the installation, or is a dead letter. */
    int64_t owner;
    struct dt_str kafka_topic; /* of answers; empty: each answer names its own topic, which exists */
    int64_t barred_ms;         /* of answers: others for their topic were put off until this time; 0 = none was */
    struct dt_str topic;       /* absent: none */
    /* of an alert: columns of its row */
    enum dt_message_target target;
    struct dt_str setting; /* topics.alerts of its topic as it is now; absent: none */
    int64_t alert, type, alert_kind, value, bound, began_ms;
};
/* A page of messages; next_ms and id: those of the last message before it, or 0. */
struct dt_message_page {
    enum dt_message_kind kind;
    int64_t sender, now_ms; /* now_ms: the server's clock, for barred_ms */
    int64_t next_ms, id;
    bool kafka;               /* in: include messages about alerts for Kafka */
    struct dt_message_row *v; /* out: in the arena */
    size_t n;
    bool more; /* out: there may be another page */
};
/* Reads a page of a sender's messages, due or not, in the order in which they are due. For each alert and target
 * only the first message is read, until it is deleted. */
DT_MUST_CHECK dt_status dt_store_messages(dt_store *store, struct dt_message_page *page, struct dt_arena *arena,
                                          struct dt_error *err);

struct dt_notice {
    int64_t id;
    struct dt_job job;
    int64_t attempt, made_at_ms;
};
struct dt_notices {
    struct dt_notice *v; /* in the arena, ascending by id */
    size_t n;
};
/* Reads dead letters, whose ids ascend. If the job of one does not exist any more, it is skipped. */
DT_MUST_CHECK dt_status dt_store_notices(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena,
                                         struct dt_notices *out, struct dt_error *err);

/* A message that is due again after a time. */
struct dt_message_try {
    int64_t id;
    int tries;   /* tries that its row counts now */
    bool counts; /* the try counts */
    int64_t after_ms;
    struct dt_str why; /* error of a failed try; absent: a process sends it now, and others must not */
};
/* Makes messages due again after a time. VERSION: another process has put off some of them, and these were not
 * changed. */
DT_MUST_CHECK dt_status dt_store_put_off_messages(dt_store *store, const struct dt_message_try *v, size_t n,
                                                  struct dt_error *err);
/* Deletes messages that arrived, or that are given up. */
DT_MUST_CHECK dt_status dt_store_delete_messages(dt_store *store, const int64_t *ids, size_t n, struct dt_error *err);
