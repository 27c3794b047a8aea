/* Owns the memory of chunks: see batch_chunk.h. */
#include "batch_chunk.h"

#include <stdlib.h>
#include <string.h>

/* A power of two, at least twice as many as there can be keys. */
static size_t keys_room_for(size_t rows)
{
    size_t room = 16;
    while (room < 2 * rows)
        room *= 2;
    return room;
}

static bool grow(struct dt_chunk *chunk, size_t room)
{
    struct dt_create *rows = reallocarray(chunk->rows, room, sizeof(*rows));
    chunk->rows = rows ? rows : chunk->rows;
    struct dt_chunk_slot *slots = reallocarray(chunk->slots, room, sizeof(*slots));
    chunk->slots = slots ? slots : chunk->slots;
    if (!rows || !slots)
        return false;
    memset(rows + chunk->room, 0, (room - chunk->room) * sizeof(*rows));
    chunk->room = room;
    return true;
}

struct dt_chunk *dt_chunk_new(void *batch, size_t room, size_t room_max)
{
    struct dt_chunk *chunk = calloc(1, sizeof(*chunk));
    if (!chunk)
        return NULL;
    chunk->batch = batch;
    chunk->room_max = room_max;
    dt_strbuf_init(&chunk->refusals);
    dt_arena_init(&chunk->arena);
    chunk->keys_room = keys_room_for(room_max);
    chunk->keys = calloc(chunk->keys_room, sizeof(*chunk->keys));
    if (chunk->keys && grow(chunk, room < room_max ? room : room_max))
        return chunk;
    dt_chunk_free(chunk);
    return NULL;
}

void dt_chunk_free(struct dt_chunk *chunk)
{
    if (!chunk)
        return;
    free(chunk->rows);
    free(chunk->slots);
    free(chunk->keys);
    dt_strbuf_clear(&chunk->refusals);
    dt_arena_clear(&chunk->arena);
    free(chunk);
}

void dt_chunk_reset(struct dt_chunk *chunk)
{
    chunk->n_rows = chunk->n_slots = chunk->bytes = 0;
    chunk->submitted = false;
    chunk->done = false;
    memset(chunk->keys, 0, chunk->keys_room * sizeof(*chunk->keys));
    dt_strbuf_reset(&chunk->refusals);
    dt_arena_reset(&chunk->arena);
}

bool dt_chunk_reserve(struct dt_chunk *chunk)
{
    return chunk->n_slots < chunk->room || grow(chunk, chunk->room_max);
}

size_t dt_chunk_weight(const struct dt_chunk *chunk)
{
    return chunk->room * (sizeof(*chunk->rows) + sizeof(*chunk->slots)) + chunk->arena.size + chunk->refusals.cap;
}

/* Mostly the topic of the element before: with one text for both, whoever compares them later need not read it. */
static void share_topic(const struct dt_chunk *chunk, struct dt_new_job *job)
{
    if (chunk->n_rows == 0)
        return;
    struct dt_str before = chunk->rows[chunk->n_rows - 1].row.job.topic;
    if (dt_str_eq(before, job->topic))
        job->topic = before;
}

void dt_chunk_add_row(struct dt_chunk *chunk, size_t bytes)
{
    share_topic(chunk, &dt_chunk_next_row(chunk)->row.job);
    chunk->slots[chunk->n_slots++] = (struct dt_chunk_slot){.row = (int64_t)chunk->n_rows++};
    chunk->bytes += bytes;
}

void dt_chunk_add_refusal(struct dt_chunk *chunk, const struct dt_problem *problem)
{
    struct dt_chunk_slot *slot = &chunk->slots[chunk->n_slots++];
    slot->row = -1;
    slot->at = chunk->refusals.n;
    dt_problem_add(&chunk->refusals, problem, DT_STR_NONE);
    slot->n = chunk->refusals.n - slot->at;
    chunk->bytes += slot->n;
}

bool dt_chunk_keep_payload(struct dt_chunk *chunk)
{
    struct dt_new_job *job = &dt_chunk_next_row(chunk)->row.job;
    if (job->payload_binary)
        return true;
    job->payload = dt_arena_copy(&chunk->arena, job->payload);
    return job->payload.p != NULL;
}

/* The cell of a hash, or the free one where it would stand. */
static uint64_t *key_cell(const struct dt_chunk *chunk, uint64_t hash)
{
    size_t mask = chunk->keys_room - 1;
    size_t i = (size_t)hash & mask;
    while (chunk->keys[i] != 0 && chunk->keys[i] != hash)
        i = (i + 1) & mask;
    return &chunk->keys[i];
}

void dt_chunk_note_key(struct dt_chunk *chunk, uint64_t hash)
{
    *key_cell(chunk, hash) = hash;
}

bool dt_chunk_has_key(const struct dt_chunk *chunk, uint64_t hash)
{
    return *key_cell(chunk, hash) != 0;
}
