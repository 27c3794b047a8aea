/*
 * Structured log lines (logfmt) on stderr, from any thread:
 *   time=2026-11-21T10:30:00.000Z level=info component=shard msg="took over" shard=3 epoch=17
 * A line is one write(2) of at most PIPE_BUF bytes, so lines of threads do not mix. Values are quoted where they need
 * it. Payloads and secrets are never logged. The fields are evaluated only when the level is enabled. Logging never
 * waits: a line that stderr does not take at once is dropped and counted (duetime_log_dropped_total).
 *
 *   DT_LOG(INFO, "shard", "took over", DT_I("shard", s), DT_I("epoch", e), DT_S("owner", owner));
 */
#ifndef DT_BASE_LOG_H
#define DT_BASE_LOG_H

#include <stdint.h>

#include "base/status.h"
#include "base/strbuf.h"

enum dt_log_level { DT_LOG_DEBUG, DT_LOG_INFO, DT_LOG_WARN, DT_LOG_ERROR };

struct dt_field {
    const char *name; /* NULL ends the list */
    enum { DT_FIELD_INT, DT_FIELD_STR } type;
    int64_t i;
    struct dt_str s;
};

/* A field: a whole number, a terminated text (NULL = ""), bytes (struct dt_str). */
#define DT_I(name_, value)                                                                                             \
    {                                                                                                                  \
        .name = (name_), .type = DT_FIELD_INT, .i = (int64_t)(value)                                                   \
    }
#define DT_S(name_, value)                                                                                             \
    {                                                                                                                  \
        .name = (name_), .type = DT_FIELD_STR, .s = dt_str(value)                                                      \
    }
#define DT_B(name_, slice)                                                                                             \
    {                                                                                                                  \
        .name = (name_), .type = DT_FIELD_STR, .s = (slice)                                                            \
    }

#define DT_LOG(level, component, msg, ...)                                                                             \
    do {                                                                                                               \
        if (dt_log_enabled(DT_LOG_##level))                                                                            \
            dt_log_write(DT_LOG_##level, component, msg, (const struct dt_field[]){__VA_ARGS__ __VA_OPT__(, ){0}});    \
    } while (0)

/* Lines below this level are not written; INFO to begin with. */
void dt_log_set_level(enum dt_log_level level);
bool dt_log_enabled(enum dt_log_level level);
/* "debug", "info", "warn" or "error"; INVALID for any other word, and *out is as it was. */
DT_MUST_CHECK dt_status dt_log_level_parse(const char *word, enum dt_log_level *out);
/* Writes one line; DT_LOG calls it. fields ends with a name that is NULL. */
void dt_log_write(enum dt_log_level level, const char *component, const char *msg, const struct dt_field *fields);

#endif
