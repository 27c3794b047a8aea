/*
 * Changes of entries: dt_index_put, dt_index_fill, and calls for one shard, which are sent in chunks.
 *
 * A batch has entries of many shards, which are sent to all their endpoints in one round trip. Invariants: after
 * load_batch, the items are grouped by shard, and sorted by dt_item_order within a shard; a command has at most
 * DT_CHUNK entries.
 */

#include "index_internal.h"

#define BATCH_MAX      16384u /* most entries of one batch, which bounds its memory */
#define ROUND_TRIP_MAX (BATCH_MAX / DT_CHUNK * DT_CHUNK)
#define FEW            64u            /* fewer items than this are sorted without distributing them to shards first */
#define FAR_MS         INT64_C(60000) /* no entry is due later than this after the horizon, even if clocks differ */
#define PACKED_PAGES   64u            /* most packed pages of one command */
#define PACKED_LEAST   16u            /* fewer entries than this are not packed into a page */

_Static_assert(BATCH_MAX <= DT_KNOWN_MAX, "a batch has more ids than the table of known ids has room for");

enum change_how {
    PUT,        /* an added entry replaces an entry of the same job in its page */
    ADD_ABSENT, /* an added entry is dropped if its page has an entry of the same job */
    MOVE /* an entry is added only if its old entry was removed; item.ref is the number of that removal, from 1 */
};

/* A change of one shard's due set: an entry to remove (`gone`) or to add. */
struct shard_item {
    uint32_t shard;
    bool gone;
    struct dt_item item;
};

/* Adds the commands for one shard, whose items are batch->gone[n_gone] and batch->new[n_new], to the shard's link. */
typedef void build_fn(dt_index *index, unsigned shard, size_t n_gone, size_t n_new);

struct dt_index_batch {
    struct shard_item *items, *dealt; /* halves of `space`: the items, and scratch to distribute them by shard */
    struct shard_item space[4 * BATCH_MAX];
    struct dt_item gone[BATCH_MAX], new[BATCH_MAX]; /* items of the shard whose commands are being built */
    size_t n;
    build_fn *build;     /* builds the commands of the current round trip */
    enum change_how how; /* how build_changes adds entries */
    bool wake;           /* build_changes publishes wake-ups: see dt_index_put */
};

struct dt_index_batch *dt_index_batch_new(void)
{
    struct dt_index_batch *batch = malloc(sizeof(*batch));
    if (batch) {
        batch->items = batch->space;
        batch->dealt = batch->space + 2 * BATCH_MAX;
    }
    return batch;
}

static int compare_by_shard(const void *a, const void *b)
{
    const struct shard_item *x = a;
    const struct shard_item *y = b;
    return x->shard != y->shard ? DT_ORDER(x->shard, y->shard) : dt_item_order(&x->item, &y->item);
}

static void sort_items(struct shard_item *items, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (compare_by_shard(&items[i - 1], &items[i]) > 0) {
            qsort(items, n, sizeof(*items), compare_by_shard);
            return;
        }
    }
}

/* Distributes the items to their shards, the last item first, and sorts the items of each shard. load_batch has loaded
 * the entries from the last to the first. So if the caller passed the entries in the order of their times, the items
 * are in that order again and need no sorting. */
static void sort_batch(struct dt_index_batch *batch)
{
    size_t end[DT_SHARDS_MAX] = {0}; /* end of each shard's items */
    struct shard_item *loaded = batch->items;
    size_t sum = 0;
    if (batch->n < FEW) {
        sort_items(loaded, batch->n);
        return;
    }
    for (size_t i = 0; i < batch->n; i++)
        end[loaded[i].shard]++;
    /* At first end[shard] is the beginning of the shard's items; distributing the items moves it to their end. */
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        size_t n = end[shard];

        end[shard] = sum;
        sum += n;
    }
    dt_assert_cmp(sum, ==, batch->n);
    batch->items = batch->dealt;
    batch->dealt = loaded;
    for (size_t i = batch->n; i-- > 0;)
        batch->items[end[loaded[i].shard]++] = loaded[i];
    for (size_t from = 0, to; from < batch->n; from = to) {
        to = end[batch->items[from].shard];
        sort_items(batch->items + from, to - from);
    }
}

