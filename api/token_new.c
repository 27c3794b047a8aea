/* Making a token: see token_new.h. */
#include "token_new.h"
#include "features/tokens/tokens.h"
#include "topic/topic_owners.h"

#include <string.h>

/* The scopes as they are stored: each once, in one order, with commas. */
static void canonical_scopes(unsigned scopes, char out[DT_SCOPES_TEXT])
{
    static const struct {
        unsigned bit;
        const char *word;
    } words[] = {
        {DT_SCOPE_WRITE, "write"}, {DT_SCOPE_REPORT, "report"}, {DT_SCOPE_READ, "read"}, {DT_SCOPE_ADMIN, "admin"}};
    out[0] = '\0';
    if (scopes & DT_SCOPE_ADMIN)
        scopes = DT_SCOPE_ADMIN;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!(scopes & words[i].bit))
            continue;
        if (out[0])
            strcat(out, ",");
        strcat(out, words[i].word);
    }
}

dt_status dt_token_quotas_parse(struct dt_str text, struct dt_quota_limits *out, struct dt_error *err)
{
    *out = dt_quota_all(DT_QUOTA_UNSET);
    while (text.n > 0) {
        const struct dt_str element = dt_str_next_element(&text);
        const char *equals = memchr(element.p, '=', element.n);
        const size_t n = equals ? (size_t)(equals - element.p) : element.n;
        int quota = 0;
        while (quota < DT_QUOTAS && !dt_str_is((struct dt_str){element.p, n}, dt_quota_name((enum dt_quota)quota)))
            quota++;
        int64_t limit = 0; /* of digits alone, one at least */
        bool fine = quota < DT_QUOTAS && equals && n + 1 < element.n;
        for (size_t i = n + 1; fine && i < element.n; i++) {
            fine = element.p[i] >= '0' && element.p[i] <= '9';
            limit = limit * 10 + (element.p[i] - '0');
            fine = fine && limit <= DT_QUOTA_MAX;
        }
        if (!fine)
            return dt_fail(err, DT_INVALID,
                           "\"%.*s\" is no quota: requests_per_second, jobs_per_second, payload_bytes_per_second or "
                           "pending_jobs, = and a number",
                           (int)element.n, element.p);
        out->v[quota] = limit;
    }
    return DT_OK;
}

dt_status dt_token_judge(const struct dt_token_ask *ask, char scopes[DT_SCOPES_TEXT], struct dt_error *err)
{
    unsigned bits;
    dt_status status = dt_token_name_check(ask->name, err);
    if (status == DT_OK && !ask->scopes.p)
        status = dt_fail(err, DT_INVALID, "--scopes is missing: write, report, read or admin, separated by commas");
    if (status == DT_OK)
        status = dt_scopes_parse(ask->scopes, &bits, err);
    if (status == DT_OK)
        canonical_scopes(bits, scopes);
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
    if (status == DT_OK)
        status = dt_auth_make_token(text, token.hash, err);
    token.scopes = dt_str(scopes);
    if (status == DT_OK)
        status = dt_store_token_add(store, &token, err);
    if (status == DT_OK)
        dt_topic_owners_follow(store);
    return status;
}
