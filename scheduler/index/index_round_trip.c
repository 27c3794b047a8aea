/*
 * Owns the order in which endpoints are written to and read from. Refuses to know what the commands say.
 * Invariant: an endpoint is read exactly when its commands were written.
 */
#include "base/assert.h"
#include "index_internal.h"

dt_status dt_index_round_trip(dt_link *link, dt_link_reply_fn *on_reply, void *arg, struct dt_error *err)
{
    dt_status status = dt_link_flush(link, err);

    return status == DT_OK ? dt_link_read(link, on_reply, arg, err) : status;
}

dt_status dt_index_send_wanted(dt_index *index, dt_index_build_fn *build, struct dt_error *err)
{
    dt_status first = DT_OK;

    for (unsigned i = 0; i < index->n_links; i++)
        dt_assert(!index->sent[i]);
    for (int connected = 1; connected >= 0; connected--) {
        for (unsigned i = 0; i < index->n_links; i++) {
            dt_link *link = index->links[i];

            if (!index->wanted[i] || dt_link_connected(link) != connected)
                continue;
            dt_status status = dt_link_ready(link, first == DT_OK ? err : NULL);
            index->wanted[i] = false;
            if (status == DT_OK) {
                build(index, i);
                status = dt_link_flush(link, first == DT_OK ? err : NULL);
                index->sent[i] = status == DT_OK;
            }
            dt_keep_first(&first, status);
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
        index->sent[i] = false;
    }
    return first;
}

dt_status dt_index_ask_wanted(dt_index *index, dt_index_build_fn *build, struct dt_error *err)
{
    dt_status sent = dt_index_send_wanted(index, build, err);
    dt_status received = dt_index_receive(index, NULL, NULL, sent == DT_OK ? err : NULL);

    return sent == DT_OK ? received : sent;
}
