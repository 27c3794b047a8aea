/*
 * Owns the answer to "what may I": the scopes and topics of the caller's token, as the check of the head found them.
 */
#include "base/json.h"
#include "handlers.h"

enum dt_next dt_handle_caller(struct dt_request *req)
{
    static const struct {
        enum dt_scope scope;
        const char *word;
    } words[] = {
        {DT_SCOPE_WRITE, "write"}, {DT_SCOPE_REPORT, "report"}, {DT_SCOPE_READ, "read"}, {DT_SCOPE_ADMIN, "admin"}};
    const struct dt_topic_bound *bound = dt_caller_bound(&req->caller);
    struct dt_strbuf *out = &req->out;
    const char *separator = "";
    req->status = 200;
    dt_strbuf_adds(out, "{\"scopes\":[");
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!dt_caller_may(&req->caller, words[i].scope))
            continue;
        dt_strbuf_addf(out, "%s\"%s\"", separator, words[i].word);
        separator = ",";
    }
    dt_strbuf_adds(out, bound ? "],\"topics\":[" : "],\"topics\":null");
    for (size_t i = 0; bound && i < bound->n; i++) {
        dt_strbuf_adds(out, i ? "," : "");
        dt_json_add_string(out, bound->prefixes[i]);
    }
    dt_strbuf_adds(out, bound ? "]}" : "}");
    return DT_REPLY;
}
