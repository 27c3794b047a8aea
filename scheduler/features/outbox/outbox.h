/* Sends the messages in the outbox (outbox_store.h), at least once, to Kafka or to webhooks. A process has one such
 * sender for each kind of message. It is a chore, and each tick is a round. */
#pragma once

#include "base/chores.h"
#include "base/config.h"
#include "base/http/webhook.h"
#include "base/text/json.h"
#include "kafka_message.h"
#include "outbox_store.h"

typedef struct dt_outbox dt_outbox;

/* Functions of a program that writes to Kafka. The sender calls them during its ticks. */
struct dt_outbox_kafka {
    void *arg;
    /* Sends all messages and waits at most timeout_ms. sent[i] is set if message i arrived. OK: all arrived. REFUSED:
     * all arrived, except those that Kafka will never accept. */
    dt_status (*send)(void *arg, const struct dt_kafka_message *messages, size_t n, bool *sent, int timeout_ms,
                      struct dt_error *err);
    /* For answers: returns whether a Kafka topic can be written. OK: it can. REFUSED: it can never be written; err has
     * the reason. Any other status: it cannot be written now; the program calls dt_outbox_wake when to try again. */
    dt_status (*ask)(void *arg, struct dt_str topic, int64_t owner, struct dt_error *err);
    /* For dead letters: makes the message for Kafka. Its texts are in the arena. */
    dt_status (*letter)(const struct dt_notice *notice, const char *installation, struct dt_arena *arena,
                        struct dt_kafka_message *message);
};

/* The content of a message to Kafka or to a webhook. Texts are in an arena. */
struct dt_outbox_text {
    struct dt_str key;  /* key in Kafka: messages with the same key keep their order */
    struct dt_str id;   /* value of the header webhook-id */
    struct dt_str body; /* body, as JSON */
};
/* Where a webhook is sent. */
struct dt_outbox_way {
    struct dt_str url; /* absent: no webhook is wanted any more */
    bool has_secret;
    struct dt_callback_secret secret; /* the sender wipes it after use */
    const char *why;                  /* why no webhook can be sent to this URL; NULL: it can */
};

/* A kind of message, and how it is sent. */
struct dt_outbox_kind {
    enum dt_message_kind kind;
    const char *chore, *waits;
    size_t listed;                   /* most messages that one tick of the sender (a round) chooses from */
    size_t together;                 /* most messages that are sent to Kafka at once; small for answers, because a row
                                      * of answers may have a million bytes */
    int timeout_ms;                  /* timeout of a send to Kafka; long enough for a new connection, which a retry may
                                      * need and a busy broker delays */
    int64_t look_us, failed_us;      /* look_us: longest pause between two rounds; failed_us: pause after Kafka
                                      * failed */
    int64_t again_ms, again_most_ms; /* delay of a message that did not arrive: the shortest, and the longest */
    /* Only the kinds that also go to webhooks have the members below. The features that write these messages set them;
     * dt_outbox_letters and dt_outbox_answers do not. */
    int64_t kept_ms;   /* a message that did not arrive within this time is given up */
    const char *topic; /* topic in Kafka, without "<installation>." before it */
    /* for log lines: the component; the text if a message failed; the text if it is given up */
    const char *area, *failed, *given_up;
    dt_status (*text)(const struct dt_message_row *row, struct dt_arena *arena, struct dt_outbox_text *out);
    dt_status (*way)(const struct dt_config *config, dt_json *json, const struct dt_message_row *row,
                     struct dt_arena *arena, struct dt_outbox_way *out);
};
extern const struct dt_outbox_kind dt_outbox_letters, dt_outbox_answers;

/* What a sender needs from the program. Must outlive the sender. */
struct dt_outbox_env {
    const struct dt_outbox_kind *kind;
    dt_chores *chores;
    const struct dt_config *config;
    const dt_clock *clock;
    const char *installation;            /* name of the installation; not used without Kafka */
    const struct dt_outbox_kafka *kafka; /* NULL: this process does not write to Kafka */
    dt_metric *sent, *failed, *dropped;  /* counters of messages; NULL: they are not counted */
    void *arg;
    bool (*ours)(void *arg, int64_t sender); /* returns whether this process sends the messages that belong to this
                                              * sender number */
};

/* Starts the sender of one kind. *out is set before the first tick, and NULL after a failure. */
dt_status dt_outbox_start(const struct dt_outbox_env *env, dt_outbox **out);
/* Must be called after a message was written, or when a message that could not be sent may be sent now. Callable from
 * any thread, never blocks. Accepts NULL. */
void dt_outbox_wake(dt_outbox *outbox);
/* Stops the sender, and ends webhooks that are under way. Accepts NULL. */
void dt_outbox_stop(dt_outbox *outbox);
