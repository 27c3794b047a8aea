/* See backlog.h. Owns which topics have a gauge. */
#include "backlog.h"

#include <stdio.h>
#include <string.h>

#include "figures.h"

#define COUNTED 10000 /* due jobs that are not held, and as many that are offered to pops: dt_store_topics_overdue */

/* NULL: there is no room for another gauge. */
static struct dt_backlog_row *row_of(struct dt_backlog *b, struct dt_str topic)
{
    char label[DT_TOPIC_MAX + 16];
    for (size_t i = 0; i < b->n; i++)
        if (b->rows[i].topic_n == topic.n && memcmp(b->rows[i].topic, topic.p, topic.n) == 0)
            return &b->rows[i];
    if (b->n == DT_BACKLOG_TOPICS || dt_topic_check(topic, DT_STR_NONE))
        return NULL;
    struct dt_backlog_row *row = &b->rows[b->n++];
    memcpy(row->topic, topic.p, topic.n);
    row->topic_n = topic.n;
    snprintf(label, sizeof(label), "topic=\"%s\"", row->topic);
    row->jobs = dt_gauge("duetime_backlog_jobs",
                         "Jobs of the topic that are due and not dispatched, in all of the installation, up to 30,000, "
                         "as a dispatcher counted last whose shards have some; 0 while the topic is paused.",
                         label);
    return row;
}

dt_status dt_backlog_tell(struct dt_backlog *b, dt_store *store, int64_t now_ms, int64_t overdue)
{
    struct dt_topic_overdue *topics = NULL;
    size_t n = 0;
    if (!overdue && !b->shown)
        return DT_OK;
    dt_arena_reset(&b->arena);
    dt_status status = overdue ? dt_store_topics_overdue(store, now_ms, COUNTED, &b->arena, &topics, &n, NULL) : DT_OK;
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < b->n; i++)
        dt_metric_set(b->rows[i].jobs, 0);
    for (size_t i = 0; i < n; i++) {
        struct dt_backlog_row *row = topics[i].paused ? NULL : row_of(b, topics[i].topic);
        if (row)
            dt_metric_set(row->jobs, (double)topics[i].jobs);
    }
    b->shown = n > 0;
    return DT_OK;
}
