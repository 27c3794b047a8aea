/*
 * A leader's copy of what it must know of topics: sorted, searched by halves. It is right for the transaction in which
 * it was refreshed: a pause raises topics_version before it is answered, and each claim compares that version.
 */
#include "store/dispatch/topic_book.h"

#include <stdlib.h>

struct dt_topic_book {
    struct dt_arena arena;
    struct dt_topic_entry *v;
    size_t n, cap;
    int64_t version; /* 0 = nothing read yet */
};

dt_status dt_topic_book_new(dt_topic_book **out)
{
    dt_topic_book *book = calloc(1, sizeof(*book));
    if (!book)
        return DT_NOMEM;
    dt_arena_init(&book->arena);
    *out = book;
    return DT_OK;
}

void dt_topic_book_free(dt_topic_book *book)
{
    if (!book)
        return;
    dt_arena_clear(&book->arena);
    free(book->v);
    free(book);
}

static dt_status append(dt_topic_book *book, struct dt_topic_entry entry)
{
    if (!entry.name.p || !entry.kafka_name.p)
        return DT_NOMEM;
    if (book->n == book->cap) {
        size_t cap = book->cap ? book->cap * 2 : 64;
        struct dt_topic_entry *v = realloc(book->v, cap * sizeof(*v));
        if (!v)
            return DT_NOMEM;
        book->v = v;
        book->cap = cap;
    }
    book->v[book->n++] = entry;
    return DT_OK;
}

static dt_status read_rows(dt_topic_book *book, dt_db *db)
{
    while (dt_db_next(db)) {
        dt_status status =
            append(book, (struct dt_topic_entry){.name = dt_arena_copy(&book->arena, dt_db_bytes(db, 0)),
                                                 .kafka_name = dt_arena_copy(&book->arena, dt_db_bytes(db, 1)),
                                                 .paused = dt_db_i64(db, 2) != 0});
        if (status != DT_OK)
            return status;
    }
    return DT_OK;
}

dt_status dt_topic_book_refresh(dt_topic_book *book, dt_db *db, int64_t version, struct dt_error *err)
{
    if (book->version == version)
        return DT_OK;
    book->version = 0;
    book->n = 0;
    dt_arena_reset(&book->arena);
    dt_status status = dt_db_query(db, "SELECT name, kafka_name, paused FROM topics ORDER BY name", DT_NO_PARAMS, err);
    if (status == DT_OK)
        status = read_rows(book, db);
    dt_status end = dt_db_end(db, err);
    if (status == DT_OK)
        status = end;
    if (status == DT_OK)
        book->version = version;
    return status;
}

dt_status dt_store_read_topics(dt_store *store, dt_topic_book *book, struct dt_error *err)
{
    dt_db *db;
    struct dt_installation inst;
    dt_status status = dt_store_installation(store, &inst, err);
    if (status == DT_OK)
        status = dt_store_db(store, &db, err);
    return status == DT_OK ? dt_topic_book_refresh(book, db, inst.topics_version, err) : status;
}

static int compare(struct dt_str a, struct dt_str b)
{
    int order = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

const struct dt_topic_entry *dt_topic_book_find(const dt_topic_book *book, struct dt_str topic)
{
    size_t low = 0;
    size_t high = topic.p ? book->n : 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare(topic, book->v[middle].name);
        if (order == 0)
            return &book->v[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

bool dt_topic_book_paused(const dt_topic_book *book, struct dt_str topic)
{
    const struct dt_topic_entry *entry = dt_topic_book_find(book, topic);
    return entry && entry->paused;
}

struct dt_str dt_topic_book_kafka_topic(const dt_topic_book *book, struct dt_str topic)
{
    const struct dt_topic_entry *entry = dt_topic_book_find(book, topic);
    return entry ? entry->kafka_name : DT_STR_NONE;
}
