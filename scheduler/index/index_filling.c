/*
 * Owns the notes beside sets that are being filled: who fills a set, and how far he has come (lua/filled.lua). Refuses
 * to know the entries (index_fill.c).
 */
#include "index_internal.h"

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
