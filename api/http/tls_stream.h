/*
 * One connection with TLS: the client's socket, its session, the server's socket, and what is held between them. It
 * moves as much as goes without waiting; its thread calls it again when something has happened on a socket.
 *
 *   SILENT --first byte--> GREETING --handshake--> OPEN --the server has ended--> PARTING --client has ended--> OVER
 *     '--not TLS: handed on--> OVER                  '------- either is lost -----------------------------------> OVER
 *
 * Everything belongs to the stream's thread.
 */
#ifndef DT_API_TLS_STREAM_H
#define DT_API_TLS_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/http/tls_session.h"

#define DT_TLS_PIECE ((size_t)16 * 1024) /* at once, and held at most, each way */

enum dt_tls_phase { DT_TLS_SILENT, DT_TLS_GREETING, DT_TLS_OPEN, DT_TLS_PARTING, DT_TLS_OVER };

/* Why a connection never opened. */
enum dt_tls_failure { DT_TLS_NO_FAILURE, DT_TLS_NOT_TLS, DT_TLS_LEFT, DT_TLS_REFUSED };

/* Bytes that one side has sent and the other one has not taken. */
struct dt_tls_held {
    char *p;
    size_t at, n;
};

struct dt_tls_stream {
    struct dt_tls_stream *prev, *next;           /* the thread's list of all */
    struct dt_tls_stream *turn_prev, *turn_next; /* … of those that may have something to do … */
    struct dt_tls_stream *late_prev, *late_next; /* … and of those that the server has left, or that are parting */
    bool in_turn, greets, late;
    int64_t until_us; /* of one that is late */
    int client, server;
    struct sockaddr_storage address; /* of the client */
    enum dt_tls_phase phase;
    enum dt_tls_failure failure;
    const char *why; /* of REFUSED; static text */
    dt_tls_session *session;
    struct dt_tls_held in, out; /* for the server, for the client */
    bool may_read_client, may_write_client, may_read_server, may_write_server;
    bool client_ended; /* it sends nothing more, and the server was told */
    bool server_deaf;  /* the server takes nothing more: what comes is dropped */
    bool server_gone;  /* it has closed its end */
};

/* Both sockets are the stream's from here on. */
void dt_tls_stream_init(struct dt_tls_stream *stream, int client, int server);
/* Closes what is open. */
void dt_tls_stream_clear(struct dt_tls_stream *stream);
/* Moves one piece in each direction, or makes one step. scratch: of DT_TLS_PIECE bytes. False: nothing goes now. */
bool dt_tls_stream_move(struct dt_tls_stream *stream, dt_tls_files *files, char *scratch);

#endif
