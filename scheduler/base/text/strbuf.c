/* See strbuf.h. Invariants: if p is set, the buffer is terminated at p[n], and n < cap. After a failed allocation the
 * text is kept, and appends do nothing. The chunks of an arena form a list, the newest first; only the newest has free
 * room (`used` counts its used bytes). */
#include "strbuf.h"

#include <stdalign.h>

#include "base/assert.h"

#define SMALLEST 64

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool dt_str_is_caseless(struct dt_str s, const char *lower)
{
    if (s.n != strlen(lower))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if ((s.p[i] >= 'A' && s.p[i] <= 'Z' ? s.p[i] | 0x20 : s.p[i]) != lower[i])
            return false;
    return true;
}

struct dt_str dt_str_trimmed(struct dt_str s)
{
    while (s.n && is_blank(s.p[0]))
        s = (struct dt_str){s.p + 1, s.n - 1};
    while (s.n && is_blank(s.p[s.n - 1]))
        s.n--;
    return s;
}

struct dt_str dt_str_without_bom(struct dt_str s)
{
    return s.n >= 3 && memcmp(s.p, "\xef\xbb\xbf", 3) == 0 ? (struct dt_str){s.p + 3, s.n - 3} : s;
}

struct dt_str dt_str_next_element(struct dt_str *list)
{
    const char *comma = memchr(list->p, ',', list->n);
    size_t n = comma ? (size_t)(comma - list->p) : list->n;
    struct dt_str element = dt_str_trimmed((struct dt_str){list->p, n});
    list->p += comma ? n + 1 : n;
    list->n -= comma ? n + 1 : n;
    return element;
}

void dt_strbuf_clear(struct dt_strbuf *sb)
{
    free(sb->p);
    *sb = (struct dt_strbuf){0};
}

void dt_strbuf_reset(struct dt_strbuf *sb)
{
    sb->n = 0;
    sb->failed = false;
    if (sb->p)
        sb->p[0] = '\0';
}

static bool has_space(const struct dt_strbuf *sb, size_t extra)
{
    dt_assert(!sb->p || sb->n < sb->cap);
    return sb->p && extra < sb->cap - sb->n;
}

static size_t next_capacity(const struct dt_strbuf *sb, size_t extra)
{
    size_t need = sb->n + extra + 1;
    size_t cap = sb->cap + sb->cap / 2;
    if (cap >= need)
        return cap;
    return need < SMALLEST ? SMALLEST : need;
}

size_t dt_strbuf_growth(const struct dt_strbuf *sb, size_t extra)
{
    return sb->failed || has_space(sb, extra) ? 0 : next_capacity(sb, extra) - sb->cap;
}

void dt_strbuf_reserve(struct dt_strbuf *sb, size_t extra)
{
    if (sb->failed || has_space(sb, extra))
        return;
    const bool absurd = extra > SIZE_MAX / 4 || sb->n > SIZE_MAX / 4;
    const size_t cap = absurd ? 0 : next_capacity(sb, extra);
    char *p = absurd ? NULL : realloc(sb->p, cap);
    if (!p) {
        sb->failed = true;
        return;
    }
    sb->p = p;
    sb->cap = cap;
    sb->p[sb->n] = '\0';
}

void dt_strbuf_fit(struct dt_strbuf *sb)
{
    char *p = sb->p && sb->n + 1 < sb->cap ? realloc(sb->p, sb->n + 1) : NULL;
    if (!p)
        return;
    sb->p = p;
    sb->cap = sb->n + 1;
}

void dt_strbuf_add(struct dt_strbuf *sb, const void *p, size_t n)
{
    dt_strbuf_reserve(sb, n);
    if (sb->failed)
        return;
    if (n)
        memcpy(sb->p + sb->n, p, n);
    sb->n += n;
    sb->p[sb->n] = '\0';
}

void dt_strbuf_adds(struct dt_strbuf *sb, const char *s)
{
    dt_strbuf_add(sb, s, strlen(s));
}

void dt_strbuf_add_i64(struct dt_strbuf *sb, int64_t v)
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    char digits[20];
    size_t at = sizeof(digits);
    uint64_t left = v < 0 ? -(uint64_t)v : (uint64_t)v;
    for (; left >= 10; left /= 100) {
        at -= 2;
        memcpy(digits + at, pairs + 2 * (left % 100), 2);
    }
    if (left || at == sizeof(digits))
        digits[--at] = (char)('0' + left);
    if (v < 0)
        digits[--at] = '-';
    dt_strbuf_add(sb, digits + at, sizeof(digits) - at);
}

void dt_strbuf_addf(struct dt_strbuf *sb, const char *fmt, ...)
{
    va_list args;
    int n;
    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        sb->failed = true;
        return;
    }
    dt_strbuf_reserve(sb, (size_t)n);
    if (sb->failed)
        return;
    va_start(args, fmt);
    vsnprintf(sb->p + sb->n, (size_t)n + 1, fmt, args);
    va_end(args);
    sb->n += (size_t)n;
}

#define CHUNK 8192
#define ALIGN alignof(max_align_t)

struct dt_arena_chunk {
    struct dt_arena_chunk *older;
    size_t size;
    alignas(max_align_t) char bytes[];
};

static void free_chunks(struct dt_arena_chunk *chunk)
{
    while (chunk) {
        struct dt_arena_chunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
}

void dt_arena_clear(struct dt_arena *arena)
{
    free_chunks(arena->head);
    *arena = (struct dt_arena){0};
}

/* Keeps only the newest chunk. The newest is the largest, unless a huge allocation has got a chunk of its own. */
void dt_arena_reset(struct dt_arena *arena)
{
    if (!arena->head)
        return;
    free_chunks(arena->head->older);
    arena->head->older = NULL;
    arena->used = 0;
    arena->size = arena->head->size;
}

void *dt_arena_alloc(struct dt_arena *arena, size_t n)
{
    if (n > SIZE_MAX / 4)
        return NULL;
    n = (n + ALIGN - 1) / ALIGN * ALIGN;
    dt_assert(!arena->head || arena->used <= arena->head->size);
    if (!arena->head || n > arena->head->size - arena->used) {
        size_t size = arena->head ? arena->head->size * 2 : CHUNK;
        size = size > 64 * CHUNK ? 64 * CHUNK : size;
        size = size < n ? n : size;
        struct dt_arena_chunk *chunk = malloc(sizeof(*chunk) + size);
        if (!chunk)
            return NULL;
        chunk->older = arena->head;
        chunk->size = size;
        arena->head = chunk;
        arena->used = 0;
        arena->size += size;
    }
    void *p = arena->head->bytes + arena->used;
    arena->used += n;
    return p;
}

struct dt_str dt_arena_copy(struct dt_arena *arena, struct dt_str s)
{
    char *p = s.p ? dt_arena_alloc(arena, s.n + 1) : NULL;
    if (!p)
        return DT_STR_NONE;
    memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return (struct dt_str){p, s.n};
}

struct dt_str dt_arena_join(struct dt_arena *arena, struct dt_str first, struct dt_str second)
{
    char *p = dt_arena_alloc(arena, first.n + second.n + 1);
    if (!p)
        return DT_STR_NONE;
    memcpy(p, first.p, first.n);
    memcpy(p + first.n, second.p, second.n);
    p[first.n + second.n] = '\0';
    return (struct dt_str){p, first.n + second.n};
}

struct dt_str dt_arena_printf(struct dt_arena *arena, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(text))
        return DT_STR_NONE;
    return dt_arena_copy(arena, (struct dt_str){text, (size_t)n});
}
