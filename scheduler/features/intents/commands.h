/*
 * Messages of <installation>.commands, and how they are carried out.
 *
 *   read the offset in MySQL ─▶ read messages from it ─▶ decode, carry out ─▶ raise the offset, store answers ─▶ COMMIT
 *                                                        └────────────────── one transaction ──────────────────────┘
 *   ─▶ the outbox sends the answers and deletes them
 *
 * The offset of a partition is in MySQL. It is raised in the transaction of the effects, if it still has the value that
 * the reader knows. So each message takes effect once: if a reader has an older offset, or another reader is active, it
 * changes nothing and gets DEPOSED. The messages of a partition are carried out in order: if one waits (for its topic
 * to be created, or for a row lock), later messages wait, too. Answers are rows until Kafka has them, so each is sent
 * at least once.
 */
#pragma once

#include "intents.h"
#include "job/job_json.h"
#include "job/shard.h"

/* ---- offsets of partitions (commands_store.c) ---- */

struct dt_command_message;
struct dt_command_place {
    int32_t partition;
    int64_t next;                           /* offset of the first message that is not done; 0 = no message was read
                                             * yet */
    int64_t last;                           /* offset of the last message that was done; -1 = unknown */
    unsigned char digest[16];               /* digest of the message at `last` */
    bool halted;                            /* out: the row says that the partition must not be read */
    const struct dt_command_message *up_to; /* used by dt_store_carry_out only: the last message that is done */
    bool touched, stopped;                  /* used by dt_store_carry_out only */
};
/* Computes the digest by which a message is recognized. */
void dt_command_digest(struct dt_str key, struct dt_str value, int64_t timestamp_ms, unsigned char digest[16]);
/* Reads the offsets of partitions, given in ascending order. Inserts a row for a partition without one. */
DT_MUST_CHECK dt_status dt_store_command_places(dt_store *store, struct dt_command_place *v, size_t n,
                                                struct dt_error *err);
/* Writes why a partition must not be read; NULL: it may be read. If its offset has changed, nothing is written. */
DT_MUST_CHECK dt_status dt_store_halt_commands(dt_store *store, const struct dt_command_place *place,
                                               const char *reason, struct dt_error *err);

/* ---- carrying out (command_batch.c) ---- */

struct dt_message_header {
    struct dt_str name, value;
};
/* A message. Texts are borrowed for the call. */
struct dt_command_message {
    struct dt_command_place *place; /* the place of the message's partition */
    int64_t offset, timestamp_ms;   /* timestamp_ms 0 = the message has none */
    struct dt_str key, value;       /* absent = null */
    const struct dt_message_header *headers;
    size_t n_headers;
    struct dt_str reply_to;         /* topic for the answer; absent: no answer is wanted */
    bool patient;                   /* the message may wait until the batch of an earlier attempt is settled */
    bool last_try;                  /* if the message would wait, it is refused instead */
    enum dt_intent_outcome outcome; /* out */
};
/* An answer: a message to Kafka. */
struct dt_command_answer {
    struct dt_str of_topic;          /* topic of the command; absent: none, or the answer was read from a row */
    struct dt_str topic, key, value; /* key, value: absent = null */
    const struct dt_message_header *headers;
    size_t n_headers;
    int64_t row; /* id of the row from which the answer was read */
};
struct dt_command_answers {
    struct dt_command_answer *v;
    size_t n;
};

/* A taker carries messages out, for one thread. All zero at first, except members marked `in`. */
struct dt_command_taker {
    dt_store *store;           /* in */
    struct dt_job_rules rules; /* in */
    dt_json *json;             /* in */
    const char *rejected;      /* in: name of the topic of refused commands */
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
    /* Out; in the taker's arena: numbers of messages that were done, refused, or wait. */
    size_t done, refused, waiting;
    const struct dt_job_move *moves; /* for the index */
    size_t n_moves;
    int64_t *dead; /* jobs with a new dead letter */
    size_t n_dead;
    struct dt_command_answers answers;
    bool topics; /* topics were paused or resumed, so snapshots are old */
    bool again;  /* a waiting message may continue at once, because its topic was created */
};
/* Carries out messages in one transaction, and raises the offsets past the messages that are done or refused. DEPOSED:
 * another reader has raised an offset; nothing was changed. UNKNOWN: everything was changed, or nothing. INTERNAL,
 * CORRUPT and INVALID may be caused by one message: the caller tries fewer messages, and finally a single one with
 * `refuse_all`. */
DT_MUST_CHECK dt_status dt_store_carry_out(struct dt_command_taker *taker, struct dt_command_batch *batch,
                                           bool refuse_all, struct dt_error *err);

/* ---- answers, as rows of the outbox (commands_store.c) ---- */

/* Reads the answers of rows with ascending ids. If a row's text cannot be read, it has no answers. */
DT_MUST_CHECK dt_status dt_store_read_command_answers(dt_store *store, dt_json *json, const int64_t *rows, size_t n,
                                                      struct dt_arena *arena, struct dt_command_answers *out,
                                                      struct dt_error *err);
/* Writes answers in the open transaction, which began at now_ms. There is a row for each pair of topics and each
 * million bytes, and a statement for each million bytes. partition: the partition of one of the messages. */
DT_MUST_CHECK dt_status dt_command_answers_insert(struct dt_db *db, struct dt_arena *arena, int32_t partition,
                                                  int64_t now_ms, const struct dt_command_answers *answers,
                                                  struct dt_error *err);
