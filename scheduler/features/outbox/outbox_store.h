/*
 * The outbox: messages that are to be sent to Kafka or to webhooks. A message is a row, written in the transaction of
 * the change that it reports, and deleted after it has arrived. So it is sent at least once, whichever process dies.
 *
 * Each message belongs to a sender of its kind, which has a number. The files that make the changes insert the rows.
 * Until a message was tried, its next_at is 0, so it is due at once, whatever the time of a test clock.
 */
#pragma once

#include "job/job.h"
#include "store/store.h"

/* Kinds of messages. The numbers are those of the ENUM in MySQL. */
enum dt_message_kind {
    DT_MESSAGE_DEAD = 1, /* a dead letter; its sender number is the shard, whose leader sends it */
    DT_MESSAGE_ANSWERS,  /* answers to commands, for one Kafka topic; the sender number is the partition, whose reader
                          * sends them */
    DT_MESSAGE_ALERT,    /* a message about an alert; the sender number is 0; the judge of alerts sends it */
    DT_MESSAGE_KINDS_END
};

struct dt_senders {
    struct dt_sender {
        int64_t sender, next_ms; /* number of the sender; next_ms: when its first message is due */
    } * v;                       /* in the arena, sorted by sender */
    size_t n;
    int64_t now_ms; /* MySQL's clock; not set if there are no senders */
};
/* Reads the senders that have messages of the kind. */
dt_status dt_store_senders(dt_store *store, enum dt_message_kind kind, struct dt_arena *arena, struct dt_senders *out,
                           struct dt_error *err);

/* Targets of messages about alerts. The numbers are those of the ENUM in MySQL. Other messages, with target 0, go to
 * Kafka. */
enum dt_message_target { DT_TO_TOPICS_URL = 1, DT_TO_OUR_URL, DT_TO_KAFKA };

/* A message, without its text. */
struct dt_message_row {
    int64_t id, sender, next_ms, made_ms;
    int tries;
    /* Owner of the message's topic (topic/owners.h). 0: the message is about the installation, or is a dead letter. */
    int64_t owner;
    struct dt_str kafka_topic; /* for answers: Kafka topic to which they are sent; empty: each answer names one, which
                                * exists */
    int64_t barred_ms;         /* for answers: until when another answer for the same Kafka topic is put off; 0 = none
                                * is */
    struct dt_str topic;       /* topic that the message is about; absent: none */
    /* Only messages about alerts have the members below. */
    enum dt_message_target target;
    struct dt_str setting; /* current alert settings of the topic (topics.alerts); absent: none */
    int64_t alert, type, alert_kind, value, bound, began_ms;
};
/* A page of messages. Before the call, next_ms and id are those of the last message of the previous page, or 0. */
struct dt_message_page {
    enum dt_message_kind kind;
    int64_t sender, now_ms; /* now_ms: MySQL's clock, to compute barred_ms */
    int64_t next_ms, id;
    bool kafka;               /* in: include messages about alerts for Kafka */
    struct dt_message_row *v; /* out: in the arena */
    size_t n;
    bool more; /* out: there may be further pages */
};
/* Reads a page of a sender's messages, due or not, in the order in which they are due. If several messages are for the
 * same alert and target, only the first is read, until it is deleted. */
dt_status dt_store_messages(dt_store *store, struct dt_message_page *page, struct dt_arena *arena,
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
/* Reads dead letters with their jobs; ids are ascending. A dead letter whose job was removed is skipped. */
dt_status dt_store_notices(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena,
                           struct dt_notices *out, struct dt_error *err);

/* A message that is put off. */
struct dt_message_try {
    int64_t id;
    int tries;   /* number of tries in the message's row */
    bool counts; /* adds one to the number of tries */
    int64_t after_ms;
    struct dt_str why; /* error of the try that failed; absent: the message is put off because this process is sending
                        * it */
};
/* Puts messages off. VERSION: another process has put some of them off already; these were not changed. */
dt_status dt_store_put_off_messages(dt_store *store, const struct dt_message_try *v, size_t n, struct dt_error *err);
/* Deletes messages that arrived, or that were given up. */
dt_status dt_store_delete_messages(dt_store *store, const int64_t *ids, size_t n, struct dt_error *err);