static void add_shard_item(struct dt_index_batch *batch, unsigned shard, bool gone, int64_t id, int64_t due_ms)
{
    dt_assert_cmp(batch->n, <, 2 * BATCH_MAX);
    batch->items[batch->n++] = (struct shard_item){shard, gone, dt_item_of(id, due_ms, 0)};
}

/* Makes the batch of entries[n], n at most BATCH_MAX; dt_index_put explains what an entry requests. The entries are
 * read from the last to the first, so the last due_ms of a job is read first and counts, and every was_ms is
 * removed. An entry that is due after horizon_end_ms is not added. If a was_ms is far after horizon_end_ms, nothing
 * is removed. */
static void load_batch(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                       int64_t horizon_end_ms)
{
    struct dt_index_batch *batch = index->batch;
    const int64_t last_ms = horizon_end_ms < INT64_MAX - FAR_MS ? horizon_end_ms + FAR_MS : INT64_MAX;
    dt_assert_cmp(n, <=, BATCH_MAX);
    batch->n = 0;
    dt_known_clear(index, n);
    for (size_t i = n; i-- > 0;) {
        const struct dt_entry *e = &entries[i];
        struct dt_known_id *known = dt_known_find(index, e->id);
        unsigned shard = dt_shard_of(map, e->id);
        int64_t due_ms = e->due_ms <= horizon_end_ms ? e->due_ms : 0;
        if (!known->id) {
            *known = (struct dt_known_id){e->id, due_ms};
            if (due_ms)
                add_shard_item(batch, shard, false, e->id, due_ms);
        }
        if (e->was_ms && e->was_ms != known->due_ms && e->was_ms <= last_ms)
            add_shard_item(batch, shard, true, e->id, e->was_ms);
    }
    sort_batch(batch);
}

/* Returns the index after the last item of the shard whose items begin at `from`. */
static size_t end_of_shard_items(const struct dt_index_batch *batch, size_t from)
{
    size_t to = from + 1;
    while (to < batch->n && batch->items[to].shard == batch->items[from].shard)
        to++;
    return to;
}

static void build_endpoint(dt_index *index, unsigned endpoint)
{
    struct dt_index_batch *batch = index->batch;
    for (size_t from = 0, to; from < batch->n; from = to) {
        unsigned shard = batch->items[from].shard;
        size_t n_gone = 0;
        size_t n_new = 0;
        dt_assert(from == 0 || batch->items[from - 1].shard < shard);
        to = end_of_shard_items(batch, from);
        if (dt_index_link(index, shard) != index->links[endpoint])
            continue;
        for (size_t i = from; i < to; i++) {
            if (batch->items[i].gone)
                batch->gone[n_gone++] = batch->items[i].item;
            else
                batch->new[n_new++] = batch->items[i].item;
        }
        batch->build(index, shard, n_gone, n_new);
    }
}

/* Selects the endpoints that the batch has items for, and sets the function that builds their commands. */
static void select_endpoints(dt_index *index, build_fn *build)
{
    struct dt_index_batch *batch = index->batch;
    memset(index->wanted, 0, index->n_links * sizeof(*index->wanted));
    for (size_t from = 0; from < batch->n; from = end_of_shard_items(batch, from))
        index->wanted[index->link_of[batch->items[from].shard % DT_SHARDS_MAX]] = true;
    batch->build = build;
}

/* ---- the command that removes and adds entries of one shard's set (lua/change.lua) ---- */

/* The items to remove (`gone`) and the items to add (`new`). Both arrays are borrowed, in the order of dt_items_sort,
 * and have at most DT_CHUNK items. */
struct change {
    enum change_how how;
    bool wake; /* publish a wake-up if the leader may have to act sooner (lua/change.lua says when) */
    const struct dt_item *gone;
    size_t n_gone;
    const struct dt_item *new;
    size_t n_new;
};

static const char *const HOW_WORDS[] = {[PUT] = "put", [ADD_ABSENT] = "missing", [MOVE] = "fix"};

