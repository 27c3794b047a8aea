/* Tokens of callers: their scopes, topics and quotas, and the rule for requests that applies while there is no
 * token. */
#pragma once

#include "features/quotas/quotas.h"
#include "store/store.h"

#define DT_TOPICS_ALL "*"
struct dt_token {
    struct dt_str name;
    unsigned char hash[32];
    struct dt_str scopes, topics; /* topics: DT_TOPICS_ALL, or prefixes separated by commas; empty = no topic */
    int64_t created_at_ms;
    struct dt_quota_limits quotas; /* DT_QUOTA_UNSET: the configuration's value applies */
};
/* installation.token_rule: applies while there is no token. Any other value in the row counts as ASKED. */
enum dt_token_rule { DT_TOKENS_ASKED = 1, DT_TOKENS_NEVER_MADE, DT_TOKENS_WAIVED };
/* Adds a token. The rule is then ASKED, even after the token is revoked. EXISTS: a token has this name. */
DT_MUST_CHECK dt_status dt_store_token_add(dt_store *store, const struct dt_token *token, struct dt_error *err);
/* Changes a token's quotas, except those that are DT_QUOTA_KEPT. *out: the token's name, scopes, topics and quotas
 * after the change. NOT_FOUND: there is no such token. */
DT_MUST_CHECK dt_status dt_store_token_set(dt_store *store, struct dt_str name, const struct dt_quota_limits *quotas,
                                           struct dt_arena *arena, struct dt_token *out, struct dt_error *err);
/* Deletes a token. NOT_FOUND: there is no such token. */
DT_MUST_CHECK dt_status dt_store_token_revoke(dt_store *store, struct dt_str name, struct dt_error *err);
/* Lists all tokens. If a manual edit made a row's hash invalid, the row becomes a token that no request can match.
 * *rule may be NULL. *out is NULL and *n is 0 unless OK. */
DT_MUST_CHECK dt_status dt_store_token_list(dt_store *store, struct dt_arena *arena, struct dt_token **out, size_t *n,
                                            enum dt_token_rule *rule, struct dt_error *err);
DT_MUST_CHECK dt_status dt_store_tokens_ask(dt_store *store, struct dt_error *err);
/* Allows requests without a token until one is added (rule WAIVED). EXISTS: there are tokens already; nothing was
 * changed. */
DT_MUST_CHECK dt_status dt_store_tokens_waive(dt_store *store, struct dt_error *err);
