/*
 * Owns the arguments of lua/change.lua. Refuses to know where the entries come from.
 */
#include "index/index_change.h"

#include "index/index_keys.h"
#include "index/lua/index_scripts.h"

static const char *const HOW_WORDS[] = {
    [DT_CHANGE_PUT] = "put", [DT_CHANGE_MISSING] = "missing", [DT_CHANGE_FIX] = "fix"};

void dt_change_command(dt_index *index, unsigned shard, bool wake, enum dt_change_how how, const struct dt_item *gone,
                       size_t n_gone, const struct dt_item *new, size_t n_new)
{
    dt_link *link = dt_index_link(index, shard);
    bool refs = how == DT_CHANGE_FIX;

    dt_link_script(link, DT_SCRIPT_CHANGE, 1, (unsigned)(5 + 2 * n_gone + (refs ? 3 : 2) * n_new));
    dt_arg_set(index, link, shard);
    if (wake)
        dt_arg_channel(index, link);
    else
        dt_arg_word(link, "");
    dt_link_arg_i64(link, shard);
    dt_arg_word(link, HOW_WORDS[how]);
    dt_link_arg_i64(link, (int64_t)n_gone);
    for (size_t i = 0; i < n_gone; i++)
        dt_arg_entry(link, &gone[i]);
    for (size_t i = 0; i < n_new; i++) {
        dt_arg_entry(link, &new[i]);
        if (refs)
            dt_link_arg_i64(link, new[i].ref);
    }
}
