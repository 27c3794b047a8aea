/*
 * Sends the messages in the outbox (features/outbox/outbox_store.h), at least once. A process has a sender for each
 * kind of message that it sends, to Kafka or to webhooks. A sender is a chore, and a tick is a round.
 */
#pragma once

#include "base/chores.h"
#include "base/config.h"
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

/* Shared parts; must outlive the sender. */
struct dt_outbox_env {
    enum dt_message_kind kind;
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
