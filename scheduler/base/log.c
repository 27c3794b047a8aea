/*
 * See log.h. A line is built in one buffer. If memory runs out, the line is written without its fields.
 *
 * Invariant: no thread waits for the reader of stderr. If a pipe, a socket or a terminal does not accept a line at
 * once, the line is dropped and counted; the next line that is written is followed by a line with the number of dropped
 * lines. O_NONBLOCK on stderr itself would affect every process that shares it.
 */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "assert.h"
#include "base/text/json_write.h"
#include "base/text/timetext.h"
#include "clock.h"
#include "metrics.h"

static const char *const level_names[] = {"debug", "info", "warn", "error"};

#define LEVELS (sizeof(level_names) / sizeof(level_names[0]))

static _Atomic int least = DT_LOG_INFO;
static _Atomic bool as_json;
static _Atomic bool gap; /* lines were dropped since the last written line */

void dt_log_set_level(enum dt_log_level level)
{
    atomic_store_explicit(&least, (int)level, memory_order_relaxed);
}

bool dt_log_enabled(enum dt_log_level level)
{
    return (int)level >= atomic_load_explicit(&least, memory_order_relaxed);
}

void dt_log_configure(const char *level, const char *format)
{
    for (unsigned i = 0; i < LEVELS; i++)
        if (strcmp(level, level_names[i]) == 0)
            dt_log_set_level((enum dt_log_level)i);
    if (strcmp(format, "json") == 0 || strcmp(format, "logfmt") == 0)
        atomic_store_explicit(&as_json, format[0] == 'j', memory_order_relaxed);
}

/* Quotes a value if it has bytes other than visible ASCII, or characters with a meaning in logfmt. UTF-8 is kept.
 * Control characters are escaped, so that a value cannot forge a line or control a terminal. */
static void add_field_value(struct dt_strbuf *line, struct dt_str s)
{
    bool plain = s.n > 0;
    for (size_t i = 0; i < s.n && plain; i++) {
        unsigned char c = (unsigned char)s.p[i];
        plain = c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
    }
    if (plain) {
        dt_strbuf_add(line, s.p, s.n);
        return;
    }
    dt_strbuf_addc(line, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == '\n' || c == '\r' || c == '\t')
            dt_strbuf_adds(line, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else if (c < ' ' || c == 0x7f)
            dt_strbuf_addf(line, "\\x%02x", c);
        else {
            if (c == '"' || c == '\\')
                dt_strbuf_addc(line, '\\');
            dt_strbuf_addc(line, (char)c);
        }
    }
    dt_strbuf_addc(line, '"');
}

static void add_field_name(struct dt_strbuf *line, const char *name)
{
    if (line->n)
        dt_strbuf_addc(line, ' ');
    dt_strbuf_adds(line, name);
    dt_strbuf_addc(line, '=');
}

static void add_logfmt(struct dt_strbuf *line, const struct dt_field *fields)
{
    for (; fields->name; fields++) {
        add_field_name(line, fields->name);
        if (fields->type == DT_FIELD_INT)
            dt_strbuf_add_i64(line, fields->i);
        else
            add_field_value(line, fields->s);
    }
}

static void add_json(struct dt_strbuf *line, const struct dt_field *fields)
{
    for (; fields->name; fields++) {
        const size_t before = line->n;
        if (fields->type == DT_FIELD_INT)
            dt_json_put_int(line, fields->name, fields->i);
        else
            dt_json_put_cut(line, fields->name, fields->s, PIPE_BUF / 4);
        if (line->n + sizeof(",\"cut\":true}") > PIPE_BUF) {
            line->n = before;
            dt_json_put_bool(line, "cut", true);
            return;
        }
    }
}