static void add_change_command(dt_index *index, unsigned shard, const struct change *change)
{
    dt_link *link = dt_index_link(index, shard);
    bool refs = change->how == MOVE;
    dt_assert(change->n_gone <= DT_CHUNK && change->n_new <= DT_CHUNK);
    dt_link_script(link, DT_SCRIPT_CHANGE, 1, (unsigned)(5 + 2 * change->n_gone + (refs ? 3 : 2) * change->n_new));
    dt_arg_set(index, link, shard);
    if (change->wake)
        dt_arg_common(index, link, "wake");
    else
        dt_link_arg(link, DT_STR_LIT(""));
    dt_link_arg_i64(link, shard);
    dt_link_arg(link, dt_str(HOW_WORDS[change->how]));
    dt_link_arg_i64(link, (int64_t)change->n_gone);
    for (size_t i = 0; i < change->n_gone; i++)
        dt_arg_entry(link, &change->gone[i]);
    for (size_t i = 0; i < change->n_new; i++) {
        dt_arg_entry(link, &change->new[i]);
        if (refs)
            dt_link_arg_i64(link, change->new[i].ref);
    }
}

/* ---- batches of all shards ---- */

/* Adds the shard's changes to its link, with at most DT_CHUNK removals and additions in each command. */
static void build_changes(dt_index *index, unsigned shard, size_t n_gone, size_t n_new)
{
    const struct dt_index_batch *batch = index->batch;
    for (size_t g = 0, a = 0; g < n_gone || a < n_new;) {
        const struct change change = {.how = batch->how,
                                      .wake = batch->wake,
                                      .gone = batch->gone + g,
                                      .n_gone = dt_at_most(n_gone - g, DT_CHUNK),
                                      .new = batch->new + a,
                                      .n_new = dt_at_most(n_new - a, DT_CHUNK)};
        add_change_command(index, shard, &change);
        g += change.n_gone;
        a += change.n_new;
    }
}

dt_status dt_index_put(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                       int64_t horizon_end_ms, bool wake, struct dt_error *err)
{
    dt_status first = DT_OK;
    index->batch->how = PUT;
    index->batch->wake = wake;
    for (size_t at = 0, some; at < n; at += some) {
        some = dt_at_most(n - at, BATCH_MAX);
        load_batch(index, map, entries + at, some, horizon_end_ms);
        select_endpoints(index, build_changes);
        dt_keep_first(&first, dt_index_ask_wanted(index, build_endpoint, first == DT_OK ? err : NULL));
    }
    return first;
}

/* ---- chunks for one shard ---- */

struct chunks {
    enum { FIX, MISSING, HOLD, SCORES, HELD_SCORES } what;
    const struct dt_fix *fixes;     /* changes, if `what` is FIX */
    const struct dt_entry *entries; /* entries, if `what` is not FIX */
    struct dt_str topic;            /* topic of the held set */
};

/* Adds a command with the removals, then the additions. Each addition names the removal that it depends on. */
static void build_fix_command(dt_index *index, unsigned shard, const struct dt_fix *fixes, size_t n)
{
    struct dt_item *gone = index->batch->gone;
    struct dt_item *new = index->batch->new;
    size_t n_new = 0;
    for (size_t i = 0; i < n; i++)
        gone[i] = dt_item_of(fixes[i].id, fixes[i].seen_ms, (uint32_t)i);
    dt_items_sort(gone, n);
    for (size_t i = 0; i < n; i++) {
        const struct dt_fix *fix = &fixes[gone[i].ref];
        if (fix->due_ms)
            new[n_new++] = dt_item_of(fix->id, fix->due_ms, (uint32_t)i + 1);
    }
    dt_items_sort(new, n_new);
    add_change_command(index, shard,
                       &(struct change){.how = MOVE, .gone = gone, .n_gone = n, .new = new, .n_new = n_new});
}

