/*
 * What is wrong with the members of a body, or with query parameters: a list of JSON pointers and reasons, which a
 * refusal shows. Pure.
 */
#ifndef DT_BASE_JSON_TABLE_H
#define DT_BASE_JSON_TABLE_H

#include "base/status.h"
#include "json.h"
#include "strbuf.h"

#define DT_FAULTS_MAX 100 /* more are counted, not kept */

struct dt_fault {
    struct dt_str pointer; /* JSON pointer into the body; "?name" for a query parameter; "" for the body as a whole */
    struct dt_str reason;
};

/* A value; everything it points at lives in the arena given. n counts all faults, v holds the first DT_FAULTS_MAX. */
struct dt_faults {
    struct dt_arena *arena;
    struct dt_fault *v;
    size_t n, room;
    bool failed; /* memory was out: the faults are not all there */
};
void dt_faults_init(struct dt_faults *faults, struct dt_arena *arena);
/* Adds a fault. Both texts are copied. */
void dt_faults_add(struct dt_faults *faults, const char *pointer, const char *reason);
/* pointer = parent + "/" + name, escaped as RFC 6901 says. */
void dt_faults_add_member(struct dt_faults *faults, const char *parent, struct dt_str name, const char *reason);
/* pointer = parent + "/" + index. */
void dt_faults_add_item(struct dt_faults *faults, const char *parent, size_t index, const char *reason);
/* "?name": a query parameter. */
void dt_faults_add_query(struct dt_faults *faults, struct dt_str name, const char *reason);
void dt_faults_addf(struct dt_faults *faults, const char *pointer, const char *fmt, ...) DT_PRINTF(3, 4);
/* The status of what was read: NOMEM, INVALID if there are faults, OK. */
static inline dt_status dt_faults_status(const struct dt_faults *faults)
{
    return faults->failed ? DT_NOMEM : faults->n > 0 ? DT_INVALID : DT_OK;
}

/*
 * JSON bodies by table: a table lists the members of a body with their kinds, bounds, and the reasons of their faults.
 * The body is read by that table. Pure.
 *
 *   static const struct dt_json_field fields[] = {
 *       DT_FIELD("max", COUNT, struct wish, max, .min = 1, .max = 1000),
 *       DT_FIELD("wait", DURATION, struct wish, wait_ms, .max = 60000, .reason = "must be at most a minute"),
 *       DT_FIELD_BY("topics", read_topics),
 *   };
 *   static const struct dt_json_table table = DT_TABLE(fields, .unknown = DT_REASON_UNKNOWN);
 *
 * The reader takes the members in the order of the body, and reports every fault in that order. It looks at each member
 * alone: the caller compares members with each other afterwards.
 */

/* What a value must be, and the type that it has in the struct. */
enum dt_json_kind {
    DT_FIELD_TEXT,     /* struct dt_str: a string of min to max bytes; max 0 = any string */
    DT_FIELD_WORD,     /* an enum: a string, one of `words` */
    DT_FIELD_FLAG,     /* bool: true or false */
    DT_FIELD_COUNT,    /* int64_t: a whole number from min to max */
    DT_FIELD_DURATION, /* int64_t in ms: a duration, or a number of ms, from min to max; max 0 = 100 years */
    DT_FIELD_SECONDS,  /* int64_t in ms: a number of seconds; bounds likewise, in ms */
    DT_FIELD_TIME,     /* int64_t in ms since 1970: an RFC 3339 time with an offset; not before min, unless that is 0 */
    DT_FIELD_OBJECT,   /* no type: an object that `read` reads, or that is only shown */
    DT_FIELD_OTHER,    /* no type: `read` decides */
};

#define DT_FIELD_NULLABLE 1u /* null leaves what is in the struct; on writing, `absent` is null */
#define DT_FIELD_SHOWN    2u /* only answers show it: a body's is skipped, and its kind checked if there is a reason */
#define DT_FIELD_OWN      4u /* from here on: flags for the functions of a table */

struct dt_json_reader;
struct dt_json_field {
    struct dt_str name;
    enum dt_json_kind kind;
    unsigned flags;
    size_t at;          /* offset in the struct */
    size_t has;         /* offset of a bool that is set when the member is there, and not null; 0 = none */
    int64_t min, max;   /* bounds */
    int64_t absent;     /* of a number: it stands for null */
    const char *reason; /* of a fault; NULL: the kind's own. Durations and seconds: of a value beyond the bounds */
    const char *const *words; /* ends with NULL; the index is the value, from min on */
    /* Check a text that is within its bounds: by itself, and by what the reader knows. NULL: it is fine; else the
     * reason. */
    const char *(*check)(struct dt_str text);
    const char *(*judge)(struct dt_json_reader *reader, struct dt_str text);
    /* Reads a member instead of the kind. */
    void (*read)(struct dt_json_reader *reader, const struct dt_json_field *field, const struct dt_json_node *node);
};

