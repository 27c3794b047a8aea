/* See fair.h. A batch is shared in rounds. Each round divides the remaining room evenly among the queues that are
 * not full, until no room remains or all queues are full. Owners share in the same way, and so do the queues of each
 * owner. */
#include "fair.h"

#include "assert.h"

#define TIMEOUTS_PART 4
#define TURNS_PROBED  8
#define PRUNE_US      INT64_C(1000000)

/* A range of consecutive queues: the queues of one owner, or all queues. */
struct run {
    struct dt_fair_queue *v, *end;
};

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t sum_wanted(struct run run)
{
    size_t want = 0;
    for (const struct dt_fair_queue *queue = run.v; queue < run.end; queue++) {
        dt_assert_cmp(queue->quota, <=, queue->waiting);
        want += queue->waiting - queue->quota;
    }
    return want;
}

/* Returns the queues of the first owner in a range of queues. */
static struct run queues_of_first_owner(struct run run)
{
    struct run own = {run.v, run.v};
    while (own.end < run.end && own.end->owner == run.v->owner)
        own.end++;
    return own;
}

/* Divides `room` among the queues of one owner. Together, they can use at least `room`. */
static void share_among_queues(struct run own, size_t room)
{
    while (room) {
        size_t want = 0;
        for (const struct dt_fair_queue *queue = own.v; queue < own.end; queue++)
            want += queue->quota < queue->waiting;
        dt_assert_cmp(want, >, 0); /* a queue that is not full gets at least one place, so the loop ends */
        size_t each = room > want ? room / want : 1;
        for (struct dt_fair_queue *queue = own.v; queue < own.end && room; queue++) {
            size_t more = min_size(min_size(each, room), queue->waiting - queue->quota);
            queue->quota += more;
            room -= more;
        }
    }
}

/* Divides `room` among the owners. Returns the part that no owner could use. */
static size_t share_among_owners(struct run all, size_t room)
{
    size_t want = 1;
    while (room && want) {
        struct run own;
        want = 0;
        for (struct run rest = all; rest.v < rest.end; rest.v = own.end) {
            own = queues_of_first_owner(rest);
            want += sum_wanted(own) > 0;
        }
        size_t each = want && room > want ? room / want : 1;
        for (struct run rest = all; rest.v < rest.end && room; rest.v = own.end) {
            own = queues_of_first_owner(rest);
            size_t more = min_size(min_size(each, room), sum_wanted(own));
            share_among_queues(own, more);
            room -= more;
        }
    }
    return room;
}

static int compare_by_owner(const void *a, const void *b)
{
    const struct dt_fair_queue *x = a;
    const struct dt_fair_queue *y = b;
    return x->owner != y->owner ? DT_ORDER(x->owner, y->owner) : DT_ORDER(x->place, y->place);
}

/* Orders queues: timeouts before due jobs, and owners in the order of their first queues. */
static int compare_by_timeouts_and_owner(const void *a, const void *b)
{
    const struct dt_fair_queue *x = a;
    const struct dt_fair_queue *y = b;
    if (x->timeouts != y->timeouts)
        return x->timeouts ? -1 : 1;
    return x->first != y->first ? DT_ORDER(x->first, y->first) : DT_ORDER(x->place, y->place);
}

static int compare_queues_by_place(const void *a, const void *b)
{
    return DT_ORDER(((const struct dt_fair_queue *)a)->place, ((const struct dt_fair_queue *)b)->place);
}

void dt_fair_share(struct dt_fair_queue *queues, size_t n, size_t room)
{
    struct run timeouts = {queues, queues};
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        queues[i].quota = 0, queues[i].place = i;
    qsort(queues, n, sizeof(*queues), compare_by_owner);
    for (size_t i = 0; i < n; i++)
        queues[i].first = i && queues[i].owner == queues[i - 1].owner ? queues[i - 1].first : queues[i].place;
    qsort(queues, n, sizeof(*queues), compare_by_timeouts_and_owner);
    while (timeouts.end < queues + n && timeouts.end->timeouts)
        timeouts.end++;
    const struct run others = {timeouts.end, queues + n};
    size_t late = room / TIMEOUTS_PART ? room / TIMEOUTS_PART : min_size(room, 1);
    if (!sum_wanted(others))
        late = room;
    room = room - late + share_among_owners(timeouts, late);
    room = share_among_owners(others, room);
    share_among_owners(timeouts, room);
    qsort(queues, n, sizeof(*queues), compare_queues_by_place);
}

/* Returns the index of the table entry with this key. If there is none, returns the index of an entry that may be
 * overwritten: the oldest of a few. */
static size_t find_turn_entry(const struct dt_turns_last *table, int64_t key)
{
    size_t oldest = (uint64_t)key % DT_TURNS_REMEMBERED;
    for (size_t i = 0; i < TURNS_PROBED; i++) {
        const size_t at = ((uint64_t)key + i) % DT_TURNS_REMEMBERED;
        if (table[at].key == key)
            return at;
        if (table[at].turn < table[oldest].turn)
            oldest = at;
    }
    return oldest;
}

static int64_t last_turn_of(const struct dt_turns_last *table, int64_t key)
{
    const struct dt_turns_last *last = &table[find_turn_entry(table, key)];
    return last->key == key ? last->turn : 0;
}

