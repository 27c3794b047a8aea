/* Topics that the jobs of a commit name and nobody knows: see commit_topics.h. */
#include "commit_topics.h"

static struct dt_topic_wish *find_wish(struct dt_topic_wish *v, size_t n, struct dt_str name)
{
    for (size_t i = 0; i < n; i++)
        if (dt_str_eq(v[i].name, name))
            return &v[i];
    return NULL;
}

static bool made_before(struct dt_topic_wish *v, size_t n, struct dt_str name)
{
    const struct dt_topic_wish *wish = find_wish(v, n, name);
    return wish && wish->status == DT_OK;
}

/* Adds the topics of a unit that nobody knows to the wishes, behind those of units before; up to where. Another caller
 * may be allowed to make what was refused to one before. */
static size_t wish_for(const struct dt_commit_topics *topics, const struct dt_unit *unit, size_t before)
{
    struct dt_str last = DT_STR_NONE; /* batches repeat their topics */
    size_t n = before;
    for (size_t i = 0; i < unit->n - unit->n_over; i++) {
        const struct dt_new_job *job = &unit->rows[i].row.job;
        if (last.p && dt_str_eq(job->topic, last))
            continue;
        last = job->topic;
        if (dt_view_topic(topics->view, last) || made_before(topics->wishes, before, last) ||
            find_wish(topics->wishes + before, n - before, last))
            continue;
        topics->wishes[n++] = (struct dt_topic_wish){.name = last,
                                                     .caller = unit->caller,
                                                     .delivery = job->by_command ? DT_DELIVERY_PULL : DT_DELIVERY_UNSET,
                                                     .since_us = topics->begun_us};
    }
    return n;
}

void dt_commit_topics_refuse(struct dt_create *row, dt_status status, const char *reason)
{
    row->row.outcome = status == DT_NOT_FOUND ? DT_INSERT_NO_TOPIC : DT_INSERT_REFUSED;
    row->reason = reason;
}

/* Refuses the rows whose topic may not be made. True: some topic is there now. */
static bool take_answers(struct dt_unit *unit, struct dt_topic_wish *wishes, size_t n)
{
    bool some = false;
    for (size_t i = 0; n && i < unit->n - unit->n_over; i++) {
        const struct dt_topic_wish *wish = find_wish(wishes, n, unit->rows[i].row.job.topic);
        if (wish && wish->status != DT_OK)
            dt_commit_topics_refuse(&unit->rows[i], wish->status, wish->reason);
        some |= wish && wish->status == DT_OK;
    }
    return some;
}

dt_status dt_commit_topics_make(const struct dt_commit_topics *topics, struct dt_unit *units, bool *made,
                                struct dt_error *err)
{
    size_t before = 0;
    dt_status status = DT_OK;
    *made = false;
    for (struct dt_unit *unit = units; unit && status == DT_OK; unit = unit->next) {
        struct dt_topic_wish *wishes = topics->wishes + before;
        size_t n = wish_for(topics, unit, before) - before;
        status = dt_topic_cache_ensure(topics->cache, topics->store, wishes, n, err);
        *made |= status == DT_OK && take_answers(unit, wishes, n);
        before += n;
    }
    return status;
}
