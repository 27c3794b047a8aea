/* Owns the socket of a detached answer until dt_linger has it: see http_detached.h. Refuses to know why it is detached.
 */
#include "http_detached.h"

#include <stdlib.h>
#include <unistd.h>

#include "http_mhd.h"
#include "request/request.h"

struct dt_detached {
    dt_linger *linger;
    const dt_clock *clock;
    int fd;
    int64_t patience_us, owner;
    char id[DT_REQUEST_ID_MAX + 1];
    void (*ended)(void *arg);
    void *arg;
};

dt_detached *dt_detached_new(dt_linger *linger, const dt_clock *clock, int fd, const char *id, int64_t patience_us)
{
    dt_detached *detached = calloc(1, sizeof(*detached));
    if (!detached) {
        close(fd);
        return NULL;
    }
    *detached = (dt_detached){.linger = linger, .clock = clock, .fd = fd, .patience_us = patience_us};
    memcpy(detached->id, id, strlen(id) + 1);
    return detached;
}

void dt_detached_owned(dt_detached *detached, int64_t owner)
{
    detached->owner = owner;
}

void dt_detached_when_ended(dt_detached *detached, void (*ended)(void *arg), void *arg)
{
    detached->ended = ended;
    detached->arg = arg;
}

int dt_detached_fd(const dt_detached *detached)
{
    return detached->fd;
}

static void add_head(struct dt_strbuf *text, int status, const char *type, const char *id, size_t n)
{
    dt_strbuf_addf(text,
                   "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nConnection: close\r\nX-Request-Id: %s\r\n"
                   "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n",
                   status, dt_mhd_reason(status), type, id);
    if (status == 503)
        dt_strbuf_addf(text, "Retry-After: %lld\r\n",
                       (long long)dt_problem_retry_after_s(&(struct dt_problem){.type = DT_PROBLEM_UNAVAILABLE}));
    dt_strbuf_addf(text, "Content-Length: %zu\r\n\r\n", n);
}

static void end_detached(dt_detached *detached)
{
    if (detached->ended)
        detached->ended(detached->arg);
    free(detached);
}

void dt_detached_problem(dt_detached *detached, enum dt_problem_type type, const char *detail)
{
    struct dt_strbuf body;
    struct dt_hold none = {0};
    if (!detached)
        return;
    dt_strbuf_init(&body);
    dt_problem_add(&body, &(struct dt_problem){.type = type, .detail = dt_str(detail)}, dt_str(detached->id));
    dt_detached_answer(detached, dt_problem_http_status(type), "application/problem+json", &body, &none);
}

void dt_detached_answer(dt_detached *detached, int status, const char *type, struct dt_strbuf *body,
                        struct dt_hold *hold)
{
    struct dt_strbuf text;
    if ((status == 0 || body->failed) && status < 400) {
        dt_strbuf_clear(body);
        dt_hold_less(hold, DT_HOLD_ALL);
        dt_detached_problem(detached, DT_PROBLEM_OUTCOME_UNKNOWN, "memory was out in the middle");
        return;
    }
    dt_strbuf_init(&text);
    add_head(&text, status, type, detached->id, body->n);
    dt_strbuf_add(&text, body->p, body->n);
    bool whole = !text.failed && !body->failed;
    const int64_t now_us = dt_clock_mono_us(detached->clock);
    dt_strbuf_clear(body);
    if (!whole)
        close(detached->fd);
    else
        dt_linger_send(detached->linger, detached->fd, &text, hold, detached->owner, now_us,
                       now_us + detached->patience_us);
    dt_strbuf_clear(&text);
    dt_hold_less(hold, DT_HOLD_ALL);
    end_detached(detached);
}
