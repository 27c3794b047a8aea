/*
 * JSON through yajl, made strict. Only this file calls yajl.
 *
 * yajl reports values by callbacks; each value becomes a node. yajl does not report where a value's text begins. But
 * the end of the previous token is known, and only white space, commas and colons can be between two tokens. So raw
 * text is always a slice of the caller's text.
 *
 * This file checks what yajl does not: UTF-8 without overlong forms and surrogates, and escaped surrogates only in
 * pairs, both before yajl gets the text (its decoder reads beyond the end of a surrogate without its pair); depth;
 * duplicate members. To find duplicates, the names of all open objects are on one stack, with a hash table of the
 * names. Names above an object's base belong to this object, because the names of closed objects were popped. Entries
 * leave the table in the reverse order of their insertion, so probe sequences stay valid without tombstones.
 *
 * yajl gets all memory from the arena. So a parse calls no malloc after the buffers have become large enough. yajl does
 * not check for failed allocations: if memory runs out, a longjmp leaves yajl, and the arena frees its memory.
 */
#include "json.h"

#include "base/assert.h"
#include "encoding.h"

#include <setjmp.h>
#include <unistd.h>
#include <xxhash.h>
#include <yajl/yajl_parse.h>

#define DEPTH_DEFAULT 16
#define DEPTH_MAX     256
#define NODES_DEFAULT UINT32_C(4000000)
/* Buffers with room for more nodes or names than this are freed before the next parse. */
#define KEEP_NODES 65536
#define KEEP_NAMES 16384

struct frame {
    uint32_t node;  /* index of the container's node; not set inside an opaque member */
    uint32_t names; /* height of the stack of names when the container began */
    bool array;
};

struct name {
    struct dt_str s;
    uint64_t hash;
    uint32_t slot;
};

struct dt_json {
    struct dt_json_node *nodes;
    uint32_t nodes_n, nodes_cap;
    struct name *names;
    uint32_t names_n, names_cap;
    uint32_t *table; /* index of a name + 1, by hash; 0: a free slot */
    uint32_t table_size;
    uint64_t seed; /* seed of the hash; secret, so that a caller cannot choose names that collide */
    struct dt_arena arena;
    struct frame frames[DEPTH_MAX];

    /* State of the current parse. */
    struct dt_str text;
    struct dt_json_limits limits;
    yajl_handle yajl;
    bool finishing;     /* yajl has got the whole text: now it can only report a number at the end */
    bool yajl_refused;  /* yajl refused the text by its own rules, not because a callback stopped it */
    size_t token_end;   /* end of the latest token, in bytes from the beginning */
    unsigned depth;     /* number of open containers */
    unsigned quiet;     /* depth of the open opaque container, whose children are not kept; 0: none */
    bool opaque_next;   /* the latest name is the name of an opaque member (json.h) */
    struct dt_str name; /* name of the next value, if it is a member */
    dt_status status;
    const char *reason;
    size_t reason_at;
    jmp_buf out_of_memory;
};

/* ---- UTF-8 ---- */

/* Returns the length of the well-formed UTF-8 at the start of s. */
static size_t utf8_prefix(struct dt_str s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    size_t i = 0;
    size_t step;
    uint64_t eight;
    while (i < s.n) {
        while (s.n - i >= sizeof(eight)) {
            memcpy(&eight, p + i, sizeof(eight));
            if (eight & UINT64_C(0x8080808080808080))
                break;
            i += sizeof(eight);
        }
        if (i == s.n)
            break;
        step = dt_utf8_character(p + i, s.n - i);
        if (!step)
            break;
        i += step;
    }
    return i;
}

bool dt_utf8_valid(struct dt_str s)
{
    return utf8_prefix(s) == s.n;
}

/* ---- escaped surrogates ---- */

