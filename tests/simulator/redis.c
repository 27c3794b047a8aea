/* index/index.h on sets in memory: entries (score, id), of which a job may have several as long as they are not near
 * each other (in one page: PAGE_MS here). Every call is one request; a write may be lost, be done without an answer,
 * or come late, after its sender gave up. */
#include "simulator/redis.h"

#include "index/index.h"
#include "redis/redis_subscriber.h"
#include "simulator/faults.h"

#define HELD_MAX  16
#define WAKES_MAX 64
#define PAGE_MS   512

struct entry {
    int64_t id, score;
};
struct set {
    struct entry *v;
    size_t n, cap;
};
struct shard {
    struct set due, held[HELD_MAX];
    char held_topics[HELD_MAX][64];
    unsigned n_held;
    bool marked;
    struct dt_marker marker;
    struct notes {
        bool there;
        int64_t life, generation, done_ms, until_us;
        const struct dt_index *by;
    } notes; /* on a set that is being filled */
};

static struct {
    struct shard shards[SHARDS_MAX];
    struct shard copy[SHARDS_MAX];
    bool has_copy;
    int64_t down_until_us, read_only_until_us, cut_until_us;
    struct proc *cut_proc;
    struct dt_wake *wakes[WAKES_MAX];
    unsigned n_wakes;
} redis;

struct dt_index {
    int64_t not_before_us; /* back-off after a failure */
};

struct dt_wake {
    struct proc *proc;
    void (*on_wake)(void *arg, int shard, bool outbox);
    void *arg;
    bool stopped;
};

/* ---- sets ---- */

static int compare_bytes(int64_t a, int64_t b)
{
    char x[24], y[24];
    snprintf(x, sizeof x, "%lld", (long long)a);
    snprintf(y, sizeof y, "%lld", (long long)b);
    return strcmp(x, y);
}

static bool comes_before(const struct entry *a, const struct entry *b)
{
    return a->score != b->score ? a->score < b->score : compare_bytes(a->id, b->id) < 0;
}

/* The entry of the job in the page of a time. */
static struct entry *set_find(struct set *s, int64_t id, int64_t at_ms)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].id == id && s->v[i].score / PAGE_MS == at_ms / PAGE_MS)
            return &s->v[i];
    return NULL;
}

static void set_drop(struct set *s, struct entry *e)
{
    size_t i = (size_t)(e - s->v);
    memmove(e, e + 1, (s->n - i - 1) * sizeof *e);
    s->n--;
}

/* The very entry; true when it was there. */
static bool set_remove(struct set *s, int64_t id, int64_t score)
{
    struct entry *e = set_find(s, id, score);
    if (!e || e->score != score)
        return false;
    set_drop(s, e);
    return true;
}

static void set_put(struct set *s, int64_t id, int64_t score)
{
    struct entry e = {id, score}, *there = set_find(s, id, score);
    if (there)
        set_drop(s, there);
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 16;
        struct entry *bigger = world_alloc(s->cap * sizeof *bigger);
        if (s->n)
            memcpy(bigger, s->v, s->n * sizeof *bigger);
        s->v = bigger;
    }
    size_t i = s->n++;
    for (; i && comes_before(&e, &s->v[i - 1]); i--)
        s->v[i] = s->v[i - 1];
    s->v[i] = e;
}

static struct set set_copy(const struct set *from)
{
    struct set to = {.v = world_alloc((from->n + 1) * sizeof *to.v), .n = from->n, .cap = from->n + 1};
    if (from->n)
        memcpy(to.v, from->v, from->n * sizeof *to.v);
    return to;
}

static struct set *held_set(struct shard *s, struct dt_str topic, bool make)
{
    for (unsigned i = 0; i < s->n_held; i++)
        if (dt_str_is(topic, s->held_topics[i]))
            return &s->held[i];
    if (!make)
        return NULL;
    if (s->n_held == HELD_MAX)
        broken("too many held sets");
    snprintf(s->held_topics[s->n_held], 64, "%.*s", (int)topic.n, topic.p);
    s->held[s->n_held] = (struct set){0};
    return &s->held[s->n_held++];
}

/* ---- commands that change ---- */

