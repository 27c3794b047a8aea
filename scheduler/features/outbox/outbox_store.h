/*
 * The outbox: messages that have not left for Kafka or webhooks yet. A message is a row, written in the transaction of
 * the change that it tells of, and deleted after it arrived. So it leaves at least once, whoever dies when.
 *
 * Each kind has senders, by number, and a message belongs to one of them. Rows are inserted by the files that make the
 * changes; next_at of a row that was never tried is 0, so it is due whatever a test clock shows.
 */
#ifndef DT_STORE_OUTBOX_H
#define DT_STORE_OUTBOX_H

#include "features/alerts/alerts.h"

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
    int64_t now_ms; /* the server's clock; not set if there is no sender */
};
/* Reads all senders that have a message of the kind. */
DT_MUST_CHECK dt_status dt_store_senders(dt_store *store, enum dt_message_kind kind, struct dt_arena *arena,
                                         struct dt_senders *out, struct dt_error *err);

/* A message without its text. */
struct dt_message_row {
    int64_t id, sender, next_ms, made_ms;
    int tries;
    int64_t owner;             /* of its topic (topic/owner.h); 0: it is about the installation, or a dead letter */
    struct dt_str kafka_topic; /* of answers; empty: the answers name theirs, which are there */
    int64_t barred_ms;         /* of answers: until then others for their topic were put off; 0 = none was */
    /* of an alert */
    enum dt_alert_event event;
    enum dt_alert_target target;
    struct dt_alert alert;
    struct dt_str setting; /* topics.alerts of its topic as it is now; absent: none */
};
/* Which page of which messages; next_ms and id: those of the last message before it, or 0. */
struct dt_message_page {
    enum dt_message_kind kind;
    int64_t sender, now_ms; /* now_ms: the server's clock, for barred_ms */
    int64_t next_ms, id;
    bool kafka;               /* in: also messages about alerts for Kafka */
    struct dt_message_row *v; /* out: in the arena */
    size_t n;
    bool more; /* out: there may be another page */
};
/* Reads a page of a sender's messages, due or not, in the order in which they are due. Of an alert and a target the
 * first one is read, and no other before it is gone. */
DT_MUST_CHECK dt_status dt_store_messages(dt_store *store, struct dt_message_page *page, struct dt_arena *arena,
                                          struct dt_error *err);

/* A dead letter. */
struct dt_notice {
    int64_t id;
    struct dt_job job;
    int64_t attempt, made_at_ms;
};
struct dt_notices {
    struct dt_notice *v; /* in the arena, ascending by id */
    size_t n;
};
/* Reads dead letters, whose ids ascend. One whose job is gone is left out. */
DT_MUST_CHECK dt_status dt_store_notices(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena,
                                         struct dt_notices *out, struct dt_error *err);

/* The process that sent messages about alerts before is dead: what it had taken for the first time is due now, rather
 * than at the end of its lease. A process that lives records the outcome itself, and they would arrive twice. */
DT_MUST_CHECK dt_status dt_store_free_alert_messages(dt_store *store, struct dt_error *err);
/* A message that is due again after a time. */
struct dt_message_try {
    int64_t id;
    int tries;   /* as its row says */
    bool counts; /* one try more */
    int64_t after_ms;
    struct dt_str why; /* of a failed try; absent: a process sends it meanwhile, and others do not */
};
/* VERSION: another process has put off some of them: they are as that one left them. */
DT_MUST_CHECK dt_status dt_store_put_off_messages(dt_store *store, const struct dt_message_try *v, size_t n,
                                                  struct dt_error *err);
/* They arrived, or are given up. */
DT_MUST_CHECK dt_status dt_store_delete_messages(dt_store *store, const int64_t *ids, size_t n, struct dt_error *err);

#endif
