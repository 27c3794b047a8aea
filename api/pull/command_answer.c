/* Answers of pops by command: see command_answer.h. */
#include "command_answer.h"

#include "base/json.h"
#include "base/text/base64.h"

const struct dt_command_job *dt_command_name_jobs(dt_store *store, struct dt_arena *arena,
                                                  const struct dt_popped *popped)
{
    struct dt_command_job *names = dt_arena_alloc(arena, (popped->n + 1) * sizeof(*names));
    size_t n = 0;
    for (size_t i = 0; names && i < popped->n; i++) {
        names[i] = (struct dt_command_job){.id = popped->jobs[i].key.p ? popped->jobs[i].key : DT_STR_LIT("")};
        n += popped->jobs[i].key.p != NULL;
    }
    if (n == 0 || !names || dt_store_command_jobs(store, names, popped->n, arena, NULL) != DT_OK)
        return NULL;
    return names;
}

static void add_job(struct dt_strbuf *out, const struct dt_job *job, const struct dt_command_job *name)
{
    dt_strbuf_adds(out, "\"id\":");
    if (name && name->job_id == job->id) {
        dt_json_add_string(out, name->id);
    } else {
        dt_strbuf_addc(out, '"');
        dt_strbuf_add_i64(out, job->id);
        dt_strbuf_addc(out, '"');
    }
    if (dt_utf8_valid(job->payload)) {
        dt_strbuf_adds(out, ",\"value\":");
        dt_json_add_string(out, job->payload);
    } else {
        dt_strbuf_adds(out, ",\"value_base64\":\"");
        dt_base64_add(out, job->payload);
        dt_strbuf_addc(out, '"');
    }
}

void dt_command_add_popped(struct dt_strbuf *out, enum dt_pop_form form, const struct dt_job *jobs, size_t n,
                           const struct dt_command_job *names)
{
    const bool list = form == DT_POP_FORM_COMMAND_LIST;
    dt_strbuf_adds(out, list ? "{\"success\":true,\"jobs\":[" : "{\"success\":true");
    for (size_t i = 0; i < n; i++) {
        dt_strbuf_adds(out, !list ? "," : i ? ",{" : "{");
        add_job(out, &jobs[i], names ? &names[i] : NULL);
        dt_strbuf_adds(out, list ? "}" : "");
    }
    dt_strbuf_adds(out, list ? "]}" : "}");
}

const char *dt_command_refusal(enum dt_pop_topic why)
{
    return why == DT_POP_TOPIC_UNKNOWN ? "there is no such topic"
                                       : "the topic's delivery is another one: nothing is popped from it";
}

void dt_command_add_refusal(struct dt_strbuf *out, enum dt_pop_topic why)
{
    dt_strbuf_adds(out, "{\"success\":false,\"error\":");
    dt_json_add_string(out, dt_str(dt_command_refusal(why)));
    dt_strbuf_addc(out, '}');
}
