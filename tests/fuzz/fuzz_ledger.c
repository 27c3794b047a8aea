/* The ledger's records between a row's offset and a takeover's barrier: lines of the input, each the value of a record
 * (its first byte: 'b' a batch, 'B' a barrier, else another key). Whatever stands there, the view ends with a barrier,
 * or with a problem, or wants more; and a batch counts only if it is the one that the row has. */
#include "deliver/kafka/ledger_record.h"
#include "fuzz.h"

#define UUID "2ba0a1f2-0000-4000-8000-000000000001"

static struct dt_claim list[] = {{101, 1, 1000}, {102, 2, 1001}, {103, 1, 1001}};
static struct dt_fence fence = {.shard = 3, .epoch = 18, .token = 777, .version = 9, .batch_no = 42, .send_n = 2};
static const struct dt_inflight inflight = {.v = list, .n = 3};

static struct dt_str key_of(unsigned char what)
{
    return what == 'b' ? DT_LEDGER_BATCH : what == 'B' ? DT_LEDGER_BARRIER : DT_STR_LIT("else");
}

/* Lines of the input; false from the view ends the reading, as in dt_ledger_read. */
static void feed(struct dt_ledger_view *view, struct input *in)
{
    for (int64_t offset = 5; in->n > 0; offset++) {
        unsigned char what = input_byte(in);
        const char *end = memchr(in->p, '\n', in->n);
        size_t n = end ? (size_t)(end - in->p) : in->n;
        struct dt_str value = exact_copy((struct dt_str){n ? in->p : "", n});
        bool more = dt_ledger_view_record(view, offset, key_of(what), value);
        free_copy(value);
        in->p += n + (end != NULL);
        in->n -= n + (end != NULL);
        MUST(more == (!view->barrier && !view->problem[0]));
        MUST(!view->barrier || view->next_offset == offset + 1);
        if (!more)
            return;
    }
}

/* What we write ourselves is what we take. */
static void check_own(unsigned char batches)
{
    struct dt_ledger_view view;
    struct dt_strbuf batch = {0}, barrier = {0};
    struct dt_fence before = fence;
    before.epoch = 17;
    dt_ledger_format_batch(&batch, UUID, &before, list, 2);
    dt_ledger_format_barrier(&barrier, UUID, &fence);
    MUST(dt_ledger_view_init(&view, UUID, &fence, &inflight) == DT_OK);
    for (unsigned i = 0; i < batches % 3; i++)
        MUST(dt_ledger_view_record(&view, i, DT_LEDGER_BATCH, dt_strbuf_str(&batch)) == (i == 0));
    if (batches % 3 < 2) {
        MUST(!dt_ledger_view_record(&view, 7, DT_LEDGER_BARRIER, dt_strbuf_str(&barrier)));
        MUST(view.barrier && !view.problem[0] && view.batches == batches % 3);
    } else
        MUST(view.problem[0]);
    dt_ledger_view_clear(&view);
    dt_strbuf_clear(&batch);
    dt_strbuf_clear(&barrier);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = {(const char *)data, n};
    struct dt_ledger_view view;
    check_own(input_byte(&in));
    MUST(dt_ledger_view_init(&view, UUID, &fence, &inflight) == DT_OK);
    feed(&view, &in);
    MUST(view.batches <= 1 || view.problem[0]);
    dt_ledger_view_clear(&view);
    return 0;
}
