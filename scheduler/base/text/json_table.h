/*
 * JSON bodies by table: a table lists the members of a body with their kinds, bounds, and the reasons of their faults.
 * The reader reads the members in the order of the body, and adds every fault in that order to a list, which the error
 * response shows. It checks each member alone; the caller compares members with each other afterwards. Pure functions.
 *
 *   static const struct dt_json_field fields[] = {
 *       DT_FIELD("max", COUNT, struct wish, max, .min = 1, .max = 1000),
 *       DT_FIELD("wait", DURATION, struct wish, wait_ms, .max = 60000, .reason = "must be at most a minute"),
 *       DT_FIELD_BY("topics", read_topics),
 *   };
 *   static const struct dt_json_table table = DT_TABLE(fields, .unknown = DT_REASON_UNKNOWN);
 */
#pragma once

#include "base/status.h"
#include "json.h"
#include "strbuf.h"

#define DT_FAULTS_MAX 100 /* further faults are counted, but not kept */

struct dt_fault {
    struct dt_str pointer; /* JSON pointer into the body; "?name": a query parameter; "": the body as a whole */
    struct dt_str reason;
};

/* A list of faults. Its texts and the array v are in the arena. n counts all faults; v has only the first
 * DT_FAULTS_MAX. */
struct dt_faults {
    struct dt_arena *arena;
    struct dt_fault *v;
    size_t n, room;
    bool failed; /* memory ran out, so the list lacks faults */
};
/* Adds a fault. The texts are copied. */
void dt_faults_add(struct dt_faults *faults, const char *pointer, const char *reason);
/* Adds a fault whose pointer is parent + "/" + name, escaped as in RFC 6901. */
void dt_faults_add_member(struct dt_faults *faults, const char *parent, struct dt_str name, const char *reason);
/* Adds a fault whose pointer is parent + "/" + index. */
void dt_faults_add_item(struct dt_faults *faults, const char *parent, size_t index, const char *reason);
/* Adds a fault whose pointer is "?name". */
void dt_faults_add_query(struct dt_faults *faults, struct dt_str name, const char *reason);
void dt_faults_addf(struct dt_faults *faults, const char *pointer, const char *fmt, ...) DT_PRINTF(3, 4);
/* Returns NOMEM if memory ran out, INVALID if the list has faults, else OK. */
static inline dt_status dt_faults_status(const struct dt_faults *faults)
{
    return faults->failed ? DT_NOMEM : faults->n > 0 ? DT_INVALID : DT_OK;
}

/* The valid JSON values of a member, and its type in the struct. */
enum dt_json_kind {
    DT_FIELD_TEXT,     /* struct dt_str: a string of min to max bytes; max 0: of any length */
    DT_FIELD_WORD,     /* an enum: a string that is one of `words` */
    DT_FIELD_FLAG,     /* bool: true or false */
    DT_FIELD_COUNT,    /* int64_t: a whole number from min to max */
    DT_FIELD_DURATION, /* int64_t in ms: a duration, or a number of ms, from min to max; max 0: 100 years */
    DT_FIELD_SECONDS,  /* int64_t in ms: a number of seconds; min and max are in ms */
    DT_FIELD_TIME,     /* int64_t in ms since 1970: an RFC 3339 time with an offset; not before min, if min is set */
    DT_FIELD_OBJECT,   /* no type: an object that `read` reads, or that only responses have */
    DT_FIELD_OTHER,    /* no type: any value; `read` checks it */
};

#define DT_FIELD_NULLABLE 1u /* null leaves the struct unchanged; in a response, the number `absent` becomes null */
/* Only responses have the member; in a body it is skipped, or only its kind is checked if `reason` is set. */
#define DT_FIELD_SHOWN 2u
#define DT_FIELD_OWN   4u /* this bit and higher ones are free for the functions of a table */

struct dt_json_reader;
struct dt_json_field {
    struct dt_str name;
    enum dt_json_kind kind;
    unsigned flags;
    size_t at;        /* offset of the member in the struct */
    size_t has;       /* offset of a bool that is set if the body has the member and its value is not null; 0: none */
    int64_t min, max; /* smallest and largest valid value */
    int64_t absent;   /* number in the struct that a response shows as null */
    /* Reason of a fault; NULL: the usual reason of the kind. For DURATION and SECONDS, only of a fault of the
     * bounds. */
    const char *reason;
    const char *const *words; /* valid words, ended by NULL; the value of a word is min plus its index */
    /* Check a text that is within its bounds; `judge` also gets the reader. Return NULL, or the reason of a fault. */
    const char *(*check)(struct dt_str text);
    const char *(*judge)(struct dt_json_reader *reader, struct dt_str text);
    /* Reads the member, instead of the reader of `kind`. */
    void (*read)(struct dt_json_reader *reader, const struct dt_json_field *field, const struct dt_json_node *node);
};

