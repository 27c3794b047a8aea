/* Owns the socket of a parting until its answer is with dt_linger: see http_parting.h. Refuses to know why it parted.
 */
#include "http_parting.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <unistd.h>

struct dt_parting {
    dt_linger *linger;
    const dt_clock *clock;
    int fd;
    int64_t patience_us;
    char id[DT_REQUEST_ID_MAX + 1];
    void (*ended)(void *arg);
    void *arg;
};

dt_parting *dt_parting_new(dt_linger *linger, const dt_clock *clock, int fd, const char *id, int64_t patience_us)
{
    dt_parting *parting = calloc(1, sizeof(*parting));
    if (!parting) {
        close(fd);
        return NULL;
    }
    *parting = (dt_parting){.linger = linger, .clock = clock, .fd = fd, .patience_us = patience_us};
    memcpy(parting->id, id, strlen(id) + 1);
    return parting;
}

void dt_parting_when_ended(dt_parting *parting, void (*ended)(void *arg), void *arg)
{
    parting->ended = ended;
    parting->arg = arg;
}

static void add_head(struct dt_strbuf *text, int status, const char *type, const char *id, size_t n)
{
    dt_strbuf_addf(text, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nConnection: close\r\nX-Request-Id: %s\r\n", status,
                   MHD_get_reason_phrase_for((unsigned)status), type, id);
    if (status == 503)
        dt_strbuf_addf(text, "Retry-After: %u\r\n", dt_problem_retry_after_s(DT_PROBLEM_UNAVAILABLE));
    dt_strbuf_addf(text, "Content-Length: %zu\r\n\r\n", n);
}

static void end(dt_parting *parting)
{
    if (parting->ended)
        parting->ended(parting->arg);
    free(parting);
}

void dt_parting_problem(dt_parting *parting, enum dt_problem_type type, const char *detail)
{
    struct dt_strbuf body;
    struct dt_hold none = {0};
    if (!parting)
        return;
    dt_strbuf_init(&body);
    dt_problem_add(&body, &(struct dt_problem){.type = type, .detail = dt_str(detail)}, dt_str(parting->id));
    dt_part_answer(parting, dt_problem_http_status(type), "application/problem+json", &body, &none);
}

void dt_part_answer(dt_parting *parting, int status, const char *type, struct dt_strbuf *body, struct dt_hold *hold)
{
    struct dt_strbuf text;
    if ((status == 0 || body->failed) && status < 400) {
        dt_strbuf_clear(body);
        dt_hold_end(hold);
        dt_parting_problem(parting, DT_PROBLEM_OUTCOME_UNKNOWN, "memory was out in the middle");
        return;
    }
    dt_strbuf_init(&text);
    add_head(&text, status, type, parting->id, body->n);
    dt_strbuf_add(&text, body->p, body->n);
    bool whole = !text.failed && !body->failed;
    dt_strbuf_clear(body);
    if (!whole)
        close(parting->fd);
    else
        dt_linger_send(parting->linger, parting->fd, &text, hold,
                       dt_clock_mono_us(parting->clock) + parting->patience_us);
    dt_strbuf_clear(&text);
    dt_hold_end(hold);
    end(parting);
}
