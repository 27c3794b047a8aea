/*
 * The inside of the outbox's sender, shared by the files of this folder alone.
 *
 *   outbox.c         rounds: which messages are due, which are sent, what became of them
 *   outbox_send.c    sending the messages that were chosen, to Kafka and to webhooks
 */
#ifndef DT_OUTBOX_PARTS_H
#define DT_OUTBOX_PARTS_H

#include <pthread.h>

#include "base/fair.h"
#include "base/hash.h"
#include "base/http/http_client.h"
#include "base/metrics.h"
#include "base/text/json.h"
#include "outbox.h"

#define DT_OUTBOX_PLACES 256 /* webhooks under way, of topics and of the installation */

enum dt_outbox_way { DT_OUTBOX_BY_TOPICS_URL, DT_OUTBOX_BY_OUR_URL, DT_OUTBOX_BY_KAFKA };
enum dt_outbox_outcome {
    DT_OUTBOX_GONE,  /* it arrived, or is wanted nowhere any more: it is deleted */
    DT_OUTBOX_FAILED /* it is sent again */
};

/* A message that is being sent. */
struct dt_flight {
    dt_outbox *outbox;
    struct dt_message_row row; /* its texts are the round's: a webhook that is under way has none */
    enum dt_outbox_way way;
    int64_t host; /* of a topic's webhook: whose place it has beside its owner's */
    enum dt_outbox_outcome outcome;
    int64_t arrived, refused; /* messages that arrived, and that Kafka does not take: a row may have several */
    char topic[250], why[200];
    struct dt_flight *next;
};

struct dt_outbox_kind {
    const char *chore, *waits;
    size_t listed;                   /* messages that may be sent, in one round; … */
    size_t together;                 /* … of these, to Kafka: a row of answers has up to a million bytes */
    int timeout_ms;                  /* of Kafka: a retry needs a new connection, which a busy broker must finish */
    int64_t look_us, failed_us;      /* pauses between rounds: if nothing happens, and after Kafka failed */
    int64_t again_ms, again_most_ms; /* pauses of a message that did not arrive: the first, and the longest */
};

struct dt_outbox {
    struct dt_outbox_env env;
    const struct dt_outbox_kind *kind;
    struct dt_chore chore;
    dt_store *store; /* of the tick */
    dt_json *json;
    struct dt_arena round; /* rows */
    struct dt_arena texts; /* of the messages that are sent together */
    struct dt_turns turns; /* of dead letters: the shards'; else the owners' */
    int64_t after;         /* the last sender that had its turn */
    int64_t silent_us;     /* mono: the last round in which Kafka answered about no topic; at first, the start */
    bool kafka_failed;
    dt_http_client *client;                            /* made for the first webhook */
    struct dt_shares places[DT_OUTBOX_BY_OUR_URL + 1]; /* of webhooks, by owner */
    struct dt_shares at_host;                          /* of topics' webhooks, by owner and host */
    pthread_mutex_t lock;
    struct dt_flight *ended; /* under the lock: their outcomes are not recorded */
};

/* ---- outbox_send.c ---- */

/* Sends flights, whose ids ascend: each ends, or is a webhook that is under way. Not OK: nothing was sent, and no
 * flight has ended. *kafka: OK, or why Kafka did not take all; `why` says more. */
DT_MUST_CHECK dt_status dt_outbox_send(dt_outbox *outbox, struct dt_flight **flights, size_t n, int64_t now_ms,
                                       dt_status *kafka, struct dt_error *why, struct dt_error *err);

#endif
