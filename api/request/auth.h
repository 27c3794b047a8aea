/*
 * Scopes, as sets of bits: those that a token has, and those that a route of the API needs (routes.c). A caller may
 * take the route if its token has all bits of the route's set. Pure.
 */
#ifndef DT_API_AUTH_H
#define DT_API_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text/strbuf.h"
#include "features/tokens/tokens.h"
#include "job/job.h"
#include "quotas.h"
#include "store/store.h"

enum dt_scope {
    DT_SCOPE_NONE = 0, /* no token needed */
    DT_SCOPE_WRITE = 1,
    DT_SCOPE_REPORT = 2,
    DT_SCOPE_READ = 4,
    DT_SCOPE_ADMIN = 8, /* has the others in it */
    /* The whole installation. It stands in no token's text; a token that is bound to topics lacks it. */
    DT_SCOPE_ALL_TOPICS = 16,
    /* Given to whoever has one of the two, for a route whose handler looks further. It stands in no token's text. */
    DT_SCOPE_WRITE_OR_REPORT = 32,
    /* Given to whoever has any of the four. It stands in no token's text. */
    DT_SCOPE_ANY = 64,
    DT_SCOPE_ADMIN_ALL = DT_SCOPE_ADMIN | DT_SCOPE_ALL_TOPICS
};

/*
 * Callers, and what they may do. Tokens are kept in MySQL as SHA-256 hashes; a copy of the list lives here, replaced
 * every two seconds by the chore of health (dt_auth_load). What is doubtful gives less, never more:
 *
 *   no token was ever made, or dt_store_tokens_waive took that back   nobody is asked for one; beyond the loopback:
 *                                                                     nobody gets in
 *   there was one once (the row `installation` says so, or this       without a token nobody gets in, also when none is
 *   process has seen it)                                              left
 *   MySQL not reached yet; or it answers, and does not give the list  the list is unknown: 503
 *   MySQL away after the list was read                                the last list holds
 *   a token's scopes or topics cannot be read                         it may do nothing, or sees nothing
 */

typedef struct dt_auth dt_auth;
struct dt_token_set;

/* A caller: scopes and topics of its token. Refers to the list of tokens that it was found in, until
 * dt_caller_clear. */
struct dt_caller {
    unsigned scopes;              /* enum dt_scope, or-ed; DT_SCOPE_ALL_TOPICS: no prefix binds it */
    struct dt_topic_bound topics; /* else it sees these */
    /* Where callers share threads, those of one number share one queue; of its token, 0 without one. */
    uint8_t fair_queue;
    struct dt_str name;       /* of its token; absent without one */
    struct dt_tenant *tenant; /* its quotas; NULL without a token, and where there are no quotas (dt_auth_use_quotas) */
    struct dt_token_set *set;
};

/* Makes a list that is not known yet. need_tokens: the API listens beyond the loopback, so an empty list lets nobody
 * in. NOMEM: *out is NULL. */
DT_MUST_CHECK dt_status dt_auth_new(bool need_tokens, dt_auth **out);
/* Has callers carry their quotas, which outlive the lists and all callers. Before the first list. */
void dt_auth_use_quotas(dt_auth *auth, dt_quotas *quotas);
/* Accepts NULL. Callers that were found in the list may live longer. */
void dt_auth_free(dt_auth *auth);
/* Replaces the list; its texts are copied. rule: what holds when it is empty. NOMEM: the list stays as it is. */
DT_MUST_CHECK dt_status dt_auth_set(dt_auth *auth, const struct dt_token *tokens, size_t n, enum dt_token_rule rule);
/*
 * Reads the list from MySQL, replaces ours, and sees to it that MySQL remembers that there were tokens. UNAVAILABLE,
 * NOMEM: the list stays as it is. Other statuses: the server answers and does not give the list; the third time in a
 * row the list is unknown from then on. One thread at a time.
 */
DT_MUST_CHECK dt_status dt_auth_load(dt_auth *auth, dt_store *store, struct dt_error *err);
/* Says whether a list was loaded, and holds. Any thread. */
bool dt_auth_known(dt_auth *auth);
/* Returns true if the installation asks for no token, as far as this process knows. Any thread. */
bool dt_auth_open(dt_auth *auth);
/* The number of tokens in the list. Any thread. */
size_t dt_auth_count(dt_auth *auth);

/*
 * Finds the caller by the value of the header Authorization, which is absent when there is none. OK: *caller is filled
 * in; clear it. DENIED: no token, or an unknown one (401). UNAVAILABLE: the list is not known yet (503). Any thread;
 * never waits for I/O.
 */
DT_MUST_CHECK dt_status dt_auth_check(dt_auth *auth, struct dt_str authorization, struct dt_caller *caller);
/* Copies a caller for what outlives its request; the copy is cleared, too. */
void dt_caller_copy(const struct dt_caller *caller, struct dt_caller *out);
/* Gives the reference back. A zero caller may be cleared. */
void dt_caller_clear(struct dt_caller *caller);
/* Says whether the caller has all the bits of the scope. */
static inline bool dt_caller_may(const struct dt_caller *caller, enum dt_scope scope)
{
    return ((unsigned)scope & ~caller->scopes) == 0;
}
/* Says whether no prefix binds the caller. */
static inline bool dt_caller_sees_all(const struct dt_caller *caller)
{
    return dt_caller_may(caller, DT_SCOPE_ALL_TOPICS);
}
/* The topics that bind the caller, borrowed; NULL: it sees all. For a request's data see request/request.h. */
static inline const struct dt_topic_bound *dt_caller_bound(const struct dt_caller *caller)
{
    return dt_caller_sees_all(caller) ? NULL : &caller->topics;
}

/* ---- making tokens (for the command line) ---- */

#define DT_TOKEN_TEXT_MAX 64
/* Makes a random token: its text ("dt_…", terminated), and its hash. */
DT_MUST_CHECK dt_status dt_auth_make_token(char text[DT_TOKEN_TEXT_MAX], unsigned char hash[32], struct dt_error *err);
/* Parses "write,report" into bits. INVALID: a word is no scope, or empty; err names it. */
DT_MUST_CHECK dt_status dt_scopes_parse(struct dt_str text, unsigned *scopes, struct dt_error *err);
/* Checks that the text is prefixes that a topic's name can begin with, separated by commas. INVALID: err says what is
 * wrong. */
DT_MUST_CHECK dt_status dt_token_topics_check(struct dt_str text, struct dt_error *err);
/* Checks that a name has 1 to 100 letters, digits and . _ - @ :; INVALID otherwise. */
DT_MUST_CHECK dt_status dt_token_name_check(struct dt_str text, struct dt_error *err);

#endif
