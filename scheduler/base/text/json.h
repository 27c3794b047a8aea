/*
 * JSON in and out, through yajl, with the checks that yajl lacks: depth, duplicate members (also inside
 * payloads), lone surrogates, trailing text, NUL in member names is kept. Raw text of every value is kept as offsets
 * into the caller's buffer, so payload bytes are never re-encoded.
 *
 * A document is a flat array of nodes in document order; a container's children follow it; `next` skips a
 * subtree. It borrows the text that was parsed, which must outlive it. Reuse one dt_json for many texts:
 * memory is kept. Not thread-safe.
 */
#ifndef DT_BASE_JSON_H
#define DT_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "strbuf.h"

enum dt_json_type {
    DT_JSON_NULL,
    DT_JSON_BOOL,
    DT_JSON_INT,
    DT_JSON_NUMBER,
    DT_JSON_STRING,
    DT_JSON_ARRAY,
    DT_JSON_OBJECT
};

struct dt_json_node {
    enum dt_json_type type;
    struct dt_str raw;  /* the value's text, byte for byte */
    struct dt_str name; /* decoded member name, when the parent is an object */
    struct dt_str str;  /* decoded text of a string (terminated; absent when opaque); text of a number */
    int64_t i;          /* INT: integers without fraction or exponent that fit; others are NUMBER */
    bool b;
    uint32_t n;    /* children of an array or object */
    uint32_t next; /* index of the node after this subtree */
};

struct dt_json_limits {
    unsigned depth; /* default 16 */
    /* Members of the top-level object (or of the elements of a top-level array) with this name become one node
     * without children ("payload"): checked, not kept. NULL = none. */
    const char *opaque;
    /* The elements of a top-level array become nodes without children, too: to look at a large batch element by element
     * (parse each one's raw text on its own), in memory for one element. */
    bool elements;
    /* Nothing is kept but the root, without children: to check a text in little memory. */
    bool check_only;
    /* Most nodes kept, and most names of all objects that are open at once, opaque ones too; beyond: TOO_LARGE. 0 = 4
     * million nodes; as many names as nodes. */
    uint32_t nodes, names;
};

typedef struct dt_json dt_json;

DT_MUST_CHECK dt_status dt_json_new(dt_json **out);
void dt_json_free(dt_json *json);
/*
 * Exactly one value with only white space around it. MALFORMED, TOO_LARGE, NOMEM: the document is then empty,
 * dt_json_root gives NULL. err has the reason and the offset, counted in bytes from 0, of the first fault: of a byte
 * that may not stand where it does (also in a string: its backslash, where an escape is none), of the first byte of a
 * literal or number that is none, of a member's name that is there twice, of a value too many or too deep; of the end
 * of the text, where something is missing.
 */
DT_MUST_CHECK dt_status dt_json_parse(dt_json *json, struct dt_str text, const struct dt_json_limits *limits,
                                      struct dt_error *err);
const struct dt_json_node *dt_json_root(const dt_json *json);
const struct dt_json_node *dt_json_at(const dt_json *json, uint32_t index);
/* First child, or NULL; the sibling after a child of `parent`, or NULL. */
const struct dt_json_node *dt_json_first(const dt_json *json, const struct dt_json_node *parent);
const struct dt_json_node *dt_json_sibling(const dt_json *json, const struct dt_json_node *parent,
                                           const struct dt_json_node *child);
/* A member, or NULL; NULL and what is no object have none. */
const struct dt_json_node *dt_json_member(const dt_json *json, const struct dt_json_node *object, const char *name);
/* A member's text; absent if there is no such member, or it is no string. */
struct dt_str dt_json_text_of(const dt_json *json, const struct dt_json_node *object, const char *name);
/* A member's whole number; 0 if there is no such member, or it is none. */
int64_t dt_json_int_of(const dt_json *json, const struct dt_json_node *object, const char *name);

/* Well-formed UTF-8 without overlong forms and surrogates. */
bool dt_utf8_valid(struct dt_str s);

#endif
