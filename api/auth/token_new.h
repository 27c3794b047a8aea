/*
 * Making a token: one way, for the command of the server and for POST /v1/tokens. The token's text is made, told once,
 * and kept nowhere.
 */
#ifndef DT_API_TOKEN_NEW_H
#define DT_API_TOKEN_NEW_H

#include "auth/auth.h"

#define DT_SCOPES_TEXT 64

struct dt_token_ask {
    struct dt_str name;
    struct dt_str scopes; /* "write,report"; absent is refused */
    struct dt_str topics; /* prefixes, separated by commas; absent: all topics */
    struct dt_quota_limits quotas;
};

/* Reads "jobs_per_second=100,pending_jobs=5000"; what is not named is DT_QUOTA_UNSET. INVALID: err says what is
 * wrong. */
DT_MUST_CHECK dt_status dt_token_quotas_parse(struct dt_str text, struct dt_quota_limits *out, struct dt_error *err);
/* Judges what is asked for. scopes: as they are stored, each once, in one order. INVALID: err says what is wrong. */
DT_MUST_CHECK dt_status dt_token_judge(const struct dt_token_ask *ask, char scopes[DT_SCOPES_TEXT],
                                       struct dt_error *err);
/* Makes the token. INVALID as above; EXISTS: one has this name. */
DT_MUST_CHECK dt_status dt_token_new(dt_store *store, const struct dt_token_ask *ask, char text[DT_TOKEN_TEXT_MAX],
                                     struct dt_error *err);

#endif
