/*
 * Owns dt_index_fill: sets that were lost are filled again, in packed pages where the server takes them. Refuses to
 * know who reads the entries, and how far the filling has come (index_fill.c).
 *
 * A packed page is made here in Redis's own serialized form and restored as it is (lua/fill.lua), which costs a
 * fraction of adding its entries. Entries that are too few for a page, or of which one millisecond has too many, are
 * added as missing ones.
 */
#include "index_internal.h"

#define PACKED_PAGES 64u /* packed pages of one command */
#define PACKED_LEAST 16u /* fewer entries are not worth a page of their own */

/* ---- commands ---- */

/* Adds a command with the packed pages at the head of items; *done: how many entries it has. False: there is nothing to
 * pack at the head of items, and the first *done of them are to be added as missing ones. */
static bool pack_command(dt_index *index, unsigned shard, const struct dt_item *items, size_t n, size_t *done)
{
    dt_link *link = dt_index_link(index, shard);
    size_t cuts[PACKED_PAGES];
    size_t n_cuts = 0;
    size_t tied = 0;

    *done = 0;
    while (n_cuts < PACKED_PAGES && *done < n) {
        size_t cut = dt_page_cut(items + *done, n - *done, &tied);

        if (cut < PACKED_LEAST)
            break;
        *done += cuts[n_cuts++] = cut;
    }
    if (n_cuts == 0) {
        *done = tied ? dt_at_most(tied, DT_CHUNK) : dt_at_most(n, PACKED_LEAST);
        return false;
    }
    dt_link_script(link, DT_SCRIPT_FILL, 1, (unsigned)(1 + 3 * n_cuts));
    dt_arg_set(index, link, shard);
    for (size_t i = 0; i < n_cuts; items += cuts[i++]) {
        dt_strbuf_reset(&index->page);
        dt_page_pack(&index->page, items, cuts[i]);
        dt_link_arg_i64(link, items[0].due_ms);
        dt_link_arg_i64(link, items[cuts[i] - 1].due_ms);
        dt_link_arg(link, dt_strbuf_str(&index->page));
    }
    return true;
}

static void build_packed(dt_index *index, unsigned shard, size_t n_gone, size_t n_new)
{
    (void)n_gone;
    for (size_t at = 0, done; at < n_new; at += done) {
        const struct dt_item *items = index->batch->new + at;

        if (!pack_command(index, shard, items, n_new - at, &done))
            dt_change_command(index, shard, &(struct dt_change){.how = DT_CHANGE_MISSING, .new = items, .n_new = done});
    }
}

static void build_missing(dt_index *index, unsigned shard, size_t n_gone, size_t n_new)
{
    (void)n_gone;
    for (size_t at = 0, some; at < n_new; at += some) {
        some = dt_at_most(n_new - at, DT_CHUNK);
        dt_change_command(index, shard,
                          &(struct dt_change){.how = DT_CHANGE_MISSING, .new = index->batch->new + at, .n_new = some});
    }
}

/* ---- round trips ---- */

/* Both scripts answer with an integer; 0 means that the server does not take packed pages. */
static void on_filled(void *arg, size_t i, const dt_reply *reply)
{
    int64_t taken = 1;

    (void)i;
    if (dt_reply_integer(reply, &taken) && taken == 0)
        *(bool *)arg = true;
}

static dt_status send_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                           struct dt_error *err)
{
    dt_index_batch_load(index, map, entries, n, INT64_MAX);
    return dt_index_batch_send(index, index->refuses_packed ? build_missing : build_packed, err);
}

dt_status dt_index_end_fill(dt_index *index, struct dt_error *err)
{
    bool refused = false;
    dt_status status = dt_index_receive(index, on_filled, &refused, err);

    if (!refused)
        return status;
    index->refuses_packed = true;
    return dt_index_batch_ask(index, build_missing, err); /* the same entries, one by one */
}

dt_status dt_index_begin_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                              struct dt_error *err)
{
    dt_status first = DT_OK;

    for (; n > DT_INDEX_BATCH_MAX; entries += DT_INDEX_BATCH_MAX, n -= DT_INDEX_BATCH_MAX) {
        dt_keep_first(&first, send_fill(index, map, entries, DT_INDEX_BATCH_MAX, first == DT_OK ? err : NULL));
        dt_keep_first(&first, dt_index_end_fill(index, first == DT_OK ? err : NULL));
    }
    dt_keep_first(&first, send_fill(index, map, entries, n, first == DT_OK ? err : NULL));
    return first;
}

dt_status dt_index_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                        struct dt_error *err)
{
    dt_status begun = dt_index_begin_fill(index, map, entries, n, err);
    dt_status ended = dt_index_end_fill(index, begun == DT_OK ? err : NULL);

    return begun == DT_OK ? ended : begun;
}

/*
 * Owns the notes beside sets that are being filled: who fills a set, and how far he has come (lua/filled.lua). Refuses
 * to know the entries (index_fill.c).
 */

static void on_filling(void *arg, size_t i, const dt_reply *reply)
{
    struct dt_filling *f = ((struct dt_filling **)arg)[i];
    int64_t ours = 0;

    f->wanted = dt_reply_count(reply) == 4 && dt_reply_any_integer(dt_reply_element(reply, 0), &f->life) &&
                dt_reply_any_integer(dt_reply_element(reply, 1), &f->generation) &&
                dt_reply_any_integer(dt_reply_element(reply, 2), &f->done_ms) &&
                dt_reply_any_integer(dt_reply_element(reply, 3), &ours);
    f->ours = f->wanted && ours;
}

/* Asks for the fillings at one endpoint; tell: only for ours, and notes what is done along with it. */
static dt_status ask_endpoint(dt_index *index, dt_link *link, struct dt_filling *fillings, size_t n, bool tell,
                              struct dt_error *err)
{
    struct dt_filling *asked[DT_SHARDS_MAX];
    size_t n_asked = 0;
    dt_status status = DT_OK;

    for (size_t i = 0; i < n && n_asked < DT_SHARDS_MAX; i++) {
        struct dt_filling *f = &fillings[i];
        bool asks = dt_index_link(index, f->shard) == link && (!tell || f->ours);

        if (!asks)
            continue;
        f->wanted = f->ours = false;
        if (n_asked == 0 && status == DT_OK)
            status = dt_link_ready(link, err);
        if (status != DT_OK)
            continue;
        asked[n_asked++] = f;
        dt_link_script(link, DT_SCRIPT_FILLED, 1, tell ? 6 : 4);
        dt_arg_set(index, link, f->shard);
        dt_link_arg_i64(link, index->self);
        dt_link_arg_i64(link, tell && !f->keep ? 0 : DT_FILLING_MS);
        dt_link_arg_i64(link, f->generation);
        if (tell) {
            dt_link_arg_i64(link, f->life);
            dt_link_arg_i64(link, f->done_ms);
        }
    }
    return n_asked ? dt_index_round_trip(link, on_filling, asked, err) : status;
}

dt_status dt_index_fillings(dt_index *index, enum dt_filling_ask ask, struct dt_filling *fillings, size_t n,
                            struct dt_error *err)
{
    const bool tell = ask == DT_FILLING_TELL;
    dt_status first = DT_OK;

    for (unsigned i = 0; i < index->n_links; i++)
        dt_keep_first(&first, ask_endpoint(index, index->links[i], fillings, n, tell, first == DT_OK ? err : NULL));
    return first;
}
