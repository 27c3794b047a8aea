/* HTTP/2 on a connection (RFC 9113), by libnghttp2. Each stream is a struct dt_conn with a `parent`. A stream waits in
 * the queues of its thread like an HTTP/1 connection, by the same rules, and its owner cannot tell the difference. The
 * connection itself waits only while it has no streams. */
#pragma once

#include "connection_parts.h"

#define DT_H2_PREFACE ((size_t)24) /* length of the preface, with which every client of HTTP/2 begins */

/* Returns whether the text is the beginning of the preface, as far as it has arrived. */
bool dt_h2_may_begin(struct dt_str text);
/* Makes the connection use HTTP/2. The preface must not have been parsed yet. */
void dt_h2_begin(struct dt_conn *conn);
/* Accepts NULL. */
void dt_h2_free(struct dt_h2 *h2);

/* In a turn of the connection: passes the bytes that were read to libnghttp2. If all earlier responses were sent, adds
 * frames to the turn's responses. Returns true if more frames may follow once these responses were sent. */
bool dt_h2_pass(struct dt_conn *conn, struct dt_str *text);
/* Tells the client that no further stream is served. The connection ends after its present streams. */
void dt_h2_leave(struct dt_conn *conn);
/* Ends all streams, each in a turn of its own, because the client cannot be reached any more. */
void dt_h2_break(struct dt_conn *conn);

/* Runs the turn of a stream: continues with its body, or closes the stream if it is broken and its owner has
 * answered. */
void dt_h2_serve(struct dt_conn *stream);
void dt_h2_answer(struct dt_conn *stream, struct dt_reply *reply);
/* Returns a descriptor that hangs up when the stream breaks; -1: no descriptor is available. */
int dt_h2_poll_fd(struct dt_conn *stream);
