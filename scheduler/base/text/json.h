/*
 * Reads JSON through yajl, with checks that yajl does not make: depth, duplicate members (also inside payloads),
 * surrogates without their pair, trailing text. A NUL in a member's name is kept. The raw text of every value is a
 * slice of the caller's text, so payloads are never encoded again.
 *
 * A document is a flat array of nodes in document order: the children of a container follow the container, and `next`
 * skips a subtree. The text must outlive the document. Use one dt_json for many texts, because it keeps its memory. Not
 * thread-safe.
 */
#pragma once

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
    struct dt_str name; /* decoded name, if the parent is an object; else absent */
    struct dt_str str;  /* of a string: decoded text with a final NUL (opaque member: absent); of a number: digits */
    int64_t i;          /* value of an INT: a number without fraction or exponent that fits; other numbers are NUMBER */
    bool b;
    uint32_t n;    /* number of children of an array or object */
    uint32_t next; /* index of the first node after this subtree */
};

struct dt_json_limits {
    unsigned depth; /* most nested containers; 0: 16 */
    /* Name of opaque members ("payload"): if a member of the top-level object, or of the elements of a top-level array,
     * has this name, it becomes one node: its children are checked, but not kept. NULL: no opaque members. */
    const char *opaque;
    /* Each element of a top-level array becomes one node, whose children are checked, but not kept. So a large batch
     * needs memory for one element only: the caller parses the raw text of each element. */
    bool elements;
    /* Keeps only the root, without children. Use it to check a text in little memory. */
    bool check_only;
    /* Most nodes, and most names in all objects that are open at once, including opaque members; beyond these limits:
     * TOO_LARGE. 0: 4 million nodes, and as many names as nodes. */
    uint32_t nodes, names;
};

typedef struct dt_json dt_json;

dt_status dt_json_new(dt_json **out);
void dt_json_free(dt_json *json);
/* Parses a text that is one value, with optional white space around it. After MALFORMED, TOO_LARGE or NOMEM the
 * document is empty, and dt_json_root returns NULL. err has the reason and the offset of the first fault in bytes from
 * 0: the offset of a wrong byte (in an invalid escape, of the backslash), of the first byte of a wrong literal or
 * number, of a duplicate name, or of a value that is too many or too deep. If something is missing, the offset is the
 * end of the text. */
dt_status dt_json_parse(dt_json *json, struct dt_str text, const struct dt_json_limits *limits, struct dt_error *err);
const struct dt_json_node *dt_json_root(const dt_json *json);
/* Return the first child of a container, or the sibling after a child of `parent`. Return NULL if there is no such
 * node. */
const struct dt_json_node *dt_json_first(const dt_json *json, const struct dt_json_node *parent);
const struct dt_json_node *dt_json_sibling(const dt_json *json, const struct dt_json_node *parent,
                                           const struct dt_json_node *child);
/* Returns a member of `object`, or NULL. `object` may be NULL, or a node that is no object. */
const struct dt_json_node *dt_json_member(const dt_json *json, const struct dt_json_node *object, const char *name);
/* Returns the text of a member. The text is absent if the member is missing, or is not a string. */
struct dt_str dt_json_text_of(const dt_json *json, const struct dt_json_node *object, const char *name);
/* Returns the number of a member; 0 if the member is missing, or is not a whole number. */
int64_t dt_json_int_of(const dt_json *json, const struct dt_json_node *object, const char *name);

/* Returns whether the text is well-formed UTF-8, without overlong forms and surrogates. */
bool dt_utf8_valid(struct dt_str s);
