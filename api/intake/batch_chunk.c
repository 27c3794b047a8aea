/* Owns the memory of chunks: see batch_chunk.h. */
#include "batch_chunk.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static bool grow(struct dt_chunk *chunk, size_t room)
{
    char *rows = reallocarray(chunk->rows, room, chunk->row_bytes);
    chunk->rows = rows ? rows : chunk->rows;
    struct dt_chunk_slot *slots = reallocarray(chunk->slots, room, sizeof(*slots));
    chunk->slots = slots ? slots : chunk->slots;
    if (!rows || !slots)
        return false;
    memset(rows + chunk->room * chunk->row_bytes, 0, (room - chunk->room) * chunk->row_bytes);
    chunk->room = room;
    return true;
}

struct dt_chunk *dt_chunk_new(void *batch, size_t first, size_t most, size_t row_bytes)
{
    struct dt_chunk *chunk = calloc(1, sizeof(*chunk));
    if (!chunk)
        return NULL;
    chunk->batch = batch;
    chunk->room_max = most;
    chunk->row_bytes = row_bytes;
    dt_strbuf_init(&chunk->refusals);
    dt_arena_init(&chunk->arena);
    if (grow(chunk, first < most ? first : most))
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
    if (chunk->keys)
        memset(chunk->keys, 0, chunk->keys_room * sizeof(*chunk->keys));
    dt_strbuf_reset(&chunk->refusals);
    dt_arena_reset(&chunk->arena);
}

bool dt_chunk_reserve(struct dt_chunk *chunk)
{
    dt_assert_cmp(chunk->n_slots, <, chunk->room_max);
    return chunk->n_slots < chunk->room || grow(chunk, chunk->room_max);
}

size_t dt_chunk_weight(const struct dt_chunk *chunk)
{
    return chunk->room * (chunk->row_bytes + sizeof(*chunk->slots)) + chunk->arena.size + chunk->refusals.cap;
}

void dt_chunk_add_row(struct dt_chunk *chunk, size_t bytes)
{
    dt_assert_cmp(chunk->n_slots, <, chunk->room);
    dt_assert_cmp(chunk->n_rows, <=, chunk->n_slots);
    chunk->slots[chunk->n_slots++] = (struct dt_chunk_slot){.row = (int64_t)chunk->n_rows++};
    chunk->bytes += bytes;
}

void dt_chunk_add_refusal(struct dt_chunk *chunk, const struct dt_problem *problem)
{
    dt_assert_cmp(chunk->n_slots, <, chunk->room);
    struct dt_chunk_slot *slot = &chunk->slots[chunk->n_slots++];
    slot->row = -1;
    slot->at = chunk->refusals.n;
    dt_problem_add(&chunk->refusals, problem, DT_STR_NONE);
    slot->n = chunk->refusals.n - slot->at;
    chunk->bytes += slot->n;
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

bool dt_chunk_note_key(struct dt_chunk *chunk, uint64_t hash)
{
    if (!chunk->keys) {
        /* A power of two, at least twice as many as there can be keys: a free cell is always found. */
        for (chunk->keys_room = 16; chunk->keys_room < 2 * chunk->room_max;)
            chunk->keys_room *= 2;
        chunk->keys = calloc(chunk->keys_room, sizeof(*chunk->keys));
    }
    dt_assert_cmp(chunk->n_rows, <, chunk->keys_room / 2);
    if (chunk->keys)
        *key_cell(chunk, hash) = hash;
    return chunk->keys != NULL;
}

bool dt_chunk_has_key(const struct dt_chunk *chunk, uint64_t hash)
{
    return chunk->keys && *key_cell(chunk, hash) != 0;
}
