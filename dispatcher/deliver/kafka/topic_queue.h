/* A fair queue of topics' names, by owner. A group is the names of one owner (topic/owners.h). The first name of each
 * group is taken before the second name of any group, so that an owner with very many topics does not block other
 * owners. Handling a name costs time. If the names of a group cost more than the group's share, the group waits, and
 * other groups do not (the generic cell rate algorithm, with costs as cells). Costs that delay no other owner are
 * forgiven. Pure; for one thread at a time. Bounded. */
#pragma once

#include "base/text/strbuf.h"

#define DT_TOPIC_QUEUE_MAX   16384 /* maximal number of names */
#define DT_TOPIC_QUEUE_GROUP 2048  /* maximal number of names of one group */
#define DT_TOPIC_NAME_MAX    249   /* longer names are not valid in Kafka */
/* In the long run, the names of a group may take 1/DT_TOPIC_QUEUE_SHARE of the time. In a burst, they may use up to
 * DT_TOPIC_QUEUE_AHEAD_US of this share in advance. */
#define DT_TOPIC_QUEUE_SHARE    20
#define DT_TOPIC_QUEUE_AHEAD_US INT64_C(30000000)

typedef struct dt_topic_queue dt_topic_queue;

dt_status dt_topic_queue_new(dt_topic_queue **out);
void dt_topic_queue_free(dt_topic_queue *queue); /* accepts NULL */
/* Adds a name. OK: the name is in the queue, even if it was before. FULL: the queue or the group is full. INVALID: the
 * name is empty or too long. NOMEM. */
dt_status dt_topic_queue_add(dt_topic_queue *queue, struct dt_str name, int64_t owner);
/* Takes the next name. now_us: the current time. False: the queue is empty, or every group must wait. */
bool dt_topic_queue_take(dt_topic_queue *queue, int64_t now_us, char name[DT_TOPIC_NAME_MAX + 1], int64_t *owner);
/* Charges the owner: handling one of its names took cost_us, and ended at now_us. */
void dt_topic_queue_charge(dt_topic_queue *queue, int64_t owner, int64_t cost_us, int64_t now_us);
/* Returns whether exactly one owner has names in the queue. *owner: that owner. */
bool dt_topic_queue_alone(const dt_topic_queue *queue, int64_t *owner);
/* Forgives the owner's debt, because handling the owner's names so far delayed no other owner. */
void dt_topic_queue_forgive(dt_topic_queue *queue, int64_t owner);
/* Returns when the next name can be taken (a past time: now); INT64_MAX: the queue is empty. */
int64_t dt_topic_queue_ready_us(const dt_topic_queue *queue, int64_t now_us);
bool dt_topic_queue_has(const dt_topic_queue *queue, struct dt_str name);
size_t dt_topic_queue_length(const dt_topic_queue *queue);
