/*
 * What is wrong with the members of a body, or with query parameters: a list of JSON pointers and reasons, which a
 * refusal shows. Pure.
 */
#ifndef DT_BASE_FAULTS_H
#define DT_BASE_FAULTS_H

#include "base/status.h"
#include "strbuf.h"

#define DT_FAULTS_MAX 100 /* more are counted, not kept */

struct dt_fault {
    struct dt_str pointer; /* JSON pointer into the body; "?name" for a query parameter; "" for the body as a whole */
    struct dt_str reason;
};

/* A value; everything it points at lives in the arena given. n counts all faults, v holds the first DT_FAULTS_MAX. */
struct dt_faults {
    struct dt_arena *arena;
    struct dt_fault *v;
    size_t n, room;
    bool failed; /* memory was out: the faults are not all there */
};
void dt_faults_init(struct dt_faults *faults, struct dt_arena *arena);
/* Adds a fault. Both texts are copied. */
void dt_faults_add(struct dt_faults *faults, const char *pointer, const char *reason);
/* pointer = parent + "/" + name, escaped as RFC 6901 says. */
void dt_faults_add_member(struct dt_faults *faults, const char *parent, struct dt_str name, const char *reason);
/* pointer = parent + "/" + index. */
void dt_faults_add_item(struct dt_faults *faults, const char *parent, size_t index, const char *reason);
/* "?name": a query parameter. */
void dt_faults_add_query(struct dt_faults *faults, struct dt_str name, const char *reason);
void dt_faults_addf(struct dt_faults *faults, const char *pointer, const char *fmt, ...) DT_PRINTF(3, 4);
/* The status of what was read: NOMEM, INVALID if there are faults, OK. */
static inline dt_status dt_faults_status(const struct dt_faults *faults)
{
    return faults->failed ? DT_NOMEM : faults->n > 0 ? DT_INVALID : DT_OK;
}

#endif
