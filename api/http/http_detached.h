/*
 * Answers that are written past the HTTP library, on sockets that it has no more or never had. dt_detached_answer (request.h)
 * answers with a body, dt_detached_problem with a problem; either ends the detached, and the connection.
 */
#ifndef DT_API_HTTP_DETACHED_H
#define DT_API_HTTP_DETACHED_H

#include "base/clock.h"
#include "http_linger.h"
#include "request/request.h"

/* Takes the socket over, whatever happens. id is copied. The client has patience_us to take the answer. NULL: there
 * was no memory, and the socket is closed. */
dt_detached *dt_detached_new(dt_linger *linger, const dt_clock *clock, int fd, const char *id, int64_t patience_us);
/* Calls ended once the answer is on its way. */
void dt_detached_when_ended(dt_detached *detached, void (*ended)(void *arg), void *arg);
/* Accepts NULL. detail is static text. */
void dt_detached_problem(dt_detached *detached, enum dt_problem_type type, const char *detail);

#endif
