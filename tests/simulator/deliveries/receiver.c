/* See receiver.h. */
#include "simulator/deliveries/receiver.h"

#include "base/http/http_client.h"
#include "simulator/deliveries/arrivals.h"
#include "simulator/faults.h"
#include "simulator/oracles.h"
#include "simulator/processes.h"
#include "simulator/workload.h"

struct exchange {
    void *tag;
    int64_t job, attempt, due_ms;
    int64_t taken_us, until_us;    /* its time-out */
    int64_t next_us;               /* its next step */
    struct broker_record *written; /* NULL: not yet */
    enum dt_http_end end;
    int status; /* of the answer that is under way */
    const char *body, *retry_after;
    bool report; /* the body is one */
    struct exchange *next;
};

struct dt_http_client {
    struct dt_http_settings settings;
    struct fiber *fiber;
    struct exchange *list; /* taken and not answered */
    unsigned n;
    bool stopping, ended;
};

static struct {
    int64_t dead_until_us, slow_until_us, busy_until_us;
    bool healed;
} it;

void receiver_begin(void)
{
    memset(&it, 0, sizeof it);
}
void receiver_dead(int64_t until_us)
{
    it.dead_until_us = until_us;
}
void receiver_slow(int64_t until_us)
{
    it.slow_until_us = until_us;
}
void receiver_busy(int64_t until_us)
{
    it.busy_until_us = until_us;
}
void receiver_heal(void)
{
    memset(&it, 0, sizeof it);
    it.healed = true;
}

/* ---- what a receiver answers ---- */

static void will_answer(struct exchange *x, int64_t in_us, int status)
{
    x->end = DT_HTTP_ANSWERED;
    x->status = status;
    x->next_us = now_us + in_us;
}

static void will_never(struct exchange *x)
{
    x->end = DT_HTTP_TIMEOUT;
    x->next_us = x->until_us;
}

/* Taken: it reports later, well or badly, or never. */
static void will_report(struct exchange *x, int64_t in_us)
{
    static const enum dt_result_status results[] = {DT_RESULT_SUCCEEDED, DT_RESULT_SUCCEEDED, DT_RESULT_FAILED,
                                                    DT_RESULT_EXTENDED, DT_RESULT_SNOOZED};
    will_answer(x, in_us, 202);
    if (!one_in(6))
        workload_report(x->job, x->attempt, results[rnd_in(0, 4)], rnd_in(0, 900 * MS));
}

static void will_tell(struct exchange *x, int64_t in_us)
{
    static const char *const bodies[] = {"{\"status\":\"snoozed\",\"retry_after\":300}", "{\"status\":\"failed\"}",
                                         "{\"status\":\"extended\"}", "{\"status\":\"succeeded\"}", "{\"status\":"};
    will_answer(x, in_us, 200);
    x->report = true;
    x->body = bodies[rnd_in(0, 4)];
}

static void decide(struct exchange *x)
{
    const int64_t us = one_in(3) ? rnd_in(0, 3 * MS) : rnd_in(1 * MS, 900 * MS);
    if (it.healed || x->attempt >= 4) {
        will_answer(x, rnd_in(0, 20 * MS), 204);
        return;
    }
    if (now_us < it.slow_until_us) {
        will_never(x);
        return;
    }
    if (now_us < it.busy_until_us) {
        will_answer(x, us / 10, one_in(2) ? 429 : 503);
        x->retry_after = one_in(2) ? "1" : NULL;
        return;
    }
    switch (rnd_in(0, 12)) {
    case 0:
    case 1:
        will_answer(x, us, 500);
        break;
    case 2:
        will_answer(x, us, 410);
        break;
    case 3:
    case 4:
        will_report(x, us);
        break;
    case 5:
        will_never(x);
        break;
    case 6:
        will_tell(x, us);
        break;
    case 7:
        x->end = DT_HTTP_BROKEN;
        x->next_us = now_us + us;
        break;
    default:
        will_answer(x, us, 200);
    }
}

/* ---- the client's thread ---- */

static void answer(dt_http_client *client, struct exchange *x)
{
    const char *body = x->body ? x->body : "";
    const struct dt_http_answer answer = {.end = x->end,
                                          .status = x->end == DT_HTTP_ANSWERED ? x->status : 0,
                                          .content_type =
                                              x->report ? dt_str("application/vnd.duetime.result+json") : DT_STR_NONE,
                                          .retry_after = x->retry_after ? dt_str(x->retry_after) : DT_STR_NONE,
                                          .body = dt_str(body),
                                          .body_whole = true,
                                          .duration_ms = (now_us - x->taken_us) / MS,
                                          .detail = "simulated"};
    struct exchange **link = &client->list;
    while (*link != x)
        link = &(*link)->next;
    *link = x->next;
    client->n--;
    TRACE("callback: job %lld attempt %lld: end %d, status %d", (long long)x->job, (long long)x->attempt, (int)x->end,
          answer.status);
    if (x->written)
        x->written->succeeded = x->end == DT_HTTP_ANSWERED && !x->report && (x->status == 200 || x->status == 204);
    client->settings.answered(client->settings.arg, x->tag, &answer);
    free(x);
}

