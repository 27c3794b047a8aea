/*
 * The ledger's records, written and judged in one place.
 *
 * What may lie between ledger_offset and our barrier: barriers of earlier takeovers, and at most one batch record,
 * which is the batch that the row says was to be sent, entry for entry: the first send_n of what is in flight. Every
 * record is of this installation and of an epoch below ours. Anything else means that MySQL and Kafka do not tell the
 * same story (a restored copy, a recreated topic): nobody may guess, the shard halts.
 *
 * What lies below ledger_offset is settled and was judged in its time. Where it is read once more, what is looked for
 * is a record that cannot be there: our barrier, or the batch in flight. Then offsets have begun anew. Epochs and batch
 * numbers prove nothing there: an operator may have cleared a halt after MySQL went back, and they repeat.
 */
#include "ledger_record.h"

#include "base/guard.h"

static void format_head(struct dt_strbuf *out, const char *uuid, const struct dt_lease *lease)
{
    dt_strbuf_addf(out, "{\"installation\":\"%s\",\"shard\":%u,\"epoch\":%lld,\"token\":%lld", uuid, lease->shard,
                   (long long)lease->epoch, (long long)lease->token);
}

void dt_ledger_format_batch(struct dt_strbuf *out, const char *uuid, const struct dt_lease *lease,
                            const struct dt_claim *list, size_t n)
{
    format_head(out, uuid, lease);
    dt_strbuf_addf(out, ",\"batch\":%lld,\"list\":", (long long)lease->batch_no);
    dt_claims_format(list, n, out);
    dt_strbuf_addc(out, '}');
}

void dt_ledger_format_barrier(struct dt_strbuf *out, const char *uuid, const struct dt_lease *lease)
{
    format_head(out, uuid, lease);
    dt_strbuf_addc(out, '}');
}

dt_status dt_ledger_view_init(struct dt_ledger_view *view, const char *uuid, const struct dt_lease *lease,
                              const struct dt_claims *inflight)
{
    *view = (struct dt_ledger_view){.uuid = uuid, .lease = lease, .inflight = inflight};
    return dt_json_new(&view->json);
}

void dt_ledger_view_clear(struct dt_ledger_view *view)
{
    dt_json_free(view->json);
    dt_claims_clear(&view->scratch);
    view->json = NULL;
}

static bool problem(struct dt_ledger_view *view, int64_t offset, const char *text)
{
    snprintf(view->problem, sizeof view->problem, "ledger offset %lld: %s", (long long)offset, text);
    return false;
}

static int64_t number(const struct dt_ledger_view *view, const char *name)
{
    const struct dt_json_node *node = dt_json_member(view->json, dt_json_root(view->json), name);
    return node && node->type == DT_JSON_INT ? node->i : 0;
}

static bool judge_batch(struct dt_ledger_view *view, int64_t offset)
{
    const struct dt_json_node *list = dt_json_member(view->json, dt_json_root(view->json), "list");
    if (!list || dt_claims_parse(list->raw, &view->scratch) != DT_OK)
        return problem(view, offset, "a batch record without a list");
    if (!DT_GUARD(LEDGER_ONE, view->batches++ == 0))
        return problem(view, offset, "a second batch record after the settled ones");
    if (!DT_GUARD(LEDGER_LIST,
                  dt_claims_equal(view->scratch.v, view->scratch.n, view->inflight->v, view->lease->send_n)))
        return problem(view, offset, "a batch record that is not the batch in flight");
    return true;
}

/* Known by its token: epochs repeat when MySQL goes back in time. */
static bool is_own(const struct dt_ledger_view *view)
{
    return number(view, "epoch") == view->lease->epoch &&
           DT_GUARD(BARRIER_TOKEN, number(view, "token") == view->lease->token);
}

static bool judge_barrier(struct dt_ledger_view *view, int64_t offset)
{
    if (!is_own(view))
        return true;
    view->barrier = true;
    view->next_offset = offset + 1;
    return false;
}

static bool begins_with_the_batch_in_flight(struct dt_ledger_view *view)
{
    const struct dt_json_node *list = dt_json_member(view->json, dt_json_root(view->json), "list");
    return list && dt_claims_parse(list->raw, &view->scratch) == DT_OK && view->scratch.n && view->inflight->n &&
           view->scratch.v[0].id == view->inflight->v[0].id &&
           view->scratch.v[0].attempt == view->inflight->v[0].attempt;
}

static bool judge_settled(struct dt_ledger_view *view, int64_t offset, struct dt_str value)
{
    struct dt_json_limits limits = {.depth = 4};
    if (dt_json_parse(view->json, value, &limits, NULL) == DT_OK && dt_json_root(view->json)->type == DT_JSON_OBJECT &&
        (is_own(view) || begins_with_the_batch_in_flight(view)))
        return problem(view, offset, "a new record below what was settled: the ledger was recreated");
    return true;
}

bool dt_ledger_view_record(void *arg, int64_t offset, struct dt_str key, struct dt_str value)
{
    struct dt_ledger_view *view = arg;
    struct dt_json_limits limits = {.depth = 4};
    bool batch = dt_str_eq(key, DT_LEDGER_BATCH), barrier = dt_str_eq(key, DT_LEDGER_BARRIER);
    if (offset < view->settled_below)
        return judge_settled(view, offset, value);
    if ((!batch && !barrier) || dt_json_parse(view->json, value, &limits, NULL) != DT_OK ||
        dt_json_root(view->json)->type != DT_JSON_OBJECT)
        return problem(view, offset, "a record that is not ours");
    const struct dt_json_node *uuid = dt_json_member(view->json, dt_json_root(view->json), "installation");
    if (!uuid || uuid->type != DT_JSON_STRING || !dt_str_is(uuid->str, view->uuid))
        return problem(view, offset, "a record of another installation");
    if (number(view, "epoch") >= view->lease->epoch && !(barrier && is_own(view)))
        return problem(view, offset, "a record of an epoch that is not below this one");
    return batch ? judge_batch(view, offset) : judge_barrier(view, offset);
}
