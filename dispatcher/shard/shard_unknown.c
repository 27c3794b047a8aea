/*
 * Owns which due jobs wait because nobody can say yet whether their topic can be written: it is being looked up, or
 * stands in the line of those that are made. As long as nothing was found out it tells nothing to lock and read their
 * rows in every leader transaction, and where somebody names hundreds of new topics all others would wait for that.
 *
 * Invariant: a job is passed by only while its topic is being found out, as of the last look at its row, and for
 * AGAIN_US at most: whatever else may have changed is seen then.
 */
#include "shard_parts.h"

#define AGAIN_US INT64_C(1000000)

void dt_shard_note_unknown(dt_shard_loop *l, int64_t id)
{
    struct dt_shard_unknown *unknown = &l->unknown;
    if (unknown->ids.n == 0)
        unknown->since_us = dt_shard_mono_us(l);
    (void)dt_id_set_add(&unknown->ids, id); /* one that finds no room is read again and again */
}

size_t dt_shard_pass_by_unknown(dt_shard_loop *l, size_t n)
{
    struct dt_entry *entries = l->due.entries;
    size_t stay = 0;
    if (dt_shard_mono_us(l) - l->unknown.since_us >= AGAIN_US)
        dt_id_set_empty(&l->unknown.ids);
    if (l->unknown.ids.n == 0)
        return n;
    for (size_t i = 0; i < n; i++)
        if (!dt_id_set_has(&l->unknown.ids, entries[i].id))
            entries[stay++] = entries[i];
    return stay;
}
