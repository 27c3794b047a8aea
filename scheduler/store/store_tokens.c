/* Bearer tokens: names, hashes, scopes. Never sees a token itself. */
#include "store/store_internal.h"

dt_status dt_store_token_add(dt_store *store, const struct dt_token *token, struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    if (status)
        return status;
    struct dt_str hash = {(const char *)token->hash, sizeof token->hash};
    struct dt_str topics = token->topics.p ? token->topics : DT_STR_LIT("");
    status = dt_db_run(db,
                       "INSERT INTO api_tokens (name, hash, scopes, topics, created_at) "
                       "VALUES (?, ?, ?, ?, " DT_SQL_NOW_MS ")",
                       DT_PARAMS(DT_P_STR(token->name), DT_P_STR(hash), DT_P_STR(token->scopes), DT_P_STR(topics)),
                       NULL, err);
    return status == DT_EXISTS ? dt_fail(err, DT_EXISTS, "a token of this name exists") : status;
}

dt_status dt_store_token_revoke(dt_store *store, struct dt_str name, struct dt_error *err)
{
    dt_db *db;
    uint64_t gone = 0;
    dt_status status = dt_store_db(store, &db, err);
    if (!status)
        status = dt_db_run(db, "DELETE FROM api_tokens WHERE name = ?", DT_PARAMS(DT_P_STR(name)), &gone, err);
    return !status && gone == 0 ? dt_fail(err, DT_NOT_FOUND, "no token of this name") : status;
}

static dt_status read_token(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_token *t = row;
    (void)arg;
    struct dt_str hash = dt_db_bytes(db, 1);
    if (hash.n != sizeof t->hash)
        return DT_CORRUPT;
    memcpy(t->hash, hash.p, hash.n);
    t->name = dt_arena_copy(arena, dt_db_bytes(db, 0));
    t->scopes = dt_arena_copy(arena, dt_db_bytes(db, 2));
    t->topics = dt_arena_copy(arena, dt_db_bytes(db, 3));
    t->created_at_ms = dt_db_i64(db, 4);
    return t->name.p && t->scopes.p && t->topics.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_token_list(dt_store *store, struct dt_arena *arena, struct dt_token **out, size_t *n,
                              struct dt_error *err)
{
    dt_db *db;
    *out = NULL;
    *n = 0;
    dt_status status = dt_store_db(store, &db, err);
    if (!status)
        status = dt_db_query(db, "SELECT name, hash, scopes, topics, created_at FROM api_tokens ORDER BY name",
                             DT_NO_PARAMS, err);
    if (status)
        return status;
    void *tokens;
    status = dt_store_read_rows(db, arena, sizeof **out, read_token, NULL, &tokens, n, err);
    *out = tokens;
    return status;
}
