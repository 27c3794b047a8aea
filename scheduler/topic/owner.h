/*
 * The owner of a topic. Batches, turns, places and quotas are shared by owner, however many topics it has. Pure.
 *
 * All tokens with the same set of prefixes are one owner. A topic belongs to the owner of the longest prefix that its
 * name begins with. If no prefix covers the topic, its owner is the part of its name before the first dot. An owner is
 * a number above 0: a hash of the set of prefixes, or of that part of the name.
 */
#ifndef DT_TOPIC_OWNER_H
#define DT_TOPIC_OWNER_H

#include "base/text/strbuf.h"

/* The owner of a topic that no prefix covers. */
int64_t dt_owner_by_name(struct dt_str topic);

/* The prefixes of all tokens. All zero to begin with. */
struct dt_owners {
    struct dt_owner_prefix {
        struct dt_str prefix;
        int64_t owner;
        size_t of;     /* the number of prefixes that the owner has */
        size_t parent; /* 1 + the place of the longest other prefix that begins this one; 0: none */
    } * v;
    size_t n, cap; /* in the arena of the caller */
};
/* Adds the prefixes of a token that can make jobs, as api_tokens.topics lists them; a token for all topics has none.
 * The text is borrowed. NOMEM. */
DT_MUST_CHECK dt_status dt_owners_add(struct dt_owners *owners, struct dt_str topics, struct dt_arena *arena);
/* Called after the last prefix was added, before the first question. */
void dt_owners_sort(struct dt_owners *owners);
/* The owner of a topic. If two have its longest prefix, it is the one with fewer prefixes, then the smaller number. */
int64_t dt_owners_of(const struct dt_owners *owners, struct dt_str topic);

#endif
