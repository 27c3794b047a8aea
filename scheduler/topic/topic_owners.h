/* topics.owner, as the tokens decide it (topic/owner.h). 0: not decided yet; the reader takes dt_owner_by_name. */
#ifndef DT_TOPIC_TOPIC_OWNERS_H
#define DT_TOPIC_TOPIC_OWNERS_H

#include "owner.h"
#include "store/store.h"

struct dt_db;

/* Decides again for all topics, in pieces, and raises the topics' version if the owner of one changed. Also corrects
 * rows that were edited by SQL, or that a migration left at 0. FORBIDDEN: the account may not read the tokens. */
DT_MUST_CHECK dt_status dt_store_topic_owners_update(dt_store *store, struct dt_error *err);

/* Does so after a token was made or revoked. If it fails, a dispatcher does it within a minute. */
void dt_topic_owners_follow(dt_store *store);

/* Whether a token with these scopes (api_tokens.scopes) makes jobs: only such tokens own topics. */
bool dt_scopes_make_jobs(struct dt_str scopes);

/* ---- inside a transaction that holds the lock of all changes of topics ---- */

/* The owners of topics that are made in one transaction. All zero to begin with. */
struct dt_new_owners {
    struct dt_arena arena; /* the caller clears it */
    struct dt_owners owners;
    bool read, forbidden;
};
/* The owner of a topic that is made; 0 if the account may not read the tokens. */
DT_MUST_CHECK dt_status dt_topic_owner_of_new(struct dt_db *db, struct dt_new_owners *new, struct dt_str topic,
                                              int64_t *owner, struct dt_error *err);

#endif