enum what { PUT, FIX, HOLD, UNHOLD, MARK, DROP, ADD_MISSING, TAKE, TELL };
struct command {
    enum what what;
    unsigned shard;
    int64_t id, score, seen;
    size_t limit;
    char topic[64];
    struct dt_marker marker, was;
    bool had, keep;
    int64_t life, generation;
    const struct dt_index *by;
};

static void do_unhold(struct shard *s, const struct command *c)
{
    struct set *held = held_set(s, dt_str(c->topic), false);
    for (size_t i = 0; held && held->n && i < c->limit; i++) {
        struct entry e = held->v[0];
        if (!set_find(&s->due, e.id, e.score))
            set_put(&s->due, e.id, e.score);
        set_remove(held, e.id, e.score);
    }
}

static bool same_marker(const struct dt_marker *a, const struct dt_marker *b)
{
    return a->epoch == b->epoch && a->token == b->token && a->count == b->count && a->generation == b->generation &&
           a->filling == b->filling;
}

static bool stays(const struct shard *s, const struct command *c)
{
    return c->had && s->marked && same_marker(&s->marker, &c->was);
}

/* lua/mark.lua */
static void do_mark(struct shard *s, const struct command *c)
{
    if (c->had && !stays(s, c)) {
        s->marked = s->notes.there = false;
        return;
    }
    bool goes_on = c->had && s->notes.there && s->notes.generation == c->marker.map;
    s->marked = true;
    s->marker = c->marker;
    if (!c->marker.filling)
        s->notes.there = false;
    else if (!goes_on)
        s->notes = (struct notes){true, dt_marker_life(&c->marker), c->marker.map, 0, 0, NULL};
}

/* lua/filled.lua: is it his? */
static bool is_his(const struct notes *n, const struct command *c)
{
    if (!n->there)
        return false;
    if (c->what == TELL)
        return n->by == c->by && n->life == c->life;
    return n->generation == c->generation && (n->by == c->by || !n->by || n->until_us <= now_us);
}

static void do_filling(struct notes *n, const struct command *c)
{
    if (!is_his(n, c))
        return;
    if (c->what == TELL)
        n->done_ms = c->score;
    n->by = c->keep ? c->by : NULL;
    n->until_us = now_us + DT_FILLING_MS * MS;
}

static void carry_out(const struct command *c)
{
    struct shard *s = &redis.shards[c->shard];
    struct entry *there = set_find(&s->due, c->id, c->seen);
    switch (c->what) {
    case PUT:
        if (c->seen && c->seen != c->score)
            set_remove(&s->due, c->id, c->seen);
        if (c->score)
            set_put(&s->due, c->id, c->score);
        break;
    case FIX:
        if (!there || there->score != c->seen)
            break;
        set_drop(&s->due, there);
        if (c->score)
            set_put(&s->due, c->id, c->score);
        break;
    case HOLD:
        if (there && there->score != c->seen)
            break;
        set_put(held_set(s, dt_str(c->topic), true), c->id, c->seen);
        set_remove(&s->due, c->id, c->seen);
        break;
    case UNHOLD:
        do_unhold(s, c);
        break;
    case MARK:
        do_mark(s, c);
        break;
    case TAKE:
    case TELL:
        do_filling(&s->notes, c);
        break;
    case DROP:
        s->marked = s->notes.there = false;
        s->due.n = s->n_held = 0;
        break;
    case ADD_MISSING:
        if (!set_find(&s->due, c->id, c->score))
            set_put(&s->due, c->id, c->score);
        break;
    }
}

static void comes_late(void *arg)
{
    carry_out(arg);
}

/* ---- the way to the server ---- */

static dt_status reach(dt_index *index, struct dt_error *err)
{
    if (!index)
        broken("an index is asked that there is not");
    if (now_us < index->not_before_us)
        return dt_fail(err, DT_UNAVAILABLE, "redis: backing off");
    op("redis");
    bool cut = redis.cut_proc && redis.cut_proc == proc_self() && now_us < redis.cut_until_us;
    if (now_us >= redis.down_until_us && !cut)
        return DT_OK;
    if (one_in(2))
        fiber_sleep(rnd_in(1 * MS, 200 * MS));
    if (index)
        index->not_before_us = now_us + rnd_in(10 * MS, 300 * MS);
    return dt_fail(err, DT_UNAVAILABLE, "redis does not answer");
}