static int compare_by_owner_and_wait(const void *a, const void *b)
{
    const struct dt_turn *x = a;
    const struct dt_turn *y = b;
    if (x->owner != y->owner)
        return DT_ORDER(x->owner, y->owner);
    return x->thing_last != y->thing_last ? DT_ORDER(x->thing_last, y->thing_last) : DT_ORDER(x->at, y->at);
}

static int compare_by_turn_and_wait(const void *a, const void *b)
{
    const struct dt_turn *x = a;
    const struct dt_turn *y = b;
    if (x->nth != y->nth)
        return DT_ORDER(x->nth, y->nth);
    return x->owner_last != y->owner_last ? DT_ORDER(x->owner_last, y->owner_last) : DT_ORDER(x->first, y->first);
}

void dt_turns_sort(const struct dt_turns *turns, struct dt_turn *v, size_t n)
{
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        v[i].owner_last = turns ? last_turn_of(turns->owners, v[i].owner) : 0;
        v[i].thing_last = turns ? last_turn_of(turns->things, v[i].thing) : 0;
    }
    qsort(v, n, sizeof(*v), compare_by_owner_and_wait);
    for (size_t i = 0, end; i < n; i = end) {
        size_t first = v[i].at;
        for (end = i; end < n && v[end].owner == v[i].owner; end++)
            first = min_size(first, v[end].at);
        for (size_t k = i; k < end; k++) {
            v[k].nth = k - i;
            v[k].first = first;
        }
    }
    qsort(v, n, sizeof(*v), compare_by_turn_and_wait);
}

void dt_turns_note(struct dt_turns *turns, int64_t owner, int64_t thing)
{
    turns->n++;
    turns->owners[find_turn_entry(turns->owners, owner)] = (struct dt_turns_last){owner, turns->n};
    turns->things[find_turn_entry(turns->things, thing)] = (struct dt_turns_last){thing, turns->n};
}

/* Returns the index of the first entry whose owner is not smaller than `owner`. Entries are sorted by owner. */
static size_t find_share_index(const struct dt_shares *s, int64_t owner)
{
    size_t low = 0;
    for (size_t high = s->n; low < high;) {
        const size_t middle = low + (high - low) / 2;
        if (s->v[middle].owner < owner)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the entry of an owner and marks that the owner asks now. NULL: memory ran out. Every PRUNE_US, removes
 * entries of owners that hold nothing and did not ask recently. */
static struct dt_share *find_share(struct dt_shares *s, int64_t owner, int64_t now_us)
{
    if (now_us - s->pruned_us >= PRUNE_US) {
        size_t kept = 0;
        for (size_t i = 0; i < s->n; i++)
            if (s->v[i].used || now_us - s->v[i].asked_us <= DT_SHARES_ASKED_US)
                s->v[kept++] = s->v[i];
        s->n = kept;
        s->pruned_us = now_us;
    }
    const size_t at = find_share_index(s, owner);
    if (at == s->n || s->v[at].owner != owner) {
        if (s->n == s->cap) {
            size_t cap = s->cap ? 2 * s->cap : 16;
            struct dt_share *v = realloc(s->v, cap * sizeof(*v));
            if (!v)
                return NULL;
            s->v = v;
            s->cap = cap;
        }
        memmove(&s->v[at + 1], &s->v[at], (s->n - at) * sizeof(*s->v));
        s->v[at] = (struct dt_share){.owner = owner};
        s->n++;
    }
    s->v[at].asked_us = now_us;
    return &s->v[at];
}

static size_t count_free_for_owner(const struct dt_shares *s, const struct dt_share *own)
{
    dt_assert_cmp(own->used, <=, s->used);
    const size_t taken = s->used - own->used;
    return s->total > taken ? s->total - taken : 0;
}

static size_t limit_for_owner(const struct dt_shares *s, const struct dt_share *own)
{
    const size_t left = count_free_for_owner(s, own);
    const size_t spare = s->spares_none ? 0 : (left + 4) / 8; /* an eighth of `left`, rounded */
    const size_t share = s->n > 1 ? left / s->part : left - spare;
    return share ? share : min_size(left, 1);
}

bool dt_shares_most(struct dt_shares *s, int64_t owner, int64_t now_us, size_t *most)
{
    const struct dt_share *own = find_share(s, owner, now_us);
    if (own)
        *most = limit_for_owner(s, own);
    return own != NULL;
}

bool dt_shares_take(struct dt_shares *s, int64_t owner, size_t amount, int64_t now_us)
{
    struct dt_share *own = find_share(s, owner, now_us);
    if (!own)
        return false;
    const bool first = own->used == 0 && (s->used == 0 ? s->total > 0 : amount <= count_free_for_owner(s, own));
    if (!first && own->used + amount > limit_for_owner(s, own))
        return false;
    own->used += amount;
    s->used += amount;
    return true;
}

void dt_shares_give_back(struct dt_shares *s, int64_t owner, size_t amount)
{
    const size_t at = find_share_index(s, owner);
    if (at == s->n || s->v[at].owner != owner || s->v[at].used < amount)
        return;
    dt_assert_cmp(s->used, >=, s->v[at].used);
    s->v[at].used -= amount;
    s->used -= amount;
}

void dt_shares_clear(struct dt_shares *s)
{
    free(s->v);
    *s = (struct dt_shares){.total = s->total, .part = s->part};
}
