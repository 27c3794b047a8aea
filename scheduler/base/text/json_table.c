/* See json_table.h. */
#include "json_table.h"

#include "base/assert.h"
#include "timetext.h"

static void add_fault(struct dt_faults *faults, struct dt_str pointer, struct dt_str reason)
{
    if (faults->n >= DT_FAULTS_MAX) {
        faults->n++;
        return;
    }
    const struct dt_str copy = dt_arena_copy(faults->arena, reason);
    bool failed = !copy.p || !pointer.p;
    if (!failed && faults->n == faults->room) { /* the array grows from 4 entries, doubled up to DT_FAULTS_MAX */
        const size_t doubled = faults->room == 0 ? 4 : 2 * faults->room;
        const size_t room = doubled < DT_FAULTS_MAX ? doubled : DT_FAULTS_MAX;
        struct dt_fault *v = dt_arena_alloc(faults->arena, room * sizeof(*v));
        if (v && faults->n > 0)
            memcpy(v, faults->v, faults->n * sizeof(*v));
        faults->v = v ? v : faults->v;
        faults->room = v ? room : faults->room;
        failed = !v;
    }
    if (failed) {
        faults->failed = true;
        return;
    }
    dt_assert_cmp(faults->n, <, faults->room);
    faults->v[faults->n++] = (struct dt_fault){.pointer = pointer, .reason = copy};
}

void dt_faults_add(struct dt_faults *faults, const char *pointer, const char *reason)
{
    add_fault(faults, dt_arena_copy(faults->arena, dt_str(pointer)), dt_str(reason));
}

void dt_faults_addf(struct dt_faults *faults, const char *pointer, const char *fmt, ...)
{
    char text[320];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    dt_faults_add(faults, pointer, text);
}

/* Escapes the name in the pointer: "~" becomes "~0" and "/" becomes "~1". */
void dt_faults_add_member(struct dt_faults *faults, const char *parent, struct dt_str name, const char *reason)
{
    size_t n = strlen(parent);
    if (faults->n >= DT_FAULTS_MAX) {
        faults->n++;
        return;
    }
    char *p = dt_arena_alloc(faults->arena, n + 2 * name.n + 2);
    if (!p) {
        faults->failed = true;
        return;
    }
    memcpy(p, parent, n);
    p[n++] = '/';
    for (size_t i = 0; i < name.n; i++) {
        bool escape = name.p[i] == '~' || name.p[i] == '/';
        if (escape)
            p[n++] = '~';
        p[n++] = !escape ? name.p[i] : name.p[i] == '~' ? '0' : '1';
    }
    p[n] = '\0';
    add_fault(faults, (struct dt_str){p, n}, dt_str(reason));
}

void dt_faults_add_item(struct dt_faults *faults, const char *parent, size_t index, const char *reason)
{
    char text[24];
    snprintf(text, sizeof(text), "%zu", index);
    dt_faults_add_member(faults, parent, dt_str(text), reason);
}

void dt_faults_add_query(struct dt_faults *faults, struct dt_str name, const char *reason)
{
    char *p = dt_arena_alloc(faults->arena, name.n + 2);
    if (p) {
        p[0] = '?';
        if (name.n > 0)
            memcpy(p + 1, name.p, name.n);
        p[name.n + 1] = '\0';
    }
    add_fault(faults, (struct dt_str){p, p ? name.n + 1 : 0}, dt_str(reason));
}

void dt_json_fault(struct dt_json_reader *reader, const struct dt_json_field *field, const char *reason)
{
    dt_faults_add_member(reader->faults, reader->parent ? reader->parent : "", field->name, reason);
}

void dt_json_faultf(struct dt_json_reader *reader, const struct dt_json_field *field, const char *fmt, ...)
{
    char text[320];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    dt_json_fault(reader, field, text);
}

struct dt_str dt_json_keep(struct dt_faults *faults, struct dt_str text)
{
    const struct dt_str copy = dt_arena_copy(faults->arena, text);
    faults->failed |= !copy.p;
    return copy;
}

const char *dt_duration_decode(const struct dt_json_node *node, int64_t *out_ms)
{
    static const char *const range = "must not be negative, nor longer than 100 years";
    switch (node->type) {
    case DT_JSON_INT:
        *out_ms = node->i;
        return node->i >= 0 && node->i <= DT_DURATION_MAX_MS ? NULL : range;
    case DT_JSON_NUMBER:
        return dt_number_parse_ms(node->str, 0, out_ms) == DT_OK ? NULL : range;
    case DT_JSON_STRING:
        if (dt_duration_parse(node->str, out_ms) == DT_OK)
            return NULL;
        return "must be a duration: ISO 8601 with weeks to seconds (\"PT15M\"), \"15s\", \"3m\", \"1h\", \"2d\", or a "
               "number of milliseconds, from 0 to 100 years";
    case DT_JSON_NULL:
    case DT_JSON_BOOL:
    case DT_JSON_ARRAY:
    case DT_JSON_OBJECT:
        break;
    }
    return "must be a duration such as \"PT15M\" or \"15s\", or a number of milliseconds";
}

