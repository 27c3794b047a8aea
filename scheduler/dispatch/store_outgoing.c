/*
 * Messages for consumers, one for each claimed attempt. Small ones come with the row that is locked for the claim;
 * large ones, and those of a batch that is sent again, are read by id in one statement, whatever the row says by now.
 */
#include "outgoing.h"

#include <stdlib.h>

#include "mysql/db.h"
#include "mysql/statements.h"

/* Where the claim of an id stands in the caller's order. */
struct place {
    int64_t id;
    size_t at;
};

static int by_id(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static bool copy_column(dt_db *db, unsigned column, struct dt_arena *arena, struct dt_str *out)
{
    struct dt_str s = dt_db_bytes(db, column);
    *out = dt_arena_copy(arena, s);
    return out->p || !s.p;
}

/* The columns of a message, in their order: the key, what the table of columns says that callers give, the payload. */
enum { GIVEN = 0 DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_ONE, DT_COLUMN_ONE), PAYLOAD = 1 + GIVEN };

#define TAKE(kind, member, column) TAKE_##kind(member)
#define TAKE_TEXT(member)          copied &= copy_column(db, n++, arena, &out->member);
#define TAKE_FLAG(member)          out->member = dt_db_i64(db, n++) != 0;

static bool copy_message(dt_db *db, unsigned first, struct dt_arena *arena, struct dt_outgoing *out)
{
    unsigned n = first;
    bool copied = copy_column(db, n++, arena, &out->key);
    DT_JOB_COLUMNS(DT_COLUMN_NONE, TAKE, TAKE)
    return copy_column(db, n, arena, &out->payload) && copied;
}

dt_status dt_outgoing_small(dt_db *db, unsigned first, struct dt_arena *arena, struct dt_outgoing **out)
{
    *out = NULL;
    if (dt_db_is_null(db, first + PAYLOAD))
        return DT_OK;
    *out = dt_arena_alloc(arena, sizeof(**out));
    if (!*out)
        return DT_NOMEM;
    **out = (struct dt_outgoing){0};
    return copy_message(db, first, arena, *out) ? DT_OK : DT_NOMEM;
}

dt_status dt_outgoing_read(dt_db *db, const struct dt_inflight *claims, struct dt_arena *arena,
                           struct dt_outgoing **out, struct dt_error *err)
{
    struct dt_strbuf ids;
    dt_strbuf_init(&ids);
    struct place *places = dt_arena_alloc(arena, (claims->n ? claims->n : 1) * sizeof(*places));
    *out = dt_arena_alloc(arena, (claims->n ? claims->n : 1) * sizeof(**out));
    dt_status status = places && *out ? dt_inflight_format_by_id(claims->v, claims->n, &ids) : DT_NOMEM;
    for (size_t i = 0; status == DT_OK && i < claims->n; i++) {
        (*out)[i] = (struct dt_outgoing){.claim = claims->v[i]};
        places[i] = (struct place){claims->v[i].id, i};
    }
    if (status == DT_OK) {
        qsort(places, claims->n, sizeof(*places), by_id);
        status = dt_db_query(db, dt_sql_select_messages, DT_PARAMS(DT_P_STR(dt_strbuf_str(&ids))), err);
    }
    while (status == DT_OK && dt_db_next(db)) {
        struct place key = {.id = dt_db_i64(db, 0)};
        const struct place *place = bsearch(&key, places, claims->n, sizeof(*places), by_id);
        struct dt_outgoing *message = place ? &(*out)[place->at] : NULL;
        if (!message)
            status = DT_INTERNAL;
        else if (!copy_column(db, 1, arena, &message->topic) || !copy_column(db, 2, arena, &message->kafka_topic) ||
                 !copy_message(db, 3, arena, message))
            status = DT_NOMEM;
    }
    dt_status end = dt_db_end(db, status == DT_OK ? err : NULL);
    dt_strbuf_clear(&ids);
    return status == DT_OK ? end : status;
}

dt_status dt_store_read_outgoing(dt_store *store, const struct dt_inflight *claims, struct dt_arena *arena,
                                 struct dt_outgoing **out, struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    return status == DT_OK ? dt_outgoing_read(db, claims, arena, out, err) : status;
}
