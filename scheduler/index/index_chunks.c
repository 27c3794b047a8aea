/*
 * Owns what is sent for one shard in chunks: fixes, entries that are held or were missing, and questions for scores.
 * Refuses to know who decided on them. Invariant: at most DT_CHUNK entries a command and ROUND_TRIP_MAX a round trip.
 */
#include <string.h>

#include "base/assert.h"
#include "index_internal.h"

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
