/*
 * Owners of topics (owners.h).
 *
 * Prefixes are sorted by their bytes. The parent of a prefix p is the longest other prefix that p begins with. If a
 * name begins with a prefix, every text that sorts between the prefix and the name also begins with the prefix. So the
 * longest prefix of a name is the last prefix that does not sort after the name, or an ancestor of that prefix, or
 * there is none.
 */
#include "owners.h"

#include <xxhash.h>

#include "base/assert.h"
#include "base/log.h"
#include "counts.h"
#include "job/job.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "topics.h"

static int64_t owner_number(uint64_t hash)
{
    return (int64_t)(hash >> 2) + 1;
}

int64_t dt_owner_by_name(struct dt_str topic)
{
    const char *dot = topic.n ? memchr(topic.p, '.', topic.n) : NULL;
    return owner_number(XXH3_64bits(topic.p, dot ? (size_t)(dot - topic.p) : topic.n));
}

static int compare_by_prefix(const void *a, const void *b)
{
    const struct dt_owner_prefix *x = a;
    const struct dt_owner_prefix *y = b;
    int names = dt_str_order(x->prefix, y->prefix);
    if (names || x->of != y->of)
        return names ? names : DT_ORDER(x->of, y->of);
    return DT_ORDER(x->owner, y->owner);
}

static size_t sort_distinct(struct dt_owner_prefix *v, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(v, n, sizeof(*v), compare_by_prefix);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || !dt_str_eq(v[kept - 1].prefix, v[i].prefix))
            v[kept++] = v[i];
    return kept;
}

dt_status dt_owners_add(struct dt_owners *owners, struct dt_str topics, struct dt_arena *arena)
{
    const size_t first = owners->n;
    uint64_t hash = 0;
    while (topics.n) {
        const char *comma = memchr(topics.p, ',', topics.n);
        const struct dt_str prefix = {topics.p, comma ? (size_t)(comma - topics.p) : topics.n};
        topics = comma ? (struct dt_str){comma + 1, topics.n - prefix.n - 1} : DT_STR_NONE;
        if (!dt_topic_prefix_valid(prefix))
            continue;
        if (owners->n == owners->cap) {
            size_t cap = owners->cap ? 2 * owners->cap : 16;
            struct dt_owner_prefix *v = dt_arena_alloc(arena, cap * sizeof(*v));
            if (!v)
                return DT_NOMEM;
            if (owners->n)
                memcpy(v, owners->v, owners->n * sizeof(*v));
            owners->v = v;
            owners->cap = cap;
        }
        owners->v[owners->n++] = (struct dt_owner_prefix){.prefix = prefix};
    }
    if (owners->n == first)
        return DT_OK;
    owners->n = first + sort_distinct(owners->v + first, owners->n - first);
    for (size_t i = first; i < owners->n; i++)
        hash = XXH3_64bits_withSeed(owners->v[i].prefix.p, owners->v[i].prefix.n, hash);
    for (size_t i = first; i < owners->n; i++)
        owners->v[i].owner = owner_number(hash), owners->v[i].of = owners->n - first;
    return DT_OK;
}

/* Returns 1 + the index of the longest prefix in v[0..at) that the text begins with; 0 if there is none. at: number of
 * prefixes that sort before the text, or are equal to it. */
static size_t longest_prefix_of(const struct dt_owners *owners, size_t at, struct dt_str text)
{
    while (at && !dt_str_begins(text, owners->v[at - 1].prefix)) {
        dt_assert_cmp(owners->v[at - 1].parent, <, at); /* a prefix sorts after its parent */
        at = owners->v[at - 1].parent;
    }
    return at;
}

void dt_owners_sort(struct dt_owners *owners)
{
    owners->n = sort_distinct(owners->v, owners->n);
    for (size_t i = 0; i < owners->n; i++)
        owners->v[i].parent = longest_prefix_of(owners, i, owners->v[i].prefix);
}

int64_t dt_owners_of(const struct dt_owners *owners, struct dt_str topic)
{
    size_t begin = 0;
    size_t end = owners->n;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (dt_str_order(owners->v[middle].prefix, topic) <= 0)
            begin = middle + 1;
        else
            end = middle;
    }
    size_t at = longest_prefix_of(owners, begin, topic);
    return at ? owners->v[at - 1].owner : dt_owner_by_name(topic);
}

/*
 * ---- topics.owner ----
 *
 * Computes the owner of each topic from the prefixes of all tokens, and writes it if the column differs: one statement
 * for consecutive names with the same owner. The topics are updated in pieces. Each piece is a short transaction,
 * because all other changes of topics wait for it.
 */

#define PIECE 1000 /* most topics in a piece */

bool dt_scopes_make_jobs(struct dt_str scopes)
{
    bool makes = false;
    while (scopes.n) {
        struct dt_str scope = dt_str_next_element(&scopes);
        makes |= dt_str_is(scope, "write") || dt_str_is(scope, "admin");
    }
    return makes;
}

