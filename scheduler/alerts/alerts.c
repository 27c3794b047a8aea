/* The life of alerts: their parts, and the order in which they begin and end. */
#include <stdlib.h>

#include "alert_parts.h"
#include "job/callback/callback_url.h"

#define IO_TIMEOUT_MS INT64_C(30000) /* of the connection that waits in the server; longer than its longest wait */

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
    a->patient = *config;
    a->patient.mysql_io_timeout = dt_later(a->patient.mysql_io_timeout, IO_TIMEOUT_MS);
    dt_status status = dt_watched_topics_init(&a->topics, config, a->env.clock);
    if (status == DT_OK)
        status = dt_mailbox_new(&a->judge_mailbox);
    if (status == DT_OK)
        status = dt_mailbox_new(&a->sender_mailbox);
    if (status == DT_OK)
        status = dt_json_new(&a->json);
    if (status == DT_OK)
        status = dt_store_new(&a->patient, a->env.ref, &a->judge_store);
    return status == DT_OK ? dt_store_new(config, a->env.ref, &a->sender_store) : status;
}

static void free_parts(dt_alerts *a)
{
    dt_alerts_end_sending(a);
    dt_store_free(a->judge_store);
    dt_store_free(a->sender_store);
    dt_mailbox_free(a->judge_mailbox);
    dt_mailbox_free(a->sender_mailbox);
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
    if (status == DT_OK)
        status = dt_thread_start(&a->sender, "alert-sender", dt_alerts_send, a, err);
    if (status == DT_OK)
        status = dt_thread_start(&a->judge, "alerts", dt_alerts_judge, a, err);
    if (status != DT_OK) {
        dt_thread_stop(&a->sender, a->sender_mailbox);
        free_parts(a);
        return status;
    }
    *out = a;
    return DT_OK;
}

void dt_alerts_leave(dt_alerts *a)
{
    if (!a)
        return;
    dt_thread_ask_stop(&a->judge, a->judge_mailbox);
    if (atomic_load(&a->waits))
        dt_store_cut(a->judge_store);
}

void dt_alerts_stop(dt_alerts *a)
{
    if (!a)
        return;
    dt_alerts_leave(a);
    dt_thread_stop(&a->judge, a->judge_mailbox);
    dt_thread_stop(&a->sender, a->sender_mailbox);
    free_parts(a);
}
