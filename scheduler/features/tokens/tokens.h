/*
 * Tokens of callers: their scopes, topics and quotas, and the rule that holds while there is none.
 */
#ifndef DT_TOKENS_TOKENS_H
#define DT_TOKENS_TOKENS_H

#include "features/quotas/quotas.h"
#include "store/store.h"

#define DT_TOPICS_ALL "*"
struct dt_token {
    struct dt_str name;
    unsigned char hash[32];
    struct dt_str scopes, topics; /* topics: DT_TOPICS_ALL, or prefixes separated by commas; empty = no topic */
    int64_t created_at_ms;
    struct dt_quota_limits quotas; /* DT_QUOTA_UNSET: the configuration's */
};
/* installation.token_rule: what holds while there is no token. Whatever cannot be read as one of these is ASKED. */
enum dt_token_rule { DT_TOKENS_ASKED = 1, DT_TOKENS_NEVER_MADE, DT_TOKENS_WAIVED };
/* Adds a token. The rule is ASKED from then on, whatever becomes of the token. EXISTS: a token has this name. */
DT_MUST_CHECK dt_status dt_store_token_add(dt_store *store, const struct dt_token *token, struct dt_error *err);
/* Changes a token's quotas, all but those that are DT_QUOTA_KEPT, and gives it as it is then: name, scopes, topics,
 * quotas. NOT_FOUND: none has this name. */
DT_MUST_CHECK dt_status dt_store_token_set(dt_store *store, struct dt_str name, const struct dt_quota_limits *quotas,
                                           struct dt_arena *arena, struct dt_token *out, struct dt_error *err);
/* Removes a token. NOT_FOUND: none has this name. */
DT_MUST_CHECK dt_status dt_store_token_revoke(dt_store *store, struct dt_str name, struct dt_error *err);
/* Lists all tokens. A row whose hash is none (a manual edit) comes as a token that nobody can present. *rule (may be
 * NULL): what holds while there is no token. *out is NULL and *n is 0 unless OK. */
DT_MUST_CHECK dt_status dt_store_token_list(dt_store *store, struct dt_arena *arena, struct dt_token **out, size_t *n,
                                            enum dt_token_rule *rule, struct dt_error *err);
/* Makes the rule ASKED. */
DT_MUST_CHECK dt_status dt_store_tokens_ask(dt_store *store, struct dt_error *err);
/* Makes the rule WAIVED, until a token is made. EXISTS: there are tokens, and nothing changes. */
DT_MUST_CHECK dt_status dt_store_tokens_waive(dt_store *store, struct dt_error *err);

#endif
