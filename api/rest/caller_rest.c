/*
 * Owns the answer to "what may I": the scopes and topics of the caller's token, as the check of the head found them.
 */
#include "base/text/json_write.h"
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
    req->status = 200;
    dt_json_begin_object(out, NULL);
    dt_json_begin_array(out, "scopes");
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (dt_caller_may(&req->caller, words[i].scope))
            dt_json_put_word(out, NULL, words[i].word);
    dt_json_end_array(out);
    if (bound) {
        dt_json_begin_array(out, "topics");
        for (size_t i = 0; i < bound->n; i++)
            dt_json_put_string(out, NULL, bound->prefixes[i]);
        dt_json_end_array(out);
    } else {
        dt_json_put_null(out, "topics");
    }
    dt_json_end_object(out);
    return DT_REPLY;
}
