/* Answers of pops by command: see command_answer.h. */
#include "command_answer.h"

#include "base/text/json.h"
#include "base/text/json_write.h"
#include "job/change/jobs.h"

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

static void put_job(struct dt_strbuf *out, const struct dt_job *job, const struct dt_command_job *name)
{
    if (name && name->job_id == job->id)
        dt_json_put_string(out, "id", name->id);
    else
        dt_json_put_id(out, "id", job->id);
    if (dt_utf8_valid(job->payload))
        dt_json_put_string(out, "value", job->payload.p ? job->payload : DT_STR_LIT(""));
    else
        dt_json_put_base64(out, "value_base64", job->payload);
}

void dt_command_add_popped(struct dt_strbuf *out, enum dt_pop_form form, const struct dt_job *jobs, size_t n,
                           const struct dt_command_job *names)
{
    const bool list = form == DT_POP_FORM_COMMAND_LIST;
    dt_json_begin_object(out, NULL);
    dt_json_put_bool(out, "success", true);
    if (list)
        dt_json_begin_array(out, "jobs");
    for (size_t i = 0; i < n; i++) {
        if (list)
            dt_json_begin_object(out, NULL);
        put_job(out, &jobs[i], names ? &names[i] : NULL);
        if (list)
            dt_json_end_object(out);
    }
    if (list)
        dt_json_end_array(out);
    dt_json_end_object(out);
}

const char *dt_command_refusal(enum dt_pop_topic why)
{
    return why == DT_POP_TOPIC_UNKNOWN ? "there is no such topic"
                                       : "the topic's delivery is another one: nothing is popped from it";
}

void dt_command_add_refusal(struct dt_strbuf *out, enum dt_pop_topic why)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_bool(out, "success", false);
    dt_json_put_word(out, "error", dt_command_refusal(why));
    dt_json_end_object(out);
}
