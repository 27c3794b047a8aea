/*
 * HTTP/2 on a connection (RFC 9113), by libnghttp2. Each stream is a struct dt_conn with a `parent`: it waits in the
 * queues of its thread as a connection of HTTP/1 does, by the same rules, and its owner cannot tell the difference. The
 * connection itself waits only while it has no streams.
 */
#pragma once

#include "connection_parts.h"

#define DT_H2_PREFACE ((size_t)24) /* bytes that every client of HTTP/2 begins with */

/* The text begins as that, as far as it has come. */
bool dt_h2_may_begin(struct dt_str text);
/* The connection speaks HTTP/2 from here on; its preface is not passed yet. */
void dt_h2_begin(struct dt_conn *conn);
/* Accepts NULL. */
void dt_h2_free(struct dt_h2 *h2);

/* In a turn of the connection: passes what was read, and adds frames to the turn's answers if all earlier ones have
 * left. True: there may be more frames when those have left. */
bool dt_h2_pass(struct dt_conn *conn, struct dt_str *text);
/* Tells the client that no further stream is served. The connection ends after those that there are. */
void dt_h2_leave(struct dt_conn *conn);
/* The client cannot be reached any more: all streams end, each in a turn of its own. */
void dt_h2_break(struct dt_conn *conn);

/* The turn of a stream: goes on with its body, or ends it, if it is broken and its owner has answered. */
void dt_h2_serve(struct dt_conn *stream);
void dt_h2_answer(struct dt_conn *stream, struct dt_reply *reply);
/* A descriptor that hangs up when the stream breaks. -1: there is none left. */
int dt_h2_poll_fd(struct dt_conn *stream);
