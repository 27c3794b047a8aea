/*
 * Callers, and what they may do. Tokens are stored in MySQL as SHA-256 hashes; this process has a copy of the list,
 * which the health chore replaces every two seconds (dt_auth_load). If something is doubtful, callers get fewer rights,
 * never more:
 *
 *   no token was ever created, or the last call was                   on the loopback no token is required; elsewhere
 *   dt_store_tokens_waive                                             every caller is refused
 *   a token existed once (the row `installation` says so, or this     every caller without a token is refused, even if
 *   process has seen it)                                              no token is left
 *   MySQL was not reached yet, or it answers without the list         the list is unknown: 503
 *   MySQL is down, after the list was read                            the last list is used
 *   a token's scopes or topics cannot be read                         the token may do nothing, or sees no topic
 */
#pragma once

#include "base/status.h"
#include "base/text/strbuf.h"
#include "features/tokens/tokens.h"
#include "job/job.h"
#include "quotas.h"
#include "store/store.h"

/* Bits of two sets: the scopes of a token, and the scopes that a route needs (routes.c). A caller may use a route if
 * its token has all bits of the route. */
enum dt_scope {
    DT_SCOPE_NONE = 0, /* the route needs no token */
    DT_SCOPE_WRITE = 1,
    DT_SCOPE_REPORT = 2,
    DT_SCOPE_READ = 4,
    DT_SCOPE_ADMIN = 8, /* includes WRITE, REPORT and READ */
    /* The bits below have no word in a token's list of scopes. ALL_TOPICS: the token is not bound to topics. */
    DT_SCOPE_ALL_TOPICS = 16,
    /* The token has WRITE or REPORT. Used by routes whose handlers check which of the two it has. */
    DT_SCOPE_WRITE_OR_REPORT = 32,
    /* The token has at least one of WRITE, REPORT, READ and ADMIN. */
    DT_SCOPE_ANY = 64,
    DT_SCOPE_ADMIN_ALL = DT_SCOPE_ADMIN | DT_SCOPE_ALL_TOPICS
};

/* The words for scopes in a token's list, in the order in which lists show them. */
#define DT_SCOPE_WORDS 4
extern const struct dt_scope_word {
    enum dt_scope scope;
    const char *word;
} dt_scope_words[DT_SCOPE_WORDS];

typedef struct dt_auth dt_auth;
struct dt_token_set;

/* A caller: the scopes and topics of its token. Holds a reference to the list of tokens until dt_caller_clear. */
struct dt_caller {
    unsigned scopes;              /* bits of enum dt_scope; if DT_SCOPE_ALL_TOPICS is set, the caller sees all topics */
    struct dt_topic_bound topics; /* topics that the caller sees, if DT_SCOPE_ALL_TOPICS is not set */
    /* Callers with the same number share one queue of the workers. The first 255 tokens have different numbers. 0: no
     * token. */
    uint8_t fair_queue;
    struct dt_str name;       /* name of the token; absent if there is no token */
    struct dt_tenant *tenant; /* quotas of the token; NULL without a token, or if dt_auth has no quotas */
    struct dt_token_set *set;
};

/* Creates the state; the list of tokens is unknown until the first load. need_tokens: the API listens beyond the
 * loopback, so an empty list refuses every caller. quotas: callers refer to the quotas of their tokens, which must
 * outlive all lists and callers; NULL: the process uses no quotas. NOMEM: *out is NULL. */
dt_status dt_auth_new(bool need_tokens, dt_quotas *quotas, dt_auth **out);
/* Frees the state. Callers may outlive it. Accepts NULL. */
void dt_auth_free(dt_auth *auth);
/* Replaces the list by a copy of `tokens`. rule: what applies if the list is empty. NOMEM: the list is unchanged. */
dt_status dt_auth_set(dt_auth *auth, const struct dt_token *tokens, size_t n, enum dt_token_rule rule);
/* Reads the list from MySQL and replaces the copy. If the list has tokens but MySQL's row does not say that tokens are
 * required, corrects the row. UNAVAILABLE, NOMEM: the list is unchanged. Other statuses: MySQL answered with an error;
 * after three such loads in a row, the list counts as unknown. Called by one thread at a time. */
dt_status dt_auth_load(dt_auth *auth, dt_store *store, struct dt_error *err);
/* Returns true if the list of tokens is known. Any thread. */
bool dt_auth_known(dt_auth *auth);
/* Returns true if no token is required, as far as this process knows. Any thread. */
bool dt_auth_open(dt_auth *auth);
/* Returns the number of tokens in the list. Any thread. */
size_t dt_auth_count(dt_auth *auth);

/* Finds the caller by the header Authorization, which may be absent. OK: *caller is filled in, and must be cleared.
 * DENIED: no token, or an unknown token (401). UNAVAILABLE: the list is unknown (503). Any thread; no I/O. */
dt_status dt_auth_check(dt_auth *auth, struct dt_str authorization, struct dt_caller *caller);
/* Copies a caller for work that outlives its request. The copy must be cleared separately. */
void dt_caller_copy(const struct dt_caller *caller, struct dt_caller *out);
/* Releases the caller's reference. A caller that is all zeros may be cleared. */
void dt_caller_clear(struct dt_caller *caller);
/* Returns true if the caller has all bits of `scope`. */
static inline bool dt_caller_may(const struct dt_caller *caller, enum dt_scope scope)
{
    return ((unsigned)scope & ~caller->scopes) == 0;
}
/* Returns true if the caller sees all topics. */
static inline bool dt_caller_sees_all(const struct dt_caller *caller)
{
    return dt_caller_may(caller, DT_SCOPE_ALL_TOPICS);
}
/* Returns the topics that the caller sees, borrowed from the caller; NULL: all topics. Handlers call dt_wall_bound
 * instead. */
static inline const struct dt_topic_bound *dt_caller_bound(const struct dt_caller *caller)
{
    return dt_caller_sees_all(caller) ? NULL : &caller->topics;
}

/* ---- creating tokens ---- */

#define DT_TOKEN_TEXT_MAX 64
/* Creates a random token; returns its text ("dt_…", terminated) and its hash. */
dt_status dt_auth_make_token(char text[DT_TOKEN_TEXT_MAX], unsigned char hash[32], struct dt_error *err);
/* Parses a list of scopes, for example "write,report", into bits. INVALID: a word is empty or not a scope; err names
 * it. */
dt_status dt_scopes_parse(struct dt_str text, unsigned *scopes, struct dt_error *err);
/* Checks that the text is a comma-separated list of prefixes with which a topic's name can begin. INVALID: err has the
 * reason. */
dt_status dt_token_topics_check(struct dt_str text, struct dt_error *err);
/* Checks a name: 1 to 100 letters, digits and . _ - @ :; INVALID otherwise. */
dt_status dt_token_name_check(struct dt_str text, struct dt_error *err);
