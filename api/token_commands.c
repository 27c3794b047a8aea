/* The commands of duetime-api about tokens: see token_new.h. One connection each, no threads. */
#include <stdio.h>
#include <string.h>

#include "base/streams.h"
#include "base/text/timetext.h"
#include "features/tokens/tokens.h"
#include "mysql/db.h"
#include "token_new.h"
#include "topic/topic_owners.h"

static int failed(const struct dt_error *err, dt_status status)
{
    fprintf(stderr, "duetime-api: %s\n", err->text[0] ? err->text : dt_status_text(status));
    return 1;
}

static dt_status open_store(const struct dt_config *config, dt_store **store, struct dt_error *err)
{
    *store = NULL;
    dt_status status = dt_db_library_init();
    if (status != DT_OK)
        return dt_fail(err, status, "the MySQL library cannot start");
    status = dt_store_new(config, NULL, store);
    if (status == DT_OK)
        dt_store_act_as(*store, DT_STR_LIT("duetime-api"));
    return status;
}

int dt_command_new_token(const struct dt_config *config, const struct dt_command_token *token)
{
    struct dt_error err = {0};
    struct dt_token_ask ask = {
        .name = dt_str(token->name), .scopes = dt_str(token->scopes), .topics = dt_str(token->topics)};
    char text[DT_TOKEN_TEXT_MAX];
    char stored[DT_SCOPES_TEXT];
    dt_store *store = NULL;
    dt_status status = dt_token_judge(&ask, stored, &err);
    if (status == DT_OK)
        status = dt_token_quotas_parse(dt_str(token->quotas), &ask.quotas, &err);
    if (status == DT_OK)
        status = open_store(config, &store, &err);
    if (status == DT_OK)
        status = dt_token_new(store, &ask, text, &err);
    dt_store_free(store);
    if (status == DT_EXISTS) {
        fprintf(stderr, "duetime-api: there is a token named \"%s\" already\n", token->name);
        return 1;
    }
    if (status != DT_OK)
        return failed(&err, status);
    fprintf(stderr, "token \"%s\" (%s; topics %s): keep it, it is not shown again\n", token->name, stored,
            token->topics ? token->topics : DT_TOPICS_ALL);
    printf("%s\n", text);
    if (dt_streams_flush() != 0)
        fprintf(stderr, "duetime-api: the token cannot be shown: --revoke-token %s removes it\n", token->name);
    return 0;
}

int dt_command_list_tokens(const struct dt_config *config)
{
    struct dt_error err = {0};
    struct dt_arena arena;
    struct dt_token *tokens = NULL;
    size_t n = 0;
    dt_store *store;
    dt_arena_init(&arena);
    dt_status status = open_store(config, &store, &err);
    if (status == DT_OK)
        status = dt_store_token_list(store, &arena, &tokens, &n, NULL, &err);
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        char created[25];
        dt_time_format(tokens[i].created_at_ms, created);
        printf("%.*s\t%.*s\t%.*s\t%s\n", (int)tokens[i].name.n, tokens[i].name.p, (int)tokens[i].scopes.n,
               tokens[i].scopes.p, (int)tokens[i].topics.n, tokens[i].topics.n ? tokens[i].topics.p : "", created);
    }
    dt_arena_clear(&arena);
    dt_store_free(store);
    return status == DT_OK ? 0 : failed(&err, status);
}

int dt_command_revoke_token(const struct dt_config *config, const char *name)
{
    struct dt_error err = {0};
    struct dt_arena arena;
    struct dt_token *tokens;
    size_t left = 1;
    dt_store *store;
    dt_arena_init(&arena);
    dt_status status = open_store(config, &store, &err);
    if (status == DT_OK)
        status = dt_store_token_revoke(store, dt_str(name), &err);
    if (status == DT_OK)
        dt_topic_owners_follow(store);
    /* Somebody who revokes the last token may think that nobody is asked for one again. */
    if (status == DT_OK && dt_store_token_list(store, &arena, &tokens, &left, NULL, NULL) == DT_OK && left == 0)
        fprintf(stderr, "no token is left, and a token is still asked for: --new-token makes one, --waive-tokens ends "
                        "the asking\n");
    dt_arena_clear(&arena);
    dt_store_free(store);
    if (status == DT_NOT_FOUND) {
        fprintf(stderr, "duetime-api: there is no token named \"%s\"\n", name);
        return 1;
    }
    return status == DT_OK ? 0 : failed(&err, status);
}

int dt_command_waive_tokens(const struct dt_config *config)
{
    struct dt_error err = {0};
    dt_store *store;
    dt_status status = open_store(config, &store, &err);
    if (status == DT_OK)
        status = dt_store_tokens_waive(store, &err);
    dt_store_free(store);
    if (status == DT_EXISTS) {
        fprintf(stderr, "duetime-api: %s: revoke them first\n", err.text);
        return 1;
    }
    if (status != DT_OK)
        return failed(&err, status);
    fprintf(stderr, "no token is asked for on the loopback, until one is made\n");
    return 0;
}