static void read_text_field(struct dt_json_reader *reader, const struct dt_json_field *field,
                            const struct dt_json_node *node)
{
    const bool is_text = node->type == DT_JSON_STRING;
    const size_t n = is_text ? node->str.n : 0;
    const bool within = !field->max || (n >= (size_t)field->min && n <= (size_t)field->max);
    const char *reason = NULL;
    if (is_text && within && field->check)
        reason = field->check(node->str);
    else if (is_text && within && field->judge)
        reason = field->judge(reader, node->str);
    if (is_text && within && !reason)
        *(struct dt_str *)dt_json_place(reader, field) = dt_json_keep(reader->faults, node->str);
    else if (reason || field->reason)
        dt_json_fault(reader, field, reason ? reason : field->reason);
    else if (field->max)
        dt_json_faultf(reader, field, "must be a string of %lld to %lld bytes", (long long)field->min,
                       (long long)field->max);
    else
        dt_json_fault(reader, field, "must be a string");
}

static void read_duration_field(struct dt_json_reader *reader, const struct dt_json_field *field,
                                const struct dt_json_node *node)
{
    int64_t *ms = dt_json_place(reader, field);
    const bool number = node->type == DT_JSON_INT || node->type == DT_JSON_NUMBER;
    const char *reason = NULL;
    if (field->kind == DT_FIELD_DURATION)
        reason = dt_duration_decode(node, ms);
    else if (!number || dt_number_parse_ms(node->raw, 3, ms) != DT_OK)
        reason = "must be a number of seconds, from 0 to 100 years";
    if (!reason && (*ms < field->min || (field->max && *ms > field->max)))
        reason = field->reason;
    if (reason)
        dt_json_fault(reader, field, reason);
}

void dt_json_read_value(struct dt_json_reader *reader, const struct dt_json_field *field,
                        const struct dt_json_node *node)
{
    int64_t *ms;
    switch (field->kind) {
    case DT_FIELD_TEXT:
        read_text_field(reader, field, node);
        break;
    case DT_FIELD_WORD:
        for (unsigned i = (unsigned)field->min; field->words[i] && node->type == DT_JSON_STRING; i++)
            if (dt_str_is(node->str, field->words[i])) {
                *(unsigned *)dt_json_place(reader, field) = i;
                return;
            }
        dt_json_fault(reader, field, field->reason);
        break;
    case DT_FIELD_FLAG:
        if (node->type == DT_JSON_BOOL)
            *(bool *)dt_json_place(reader, field) = node->b;
        else
            dt_json_fault(reader, field, "must be true or false");
        break;
    case DT_FIELD_COUNT:
        if (node->type == DT_JSON_INT && node->i >= field->min && node->i <= field->max)
            *(int64_t *)dt_json_place(reader, field) = node->i;
        else if (field->reason)
            dt_json_fault(reader, field, field->reason);
        else
            dt_json_faultf(reader, field, "must be a whole number from %lld to %lld", (long long)field->min,
                           (long long)field->max);
        break;
    case DT_FIELD_DURATION:
    case DT_FIELD_SECONDS:
        read_duration_field(reader, field, node);
        break;
    case DT_FIELD_TIME:
        ms = dt_json_place(reader, field);
        if (node->type != DT_JSON_STRING || dt_time_parse(node->str, ms) != DT_OK || (field->min && *ms < field->min))
            dt_json_fault(reader, field, field->reason ? field->reason : DT_REASON_TIME);
        break;
    case DT_FIELD_OBJECT:
    case DT_FIELD_OTHER:
        break;
    }
}

const struct dt_json_field *dt_json_field_of(const struct dt_json_table *table, struct dt_str name)
{
    for (size_t row = 0; row < table->n; row++)
        if (dt_str_eq(table->fields[row].name, name))
            return &table->fields[row];
    return NULL;
}

static void read_member(struct dt_json_reader *reader, const struct dt_json_table *table,
                        const struct dt_json_field *field, const struct dt_json_node *node)
{
    if (table->admits && !table->admits(reader, field, node))
        return;
    if (!field) {
        if (table->unknown)
            dt_faults_add_member(reader->faults, reader->parent ? reader->parent : "", node->name, table->unknown);
        return;
    }
    const size_t before = reader->faults->n;
    const uint64_t bit = UINT64_C(1) << (field - table->fields);
    reader->given |= bit;
    if (field->flags & DT_FIELD_SHOWN) {
        if (field->reason && (field->kind == DT_FIELD_OBJECT) != (node->type == DT_JSON_OBJECT))
            dt_json_fault(reader, field, field->reason);
        return;
    }
    if (field->flags & DT_FIELD_NULLABLE && node->type == DT_JSON_NULL)
        return;
    if (field->has)
        *(bool *)((char *)reader->out + field->has) = true;
    if (field->read)
        field->read(reader, field, node);
    else
        dt_json_read_value(reader, field, node);
    if (reader->faults->n == before)
        reader->good |= bit;
}

bool dt_json_read(struct dt_json_reader *reader, const struct dt_json_table *table, const struct dt_json_node *node)
{
    dt_assert_cmp(table->n, <=, 64);
    if (node->type != DT_JSON_OBJECT) {
        dt_faults_add(reader->faults, reader->parent ? reader->parent : "",
                      table->object ? table->object : "must be an object");
        return false;
    }
    const struct dt_json_field *next = table->fields; /* the next member is often in the next row */
    for (const struct dt_json_node *m = dt_json_first(reader->json, node); m;
         m = dt_json_sibling(reader->json, node, m)) {
        const struct dt_json_field *field =
            next < table->fields + table->n && dt_str_eq(next->name, m->name) ? next : dt_json_field_of(table, m->name);
        next = field ? field + 1 : next;
        read_member(reader, table, field, m);
    }
    return true;
}
