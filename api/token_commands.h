/*
 * Making a token: one way, for the command of the server and for POST /v1/tokens. The token's text is made, told once,
 * and kept nowhere.
 */
#ifndef DT_API_TOKEN_COMMANDS_H
#define DT_API_TOKEN_COMMANDS_H

#include "request/auth.h"

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

/*
 * The commands of duetime-api about tokens (token_commands.c). Each returns the exit code of the process, talks to
 * people on stderr and writes data to stdout.
 */
struct dt_config;
/* A token that is to be made, as the options say it; all but the name may be NULL. */
struct dt_command_token {
    const char *name, *scopes, *topics, *quotas;
};
/* Prints the new token, once. */
int dt_command_new_token(const struct dt_config *config, const struct dt_command_token *token);
/* Prints name, scopes, topics and age of every token. */
int dt_command_list_tokens(const struct dt_config *config);
/* Removes a token; every API follows within seconds. */
int dt_command_revoke_token(const struct dt_config *config, const char *name);
/* Makes the API ask for no token from now on, until one is made; refused while there is one. */
int dt_command_waive_tokens(const struct dt_config *config);

#endif
