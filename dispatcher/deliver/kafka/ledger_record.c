/*
 * The ledger's records, written and judged in one place.
 *
 * Between ledger_offset and our barrier there may be barriers of earlier takeovers, and at most one batch record: the
 * batch that the row says was to be sent, entry for entry (the first send_n of the list in flight). Every record is of
 * this installation and of an epoch below ours. Any other record in the format of the ledger means that MySQL and Kafka
 * contradict each other (MySQL was restored, the ledger was created again, or there is a second installation). The
 * leader must not guess: the shard halts.
 *
 * A stranger's record is not in the format of the ledger: it is not a JSON object that names an installation, as every
 * record of every version is. No dispatcher wrote it, so it proves nothing about a batch. Only the batch's own record
 * shows whether the batch was committed, whatever other records there are; it cannot be removed without a gap in the
 * partition's offsets. So a stranger's record is skipped, and counted, because an operator should know that another
 * client writes into the ledger. A record that claims to be ours is trusted. Detecting a forged one would not help: a
 * client that may write into the ledger and knows the list in flight can also copy the record of an aborted
 * transaction, with any seal it had. Kafka's rights must prevent that (README.md).
 *
 * The record right before ledger_offset is always one of ours, a batch's or a barrier's. So that record is read as
 * well: if another record, or none, is in its place, the ledger was created again, and other records have filled it up
 * to ledger_offset.
 *
 * Records below ledger_offset were checked and settled before. If they are read again, the reader looks for a record
 * that cannot be below ledger_offset: our barrier, or the batch in flight. If such a record is found, the ledger was
 * created again. Epochs and batch numbers below ledger_offset prove nothing: they repeat if MySQL was restored from an
 * older copy and an operator then cleared a halt.
 */
#include "ledger_record.h"

#include "base/assert.h"
#include "base/guard.h"
#include "base/text/json_write.h"

static void put_record_head(struct dt_strbuf *out, const char *uuid, const struct dt_fence *fence)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_word(out, "installation", uuid);
    dt_json_put_int(out, "shard", fence->shard);
    dt_json_put_int(out, "epoch", fence->epoch);
    dt_json_put_int(out, "token", fence->token);
}

void dt_ledger_format_batch(struct dt_strbuf *out, const char *uuid, const struct dt_fence *fence,
                            const struct dt_claim *list, size_t n)
{
    put_record_head(out, uuid, fence);
    dt_json_put_int(out, "batch", fence->batch_no);
    dt_json_name(out, "list");
    dt_inflight_format(list, n, out);
    dt_json_end_object(out);
}

void dt_ledger_format_barrier(struct dt_strbuf *out, const char *uuid, const struct dt_fence *fence)
{
    put_record_head(out, uuid, fence);
    dt_json_end_object(out);
}

dt_status dt_ledger_view_init(struct dt_ledger_view *view, const char *uuid, const struct dt_fence *fence,
                              const struct dt_inflight *inflight)
{
    dt_assert_cmp(fence->send_n, <=, inflight->n);
    *view = (struct dt_ledger_view){.uuid = uuid, .fence = fence, .inflight = inflight};
    return dt_json_new(&view->json);
}

void dt_ledger_view_clear(struct dt_ledger_view *view)
{
    dt_json_free(view->json);
    dt_inflight_clear(&view->scratch);
    view->json = NULL;
}

static bool record_problem(struct dt_ledger_view *view, int64_t offset, const char *text)
{
    snprintf(view->problem, sizeof(view->problem), "ledger offset %lld: %s", (long long)offset, text);
    return false;
}

static int64_t number_member(const struct dt_ledger_view *view, const char *name)
{
    return dt_json_int_of(view->json, dt_json_root(view->json), name);
}

/* Reads the list of attempts in the record into view->scratch. Returns false if the record has no list, or if memory
 * ran out (view->status). */
