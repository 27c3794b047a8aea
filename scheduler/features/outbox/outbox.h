/*
 * Sends the messages in the outbox (features/outbox/outbox_store.h), at least once. A process has a sender for each
 * kind of message that it sends, to Kafka or to webhooks. A sender is a chore, and a tick is a round.
 */
#pragma once

#include "base/chores.h"
#include "base/config.h"
#include "base/http/webhook.h"
#include "base/text/json.h"
#include "kafka_message.h"
#include "outbox_store.h"

typedef struct dt_outbox dt_outbox;

/* Functions of a program that writes to Kafka. Called in the sender's ticks. */
struct dt_outbox_kafka {
    void *arg;
    /* Sends all messages and waits, for timeout_ms at most; sent[i] says which arrived. OK: all arrived. REFUSED:
     * all arrived except those that Kafka will never accept. */
    dt_status (*send)(void *arg, const struct dt_kafka_message *messages, size_t n, bool *sent, int timeout_ms,
                      struct dt_error *err);
    /* Used for answers. OK: the topic can be written. REFUSED: it can never be written; err says why. Other
     * statuses: not now; the program calls dt_outbox_wake when to ask again. */
    dt_status (*ask)(void *arg, struct dt_str topic, int64_t owner, struct dt_error *err);
    /* Used for dead letters: makes the message. */
    dt_status (*letter)(const struct dt_notice *notice, const char *installation, struct dt_arena *arena,
                        struct dt_kafka_message *message);
};

/* What a message says that goes to Kafka or to a webhook; in an arena. */
struct dt_outbox_text {
    struct dt_str key;  /* Kafka's: messages with the same key keep their order */
    struct dt_str id;   /* webhook-id */
    struct dt_str body; /* JSON */
};
/* Where a webhook goes. */
struct dt_outbox_way {
    struct dt_str url; /* absent: nowhere any more */
    bool has_secret;
    struct dt_callback_secret secret; /* the outbox wipes it */
    const char *why;                  /* it cannot go there; NULL: it can */
};

/* A kind of messages. */
struct dt_outbox_kind {
    enum dt_message_kind kind;
    const char *chore, *waits;
    size_t listed;                   /* messages that may be sent, in one round; … */
    size_t together;                 /* … of these, to Kafka: a row of answers has up to a million bytes */
    int timeout_ms;                  /* of Kafka: a retry needs a new connection, which a busy broker must finish */
    int64_t look_us, failed_us;      /* pauses between rounds: if nothing happens, and after Kafka failed */
    int64_t again_ms, again_most_ms; /* pauses of a message that did not arrive: the first, and the longest */
    /* Of messages that go to webhooks, too: given by the feature that writes them; all NULL for the kinds below. */
    int64_t kept_ms;                      /* a message is given up after this time */
    const char *topic;                    /* Kafka's, after the name of the installation and a dot */
    const char *area, *failed, *given_up; /* component and texts of log lines */
    dt_status (*text)(const struct dt_message_row *row, struct dt_arena *arena, struct dt_outbox_text *out);
    dt_status (*way)(const struct dt_config *config, dt_json *json, const struct dt_message_row *row,
                     struct dt_arena *arena, struct dt_outbox_way *out);
};
extern const struct dt_outbox_kind dt_outbox_letters, dt_outbox_answers;

/* Shared parts; must outlive the sender. */
struct dt_outbox_env {
    const struct dt_outbox_kind *kind;
    dt_chores *chores;
    const struct dt_config *config;
    const dt_clock *clock;
    const char *installation;            /* not used if there is no Kafka */
    const struct dt_outbox_kafka *kafka; /* NULL: this process does not write to Kafka */
    dt_metric *sent, *failed, *dropped;  /* counters of messages; NULL: they are not counted */
    void *arg;
    bool (*ours)(void *arg, int64_t sender); /* returns whether this process sends the messages of this sender */
};

/* Starts a sender. *out is set before the first tick; NULL after a failure. */
DT_MUST_CHECK dt_status dt_outbox_start(const struct dt_outbox_env *env, dt_outbox **out);
/* Called when there is a new message, or when a message that could not be sent may be sent now. Any thread, never
 * blocks; accepts NULL. */
void dt_outbox_wake(dt_outbox *outbox);
/* Ends webhooks that are under way. Accepts NULL. */
void dt_outbox_stop(dt_outbox *outbox);
