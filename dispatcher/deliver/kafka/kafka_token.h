/*
 * Tokens for SASL/OAUTHBEARER. One may come from a file that somebody else renews (a sidecar, a projected volume):
 * client.sasl.oauthbearer.jwt_file. librdkafka asks for it again when four fifths of its time are over, and ten seconds
 * after it got none. Included by kafka_*.c only.
 */
#ifndef DT_DISPATCHER_KAFKA_TOKEN_H
#define DT_DISPATCHER_KAFKA_TOKEN_H

#include <librdkafka/rdkafka.h>

#include "base/properties.h"
#include "base/text/strbuf.h"

/* The property's name; librdkafka has none of this name. */
#define DT_KAFKA_TOKEN "sasl.oauthbearer.jwt"

struct dt_kafka_token {
    int64_t expires_ms;  /* since the epoch */
    char principal[256]; /* the subject; the broker goes by the token itself */
};

/* Reads what a token (a JWT) says of itself. MALFORMED: it is none, or says not when it expires. NOMEM. */
DT_MUST_CHECK dt_status dt_kafka_token_parse(struct dt_str jwt, struct dt_kafka_token *out, struct dt_error *err);

/* Has handles with this configuration ask for the token in the property's file. INVALID: it has no file. */
DT_MUST_CHECK dt_status dt_kafka_token_use(rd_kafka_conf_t *conf, const struct dt_property *property,
                                           struct dt_error *err);
/* INVALID: the token is none, or stands beside other settings that make one. */
DT_MUST_CHECK dt_status dt_kafka_token_check(struct dt_properties *list, struct dt_error *err);
/* Has a handle with this configuration, which goes nowhere, note in *seen why it cannot make tokens. (One in a file may
 * have expired, and be replaced later.) */
void dt_kafka_token_watch(rd_kafka_conf_t *conf, const struct dt_properties *list, struct dt_error *seen);
/* Has it make its first token. INVALID: it cannot. */
DT_MUST_CHECK dt_status dt_kafka_token_try(rd_kafka_t *rk, const struct dt_error *seen, struct dt_error *err);

/* Has librdkafka ask for tokens, where the handle has any, on a thread of its own: many handles are polled rarely. */
void dt_kafka_token_background(rd_kafka_t *rk);
/* Gives the handle the token that is in the file now, or tells it why there is none, which is logged. */
void dt_kafka_token_give(rd_kafka_t *rk, const char *file);

#endif