struct dt_json_table {
    const struct dt_json_field *fields;
    size_t n;            /* number of rows, at most 64 */
    const char *object;  /* reason of a fault if the value is not an object; NULL: "must be an object" */
    const char *unknown; /* reason of a fault for a member that no row names; NULL: such members are skipped */
    /* Returns whether to read a member; field is NULL if no row names the member. Before returning false, the function
     * adds a fault if there is one; the member is then skipped. NULL: all members are read. */
    bool (*admits)(struct dt_json_reader *reader, const struct dt_json_field *field, const struct dt_json_node *node);
};

#define DT_FIELD_TYPE_TEXT     struct dt_str
#define DT_FIELD_TYPE_WORD     unsigned
#define DT_FIELD_TYPE_FLAG     bool
#define DT_FIELD_TYPE_COUNT    int64_t
#define DT_FIELD_TYPE_DURATION int64_t
#define DT_FIELD_TYPE_SECONDS  int64_t
#define DT_FIELD_TYPE_TIME     int64_t
/* A row of a table. Does not compile if the type of the struct's member does not fit the kind. */
#define DT_FIELD(name_, kind_, type_, member_, ...)                                                                    \
    {                                                                                                                  \
        .name = DT_STR_LIT(name_), .kind = DT_FIELD_##kind_,                                                           \
        .at = _Generic(((type_ *)0)->member_, DT_FIELD_TYPE_##kind_                                                    \
                       : offsetof(type_, member_)),                                                                    \
        __VA_ARGS__                                                                                                    \
    }
#define DT_FIELD_BY(name_, read_, ...)                                                                                 \
    {                                                                                                                  \
        .name = DT_STR_LIT(name_), .kind = DT_FIELD_OTHER, .read = (read_), __VA_ARGS__                                \
    }
/* A row for a member that only responses have. */
#define DT_FIELD_FOR_SHOW(name_, kind_, ...)                                                                           \
    {                                                                                                                  \
        .name = DT_STR_LIT(name_), .kind = DT_FIELD_##kind_, .flags = DT_FIELD_SHOWN, __VA_ARGS__                      \
    }
#define DT_TABLE(fields_, ...)                                                                                         \
    {                                                                                                                  \
        .fields = (fields_), .n = sizeof(fields_) / sizeof(*(fields_)), __VA_ARGS__                                    \
    }

/* The state of reading one object. The caller sets all members except the last two. */
struct dt_json_reader {
    const dt_json *json;
    struct dt_faults *faults; /* list of faults, whose arena also gets the texts that are read */
    void *out;                /* struct that is filled in; the caller sets default values first */
    const void *context;      /* argument for the functions of the table */
    const char *parent;       /* JSON pointer of the object; NULL: the object is the body itself */
    uint64_t given;           /* one bit for each row: the object has the member, and `admits` accepted it */
    uint64_t good;            /* those bits of `given` whose member was read without a fault and is not null */
};
static inline bool dt_json_given(const struct dt_json_reader *reader, unsigned row)
{
    return reader->given >> row & 1;
}

/* Returns the row of that name, or NULL. */
const struct dt_json_field *dt_json_field_of(const struct dt_json_table *table, struct dt_str name);
/* Reads an object into the struct. If the node is not an object, adds a fault and returns false. */
bool dt_json_read(struct dt_json_reader *reader, const struct dt_json_table *table, const struct dt_json_node *node);
/* Reads a value by the row's kind, without calling the row's `read`. For functions of tables. */
void dt_json_read_value(struct dt_json_reader *reader, const struct dt_json_field *field,
                        const struct dt_json_node *node);
void dt_json_fault(struct dt_json_reader *reader, const struct dt_json_field *field, const char *reason);
void dt_json_faultf(struct dt_json_reader *reader, const struct dt_json_field *field, const char *fmt, ...)
    DT_PRINTF(3, 4);
/* Copies a text into the arena of the faults. If memory runs out, returns an absent text and sets faults->failed. */
struct dt_str dt_json_keep(struct dt_faults *faults, struct dt_str text);
static inline void *dt_json_place(const struct dt_json_reader *reader, const struct dt_json_field *field)
{
    return (char *)reader->out + field->at;
}
/* Decodes a duration or a number of milliseconds, rounded up. Returns NULL, or the reason of a fault, which is static
 * text. If a whole number is refused, *out_ms is this number nevertheless. */
const char *dt_duration_decode(const struct dt_json_node *node, int64_t *out_ms);

#define DT_REASON_TIME       "must be an RFC 3339 time with an offset, such as 2026-11-21T10:30:00Z"
#define DT_REASON_AFTER_1970 "must be an RFC 3339 time with an offset, after 1970"
#define DT_REASON_NOT_ZERO   "must be longer than 0"
#define DT_REASON_UNKNOWN    "is not known"
