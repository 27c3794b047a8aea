/* The interface to Kafka: topics, notices, readers; for deliver/kafka also transactional producers and the ledger. Only
 * kafka_*.c include librdkafka. A handle belongs to one thread unless its comment says thread-safe. librdkafka's own
 * threads only post events to a handle. */
#pragma once

#include "base/clock.h"
#include "base/config.h"
#include "features/outbox/kafka_message.h"
#include "job/job.h"

typedef struct dt_kafka_admin dt_kafka_admin;

/* What all handles share. Borrowed by every handle; must outlive all handles. */
struct dt_kafka_env {
    const struct dt_config *config;
    const char *installation, *uuid;
    unsigned shards; /* number of shards at the start of the process; a new ledger gets as many partitions */
    /* Where producers look up the size limits of topics. NULL: producers assume Kafka's default limit. */
    dt_kafka_admin *admin;
    bool topics_ready; /* whether the installation's own topics existed when this process started */
};

/* Waits, at most timeout_ms, until the background threads have destroyed all freed handles. Called before a process
 * ends. */
void dt_kafka_drain(int timeout_ms);

/* Checks [kafka] client.* without connecting. INVALID: duetime's guarantees depend on this setting, librdkafka does not
 * know it, its value is invalid, or the token is invalid. err names the setting, but never its value. */
dt_status dt_kafka_check(const struct dt_config *config, struct dt_error *err);
/* Applies [kafka] client.* of a reloaded configuration to the running one, and reads the files that these settings name
 * again. Open handles get the user and password of SASL, or the token, and are replaced as soon as they are not in use;
 * a leader's producers keep the old settings until they are created again. If a setting is refused (dt_kafka_check),
 * nothing changes. */
dt_status dt_kafka_renew(const struct dt_config *running, const struct dt_config *fresh, struct dt_error *err);
/* Prints commands for kafka-acls.sh that grant exactly the rights that a dispatcher needs. */
void dt_kafka_print_acls(const struct dt_config *config, FILE *out);

/* ---- topics (kafka_admin.c, kafka_topics.c): one handle a process, thread-safe ---- */
dt_status dt_kafka_admin_new(const struct dt_kafka_env *env, dt_kafka_admin **out, struct dt_error *err);
void dt_kafka_admin_free(dt_kafka_admin *admin);
/* Creates the installation's topics if they are missing: <installation>.ledger (one partition per shard,
 * retention.ms=-1, cleanup.policy=delete), .results, .results.rejected, .commands, .commands.rejected, .dead and
 * .alerts. Adds partitions to the ledger if there are more shards than partitions. REFUSED: the ledger's settings are
 * wrong. */
dt_status dt_kafka_admin_prepare(dt_kafka_admin *admin, struct dt_error *err);
enum dt_ledger_care {
    DT_LEDGER_CHECK, /* only checks the ledger; used by each takeover */
    /* Also creates the shard's partition, and all partitions with lower numbers, if they are missing. Only for a shard
     * that was never led: for other shards the check must report a ledger that lost a partition. */
    DT_LEDGER_GROW
};
/* Checks the ledger. REFUSED: it does not have retention.ms=-1 and a partition for the shard. */
dt_status dt_kafka_admin_ledger(dt_kafka_admin *admin, unsigned shard, enum dt_ledger_care care, struct dt_error *err);
struct dt_kafka_topic_info {
    int64_t max_message_bytes;
    int partitions;
    int replicas, brokers; /* replicas of the partition with the fewest, and brokers; 0: Kafka does not report it */
    int64_t min_in_sync;   /* min.insync.replicas; 0: Kafka does not report it */
    bool elects_unclean;   /* unclean.leader.election.enable */
};
struct dt_kafka_state { /* the topics of the installation */
    struct {
        char name[250];
        bool there;
        struct dt_kafka_topic_info info; /* without max_message_bytes and partitions */
    } topics[DT_KAFKA_OWN_TOPICS];
};
/* Reads the settings of all topics of the installation; creates no topic. UNAVAILABLE: Kafka does not answer. */
dt_status dt_kafka_admin_examine(dt_kafka_admin *admin, struct dt_kafka_state *out, struct dt_error *err);
/* Returns the properties of a topic. Properties are looked up again after 30 s (in the background, if the topic was
 * writable before). If the topic is missing and auto_create_partitions > 0, it is created. REFUSED: the topic does not
 * exist and cannot be created, or may not be written; this answer is cached for 5 s. UNAVAILABLE: Kafka does not
 * answer, or cannot report the topic now. */
dt_status dt_kafka_admin_topic(dt_kafka_admin *admin, struct dt_str topic, struct dt_kafka_topic_info *out,
                               struct dt_error *err);