static void write_to_stderr(const char *line, size_t size)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const int saved = errno;
    struct stat target;
    ssize_t n = send(STDERR_FILENO, line, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == ENOTSOCK && fstat(STDERR_FILENO, &target) == 0 && S_ISREG(target.st_mode)) {
        do
            n = write(STDERR_FILENO, line, size);
        while (n < 0 && errno == EINTR);
    } else if (n < 0 && errno == ENOTSOCK) {
        int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd >= 0) {
            n = write(fd, line, size);
            close(fd);
        } else if (errno != ENXIO) {
            /* This process may not open stderr's file again, so O_NONBLOCK cannot be used, and poll says whether stderr
             * is writable. Between poll and write, only another process can fill it. */
            struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
            pthread_mutex_lock(&lock);
            if (poll(&room, 1, 0) == 1 && (room.revents & POLLOUT))
                n = write(STDERR_FILENO, line, size);
            pthread_mutex_unlock(&lock);
        }
    }
    if (n < 0 || atomic_exchange(&gap, false)) {
        dt_metric *dropped =
            dt_counter("duetime_log_dropped_total", "Log lines dropped because stderr was not read.", "");
        if (n < 0) {
            dt_metric_add(dropped, 1);
            atomic_store(&gap, true);
        } else
            DT_LOG(WARN, "log", "lines were dropped because stderr was not read",
                   DT_I("dropped", (int64_t)dt_metric_value(dropped)));
    }
    errno = saved;
}

void dt_log_write(enum dt_log_level level, const char *component, const char *msg, const struct dt_field *fields)
{
    struct dt_strbuf line = {0};
    const bool json = atomic_load_explicit(&as_json, memory_order_relaxed);
    char now[25];
    char brief[200];
    dt_assert((unsigned)level < LEVELS);
    dt_strbuf_reserve(&line, 400);
    dt_time_format(dt_clock_real_ms(dt_clock_system()), now);
    const struct dt_field first[] = {
        DT_S("time", now), DT_S("level", level_names[level]), DT_S("component", component), DT_S("msg", msg), {0}};
    if (json) {
        dt_strbuf_addc(&line, '{');
        add_json(&line, first);
        add_json(&line, fields);
        dt_strbuf_addc(&line, '}');
    } else {
        add_logfmt(&line, first);
        add_logfmt(&line, fields);
    }
    dt_strbuf_addc(&line, '\n');
    if (line.n > PIPE_BUF) { /* a pipe does not accept more than PIPE_BUF bytes atomically */
        line.n = PIPE_BUF;
        line.p[line.n - 1] = '\n';
    }
    if (!line.failed) {
        write_to_stderr(line.p, line.n);
    } else { /* memory ran out while the line was built */
        int n = json ? snprintf(brief, sizeof(brief),
                                "{\"time\":\"%s\",\"level\":\"%s\",\"component\":\"%.30s\",\"msg\":\"%.80s\","
                                "\"memory\":\"out\"}\n",
                                now, level_names[level], component, msg)
                     : snprintf(brief, sizeof(brief), "time=%s level=%s component=%.30s msg=\"%.90s\" memory=out\n",
                                now, level_names[level], component, msg);
        if (n > 0 && (size_t)n < sizeof(brief))
            write_to_stderr(brief, (size_t)n);
    }
    dt_strbuf_clear(&line);
}

bool dt_log_allows(struct dt_log_limit *limit, struct dt_str topic, int64_t *suppressed)
{
    const int64_t minute_us = 60000000;
    const size_t at = dt_str_hash(topic) % (sizeof(limit->topics) / sizeof(*limit->topics));
    const int64_t now_us = dt_clock_mono_us(dt_clock_system());
    int64_t next_us = atomic_load(&limit->topics[at].next_us);
    if (now_us < next_us || !atomic_compare_exchange_strong(&limit->topics[at].next_us, &next_us, now_us + minute_us)) {
        atomic_fetch_add(&limit->topics[at].suppressed, 1);
        return false;
    }
    *suppressed = atomic_exchange(&limit->topics[at].suppressed, 0);
    return true;
}
