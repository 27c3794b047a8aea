/*
 * Detached answers: written past the HTTP library, on a socket that it no longer has or never had. dt_detached_answer
 * (request.h) answers with a body, dt_detached_problem with a problem. Either frees the detached answer, and the
 * connection ends.
 */
#ifndef DT_API_HTTP_DETACHED_H
#define DT_API_HTTP_DETACHED_H

#include "base/clock.h"
#include "http_linger.h"
#include "request/request.h"

/* Takes the socket over, whatever happens. id is copied. The client has patience_us to take the answer. NULL: there
 * was no memory, and the socket is closed. */
dt_detached *dt_detached_new(dt_linger *linger, const dt_clock *clock, int fd, const char *id, int64_t patience_us);
/* The owner for whom the answer is (topic/owners.h): it has a share of the places of answers that are being sent. */
void dt_detached_owned(dt_detached *detached, int64_t owner);
/* ended(arg) is called when the answer was handed to dt_linger. */
void dt_detached_when_ended(dt_detached *detached, void (*ended)(void *arg), void *arg);
/* Accepts NULL. detail is static text. */
void dt_detached_problem(dt_detached *detached, enum dt_problem_type type, const char *detail);

#endif
