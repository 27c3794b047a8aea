/*
 * A shard's partition of the ledger: reading it (kafka_ledger.c), and deleting its old records (kafka_trim.c).
 */
#ifndef DT_DISPATCHER_KAFKA_LEDGER_H
#define DT_DISPATCHER_KAFKA_LEDGER_H

#include "kafka.h"

/* Takes a record; false: what was looked for came by, and reading stops. */
typedef bool dt_ledger_fn(void *arg, int64_t offset, struct dt_str key, struct dt_str value);

/* Which records are read, for whom, and for how long. */
struct dt_ledger_reading {
    int64_t from; /* offset of the first one */
    const dt_clock *clock;
    int64_t deadline_us;      /* of that clock's mono */
    const _Atomic bool *stop; /* ends it with SHUTDOWN; may be NULL */
    dt_ledger_fn *fn;         /* NULL: it is only asked whether `from` is there */
    void *arg;                /* fn's */
    int64_t next;             /* out, in any case: the offset behind the last record seen */
};
/*
 * Reads committed records of the shard's ledger partition, until fn answers false. An end of the partition is not an
 * end: reads on until the deadline, then UNAVAILABLE. INVALID: `from` is out of range (auto.offset.reset=error).
 * fetch.wait.max.ms = 5. Without fn: OK as soon as it is known that `from` is in range, or is where the next record
 * comes.
 */
DT_MUST_CHECK dt_status dt_ledger_read(const struct dt_kafka_env *env, unsigned shard,
                                       struct dt_ledger_reading *reading, struct dt_error *err);

/* One deletion of the records of the shard's ledger partition below `before`, under way on another thread. */
typedef struct dt_ledger_trim dt_ledger_trim;
/* Asks Kafka and returns at once. FULL: one is under way in this process already; ask again. */
DT_MUST_CHECK dt_status dt_ledger_trim_start(const struct dt_kafka_env *env, unsigned shard, int64_t before,
                                             dt_ledger_trim **out, struct dt_error *err);
/* Has it ended? *status: OK, the records are gone (or were before); else why not, in err. */
bool dt_ledger_trim_done(dt_ledger_trim *trim, dt_status *status, struct dt_error *err);
/* At any time, accepts NULL: one that is under way goes on, and nobody hears of it. */
void dt_ledger_trim_free(dt_ledger_trim *trim);

#endif
