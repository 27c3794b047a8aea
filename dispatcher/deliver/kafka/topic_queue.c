/* Invariants: a name is in the queue at most once, in the list of its group. A group is in the ring while it has names
 * or a debt; a group without both is dropped by the next dt_topic_queue_take. The next name is the first name of the
 * first group in the ring that need not wait. Few groups have a debt and no names, because only names that were handled
 * cause a debt. */
#include "topic_queue.h"

#include <utlist.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/hash.h"

struct entry {
    UT_hash_handle hh;
    struct entry *prev, *next; /* neighbours in the group's list */
    size_t n;
    char name[];
};

struct group {
    UT_hash_handle hh;
    struct group *prev, *next; /* neighbours in the ring of groups */
    struct entry *entries;
    size_t n_entries;
    /* Time from which the group's share covers the cost of all names that were handled. In the future: the group has a
     * debt, and waits. */
    int64_t paid_until_us;
    int64_t owner;
};

struct dt_topic_queue {
    struct entry *entries;
    struct group *groups, *ring;
    size_t length;
};

dt_status dt_topic_queue_new(dt_topic_queue **out)
{
    *out = calloc(1, sizeof(**out));
    return *out ? DT_OK : DT_NOMEM;
}

void dt_topic_queue_free(dt_topic_queue *queue)
{
    char name[DT_TOPIC_NAME_MAX + 1];
    int64_t owner;
    while (queue && dt_topic_queue_take(queue, INT64_MAX, name, &owner))
        ;
    free(queue);
}

size_t dt_topic_queue_length(const dt_topic_queue *queue)
{
    return queue->length;
}

/* Returns the owner's group, or a new group that is not in the ring yet. */
static struct group *find_or_make_group(dt_topic_queue *queue, int64_t owner)
{
    struct group *group = NULL;
    HASH_FIND(hh, queue->groups, &owner, sizeof(owner), group);
    if (group || !(group = calloc(1, sizeof(*group))))
        return group;
    group->owner = owner;
    HASH_ADD(hh, queue->groups, owner, sizeof(owner), group);
    if (!group->hh.tbl) {
        free(group);
        return NULL;
    }
    DL_APPEND(queue->ring, group);
    return group;
}

/* Drops the group if it has no names and no debt. */
static void drop_group_if_idle(dt_topic_queue *queue, struct group *group, int64_t now_us)
{
    if (group->n_entries || group->paid_until_us > now_us)
        return;
    DL_DELETE(queue->ring, group);
    HASH_DEL(queue->groups, group);
    free(group);
}

bool dt_topic_queue_has(const dt_topic_queue *queue, struct dt_str name)
{
    struct entry *entry = NULL;
    HASH_FIND(hh, queue->entries, name.p, name.n, entry);
    return entry;
}

dt_status dt_topic_queue_add(dt_topic_queue *queue, struct dt_str name, int64_t owner)
{
    if (name.n == 0 || name.n > DT_TOPIC_NAME_MAX)
        return DT_INVALID;
    if (dt_topic_queue_has(queue, name))
        return DT_OK;
    if (queue->length >= DT_TOPIC_QUEUE_MAX)
        return DT_FULL;
    struct group *group = find_or_make_group(queue, owner);
    if (!group)
        return DT_NOMEM;
    const bool fits = group->n_entries < DT_TOPIC_QUEUE_GROUP;
    struct entry *entry = fits ? calloc(1, sizeof(*entry) + name.n + 1) : NULL;
    if (entry) {
        memcpy(entry->name, name.p, name.n);
        entry->n = name.n;
        HASH_ADD_KEYPTR(hh, queue->entries, entry->name, entry->n, entry);
    }
    if (entry && entry->hh.tbl) {
        DL_APPEND(group->entries, entry);
        group->n_entries++;
        queue->length++;
        dt_assert_cmp(queue->length, ==, HASH_COUNT(queue->entries));
        return DT_OK;
    }
    free(entry);
    drop_group_if_idle(queue, group, 0);
    return fits ? DT_NOMEM : DT_FULL;
}

static int64_t group_ready_at_us(const struct group *group)
{
    return group->paid_until_us - DT_TOPIC_QUEUE_AHEAD_US;
}

bool dt_topic_queue_take(dt_topic_queue *queue, int64_t now_us, char name[DT_TOPIC_NAME_MAX + 1], int64_t *owner)
{
    struct group *group;
    struct group *next;
    DL_FOREACH_SAFE(queue->ring, group, next)
    {
        if (group->n_entries && group_ready_at_us(group) <= now_us)
            break;
        drop_group_if_idle(queue, group, now_us);
    }
    if (!group)
        return false;
    struct entry *entry = group->entries;
    memcpy(name, entry->name, entry->n + 1);
    *owner = group->owner;
    DL_DELETE(group->entries, entry);
    HASH_DEL(queue->entries, entry);
    free(entry);
    dt_assert_cmp(queue->length, >=, group->n_entries);
    group->n_entries--;
    queue->length--;
    DL_DELETE(queue->ring, group); /* the group moves to the end of the ring, so that other groups are next */
    DL_APPEND(queue->ring, group);
    drop_group_if_idle(queue, group, now_us);
    return true;
}

void dt_topic_queue_charge(dt_topic_queue *queue, int64_t owner, int64_t cost_us, int64_t now_us)
{
    struct group *group = find_or_make_group(queue, owner);
    if (group) /* if memory ran out, the owner is not charged */
        group->paid_until_us = dt_later(group->paid_until_us, now_us) + cost_us * DT_TOPIC_QUEUE_SHARE;
}

bool dt_topic_queue_alone(const dt_topic_queue *queue, int64_t *owner)
{
    const struct group *found = NULL;
    const struct group *group;
    DL_FOREACH(queue->ring, group)
    {
        if (group->n_entries && found)
            return false;
        found = group->n_entries ? group : found;
    }
    *owner = found ? found->owner : 0;
    return found;
}

void dt_topic_queue_forgive(dt_topic_queue *queue, int64_t owner)
{
    struct group *group = NULL;
    HASH_FIND(hh, queue->groups, &owner, sizeof(owner), group);
    if (group)
        group->paid_until_us = 0;
}

int64_t dt_topic_queue_ready_us(const dt_topic_queue *queue, int64_t now_us)
{
    int64_t ready_us = INT64_MAX;
    const struct group *group;
    DL_FOREACH(queue->ring, group)
    {
        if (group->n_entries)
            ready_us = dt_earlier(ready_us, group_ready_at_us(group));
        if (ready_us <= now_us)
            break;
    }
    return ready_us;
}