static void build_chunk_command(dt_index *index, unsigned shard, const struct chunks *chunks, size_t from, size_t n)
{
    dt_link *link = dt_index_link(index, shard);
    struct dt_item *items = index->batch->new;
    dt_assert_cmp(n, <=, DT_CHUNK);
    if (chunks->what == FIX) {
        build_fix_command(index, shard, chunks->fixes + from, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        items[i] = dt_item_of(chunks->entries[from + i].id, chunks->entries[from + i].due_ms, 0);
    /* Requests for scores stay in the caller's order, because an answer belongs to the entry at the same position. */
    if (chunks->what == MISSING || chunks->what == HOLD)
        dt_items_sort(items, n);
    if (chunks->what == MISSING) {
        add_change_command(index, shard, &(struct change){.how = ADD_ABSENT, .new = items, .n_new = n});
    } else if (chunks->what == HOLD) {
        dt_link_script(link, DT_SCRIPT_HOLD, 3, (unsigned)(4 + 2 * n));
        dt_arg_set(index, link, shard);
        dt_arg_held(index, link, shard, chunks->topic);
        dt_arg_registry(index, link, shard);
        dt_link_arg(link, chunks->topic);
        for (size_t i = 0; i < n; i++)
            dt_arg_entry(link, &items[i]);
    } else if (chunks->what == SCORES) {
        dt_link_script(link, DT_SCRIPT_SCORES, 1, (unsigned)(1 + 2 * n));
        dt_arg_set(index, link, shard);
        for (size_t i = 0; i < n; i++)
            dt_arg_entry(link, &items[i]);
    } else { /* HELD_SCORES: a held set is one sorted set whose scores are times */
        dt_link_command(link, (unsigned)(2 + n));
        dt_link_arg(link, DT_STR_LIT("ZMSCORE"));
        dt_arg_held(index, link, shard, chunks->topic);
        for (size_t i = 0; i < n; i++)
            dt_link_arg(link, (struct dt_str){(const char *)items[i].member.bytes, items[i].member.n});
    }
}

/* Where the scores of one round trip are stored. Each chunk has one reply. */
struct scores_reply {
    int64_t *scores;
    size_t n;
};

static void on_scores(void *arg, size_t i, const dt_reply *reply)
{
    struct scores_reply *to = arg;
    size_t base = i * DT_CHUNK;
    for (size_t k = 0; k < dt_reply_count(reply) && base + k < to->n; k++) {
        const dt_reply *element = dt_reply_element(reply, k);
        double score;
        bool there = dt_reply_text(element).n > 0 && dt_reply_number(element, &score);
        to->scores[base + k] = there ? (int64_t)score : 0;
    }
}

/* Sends n changes or requests in chunks. `scores` has room for n, or is NULL if no scores are requested. Stops at the
 * first failure; chunks that were sent before stay applied. */
static dt_status send_chunks(dt_index *index, unsigned shard, const struct chunks *chunks, size_t n, int64_t *scores,
                             struct dt_error *err)
{
    dt_link *link = dt_index_link(index, shard);
    for (size_t done = 0; done < n;) {
        size_t some = dt_at_most(n - done, ROUND_TRIP_MAX);
        struct scores_reply to = {scores ? scores + done : NULL, some};
        dt_status status = dt_link_ready(link, err);
        if (status != DT_OK)
            return status;
        for (size_t k = 0; k < some; k += DT_CHUNK)
            build_chunk_command(index, shard, chunks, done + k, dt_at_most(some - k, DT_CHUNK));
        status = dt_index_round_trip(link, scores ? on_scores : NULL, &to, err);
        if (status != DT_OK)
            return status;
        done += some;
    }
    return DT_OK;
}

dt_status dt_index_fix(dt_index *index, unsigned shard, const struct dt_fix *fixes, size_t n, struct dt_error *err)
{
    return send_chunks(index, shard, &(struct chunks){FIX, .fixes = fixes}, n, NULL, err);
}

dt_status dt_index_hold(dt_index *index, unsigned shard, struct dt_str topic, const struct dt_entry *entries, size_t n,
                        struct dt_error *err)
{
    return send_chunks(index, shard, &(struct chunks){HOLD, .entries = entries, .topic = topic}, n, NULL, err);
}

dt_status dt_index_add_missing(dt_index *index, unsigned shard, const struct dt_entry *entries, size_t n,
                               struct dt_error *err)
{
    return send_chunks(index, shard, &(struct chunks){MISSING, .entries = entries}, n, NULL, err);
}

dt_status dt_index_scores(dt_index *index, unsigned shard, const struct dt_entry *entries, size_t n, int64_t *scores,
                          struct dt_error *err)
{
    memset(scores, 0, n * sizeof(*scores));
    return send_chunks(index, shard, &(struct chunks){SCORES, .entries = entries}, n, scores, err);
}

dt_status dt_index_held_scores(dt_index *index, unsigned shard, struct dt_str topic, const struct dt_entry *entries,
                               size_t n, int64_t *scores, struct dt_error *err)
{
    memset(scores, 0, n * sizeof(*scores));
    return send_chunks(index, shard, &(struct chunks){HELD_SCORES, .entries = entries, .topic = topic}, n, scores, err);
}

/*
 * ---- filling sets that were lost ----
 *
 * pack_command makes a packed page in Redis's own serialized form, and Redis restores the whole page (lua/fill.lua),
 * which costs a fraction of adding its entries. If there are too few entries for a page, or too many within one
 * millisecond, they are added one by one.
 */

/* Adds a command with the first *done items as packed pages. Returns false if the first items cannot be packed: the
 * caller then adds the first *done items one by one. */
static bool pack_command(dt_index *index, unsigned shard, const struct dt_item *items, size_t n, size_t *done)
{
    dt_link *link = dt_index_link(index, shard);
    size_t cuts[PACKED_PAGES];
    size_t n_cuts = 0;
    size_t tied = 0;
    *done = 0;
    while (n_cuts < PACKED_PAGES && *done < n) {
        size_t cut = dt_page_cut(items + *done, n - *done, &tied);
        if (cut < PACKED_LEAST)
            break;
        *done += cuts[n_cuts++] = cut;
    }
    if (n_cuts == 0) {
        *done = tied ? dt_at_most(tied, DT_CHUNK) : dt_at_most(n, PACKED_LEAST);
        return false;
    }
    dt_link_script(link, DT_SCRIPT_FILL, 1, (unsigned)(1 + 3 * n_cuts));
    dt_arg_set(index, link, shard);
    for (size_t i = 0; i < n_cuts; items += cuts[i++]) {
        dt_strbuf_reset(&index->page);
        dt_page_pack(&index->page, items, cuts[i]);
        dt_link_arg_i64(link, items[0].due_ms);
        dt_link_arg_i64(link, items[cuts[i] - 1].due_ms);
        dt_link_arg(link, dt_strbuf_str(&index->page));
    }
    return true;
}

static void build_packed_commands(dt_index *index, unsigned shard, size_t, size_t n_new)
{
    for (size_t at = 0, done; at < n_new; at += done) {
        const struct dt_item *items = index->batch->new + at;
        if (!pack_command(index, shard, items, n_new - at, &done))
            add_change_command(index, shard, &(struct change){.how = ADD_ABSENT, .new = items, .n_new = done});
    }
}

/* Reads the integer that fill.lua and change.lua return. 0: the server does not accept packed pages. */
static void on_filled(void *arg, size_t, const dt_reply *reply)
{
    int64_t taken = 1;
    if (dt_reply_integer(reply, &taken) && taken == 0)
        *(bool *)arg = true;
}

static dt_status send_absent_entries(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries,
                                     size_t n, struct dt_error *err)
{
    load_batch(index, map, entries, n, INT64_MAX);
    index->batch->how = ADD_ABSENT;
    index->batch->wake = false;
    select_endpoints(index, index->refuses_packed ? build_changes : build_packed_commands);
    return dt_index_send_wanted(index, build_endpoint, err);
}

dt_status dt_index_end_fill(dt_index *index, struct dt_error *err)
{
    bool refused = false;
    dt_status status = dt_index_receive(index, on_filled, &refused, err);
    if (!refused)
        return status;
    index->refuses_packed = true;
    select_endpoints(index, build_changes); /* sends the same entries again, one by one */
    return dt_index_ask_wanted(index, build_endpoint, err);
}

dt_status dt_index_begin_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                              struct dt_error *err)
{
    dt_status first = DT_OK;
    for (; n > BATCH_MAX; entries += BATCH_MAX, n -= BATCH_MAX) {
        dt_keep_first(&first, send_absent_entries(index, map, entries, BATCH_MAX, first == DT_OK ? err : NULL));
        dt_keep_first(&first, dt_index_end_fill(index, first == DT_OK ? err : NULL));
    }
    dt_keep_first(&first, send_absent_entries(index, map, entries, n, first == DT_OK ? err : NULL));
    return first;
}

dt_status dt_index_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                        struct dt_error *err)
{
    dt_status begun = dt_index_begin_fill(index, map, entries, n, err);
    dt_status ended = dt_index_end_fill(index, begun == DT_OK ? err : NULL);
    return begun == DT_OK ? ended : begun;
}
