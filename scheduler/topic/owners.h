/*
 * The owner of a topic. Owners share the capacity (batches, turns, places, quotas) fairly, whatever the number of their
 * topics.
 *
 * All tokens with the same set of prefixes are one owner. A topic belongs to the owner of the longest prefix that the
 * topic's name begins with. If no token has such a prefix, the owner is the part of the name before the first dot. An
 * owner is a number above 0: a hash of the set of prefixes, or of that part of the name.
 */
#pragma once

#include "base/text/strbuf.h"
#include "store/store.h"

/* Returns the owner of a topic that begins with no token's prefix. */
int64_t dt_owner_by_name(struct dt_str topic);

/* The prefixes of all tokens, and their owners. All zero at first. */
struct dt_owners {
    struct dt_owner_prefix {
        struct dt_str prefix;
        int64_t owner;
        size_t of;     /* number of prefixes that the same owner has */
        size_t parent; /* 1 + the index of the longest other prefix that this prefix begins with; 0: none */
    } * v;
    size_t n, cap; /* v: the prefixes, in the caller's arena */
};
/* Adds the prefixes of a token that may make jobs. `topics` is a value of api_tokens.topics; a token for all topics has
 * no prefixes. The text is borrowed. Returns NOMEM if memory runs out. */
dt_status dt_owners_add(struct dt_owners *owners, struct dt_str topics, struct dt_arena *arena);
/* Sorts the prefixes. Must be called after the last prefix was added, and before dt_owners_of. */
void dt_owners_sort(struct dt_owners *owners);
/* Returns the owner of a topic. If several owners have the longest prefix of the topic's name, returns the owner with
 * the fewest prefixes; among these, the one with the smallest number. */
int64_t dt_owners_of(const struct dt_owners *owners, struct dt_str topic);

/* ---- topics.owner, as the tokens determine it; 0: not determined yet, so readers use dt_owner_by_name ---- */

struct dt_db;

/* Computes the owners of all topics again, in pieces. If an owner changed, raises the version of the topics. Also
 * corrects owners that a manual edit changed, or that a migration left at 0. FORBIDDEN: the account may not read the
 * tokens. */
dt_status dt_store_topic_owners_update(dt_store *store, struct dt_error *err);

/* Updates the owners of all topics (dt_store_topic_owners_update) after a token was made or revoked. If the update
 * fails, a dispatcher repeats it within a minute. */
void dt_topic_owners_follow(dt_store *store);

/* Returns true if a token with these scopes (api_tokens.scopes) may make jobs: only such tokens own topics. */
bool dt_scopes_make_jobs(struct dt_str scopes);

/* ---- inside a transaction that holds the lock of all changes of topics ---- */

/* The owners of the topics that one transaction makes. All zero at first. */
struct dt_new_owners {
    struct dt_arena arena; /* the caller clears it */
    struct dt_owners owners;
    bool read, forbidden;
};
/* Returns the owner of a topic that this transaction creates; 0 if the account may not read the tokens. */
dt_status dt_topic_owner_of_new(struct dt_db *db, struct dt_new_owners *new, struct dt_str topic, int64_t *owner,
                                struct dt_error *err);
