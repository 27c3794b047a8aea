/*
 * Records in a shard's ledger that no dispatcher wrote: they are counted, and told of in the log, at most once a
 * minute. They change nothing that is sent. One thread's.
 */
#ifndef DT_DISPATCHER_LEDGER_STRANGERS_H
#define DT_DISPATCHER_LEDGER_STRANGERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/metrics.h"

/* All zero at first, but for the shard and the metric, which the owner sets. */
struct dt_ledger_strangers {
    unsigned shard;
    dt_metric *meter;        /* counts the records */
    int64_t n, told;         /* since the process took the shard on; of these, told in the log */
    int64_t met_us, told_us; /* mono; 0 = never */
    int64_t barrier_at;      /* offset of this leadership's barrier */
    int64_t batches;         /* since then */
    int64_t counted;         /* by the offsets of these batches */
    int64_t found, found_at; /* by the last reading of the ledger: how many, and the offset of the first */
};

/* A takeover begins: no batch of the next leadership has been counted. */
void dt_ledger_strangers_begin(struct dt_ledger_strangers *s);
/* A takeover has read the ledger up to its barrier and found n strangers, the first of them at offset `at`. */
void dt_ledger_strangers_read(struct dt_ledger_strangers *s, int64_t n, int64_t at);
/* The takeover is settled, its barrier at this offset: tells of what was read. */
void dt_ledger_strangers_settled(struct dt_ledger_strangers *s, int64_t barrier_at, int64_t now_us);
/* Told of each batch's record, in order: notices strangers by the offsets that they have taken. */
void dt_ledger_strangers_count(struct dt_ledger_strangers *s, int64_t offset, int64_t now_us);
/* Writes a text for operators while strangers were met within the last hour; else an empty one. */
void dt_ledger_strangers_text(const struct dt_ledger_strangers *s, int64_t now_us, char *text, size_t size);

#endif
