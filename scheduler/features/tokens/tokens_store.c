/*
 * Bearer tokens: their names, hashes and scopes, but not the tokens themselves; and the rule that applies while there
 * are no tokens.
 *
 * Invariant: the transaction that adds a token also sets the rule to ASKED, under the lock of the installation's row,
 * which dt_store_tokens_waive takes, too. So after all tokens were revoked, deleted by a manual edit, or lost with
 * their table, requests are still refused.
 */
#include "events/events.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "tokens.h"
#include "topic/counts.h"

static enum dt_token_rule read_token_rule(const dt_db *db, unsigned column)
{
    int64_t rule = dt_db_i64(db, column);
    return rule == DT_TOKENS_NEVER_MADE || rule == DT_TOKENS_WAIVED ? (enum dt_token_rule)rule : DT_TOKENS_ASKED;
}

/* Locks the installation's row and writes the rule. */
static dt_status set_token_rule(dt_db *db, enum dt_token_rule rule, struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_lock_token_rule, DT_NO_PARAMS, err);
    if (status != DT_OK)
        return status;
    bool found = dt_db_next(db), same = found && read_token_rule(db, 0) == rule;
    status = dt_db_end(db, err);
    if (status != DT_OK || same)
        return status;
    if (!found)
        return dt_fail(err, DT_SCHEMA, "the installation row is missing");
    return dt_db_run(db, dt_sql_set_token_rule,
                     DT_PARAMS(DT_P_STR(rule == DT_TOKENS_WAIVED ? DT_STR_LIT("waived") : DT_STR_LIT("asked"))), NULL,
                     err);
}

static struct dt_param quota_param(int64_t limit)
{
    return limit == DT_QUOTA_UNSET ? DT_P_NULL : DT_P_INT(limit);
}

struct change {
    const struct dt_token *token; /* the token to add or to delete; to delete it, only its name is set */
    struct dt_str actor;
};

static void note_changed_quotas(struct dt_event_diff *d, const struct dt_quota_limits *was,
                                const struct dt_quota_limits *is)
{
    for (int i = 0; i < DT_QUOTAS; i++)
        if (was->v[i] != is->v[i] && (was->v[i] > 0 || is->v[i] > 0))
            dt_event_diff_number(d, dt_quota_name((enum dt_quota)i), was->v[i] > 0 ? was->v[i] : 0,
                                 is->v[i] > 0 ? is->v[i] : 0);
}

static dt_status note_token_event(const struct change *c, dt_db *db, const char *action, int64_t now_ms,
                                  struct dt_error *err)
{
    struct dt_job_event event = {
        .at_ms = now_ms, .actor = c->actor, .action = dt_str(action), .subject = c->token->name};
    struct dt_event_diff d;
    if (!c->actor.p)
        return DT_OK;
    if (!c->token->scopes.p)
        return dt_events_write(db, &event, 1, err);
    dt_event_diff_begin(&d);
    dt_event_diff_text(&d, "scopes", DT_STR_NONE, c->token->scopes);
    dt_event_diff_text(&d, "topics", DT_STR_NONE, c->token->topics);
    note_changed_quotas(&d, &(struct dt_quota_limits){{0}}, &c->token->quotas);
    return dt_event_diff_write(&d, db, &event, err);
}

static dt_status add_token(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct change *c = arg;
    const struct dt_token *token = c->token;
    const struct dt_str hash = {(const char *)token->hash, sizeof(token->hash)};
    const int64_t *quotas = token->quotas.v;
    dt_status status = set_token_rule(db, DT_TOKENS_ASKED, err);
    DT_THEN(status, dt_db_run(db, dt_sql_insert_token,
                              DT_PARAMS(DT_P_STR(token->name), DT_P_STR(hash), DT_P_STR(token->scopes),
                                        DT_P_STR(token->topics.p ? token->topics : DT_STR_LIT("")), DT_P_INT(now_ms),
                                        quota_param(quotas[0]), quota_param(quotas[1]), quota_param(quotas[2]),
                                        quota_param(quotas[3])),
                              NULL, err));
    return status == DT_OK ? note_token_event(c, db, "token_create", now_ms, err) : status;
}

dt_status dt_store_token_add(dt_store *store, const struct dt_token *token, struct dt_error *err)
{
    dt_status status =
        dt_store_commit_work(store, NULL, add_token, &(struct change){token, dt_store_actor(store)}, err);
    return status == DT_EXISTS ? dt_fail(err, DT_EXISTS, "a token of this name exists") : status;
}

static dt_status revoke_token(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct change *c = arg;
    uint64_t gone = 0;
    dt_status status = dt_db_run(db, dt_sql_delete_token, DT_PARAMS(DT_P_STR(c->token->name)), &gone, err);
    if (status == DT_OK && gone == 0)
        status = dt_fail(err, DT_NOT_FOUND, "no token of this name");
    return status == DT_OK ? note_token_event(c, db, "token_revoke", now_ms, err) : status;
}

dt_status dt_store_token_revoke(dt_store *store, struct dt_str name, struct dt_error *err)
{
    const struct dt_token token = {.name = name};
    return dt_store_commit_work(store, NULL, revoke_token, &(struct change){&token, dt_store_actor(store)}, err);
}

static dt_status require_tokens(void *, dt_db *db, int64_t, struct dt_error *err)
{
    return set_token_rule(db, DT_TOKENS_ASKED, err);
}

dt_status dt_store_tokens_ask(dt_store *store, struct dt_error *err)
{
    return dt_store_commit_work(store, NULL, require_tokens, NULL, err);
}

