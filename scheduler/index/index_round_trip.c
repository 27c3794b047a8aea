/*
 * Owns the order in which endpoints are written to and read from. Refuses to know what the commands say.
 * Invariant: an endpoint is read exactly when its commands were written.
 */
#include <string.h>

#include "index/index_internal.h"

dt_status dt_index_round_trip(dt_link *link, dt_link_reply_fn *on_reply, void *arg, struct dt_error *err)
{
    dt_status status = dt_link_flush(link, err);

    return status == DT_OK ? dt_link_read(link, on_reply, arg, err) : status;
}

static dt_status send_to(dt_index *index, unsigned i, dt_index_build_fn *build, const void *arg, struct dt_error *err)
{
    dt_status status = dt_link_ready(index->links[i], err);

    index->wanted[i] = false;
    if (status != DT_OK)
        return status;
    build(index, i, arg);
    status = dt_link_flush(index->links[i], err);
    index->sent[i] = status == DT_OK;
    return status;
}

dt_status dt_index_send_wanted(dt_index *index, dt_index_build_fn *build, const void *arg, struct dt_error *err)
{
    dt_status first = DT_OK;

    memset(index->sent, 0, index->n_links * sizeof(*index->sent));
    for (int connected = 1; connected >= 0; connected--) {
        for (unsigned i = 0; i < index->n_links; i++) {
            if (index->wanted[i] && dt_link_connected(index->links[i]) == connected)
                dt_keep_first(&first, send_to(index, i, build, arg, first == DT_OK ? err : NULL));
        }
    }
    return first;
}

dt_status dt_index_receive(dt_index *index, dt_link_reply_fn *on_reply, void *reply_arg, struct dt_error *err)
{
    dt_status first = DT_OK;

    for (unsigned i = 0; i < index->n_links; i++) {
        if (index->sent[i])
            dt_keep_first(&first, dt_link_read(index->links[i], on_reply, reply_arg, first == DT_OK ? err : NULL));
    }
    return first;
}

dt_status dt_index_ask_wanted(dt_index *index, dt_index_build_fn *build, const void *arg, dt_link_reply_fn *on_reply,
                              void *reply_arg, struct dt_error *err)
{
    dt_status sent = dt_index_send_wanted(index, build, arg, err);
    dt_status received = dt_index_receive(index, on_reply, reply_arg, sent == DT_OK ? err : NULL);

    return sent == DT_OK ? received : sent;
}

dt_status dt_index_ask_all(dt_index *index, dt_index_build_fn *build, struct dt_error *err)
{
    memset(index->wanted, 1, index->n_links * sizeof(*index->wanted));
    return dt_index_ask_wanted(index, build, NULL, NULL, NULL, err);
}
