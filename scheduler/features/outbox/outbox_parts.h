/*
 * The inside of the outbox's sender, shared by the files of this folder only.
 *
 *   outbox.c         rounds: which messages are due, which are sent, their outcomes
 *   outbox_send.c    sending the messages that were chosen, to Kafka and to webhooks
 */
#pragma once

#include <pthread.h>

#include "base/fair.h"
#include "base/hash.h"
#include "base/http/http_client.h"
#include "base/metrics.h"
#include "outbox.h"

#define DT_OUTBOX_PLACES 256 /* most webhooks under way for topics, and as many for the installation */

enum dt_outbox_outcome {
    DT_OUTBOX_GONE,  /* the message arrived, or is not wanted any more: it is deleted */
    DT_OUTBOX_FAILED /* the message is sent again */
};

struct dt_flight {
    dt_outbox *outbox;
    struct dt_message_row row; /* texts are in the round's arena, so they are not valid during a webhook */
    int64_t host;              /* for a topic's webhook: its host, which shares the places of the owner */
    enum dt_outbox_outcome outcome;
    int64_t arrived, refused; /* messages that arrived; messages that Kafka refuses (a row may have several messages) */
    char topic[250], why[200];
    struct dt_flight *next;
};

struct dt_outbox {
    struct dt_outbox_env env;
    const struct dt_outbox_kind *kind;
    struct dt_chore chore;
    dt_store *store; /* store of the running tick */
    dt_json *json;
    struct dt_arena round; /* memory for the rows of a round */
    struct dt_arena texts; /* memory for the messages that are sent together */
    struct dt_turns turns; /* turns of shards for dead letters, otherwise of owners */
    int64_t after;         /* the sender that has had the last turn */
    /* Mono: the last round in which messages waited and Kafka answered about no topic; at first, the time of the
     * start. */
    int64_t silent_us;
    bool kafka_failed;
    dt_http_client *client;                     /* made when the first webhook is sent */
    struct dt_shares places[DT_TO_OUR_URL + 1]; /* places of webhooks, by target and owner */
    struct dt_shares at_host;                   /* places of topics' webhooks, by owner and host */
    pthread_mutex_t lock;
    struct dt_flight *ended; /* flights whose outcomes are not recorded yet; under the lock */
};

static inline bool dt_outbox_is_webhook(const struct dt_message_row *row)
{
    return row->target == DT_TO_TOPICS_URL || row->target == DT_TO_OUR_URL;
}

/* ---- outbox_send.c ---- */

/* Sends flights, whose ids ascend. After OK each flight has ended, or is a webhook under way. Any other status: nothing
 * was sent, and no flight has ended. *kafka: OK, or the status of the failure if Kafka did not accept everything; `why`
 * has the error. */
DT_MUST_CHECK dt_status dt_outbox_send(dt_outbox *outbox, struct dt_flight **flights, size_t n, int64_t now_ms,
                                       dt_status *kafka, struct dt_error *why, struct dt_error *err);