/* Looks up all of these topics in few requests. If the status is not OK, it is that of the first failure, and *at_fault
 * is the index of the topic that failed. */
dt_status dt_kafka_admin_topics(dt_kafka_admin *admin, const struct dt_str *topics, size_t n, size_t *at_fault,
                                struct dt_error *err);
/* A topic that a caller has asked for in the last ten minutes (if its lookup failed: in the last minute). */
struct dt_kafka_asked_topic {
    const char *name;
    dt_status status;                /* outcome of the last lookup */
    const char *reason;              /* why the lookup failed; undefined if status is OK */
    struct dt_kafka_topic_info info; /* undefined unless status is OK */
};
/* Receives a topic. Returns true if the topic should be looked up again once its last lookup is old. Must not call the
 * admin. */
typedef bool dt_kafka_hear_topic_fn(void *arg, const struct dt_kafka_asked_topic *topic);
/* Calls `heard` for each topic that callers looked up recently (struct dt_kafka_asked_topic). Does not wait for Kafka:
 * topics are looked up again in the background. Thread-safe. */
void dt_kafka_admin_tell_asked(dt_kafka_admin *admin, dt_kafka_hear_topic_fn *heard, void *arg);
/* A user of the admin that never waits. If a lookup returned BUSY, `told` is called on a thread of the admin when an
 * answer may be available; `told` must not call the admin. The asker must be freed before the admin; `told` is not
 * called after that. */
typedef struct dt_kafka_asker dt_kafka_asker;
dt_status dt_kafka_asker_new(dt_kafka_admin *admin, void (*told)(void *arg), void *arg, dt_kafka_asker **out);
void dt_kafka_asker_free(dt_kafka_asker *asker); /* accepts NULL */
/* Looks up a topic as dt_kafka_admin_topic does, but returns at once. BUSY: the topic is not known yet, and is being
 * looked up. If an owner asks for many topics, this delays no topics of other owners. */
dt_status dt_kafka_asker_ask(dt_kafka_asker *asker, struct dt_str topic, int64_t owner, struct dt_kafka_topic_info *out,
                             struct dt_error *err);

/* Records that jobs of this owner are sent to existing topics. Topics of other owners are then created more slowly,
 * because each creation delays messages. Thread-safe, never blocks for long. */
void dt_kafka_asker_sends(dt_kafka_asker *asker, int64_t owner);

/* Called when a message to the topic failed: the next caller that asks for the topic causes a lookup. */
void dt_kafka_admin_forget(dt_kafka_admin *admin, struct dt_str topic);

/* ---- plain idempotent producer for notices (kafka_producer.c) ---- */
typedef struct dt_notice_producer dt_notice_producer;
dt_status dt_notice_producer_new(const struct dt_kafka_env *env, dt_notice_producer **out, struct dt_error *err);
void dt_notice_producer_free(dt_notice_producer *notices);
/* Sends all messages and waits for every delivery report; sent[i]: whether message i arrived. OK: all arrived. REFUSED:
 * all arrived except those that Kafka will never accept. Waits at most timeout_ms, including the wait for other
 * callers. Thread-safe. */
dt_status dt_notice_producer_send(dt_notice_producer *notices, const struct dt_kafka_message *messages, size_t n,
                                  bool *sent, int timeout_ms, struct dt_error *err);

/* ---- reading a topic of our own, partition by partition (kafka_reader.c) ---- */
typedef struct dt_kafka_reader dt_kafka_reader;
struct dt_kafka_record {
    struct dt_str key, value;
    int32_t partition;
    int64_t offset;
    int64_t timestamp_ms; /* 0: the record has no timestamp */
};
struct dt_kafka_start {
    int32_t partition;
    /* first: offset of the first message that exists; end: offset after the last committed message. */
    int64_t first, end;
    int64_t next; /* output: offset to start at; -1: the partition is not read until partitions are taken again */
};
struct dt_kafka_reading {
    const char *suffix; /* the topic and the consumer group are both named <installation>.<suffix> */
    size_t bytes;       /* a poll ends when its records reach this size; 0: no limit */
    /* Sets the offsets at which reading of the partitions begins. NULL: at the group's committed offset, or at the
     * earliest if there is none. If begin is set, an offset that no longer exists fails the poll, and the reader begins
     * again with the next dt_kafka_reader_share. */
    dt_status (*begin)(void *arg, struct dt_kafka_start *v, size_t n, struct dt_error *err);
    void *arg;
    const _Atomic bool *stop; /* when it is set, dt_kafka_reader_share stops waiting; NULL: it never stops early */
};
#define DT_KAFKA_READS_RESULTS ((struct dt_kafka_reading){.suffix = "results"})
/* Creates a reader of committed messages, without auto commit. Nothing is read before the first
 * dt_kafka_reader_share. */
