/*
 * Owns what a leader remembers between due scans: the topics of jobs, topics at their limits, and due jobs whose topics
 * are not known yet. All of it is bounded; if it is lost, that only costs time.
 *
 * Invariant of the cache of topics: each id may be stored in WAYS slots, which it shares with other ids, and is in at
 * most one of them. A new id uses a free slot, or replaces an older id. If memory runs out, or there are too many
 * topics, nothing more is stored.
 */

#include "base/assert.h"
#include "shard_parts.h"

#define WAYS 4 /* large enough that hardly any job of a backlog is replaced; each replaced job costs a statement */

struct dt_remembered {
    int64_t id; /* 0: the slot is free */
    uint32_t topic;
    bool names_host;
};

static struct dt_remembered *slots_of_id(const struct dt_topic_memory *memory, int64_t id)
{
    uint64_t mixed = (uint64_t)id * 0x9e3779b97f4a7c15u;
    return &memory->jobs[mixed >> 48 & ~(uint64_t)(WAYS - 1)];
}

static struct dt_remembered *find_job(const struct dt_topic_memory *memory, int64_t id)
{
    struct dt_remembered *at = memory->jobs && id ? slots_of_id(memory, id) : NULL;
    for (size_t i = 0; at && i < WAYS; i++)
        if (at[i].id == id)
            return &at[i];
    return NULL;
}

/* Returns the index of the topic, which is added if it is new; DT_TOPIC_MEMORY_TOPICS: there is no room for it. */
static size_t find_or_add_topic_index(struct dt_topic_memory *memory, struct dt_str topic)
{
    size_t n = memory->n_topics;
    for (size_t i = n; i-- > 0;)
        if (dt_str_is(topic, memory->topics[i]))
            return i;
    if (n == DT_TOPIC_MEMORY_TOPICS)
        return n;
    memory->topics[n] = strndup(topic.p, topic.n);
    if (!memory->topics[n])
        return DT_TOPIC_MEMORY_TOPICS;
    memory->n_topics++;
    return n;
}

void dt_topic_memory_note(struct dt_topic_memory *memory, int64_t id, struct dt_str topic, bool names_host)
{
    if (!memory->jobs)
        memory->jobs = calloc(DT_TOPIC_MEMORY_JOBS, sizeof(*memory->jobs));
    if (!memory->jobs)
        return;
    size_t number = find_or_add_topic_index(memory, topic);
    if (number == DT_TOPIC_MEMORY_TOPICS)
        return;
    struct dt_remembered *at = slots_of_id(memory, id);
    struct dt_remembered *place = find_job(memory, id);
    for (size_t i = 0; !place && i < WAYS; i++)
        if (at[i].id == 0)
            place = &at[i];
    place = place ? place : &at[(uint64_t)id % WAYS];
    *place = (struct dt_remembered){id, (uint32_t)number, names_host};
}

void dt_topic_memory_forget(struct dt_topic_memory *memory, int64_t id)
{
    struct dt_remembered *known = find_job(memory, id);
    if (known)
        known->id = 0;
}

bool dt_topic_memory_find(const struct dt_topic_memory *memory, int64_t id, struct dt_str *topic, bool *names_host)
{
    const struct dt_remembered *known = find_job(memory, id);
    if (!known)
        return false;
    dt_assert_cmp(known->topic, <, memory->n_topics);
    *topic = dt_str(memory->topics[known->topic]);
    *names_host = known->names_host;
    return true;
}

void dt_topic_memory_clear(struct dt_topic_memory *memory)
{
    for (size_t i = 0; i < memory->n_topics; i++)
        free(memory->topics[i]);
    free(memory->jobs);
    *memory = (struct dt_topic_memory){0};
}

/* ---- topics at their limits: a list without duplicates, empty while no topic is at its limit ---- */

void dt_limit_memory_clear(struct dt_limit_memory *memory)
{
    free(memory->v);
    *memory = (struct dt_limit_memory){0};
}

static struct dt_limited_topic *find_limited(const struct dt_limit_memory *memory, struct dt_str topic)
{
    for (size_t i = 0; i < memory->n; i++)
        if (dt_str_is(topic, memory->v[i].name))
            return &memory->v[i];
    return NULL;
}

static bool is_limit_outdated(const struct dt_limited_topic *topic, int64_t now_us)
{
    return now_us - topic->since_us >= (topic->allowed ? DT_LIMIT_GRANTED_US : DT_LIMIT_WAITS_US);
}

size_t dt_limit_memory_allowed(const struct dt_limit_memory *memory, struct dt_str topic, int64_t now_us)
{
    const struct dt_limited_topic *known = find_limited(memory, topic);
    return known && !is_limit_outdated(known, now_us) ? known->allowed : SIZE_MAX;
}

