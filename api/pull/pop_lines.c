/* Owns who stands where: see pop_lines.h. Refuses to know jobs and sockets. */
#include "pop_lines.h"

#include <stdlib.h>
#include <utlist.h>

#include "base/strbuf.h"

void dt_pop_lines_init(struct dt_pop_lines *lines)
{
    *lines = (struct dt_pop_lines){0};
    lines->ready_end = &lines->ready;
}

/* ---- keys ---- */

/* Names of topics have no spaces, so keys of different wishes differ. */
static void key_of(const struct dt_pop_wish *wish, struct dt_strbuf *key)
{
    dt_strbuf_init(key);
    dt_strbuf_add_i64(key, wish->ttr_ms);
    for (size_t i = 0; i < wish->n_topics; i++) {
        dt_strbuf_addc(key, ' ');
        dt_strbuf_add(key, wish->topics[i].p, wish->topics[i].n);
    }
}

static struct dt_pop_line *find(const struct dt_pop_lines *lines, struct dt_str key)
{
    struct dt_pop_line *line = NULL;
    HASH_FIND(hh, lines->lines, key.p, key.n, line);
    return line;
}

struct dt_pop_line *dt_pop_lines_find(const struct dt_pop_lines *lines, const struct dt_pop_wish *wish)
{
    struct dt_strbuf key;
    key_of(wish, &key);
    struct dt_pop_line *line = key.failed ? NULL : find(lines, dt_strbuf_str(&key));
    dt_strbuf_clear(&key);
    return line;
}

/* ---- topics ---- */

static struct dt_pop_topic_entry *topic_of(struct dt_pop_lines *lines, struct dt_str name)
{
    struct dt_pop_topic_entry *topic = NULL;
    HASH_FIND(hh, lines->topics, name.p, name.n, topic);
    if (topic)
        return topic;
    topic = calloc(1, sizeof(*topic) + name.n + 1);
    if (!topic)
        return NULL;
    memcpy(topic + 1, name.p, name.n);
    topic->name = (struct dt_str){(const char *)(topic + 1), name.n};
    HASH_ADD_KEYPTR(hh, lines->topics, topic->name.p, topic->name.n, topic);
    if (topic->hh.tbl)
        return topic;
    free(topic);
    return NULL;
}

static void leave_topics(struct dt_pop_lines *lines, struct dt_pop_line *line)
{
    for (size_t i = 0; i < line->wish.n_topics; i++) {
        struct dt_pop_topic_entry *topic = line->places[i].topic;
        if (!topic)
            continue;
        DL_DELETE(topic->first, &line->places[i]);
        if (topic->first)
            continue;
        HASH_DEL(lines->topics, topic);
        free(topic);
    }
}

/* ---- lines ---- */

static void line_free(struct dt_pop_lines *lines, struct dt_pop_line *line)
{
    leave_topics(lines, line);
    free(line->places);
    free((void *)(uintptr_t)line->wish.topics);
    free((void *)(uintptr_t)line->key.p);
    free(line);
}

/* Names are slices of the key. */
static bool take_names(struct dt_pop_line *line, const struct dt_pop_wish *wish)
{
    struct dt_str *names = calloc(wish->n_topics, sizeof(*names));
    const char *p = line->key.p + line->key.n;
    line->wish.topics = names;
    for (size_t i = wish->n_topics; names && i-- > 0;) {
        p -= wish->topics[i].n;
        names[i] = (struct dt_str){p--, wish->topics[i].n};
    }
    return names != NULL;
}

static bool enter_topics(struct dt_pop_lines *lines, struct dt_pop_line *line)
{
    line->places = calloc(line->wish.n_topics, sizeof(*line->places));
    for (size_t i = 0; line->places && i < line->wish.n_topics; i++) {
        struct dt_pop_place *place = &line->places[i];
        place->line = line;
        place->topic = topic_of(lines, line->wish.topics[i]);
        if (!place->topic)
            return false;
        DL_APPEND(place->topic->first, place);
    }
    return line->places != NULL;
}

/* key is taken over, whatever happens. */
static struct dt_pop_line *line_new(struct dt_pop_lines *lines, const struct dt_pop_wish *wish, struct dt_strbuf *key)
{
    struct dt_pop_line *line = calloc(1, sizeof(*line));
    if (!line) {
        dt_strbuf_clear(key);
        return NULL;
    }
    line->key = dt_strbuf_str(key);
    line->wish = *wish;
    line->wish.topics = NULL;
    bool made = take_names(line, wish) && enter_topics(lines, line);
    if (made)
        HASH_ADD_KEYPTR(hh, lines->lines, line->key.p, line->key.n, line);
    if (made && line->hh.tbl)
        return line;
    line->wish.n_topics = line->places ? line->wish.n_topics : 0;
    line_free(lines, line);
    return NULL;
}

static struct dt_pop_line *line_for(struct dt_pop_lines *lines, const struct dt_pop_wish *wish)
{
    struct dt_strbuf key;
    key_of(wish, &key);
    struct dt_pop_line *line = key.failed ? NULL : find(lines, dt_strbuf_str(&key));
    if (!line && !key.failed)
        return line_new(lines, wish, &key);
    dt_strbuf_clear(&key);
    return line;
}

bool dt_pop_lines_add(struct dt_pop_lines *lines, const struct dt_pop_wish *wish, struct dt_pop_waiter *waiter)
{
    struct dt_pop_line *line = line_for(lines, wish);
    if (!line)
        return false;
    waiter->line = line;
    DL_APPEND(line->first, waiter);
    line->n++;
    lines->n++;
    return true;
}

static void unready(struct dt_pop_lines *lines, struct dt_pop_line *line)
{
    struct dt_pop_line **at = &lines->ready;
    while (*at != line)
        at = &(*at)->next_ready;
    *at = line->next_ready;
    if (!*at)
        lines->ready_end = at;
    line->ready = false;
}

void dt_pop_lines_remove(struct dt_pop_lines *lines, struct dt_pop_waiter *waiter)
{
    struct dt_pop_line *line = waiter->line;
    DL_DELETE(line->first, waiter);
    line->n--;
    lines->n--;
    if (line->n)
        return;
    if (line->ready)
        unready(lines, line);
    HASH_DEL(lines->lines, line);
    line_free(lines, line);
}

/* ---- what is ready ---- */

void dt_pop_lines_ready(struct dt_pop_lines *lines, struct dt_pop_line *line)
{
    if (line->ready)
        return;
    line->ready = true;
    line->next_ready = NULL;
    *lines->ready_end = line;
    lines->ready_end = &line->next_ready;
}

void dt_pop_lines_offer(struct dt_pop_lines *lines, struct dt_str topic)
{
    struct dt_pop_topic_entry *entry = NULL;
    struct dt_pop_line *line;
    struct dt_pop_line *next;
    struct dt_pop_place *place;
    if (!topic.p) {
        HASH_ITER(hh, lines->lines, line, next)
        dt_pop_lines_ready(lines, line);
        return;
    }
    HASH_FIND(hh, lines->topics, topic.p, topic.n, entry);
    if (entry)
        DL_FOREACH(entry->first, place)
    dt_pop_lines_ready(lines, place->line);
}

struct dt_pop_line *dt_pop_lines_next_ready(struct dt_pop_lines *lines)
{
    struct dt_pop_line *line = lines->ready;
    if (line)
        unready(lines, line);
    return line;
}
