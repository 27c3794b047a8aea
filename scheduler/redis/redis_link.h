/*
 * One connection to one Redis server: connects (redis_connect.h), sends AUTH, scripts and pipelines, backs off after
 * failures, and reads replies. Knows no keys. For index/ only.
 *
 * A round trip: dt_link_ready; any number of commands (dt_link_command or dt_link_script, then the arguments);
 * dt_link_flush; dt_link_read, which passes each reply to on_reply, in the order of the commands. Every command must be
 * idempotent. After a NOSCRIPT (the server lost the scripts), the link loads the scripts and sends all commands again.
 * It also sends all commands again if the connection ends before the first reply.
 *
 * Statuses: UNAVAILABLE for every failure of Redis or the network; NOMEM if the commands could not be built. A
 * connection that breaks or times out is closed, because a late reply would be taken for the next command's reply. The
 * next connection is made after a back-off. If a connection ended while idle, it is replaced at once, without an error.
 * An error reply (READONLY, OOM, LOADING, …) does not close the connection, except READONLY, after which the link looks
 * for the master again. If our user may not load scripts, each call sends the script's text. One thread uses a link at
 * a time.
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
    char *host; /* host name or address; for "master:NAME": NAME */
    int port;   /* TCP port; 0 for "master:NAME" */
    bool master;
};
/* Parses the comma-separated list into n endpoints, freed by dt_endpoints_free. If the list is wrong, returns INVALID,
 * and err names the element. On failure *out is NULL and *n is 0. */
dt_status dt_endpoints_parse(const char *list, struct dt_endpoint **out, unsigned *n, struct dt_error *err);
void dt_endpoints_free(struct dt_endpoint *endpoints, unsigned n);

/* Configures TCP keepalive: the kernel detects within about four seconds that the peer of an idle connection is gone,
 * without waking a thread. */
void dt_link_keep_alive(int fd);

/* Capped exponential back-off with jitter. Initialize with zeros. */
struct dt_backoff {
    unsigned failures;
    uint64_t chance;
};
/* Counts a failure. Returns how long to wait: 20 ms, doubled with each failure up to 2 s; half of this time is
 * random. */
int64_t dt_backoff_us(struct dt_backoff *backoff, uint64_t salt);

#define DT_LINK_SCRIPTS 13
/* Makes a link without connecting. config, endpoint, clock and scripts (n_scripts texts, at most DT_LINK_SCRIPTS) must
 * outlive the link. If memory runs out, returns NOMEM, and *out is NULL. */
dt_status dt_link_new(const struct dt_config *config, const struct dt_endpoint *endpoint, const dt_clock *clock,
                      const char *const *scripts, unsigned n_scripts, dt_link **out);
void dt_link_free(dt_link *link);

bool dt_link_connected(const dt_link *link);
/* Returns whether the last round trip, or the last attempt to connect, failed. */
bool dt_link_failing(const dt_link *link);
/* Drops commands that were not flushed. Connects if there is no connection, or if the server has closed it. During the
 * back-off, returns UNAVAILABLE without connecting. */
dt_status dt_link_ready(dt_link *link, struct dt_error *err);
/* Begins a command. n_args is the number of its arguments, including the command's name. */
void dt_link_command(dt_link *link, unsigned n_args);
void dt_link_arg(dt_link *link, struct dt_str arg);
void dt_link_arg_i64(dt_link *link, int64_t arg);
/* Begins a call of script number `script`. The caller adds n_args arguments; the first n_keys of these are keys. */
void dt_link_script(dt_link *link, unsigned script, unsigned n_keys, unsigned n_args);

dt_status dt_link_flush(dt_link *link, struct dt_error *err);
/* Receives the reply to command number i of the round trip. The reply is borrowed for the call. Not called for an error
 * reply; the first error reply makes dt_link_read fail. */
typedef void dt_link_reply_fn(void *arg, size_t i, const dt_reply *reply);
/* Reads the replies to all commands. on_reply may be NULL. */
dt_status dt_link_read(dt_link *link, dt_link_reply_fn *on_reply, void *arg, struct dt_error *err);

/* ---- replies; their texts are borrowed from the reply ---- */

/* Reads an integer reply. Returns false, and leaves *out unchanged, if the reply is of another type. */
bool dt_reply_integer(const dt_reply *reply, int64_t *out);
/* Returns the bytes of a string, NUL-terminated; absent if the reply is of another type. */
struct dt_str dt_reply_text(const dt_reply *reply);
bool dt_reply_is_nil(const dt_reply *reply);
/* Returns the number of elements of an array; 0 for any other reply. */
size_t dt_reply_count(const dt_reply *reply);
/* Returns element i of an array; i must be below dt_reply_count. */
const dt_reply *dt_reply_element(const dt_reply *reply, size_t i);