struct dt_json_table {
    const struct dt_json_field *fields;
    size_t n;            /* at most 64 */
    const char *object;  /* the reason when it is no object; NULL: "must be an object" */
    const char *unknown; /* the reason for a member that is not in the table; NULL: it is skipped */
    /* Decides whether a member is read; field: NULL if it is not in the table. False: the member is skipped; this
     * function has added a fault if there is one. NULL: all are read. */
    bool (*admits)(struct dt_json_reader *reader, const struct dt_json_field *field, const struct dt_json_node *node);
};

#define DT_FIELD_TYPE_TEXT     struct dt_str
#define DT_FIELD_TYPE_WORD     unsigned
#define DT_FIELD_TYPE_FLAG     bool
#define DT_FIELD_TYPE_COUNT    int64_t
#define DT_FIELD_TYPE_DURATION int64_t
#define DT_FIELD_TYPE_SECONDS  int64_t
#define DT_FIELD_TYPE_TIME     int64_t
/* A row of a table: a member of this kind, which is `member_` of a struct `type_`. Does not compile if the types do not
 * agree. */
#define DT_FIELD(name_, kind_, type_, member_, ...)                                                                    \
    {                                                                                                                  \
        .name = DT_STR_LIT(name_), .kind = DT_FIELD_##kind_,                                                           \
        .at = _Generic(((type_ *)0)->member_, DT_FIELD_TYPE_##kind_                                                    \
                       : offsetof(type_, member_)),                                                                    \
        __VA_ARGS__                                                                                                    \
    }
/* A row that a function reads. */
#define DT_FIELD_BY(name_, read_, ...)                                                                                 \
    {                                                                                                                  \
        .name = DT_STR_LIT(name_), .kind = DT_FIELD_OTHER, .read = (read_), __VA_ARGS__                                \
    }
/* A row that answers show, and bodies do not set. */
#define DT_FIELD_FOR_SHOW(name_, kind_, ...)                                                                           \
    {                                                                                                                  \
        .name = DT_STR_LIT(name_), .kind = DT_FIELD_##kind_, .flags = DT_FIELD_SHOWN, __VA_ARGS__                      \
    }
#define DT_TABLE(fields_, ...)                                                                                         \
    {                                                                                                                  \
        .fields = (fields_), .n = sizeof(fields_) / sizeof(*(fields_)), __VA_ARGS__                                    \
    }

/* The reading of one object. The caller sets all but the last two. */
struct dt_json_reader {
    const dt_json *json;
    struct dt_faults *faults; /* texts that were read are in their arena */
    void *out;                /* the struct; it has its defaults */
    const void *context;      /* for the functions of the table */
    const char *parent;       /* JSON pointer of the object; NULL = the body itself */
    uint64_t given;           /* members that the object has and that were admitted: a bit for each row */
    uint64_t good;            /* those of them that were read without a fault, and were not null */
};
static inline bool dt_json_given(const struct dt_json_reader *reader, unsigned row)
{
    return reader->given >> row & 1;
}

/* Finds a row. NULL: the table has none of that name. */
const struct dt_json_field *dt_json_field_of(const struct dt_json_table *table, struct dt_str name);
/* Reads an object into the struct. False: the node is none, which is a fault. */
bool dt_json_read(struct dt_json_reader *reader, const struct dt_json_table *table, const struct dt_json_node *node);
/* Reads a value as the row says, its `read` aside; for functions of tables. */
void dt_json_read_value(struct dt_json_reader *reader, const struct dt_json_field *field,
                        const struct dt_json_node *node);
/* Adds a fault of a member. */
void dt_json_fault(struct dt_json_reader *reader, const struct dt_json_field *field, const char *reason);
void dt_json_faultf(struct dt_json_reader *reader, const struct dt_json_field *field, const char *fmt, ...)
    DT_PRINTF(3, 4);
/* Copies a text into the arena of the faults; when memory is out, it is absent, and the faults have failed. */
struct dt_str dt_json_keep(struct dt_faults *faults, struct dt_str text);
/* Returns where the member is in the struct. */
static inline void *dt_json_place(const struct dt_json_reader *reader, const struct dt_json_field *field)
{
    return (char *)reader->out + field->at;
}
/* Decodes a duration or a number of milliseconds; finer ones are rounded up. NULL: it is fine; else the reason, static
 * text. A whole number is in *out_ms even if it is refused. */
const char *dt_duration_decode(const struct dt_json_node *node, int64_t *out_ms);

/* Reasons that many tables have. */
#define DT_REASON_TIME       "must be an RFC 3339 time with an offset, such as 2026-11-21T10:30:00Z"
#define DT_REASON_AFTER_1970 "must be an RFC 3339 time with an offset, after 1970"
#define DT_REASON_NOT_ZERO   "must be longer than 0"
#define DT_REASON_UNKNOWN    "is not known"

#endif