static dt_status waive_tokens(void *, dt_db *db, int64_t, struct dt_error *err)
{
    int64_t n = 0;
    dt_status status =
        set_token_rule(db, DT_TOKENS_WAIVED, err); /* this locks the row first, so a request that adds a token
                                                             * waits */
    DT_THEN(status, dt_db_read_number(db, dt_sql_count_tokens, DT_NO_PARAMS, NULL, &n, err));
    return status == DT_OK && n ? dt_fail(err, DT_EXISTS, "there are %lld tokens", (long long)n) : status;
}

dt_status dt_store_tokens_waive(dt_store *store, struct dt_error *err)
{
    return dt_store_commit_work(store, NULL, waive_tokens, NULL, err);
}

/* Copies a text. NULL, after a manual edit, becomes empty: no scope, no topic. */
static struct dt_str copy_token_text(struct dt_arena *arena, const dt_db *db, unsigned column)
{
    struct dt_str text = dt_db_bytes(db, column);
    return dt_arena_copy(arena, text.p ? text : DT_STR_LIT(""));
}

static struct dt_quota_limits read_quotas(const dt_db *db, unsigned column)
{
    struct dt_quota_limits quotas;
    for (unsigned i = 0; i < DT_QUOTAS; i++)
        quotas.v[i] = dt_db_is_null(db, column + i) ? DT_QUOTA_UNSET : dt_db_i64(db, column + i);
    return quotas;
}

static dt_status read_token_row(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_token *t = row;
    struct dt_str hash = dt_db_bytes(db, 1);
    bool fits = hash.n == sizeof(t->hash);
    *(enum dt_token_rule *)arg = read_token_rule(db, 9);
    if (dt_db_is_null(db, 0)) {
        *t = (struct dt_token){.name = {0}};
        return DT_OK;
    }
    *t = (struct dt_token){
        .name = copy_token_text(arena, db, 0),
        .scopes = fits ? copy_token_text(arena, db, 2) : DT_STR_LIT(""),
        .topics = fits ? copy_token_text(arena, db, 3) : DT_STR_LIT(""),
        .created_at_ms = dt_db_i64(db, 4),
        .quotas = read_quotas(db, 5),
    };
    if (fits)
        memcpy(t->hash, hash.p, hash.n);
    return t->name.p && t->scopes.p && t->topics.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_token_list(dt_store *store, struct dt_arena *arena, struct dt_token **out, size_t *n,
                              enum dt_token_rule *rule, struct dt_error *err)
{
    enum dt_token_rule found = DT_TOKENS_ASKED;
    struct dt_rows tokens = {.row_bytes = sizeof(**out), .read = read_token_row, .arg = &found};
    *out = NULL;
    *n = 0;
    dt_status status = dt_store_read(store, dt_sql_select_tokens, DT_NO_PARAMS, arena, &tokens, err);
    if (status != DT_OK)
        return status;
    if (tokens.n == 0)
        return dt_fail(err, DT_SCHEMA, "the installation row is missing");
    if (rule)
        *rule = found;
    *out = tokens.v;
    *n = ((struct dt_token *)tokens.v)->name.p ? tokens.n : 0;
    return DT_OK;
}

struct quota_change {
    struct dt_str name, actor;
    const struct dt_quota_limits *wish;
    struct dt_arena *arena;
    struct dt_token *token;
};

static dt_status change_quotas(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct quota_change *c = arg;
    struct dt_token *token = c->token;
    struct dt_job_event event = {
        .at_ms = now_ms, .actor = c->actor, .action = DT_STR_LIT("token_change"), .subject = c->name};
    struct dt_event_diff d;
    dt_status status = dt_db_query(db, dt_sql_lock_token, DT_PARAMS(DT_P_STR(c->name)), err);
    if (status != DT_OK)
        return status;
    const bool found = dt_db_next(db);
    if (found)
        *token = (struct dt_token){.name = c->name,
                                   .scopes = copy_token_text(c->arena, db, 0),
                                   .topics = copy_token_text(c->arena, db, 1),
                                   .quotas = read_quotas(db, 2)};
    status = dt_db_end(db, err);
    if (status != DT_OK || !found)
        return status != DT_OK ? status : dt_fail(err, DT_NOT_FOUND, "no token of this name");
    if (!token->scopes.p || !token->topics.p)
        return DT_NOMEM;
    const struct dt_quota_limits was = token->quotas;
    int64_t *is = token->quotas.v;
    for (int i = 0; i < DT_QUOTAS; i++)
        is[i] = c->wish->v[i] == DT_QUOTA_KEPT ? is[i] : c->wish->v[i];
    status = dt_db_run(
        db, dt_sql_set_token_quotas,
        DT_PARAMS(quota_param(is[0]), quota_param(is[1]), quota_param(is[2]), quota_param(is[3]), DT_P_STR(c->name)),
        NULL, err);
    if (status != DT_OK || !c->actor.p)
        return status;
    dt_event_diff_begin(&d);
    note_changed_quotas(&d, &was, &token->quotas);
    return dt_event_diff_write(&d, db, &event, err);
}

dt_status dt_store_token_set(dt_store *store, struct dt_str name, const struct dt_quota_limits *quotas,
                             struct dt_arena *arena, struct dt_token *out, struct dt_error *err)
{
    return dt_store_commit_work(store, NULL, change_quotas,
                                &(struct quota_change){name, dt_store_actor(store), quotas, arena, out}, err);
}
