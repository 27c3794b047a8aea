/*
 * Owns the items of a batch: which entry goes, which comes, and their order. Refuses to know the commands.
 * Invariant: once loaded, the items are grouped by shard, and sorted as a set is within a shard.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "index_internal.h"

#define FEW    64u            /* so few items are sorted without being dealt out first */
#define FAR_MS INT64_C(60000) /* beyond the horizon by so much there are no entries, whatever the clocks say */

_Static_assert(DT_INDEX_BATCH_MAX <= DT_KNOWN_MAX, "a batch has more ids than the table of known ids has room for");

dt_status dt_index_batch_new(struct dt_index_batch **out)
{
    struct dt_index_batch *batch = malloc(sizeof(*batch));

    *out = batch;
    if (!batch)
        return DT_NOMEM;
    batch->items = batch->space;
    batch->dealt = batch->space + 2 * DT_INDEX_BATCH_MAX;
    return DT_OK;
}

/* ---- order ---- */

static int by_shard(const void *a, const void *b)
{
    const struct dt_shard_item *x = a;
    const struct dt_shard_item *y = b;

    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    if (x->item.due_ms != y->item.due_ms)
        return x->item.due_ms < y->item.due_ms ? -1 : 1;
    return dt_member_compare(&x->item.member, &y->item.member);
}

static void sort_items(struct dt_shard_item *items, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (by_shard(&items[i - 1], &items[i]) > 0) {
            qsort(items, n, sizeof(*items), by_shard);
            return;
        }
    }
}

/*
 * Deals the items out to their shards, the last item first, and sorts each shard's. A caller's entries are loaded from
 * the last to the first, so entries that came in the order of their times are in that order again, and the sort has
 * nothing to do.
 */
static void sort_batch(struct dt_index_batch *batch)
{
    size_t end[DT_SHARDS_MAX] = {0}; /* of the items of each shard */
    struct dt_shard_item *loaded = batch->items;
    size_t sum = 0;

    if (batch->n < FEW) {
        sort_items(loaded, batch->n);
        return;
    }
    for (size_t i = 0; i < batch->n; i++)
        end[loaded[i].shard]++;
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) { /* their beginning at first: dealing moves it */
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

/* ---- loading ---- */

static void add_item(struct dt_index_batch *batch, unsigned shard, bool gone, int64_t id, int64_t due_ms)
{
    dt_assert_cmp(batch->n, <, 2 * DT_INDEX_BATCH_MAX);
    batch->items[batch->n++] = (struct dt_shard_item){shard, gone, dt_item_of(id, due_ms, 0)};
}

/* Goes from the last entry to the first: a job's last due_ms is met first and counts, and every was_ms goes. */
void dt_index_batch_load(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                         int64_t horizon_end_ms)
{
    struct dt_index_batch *batch = index->batch;
    const int64_t last_ms = horizon_end_ms < INT64_MAX - FAR_MS ? horizon_end_ms + FAR_MS : INT64_MAX;

    dt_assert_cmp(n, <=, DT_INDEX_BATCH_MAX);
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
                add_item(batch, shard, false, e->id, due_ms);
        }
        if (e->was_ms && e->was_ms != known->due_ms && e->was_ms <= last_ms)
            add_item(batch, shard, true, e->id, e->was_ms);
    }
    sort_batch(batch);
}

/* ---- sending ---- */

/* The end of the items of one shard that begin at `from`. */
static size_t shard_end(const struct dt_index_batch *batch, size_t from)
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
        to = shard_end(batch, from);
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

/* Marks the endpoints that the batch has something for. */
static void want_endpoints(dt_index *index, dt_index_batch_build_fn *build)
{
    struct dt_index_batch *batch = index->batch;

    memset(index->wanted, 0, index->n_links * sizeof(*index->wanted));
    for (size_t from = 0; from < batch->n; from = shard_end(batch, from))
        index->wanted[index->link_of[batch->items[from].shard % DT_SHARDS_MAX]] = true;
    batch->build = build;
}

dt_status dt_index_batch_send(dt_index *index, dt_index_batch_build_fn *build, struct dt_error *err)
{
    want_endpoints(index, build);
    return dt_index_send_wanted(index, build_endpoint, err);
}

dt_status dt_index_batch_ask(dt_index *index, dt_index_batch_build_fn *build, struct dt_error *err)
{
    want_endpoints(index, build);
    return dt_index_ask_wanted(index, build_endpoint, err);
}

/*
 * Owns dt_index_put: entries of any shards that are added, moved or removed. Refuses to know why they are.
 */

/* Adds the shard's changes to its link, at most DT_CHUNK removals and additions a command. What goes is removed before
 * what comes is added, within a command. */
static void build_changes(dt_index *index, unsigned shard, size_t n_gone, size_t n_new)
{
    const struct dt_index_batch *batch = index->batch;

    for (size_t g = 0, a = 0; g < n_gone || a < n_new;) {
        size_t goes = dt_at_most(n_gone - g, DT_CHUNK);
        size_t comes = dt_at_most(n_new - a, DT_CHUNK);

        const struct dt_change change = {.how = DT_CHANGE_PUT,
                                         .wake = batch->wake,
                                         .gone = batch->gone + g,
                                         .n_gone = goes,
                                         .new = batch->new + a,
                                         .n_new = comes};

        dt_change_command(index, shard, &change);
        g += goes;
        a += comes;
    }
}

