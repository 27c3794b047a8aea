/*
 * A fair queue of topics' names, by owner: the first name of each group goes before the second of any, so that an owner
 * who wants very many topics does not keep the others waiting. A group is what stands before a name's first dot, which
 * is how topics of one owner are named, as a rule. Pure; one user at a time. Bounded.
 */
#ifndef DT_DISPATCHER_TOPIC_QUEUE_H
#define DT_DISPATCHER_TOPIC_QUEUE_H

#include "base/strbuf.h"

#define DT_TOPIC_QUEUE_MAX   16384 /* names in all */
#define DT_TOPIC_QUEUE_GROUP 2048  /* and of one group */
#define DT_TOPIC_NAME_MAX    249   /* longer ones are no topics of Kafka */

typedef struct dt_topic_queue dt_topic_queue;

DT_MUST_CHECK dt_status dt_topic_queue_new(dt_topic_queue **out);
void dt_topic_queue_free(dt_topic_queue *queue); /* accepts NULL */
/* OK: the name is in the queue, also when it was before. FULL: no room for it. INVALID: empty or too long. NOMEM. */
dt_status dt_topic_queue_add(dt_topic_queue *queue, struct dt_str name);
/* Takes the name that goes next; false: the queue is empty. */
bool dt_topic_queue_take(dt_topic_queue *queue, char name[DT_TOPIC_NAME_MAX + 1]);
bool dt_topic_queue_has(const dt_topic_queue *queue, struct dt_str name);
size_t dt_topic_queue_length(const dt_topic_queue *queue);

#endif