static bool read_attempt_list(struct dt_ledger_view *view)
{
    const struct dt_json_node *list = dt_json_member(view->json, dt_json_root(view->json), "list");
    dt_status status = list ? dt_inflight_parse(list->raw, &view->scratch) : DT_MALFORMED;
    if (status == DT_NOMEM)
        view->status = status;
    return status == DT_OK;
}

static bool check_batch(struct dt_ledger_view *view, int64_t offset)
{
    if (!read_attempt_list(view))
        return view->status == DT_OK && record_problem(view, offset, "a batch record without a list");
    if (!DT_GUARD(LEDGER_ONE, view->batches++ == 0))
        return record_problem(view, offset, "a second batch record after the settled ones");
    if (!DT_GUARD(LEDGER_LIST,
                  dt_inflight_equal(view->scratch.v, view->scratch.n, view->inflight->v, view->fence->send_n)))
        return record_problem(view, offset, "a batch record that is not the batch in flight");
    return true;
}

/* Returns whether the record is the barrier of this takeover, by its token. An epoch would prove nothing, because
 * epochs repeat if MySQL is restored from an older copy. */
static bool is_own_barrier(const struct dt_ledger_view *view)
{
    return number_member(view, "epoch") == view->fence->epoch &&
           DT_GUARD(BARRIER_TOKEN, number_member(view, "token") == view->fence->token);
}

static bool check_settled_record(struct dt_ledger_view *view, int64_t offset, bool ours)
{
    bool recreated = is_own_barrier(view) || (read_attempt_list(view) && view->scratch.n && view->inflight->n &&
                                              view->scratch.v[0].id == view->inflight->v[0].id &&
                                              view->scratch.v[0].attempt == view->inflight->v[0].attempt);
    if (recreated)
        return record_problem(view, offset, "a new record below the last settled offset: the ledger was recreated");
    if (view->status != DT_OK)
        return false;
    view->anchored |= ours && offset == view->settled_below - 1;
    return true;
}

static bool check_new_record(struct dt_ledger_view *view, int64_t offset, struct dt_str key, bool ours)
{
    bool batch = dt_str_eq(key, DT_LEDGER_BATCH), barrier = dt_str_eq(key, DT_LEDGER_BARRIER);
    if (!ours)
        return record_problem(view, offset, "a record of another installation");
    if (!batch && !barrier)
        return record_problem(view, offset, "a record of a kind that this version does not know");
    if (number_member(view, "epoch") >= view->fence->epoch && !(barrier && is_own_barrier(view)))
        return record_problem(view, offset, "a record of an epoch that is not below this one");
    if (batch)
        return check_batch(view, offset);
    if (!is_own_barrier(view)) /* the record is a barrier of an earlier takeover */
        return true;
    view->barrier = true;
    view->next_offset = offset + 1;
    return false;
}

bool dt_ledger_view_record(void *arg, int64_t offset, struct dt_str key, struct dt_str value)
{
    struct dt_ledger_view *view = arg;
    struct dt_json_limits limits = {.depth = 4};
    struct dt_str uuid = DT_STR_NONE;
    dt_status status = dt_json_parse(view->json, value, &limits, NULL);
    if (status == DT_NOMEM)
        view->status = status;
    if (view->status != DT_OK)
        return false;
    if (status == DT_OK)
        uuid = dt_json_text_of(view->json, dt_json_root(view->json), "installation");
    if (uuid.p) {
        bool ours = dt_str_is(uuid, view->uuid);
        return offset < view->settled_below ? check_settled_record(view, offset, ours)
                                            : check_new_record(view, offset, key, ours);
    }
    /* A stranger's record neither halts the shard nor proves anything. Strangers' records below settled_below were
     * reported before. */
    if (offset < view->settled_below)
        return true;
    if (DT_UNGUARDED(STRANGERS))
        return record_problem(view, offset, "a record that no dispatcher wrote");
    if (view->strangers++ == 0)
        view->stranger_at = offset;
    return true;
}

void dt_ledger_view_again(struct dt_ledger_view *view)
{
    view->batches = view->strangers = 0;
    view->anchored = view->barrier = false;
    view->problem[0] = '\0';
}
