/* Creates tokens, for POST /v1/tokens and for a command of duetime-api; and the other commands about tokens. The text
 * of a token is shown once and stored nowhere. */
#pragma once

#include "request/auth.h"

#define DT_SCOPES_TEXT 64

struct dt_token_ask {
    struct dt_str name;
    struct dt_str scopes; /* "write,report"; refused if absent */
    struct dt_str topics; /* comma-separated prefixes of topic names; absent: all topics */
    struct dt_quota_limits quotas;
};

/* Checks a request for a token. Rewrites `scopes` as it is stored: each scope once, in a fixed order. INVALID: err has
 * the reason. */
dt_status dt_token_judge(const struct dt_token_ask *ask, char scopes[DT_SCOPES_TEXT], struct dt_error *err);
/* Creates a token, and returns its text. INVALID: err has the reason. EXISTS: another token has this name. */
dt_status dt_token_new(dt_store *store, const struct dt_token_ask *ask, char text[DT_TOKEN_TEXT_MAX],
                       struct dt_error *err);

/* Commands of duetime-api. Each returns the exit code of the process, and writes data to stdout and messages to
 * stderr. */
struct dt_config;
/* Options of a new token; except name, an option that was not given is NULL. */
struct dt_command_token {
    const char *name, *scopes, *topics, *quotas;
};
/* Creates a token and prints it; it is never shown again. */
int dt_command_new_token(const struct dt_config *config, const struct dt_command_token *token);
/* Prints name, scopes, topics and age of each token. */
int dt_command_list_tokens(const struct dt_config *config);
/* Removes a token. Every API refuses it within seconds. */
int dt_command_revoke_token(const struct dt_config *config, const char *name);
/* Makes the APIs require no token until one is created. Refused if a token exists. */
int dt_command_waive_tokens(const struct dt_config *config);