/* The reply is lost: nothing was done, all of it, or it is done late. */
static dt_status lose(dt_index *index, const struct command *commands, size_t n, struct dt_error *err)
{
    int how = now_us < redis.read_only_until_us ? 0 : (int)rnd_in(0, 2);
    for (size_t i = 0; i < n && how; i++) {
        struct command *kept = world_alloc(sizeof *kept);
        *kept = commands[i];
        at(how == 1 ? now_us : now_us + rnd_in(1 * MS, 2 * SEC), comes_late, kept);
    }
    if (index)
        index->not_before_us = now_us + rnd_in(10 * MS, 300 * MS);
    return dt_fail(err, DT_UNAVAILABLE, "redis: the reply was lost");
}

/* Once the request has arrived. */
static dt_status change_now(dt_index *index, const struct command *commands, size_t n, struct dt_error *err)
{
    if (now_us < redis.read_only_until_us)
        return dt_fail(err, DT_UNAVAILABLE, "READONLY");
    if (fault(F_INDEX_WRITE, 6))
        return lose(index, commands, n, err);
    for (size_t i = 0; i < n; i++)
        carry_out(&commands[i]);
    return DT_OK;
}

/* Changes, in one turn. */
static dt_status change(dt_index *index, const struct command *commands, size_t n, struct dt_error *err)
{
    dt_status status = reach(index, err);
    return status == DT_OK ? change_now(index, commands, n, err) : lose(index, commands, n, err);
}

static void earliest(int64_t out[SHARDS_MAX])
{
    for (unsigned i = 0; i < SHARDS_MAX; i++)
        out[i] = redis.shards[i].due.n ? redis.shards[i].due.v[0].score : NEVER;
}

static struct command *command_list(size_t n)
{
    return world_alloc((n ? n : 1) * sizeof(struct command));
}

/* ---- index.h ---- */

dt_status dt_index_new(const struct dt_config *config, const char *, const dt_clock *, dt_index **out,
                       struct dt_error *)
{
    *out = NULL;
    if (!dt_index_configured(config))
        return DT_OK;
    *out = calloc(1, sizeof **out);
    return *out ? DT_OK : DT_NOMEM;
}

void dt_index_free(dt_index *index)
{
    free(index);
}

void dt_index_failing(const dt_index *, char *out, size_t cap)
{
    snprintf(out, cap, "*");
}

dt_status dt_index_ping(dt_index *index, struct dt_error *err)
{
    return reach(index, err);
}

static void announce(int shard, bool outbox)
{
    for (unsigned i = 0; i < redis.n_wakes; i++) {
        struct dt_wake *w = redis.wakes[i];
        if (!w->stopped && w->proc->alive && !(faults_on() && !faults_calm() && one_in(16))) /* a word may be lost */
            w->on_wake(w->arg, shard, outbox);
    }
}

dt_status dt_index_put(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                       int64_t horizon_end_ms, bool wake, struct dt_error *err)
{
    struct command *commands = command_list(n);
    for (size_t i = 0; i < n; i++)
        commands[i] = (struct command){.what = PUT,
                                       .shard = dt_shard_of(map, entries[i].id),
                                       .id = entries[i].id,
                                       .seen = entries[i].was_ms,
                                       .score = entries[i].due_ms <= horizon_end_ms ? entries[i].due_ms : 0};
    /* announced when the earliest became earlier, or when it is overdue and something is due soon: decided in the same
     * step */
    dt_status status = reach(index, err);
    int64_t before[SHARDS_MAX], after[SHARDS_MAX];
    earliest(before);
    if (status == DT_OK)
        status = change_now(index, commands, n, err);
    else
        (void)lose(index, commands, n, err);
    earliest(after);
    for (size_t i = 0; i < n; i++) /* is a shard's earliest overdue, that counts as earlier */
        if (commands[i].score && commands[i].score < mysql_now_ms() + 1000 &&
            before[commands[i].shard] < mysql_now_ms())
            before[commands[i].shard] = NEVER;
    for (unsigned i = 0; i < SHARDS_MAX && wake && status == DT_OK; i++)
        if (after[i] < before[i])
            announce((int)i, false);
    return status;
}

dt_status dt_index_wake(dt_index *index, unsigned shard, bool outbox, struct dt_error *err)
{
    dt_status status = reach(index, err);
    if (status == DT_OK)
        announce((int)shard, outbox);
    return status;
}

