/*
 * How keys, markers and entries are written as arguments of a command, and how entries are read from a reply. Internal
 * to index/.
 *
 * A dt_arg_* adds one argument to the command that is being built in `link` (dt_arg_entry adds two); the text is
 * copied.
 */
#ifndef DT_INDEX_INDEX_KEYS_H
#define DT_INDEX_INDEX_KEYS_H

#include "index_internal.h"
#include "index_pack.h"

/* <installation>:{<shard>}:due */
void dt_arg_set(const dt_index *index, dt_link *link, unsigned shard);
/* <installation>:{<shard>}:held */
void dt_arg_registry(const dt_index *index, dt_link *link, unsigned shard);
/* <installation>:{<shard>}:held:<topic> */
void dt_arg_held(const dt_index *index, dt_link *link, unsigned shard, struct dt_str topic);
/* <installation>:<what>: the channels "wake" and "pops", and the key "probe" */
void dt_arg_common(const dt_index *index, dt_link *link, const char *what);
void dt_arg_marker(dt_link *link, struct dt_marker marker);
/* Two arguments: the time and the member. */
void dt_arg_entry(dt_link *link, const struct dt_item *item);

/* The number in a reply that is an integer, or a string of at most 18 decimal digits. False: it is neither; *out may
 * have been written. */
bool dt_reply_any_integer(const dt_reply *reply, int64_t *out);
/* The number in a reply that is a string: an integer, or Redis's notation of a double. False: it is no finite number up
 * to 9e15; *out may have been written. */
bool dt_reply_number(const dt_reply *reply, double *out);
/* The entry that a page which begins at start_ms has as (member, score). False: the pair is no entry of an index; *out
 * may have been written. */
bool dt_reply_entry(double start_ms, const dt_reply *member, const dt_reply *score, struct dt_entry *out);

/* A dt_link_reply_fn that writes an integer reply to *(int64_t *)arg; any other reply leaves it as it is. */
void dt_on_integer(void *arg, size_t i, const dt_reply *reply);

#endif
