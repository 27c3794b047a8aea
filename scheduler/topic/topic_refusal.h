/* The reason why a topic cannot be made, in words for whoever asked for it. Pure. */
#ifndef DT_TOPIC_TOPIC_REFUSAL_H
#define DT_TOPIC_TOPIC_REFUSAL_H

#include "store/store.h"
#include "topics.h"

#define DT_TOPIC_REFUSAL_MAX 200 /* room for a text */
/* Writes the text, terminated, with limits and their settings. */
void dt_topic_refusal_text(enum dt_topic_refusal refusal, const struct dt_config *config,
                           char text[DT_TOPIC_REFUSAL_MAX]);

#endif