dt_status dt_index_wake_all(dt_index *index, struct dt_error *err)
{
    dt_status status = reach(index, err);
    if (status == DT_OK)
        announce(-1, false);
    return status;
}

/* Nobody in these worlds waits for a pop without looking. */
dt_status dt_index_tell_offers(dt_index *index, unsigned, const struct dt_str *, size_t, struct dt_error *err)
{
    return reach(index, err);
}

dt_status dt_index_due(dt_index *index, unsigned shard, struct dt_due_scan *scan, struct dt_error *err)
{
    scan->n = 0;
    scan->next_ms = 0;
    scan->marked = false;
    dt_status status = reach(index, err);
    if (status != DT_OK)
        return status;
    const struct shard *s = &redis.shards[shard];
    for (size_t i = 0; i < s->due.n; i++) {
        if (s->due.v[i].score > scan->now_ms || scan->n == scan->limit) {
            scan->next_ms = s->due.v[i].score;
            break;
        }
        bool twice = false;
        for (size_t k = 0; k < scan->n; k++)
            twice |= scan->entries[k].id == s->due.v[i].id;
        if (!twice)
            scan->entries[scan->n++] = (struct dt_entry){s->due.v[i].id, s->due.v[i].score, 0};
    }
    scan->marked = s->marked && same_marker(&s->marker, &scan->marker);
    return DT_OK;
}

dt_status dt_index_mark(dt_index *index, unsigned shard, struct dt_marker marker, const struct dt_marker *was,
                        bool *intact, bool *gone, struct dt_error *err)
{
    struct command c = {.what = MARK, .shard = shard, .marker = marker, .had = was != NULL};
    const struct shard *s = &redis.shards[shard];
    if (was)
        c.was = *was;
    *intact = *gone = false;
    dt_status status = reach(index, err);
    if (status != DT_OK)
        return lose(index, &c, 1, err);
    *intact = s->marked && s->marker.epoch >= marker.oldest && s->marker.generation == marker.generation &&
              !s->marker.filling;
    *gone = was && !stays(s, &c);
    return change_now(index, &c, 1, err);
}

dt_status dt_index_drop(dt_index *index, unsigned shard, struct dt_error *err)
{
    struct command c = {.what = DROP, .shard = shard};
    return change(index, &c, 1, err);
}

const char *dt_index_home(const dt_index *index, unsigned)
{
    return index ? "redis" : "";
}

dt_status dt_index_fix(dt_index *index, unsigned shard, const struct dt_fix *fixes, size_t n, struct dt_error *err)
{
    struct command *commands = command_list(n);
    for (size_t i = 0; i < n; i++)
        commands[i] = (struct command){
            .what = FIX, .shard = shard, .id = fixes[i].id, .seen = fixes[i].seen_ms, .score = fixes[i].due_ms};
    return change(index, commands, n, err);
}

dt_status dt_index_hold(dt_index *index, unsigned shard, struct dt_str topic, const struct dt_entry *entries, size_t n,
                        struct dt_error *err)
{
    struct command *commands = command_list(n);
    for (size_t i = 0; i < n; i++) {
        commands[i] = (struct command){.what = HOLD, .shard = shard, .id = entries[i].id, .seen = entries[i].due_ms};
        snprintf(commands[i].topic, sizeof commands[i].topic, "%.*s", (int)topic.n, topic.p);
    }
    return change(index, commands, n, err);
}

dt_status dt_index_unhold(dt_index *index, unsigned shard, struct dt_str topic, size_t limit, int64_t *next_ms,
                          struct dt_error *err)
{
    struct command c = {.what = UNHOLD, .shard = shard, .limit = limit};
    snprintf(c.topic, sizeof c.topic, "%.*s", (int)topic.n, topic.p);
    dt_status status = change(index, &c, 1, err);
    const struct set *held = held_set(&redis.shards[shard], topic, false);
    *next_ms = held && held->n ? held->v[0].score : 0;
    return status;
}

dt_status dt_index_held(dt_index *index, unsigned shard, struct dt_arena *arena, struct dt_str **topics, size_t *n,
                        struct dt_error *err)
{
    struct shard *s = &redis.shards[shard];
    *n = 0;
    dt_status status = reach(index, err);
    if (status != DT_OK)
        return status;
    *topics = dt_arena_alloc(arena, (s->n_held + 1) * sizeof **topics);
    for (unsigned i = 0; i < s->n_held; i++)
        if (s->held[i].n)
            (*topics)[(*n)++] = dt_arena_copy(arena, dt_str(s->held_topics[i]));
    return DT_OK;
}

