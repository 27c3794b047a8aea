/*
 * Structured log lines on stderr, from any thread, as logfmt or as JSON ([log] format):
 *   time=2026-11-21T10:30:00.000Z level=info component=shard msg="took over" shard=3 epoch=17
 *   {"time":"2026-11-21T10:30:00.000Z","level":"info","component":"shard","msg":"took over","shard":3,"epoch":17}
 * A line is one write(2) of at most PIPE_BUF bytes, so lines of threads do not mix. If a line would be longer, logfmt
 * ends in the middle of a value; JSON shortens long values, leaves out the fields without room, and has "cut":true.
 * Payloads and secrets are never logged. The fields are evaluated only if the level is enabled. Logging never blocks:
 * if stderr does not accept a line at once, the line is dropped and counted (duetime_log_dropped_total).
 *
 *   DT_LOG(INFO, "shard", "took over", DT_I("shard", s), DT_I("epoch", e), DT_S("owner", owner));
 */
#pragma once

#include <stdatomic.h>

#include "base/text/strbuf.h"
#include "status.h"

enum dt_log_level { DT_LOG_DEBUG, DT_LOG_INFO, DT_LOG_WARN, DT_LOG_ERROR };

struct dt_field {
    const char *name; /* name of the field; NULL: end of the list of fields */
    enum { DT_FIELD_INT, DT_FIELD_STR } type;
    int64_t i;
    struct dt_str s;
};

/* Fields: DT_I has a whole number, DT_S a terminated text (NULL: "", in JSON null), DT_B bytes (struct dt_str). */
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

/* DT_LOG for lines that a caller or a receiver can cause at will: at most one line per minute and topic, and 64 lines
 * per minute in all. Topics with the same hash share one allowance; `suppressed` counts the lines that were omitted for
 * all of them. */
#define DT_LOG_PER_TOPIC(level, component, msg, topic_, ...)                                                           \
    do {                                                                                                               \
        static struct dt_log_limit limit_;                                                                             \
        int64_t suppressed_;                                                                                           \
        if (dt_log_enabled(DT_LOG_##level) && dt_log_allows(&limit_, topic_, &suppressed_))                            \
            DT_LOG(level, component, msg, DT_B("topic", topic_),                                                       \
                   DT_I("suppressed", suppressed_) __VA_OPT__(, ) __VA_ARGS__);                                        \
    } while (0)

/* State of DT_LOG_PER_TOPIC. Initialize with zeros. */
struct dt_log_limit {
    struct {
        _Atomic int64_t next_us; /* time when the next line may be written */
        _Atomic int64_t suppressed;
    } topics[64];
};
/* For DT_LOG_PER_TOPIC: returns whether a line may be written now. If not, counts the line. */
bool dt_log_allows(struct dt_log_limit *limit, struct dt_str topic, int64_t *suppressed);

/* Sets the least severe level that is written; INFO at first. */
void dt_log_set_level(enum dt_log_level level);
bool dt_log_enabled(enum dt_log_level level);
/* Applies [log] level and format, words that dt_config_load has accepted. Another word changes nothing. */
void dt_log_configure(const char *level, const char *format);
/* For DT_LOG: writes one line. The last field has the name NULL. */
void dt_log_write(enum dt_log_level level, const char *component, const char *msg, const struct dt_field *fields);
