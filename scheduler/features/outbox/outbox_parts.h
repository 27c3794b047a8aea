/*
 * What the files of the outbox's sender share. Only for this folder.
 *
 *   outbox.c         rounds: which messages are due, which of them are sent, and their outcomes
 *   outbox_send.c    sending the messages that were chosen, to Kafka and to webhooks
 */
#pragma once

#include <pthread.h>

#include "base/fair.h"
#include "base/hash.h"
#include "base/http/http_client.h"
#include "base/metrics.h"
#include "outbox.h"

#define DT_OUTBOX_PLACES 256 /* most webhooks under way to URLs of topics, and as many to the URL of the installation */

enum dt_outbox_outcome {
    DT_OUTBOX_GONE,  /* the message is deleted: it arrived, or is not wanted any more */
    DT_OUTBOX_FAILED /* the message is sent again later */
};

/* A row of the outbox that is being sent, until its outcome is recorded. */
struct dt_flight {
    dt_outbox *outbox;
    struct dt_message_row row; /* the row of the message; its texts are in the arena of the round, so they are not valid
                                * when a webhook ends */
    int64_t host;              /* for a webhook to a topic's URL: key of its owner and host in dt_outbox.at_host */
    enum dt_outbox_outcome outcome;
    int64_t arrived, refused; /* numbers of messages that arrived, and that Kafka refused (a row of answers has several
                               * messages) */
    char topic[250], why[200];
    struct dt_flight *next;
};

struct dt_outbox {
    struct dt_outbox_env env;
    const struct dt_outbox_kind *kind;
    struct dt_chore chore;
    dt_store *store; /* MySQL store of the chore's running tick */
    dt_json *json;
    struct dt_arena round; /* memory for the rows that a tick of the sender (a round) reads */
    struct dt_arena texts; /* memory for the messages that are sent together */
    struct dt_turns turns; /* turns of shards (for dead letters) or of owners */
    int64_t after;         /* number of the sender of the message chosen last; the next round begins after it */
    /* Monotonic time of the last round in which answers waited and Kafka answered about none of their topics; at first,
     * when the sender was started. */
    int64_t silent_us;
    bool kafka_failed;
    dt_http_client *client; /* HTTP client, made for the first webhook */
    /* number of webhooks under way (places taken), indexed by target; owners share the places */
    struct dt_shares places[DT_TO_OUR_URL + 1];
    /* number of webhooks under way to URLs of topics, by host; the hosts of an owner share its places */
    struct dt_shares at_host;
    pthread_mutex_t lock;
    /* messages under way whose sending has ended and whose outcomes are not recorded yet; protected by `lock` */
    struct dt_flight *ended;
};

static inline bool dt_outbox_is_webhook(const struct dt_message_row *row)
{
    return row->target == DT_TO_TOPICS_URL || row->target == DT_TO_OUR_URL;
}

/* ---- outbox_send.c ---- */

/* Sends the messages of these flights, which are sorted by id. OK: each flight has its outcome, or is a webhook whose
 * receiver has not answered yet. Any other status: nothing was sent, and no flight has an outcome. *kafka: OK if Kafka
 * accepted all messages, otherwise the status of the failure; `why` has its error. */
dt_status dt_outbox_send(dt_outbox *outbox, struct dt_flight **flights, size_t n, int64_t now_ms, dt_status *kafka,
                         struct dt_error *why, struct dt_error *err);
