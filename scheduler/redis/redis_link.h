/*
 * One connection to one Redis server: connecting (redis_connect.h), AUTH, scripts, pipelines, back-off; and functions
 * that read its replies. Knows no keys. Internal to index/.
 *
 * A round trip is this calling sequence: dt_link_ready, any number of commands (dt_link_command or dt_link_script, then
 * the arguments), dt_link_flush, dt_link_read. dt_link_read gives each reply to on_reply in the order of the commands.
 * Every command must be idempotent: after a NOSCRIPT (somebody flushed the scripts) the scripts are loaded and all
 * commands of the round trip are sent once more, and so they are when the connection had ended before any answer came.
 *
 * Statuses: UNAVAILABLE for everything that Redis or the network does; NOMEM when the commands could not be built. A
 * broken or late connection is dropped, since a late answer would be taken for the next command's; it is made anew
 * after a back-off. A connection that ended while it lay idle is replaced at once and unnoticed. An error reply
 * (READONLY, OOM, LOADING, …) leaves the connection as it is; only a master that answers READONLY is looked for anew.
 * Where our user may not load scripts they are sent whole each time. One thread uses a link at a time.
 */
#ifndef DT_REDIS_REDIS_LINK_H
#define DT_REDIS_REDIS_LINK_H

#include "base/clock.h"
#include "base/config.h"
#include "base/text/strbuf.h"

typedef struct redisReply dt_reply;
typedef struct dt_link dt_link;

/* One element of [redis] endpoints. */
struct dt_endpoint {
    char *name; /* "host:port" or "master:NAME", as configured */
    char *host; /* or the NAME of a master that Sentinels know */
    int port;   /* 0: of a master */
    bool master;
};
/* Parses the comma list; INVALID: err names the element. *out: n endpoints, freed by dt_endpoints_free; NULL and 0 on
 * failure. */
DT_MUST_CHECK dt_status dt_endpoints_parse(const char *list, struct dt_endpoint **out, unsigned *n,
                                           struct dt_error *err);
void dt_endpoints_free(struct dt_endpoint *endpoints, unsigned n);

/* Lets the kernel find out within about four seconds that the peer of an idle connection is gone. No thread wakes up
 * for it. */
void dt_link_keep_alive(int fd);

/* Capped exponential back-off with jitter; a value, zero = never failed. */
struct dt_backoff {
    unsigned failures;
    uint64_t chance;
};
/* Counts one more failure. Returns how long to wait now, in us: 20 ms doubling up to 2 s, half of it by chance. */
int64_t dt_backoff_us(struct dt_backoff *backoff, uint64_t salt);

#define DT_LINK_SCRIPTS 13
/* Does not connect yet. config, endpoint, clock and scripts (n_scripts texts, at most DT_LINK_SCRIPTS) are borrowed
 * until dt_link_free. NOMEM: *out is NULL. */
DT_MUST_CHECK dt_status dt_link_new(const struct dt_config *config, const struct dt_endpoint *endpoint,
                                    const dt_clock *clock, const char *const *scripts, unsigned n_scripts,
                                    dt_link **out);
void dt_link_free(dt_link *link);

bool dt_link_connected(const dt_link *link);
/* Says whether the last round trip failed, or the last try to connect. */
bool dt_link_failing(const dt_link *link);
/* Forgets commands that were not flushed, and connects where there is no connection or the server has ended it.
 * UNAVAILABLE at once during the back-off. */
DT_MUST_CHECK dt_status dt_link_ready(dt_link *link, struct dt_error *err);
/* Begins a command of n_args arguments, its name included. */
void dt_link_command(dt_link *link, unsigned n_args);
void dt_link_arg(dt_link *link, struct dt_str arg);
void dt_link_arg_i64(dt_link *link, int64_t arg);
/* Begins an EVALSHA of script number `script`: n_args arguments follow, of which the first n_keys are keys. */
void dt_link_script(dt_link *link, unsigned script, unsigned n_keys, unsigned n_args);

/* Writes the commands. */
DT_MUST_CHECK dt_status dt_link_flush(dt_link *link, struct dt_error *err);
/* Takes the reply to command number i of the round trip. The reply is borrowed for the call. Not called for an error
 * reply; the first of them becomes the status of dt_link_read. */
typedef void dt_link_reply_fn(void *arg, size_t i, const dt_reply *reply);
/* Reads the replies to all commands; on_reply NULL: they count only as failures. */
DT_MUST_CHECK dt_status dt_link_read(dt_link *link, dt_link_reply_fn *on_reply, void *arg, struct dt_error *err);

/* ---- replies: nothing is copied; what is given lives as long as the reply ---- */
/* False: it is no integer, and *out is as it was. */
bool dt_reply_integer(const dt_reply *reply, int64_t *out);
/* The bytes of a string, with a NUL behind them; p NULL: it is no string. */
struct dt_str dt_reply_text(const dt_reply *reply);
bool dt_reply_is_nil(const dt_reply *reply);
/* The number of elements of an array; 0 for any other reply. */
size_t dt_reply_count(const dt_reply *reply);
/* i < dt_reply_count. */
const dt_reply *dt_reply_element(const dt_reply *reply, size_t i);

#endif
