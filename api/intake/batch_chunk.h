/*
 * Some elements of a batch, decoded and on their way to their queue together: rows of one unit, and the texts of
 * elements that were refused, in the order of the elements. Owns their memory. Knows neither the gate nor the answer,
 * nor what a row is.
 *
 * A chunk belongs to its batch's thread; while its unit is at the queue, rows and unit are the queue's. Only `done` is
 * set by other threads.
 */
#ifndef DT_API_BATCH_CHUNK_H
#define DT_API_BATCH_CHUNK_H

#include "committer.h"
#include "job/problem.h"
#include "results_rest.h"

/* One element. */
struct dt_chunk_slot {
    int64_t row;  /* of the unit; -1 = refused */
    size_t at, n; /* where the refusal stands in refusals */
};

struct dt_chunk {
    struct dt_chunk *prev, *next; /* the batch's */
    void *batch;
    union { /* by the kind of the batch */
        struct dt_unit jobs;
        struct dt_reports results;
    } unit;
    char *rows; /* what is not the decoder's to fill in is the queue's */
    size_t row_bytes;
    struct dt_chunk_slot *slots;
    size_t n_rows, n_slots;
    size_t room, room_max; /* of rows and slots: now, and at most */
    uint64_t *keys;        /* hashes of its rows' keys: a table with keys_room cells, 0 = free; made with the first */
    size_t keys_room;
    size_t bytes;  /* of elements and refusals */
    size_t weight; /* of its memory, as the batch has counted it */
    struct dt_strbuf refusals;
    struct dt_arena arena; /* texts of rows */
    bool submitted;
    _Atomic bool done; /* set under the gate's lock, read without it */
};

/* Makes a chunk with room for so many elements at first, and at most. NULL: memory is out. */
struct dt_chunk *dt_chunk_new(void *batch, size_t first, size_t most, size_t row_bytes);
/* Accepts NULL. */
void dt_chunk_free(struct dt_chunk *chunk);
/* Empties it for other elements; its memory is kept. */
void dt_chunk_reset(struct dt_chunk *chunk);
/* Makes room for one more element. False: memory is out. */
DT_MUST_CHECK bool dt_chunk_reserve(struct dt_chunk *chunk);
/* The bytes that the chunk's memory takes now. */
size_t dt_chunk_weight(const struct dt_chunk *chunk);

/* Row i; row n_rows is the one that the next element is decoded into. */
static inline void *dt_chunk_row(const struct dt_chunk *chunk, size_t i)
{
    return chunk->rows + i * chunk->row_bytes;
}
/* Makes the next row an element, decoded from so many bytes. */
void dt_chunk_add_row(struct dt_chunk *chunk, size_t bytes);
/* Makes the next element a refusal, as text; there is room. */
void dt_chunk_add_refusal(struct dt_chunk *chunk, const struct dt_problem *problem);

/* Notes that the chunk has a row with this key. False: memory is out. */
DT_MUST_CHECK bool dt_chunk_note_key(struct dt_chunk *chunk, uint64_t hash);
/* Says whether the chunk has a row with a key of this hash. */
bool dt_chunk_has_key(const struct dt_chunk *chunk, uint64_t hash);

#endif