dt_status dt_index_put(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                       int64_t horizon_end_ms, bool wake, struct dt_error *err)
{
    dt_status first = DT_OK;

    index->batch->wake = wake;
    for (size_t at = 0, some; at < n; at += some) {
        some = dt_at_most(n - at, DT_INDEX_BATCH_MAX);
        dt_index_batch_load(index, map, entries + at, some, horizon_end_ms);
        dt_keep_first(&first, dt_index_batch_ask(index, build_changes, first == DT_OK ? err : NULL));
    }
    return first;
}

/*
 * Owns the arguments of lua/change.lua. Refuses to know where the entries come from.
 */

static const char *const HOW_WORDS[] = {
    [DT_CHANGE_PUT] = "put", [DT_CHANGE_MISSING] = "missing", [DT_CHANGE_FIX] = "fix"};

void dt_change_command(dt_index *index, unsigned shard, const struct dt_change *change)
{
    dt_link *link = dt_index_link(index, shard);
    bool refs = change->how == DT_CHANGE_FIX;

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

/*
 * Owns what is sent for one shard in chunks: fixes, entries that are held or were missing, and questions for scores.
 * Refuses to know who decided on them. Invariant: at most DT_CHUNK entries a command and ROUND_TRIP_MAX a round trip.
 */

#define ROUND_TRIP_MAX (DT_INDEX_BATCH_MAX / DT_CHUNK * DT_CHUNK)

struct chunks {
    enum { FIX, MISSING, HOLD, SCORES, HELD_SCORES } what;
    const struct dt_fix *fixes;     /* of FIX, else NULL */
    const struct dt_entry *entries; /* of all others */
    struct dt_str topic;            /* of the held set */
};

/* The removals in the order of a set, then the additions in the order of a set, each with the number of its removal. */
static void build_fixes(dt_index *index, unsigned shard, const struct dt_fix *fixes, size_t n)
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
    dt_change_command(index, shard,
                      &(struct dt_change){.how = DT_CHANGE_FIX, .gone = gone, .n_gone = n, .new = new, .n_new = n_new});
}

static void build_chunk(dt_index *index, unsigned shard, const struct chunks *chunks, size_t from, size_t n)
{
    dt_link *link = dt_index_link(index, shard);
    struct dt_item *items = index->batch->new;

    dt_assert_cmp(n, <=, DT_CHUNK);
    if (chunks->what == FIX) {
        build_fixes(index, shard, chunks->fixes + from, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        items[i] = dt_item_of(chunks->entries[from + i].id, chunks->entries[from + i].due_ms, 0);
    /* Scores keep the order in which they are asked for: replies are told apart by their places. */
    if (chunks->what == MISSING || chunks->what == HOLD)
        dt_items_sort(items, n);
    if (chunks->what == MISSING) {
        dt_change_command(index, shard, &(struct dt_change){.how = DT_CHANGE_MISSING, .new = items, .n_new = n});
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
    } else { /* members of a held set have their times as scores */
        dt_link_command(link, (unsigned)(2 + n));
        dt_link_arg(link, DT_STR_LIT("ZMSCORE"));
        dt_arg_held(index, link, shard, chunks->topic);
        for (size_t i = 0; i < n; i++)
            dt_link_arg(link, (struct dt_str){(const char *)items[i].member.bytes, items[i].member.n});
    }
}

/* The place for the scores that one round trip asks for, one reply a chunk. */
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

/* scores: room for n where scores are asked for, else NULL. A failure ends it: what was sent before stays done. */
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
            build_chunk(index, shard, chunks, done + k, dt_at_most(some - k, DT_CHUNK));
        status = dt_index_round_trip(link, scores ? on_scores : NULL, &to, err);
        if (status != DT_OK)
            return status;
        done += some;
    }
    return DT_OK;
}

dt_status dt_index_fix(dt_index *index, unsigned shard, const struct dt_fix *fixes, size_t n, struct dt_error *err)
{
    const struct chunks chunks = {FIX, .fixes = fixes};

    return send_chunks(index, shard, &chunks, n, NULL, err);
}

dt_status dt_index_hold(dt_index *index, unsigned shard, struct dt_str topic, const struct dt_entry *entries, size_t n,
                        struct dt_error *err)
{
    const struct chunks chunks = {HOLD, .entries = entries, .topic = topic};

    return send_chunks(index, shard, &chunks, n, NULL, err);
}

dt_status dt_index_add_missing(dt_index *index, unsigned shard, const struct dt_entry *entries, size_t n,
                               struct dt_error *err)
{
    const struct chunks chunks = {MISSING, .entries = entries};

    return send_chunks(index, shard, &chunks, n, NULL, err);
}

dt_status dt_index_scores(dt_index *index, unsigned shard, const struct dt_entry *entries, size_t n, int64_t *scores,
                          struct dt_error *err)
{
    const struct chunks chunks = {SCORES, .entries = entries};

    memset(scores, 0, n * sizeof(*scores));
    return send_chunks(index, shard, &chunks, n, scores, err);
}

dt_status dt_index_held_scores(dt_index *index, unsigned shard, struct dt_str topic, const struct dt_entry *entries,
                               size_t n, int64_t *scores, struct dt_error *err)
{
    const struct chunks chunks = {HELD_SCORES, .entries = entries, .topic = topic};

    memset(scores, 0, n * sizeof(*scores));
    return send_chunks(index, shard, &chunks, n, scores, err);
}
