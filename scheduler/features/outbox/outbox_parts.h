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

#define DT_OUTBOX_PLACES 256 /* limit of webhooks under way: as many for topics as for the installation */

enum dt_outbox_outcome {
    DT_OUTBOX_GONE,  /* it arrived, or nothing wants it any more: it is deleted */
    DT_OUTBOX_FAILED /* it is sent again */
};

struct dt_flight {
    dt_outbox *outbox;
    struct dt_message_row row; /* its texts are in the round's arena: during a webhook they are not valid */
    int64_t host;              /* of a topic's webhook: the host that shares its owner's places */
    enum dt_outbox_outcome outcome;
    int64_t arrived, refused; /* number of messages that arrived, and that Kafka refuses: a row may have several */
    char topic[250], why[200];
    struct dt_flight *next;
};

struct dt_outbox {
    struct dt_outbox_env env;
    const struct dt_outbox_kind *kind;
    struct dt_chore chore;
    dt_store *store; /* store of the running tick */
    dt_json *json;
    struct dt_arena round; /* rows */
    struct dt_arena texts; /* memory for the messages that are sent together */
    struct dt_turns turns; /* for dead letters, turns of shards; otherwise of owners */
    int64_t after;         /* the last sender that has had its turn */
    /* Mono: the last round in which messages waited and Kafka answered about no topic; at first, the start. */
    int64_t silent_us;
    bool kafka_failed;
    dt_http_client *client;                     /* made for the first webhook */
    struct dt_shares places[DT_TO_OUR_URL + 1]; /* places of webhooks, by target and owner */
    struct dt_shares at_host;                   /* places of topics' webhooks, by owner and host */
    pthread_mutex_t lock;
    struct dt_flight *ended; /* under the lock: flights whose outcomes are not recorded yet */
};

static inline bool dt_outbox_is_webhook(const struct dt_message_row *row)
{
    return row->target == DT_TO_TOPICS_URL || row->target == DT_TO_OUR_URL;
}

/* ---- outbox_send.c ---- */

/* Sends flights, whose ids ascend. Afterwards each flight has ended, or is a webhook under way. Not OK: nothing was
 * sent, and no flight has ended. *kafka: OK, or why Kafka did not accept everything; `why` has the text. */
DT_MUST_CHECK dt_status dt_outbox_send(dt_outbox *outbox, struct dt_flight **flights, size_t n, int64_t now_ms,
                                       dt_status *kafka, struct dt_error *why, struct dt_error *err);
