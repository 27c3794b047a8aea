/*
 * Owns the answer to "what may I": the scopes and topics of the caller's token, as the check of the head found them.
 */
#include "base/json.h"
#include "handlers.h"

static void add_scopes(struct dt_strbuf *out, const struct dt_caller *caller)
{
    static const struct {
        enum dt_scope scope;
        const char *word;
    } words[] = {
        {DT_SCOPE_WRITE, "write"}, {DT_SCOPE_REPORT, "report"}, {DT_SCOPE_READ, "read"}, {DT_SCOPE_ADMIN, "admin"}};
    const char *separator = "";
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!dt_caller_may(caller, words[i].scope))
            continue;
        dt_strbuf_addf(out, "%s\"%s\"", separator, words[i].word);
        separator = ",";
    }
}

static void add_topics(struct dt_strbuf *out, const struct dt_topic_bound *bound)
{
    if (!bound) {
        dt_strbuf_adds(out, "null");
        return;
    }
    dt_strbuf_addc(out, '[');
    for (size_t i = 0; i < bound->n; i++) {
        dt_strbuf_adds(out, i ? "," : "");
        dt_json_add_string(out, bound->prefixes[i]);
    }
    dt_strbuf_addc(out, ']');
}

enum dt_next dt_handle_caller(struct dt_request *req)
{
    req->status = 200;
    dt_strbuf_adds(&req->out, "{\"scopes\":[");
    add_scopes(&req->out, &req->caller);
    dt_strbuf_adds(&req->out, "],\"topics\":");
    add_topics(&req->out, dt_caller_bound(&req->caller));
    dt_strbuf_addc(&req->out, '}');
    return DT_REPLY;
}
