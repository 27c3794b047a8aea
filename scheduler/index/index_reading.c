/*
 * Owns the form in which scripts give pages, and the removal of what does not belong into one. Refuses to know which
 * entries were asked for.
 */
#include "index_internal.h"

#include <string.h>


/* member NULL: the page itself. */
static void note_junk(struct dt_reading *reading, const dt_reply *page, const dt_reply *member)
{
    struct dt_junk *junk = &reading->junk[reading->n_junk];
    struct dt_str name = dt_reply_text(page);
    struct dt_str bytes = member ? dt_reply_text(member) : (struct dt_str){0};

    if (reading->n_junk == DT_JUNK_MAX || !name.p || name.n >= sizeof(junk->page) || bytes.n > sizeof(junk->member) ||
        (member && bytes.n == 0))
        return;
    memcpy(junk->page, name.p, name.n + 1);
    if (bytes.n)
        memcpy(junk->member, bytes.p, bytes.n);
    junk->n_member = bytes.n;
    reading->n_junk++;
}

void dt_reading_take(struct dt_reading *reading, const dt_reply *reply, size_t from)
{
    for (size_t i = from; i + 2 < dt_reply_count(reply); i += 3) {
        const dt_reply *page = dt_reply_element(reply, i);
        const dt_reply *entries = dt_reply_element(reply, i + 2);
        size_t n = dt_reply_count(entries);
        double start_ms;

        if (dt_reply_is_nil(entries))
            note_junk(reading, page, NULL);
        if (dt_reply_is_nil(entries) || !dt_reply_number(dt_reply_element(reply, i + 1), &start_ms))
            continue;
        reading->seen += n / 2;
        for (size_t k = 0; k + 1 < n; k += 2) {
            const dt_reply *member = dt_reply_element(entries, k);
            struct dt_entry entry;

            if (!dt_reply_entry(start_ms, member, dt_reply_element(entries, k + 1), &entry))
                note_junk(reading, page, member);
            else if (entry.due_ms < reading->to_ms && reading->n < reading->cap)
                reading->out[reading->n++] = entry;
        }
    }
}

bool dt_reading_tidy(dt_index *index, unsigned shard, const struct dt_reading *reading)
{
    dt_link *link = dt_index_link(index, shard);

    if (reading->n_junk == 0 || dt_link_ready(link, NULL) != DT_OK)
        return false;
    dt_link_script(link, DT_SCRIPT_TIDY, 1, (unsigned)(1 + 2 * reading->n_junk));
    dt_arg_set(index, link, shard);
    for (size_t i = 0; i < reading->n_junk; i++) {
        const struct dt_junk *junk = &reading->junk[i];

        dt_link_arg(link, dt_str(junk->page));
        dt_link_arg(link, (struct dt_str){junk->member, junk->n_member});
    }
    return dt_index_round_trip(link, NULL, NULL, NULL) == DT_OK;
}
