/* Tokens of callers: their scopes, topics and quotas. Also the rule that says whether requests need a token while there
 * are no tokens. */
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
/* The values of installation.token_rule, which applies while there are no tokens. ASKED: requests need a token.
 * NEVER_MADE, WAIVED: they need none. Any other value in the row counts as ASKED. */
enum dt_token_rule { DT_TOKENS_ASKED = 1, DT_TOKENS_NEVER_MADE, DT_TOKENS_WAIVED };
/* Adds a token, and sets the rule to ASKED, even if all tokens are revoked later. EXISTS: a token has this name. */
dt_status dt_store_token_add(dt_store *store, const struct dt_token *token, struct dt_error *err);
/* Changes the quotas of a token; a quota that is DT_QUOTA_KEPT does not change. *out: name, scopes, topics and quotas
 * of the token after the change. NOT_FOUND: there is no such token. */
dt_status dt_store_token_set(dt_store *store, struct dt_str name, const struct dt_quota_limits *quotas,
                             struct dt_arena *arena, struct dt_token *out, struct dt_error *err);
/* Deletes a token. NOT_FOUND: there is no such token. */
dt_status dt_store_token_revoke(dt_store *store, struct dt_str name, struct dt_error *err);
/* Lists all tokens. If a manual edit made the hash in a row invalid, no request can match that token. *rule (rule may
 * be NULL): the rule. *out is NULL and *n is 0 unless OK. */
dt_status dt_store_token_list(dt_store *store, struct dt_arena *arena, struct dt_token **out, size_t *n,
                              enum dt_token_rule *rule, struct dt_error *err);
dt_status dt_store_tokens_ask(dt_store *store, struct dt_error *err);
/* Sets the rule to WAIVED: requests need no token until one is added. EXISTS: there are tokens already; nothing was
 * changed. */
dt_status dt_store_tokens_waive(dt_store *store, struct dt_error *err);
