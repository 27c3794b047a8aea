/*
 * One connection to one Redis server: connect, AUTH, scripts, pipelines, back-off. Knows no keys. Internal to index/.
 *
 * A turn: dt_link_ready, then any number of commands (dt_link_command + its arguments), then dt_link_flush, then
 * dt_link_read, which gives each reply to on_reply in the order of the commands. Every command must be idempotent:
 * after a NOSCRIPT (somebody flushed the scripts) the whole turn is loaded and sent once more, and so is a turn that
 * met a connection which had ended before any answer came.
 *
 * Statuses: UNAVAILABLE for everything that Redis or the network does. A broken or late connection is dropped (a late
 * answer would be taken for the next command's) and made anew after a back-off, one that had only ended while it lay
 * idle at once and unnoticed; an error *reply* (READONLY, OOM, LOADING, …) leaves the connection as it is. NOMEM when
 * the commands could not be built. One thread a link.
 */
#ifndef DT_INDEX_INDEX_LINK_H
#define DT_INDEX_INDEX_LINK_H

#include "base/clock.h"
#include "base/config.h"
#include "base/strbuf.h"

struct redisReply;
typedef struct dt_link dt_link;

/* host and port of one element of [redis] endpoints. */
struct dt_endpoint {
    char *name, *host; /* name: "host:port", as configured */
    int port;
};
/* Parses the comma list; INVALID names the element. *out: n endpoints, freed by dt_endpoints_free. */
DT_MUST_CHECK dt_status dt_endpoints_parse(const char *list, struct dt_endpoint **out, unsigned *n,
                                           struct dt_error *err);
void dt_endpoints_free(struct dt_endpoint *endpoints, unsigned n);

/* The kernel finds out within about four seconds, and without anybody waking up, that the peer of an idle connection is
 * not there any more. */
void dt_link_keep_alive(int fd);

/* Capped exponential back-off with jitter; a value, zero = never failed. */
struct dt_backoff {
    unsigned failures;
    uint64_t chance;
};
/* One more failure: how long to wait now, in us (20 ms doubling up to 2 s, half of it by chance). */
int64_t dt_backoff_us(struct dt_backoff *backoff, uint64_t salt);

/* config, endpoint, clock and the scripts (n texts, at most DT_LINK_SCRIPTS) are borrowed. Does not connect yet. */
#define DT_LINK_SCRIPTS 13
DT_MUST_CHECK dt_status dt_link_new(const struct dt_config *config, const struct dt_endpoint *endpoint,
                                    const dt_clock *clock, const char *const *scripts, unsigned n_scripts,
                                    dt_link **out);
void dt_link_free(dt_link *link);

bool dt_link_connected(const dt_link *link);
/* The last turn did not succeed. */
bool dt_link_failing(const dt_link *link);
/* Connects when needed, also where the server has ended the connection meanwhile; forgets commands that were not
 * flushed. UNAVAILABLE at once during the back-off. */
DT_MUST_CHECK dt_status dt_link_ready(dt_link *link, struct dt_error *err);
void dt_link_command(dt_link *link, unsigned n_args);
void dt_link_arg(dt_link *link, struct dt_str arg);
void dt_link_arg_i64(dt_link *link, int64_t arg);
/* EVALSHA of script i: n_args counts what follows the number of keys (keys included). */
void dt_link_script(dt_link *link, unsigned script, unsigned n_keys, unsigned n_args);
size_t dt_link_pending(const dt_link *link);

DT_MUST_CHECK dt_status dt_link_flush(dt_link *link, struct dt_error *err);
/* i: the command's number in this turn. Not called for error replies; the first of them becomes the status. NULL:
 * ignore. */
typedef void dt_link_reply_fn(void *arg, size_t i, const struct redisReply *reply);
DT_MUST_CHECK dt_status dt_link_read(dt_link *link, dt_link_reply_fn *on_reply, void *arg, struct dt_error *err);

#endif