void dt_limit_memory_set(struct dt_limit_memory *memory, struct dt_str topic, size_t n, int64_t now_us)
{
    struct dt_limited_topic *known = find_limited(memory, topic);
    if (!known && (memory->n == DT_LIMIT_MEMORY_TOPICS || topic.n >= sizeof(memory->v->name)))
        return;
    if (!known && memory->n == memory->cap) {
        size_t cap = memory->cap ? memory->cap * 2 : 8;
        struct dt_limited_topic *v = realloc(memory->v, cap * sizeof(*v));
        if (!v)
            return;
        memory->v = v;
        memory->cap = cap;
    }
    if (!known) {
        dt_assert_cmp(memory->n, <, memory->cap);
        known = &memory->v[memory->n++];
        *known = (struct dt_limited_topic){0};
        memcpy(known->name, topic.p, topic.n);
    }
    known->allowed = n;
    known->since_us = now_us;
    known->asked_us = 0;
}

bool dt_limit_memory_spend(struct dt_limit_memory *memory, struct dt_str topic)
{
    struct dt_limited_topic *known = find_limited(memory, topic);
    if (!known || known->allowed == 0 || known->allowed == SIZE_MAX)
        return false;
    return --known->allowed == 0;
}

void dt_limit_memory_forget(struct dt_limit_memory *memory, struct dt_str topic)
{
    struct dt_limited_topic *known = find_limited(memory, topic);
    if (known)
        *known = memory->v[--memory->n];
}

void dt_limit_memory_age(struct dt_limit_memory *memory, int64_t now_us)
{
    for (size_t i = memory->n; i-- > 0;)
        if (is_limit_outdated(&memory->v[i], now_us))
            memory->v[i] = memory->v[--memory->n];
}

/* ---- a set of ids: open addressing with linear probing (Knuth 6.4, algorithm L) ---- */

/* Number of slots: a power of two, so that a mask finds the slot of a hash. */
#define PLACES (2 * (size_t)DT_ID_SET_MAX)

/* Returns the id's slot, or the free slot where the id would be stored. */
static int64_t *find_id_slot(const struct dt_id_set *set, int64_t id)
{
    dt_assert_cmp(set->n, <=, DT_ID_SET_MAX); /* at least half of the slots are free */
    size_t at = (size_t)(((uint64_t)id * 0x9e3779b97f4a7c15u) >> 32) & (PLACES - 1);
    while (set->v[at] && set->v[at] != id)
        at = (at + 1) & (PLACES - 1);
    return &set->v[at];
}

bool dt_id_set_add(struct dt_id_set *set, int64_t id)
{
    if (!set->v)
        set->v = calloc(PLACES, sizeof(*set->v));
    if (!set->v)
        return false;
    int64_t *place = find_id_slot(set, id);
    if (*place == id)
        return true;
    if (set->n == DT_ID_SET_MAX)
        return false;
    *place = id;
    set->n++;
    return true;
}

bool dt_id_set_has(const struct dt_id_set *set, int64_t id)
{
    return set->n && *find_id_slot(set, id) == id;
}

void dt_id_set_empty(struct dt_id_set *set)
{
    if (set->n)
        memset(set->v, 0, PLACES * sizeof(*set->v));
    set->n = 0;
}

void dt_id_set_clear(struct dt_id_set *set)
{
    free(set->v);
    *set = (struct dt_id_set){0};
}

/*
 * ---- due jobs whose topics are being looked up or created ----
 *
 * Due scans skip these jobs. Otherwise leader transactions would lock and read their rows in vain, and if a client
 * names hundreds of new topics, all other jobs would wait.
 *
 * Invariant: a job is skipped only while the lookup of its topic runs, and for AGAIN_US at most. After that its row is
 * read again, so that other changes of the row are seen.
 */

#define AGAIN_US INT64_C(1000000)

void dt_shard_note_unknown(dt_shard_loop *l, int64_t id)
{
    struct dt_shard_unknown *unknown = &l->unknown;
    if (unknown->ids.n == 0)
        unknown->since_us = dt_shard_mono_us(l);
    (void)dt_id_set_add(&unknown->ids, id); /* if the set is full, each due scan reads the job's row again */
}

size_t dt_shard_pass_by_unknown(dt_shard_loop *l, size_t n)
{
    struct dt_entry *entries = l->due.entries;
    size_t stay = 0;
    if (dt_shard_mono_us(l) - l->unknown.since_us >= AGAIN_US)
        dt_id_set_empty(&l->unknown.ids);
    if (l->unknown.ids.n == 0)
        return n;
    for (size_t i = 0; i < n; i++)
        if (!dt_id_set_has(&l->unknown.ids, entries[i].id))
            entries[stay++] = entries[i];
    return stay;
}
