/* Starts and stops the judge and the sender of alerts. */
#include <stdlib.h>

#include "alert_parts.h"
#include "base/http/callback_rules.h"
#include "base/http/webhook.h"
#include "features/outbox/outbox.h"

static dt_status make_alert_parts(dt_alerts *a, struct dt_error *err)
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
    return dt_watched_topics_init(&a->topics, config, a->env.clock);
}

static void free_alert_parts(dt_alerts *a)
{
    dt_watched_topics_clear(&a->topics);
    dt_arena_clear(&a->rows);
    free(a);
}

static bool judges(void *arg, int64_t sender)
{
    dt_alerts *a = arg;
    (void)sender;
    return atomic_load(&a->ours);
}

dt_status dt_alerts_start(const struct dt_alerts_env *env, dt_alerts **out, struct dt_error *err)
{
    const char *name = "duetime_alert_messages_total";
    const char *help = "Messages about alerts by what became of them; a failed one is sent again.";
    dt_alerts *a = calloc(1, sizeof(*a));
    if (!a)
        return dt_fail(err, DT_NOMEM, "out of memory");
    a->env = *env;
    for (int kind = 1; kind < DT_ALERT_KINDS_END; kind++) {
        struct dt_strbuf label = {0};
        dt_strbuf_addf(&label, "kind=\"%s\"", dt_alert_kind_name((enum dt_alert_kind)kind));
        a->standing[kind] =
            label.failed
                ? NULL
                : dt_gauge("duetime_alerts", "Alerts that stand, where this process judges them; else 0.", label.p);
        dt_strbuf_clear(&label);
    }
    const struct dt_outbox_env sender = {.kind = DT_MESSAGE_ALERT,
                                         .chores = env->chores,
                                         .config = env->config,
                                         .clock = env->clock,
                                         .installation = env->installation,
                                         .kafka = env->kafka,
                                         .sent = dt_counter(name, help, "outcome=\"sent\""),
                                         .failed = dt_counter(name, help, "outcome=\"failed\""),
                                         .dropped = dt_counter(name, help, "outcome=\"given_up\""),
                                         .arg = a,
                                         .ours = judges};
    dt_status status = make_alert_parts(a, err);
    if (status == DT_OK)
        status = dt_outbox_start(&sender, &a->sender);
    if (status != DT_OK) {
        free_alert_parts(a);
        return status;
    }
    a->judge = (struct dt_chore){.name = "alerts", .tick = dt_alerts_judge, .arg = a};
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
    dt_chore_remove(&a->judge); /* first, because the judge wakes the sender */
    dt_outbox_stop(a->sender);
    free_alert_parts(a);
}