static dt_status read_token_owners(dt_db *db, struct dt_arena *arena, struct dt_owners *out, struct dt_error *err)
{
    *out = (struct dt_owners){0};
    dt_status status = dt_db_query(db, dt_sql_select_prefixes, DT_NO_PARAMS, err);
    if (status != DT_OK)
        return status;
    while (status == DT_OK && dt_db_next(db)) {
        bool copied = true;
        struct dt_str topics = dt_store_text(db, 1, arena, &copied);
        if (!copied)
            status = DT_NOMEM;
        else if (dt_scopes_make_jobs(dt_db_bytes(db, 0)))
            status = dt_owners_add(out, topics, arena);
    }
    dt_status end = dt_db_end(db, err);
    dt_owners_sort(out);
    return status == DT_OK ? end : dt_fail(err, status, "out of memory");
}

dt_status dt_topic_owner_of_new(dt_db *db, struct dt_new_owners *new, struct dt_str topic, int64_t *owner,
                                struct dt_error *err)
{
    dt_status status = new->read ? DT_OK : read_token_owners(db, &new->arena, &new->owners, err);
    new->forbidden |= status == DT_FORBIDDEN;
    new->read = true;
    *owner = new->forbidden ? 0 : dt_owners_of(&new->owners, topic);
    return status == DT_FORBIDDEN ? DT_OK : status;
}

struct topic_owner {
    struct dt_str topic;
    int64_t was, is;
};

/* A piece of the topics: those whose names follow `after`, at most PIECE. */
struct piece {
    struct dt_str after;
    struct dt_arena arena;
    struct dt_owners owners;
    struct dt_rows topics;
    bool differ; /* at least one topic of the piece has another owner than the one computed */
};

static dt_status read_owner(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct topic_owner *t = row;
    struct piece *piece = arg;
    bool copied = true;
    *t = (struct topic_owner){.topic = dt_store_text(db, 0, arena, &copied), .was = dt_db_i64(db, 1)};
    t->is = dt_owners_of(&piece->owners, t->topic);
    piece->differ |= t->is != t->was;
    return copied ? DT_OK : DT_NOMEM;
}

static dt_status read_piece(struct piece *piece, dt_db *db, struct dt_error *err)
{
    piece->topics = (struct dt_rows){.row_bytes = sizeof(struct topic_owner), .read = read_owner, .arg = piece};
    piece->differ = false;
    dt_status status = dt_db_query(db, dt_sql_select_owners, DT_PARAMS(DT_P_STR(piece->after), DT_P_INT(PIECE)), err);
    return status == DT_OK ? dt_store_read_rows(db, &piece->arena, &piece->topics, err) : status;
}

/* Reads the piece again under the lock, because tokens and topics may have changed. */
static dt_status write_piece(void *arg, dt_db *db, int64_t, struct dt_error *err)
{
    struct piece *piece = arg;
    dt_status status = dt_db_read_number(db, dt_sql_lock_topics, DT_NO_PARAMS, NULL, NULL, err);
    DT_THEN(status, read_token_owners(db, &piece->arena, &piece->owners, err));
    DT_THEN(status, read_piece(piece, db, err));
    const struct topic_owner *v = piece->topics.v;
    for (size_t i = 0, end; status == DT_OK && i < piece->topics.n; i = end) {
        end = i + 1;
        if (v[i].is == v[i].was)
            continue;
        while (end < piece->topics.n && v[end].is == v[i].is)
            end++;
        status = dt_db_run(db, dt_sql_set_owner,
                           DT_PARAMS(DT_P_INT(v[i].is), DT_P_STR(v[i].topic), DT_P_STR(v[end - 1].topic)), NULL, err);
    }
    return status == DT_OK && piece->differ ? dt_topics_raise_version(db, err) : status;
}

dt_status dt_store_topic_owners_update(dt_store *store, struct dt_error *err)
{
    struct piece piece = {.after = DT_STR_LIT("")};
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status, read_token_owners(db, &piece.arena, &piece.owners, err));
    do {
        DT_THEN(status, read_piece(&piece, db, err));
        if (status == DT_OK && piece.differ)
            status = dt_store_commit_work(store, NULL, write_piece, &piece, err);
        if (status == DT_OK && piece.topics.n)
            piece.after = ((const struct topic_owner *)piece.topics.v)[piece.topics.n - 1].topic;
    } while (status == DT_OK && piece.topics.n == PIECE);
    dt_arena_clear(&piece.arena);
    return status;
}

void dt_topic_owners_follow(dt_store *store)
{
    struct dt_error err;
    if (dt_store_topic_owners_update(store, &err) != DT_OK)
        DT_LOG(INFO, "store", "could not update the owners of topics; a dispatcher tries again",
               DT_S("reason", err.text));
}
