/* The version of all topics together, by which processes know that what they have read of topics is old. */
#ifndef DT_TOPIC_TOPICS_VERSION_H
#define DT_TOPIC_TOPICS_VERSION_H

#include "mysql/db.h"

/* Raises installation.topics_version by a random step, inside the caller's transaction. SYSTEM: no random numbers. */
DT_MUST_CHECK dt_status dt_topics_raise_version(dt_db *db, struct dt_error *err);

#endif