static void ends(dt_http_client *client, struct exchange *x, enum dt_http_end end)
{
    x->end = end;
    answer(client, x);
}

/* The process is killed, or stands still for longer than its lease. */
static void harm(void)
{
    struct proc *self = proc_self();
    if (fault(F_CALLING, 6))
        process_crash(self);
    if (!fault(F_LEASE, 6))
        return;
    self->paused_until_us = now_us + rnd_in(LEASE_US / 2, 4 * LEASE_US);
    TRACE("stopped until %.3f", (double)(self->paused_until_us - 100 * SEC) / 1000);
    zookeeper_noticed_silence(self);
    fiber_sleep(1);
}

/* Between the question whether it may be sent and the writing nothing stops. */
static void write_request(dt_http_client *client, struct exchange *x)
{
    harm();
    if (now_us < it.dead_until_us) {
        arrivals_refuse(x->job, x->attempt);
        ends(client, x, DT_HTTP_CONNECT);
    } else if (client->settings.may_send && !client->settings.may_send(client->settings.arg, x->tag))
        ends(client, x, DT_HTTP_WITHHELD);
    else {
        oracles_called(x->job, x->attempt);
        x->written = arrivals_add(BY_CALLBACK, x->job, x->attempt, x->due_ms, 0);
        decide(x);
        if (x->next_us > x->until_us)
            will_never(x);
        harm();
    }
}

static void step(dt_http_client *client, struct exchange *x)
{
    if (x->written)
        answer(client, x);
    else if (now_us >= x->until_us) {
        arrivals_refuse(x->job, x->attempt);
        ends(client, x, DT_HTTP_TIMEOUT);
    } else
        write_request(client, x);
}

static struct exchange *next_of(const dt_http_client *client)
{
    struct exchange *best = NULL;
    for (struct exchange *x = client->list; x; x = x->next)
        if (!best || x->next_us < best->next_us)
            best = x;
    return best;
}

static void *client_main(void *arg)
{
    dt_http_client *client = arg;
    while (!client->stopping) {
        struct exchange *x = next_of(client);
        if (x && x->next_us <= now_us)
            step(client, x);
        else
            fiber_block(x ? x->next_us : NEVER);
    }
    while (client->list)
        ends(client, client->list, DT_HTTP_UNKNOWN);
    client->ended = true;
    return NULL;
}

/* ---- http_client.h ---- */

dt_status dt_http_client_new(const struct dt_http_settings *settings, dt_http_client **out, struct dt_error *)
{
    dt_http_client *client = calloc(1, sizeof *client);
    if (!client)
        return DT_NOMEM;
    client->settings = *settings;
    client->fiber = fiber_start(proc_self(), client_main, client);
    *out = client;
    return DT_OK;
}

static struct dt_str header(const struct dt_http_request *request, const char *name)
{
    for (size_t i = 0; i < request->n_headers; i++)
        if (dt_str_is(request->headers[i].name, name))
            return request->headers[i].value;
    broken("a callback without %s", name);
}

static int64_t after_slash(struct dt_str s)
{
    const char *slash = memchr(s.p, '/', s.n);
    return slash ? strtoll(slash + 1, NULL, 10) : 0;
}

dt_status dt_http_client_send(dt_http_client *client, const struct dt_http_request *request)
{
    const struct dt_str key = header(request, "idempotency-key");
    if (client->stopping)
        return DT_SHUTDOWN;
    if (client->n == client->settings.max_in_flight)
        return DT_FULL;
    struct exchange *x = calloc(1, sizeof *x);
    if (!x)
        return DT_NOMEM;
    *x = (struct exchange){.tag = request->tag,
                           .job = strtoll(key.p, NULL, 10),
                           .attempt = after_slash(key),
                           .due_ms = broker_time_of(header(request, "ce-scheduledtime")),
                           .taken_us = now_us,
                           .until_us = now_us + request->timeout_ms * MS,
                           .next_us = now_us + (one_in(8) ? rnd_in(1 * MS, 200 * MS) : rnd_in(50, 3 * MS)),
                           .next = client->list};
    client->list = x;
    client->n++;
    fiber_wake(client->fiber);
    return DT_OK;
}

/* Fibers are not stopped between the look and the write. */
STUB(void, dt_http_client_write_until, (dt_http_client * client, int64_t until_us), )
STUB(void, dt_http_client_write_over, (dt_http_client * client), )

void dt_http_client_stop(dt_http_client *client)
{
    client->stopping = true;
    fiber_wake(client->fiber);
    while (!client->ended)
        fiber_sleep(100);
}

void dt_http_client_free(dt_http_client *client)
{
    if (!client)
        return;
    dt_http_client_stop(client);
    free(client);
}

unsigned dt_http_client_in_flight(const dt_http_client *client)
{
    return client->n;
}
