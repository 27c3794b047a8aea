/* Slices, growable buffers and arenas. If an allocation fails, the buffer sets `failed` and ignores further appends, so
 * that a caller builds the whole text and checks once. */
#pragma once

#include <stdarg.h>

#include "base/status.h"

/* Borrowed bytes; p may be NULL ("absent") and need not be terminated. */
struct dt_str {
    const char *p;
    size_t n;
};

#define DT_STR_NONE   ((struct dt_str){NULL, 0})
#define DT_STR_LIT(s) ((struct dt_str){"" s, sizeof(s) - 1})
static inline struct dt_str dt_str(const char *s)
{
    return (struct dt_str){s, s ? strlen(s) : 0};
}
static inline bool dt_str_eq(struct dt_str a, struct dt_str b)
{
    return a.n == b.n && (a.n == 0 || a.p == b.p || memcmp(a.p, b.p, a.n) == 0);
}
static inline bool dt_str_begins(struct dt_str s, struct dt_str prefix)
{
    return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}
static inline bool dt_str_ends(struct dt_str s, struct dt_str suffix)
{
    return s.n >= suffix.n && (suffix.n == 0 || memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0);
}
/* Compares bytes as memcmp does; a prefix sorts before the longer text. */
static inline int dt_str_order(struct dt_str a, struct dt_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : DT_ORDER(a.n, b.n);
}
static inline bool dt_str_is(struct dt_str a, const char *s)
{
    return dt_str_eq(a, dt_str(s));
}
/* Compares without regard to the case of ASCII letters. `lower` must not have capital letters. */
bool dt_str_is_caseless(struct dt_str s, const char *lower);
/* Returns the text without the spaces and tabs at both ends. */
struct dt_str dt_str_trimmed(struct dt_str s);
/* Returns the text without the byte order mark that Windows programs write before UTF-8. */
struct dt_str dt_str_without_bom(struct dt_str s);
/* Removes the first element from *list, a comma-separated list, and returns the element without blanks around it. */
struct dt_str dt_str_next_element(struct dt_str *list);
/* Returns the FNV-1a hash of 32 bits, for tables in memory. */
static inline uint32_t dt_str_hash(struct dt_str s)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (unsigned char)s.p[i]) * 16777619u;
    return h;
}

struct dt_strbuf {
    char *p; /* text, terminated; NULL before the first append */
    size_t n, cap;
    bool failed;
};

void dt_strbuf_clear(struct dt_strbuf *sb); /* frees the memory; the buffer can be used again */
void dt_strbuf_reset(struct dt_strbuf *sb); /* makes the buffer empty and clears `failed`; keeps its memory */
void dt_strbuf_reserve(struct dt_strbuf *sb, size_t extra);
/* Returns by how many bytes cap would grow if `extra` bytes were appended at once. */
size_t dt_strbuf_growth(const struct dt_strbuf *sb, size_t extra);
void dt_strbuf_fit(struct dt_strbuf *sb);
void dt_strbuf_add(struct dt_strbuf *sb, const void *p, size_t n);
void dt_strbuf_adds(struct dt_strbuf *sb, const char *s);
static inline void dt_strbuf_addc(struct dt_strbuf *sb, char c)
{
    if (sb->failed || sb->cap - sb->n < 2) { /* also covers p == NULL, since cap is then 0 */
        dt_strbuf_add(sb, &c, 1);
        return;
    }
    sb->p[sb->n++] = c;
    sb->p[sb->n] = '\0';
}
void dt_strbuf_add_i64(struct dt_strbuf *sb, int64_t v);
void dt_strbuf_addf(struct dt_strbuf *sb, const char *fmt, ...) DT_PRINTF(2, 3);
static inline struct dt_str dt_strbuf_str(const struct dt_strbuf *sb)
{
    return (struct dt_str){sb->p, sb->n};
}

/* An arena: many small allocations that are freed or reset together. Not thread-safe. dt_arena_alloc returns memory
 * aligned for any type, or NULL if memory runs out. */
struct dt_arena_chunk;
struct dt_arena {
    struct dt_arena_chunk *head;
    size_t used;
    size_t size; /* bytes of all chunks together */
};
void dt_arena_clear(struct dt_arena *arena);
void dt_arena_reset(struct dt_arena *arena); /* empties the arena; keeps one chunk */
void *dt_arena_alloc(struct dt_arena *arena, size_t n);
/* Returns a terminated copy. The copy is absent if s is absent, or if memory runs out. */
struct dt_str dt_arena_copy(struct dt_arena *arena, struct dt_str s);
/* Returns a terminated copy of both texts, one after the other; absent if memory runs out. Neither text may be
 * absent. */
struct dt_str dt_arena_join(struct dt_arena *arena, struct dt_str first, struct dt_str second);
/* Returns a terminated text of less than 512 bytes; absent if the text would be longer, or if memory runs out. */
struct dt_str dt_arena_printf(struct dt_arena *arena, const char *fmt, ...) DT_PRINTF(2, 3);