dt_status dt_kafka_reader_new(const struct dt_kafka_env *env, const struct dt_kafka_reading *how, dt_kafka_reader **out,
                              struct dt_error *err);
void dt_kafka_reader_free(dt_kafka_reader *c);
/* Makes the reader read the partitions whose number modulo `members` is `rank`. A call is cheap if the share has not
 * changed, so callers call it before each poll, but never between a poll and its commit or rewind. Two processes may
 * read a partition for a while. If Kafka does not report the number of partitions, the reader keeps its current
 * partitions. If these return no record either, the next poll fails. */
dt_status dt_kafka_reader_share(dt_kafka_reader *c, unsigned rank, unsigned members, struct dt_error *err);
/* Waits at most wait_ms for a first record (not at all when `stop` is set). Then takes all records that have arrived,
 * at most max, and waits at most linger_ms for more. Records are valid until the next call. n = 0 is common. */
dt_status dt_kafka_reader_poll(dt_kafka_reader *c, size_t max, int wait_ms, int linger_ms, const _Atomic bool *stop,
                               const struct dt_kafka_record **records, size_t *n, struct dt_error *err);
/* Reads all headers of the i-th record of the last poll, in their order, into the arena. */
dt_status dt_kafka_reader_headers(const dt_kafka_reader *c, size_t i, struct dt_arena *arena,
                                  const struct dt_kafka_header **out, size_t *n);
/* Called when all records of the last poll are applied: commits their offsets, at the latest after a quarter of a
 * second if the caller continues to poll. If a poll has reached the end of a partition, commits the end too, so that
 * markers of transactions do not count as unread. */
dt_status dt_kafka_reader_commit(dt_kafka_reader *c, struct dt_error *err);
/* Called when the records of the last poll were not applied: goes back to the offsets before that poll, so that they
 * are read again. */
void dt_kafka_reader_rewind(dt_kafka_reader *c);
/* Gives up all partitions. The next dt_kafka_reader_share takes partitions again, and starts after the last applied
 * record, or at the offsets that reading.begin sets. */
void dt_kafka_reader_restart(dt_kafka_reader *c);
/* Stops reading a partition until the next time that partitions are taken, and drops its records of the last poll.
 * Needs reading.begin. */
void dt_kafka_reader_leave(dt_kafka_reader *c, int32_t partition);
/* Returns whether dt_kafka_reader_restart must be called: records of the last poll were not applied, or the offset to
 * read from no longer exists. */
bool dt_kafka_reader_must_restart(const dt_kafka_reader *c);
/* Returns the number of unread messages in the partitions that are read, as far as Kafka has reported it. */
int64_t dt_kafka_reader_lag(const dt_kafka_reader *c);

/* ---- how far results have been read (kafka_lag.c) ---- */
typedef struct dt_result_lag dt_result_lag;
dt_status dt_result_lag_new(const struct dt_kafka_env *env, dt_result_lag **out, struct dt_error *err);
void dt_result_lag_free(dt_result_lag *lag);
/* Records the current end of every partition of <installation>.results. UNAVAILABLE: Kafka does not answer, and nothing
 * is recorded. */
dt_status dt_result_lag_mark(dt_result_lag *lag, struct dt_error *err);
/* *passed: whether the group's committed offsets have reached the recorded ends in every partition, whichever process
 * reads the partition. UNAVAILABLE: Kafka does not answer, or no ends are recorded. */
dt_status dt_result_lag_passed(dt_result_lag *lag, bool *passed, struct dt_error *err);

/* A shard's partition of the ledger: reading it, and deleting its old records (both in kafka_ledger.c). */

/* Receives a record. Returns false if reading must stop, because the record was the wanted one. */
typedef bool dt_ledger_fn(void *arg, int64_t offset, struct dt_str key, struct dt_str value);

struct dt_ledger_reading {
    int64_t from; /* offset of the first record */
    const dt_clock *clock;
    int64_t deadline_us;      /* until when to wait for records, by the monotonic time of `clock` */
    const _Atomic bool *stop; /* if it is set, reading ends with SHUTDOWN; may be NULL */
    dt_ledger_fn *fn;         /* NULL: only checks whether `from` exists */
    void *arg;                /* passed to fn */
    int64_t next;             /* output, whatever the status: the offset after the last record that was read */
};
/* Reads committed records of the shard's ledger partition until fn returns false. At the end of the partition, waits
 * for further records until the deadline, then returns UNAVAILABLE. INVALID: `from` is out of range. Without fn,
 * returns OK as soon as `from` is known to be in range, or to be the offset of the next record. */
