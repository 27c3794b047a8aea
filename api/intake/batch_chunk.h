/*
 * Some elements of a batch, decoded and on their way to the committer together: rows of one unit, and the texts of
 * elements that were refused, in the order of the elements. Owns their memory. Knows neither the gate nor the answer.
 *
 * A chunk belongs to its batch's thread; while its unit is at the committer, rows and unit are the committer's. Only
 * `done` is set by other threads.
 */
#ifndef DT_API_BATCH_CHUNK_H
#define DT_API_BATCH_CHUNK_H

#include "committer.h"
#include "request/problem.h"

/* One element. */
struct dt_chunk_slot {
    int64_t row;  /* of the unit; -1 = refused */
    size_t at, n; /* where the refusal stands in refusals */
};

struct dt_chunk {
    struct dt_chunk *prev, *next; /* the batch's */
    void *batch;
    struct dt_unit unit;
    struct dt_create *rows; /* what is not the decoder's to fill in is the committer's */
    struct dt_chunk_slot *slots;
    size_t n_rows, n_slots;
    size_t room, room_max; /* of rows and slots: now, and at most */
    uint64_t *keys;        /* hashes of its rows' keys: a table with keys_room cells, 0 = free */
    size_t keys_room;
    size_t bytes;  /* of elements and refusals */
    size_t weight; /* of its memory, as the batch has counted it */
    struct dt_strbuf refusals;
    struct dt_arena arena; /* texts of rows */
    bool submitted;
    _Atomic bool done; /* set under the gate's lock, read without it */
};

/* Makes a chunk for up to room_max elements, with room for the first of them. NULL: memory is out. */
struct dt_chunk *dt_chunk_new(void *batch, size_t room, size_t room_max);
/* Accepts NULL. */
void dt_chunk_free(struct dt_chunk *chunk);
/* Empties it for other elements; its memory is kept. */
void dt_chunk_reset(struct dt_chunk *chunk);
/* Makes room for one more element. False: memory is out. */
DT_MUST_CHECK bool dt_chunk_reserve(struct dt_chunk *chunk);
/* The bytes that the chunk's memory takes now. */
size_t dt_chunk_weight(const struct dt_chunk *chunk);

/* The row that the next element is decoded into; there is room. */
static inline struct dt_create *dt_chunk_next_row(struct dt_chunk *chunk)
{
    return &chunk->rows[chunk->n_rows];
}
/* Makes that row the next element, decoded from so many bytes. */
void dt_chunk_add_row(struct dt_chunk *chunk, size_t bytes);
/* Makes the next element a refusal, as text; there is room. */
void dt_chunk_add_refusal(struct dt_chunk *chunk, const struct dt_problem *problem);
/* Copies the payload of the next row into the chunk; binary ones are there already. False: memory is out. */
DT_MUST_CHECK bool dt_chunk_keep_payload(struct dt_chunk *chunk);

/* Notes that the chunk has a row with this key. */
void dt_chunk_note_key(struct dt_chunk *chunk, uint64_t hash);
/* Says whether the chunk has a row with a key of this hash. */
bool dt_chunk_has_key(const struct dt_chunk *chunk, uint64_t hash);

#endif
