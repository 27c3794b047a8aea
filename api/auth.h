/*
 * Who calls, and what they may do. Tokens are kept in MySQL as SHA-256 hashes; a copy of the list lives here, replaced
 * every two seconds by the health thread (dt_auth_load). No token at all: nobody is asked for one (unless listening
 * beyond the loopback: then nobody gets in). MySQL never reached yet: the list is unknown, every request that needs a
 * scope gets 503; reached before: the last list holds.
 */
#ifndef DT_API_AUTH_H
#define DT_API_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/strbuf.h"
#include "router.h"
#include "store/store.h"

typedef struct dt_auth dt_auth;
struct dt_token_set;

/* A caller: scopes and topics of its token. Holds a reference until dt_caller_clear (http does both). */
struct dt_caller {
    unsigned scopes;               /* enum dt_scope, or-ed; admin has all bits */
    const struct dt_str *prefixes; /* topics must begin with one of these */
    size_t n_prefixes;             /* 0 = all topics */
    struct dt_token_set *set;
};

/* need_tokens: listening beyond the loopback, so an empty list lets nobody in. */
DT_MUST_CHECK dt_status dt_auth_new(bool need_tokens, dt_auth **out);
void dt_auth_free(dt_auth *auth);
/* Replaces the list (its texts are copied). */
DT_MUST_CHECK dt_status dt_auth_set(dt_auth *auth, const struct dt_token *tokens, size_t n);
/* Reads the list from MySQL. */
DT_MUST_CHECK dt_status dt_auth_load(dt_auth *auth, dt_store *store, struct dt_error *err);
bool dt_auth_known(dt_auth *auth); /* a list was loaded */
size_t dt_auth_count(dt_auth *auth);

/*
 * authorization: the header's value, absent when there is none. OK: *caller is filled (clear it). DENIED: no token or
 * an unknown one (401). UNAVAILABLE: the list is not known yet (503). Thread-safe, never blocks on I/O.
 */
DT_MUST_CHECK dt_status dt_auth_check(dt_auth *auth, struct dt_str authorization, struct dt_caller *caller);
void dt_caller_clear(struct dt_caller *caller);
static inline bool dt_caller_may(const struct dt_caller *caller, enum dt_scope scope)
{
    return ((unsigned)scope & ~caller->scopes) == 0;
}
/* Does the caller see this topic? When not, answer as if the thing did not exist (404). */
bool dt_caller_sees(const struct dt_caller *caller, struct dt_str topic);

/* ---- making tokens (for the command line) ---- */
#define DT_TOKEN_TEXT_MAX 64
/* A new random token as text ("dt_…"), and its hash. */
DT_MUST_CHECK dt_status dt_auth_make_token(char text[DT_TOKEN_TEXT_MAX], unsigned char hash[32], struct dt_error *err);
/* "write,report" (commas or spaces) -> bits. INVALID names the word. */
DT_MUST_CHECK dt_status dt_scopes_parse(struct dt_str text, unsigned *scopes, struct dt_error *err);

#endif
