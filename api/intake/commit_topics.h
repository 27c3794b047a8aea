/*
 * Makes the topics that the jobs of a commit name and the snapshot does not know, all of a request together. What a
 * caller may not make is refused to it row by row.
 */
#ifndef DT_API_COMMIT_TOPICS_H
#define DT_API_COMMIT_TOPICS_H

#include "committer.h"
#include "topics/topic_cache.h"

/* Borrowed, all of it. One thread. */
struct dt_commit_topics {
    dt_topic_cache *cache;
    dt_store *store;
    const struct dt_view *view;
    struct dt_topic_wish *wishes; /* room for as many as the commit has rows */
    int64_t begun_us;             /* mono: when the commit began */
};
/* *made: some topic is there now that the snapshot does not know. Statuses as of store/store.h; with any but OK some
 * topics may have been made. */
DT_MUST_CHECK dt_status dt_commit_topics_make(const struct dt_commit_topics *topics, struct dt_unit *units, bool *made,
                                              struct dt_error *err);
/* Marks a row that cannot be inserted. NOT_FOUND: it has no topic. reason: for the caller, or NULL. */
void dt_commit_topics_refuse(struct dt_create *row, dt_status status, const char *reason);

#endif
