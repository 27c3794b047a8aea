/*
 * Messages of <installation>.commands, and what becomes of them.
 *
 *   where a partition stands ─▶ read from there ─▶ decode, carry out ─▶ raise its offset, store answers ─▶ COMMIT
 *                                                 └──────────────────── one transaction ──────────────────────┘
 *   ─▶ (the outbox) send answers, delete them
 *
 * The offset stands in MySQL beside the effects and is raised from what the reader believes it to be. So each message
 * has one effect, whoever reads it how often: a reader that goes on from an older offset, or beside another reader of
 * the partition, changes nothing and is DEPOSED. Messages of a partition are done in their order: behind one that
 * waits (for its topic to be made, for a row that another session has) all wait. Answers are rows until Kafka has
 * them: each leaves at least once.
 */
#ifndef DT_INTENTS_COMMANDS_H
#define DT_INTENTS_COMMANDS_H

#include "intents.h"
#include "job/job_json.h"
#include "job/shard.h"

/* ---- where partitions stand (commands_store.c) ---- */

struct dt_command_message;
struct dt_command_place {
    int32_t partition;
    int64_t next;                           /* the first message not done, as its reader knows; 0 = never read */
    int64_t last;                           /* of the last message that was done; -1 = not known */
    unsigned char digest[16];               /* of that message */
    bool halted;                            /* out: its row says that it is not read */
    const struct dt_command_message *up_to; /* scratch: the last one that is done */
    bool touched, stopped;                  /* scratch */
};
/* Computes what a message is known by. */
void dt_command_digest(struct dt_str key, struct dt_str value, int64_t timestamp_ms, unsigned char digest[16]);
/* Reads where the partitions stand, which are given ascending; those that were never read get their rows. */
DT_MUST_CHECK dt_status dt_store_command_places(dt_store *store, struct dt_command_place *v, size_t n,
                                                struct dt_error *err);
/* Writes why a partition is not read; NULL: it is read. Nothing happens if somebody else has gone on. */
DT_MUST_CHECK dt_status dt_store_halt_commands(dt_store *store, const struct dt_command_place *place,
                                               const char *reason, struct dt_error *err);

/* ---- carrying out (command_batch.c) ---- */

struct dt_message_header {
    struct dt_str name, value;
};
/* A message. Texts are borrowed for the call. */
struct dt_command_message {
    struct dt_command_place *place; /* of its partition */
    int64_t offset, timestamp_ms;   /* 0 = it has no time */
    struct dt_str key, value;       /* absent = null */
    const struct dt_message_header *headers;
    size_t n_headers;
    struct dt_str reply_to;         /* absent: nobody is to be told */
    bool patient;                   /* it may wait for the batch of an earlier attempt to be settled */
    bool last_try;                  /* it may not wait: what would have it wait refuses it */
    enum dt_intent_outcome outcome; /* out */
};
/* A message that is to leave for Kafka. */
struct dt_command_answer {
    struct dt_str of_topic;          /* that the command names; absent: none, or the answer was read from a row */
    struct dt_str topic, key, value; /* key, value: absent = null */
    const struct dt_message_header *headers;
    size_t n_headers;
    int64_t row; /* that the answer was read from */
};
struct dt_command_answers {
    struct dt_command_answer *v;
    size_t n;
};

/* The state of whoever carries messages out, owned by one thread. All zero but for what is marked in. */
struct dt_command_taker {
    dt_store *store;           /* in */
    struct dt_job_rules rules; /* in */
    dt_json *json;             /* in */
    const char *rejected;      /* in: the topic of what is refused */
    struct dt_arena arena;     /* of the last call; in: made; the caller clears it */
    struct dt_id_block ids;
    struct dt_intent_topics topics;
};
struct dt_command_batch {
    struct dt_command_message *v; /* in: those of a partition in their order */
    size_t n;
    struct dt_command_place *places; /* in: of all partitions that are read, ascending */
    size_t n_places;
    struct dt_shard_map map; /* in */
    /* Out; in the taker's arena. */
    size_t done, refused, waiting;
    const struct dt_job_move *moves; /* for the index */
    size_t n_moves;
    int64_t *dead; /* jobs of which a dead letter was written */
    size_t n_dead;
    struct dt_command_answers answers;
    bool topics; /* topics were paused or resumed */
    bool again;  /* what waits may go on at once: its topic was made */
};
/*
 * Carries out messages in one transaction, and raises the places of their partitions behind those that are done or
 * refused. DEPOSED: a partition stands elsewhere than the reader believes; nothing happened. UNKNOWN: all of it
 * happened, or nothing. INTERNAL, CORRUPT and INVALID may be one message's fault: try fewer, and one alone with
 * `refuse_all`.
 */
DT_MUST_CHECK dt_status dt_store_carry_out(struct dt_command_taker *taker, struct dt_command_batch *batch,
                                           bool refuse_all, struct dt_error *err);

/* ---- answers, as rows of the outbox (commands_store.c) ---- */

/* Reads the answers of rows, whose ids ascend. A row that nothing can be read from has none. */
DT_MUST_CHECK dt_status dt_store_read_command_answers(dt_store *store, dt_json *json, const int64_t *rows, size_t n,
                                                      struct dt_arena *arena, struct dt_command_answers *out,
                                                      struct dt_error *err);
/* For store/ only: stores the answers in the open transaction, which began at now_ms: a row for each pair of topics and
 * each million bytes, a statement for each million bytes. partition: of one of the messages. */
DT_MUST_CHECK dt_status dt_command_answers_insert(struct dt_db *db, struct dt_arena *arena, int32_t partition,
                                                  int64_t now_ms, const struct dt_command_answers *answers,
                                                  struct dt_error *err);

#endif
