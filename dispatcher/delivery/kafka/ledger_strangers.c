/*
 * Owns:            counting records of the ledger that no dispatcher wrote, and telling of them.
 * Refuses to know: how a stranger's record is told from one of ours (ledger_record.c).
 */
#include "ledger_strangers.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/log.h"

#define TELL_AGAIN_US INT64_C(60000000)
#define LATELY_US     INT64_C(3600000000)

void dt_ledger_strangers_begin(struct dt_ledger_strangers *s)
{
    s->batches = s->counted = 0;
}

void dt_ledger_strangers_read(struct dt_ledger_strangers *s, int64_t n, int64_t at)
{
    s->found = n;
    s->found_at = at;
}

static void tell(struct dt_ledger_strangers *s, int64_t n, int64_t offset, int64_t now_us)
{
    dt_metric_add(s->meter, n);
    s->n += n;
    s->met_us = now_us;
    if (s->told_us && now_us - s->told_us < TELL_AGAIN_US)
        return;
    DT_LOG(ERROR, "shard", "the ledger has records that no dispatcher wrote: somebody may write there who should not",
           DT_I("shard", s->shard), DT_I("records", s->n - s->told), DT_I("offset", offset));
    s->told_us = now_us;
    s->told = s->n;
}

void dt_ledger_strangers_settled(struct dt_ledger_strangers *s, int64_t barrier_at, int64_t now_us)
{
    s->barrier_at = barrier_at;
    if (s->found)
        tell(s, s->found, s->found_at, now_us);
}

/*
 * At a leadership's n-th batch after its barrier, the partition has in between n - 1 records of ours and at most n
 * markers, one a transaction. Any more are not ours.
 */
void dt_ledger_strangers_count(struct dt_ledger_strangers *s, int64_t offset, int64_t now_us)
{
    s->batches++;
    int64_t n = offset - (s->barrier_at + 2 * s->batches);
    if (n <= s->counted)
        return;
    tell(s, n - s->counted, offset, now_us);
    s->counted = n;
}

void dt_ledger_strangers_text(const struct dt_ledger_strangers *s, int64_t now_us, char *text, size_t size)
{
    bool lately = s->met_us && now_us - s->met_us < LATELY_US;
    text[0] = '\0';
    if (lately)
        snprintf(text, size, "%lld records in the ledger are not ours: somebody may write there who should not",
                 (long long)s->n);
}
