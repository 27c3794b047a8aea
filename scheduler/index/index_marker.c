/*
 * Owns a set as a whole: its leader's marker, and its end. Refuses to know when a leader believes in a set.
 */
#include "index_internal.h"

dt_status dt_index_mark(dt_index *index, unsigned shard, struct dt_marker marker, const struct dt_marker *was,
                        bool *intact, bool *gone, struct dt_error *err)
{
    dt_link *link = dt_index_link(index, shard);
    int64_t found = 0;
    dt_status status = dt_link_ready(link, err);

    *intact = *gone = false;
    if (status != DT_OK)
        return status;
    dt_link_script(link, DT_SCRIPT_MARK, 1, 7);
    dt_arg_set(index, link, shard);
    dt_arg_marker(link, marker);
    dt_link_arg_i64(link, marker.generation);
    dt_link_arg_i64(link, marker.oldest);
    if (was)
        dt_arg_marker(link, *was);
    else
        dt_link_arg(link, DT_STR_LIT(""));
    if (marker.filling)
        dt_link_arg_i64(link, dt_marker_life(&marker));
    else
        dt_link_arg(link, DT_STR_LIT(""));
    dt_link_arg_i64(link, marker.map);
    status = dt_index_round_trip(link, dt_on_integer, &found, err);
    *intact = status == DT_OK && found > 0;
    *gone = status == DT_OK && found < 0;
    return status;
}

dt_status dt_index_drop(dt_index *index, unsigned shard, struct dt_error *err)
{
    dt_link *link = dt_index_link(index, shard);
    int64_t left = 0;
    dt_status status;

    do {
        status = dt_link_ready(link, err);
        if (status != DT_OK)
            return status;
        dt_link_script(link, DT_SCRIPT_DROP, 2, 3);
        dt_arg_set(index, link, shard);
        dt_arg_registry(index, link, shard);
        dt_arg_held(index, link, shard, DT_STR_LIT(""));
        status = dt_index_round_trip(link, dt_on_integer, &left, err);
    } while (status == DT_OK && left > 0);
    return status;
}
