/* The life of alerts: their parts, and the order in which they begin and end. */
#include <stdlib.h>

#include "alert_parts.h"
#include "job/callback/callback_url.h"

static void make_meters(dt_alerts *a)
{
    const char *name = "duetime_alert_messages_total";
    const char *help = "Messages about alerts by what became of them; a failed one is sent again.";
    a->sent = dt_counter(name, help, "outcome=\"sent\"");
    a->failed = dt_counter(name, help, "outcome=\"failed\"");
    a->given_up = dt_counter(name, help, "outcome=\"given_up\"");
    for (int kind = 1; kind < DT_ALERT_KINDS_END; kind++) {
        struct dt_strbuf label;
        dt_strbuf_init(&label);
        dt_strbuf_addf(&label, "kind=\"%s\"", dt_alert_kind_name((enum dt_alert_kind)kind));
        a->standing[kind] =
            label.failed
                ? NULL
                : dt_gauge("duetime_alerts", "Alerts that stand, where this process judges them; else 0.", label.p);
        dt_strbuf_clear(&label);
    }
}

static dt_status make_parts(dt_alerts *a, struct dt_error *err)
{
    const struct dt_config *config = a->env.config;
    const char *reason = config->alerts_url[0] ? dt_callback_url_check(dt_str(config->alerts_url), NULL) : NULL;
    if (reason)
        return dt_fail(err, DT_INVALID, "[alerts] url: it %s", reason);
    struct dt_callback_secret secret;
    reason = config->alerts_secret[0] ? dt_callback_secret_read(dt_str(config->alerts_secret), &secret) : NULL;
    dt_callback_secret_wipe(&secret);
    if (reason)
        return dt_fail(err, DT_INVALID, "[alerts] secret: it %s", reason);
    dt_status status = dt_watched_topics_init(&a->topics, config, a->env.clock);
    return status == DT_OK ? dt_json_new(&a->json) : status;
}

static void free_parts(dt_alerts *a)
{
    dt_alerts_end_sending(a);
    dt_watched_topics_clear(&a->topics);
    dt_json_free(a->json);
    dt_arena_clear(&a->rows);
    dt_arena_clear(&a->messages);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

dt_status dt_alerts_start(const struct dt_alerts_env *env, dt_alerts **out, struct dt_error *err)
{
    dt_alerts *a = calloc(1, sizeof(*a));
    if (!a)
        return dt_fail(err, DT_NOMEM, "out of memory");
    a->env = *env;
    pthread_mutex_init(&a->lock, NULL);
    dt_arena_init(&a->rows);
    dt_arena_init(&a->messages);
    make_meters(a);
    dt_status status = make_parts(a, err);
    if (status != DT_OK) {
        free_parts(a);
        return status;
    }
    for (size_t i = 0; i < DT_ALERT_WAYS; i++)
        a->places[i] = (struct dt_shares){.total = DT_ALERT_PLACES, .part = 2};
    a->at_host = (struct dt_shares){.total = DT_ALERT_PLACES, .part = 2};
    a->judge = (struct dt_chore){.name = "alerts", .tick = dt_alerts_judge, .arg = a};
    a->sender = (struct dt_chore){.name = "alert-sender", .tick = dt_alerts_send, .arg = a, .waits = true};
    dt_chores_add(env->chores, &a->sender);
    dt_chores_add(env->chores, &a->judge);
    *out = a;
    return DT_OK;
}

void dt_alerts_leave(dt_alerts *a)
{
    if (a)
        dt_chore_stop(&a->judge);
}

void dt_alerts_stop(dt_alerts *a)
{
    if (!a)
        return;
    dt_chore_remove(&a->judge); /* it wakes the sender */
    dt_chore_remove(&a->sender);
    free_parts(a);
}