/* Returns the UTF-16 unit of the escape \uXXXX at p; -1 if p has no such escape. */
static int escaped_unit(const char *p, const char *end)
{
    int unit = 0;
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        int digit = dt_hex_digit(p[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static bool is_high_surrogate(int unit)
{
    return unit >= 0xd800 && unit <= 0xdbff;
}

static bool is_low_surrogate(int unit)
{
    return unit >= 0xdc00 && unit <= 0xdfff;
}

/* ---- memory for yajl ---- */

/* A block of memory. It begins with its size, which realloc needs. */
union block {
    size_t size;
    max_align_t align;
};

static void *alloc_or_jump(struct dt_json *json, size_t n)
{
    void *p = dt_arena_alloc(&json->arena, n);
    if (!p)
        longjmp(json->out_of_memory, 1);
    return p;
}

static void *yajl_malloc(void *ctx, size_t n)
{
    union block *block = alloc_or_jump(ctx, sizeof(*block) + n);
    block->size = n;
    return block + 1;
}

static void *yajl_realloc(void *ctx, void *old, size_t n)
{
    size_t old_n = old ? ((union block *)old - 1)->size : 0;
    if (old && n <= old_n)
        return old;
    void *p = yajl_malloc(ctx, n);
    if (old)
        memcpy(p, old, old_n);
    return p;
}

static void yajl_free_nothing(void *, void *) {}

#define GO_ON 1
#define STOP  0

static int stop_parse(struct dt_json *json, dt_status status, const char *reason, size_t at)
{
    json->status = status;
    json->reason = reason;
    json->reason_at = at;
    return STOP;
}

/* ---- names ---- */

static void pop_names(struct dt_json *json, uint32_t height)
{
    dt_assert_cmp(height, <=, json->names_n);
    while (json->names_n > height)
        json->table[json->names[--json->names_n].slot] = 0;
}

static void put_name(struct dt_json *json, uint32_t index)
{
    uint32_t slot = (uint32_t)json->names[index].hash & (json->table_size - 1);
    dt_assert_cmp(index, <, json->table_size / 2); /* the table has a free slot, so the search ends */
    while (json->table[slot])
        slot = (slot + 1) & (json->table_size - 1);
    json->table[slot] = index + 1;
    json->names[index].slot = slot;
}

/* Makes room for one more name, so that the table stays at most half full. */
static bool reserve_name(struct dt_json *json)
{
    uint32_t cap = json->names_cap ? json->names_cap * 2 : 64;
    if (json->names_n < json->names_cap)
        return true;
    struct name *names = realloc(json->names, cap * sizeof(*names));
    if (!names)
        return false;
    json->names = names;
    uint32_t *table = calloc(2 * (size_t)cap, sizeof(*table));
    if (!table)
        return false;
    free(json->table);
    json->table = table;
    json->table_size = 2 * cap;
    json->names_cap = cap;
    for (uint32_t i = 0; i < json->names_n; i++)
        put_name(json, i);
    return true;
}

static int add_member_name(struct dt_json *json, struct dt_str s, size_t at)
{
    dt_assert_cmp(json->depth, >, 0);
    const uint64_t hash = XXH64(s.p, s.n, json->seed + json->depth);
    const uint32_t base = json->frames[json->depth - 1].names;
    if (json->names_n >= json->limits.names)
        return stop_parse(json, DT_TOO_LARGE, "too many members", at);
    if (!reserve_name(json))
        return stop_parse(json, DT_NOMEM, "out of memory", at);
    uint32_t slot = (uint32_t)hash & (json->table_size - 1);
    for (uint32_t i; (i = json->table[slot]); slot = (slot + 1) & (json->table_size - 1))
        if (i > base && json->names[i - 1].hash == hash && dt_str_eq(json->names[i - 1].s, s))
            return stop_parse(json, DT_MALFORMED, "a duplicate member", at);
    json->names[json->names_n] = (struct name){.s = s, .hash = hash};
    put_name(json, json->names_n++);
    return GO_ON;
}

/* ---- nodes ---- */

static size_t token_end_now(const struct dt_json *json)
{
    return json->finishing ? json->text.n : yajl_get_bytes_consumed(json->yajl);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Returns the text of the current token: the text after the previous token, without white space, commas and colons. */
static struct dt_str take_token(struct dt_json *json)
{
    size_t start = json->token_end;
    size_t end = token_end_now(json);
    dt_assert_cmp(start, <=, end);
    while (start < end && (is_space(json->text.p[start]) || json->text.p[start] == ',' || json->text.p[start] == ':'))
        start++;
    json->token_end = end;
    return (struct dt_str){json->text.p + start, end - start};
}

static size_t offset_of(const struct dt_json *json, struct dt_str raw)
{
    return (size_t)(raw.p - json->text.p);
}

/* Appends a node for a value whose text begins with raw. Returns NULL if the parse must stop. */
static struct dt_json_node *add_node(struct dt_json *json, enum dt_json_type type, struct dt_str raw)
{
    if (json->nodes_n >= json->limits.nodes) {
        stop_parse(json, DT_TOO_LARGE, "too many values", offset_of(json, raw));
        return NULL;
    }
    if (json->nodes_n == json->nodes_cap) {
        uint32_t cap = json->nodes_cap ? json->nodes_cap * 2 : 64;
        struct dt_json_node *nodes = realloc(json->nodes, cap * sizeof(*nodes));
        if (!nodes) {
            stop_parse(json, DT_NOMEM, "out of memory", offset_of(json, raw));
            return NULL;
        }
        json->nodes = nodes;
        json->nodes_cap = cap;
    }
    if (json->depth)
        json->nodes[json->frames[json->depth - 1].node].n++;
    struct dt_json_node *node = &json->nodes[json->nodes_n++];
    *node = (struct dt_json_node){.type = type, .raw = raw, .name = json->name, .next = json->nodes_n};
    json->name = DT_STR_NONE;
    return node;
}

/* Returns whether the next value is checked but not kept. */
static bool take_opaque_flag(struct dt_json *json)
{
    bool opaque = json->opaque_next || json->limits.check_only ||
                  (json->limits.elements && json->depth == 1 && json->frames[0].array);
    json->opaque_next = false;
    return opaque;
}

/* ---- callbacks ---- */

static int on_null(void *ctx)
{
    struct dt_json *json = ctx;
    struct dt_str raw = take_token(json);
    if (json->quiet)
        return GO_ON;
    take_opaque_flag(json);
    return add_node(json, DT_JSON_NULL, raw) != NULL;
}

static int on_bool(void *ctx, int value)
{
    struct dt_json *json = ctx;
    struct dt_str raw = take_token(json);
    if (json->quiet)
        return GO_ON;
    take_opaque_flag(json);
    struct dt_json_node *node = add_node(json, DT_JSON_BOOL, raw);
    if (!node)
        return STOP;
    node->b = value != 0;
    return GO_ON;
}

/* Reads a whole JSON number. Returns false if it has a fraction or an exponent, or does not fit. */
static bool read_int(struct dt_str s, int64_t *out)
{
    bool negative = s.p[0] == '-';
    uint64_t v = 0;
    uint64_t most = negative ? UINT64_C(1) << 63 : (uint64_t)INT64_MAX;
    for (size_t i = negative; i < s.n; i++) {
        unsigned digit = (unsigned)(s.p[i] - '0');
        if (digit > 9 || v > (most - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *out = negative ? (int64_t)-v : (int64_t)v;
    return true;
}

static int on_number(void *ctx, const char *, size_t)
{
    struct dt_json *json = ctx;
    struct dt_str raw = take_token(json);
    if (json->quiet)
        return GO_ON;
    take_opaque_flag(json);
    struct dt_json_node *node = add_node(json, DT_JSON_NUMBER, raw);
    if (!node)
        return STOP;
    node->str = raw;
    if (read_int(raw, &node->i))
        node->type = DT_JSON_INT;
    return GO_ON;
}

static struct dt_str copy_or_jump(struct dt_json *json, const unsigned char *p, size_t n)
{
    char *copy = alloc_or_jump(json, n + 1);
    if (n)
        memcpy(copy, p, n);
    copy[n] = '\0';
    return (struct dt_str){copy, n};
}

static int on_string(void *ctx, const unsigned char *p, size_t n)
{
    struct dt_json *json = ctx;
    struct dt_str raw = take_token(json);
    if (json->quiet)
        return GO_ON;
    bool opaque = take_opaque_flag(json);
    struct dt_json_node *node = add_node(json, DT_JSON_STRING, raw);
    if (!node)
        return STOP;
    if (!opaque)
        node->str = copy_or_jump(json, p, n);
    return GO_ON;
}

static int on_name(void *ctx, const unsigned char *p, size_t n)
{
    struct dt_json *json = ctx;
    struct dt_str raw = take_token(json);
    /* If yajl had to decode the name, the name is in a buffer of yajl, which is valid until the next callback. */
    bool lies_in_text =
        (uintptr_t)p >= (uintptr_t)json->text.p && (uintptr_t)p <= (uintptr_t)json->text.p + json->text.n;
    struct dt_str name = lies_in_text ? (struct dt_str){(const char *)p, n} : copy_or_jump(json, p, n);
    if (!add_member_name(json, name, offset_of(json, raw)))
        return STOP;
    if (json->quiet)
        return GO_ON;
    bool top_member = json->depth == 1 || (json->depth == 2 && json->frames[0].array);
    json->name = name;
    json->opaque_next = json->limits.opaque && top_member && dt_str_is(name, json->limits.opaque);
    return GO_ON;
}

static int open_container(struct dt_json *json, enum dt_json_type type)
{
    struct dt_str raw = take_token(json);
    struct frame frame = {.names = json->names_n, .array = type == DT_JSON_ARRAY};
    if (json->depth >= json->limits.depth)
        return stop_parse(json, DT_MALFORMED, "nested too deeply", offset_of(json, raw));
    if (!json->quiet) {
        bool opaque = take_opaque_flag(json);
        frame.node = json->nodes_n;
        if (!add_node(json, type, raw))
            return STOP;
        if (opaque)
            json->quiet = json->depth + 1;
    }
    json->frames[json->depth++] = frame;
    return GO_ON;
}

static int on_end(void *ctx)
{
    struct dt_json *json = ctx;
    dt_assert_cmp(json->depth, >, 0);
    struct frame *frame = &json->frames[--json->depth];
    take_token(json);
    pop_names(json, frame->names);
    if (json->quiet && json->depth + 1 > json->quiet)
        return GO_ON;
    json->quiet = 0;
    struct dt_json_node *node = &json->nodes[frame->node];
    node->raw.n = json->token_end - offset_of(json, node->raw);
    node->next = json->nodes_n;
    return GO_ON;
}

static int on_start_map(void *ctx)
{
    return open_container(ctx, DT_JSON_OBJECT);
}

static int on_start_array(void *ctx)
{
    return open_container(ctx, DT_JSON_ARRAY);
}
static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_bool,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_start_map,
    .yajl_map_key = on_name,
    .yajl_end_map = on_end,
    .yajl_start_array = on_start_array,
    .yajl_end_array = on_end,
};

/* ---- the first fault of a text ---- */

/* Reads a refused text again to find the first fault. yajl only reports how far it had read, which is often the end of
 * the buffer. The offset of a fault is the offset of the wrong byte, also inside a string; for a wrong literal or
 * number, of its first byte; if something is missing, the end of the text. */
struct scan {
    const char *p, *begin, *end;
    const char *reason; /* reason of the fault at p; NULL: no fault yet */
    unsigned depth, most;
    bool array[DEPTH_MAX]; /* for each open container: whether it is an array */
};

static bool set_fault(struct scan *s, const char *at, const char *reason)
{
    s->p = at;
    s->reason = reason;
    return false;
}

static bool ends_early(struct scan *s)
{
    return set_fault(s, s->end, "the text ends too early");
}

static void skip_space(struct scan *s)
{
    while (s->p < s->end && is_space(*s->p))
        s->p++;
}

static bool scan_escape(struct scan *s)
{
    const char *at = s->p;
    size_t left = (size_t)(s->end - at);
    int unit;
    if (left < 2)
        return ends_early(s);
    if (at[1] != 'u') {
        s->p += 2;
        return strchr("\"\\/bfnrt", at[1]) && at[1] ? true : set_fault(s, at, "an invalid escape");
    }
    for (size_t i = 2; i < 6; i++) {
        if (i >= left)
            return ends_early(s);
        if (dt_hex_digit(at[i]) < 0)
            return set_fault(s, at, "an invalid escape");
    }
    unit = escaped_unit(at, s->end);
    if (is_low_surrogate(unit) || (is_high_surrogate(unit) && !is_low_surrogate(escaped_unit(at + 6, s->end))))
        return set_fault(s, at, "an escaped surrogate without its partner");
    s->p += is_high_surrogate(unit) ? 12 : 6;
    return true;
}

static bool scan_string(struct scan *s)
{
    for (s->p++; s->p < s->end && *s->p != '"';) {
        size_t step = dt_utf8_character((const unsigned char *)s->p, (size_t)(s->end - s->p));
        if (!step)
            return set_fault(s, s->p, "not UTF-8");
        if ((unsigned char)*s->p < ' ')
            return set_fault(s, s->p, "a control character");
        if (*s->p == '\\') {
            if (!scan_escape(s))
                return false;
        } else {
            s->p += step;
        }
    }
    if (s->p == s->end)
        return ends_early(s);
    s->p++;
    return true;
}

static size_t count_digits(const char *p, const char *end)
{
    const char *q = p;
    while (q < end && *q >= '0' && *q <= '9')
        q++;
    return (size_t)(q - p);
}

/* Skips at least one digit at *p. begin: start of the number, where a fault is reported. */
static bool scan_digits(struct scan *s, const char *begin, const char **p)
{
    const size_t n = count_digits(*p, s->end);
    *p += n;
    return n ? true : *p == s->end ? ends_early(s) : set_fault(s, begin, "an invalid number");
}

static bool scan_number(struct scan *s)
{
    const char *begin = s->p;
    const char *p = begin + (*begin == '-');
    const char *whole = p;
    if (!scan_digits(s, begin, &p))
        return false;
    if (p - whole > 1 && *whole == '0')
        return set_fault(s, begin, "an invalid number");
    if (p < s->end && *p == '.') {
        p++;
        if (!scan_digits(s, begin, &p))
            return false;
    }
    if (p < s->end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < s->end && (*p == '+' || *p == '-');
        if (!scan_digits(s, begin, &p))
            return false;
    }
    s->p = p;
    return true;
}

static bool scan_literal(struct scan *s, const char *word)
{
    size_t n = strlen(word);
    size_t left = (size_t)(s->end - s->p);
    if (memcmp(s->p, word, left < n ? left : n) != 0)
        return set_fault(s, s->p, "an invalid literal");
    if (left < n)
        return ends_early(s);
    s->p += n;
    return true;
}

/* Skips a member's name and its colon. */
static bool scan_name(struct scan *s)
{
    skip_space(s);
    if (s->p == s->end)
        return ends_early(s);
    if (*s->p != '"')
        return set_fault(s, s->p, "the name of a member is missing");
    if (!scan_string(s))
        return false;
    skip_space(s);
    if (s->p == s->end)
        return ends_early(s);
    if (*s->p != ':')
        return set_fault(s, s->p, "a colon is missing");
    s->p++;
    return true;
}

/* Continues after a value, at s->p: closes the containers that end there. *more: another value follows. */
static bool scan_after_value(struct scan *s, bool *more)
{
    while (s->depth) {
        bool array = s->array[s->depth - 1];
        skip_space(s);
        if (s->p == s->end)
            return ends_early(s);
        if (*s->p == ',') {
            s->p++;
            *more = true;
            return array || scan_name(s);
        }
        if (*s->p != (array ? ']' : '}'))
            return set_fault(s, s->p, "a comma or an end is missing");
        s->p++;
        s->depth--;
    }
    *more = false;
    return true;
}

/* Reads the beginning of a value at s->p: enters a container that is not empty, or skips any other value. *inside: a
 * container was entered. */
static bool scan_value(struct scan *s, bool *inside)
{
    const bool array = *s->p == '[';
    *inside = false;
    switch (*s->p) {
    case '"':
        return scan_string(s);
    case 't':
        return scan_literal(s, "true");
    case 'f':
        return scan_literal(s, "false");
    case 'n':
        return scan_literal(s, "null");
    case '[':
    case '{':
        break;
    default:
        if (*s->p == '-' || count_digits(s->p, s->end))
            return scan_number(s);
        return set_fault(s, s->p,
                         dt_utf8_character((const unsigned char *)s->p, (size_t)(s->end - s->p)) ? "a value is missing"
                                                                                                 : "not UTF-8");
    }
    if (s->depth >= s->most)
        return set_fault(s, s->p, "nested too deeply");
    s->p++;
    skip_space(s);
    if (s->p < s->end && *s->p == (array ? ']' : '}')) {
        s->p++;
        return true;
    }
    s->array[s->depth++] = array;
    *inside = true;
    return array || scan_name(s);
}

static void scan_text(struct scan *s)
{
    bool more = true;
    while (more) {
        skip_space(s);
        if (s->p == s->end) {
            ends_early(s);
            return;
        }
        if (!scan_value(s, &more) || (!more && !scan_after_value(s, &more)))
            return;
    }
    skip_space(s);
    if (s->p < s->end)
        set_fault(s, s->p, "text after the value");
}

/* ---- parsing ---- */

dt_status dt_json_new(dt_json **out)
{
    dt_json *json = calloc(1, sizeof(*json));
    *out = NULL;
    if (!json)
        return DT_NOMEM;
    if (getentropy(&json->seed, sizeof(json->seed))) {
        free(json);
        return DT_SYSTEM;
    }
    *out = json;
    return DT_OK;
}

void dt_json_free(dt_json *json)
{
    if (!json)
        return;
    dt_arena_clear(&json->arena);
    free(json->nodes);
    free(json->names);
    free(json->table);
    free(json);
}

/* Resets the state. Keeps the memory of an ordinary document, and frees that of a huge one. */
static void begin_parse(struct dt_json *json, struct dt_str text, const struct dt_json_limits *limits)
{
    pop_names(json, 0);
    dt_arena_reset(&json->arena);
    json->nodes_n = 0;
    if (json->nodes_cap > KEEP_NODES) {
        free(json->nodes);
        json->nodes = NULL;
        json->nodes_cap = 0;
    }
    if (json->names_cap > KEEP_NAMES) {
        free(json->names);
        free(json->table);
        json->names = NULL;
        json->table = NULL;
        json->names_cap = json->table_size = 0;
    }
    json->text = text;
    json->limits = limits ? *limits : (struct dt_json_limits){0};
    if (json->limits.depth == 0)
        json->limits.depth = DEPTH_DEFAULT;
    if (json->limits.depth > DEPTH_MAX)
        json->limits.depth = DEPTH_MAX;
    if (json->limits.nodes == 0)
        json->limits.nodes = NODES_DEFAULT;
    if (json->limits.names == 0)
        json->limits.names = json->limits.nodes;
    json->finishing = json->yajl_refused = json->opaque_next = false;
    json->token_end = json->reason_at = 0;
    json->depth = json->quiet = 0;
    json->name = DT_STR_NONE;
    json->status = DT_OK;
    json->reason = NULL;
}

/* Refuses what yajl wrongly accepts: bytes that are not UTF-8, other kinds of white space, surrogates without their
 * pair. */
static void check_text(struct dt_json *json)
{
    enum { BACKSLASH = 1, SPACE = 2, HIGH = 0x80 };
    const struct dt_str text = json->text;
    const char *end = text.p + text.n;
    unsigned char seen = 0;
    /* Finds out which checks the text needs; most texts need none. The loop has no branches, so the compiler vectorizes
     * it. */
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        seen |= (unsigned char)(c & HIGH);
        seen |= c == '\\' ? BACKSLASH : 0;
        seen |= c == '\v' || c == '\f' ? SPACE : 0;
    }
    size_t valid = seen & HIGH ? utf8_prefix(text) : text.n;
    if (valid < text.n) {
        stop_parse(json, DT_MALFORMED, "not UTF-8", valid);
        return;
    }
    if (seen & SPACE) {
        const char *at = memchr(text.p, '\v', text.n);
        at = at ? at : memchr(text.p, '\f', text.n);
        stop_parse(json, DT_MALFORMED, "a control character", (size_t)(at - text.p));
        return;
    }
    /* Only backslashes inside strings matter: outside, yajl itself refuses a backslash. */
    for (const char *p = text.p; seen & BACKSLASH && p < end && (p = memchr(p, '\\', (size_t)(end - p)));) {
        int unit = escaped_unit(p, end);
        if (is_low_surrogate(unit) || (is_high_surrogate(unit) && !is_low_surrogate(escaped_unit(p + 6, end)))) {
            stop_parse(json, DT_MALFORMED, "an escaped surrogate without its partner", (size_t)(p - text.p));
            return;
        }
        p += is_high_surrogate(unit) ? 12 : unit >= 0 ? 6 : 2;
    }
}

/* Runs yajl on the first n bytes of the text. */
static void run_yajl(struct dt_json *json, size_t n)
{
    yajl_alloc_funcs memory = {.malloc = yajl_malloc, .realloc = yajl_realloc, .free = yajl_free_nothing, .ctx = json};
    yajl_status status;
    if (setjmp(json->out_of_memory)) {
        stop_parse(json, DT_NOMEM, "out of memory", 0);
        return;
    }
    json->yajl = yajl_alloc(&callbacks, &memory, json);
    yajl_config(json->yajl, yajl_dont_validate_strings, 1);
    status = yajl_parse(json->yajl, (const unsigned char *)json->text.p, n);
    json->finishing = n == json->text.n;
    if (status == yajl_status_ok && json->finishing)
        status = yajl_complete_parse(json->yajl);
    json->yajl_refused = status == yajl_status_error;
    if (json->yajl_refused) { /* yajl's text is "parse error: …" or "lexical error: …", with a line end */
        char *text = (char *)yajl_get_error(json->yajl, 0, NULL, 0);
        text[strcspn(text, "\n")] = '\0';
        stop_parse(json, DT_MALFORMED, text, token_end_now(json));
    }
}

/* Sets the reason and the place of the first fault. shown: yajl got the text and refused it by its own rules. */
static void find_first_fault(struct dt_json *json, bool shown)
{
    struct scan s = {
        .p = json->text.p, .begin = json->text.p, .end = json->text.p + json->text.n, .most = json->limits.depth};

    scan_text(&s);
    if (!s.reason)
        return;
    json->status = DT_OK;
    if (!shown && s.p > s.begin) /* a duplicate name or a superfluous value may precede this fault */
        run_yajl(json, (size_t)(s.p - s.begin));
    if (json->status == DT_OK || json->yajl_refused)
        stop_parse(json, DT_MALFORMED, s.reason, (size_t)(s.p - s.begin));
}

dt_status dt_json_parse(dt_json *json, struct dt_str text, const struct dt_json_limits *limits, struct dt_error *err)
{
    begin_parse(json, text, limits);
    if (text.n == 0)
        stop_parse(json, DT_MALFORMED, "no value", 0);
    if (json->status == DT_OK)
        check_text(json);
    bool shown = json->status == DT_OK;
    if (shown)
        run_yajl(json, text.n);
    /* Checks that only white space follows the value, because yajl does not report an incomplete token there ("1
     * \""). */
    size_t at = json->token_end;
    while (at < text.n && is_space(text.p[at]))
        at++;
    if (json->status == DT_OK && at < text.n)
        stop_parse(json, DT_MALFORMED, "text after the value", at);
    if (json->status == DT_OK) {
        dt_assert(json->depth == 0 && json->names_n == 0 && json->nodes_n > 0);
        return DT_OK;
    }
    if (text.n && (!shown || json->yajl_refused))
        find_first_fault(json, shown);
    json->nodes_n = 0;
    return dt_fail(err, json->status, "%s at byte %zu", json->reason, json->reason_at);
}

/* ---- access to nodes ---- */

const struct dt_json_node *dt_json_root(const dt_json *json)
{
    return json->nodes_n ? json->nodes : NULL;
}

const struct dt_json_node *dt_json_first(const dt_json *, const struct dt_json_node *parent)
{
    return parent->n ? parent + 1 : NULL;
}

const struct dt_json_node *dt_json_sibling(const dt_json *json, const struct dt_json_node *parent,
                                           const struct dt_json_node *child)
{
    return child->next < parent->next ? &json->nodes[child->next] : NULL;
}

const struct dt_json_node *dt_json_member(const dt_json *json, const struct dt_json_node *object, const char *name)
{
    const struct dt_json_node *child = object && object->type == DT_JSON_OBJECT ? dt_json_first(json, object) : NULL;
    while (child && !dt_str_is(child->name, name))
        child = dt_json_sibling(json, object, child);
    return child;
}

struct dt_str dt_json_text_of(const dt_json *json, const struct dt_json_node *object, const char *name)
{
    const struct dt_json_node *node = dt_json_member(json, object, name);
    return node && node->type == DT_JSON_STRING ? node->str : DT_STR_NONE;
}

int64_t dt_json_int_of(const dt_json *json, const struct dt_json_node *object, const char *name)
{
    const struct dt_json_node *node = dt_json_member(json, object, name);
    return node && node->type == DT_JSON_INT ? node->i : 0;
}