dt_status dt_index_range(dt_index *index, unsigned shard, const struct dt_range *range, struct dt_entry *entries,
                         size_t *n, struct dt_error *err)
{
    const struct dt_entry *after = range->after;
    *n = 0;
    dt_status status = reach(index, err);
    const struct set *due = &redis.shards[shard].due;
    for (size_t i = 0; status == DT_OK && i < due->n && *n < range->limit; i++) {
        struct entry last = {after ? after->id : 0, after ? after->due_ms : 0};
        if (due->v[i].score < range->from_ms || due->v[i].score >= range->to_ms ||
            (after && !comes_before(&last, &due->v[i])))
            continue;
        entries[(*n)++] = (struct dt_entry){due->v[i].id, due->v[i].score, 0};
    }
    return status;
}

dt_status dt_index_count(dt_index *index, unsigned shard, int64_t from_ms, int64_t to_ms, int64_t *n,
                         struct dt_error *err)
{
    *n = 0;
    dt_status status = reach(index, err);
    const struct set *due = &redis.shards[shard].due;
    for (size_t i = 0; status == DT_OK && i < due->n; i++)
        *n += due->v[i].score >= from_ms && due->v[i].score < to_ms;
    return status;
}

dt_status dt_index_scores(dt_index *index, unsigned shard, const struct dt_entry *entries, size_t n, int64_t *scores,
                          struct dt_error *err)
{
    dt_status status = reach(index, err);
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        const struct entry *e = set_find(&redis.shards[shard].due, entries[i].id, entries[i].due_ms);
        scores[i] = e ? e->score : 0;
    }
    return status;
}

dt_status dt_index_held_scores(dt_index *index, unsigned shard, struct dt_str topic, const struct dt_entry *entries,
                               size_t n, int64_t *scores, struct dt_error *err)
{
    dt_status status = reach(index, err);
    struct set *held = held_set(&redis.shards[shard], topic, false);
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        const struct entry *e = held ? set_find(held, entries[i].id, entries[i].due_ms) : NULL;
        scores[i] = e ? e->score : 0;
    }
    return status;
}

dt_status dt_index_add_missing(dt_index *index, unsigned shard, const struct dt_entry *entries, size_t n,
                               struct dt_error *err)
{
    struct command *commands = command_list(n);
    for (size_t i = 0; i < n; i++)
        commands[i] =
            (struct command){.what = ADD_MISSING, .shard = shard, .id = entries[i].id, .score = entries[i].due_ms};
    return change(index, commands, n, err);
}

dt_status dt_index_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                        struct dt_error *err)
{
    struct command *commands = command_list(n);
    for (size_t i = 0; i < n; i++)
        commands[i] = (struct command){.what = ADD_MISSING,
                                       .shard = dt_shard_of(map, entries[i].id),
                                       .id = entries[i].id,
                                       .score = entries[i].due_ms};
    return change(index, commands, n, err);
}

dt_status dt_index_begin_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                              struct dt_error *err)
{
    return dt_index_fill(index, map, entries, n, err);
}

STUB(dt_status, dt_index_end_fill, (dt_index * index, struct dt_error *err), DT_OK)

