/*
 * Owns the arguments of lua/change.lua. Refuses to know where the entries come from.
 */
#include "index_internal.h"

#include "base/assert.h"

static const char *const HOW_WORDS[] = {
    [DT_CHANGE_PUT] = "put", [DT_CHANGE_MISSING] = "missing", [DT_CHANGE_FIX] = "fix"};

void dt_change_command(dt_index *index, unsigned shard, const struct dt_change *change)
{
    dt_link *link = dt_index_link(index, shard);
    bool refs = change->how == DT_CHANGE_FIX;

    dt_assert(change->n_gone <= DT_CHUNK && change->n_new <= DT_CHUNK);
    dt_link_script(link, DT_SCRIPT_CHANGE, 1, (unsigned)(5 + 2 * change->n_gone + (refs ? 3 : 2) * change->n_new));
    dt_arg_set(index, link, shard);
    if (change->wake)
        dt_arg_common(index, link, "wake");
    else
        dt_link_arg(link, DT_STR_LIT(""));
    dt_link_arg_i64(link, shard);
    dt_link_arg(link, dt_str(HOW_WORDS[change->how]));
    dt_link_arg_i64(link, (int64_t)change->n_gone);
    for (size_t i = 0; i < change->n_gone; i++)
        dt_arg_entry(link, &change->gone[i]);
    for (size_t i = 0; i < change->n_new; i++) {
        dt_arg_entry(link, &change->new[i]);
        if (refs)
            dt_link_arg_i64(link, change->new[i].ref);
    }
}
