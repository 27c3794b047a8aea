/* Commands about tokens. Each command has one connection and no threads. */
#include "token_commands.h"

#include "base/service.h"
#include "base/text/timetext.h"
#include "features/tokens/tokens.h"
#include "mysql/db.h"
#include "topic/owners.h"

static int print_failure(const struct dt_error *err, dt_status status)
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

/* Reads "jobs_per_second=100,pending_jobs=5000". Quotas that the text does not name are DT_QUOTA_UNSET. */
static dt_status parse_quotas(struct dt_str text, struct dt_quota_limits *out, struct dt_error *err)
{
    *out = dt_quota_all(DT_QUOTA_UNSET);
    while (text.n > 0) {
        const struct dt_str element = dt_str_next_element(&text);
        const char *equals = memchr(element.p, '=', element.n);
        const size_t n = equals ? (size_t)(equals - element.p) : element.n;
        int quota = 0;
        while (quota < DT_QUOTAS && !dt_str_is((struct dt_str){element.p, n}, dt_quota_name((enum dt_quota)quota)))
            quota++;
        int64_t limit = 0; /* the text must consist of digits, at least one */
        bool fine = quota < DT_QUOTAS && equals && n + 1 < element.n;
        for (size_t i = n + 1; fine && i < element.n; i++) {
            fine = element.p[i] >= '0' && element.p[i] <= '9';
            limit = limit * 10 + (element.p[i] - '0');
            fine = fine && limit <= DT_QUOTA_MAX;
        }
        if (!fine)
            return dt_fail(err, DT_INVALID,
                           "\"%.*s\" is not a quota: it must be requests_per_second, jobs_per_second, "
                           "payload_bytes_per_second or pending_jobs, then = and a number",
                           (int)element.n, element.p);
        out->v[quota] = limit;
    }
    return DT_OK;
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
    DT_THEN(status, parse_quotas(dt_str(token->quotas), &ask.quotas, &err));
    DT_THEN(status, open_store(config, &store, &err));
    DT_THEN(status, dt_token_new(store, &ask, text, &err));
    dt_store_free(store);
    if (status == DT_EXISTS)
        (void)!dt_fail(&err, status, "a token named \"%s\" exists already", token->name);
    if (status != DT_OK)
        return print_failure(&err, status);
    fprintf(stderr, "token \"%s\" (%s; topics %s): keep it, it is not shown again\n", token->name, stored,
            token->topics ? token->topics : DT_TOPICS_ALL);
    printf("%s\n", text);
    if (dt_streams_flush() != 0)
        fprintf(stderr,
                "duetime-api: the token was created, but could not be shown: remove it with --revoke-token %s\n",
                token->name);
    return 0;
}

int dt_command_list_tokens(const struct dt_config *config)
{
    struct dt_error err = {0};
    struct dt_arena arena = {0};
    struct dt_token *tokens = NULL;
    size_t n = 0;
    dt_store *store;
    dt_status status = open_store(config, &store, &err);
    DT_THEN(status, dt_store_token_list(store, &arena, &tokens, &n, NULL, &err));
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        char created[25];
        dt_time_format(tokens[i].created_at_ms, created);
        printf("%.*s\t%.*s\t%.*s\t%s\n", (int)tokens[i].name.n, tokens[i].name.p, (int)tokens[i].scopes.n,
               tokens[i].scopes.p, (int)tokens[i].topics.n, tokens[i].topics.n ? tokens[i].topics.p : "", created);
    }
    dt_arena_clear(&arena);
    dt_store_free(store);
    return status == DT_OK ? 0 : print_failure(&err, status);
}

int dt_command_revoke_token(const struct dt_config *config, const char *name)
{
    struct dt_error err = {0};
    struct dt_arena arena = {0};
    struct dt_token *tokens;
    size_t left = 1;
    dt_store *store;
    dt_status status = open_store(config, &store, &err);
    DT_THEN(status, dt_store_token_revoke(store, dt_str(name), &err));
    if (status == DT_OK)
        dt_topic_owners_follow(store);
    /* A hint for an operator who revokes the last token and expects that APIs no longer require one. */
    if (status == DT_OK && dt_store_token_list(store, &arena, &tokens, &left, NULL, NULL) == DT_OK && left == 0)
        fprintf(stderr, "no token is left, and requests still need one: create one with --new-token, or end this with "
                        "--waive-tokens\n");
    dt_arena_clear(&arena);
    dt_store_free(store);
    if (status == DT_NOT_FOUND)
        (void)!dt_fail(&err, status, "there is no token named \"%s\"", name);
    return status == DT_OK ? 0 : print_failure(&err, status);
}

int dt_command_waive_tokens(const struct dt_config *config)
{
    struct dt_error err = {0};
    dt_store *store;
    dt_status status = open_store(config, &store, &err);
    DT_THEN(status, dt_store_tokens_waive(store, &err));
    dt_store_free(store);
    if (status == DT_EXISTS) {
        fprintf(stderr, "duetime-api: %s: revoke them first\n", err.text);
        return 1;
    }
    if (status != DT_OK)
        return print_failure(&err, status);
    fprintf(stderr, "requests on the loopback need no token until one is created\n");
    return 0;
}

/* ---- creating a token ---- */

/* Writes scopes in the form that MySQL stores: each scope once, in a fixed order, with commas. */
static void format_canonical_scopes(unsigned scopes, char out[DT_SCOPES_TEXT])
{
    out[0] = '\0';
    if (scopes & DT_SCOPE_ADMIN)
        scopes = DT_SCOPE_ADMIN;
    for (size_t i = 0; i < DT_SCOPE_WORDS; i++) {
        if (!(scopes & dt_scope_words[i].scope))
            continue;
        if (out[0])
            strcat(out, ",");
        strcat(out, dt_scope_words[i].word);
    }
}

dt_status dt_token_judge(const struct dt_token_ask *ask, char scopes[DT_SCOPES_TEXT], struct dt_error *err)
{
    unsigned bits;
    dt_status status = dt_token_name_check(ask->name, err);
    if (status == DT_OK && !ask->scopes.p)
        status = dt_fail(err, DT_INVALID, "--scopes is missing: write, report, read or admin, separated by commas");
    DT_THEN(status, dt_scopes_parse(ask->scopes, &bits, err));
    if (status == DT_OK)
        format_canonical_scopes(bits, scopes);
    struct dt_error why = {0};
    if (status != DT_OK || !ask->topics.p || dt_token_topics_check(ask->topics, &why) == DT_OK)
        return status;
    return dt_fail(err, DT_INVALID, "--topics: %s; leave it out for all topics", why.text);
}

dt_status dt_token_new(dt_store *store, const struct dt_token_ask *ask, char text[DT_TOKEN_TEXT_MAX],
                       struct dt_error *err)
{
    char scopes[DT_SCOPES_TEXT];
    struct dt_token token = {
        .name = ask->name, .topics = ask->topics.p ? ask->topics : dt_str(DT_TOPICS_ALL), .quotas = ask->quotas};
    dt_status status = dt_token_judge(ask, scopes, err);
    DT_THEN(status, dt_auth_make_token(text, token.hash, err));
    token.scopes = dt_str(scopes);
    DT_THEN(status, dt_store_token_add(store, &token, err));
    if (status == DT_OK)
        dt_topic_owners_follow(store);
    return status;
}
