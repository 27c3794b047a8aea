/*
 * Messages of <installation>.commands, and how they are carried out.
 *
 *   read the offset in MySQL ─▶ read messages from it ─▶ decode, carry out ─▶ raise the offset, store answers ─▶ COMMIT
 *                                                        └────────────────── one transaction ──────────────────────┘
 *   ─▶ the outbox sends the answers and deletes them
 *
 * The offset of a partition is in MySQL. It is raised in the transaction that carries out the messages, if it still has
 * the value that the reader expects. So each message takes effect once: a reader that expects an older offset, because
 * another reader is active, changes nothing and gets DEPOSED. The messages of a partition are carried out in order: if
 * one waits (until its topic is created, or for a row lock), later messages wait, too. An answer is stored in a row
 * until Kafka has it, so each answer is sent at least once.
 */
#pragma once

#include "intents.h"
#include "job/job_json.h"
#include "job/shard.h"

/* ---- offsets of partitions (commands_store.c) ---- */

struct dt_command_message;
struct dt_command_place {
    int32_t partition;
    int64_t next;                           /* offset of the first message that was not carried out; 0 = none was read
                                             * yet */
    int64_t last;                           /* offset of the last message that was carried out; -1 = unknown */
    unsigned char digest[16];               /* digest of the message at `last` */
    bool halted;                            /* out: the row in MySQL says that the partition must not be read */
    const struct dt_command_message *up_to; /* private to dt_store_carry_out: the last message that is done */
    /* private to dt_store_carry_out. touched: the batch has a message of the partition; stopped: one of them waits */
    bool touched, stopped;
};
/* Computes the digest of a message. It shows whether the message at `last` is still the same one. */
void dt_command_digest(struct dt_str key, struct dt_str value, int64_t timestamp_ms, unsigned char digest[16]);
/* Reads the offsets of partitions; v is sorted by partition. Inserts a row for a partition that has none. */
dt_status dt_store_command_places(dt_store *store, struct dt_command_place *v, size_t n, struct dt_error *err);
/* Stores the reason why a partition must not be read any more; NULL: it may be read. If its offset in MySQL is not
 * place->next, nothing is written. */
dt_status dt_store_halt_commands(dt_store *store, const struct dt_command_place *place, const char *reason,
                                 struct dt_error *err);

/* ---- carrying out (command_batch.c) ---- */

struct dt_message_header {
    struct dt_str name, value;
};
/* A message. The texts are borrowed during the call. */
struct dt_command_message {
    struct dt_command_place *place; /* offsets of the message's partition */
    int64_t offset, timestamp_ms;   /* timestamp_ms 0 = the message has none */
    struct dt_str key, value;       /* absent = null */
    const struct dt_message_header *headers;
    size_t n_headers;
    struct dt_str reply_to; /* topic to which the answer is sent; absent: no answer is wanted */
    bool patient;  /* the message may wait until the attempt that prevents its change has left the in-flight list */
    bool last_try; /* refuse the message if it would have to wait */
    enum dt_intent_outcome outcome; /* out */
};
/* An answer, which is sent to Kafka as a message. */
struct dt_command_answer {
    struct dt_str of_topic;          /* topic that the command is about; absent: none, or the answer was read from a
                                      * row */
    struct dt_str topic, key, value; /* key, value: absent = null */
    const struct dt_message_header *headers;
    size_t n_headers;
    int64_t row; /* id of the row from which the answer was read; else 0 */
};
struct dt_command_answers {
    struct dt_command_answer *v;
    size_t n;
};

/* The state of a thread that carries messages out. All zero at first, except members marked `in`. */
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
    struct dt_command_message *v; /* in: the messages; those of a partition are in the order of their offsets */
    size_t n;
    struct dt_command_place *places; /* in: all partitions that are read, in ascending order */
    size_t n_places;
    struct dt_shard_map map; /* in */
    /* Out, in dt_command_taker.arena. done, refused, waiting: numbers of messages. */
    size_t done, refused, waiting;
    const struct dt_job_move *moves; /* jobs whose time changed, for the index */
    size_t n_moves;
    int64_t *dead; /* ids of jobs with a new dead letter */
    size_t n_dead;
    struct dt_command_answers answers;
    bool topics; /* a topic was paused or resumed, so snapshots of topics are outdated */
    bool again;  /* the caller should try again at once: a topic that a message waits for was created */
};
/* Carries out messages in one transaction, and raises the offsets past the messages that are done or refused. DEPOSED:
 * another reader has raised an offset; nothing was changed. UNKNOWN: everything was changed, or nothing. INTERNAL,
 * CORRUPT and INVALID may be caused by one message: the caller then tries fewer messages. If a single message still
 * fails, the caller tries it with `refuse_all`, which refuses it. */
dt_status dt_store_carry_out(struct dt_command_taker *taker, struct dt_command_batch *batch, bool refuse_all,
                             struct dt_error *err);

/* ---- answers, as rows of the outbox (commands_store.c) ---- */

/* Reads the answers that the rows with these ids have; ids are ascending. If the text of a row cannot be read, the row
 * has no answers. */
dt_status dt_store_read_command_answers(dt_store *store, dt_json *json, const int64_t *rows, size_t n,
                                        struct dt_arena *arena, struct dt_command_answers *out, struct dt_error *err);
/* Writes answers in the open transaction, which began at now_ms. Each pair of topics has its own rows, of up to a
 * million bytes; a statement writes up to a million bytes. partition: the partition of one of the messages. */
dt_status dt_command_answers_insert(struct dt_db *db, struct dt_arena *arena, int32_t partition, int64_t now_ms,
                                    const struct dt_command_answers *answers, struct dt_error *err);
