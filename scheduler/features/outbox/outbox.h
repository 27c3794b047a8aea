/*
 * Sends what is in the outbox (features/outbox/outbox_store.h), at least once: messages of one kind, to Kafka or to
 * webhooks. A process has a sender for each kind that it sends. A sender is a chore, and a tick is a round.
 */
#ifndef DT_OUTBOX_H
#define DT_OUTBOX_H

#include "base/chores.h"
#include "base/config.h"
#include "kafka_message.h"
#include "outbox_store.h"

typedef struct dt_outbox dt_outbox;

/* What a program that writes to Kafka gives a sender. Called in its ticks. */
struct dt_outbox_kafka {
    void *arg;
    /* Sends all and waits, timeout_ms at most; sent[i] says which arrived. OK only if all did; REFUSED if all did but
     * those that Kafka will not take. */
    dt_status (*send)(void *arg, const struct dt_kafka_message *messages, size_t n, bool *sent, int timeout_ms,
                      struct dt_error *err);
    /* Of answers. OK: the topic can be written. REFUSED: it never can, err says why. Other statuses: not now, and
     * dt_outbox_wake says when to ask again. */
    dt_status (*ask)(void *arg, struct dt_str topic, int64_t owner, struct dt_error *err);
    /* Of dead letters: makes the message. */
    dt_status (*letter)(const struct dt_notice *notice, const char *installation, struct dt_arena *arena,
                        struct dt_kafka_message *message);
};

/* Shared parts; must outlive the sender. */
struct dt_outbox_env {
    enum dt_message_kind kind;
    dt_chores *chores;
    const struct dt_config *config;
    const dt_clock *clock;
    const char *installation;            /* not used where there is no Kafka */
    const struct dt_outbox_kafka *kafka; /* NULL: this process does not write to Kafka */
    dt_metric *sent, *failed, *dropped;  /* messages; NULL: they are not counted */
    void *arg;
    bool (*ours)(void *arg, int64_t sender); /* this process sends the messages of this sender */
};

/* *out is set before the first tick; NULL after a failure. */
DT_MUST_CHECK dt_status dt_outbox_start(const struct dt_outbox_env *env, dt_outbox **out);
/* There is something new, or something may be sent now that could not. Any thread, never blocks; accepts NULL. */
void dt_outbox_wake(dt_outbox *outbox);
/* Ends webhooks that are under way. Accepts NULL. */
void dt_outbox_stop(dt_outbox *outbox);

#endif
