/*
 * Messages of <installation>.commands, and how they are carried out.
 *
 *   the offset in MySQL ─▶ read from there ─▶ decode, carry out ─▶ raise the offset, store answers ─▶ COMMIT
 *                                            └──────────────────── one transaction ───────────────────────┘
 *   ─▶ the outbox sends the answers and deletes them
 *
 * The offset of a partition is in MySQL, and rises in the transaction of the effects, if it still has the value that
 * the reader knows. So each message takes effect once: if a reader has an older offset, or another reader is active, it
 * changes nothing and is DEPOSED. The messages of a partition are carried out in order: if one waits (for its topic to
 * be created, for a row lock), later ones wait, too. Answers are rows until Kafka has them, so each is sent at least
 * once.
 */
#pragma once

#include "intents.h"
#include "job/job_json.h"
#include "job/shard.h"

/* ---- offsets of partitions (commands_store.c) ---- */

struct dt_command_message;
struct dt_command_place {
    int32_t partition;
    int64_t next;                           /* offset of the first message that is not done; 0 = never read */
    int64_t last;                           /* offset of the last message that was done; -1 = unknown */
    unsigned char digest[16];               /* digest of that message */
    bool halted;                            /* out: the row says that the partition must not be read */
    const struct dt_command_message *up_to; /* scratch: the last message that is done */
    bool touched, stopped;                  /* scratch */
};
/* Computes the digest by which a message is recognized. */
void dt_command_digest(struct dt_str key, struct dt_str value, int64_t timestamp_ms, unsigned char digest[16]);
/* Reads the offsets of partitions, given in ascending order; inserts a row for a partition that was never read. */
DT_MUST_CHECK dt_status dt_store_command_places(dt_store *store, struct dt_command_place *v, size_t n,
                                                struct dt_error *err);
/* Writes why a partition is not read; NULL: it is read. Does nothing if its offset has changed. */
DT_MUST_CHECK dt_status dt_store_halt_commands(dt_store *store, const struct dt_command_place *place,
                                               const char *reason, struct dt_error *err);

/* ---- carrying out (command_batch.c) ---- */

struct dt_message_header {
    struct dt_str name, value;
};
/* A message. Texts are borrowed for the call. */
struct dt_command_message {
    struct dt_command_place *place; /* place of its partition */
    int64_t offset, timestamp_ms;   /* 0 = it has no time */
    struct dt_str key, value;       /* absent = null */
    const struct dt_message_header *headers;
    size_t n_headers;
    struct dt_str reply_to;         /* absent: no answer */
    bool patient;                   /* it may wait until the batch of an earlier attempt is settled */
    bool last_try;                  /* it may not wait: it is refused instead */
    enum dt_intent_outcome outcome; /* out */
};
/* A message to Kafka. */
struct dt_command_answer {
    struct dt_str of_topic;          /* the command's topic; absent: none, or the answer was read from a row */
    struct dt_str topic, key, value; /* key, value: absent = null */
    const struct dt_message_header *headers;
    size_t n_headers;
    int64_t row; /* id of the row from which the answer was read */
};
struct dt_command_answers {
    struct dt_command_answer *v;
    size_t n;
};

/* Carries messages out, for one thread. Zero at first, except members marked `in`. */
struct dt_command_taker {
    dt_store *store;           /* in */
    struct dt_job_rules rules; /* in */
    dt_json *json;             /* in */
    const char *rejected;      /* in: the topic of refused commands */
    struct dt_arena arena;     /* in: initialized; has the outputs of the last call; the caller clears it */
    struct dt_id_block ids;
    struct dt_intent_topics topics;
};
struct dt_command_batch {
    struct dt_command_message *v; /* in: the messages of each partition in their order */
    size_t n;
    struct dt_command_place *places; /* in: all partitions that are read, ascending */
    size_t n_places;
    struct dt_shard_map map; /* in */
    /* Out; in the taker's arena. */
    size_t done, refused, waiting;
    const struct dt_job_move *moves; /* for the index */
    size_t n_moves;
    int64_t *dead; /* jobs with a new dead letter */
    size_t n_dead;
    struct dt_command_answers answers;
    bool topics; /* topics were paused or resumed */
    bool again;  /* a waiting message may continue at once, because its topic was created */
};
/*
 * Carries out messages in one transaction, and raises the offsets past those that are done or refused. DEPOSED: another
 * reader has raised an offset; nothing happened. UNKNOWN: everything happened, or nothing. INTERNAL, CORRUPT and
 * INVALID may be caused by one message: the caller tries fewer messages, and finally a single one with `refuse_all`.
 */
DT_MUST_CHECK dt_status dt_store_carry_out(struct dt_command_taker *taker, struct dt_command_batch *batch,
                                           bool refuse_all, struct dt_error *err);

/* ---- answers, as rows of the outbox (commands_store.c) ---- */

/* Reads the answers of rows with ascending ids. If a row cannot be read, it has no answers. */
DT_MUST_CHECK dt_status dt_store_read_command_answers(dt_store *store, dt_json *json, const int64_t *rows, size_t n,
                                                      struct dt_arena *arena, struct dt_command_answers *out,
                                                      struct dt_error *err);
/* Writes answers in the open transaction, which began at now_ms: one row for each pair of topics and each million
 * bytes, one statement for each million bytes. partition: of one of the messages. */
DT_MUST_CHECK dt_status dt_command_answers_insert(struct dt_db *db, struct dt_arena *arena, int32_t partition,
                                                  int64_t now_ms, const struct dt_command_answers *answers,
                                                  struct dt_error *err);
