/*
 * Answers that are written past the HTTP library, on sockets that it has no more or never had. dt_part_answer (http.h)
 * answers with a body, dt_parting_problem with a problem; either ends the parting, and the connection.
 */
#ifndef DT_API_HTTP_PARTING_H
#define DT_API_HTTP_PARTING_H

#include "base/clock.h"
#include "http_linger.h"
#include "request/http.h"

/* Takes the socket over, whatever happens. id is copied. The client has patience_us to take the answer. NULL: there
 * was no memory, and the socket is closed. */
dt_parting *dt_parting_new(dt_linger *linger, const dt_clock *clock, int fd, const char *id, int64_t patience_us);
/* Calls ended once the answer is on its way. */
void dt_parting_when_ended(dt_parting *parting, void (*ended)(void *arg), void *arg);
/* Accepts NULL. detail is static text. */
void dt_parting_problem(dt_parting *parting, enum dt_problem_type type, const char *detail);

#endif
