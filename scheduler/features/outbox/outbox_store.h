/*
 * The outbox: messages that were not sent to Kafka or webhooks yet. A message is a row, written in the transaction of
 * the change that it reports, and deleted after it has arrived. So it is sent at least once, whichever process dies.
 *
 * Each kind has senders with numbers, and each message belongs to one of them. The files that make the changes insert
 * the rows. next_at of a row that was never tried is 0, so it is due at once, whatever the time of a test clock.
 */
#pragma once

#include "job/job.h"
#include "store/store.h"

/* Numbers are those of the ENUM in MySQL. */
enum dt_message_kind {
    DT_MESSAGE_DEAD = 1, /* a dead letter; sent by the leader of the shard */
    DT_MESSAGE_ANSWERS,  /* answers to commands, for one Kafka topic; sent by the reader of the partition */
    DT_MESSAGE_ALERT,    /* a message about an alert; sent by the judge of alerts, sender 0 */
    DT_MESSAGE_KINDS_END
};

struct dt_senders {
    struct dt_sender {
        int64_t sender, next_ms; /* next_ms: time at which the sender's first message is due */
    } * v;                       /* in the arena, ascending */
    size_t n;
    int64_t now_ms; /* the server's clock; not set if there is no sender */
};
/* Reads all senders that have a message of the kind. */
DT_MUST_CHECK dt_status dt_store_senders(dt_store *store, enum dt_message_kind kind, struct dt_arena *arena,
                                         struct dt_senders *out, struct dt_error *err);

/* Destinations of a message. Numbers are those of the ENUM in MySQL; 0: Kafka. */
enum dt_message_target { DT_TO_TOPICS_URL = 1, DT_TO_OUR_URL, DT_TO_KAFKA };

/* A message without its text. */
struct dt_message_row {
    int64_t id, sender, next_ms, made_ms;
    int tries;
    /* Owner of the message's topic (topic/owners.h); 0: the message is about the installation, or is a dead letter. */
    int64_t owner;
    struct dt_str kafka_topic; /* for answers; empty: each answer names its Kafka topic, which exists */
    int64_t barred_ms;         /* for answers: time until which other answers for the Kafka topic were put off; 0 =
                                * none was */
    struct dt_str topic;       /* absent: none */
    /* The members below are for messages about alerts. */
    enum dt_message_target target;
    struct dt_str setting; /* current topics.alerts of the topic; absent: none */
    int64_t alert, type, alert_kind, value, bound, began_ms;
};
/* A page of messages; next_ms and id are those of the last message before the page, or 0. */
struct dt_message_page {
    enum dt_message_kind kind;
    int64_t sender, now_ms; /* now_ms: the server's clock, for barred_ms */
    int64_t next_ms, id;
    bool kafka;               /* in: include messages about alerts for Kafka */
    struct dt_message_row *v; /* out: in the arena */
    size_t n;
    bool more; /* out: there may be further pages */
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
/* Reads dead letters, whose ids ascend. If the job of a dead letter does not exist any more, the letter is skipped. */
DT_MUST_CHECK dt_status dt_store_notices(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena,
                                         struct dt_notices *out, struct dt_error *err);

/* A try of a message that is to be due again after some time. */
struct dt_message_try {
    int64_t id;
    int tries;   /* number of tries that the message's row has now */
    bool counts; /* this try adds one */
    int64_t after_ms;
    struct dt_str why; /* error of a failed try; absent: this process sends the message now, and others must not */
};
/* Makes messages due again after some time. VERSION: another process has put off some of these messages; they were not
 * changed. */
DT_MUST_CHECK dt_status dt_store_put_off_messages(dt_store *store, const struct dt_message_try *v, size_t n,
                                                  struct dt_error *err);
/* Deletes messages that arrived, or that are given up. */
DT_MUST_CHECK dt_status dt_store_delete_messages(dt_store *store, const int64_t *ids, size_t n, struct dt_error *err);