dt_status dt_index_fillings(dt_index *index, enum dt_filling_ask ask, struct dt_filling *list, size_t n,
                            struct dt_error *err)
{
    const enum what what = ask == DT_FILLING_TELL ? TELL : TAKE;
    struct command *commands = command_list(n);
    struct dt_filling **asked = world_alloc((n + 1) * sizeof *asked);
    size_t n_asked = 0;
    for (size_t i = 0; i < n; i++) {
        if (what == TELL && !list[i].ours)
            continue;
        commands[n_asked] = (struct command){.what = what,
                                             .shard = list[i].shard,
                                             .score = list[i].done_ms,
                                             .life = list[i].life,
                                             .generation = list[i].generation,
                                             .keep = what == TAKE || list[i].keep,
                                             .by = index};
        list[i].wanted = list[i].ours = false;
        asked[n_asked++] = &list[i];
    }
    if (n_asked == 0)
        return DT_OK;
    dt_status status = reach(index, err);
    if (status != DT_OK)
        return lose(index, commands, n_asked, err);
    for (size_t i = 0; i < n_asked; i++) {
        const struct notes *notes = &redis.shards[asked[i]->shard].notes;
        asked[i]->wanted = notes->there;
        asked[i]->ours = is_his(notes, &commands[i]);
        if (!notes->there)
            continue;
        asked[i]->life = notes->life;
        asked[i]->generation = notes->generation;
        asked[i]->done_ms = what == TELL && asked[i]->ours ? asked[i]->done_ms : notes->done_ms;
    }
    status = change_now(index, commands, n_asked, err);
    for (size_t i = 0; i < n_asked && status != DT_OK; i++)
        asked[i]->wanted = asked[i]->ours = false;
    return status;
}

/* ---- wake-ups ---- */

dt_status dt_wake_start(const struct dt_config *config, const char *,
                        void (*on_wake)(void *arg, int shard, bool outbox), void *arg, dt_wake **out, struct dt_error *)
{
    *out = NULL;
    if (!dt_index_configured(config))
        return DT_OK;
    if (redis.n_wakes == WAKES_MAX)
        broken("too many subscribers");
    struct dt_wake *w = calloc(1, sizeof *w);
    if (!w)
        return DT_NOMEM;
    *w = (struct dt_wake){.proc = proc_self(), .on_wake = on_wake, .arg = arg};
    redis.wakes[redis.n_wakes++] = w;
    *out = w;
    return DT_OK;
}

/* What is announced to a process that is cut off is lost, and it may not know. */
bool dt_wake_hears(const dt_wake *wake)
{
    return wake && !wake->stopped && now_us >= redis.down_until_us;
}

void dt_wake_stop(dt_wake *wake)
{
    if (wake)
        wake->stopped = true;
}

/* ---- for the nemesis and the oracles ---- */

void redis_flush(void)
{
    memset(redis.shards, 0, sizeof redis.shards);
    TRACE("redis: emptied");
}

void redis_lose_some(void)
{
    for (unsigned i = 0; i < SHARDS_MAX; i++)
        for (size_t k = redis.shards[i].due.n; k-- > 0;)
            if (one_in(3))
                set_drop(&redis.shards[i].due, &redis.shards[i].due.v[k]);
    TRACE("redis: some entries are gone");
}

static void copy_all(struct shard *to, const struct shard *from)
{
    for (unsigned i = 0; i < SHARDS_MAX; i++) {
        to[i] = from[i];
        to[i].due = set_copy(&from[i].due);
        for (unsigned k = 0; k < from[i].n_held; k++)
            to[i].held[k] = set_copy(&from[i].held[k]);
    }
}

void redis_copy(void)
{
    copy_all(redis.copy, redis.shards);
    redis.has_copy = true;
}

bool redis_has_copy(void)
{
    return redis.has_copy;
}

void redis_restore(void)
{
    copy_all(redis.shards, redis.copy);
    TRACE("redis: an old copy is back");
}

void redis_down(int64_t until_us)
{
    redis.down_until_us = until_us;
}
void redis_read_only(int64_t until_us)
{
    redis.read_only_until_us = until_us;
}
void redis_cut_replies(struct proc *proc, int64_t until_us)
{
    redis.cut_proc = proc;
    redis.cut_until_us = until_us;
}

int64_t redis_score(unsigned shard, int64_t job, bool *held)
{
    struct shard *s = &redis.shards[shard];
    int64_t score = 0;
    *held = false;
    for (unsigned i = 0; i < s->n_held; i++)
        for (size_t k = 0; k < s->held[i].n; k++)
            *held |= s->held[i].v[k].id == job;
    for (size_t k = 0; k < s->due.n; k++)
        if (s->due.v[k].id == job)
            score = score ? -1 : s->due.v[k].score;
    return score;
}

bool redis_entry(unsigned shard, size_t n, int64_t *job, int64_t *score)
{
    const struct set *due = &redis.shards[shard].due;
    if (n >= due->n)
        return false;
    *job = due->v[n].id;
    *score = due->v[n].score;
    return true;
}

void redis_begin(void)
{
    memset(&redis, 0, sizeof redis);
}