dt_status dt_ledger_read(const struct dt_kafka_env *env, unsigned shard, struct dt_ledger_reading *reading,
                         struct dt_error *err);

/* A running request to delete the records of the shard's ledger partition below an offset. It runs on another
 * thread. */
typedef struct dt_ledger_trim dt_ledger_trim;
/* Sends the request and returns at once. FULL: this process is running another such request; try again. */
dt_status dt_ledger_trim_start(const struct dt_kafka_env *env, unsigned shard, int64_t before, dt_ledger_trim **out,
                               struct dt_error *err);
/* Returns whether the request has ended. *status is then OK if the records are deleted (by this request or an earlier
 * one), otherwise the failure, with err. */
bool dt_ledger_trim_done(dt_ledger_trim *trim, dt_status *status, struct dt_error *err);
/* Frees the request. A running request continues, and its answer is ignored. Accepts NULL. */
void dt_ledger_trim_free(dt_ledger_trim *trim);

/* A shard's producer pair: two transactional producers that send the transactions alternately. One thread owns a pair;
 * librdkafka's threads only post to it. */

typedef struct dt_producer dt_producer;
/* Creates a producer with two transactional ids, used in turn: <installation>-<uuid>-<shard>, and the same with -b.
 * Reads the ledger's metadata, and calls init_transactions for both, so older producers of the shard are fenced and
 * their transactions completed. UNAVAILABLE: this was not done within a transaction timeout; try again. REFUSED: Kafka
 * refuses permanently. SHUTDOWN: `stop` (checked at least every 100 ms) became true. */
dt_status dt_producer_new(const struct dt_kafka_env *env, unsigned shard, const _Atomic bool *stop, dt_producer **out,
                          struct dt_error *err);
/* Frees a pair in any state; never blocks longer than about two seconds. If an open transaction's commit was not
 * requested, the transaction is aborted in the background, provided that its connections are intact and Kafka answers
 * within half a second. Otherwise the next takeover fences it. */
void dt_producer_free(dt_producer *producer);
/*
 * A transaction consists of messages, and one ledger record (key and value given) in partition `shard` of the ledger.
 * After dt_producer_begin librdkafka sends copies of all of them by itself. dt_producer_commit succeeds if every
 * delivery report is in and good, exactly one EndTxn request was sent, and no broker disconnected meanwhile.
 * dt_producer_send begins and commits. Readers of committed messages do not see an open transaction, and cannot read
 * past it. So if a begun transaction is not to be committed, free the producer, which aborts it.
 *   OK       begun; committed, and *ledger_offset is the record's valid offset
 *   REFUSED  Kafka refused one of the messages for good; this call commits nothing, but the producer must be freed.
 *            Never for the ledger record, nor for what concerns the whole producer (no right to its transactional id,
 *            say): those are doubts
 *   DOUBT    anything else: free the producer and take over
 * Retriable errors before EndTxn are retried for at most about the transaction timeout, counted from the begin.
 * Metadata of a topic is requested before the begin, at the topic's first use, for at most as long.
 */
dt_status dt_producer_begin(dt_producer *producer, const struct dt_kafka_message *messages, size_t n,
                            struct dt_str record_key, struct dt_str record_value, struct dt_error *err);
dt_status dt_producer_commit(dt_producer *producer, int64_t *ledger_offset, struct dt_error *err);
dt_status dt_producer_send(dt_producer *producer, const struct dt_kafka_message *messages, size_t n,
                           struct dt_str record_key, struct dt_str record_value, int64_t *ledger_offset,
                           struct dt_error *err);
/* Returns whether dt_producer_begin could send these messages without waiting: their topics are known and accept a
 * whole batch. Valid until the next dt_producer_begin, which must be called with the same messages. */
bool dt_producer_ready(dt_producer *producer, const struct dt_kafka_message *messages, size_t n);

/* Looks up existing topics in one request, before a batch needs them. Waits for at most 0.5 s; ignores failures,
 * because dt_producer_begin looks up unknown topics again. Must not be called while a transaction is open. */
void dt_producer_meet(dt_producer *producer, const struct dt_str *topics, size_t n);

/* What Kafka refused, after REFUSED. Valid until the producer is freed. */
struct dt_kafka_refusal {
    const char *topic; /* topic of the refused message; empty: Kafka did not report the topic */
    bool whole_topic;  /* Kafka accepts no message to the topic at all (it is missing, or not authorised) */
};
struct dt_kafka_refusal dt_producer_refusal(const dt_producer *producer);
