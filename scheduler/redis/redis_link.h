/*
 * One connection to one Redis server: connecting (redis_connect.h), AUTH, scripts, pipelines, back-off, and reading
 * replies. Knows no keys. For index/ only.
 *
 * A round trip: dt_link_ready; any number of commands (dt_link_command or dt_link_script, then the arguments);
 * dt_link_flush; dt_link_read, which passes each reply to on_reply, in the order of the commands. Every command must be
 * idempotent. After a NOSCRIPT (the server lost the scripts), the link loads the scripts and sends all commands again.
 * It also sends them again if the connection ends before the first reply.
 *
 * Statuses: UNAVAILABLE for every failure of Redis or the network; NOMEM if the commands could not be built. If a
 * connection breaks or times out, it is closed, because a late reply would be taken for the next command's. A new one
 * is made after a back-off. If a connection ended while idle, it is replaced at once, without an error. An error reply
 * (READONLY, OOM, LOADING, …) does not close the connection; only READONLY makes the link look for the master again. If
 * our user may not load scripts, they are sent as texts each time. One thread uses a link at a time.
 */
#pragma once

#include "base/clock.h"
#include "base/config.h"
#include "base/text/strbuf.h"

typedef struct redisReply dt_reply;
typedef struct dt_link dt_link;

/* One element of [redis] endpoints. */
struct dt_endpoint {
    char *name; /* "host:port" or "master:NAME", as configured */
    char *host; /* or the NAME of a master */
    int port;   /* 0 for a master */
    bool master;
};
/* Parses the comma-separated list. INVALID: err names the element. *out: n endpoints, freed by dt_endpoints_free; NULL
 * and 0 on failure. */
DT_MUST_CHECK dt_status dt_endpoints_parse(const char *list, struct dt_endpoint **out, unsigned *n,
                                           struct dt_error *err);
void dt_endpoints_free(struct dt_endpoint *endpoints, unsigned n);

/* Makes the kernel detect within about four seconds that the peer of an idle connection is gone, without waking a
 * thread. */
void dt_link_keep_alive(int fd);

/* Capped exponential back-off with jitter. Zero at first. */
struct dt_backoff {
    unsigned failures;
    uint64_t chance;
};
/* Counts a failure. Returns the time to wait: from 20 ms, doubled up to 2 s; half of it is random. */
int64_t dt_backoff_us(struct dt_backoff *backoff, uint64_t salt);

#define DT_LINK_SCRIPTS 13
/* Makes a link without connecting. config, endpoint, clock and scripts (n_scripts texts, at most DT_LINK_SCRIPTS)
 * must outlive the link. NOMEM: *out is NULL. */
DT_MUST_CHECK dt_status dt_link_new(const struct dt_config *config, const struct dt_endpoint *endpoint,
                                    const dt_clock *clock, const char *const *scripts, unsigned n_scripts,
                                    dt_link **out);
void dt_link_free(dt_link *link);

bool dt_link_connected(const dt_link *link);
/* Returns whether the last round trip, or the last attempt to connect, failed. */
bool dt_link_failing(const dt_link *link);
/* Drops commands that were not flushed. Connects if there is no connection, or if the server has closed it. During
 * the back-off, returns UNAVAILABLE at once. */
DT_MUST_CHECK dt_status dt_link_ready(dt_link *link, struct dt_error *err);
/* Begins a command of n_args arguments, its name included. */
void dt_link_command(dt_link *link, unsigned n_args);
void dt_link_arg(dt_link *link, struct dt_str arg);
void dt_link_arg_i64(dt_link *link, int64_t arg);
/* Begins a call of script number `script`: n_args arguments follow, the first n_keys of which are keys. */
void dt_link_script(dt_link *link, unsigned script, unsigned n_keys, unsigned n_args);

DT_MUST_CHECK dt_status dt_link_flush(dt_link *link, struct dt_error *err);
/* Receives the reply to command number i of the round trip, borrowed for the call. Not called for an error reply; the
 * first one makes dt_link_read fail. */
typedef void dt_link_reply_fn(void *arg, size_t i, const dt_reply *reply);
/* Reads the replies to all commands. on_reply may be NULL. */
DT_MUST_CHECK dt_status dt_link_read(dt_link *link, dt_link_reply_fn *on_reply, void *arg, struct dt_error *err);

/* ---- replies: texts are borrowed from the reply ---- */

/* Returns false if the reply is not an integer; then *out is unchanged. */
bool dt_reply_integer(const dt_reply *reply, int64_t *out);
/* Returns the bytes of a string, terminated; absent if the reply is not a string. */
struct dt_str dt_reply_text(const dt_reply *reply);
bool dt_reply_is_nil(const dt_reply *reply);
/* Returns the number of elements of an array; 0 for any other reply. */
size_t dt_reply_count(const dt_reply *reply);
/* i must be below dt_reply_count. */
const dt_reply *dt_reply_element(const dt_reply *reply, size_t i);
