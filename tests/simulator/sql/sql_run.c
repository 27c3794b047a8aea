/* Statements on rows: see sql.h. Owns rows, their versions and who holds them; waiting is mysql.c's. */
#include <regex.h>
#include <zlib.h>

#include "simulator/sql/sql.h"

static struct table *tables;

/* ---- values ---- */

static const struct val null_val = {.t = V_NULL};

static struct val int_val(int64_t i)
{
    return (struct val){.t = V_INT, .i = i};
}

static struct val str_val(const char *p, size_t n)
{
    return (struct val){.t = V_STR, .p = p, .n = (uint32_t)n};
}

static const char *word_of(const struct val *v)
{
    return v->i > 0 && v->words[v->i] ? v->words[v->i] : "";
}

static int64_t as_int(const struct val *v)
{
    int64_t n = 0;
    if (v->t == V_INT || v->t == V_ENUM)
        return v->i;
    if (v->t == V_STR)
        for (uint32_t k = 0; k < v->n && v->p[k] >= '0' && v->p[k] <= '9'; k++)
            n = n * 10 + (v->p[k] - '0');
    return n;
}

static struct dt_str as_text(const struct val *v)
{
    char digits[24];
    int n;
    switch (v->t) {
    case V_STR:
        return (struct dt_str){v->p ? v->p : "", v->n};
    case V_ENUM:
        return dt_str(word_of(v));
    case V_INT:
        n = snprintf(digits, sizeof digits, "%lld", (long long)v->i);
        char *p = world_alloc((size_t)n + 1);
        memcpy(p, digits, (size_t)n);
        return (struct dt_str){p, (size_t)n};
    case V_NULL:
        break;
    }
    return DT_STR_NONE;
}

static bool truth(struct val v)
{
    return v.t != V_NULL && as_int(&v) != 0;
}

static int compare_text(struct dt_str a, struct dt_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* Neither is NULL. */
static int compare(const struct val *a, const struct val *b)
{
    bool text = (a->t == V_STR && (b->t == V_STR || b->t == V_ENUM)) || (a->t == V_ENUM && b->t == V_STR);
    if (text)
        return compare_text(as_text(a), as_text(b));
    int64_t x = as_int(a), y = as_int(b);
    return (x > y) - (x < y);
}

static bool same(const struct val *a, const struct val *b)
{
    if (a->t == V_NULL || b->t == V_NULL)
        return a->t == b->t;
    return compare(a, b) == 0;
}

/* ---- evaluating ---- */

struct frame {
    struct session *session;
    const struct dt_param *params;
    const struct frame *outer;
    const struct val *bound[SOURCES_MAX]; /* NULL: no row (of a LEFT JOIN) */
    const struct val *inserted;           /* what VALUES() reads */
    size_t count;                         /* what COUNT(*) reads */
    int64_t sum;                          /* what SUM() reads, once a row was counted that has a value */
    bool summed;
    struct val extreme; /* what MAX() or MIN() reads; NULL until then */
    struct dt_error *err;
    dt_status status;
};

static struct val eval(const struct expr *e, struct frame *f);
static struct val eval_select(const struct select *s, struct frame *outer, bool exists);

static struct val param_val(const struct dt_param *p)
{
    if (p->type == DT_PARAM_NULL)
        return null_val;
    return p->type == DT_PARAM_INT ? int_val(p->i) : str_val(p->s.p, p->s.n);
}

static struct val eval_column(const struct expr *e, const struct frame *f)
{
    for (unsigned up = e->up; up; up--)
        f = f->outer;
    const struct val *row = f->bound[e->source];
    return row ? row[e->column] : null_val;
}

static struct val eval_compare(const struct expr *e, struct frame *f)
{
    struct val a = eval(e->args[0], f), b = eval(e->args[1], f);
    if (e->op == E_SAME)
        return int_val(same(&a, &b));
    if (a.t == V_NULL || b.t == V_NULL)
        return null_val;
    int order = compare(&a, &b);
    switch ((int)e->op) {
    case E_EQ:
        return int_val(order == 0);
    case E_NE:
        return int_val(order != 0);
    case E_LT:
        return int_val(order < 0);
    case E_LE:
        return int_val(order <= 0);
    case E_GT:
        return int_val(order > 0);
    default:
        return int_val(order >= 0);
    }
}

static struct val eval_sum(const struct expr *e, struct frame *f)
{
    struct val a = eval(e->args[0], f), b = eval(e->args[1], f);
    if (a.t == V_NULL || b.t == V_NULL)
        return null_val;
    int64_t x = as_int(&a), y = as_int(&b), out = 0;
    bool over = false;
    switch ((int)e->op) {
    case E_ADD:
        over = __builtin_add_overflow(x, y, &out);
        break;
    case E_SUB:
        over = __builtin_sub_overflow(x, y, &out);
        break;
    case E_MUL:
        over = __builtin_mul_overflow(x, y, &out);
        break;
    default:
        if (y == 0)
            return null_val;
        out = e->op == E_DIV ? x / y : x % y;
    }
    if (over)
        f->status = dt_fail(f->err, DT_INVALID, "BIGINT value is out of range");
    return int_val(out);
}

static struct val eval_logic(const struct expr *e, struct frame *f)
{
    struct val a = eval(e->args[0], f);
    bool stop = e->op == E_AND ? a.t != V_NULL && !truth(a) : truth(a);
    if (stop)
        return int_val(e->op == E_OR);
    struct val b = eval(e->args[1], f);
    stop = e->op == E_AND ? b.t != V_NULL && !truth(b) : truth(b);
    if (stop)
        return int_val(e->op == E_OR);
    return a.t == V_NULL || b.t == V_NULL ? null_val : int_val(e->op == E_AND);
}

static struct val eval_in(const struct expr *e, struct frame *f)
{
    struct val a = eval(e->args[0], f);
    if (a.t == V_NULL)
        return null_val;
    for (unsigned i = 1; i < e->n; i++) {
        struct val b = eval(e->args[i], f);
        if (b.t != V_NULL && compare(&a, &b) == 0)
            return int_val(1);
    }
    return int_val(0);
}

static struct val eval_extreme(const struct expr *e, struct frame *f)
{
    struct val best = eval(e->args[0], f);
    for (unsigned i = 1; i < e->n; i++) {
        struct val v = eval(e->args[i], f);
        if (best.t == V_NULL || v.t == V_NULL)
            return null_val;
        int order = compare(&v, &best);
        if (e->op == E_LEAST ? order < 0 : order > 0)
            best = v;
    }
    return best;
}

static struct val eval_concat(const struct expr *e, struct frame *f)
{
    struct dt_str parts[16];
    size_t n = 0;
    for (unsigned i = 0; i < e->n; i++) {
        struct val v = eval(e->args[i], f);
        if (v.t == V_NULL)
            return null_val;
        parts[i] = as_text(&v);
        n += parts[i].n;
    }
    char *p = world_alloc(n + 1), *out = p;
    for (unsigned i = 0; i < e->n; i++) {
        memcpy(out, parts[i].p, parts[i].n);
        out += parts[i].n;
    }
    return str_val(p, n);
}

static struct val eval_replace(struct val in, struct dt_str what, struct dt_str by)
{
    struct dt_str s = as_text(&in);
    char *p = world_alloc(s.n * (by.n + 1) + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n;) {
        if (what.n && i + what.n <= s.n && memcmp(s.p + i, what.p, what.n) == 0) {
            memcpy(p + n, by.p, by.n);
            n += by.n;
            i += what.n;
        } else
            p[n++] = s.p[i++];
    }
    return str_val(p, n);
}

static struct val eval_unhex(struct dt_str s)
{
    char *p = world_alloc(s.n / 2 + 1);
    for (size_t i = 0; i + 1 < s.n; i += 2) {
        const char pair[3] = {s.p[i], s.p[i + 1], '\0'};
        p[i / 2] = (char)strtol(pair, NULL, 16);
    }
    return str_val(p, s.n / 2);
}

/* Above 0: what stands before the count-th `by`; -1: what stands behind the last one; all of it where there is none. */
static struct val eval_substring_index(struct dt_str s, struct dt_str by, int64_t count)
{
    size_t at = s.n;
    for (size_t i = 0; i + by.n <= s.n && count != 0; i++) {
        if (memcmp(s.p + i, by.p, by.n) != 0)
            continue;
        count -= count > 0;
        at = count > 0 ? s.n : i;
    }
    if (count >= 0)
        return str_val(s.p, at);
    return at == s.n ? str_val(s.p, s.n) : str_val(s.p + at + by.n, s.n - at - by.n);
}

static struct val eval_substr(struct dt_str s, int64_t from)
{
    size_t skipped = from > 0 ? (size_t)from - 1 : s.n;
    skipped = skipped < s.n ? skipped : s.n;
    return str_val(s.p + skipped, s.n - skipped);
}

static struct val eval_text_function(const struct expr *e, struct frame *f)
{
    struct val v[3] = {null_val, null_val, null_val};
    for (unsigned i = 0; i < e->n && i < 3; i++) {
        v[i] = eval(e->args[i], f);
        if (v[i].t == V_NULL)
            return null_val;
    }
    struct dt_str a = as_text(&v[0]), b = as_text(&v[1]);
    switch ((int)e->op) {
    case E_INSTR: {
        const char *found = memmem(a.p, a.n, b.p, b.n);
        return int_val(found ? found - a.p + 1 : 0);
    }
    case E_LENGTH:
        return int_val((int64_t)a.n);
    case E_LEFT:
        return str_val(a.p, a.n < (size_t)as_int(&v[1]) ? a.n : (size_t)as_int(&v[1]));
    case E_CRC32:
        return int_val((int64_t)crc32(0, (const unsigned char *)a.p, (unsigned)a.n));
    case E_UNHEX:
        return eval_unhex(a);
    case E_SUBSTRING_INDEX:
        return eval_substring_index(a, b, v[2].i);
    case E_SUBSTR:
        return eval_substr(a, as_int(&v[1]));
    default:
        return eval_replace(v[0], b, as_text(&v[2]));
    }
}

static struct val eval_regexp(const struct expr *e, struct frame *f)
{
    struct val v = eval(e->args[0], f), pattern = eval(e->args[1], f);
    regex_t regex;
    if (v.t == V_NULL || pattern.t == V_NULL)
        return null_val;
    struct dt_str text = as_text(&v), by = as_text(&pattern);
    char *terminated = world_alloc(text.n + 1), *expression = world_alloc(by.n + 1);
    memcpy(terminated, text.p, text.n);
    memcpy(expression, by.p, by.n);
    terminated[text.n] = expression[by.n] = '\0';
    if (regcomp(&regex, expression, REG_EXTENDED | REG_NOSUB) != 0)
        broken("REGEXP: %s", expression);
    bool found = regexec(&regex, terminated, 0, NULL, 0) == 0;
    regfree(&regex);
    return int_val(found);
}

static struct val eval(const struct expr *e, struct frame *f)
{
    struct val v, w;
    switch (e->op) {
    case E_LIT:
        return e->lit;
    case E_PARAM:
        return param_val(&f->params[e->param]);
    case E_COLUMN:
        return eval_column(e, f);
    case E_OR:
    case E_AND:
        return eval_logic(e, f);
    case E_NOT:
        v = eval(e->args[0], f);
        return v.t == V_NULL ? v : int_val(!truth(v));
    case E_EQ:
    case E_NE:
    case E_LT:
    case E_LE:
    case E_GT:
    case E_GE:
    case E_SAME:
        return eval_compare(e, f);
    case E_IS_NULL:
        return int_val(eval(e->args[0], f).t == V_NULL);
    case E_IN:
        return eval_in(e, f);
    case E_ADD:
    case E_SUB:
    case E_MUL:
    case E_MOD:
    case E_DIV:
        return eval_sum(e, f);
    case E_NEG:
        v = eval(e->args[0], f);
        return v.t == V_NULL ? v : int_val(-as_int(&v));
    case E_NOW:
        return int_val(mysql_now_ms());
    case E_SELECT:
        return eval_select(e->select, f, false);
    case E_EXISTS:
        return eval_select(e->select, f, true);
    case E_COUNT:
        return int_val((int64_t)f->count);
    case E_SUM:
        return f->summed ? int_val(f->sum) : null_val;
    case E_REGEXP:
        return eval_regexp(e, f);
    case E_LAST_ID:
        return int_val(f->session->last_id);
    case E_VALUES:
        return f->inserted[e->column];
    case E_COALESCE:
        for (unsigned i = 0; i < e->n; i++)
            if ((v = eval(e->args[i], f)).t != V_NULL)
                return v;
        return null_val;
    case E_IF:
        return eval(e->args[truth(eval(e->args[0], f)) ? 1 : 2], f);
    case E_NULLIF:
        v = eval(e->args[0], f);
        w = eval(e->args[1], f);
        return v.t != V_NULL && w.t != V_NULL && compare(&v, &w) == 0 ? null_val : v;
    case E_LEAST:
    case E_GREATEST:
        return eval_extreme(e, f);
    case E_CONCAT:
        return eval_concat(e, f);
    default:
        return eval_text_function(e, f);
    }
}

/* ---- tables ---- */

void tables_begin(void)
{
    sql_table("");
    tables = world_alloc(sql_tables() * sizeof *tables);
    for (unsigned i = 0; i < sql_tables(); i++)
        tables[i] = (struct table){.def = sql_table_at(i), .next_auto = 1};
}

struct table *table_named(const char *name)
{
    const struct table_def *def = sql_table(name);
    if (!def)
        broken("no table %s", name);
    return &tables[def->number];
}

static int compare_keys(const struct table_def *def, const struct val *a, const struct val *b)
{
    for (unsigned i = 0; i < def->n_keys; i++) {
        int order = compare(&a[def->keys[i]], &b[def->keys[i]]);
        if (order)
            return order;
    }
    return 0;
}

static const struct val *any_values(const struct row *row)
{
    return row->current ? row->current : row->committed ? row->committed : row->deleted;
}

/* Where a row with these keys stands, or would stand. */
static size_t place_of(const struct table *t, const struct val *values, bool *found)
{
    size_t low = 0, high = t->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare_keys(t->def, any_values(t->rows[middle]), values) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < t->n && compare_keys(t->def, any_values(t->rows[low]), values) == 0;
    return low;
}

static void add_row(struct table *t, struct row *row, size_t place)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 16;
        struct row **bigger = world_alloc(t->cap * sizeof *bigger);
        if (t->n)
            memcpy(bigger, t->rows, t->n * sizeof *bigger);
        t->rows = bigger;
    }
    memmove(t->rows + place + 1, t->rows + place, (t->n - place) * sizeof *t->rows);
    t->rows[place] = row;
    t->n++;
}

static void remove_row(struct row *row)
{
    struct table *t = row->table;
    for (size_t i = 0; i < t->n; i++)
        if (t->rows[i] == row) {
            memmove(t->rows + i, t->rows + i + 1, (t->n - i - 1) * sizeof *t->rows);
            t->n--;
            break;
        }
    row->gone = true;
}

struct row *table_find(struct table *t, int64_t key)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->rows[i]->committed && as_int(&t->rows[i]->committed[t->def->keys[0]]) == key)
            return t->rows[i];
    return NULL;
}

static const struct val *cell(const struct row *row, const char *name)
{
    int column = sql_column(row->table->def, name);
    if (column < 0)
        broken("an oracle asks for %s.%s, which there is not", row->table->def->name, name);
    return &row->committed[column];
}

int64_t cell_int(const struct row *row, const char *column)
{
    return as_int(cell(row, column));
}
bool cell_null(const struct row *row, const char *column)
{
    return cell(row, column)->t == V_NULL;
}
struct dt_str cell_text(const struct row *row, const char *column)
{
    return as_text(cell(row, column));
}

/* ---- copies ---- */

struct copy {
    struct table *tables;
};

static struct val *values_copy(const struct table_def *def, const struct val *from)
{
    struct val *values = world_alloc(def->n_columns * sizeof *values);
    return memcpy(values, from, def->n_columns * sizeof *values);
}

struct copy *tables_copy(void)
{
    struct copy *copy = world_alloc(sizeof *copy);
    copy->tables = world_alloc(sql_tables() * sizeof *copy->tables);
    for (unsigned i = 0; i < sql_tables(); i++) {
        struct table *from = &tables[i], *to = &copy->tables[i];
        *to = (struct table){.def = from->def, .next_auto = from->next_auto};
        for (size_t k = 0; k < from->n; k++) {
            if (!from->rows[k]->committed)
                continue;
            struct row *row = world_alloc(sizeof *row);
            row->committed = from->rows[k]->committed; /* never changed in place */
            add_row(to, row, to->n);
        }
    }
    return copy;
}

/* Nobody may be in a transaction. */
void tables_restore(const struct copy *copy)
{
    for (unsigned i = 0; i < sql_tables(); i++) {
        const struct table *from = &copy->tables[i];
        for (size_t k = 0; k < tables[i].n; k++)
            tables[i].rows[k]->gone = true;
        tables[i] = (struct table){.def = from->def, .next_auto = from->next_auto};
        for (size_t k = 0; k < from->n; k++) {
            struct row *row = world_alloc(sizeof *row);
            row->committed = row->current = from->rows[k]->committed;
            row->table = &tables[i];
            add_row(&tables[i], row, tables[i].n);
        }
    }
}

/* ---- locks ---- */

static void own(struct session *s, struct row *row)
{
    row->owner = s;
    if (s->n_locked == s->cap_locked) {
        s->cap_locked = s->cap_locked ? s->cap_locked * 2 : 16;
        struct row **bigger = world_alloc(s->cap_locked * sizeof *bigger);
        if (s->n_locked)
            memcpy(bigger, s->locked, s->n_locked * sizeof *bigger);
        s->locked = bigger;
    }
    s->locked[s->n_locked++] = row;
}

extern void session_wake_waiters(struct row *row);

/* The row is ours, or skipped (*skipped), or gone (*skipped, too). */
static dt_status lock(struct session *s, struct row *row, bool skip_locked, bool *fresh, bool *skipped,
                      struct dt_error *err)
{
    *fresh = *skipped = false;
    while (row->owner && row->owner != s && !row->gone) {
        *skipped = skip_locked;
        if (skip_locked)
            return DT_OK;
        dt_status status = session_wait(s, row, err);
        if (status != DT_OK)
            return status;
    }
    *skipped = row->gone;
    if (row->owner != s && !row->gone) {
        own(s, row);
        *fresh = true;
    }
    return DT_OK;
}

void session_end_transaction(struct session *s, bool commit)
{
    for (size_t i = 0; i < s->n_locked; i++) {
        struct row *row = s->locked[i];
        if (commit)
            row->committed = row->current;
        else
            row->current = row->committed;
        row->owner = NULL;
        if (!row->current && !row->gone)
            remove_row(row);
        session_wake_waiters(row);
    }
    s->n_locked = 0;
    s->in_transaction = s->commit_later = false;
}

/* ---- going through the sources ---- */

struct match {
    const struct val *bound[SOURCES_MAX];
    struct row *rows[SOURCES_MAX];
};

struct walk {
    const struct select *select;
    struct frame *frame;
    bool lock, update; /* update: rows whose committed values do not match are passed by without waiting */
    struct row *rows[SOURCES_MAX];
    dt_status (*visit)(struct walk *w);
    void *arg;
    bool enough;
};

static dt_status walk_from(struct walk *w, unsigned number);

static dt_status walk_matched(struct walk *w)
{
    if (w->select->where && !truth(eval(w->select->where, w->frame)))
        return w->frame->status;
    return w->frame->status != DT_OK ? w->frame->status : w->visit(w);
}

static dt_status walk_bound(struct walk *w, unsigned number)
{
    return number + 1 == w->select->n_sources ? walk_matched(w) : walk_from(w, number + 1);
}

/* One element of the JSON list, cell by cell. */
struct reader {
    const char *p, *end;
};

static void json_space(struct reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n'))
        r->p++;
}

static bool json_take(struct reader *r, char c)
{
    json_space(r);
    if (r->p == r->end || *r->p != c)
        return false;
    r->p++;
    return true;
}

/* What stands behind a backslash, as dt_json_add_string writes it: \\u for control characters only. */
static char json_escaped(struct reader *r)
{
    static const char names[] = "ntrbf", values[] = "\n\t\r\b\f";
    const char *at = strchr(names, *r->p);
    char hex[5] = "";
    if (*r->p != 'u')
        return at && *at ? values[at - names] : *r->p;
    if (r->end - r->p < 5)
        broken("JSON_TABLE: not understood: %.*s", (int)(r->end - r->p), r->p);
    memcpy(hex, r->p + 1, 4);
    r->p += 4;
    long code = strtol(hex, NULL, 16);
    if (code > 127)
        broken("JSON_TABLE: not understood: \\u%s", hex);
    return (char)code;
}

static struct val json_string(struct reader *r)
{
    char *out = world_alloc((size_t)(r->end - r->p) + 1);
    size_t n = 0;
    for (r->p++; r->p < r->end && *r->p != '"'; r->p++) {
        bool escaped = *r->p == '\\';
        r->p += escaped;
        out[n++] = escaped ? json_escaped(r) : *r->p;
    }
    r->p++;
    return str_val(out, n);
}

static struct val json_cell(struct reader *r)
{
    json_space(r);
    if (r->p < r->end && *r->p == '"')
        return json_string(r);
    if (r->end - r->p >= 4 && memcmp(r->p, "null", 4) == 0) {
        r->p += 4;
        return null_val;
    }
    bool negative = r->p < r->end && *r->p == '-';
    int64_t n = 0;
    r->p += negative;
    if (r->p == r->end || *r->p < '0' || *r->p > '9')
        broken("JSON_TABLE: not understood: %.*s", (int)(r->end - r->p), r->p);
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
        n = n * 10 + (*r->p++ - '0');
    return int_val(negative ? -n : n);
}

static void json_element(struct reader *r, const struct source *s, struct val *cells)
{
    struct val all[20];
    unsigned n = 0;
    if (json_take(r, '[')) {
        if (!json_take(r, ']')) {
            do
                all[n++ % 20] = json_cell(r);
            while (json_take(r, ','));
            json_take(r, ']');
        }
    } else
        all[n++] = json_cell(r);
    for (unsigned i = 0; i < s->n_cells; i++) {
        unsigned index = s->cells[i].index < 0 ? 0 : (unsigned)s->cells[i].index;
        cells[i] = index < n ? all[index] : null_val;
        if (s->cells[i].is_int && cells[i].t == V_STR)
            cells[i] = int_val(as_int(&cells[i]));
    }
}

static dt_status walk_json(struct walk *w, unsigned number)
{
    const struct source *s = &w->select->sources[number];
    struct val list = eval(s->json, w->frame);
    struct reader r = {list.p, list.p + list.n};
    if (list.t != V_STR || !json_take(&r, '['))
        broken("JSON_TABLE wants a list");
    if (json_take(&r, ']'))
        return DT_OK;
    do {
        struct val *cells = world_alloc(s->n_cells * sizeof *cells);
        json_element(&r, s, cells);
        w->frame->bound[number] = cells;
        dt_status status = walk_bound(w, number);
        if (status != DT_OK || w->enough)
            return status;
    } while (json_take(&r, ','));
    return DT_OK;
}

/* Is what others see of the row no match? Then an UPDATE passes it by, whoever holds it. */
static bool passed_by(struct walk *w, unsigned number, const struct row *row)
{
    if (!w->update || !row->owner || row->owner == w->frame->session || number + 1 != w->select->n_sources)
        return false;
    if (!row->committed)
        return false;
    w->frame->bound[number] = row->committed;
    const struct source *s = &w->select->sources[number];
    return (s->on && !truth(eval(s->on, w->frame))) || (w->select->where && !truth(eval(w->select->where, w->frame)));
}

static dt_status walk_row(struct walk *w, unsigned number, struct row *row, bool *matched)
{
    const struct source *s = &w->select->sources[number];
    bool fresh = false, skipped = false;
    *matched = false;
    if (w->lock) {
        if (passed_by(w, number, row))
            return DT_OK;
        dt_status status = lock(w->frame->session, row, w->select->skip_locked, &fresh, &skipped, w->frame->err);
        if (status != DT_OK || skipped)
            return status;
    }
    w->frame->bound[number] = row->owner == w->frame->session ? row->current : row->committed;
    w->rows[number] = row;
    size_t held = w->frame->session ? w->frame->session->n_locked : 0;
    bool match = w->frame->bound[number] && (!s->on || truth(eval(s->on, w->frame)));
    *matched = match; /* what WHERE says of it makes no row without a partner */
    if (match && number + 1 == w->select->n_sources && w->select->where)
        match = truth(eval(w->select->where, w->frame));
    if (!match) {
        if (fresh && w->frame->session->n_locked == held) {
            /* A row that was just locked and does not match: READ COMMITTED lets it go. */
            w->frame->session->n_locked--;
            row->owner = NULL;
            session_wake_waiters(row);
        }
        return w->frame->status;
    }
    return walk_bound(w, number);
}

/* Rows of a table, in the order of its primary key. */
struct rows {
    struct row **v, *few[16];
    size_t n, cap;
};

static void reserve_rows(struct rows *rows, size_t cap)
{
    struct row **bigger = world_alloc(cap * sizeof *bigger);
    memcpy(bigger, rows->v, rows->n * sizeof *bigger);
    rows->v = bigger;
    rows->cap = cap;
}

static void add_rows_of(const struct table *t, const struct table_def *def, const struct val *key, struct rows *out)
{
    size_t low = 0, high = t->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(&any_values(t->rows[middle])[def->keys[0]], key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < t->n && compare(&any_values(t->rows[low])[def->keys[0]], key) == 0; low++) {
        if (out->n == out->cap)
            reserve_rows(out, 2 * out->cap);
        out->v[out->n++] = t->rows[low];
    }
}

static int by_value(const void *a, const void *b)
{
    return compare(a, b);
}

/* Each row once, however often its key is listed. */
static void add_rows_in(struct walk *w, const struct expr *list, const struct table *t, const struct table_def *def,
                        struct rows *out)
{
    struct val *keys = world_alloc(list->n * sizeof *keys);
    size_t n = 0;
    for (unsigned i = 1; i < list->n; i++) {
        struct val key = eval(list->args[i], w->frame);
        if (key.t != V_NULL)
            keys[n++] = key;
    }
    qsort(keys, n, sizeof *keys, by_value);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || compare(&keys[i - 1], &keys[i]) != 0)
            add_rows_of(t, def, &keys[i], out);
}

/* All rows that can match: a copy, because what is done with them may add others. */
static void rows_to_walk(struct walk *w, const struct source *s, struct rows *out)
{
    const struct table *t = &tables[s->table->number];
    struct val key;
    out->v = out->few;
    out->n = 0;
    out->cap = sizeof out->few / sizeof *out->few;
    if (s->key && s->key->op == E_IN) {
        add_rows_in(w, s->key, t, s->table, out);
    } else if (s->key) {
        key = eval(s->key, w->frame);
        if (key.t != V_NULL)
            add_rows_of(t, s->table, &key, out);
    } else if (t->n) {
        if (t->n > out->cap)
            reserve_rows(out, t->n);
        memcpy(out->v, t->rows, t->n * sizeof *out->v);
        out->n = t->n;
    }
}

static dt_status walk_table(struct walk *w, unsigned number)
{
    const struct source *s = &w->select->sources[number];
    struct rows rows;
    bool any = false;
    rows_to_walk(w, s, &rows);
    for (size_t i = 0; i < rows.n && !w->enough; i++) {
        bool matched;
        dt_status status = walk_row(w, number, rows.v[i], &matched);
        if (status != DT_OK)
            return status;
        any |= matched;
    }
    if (any || !s->left || w->enough)
        return DT_OK;
    w->frame->bound[number] = NULL;
    w->rows[number] = NULL;
    return walk_bound(w, number);
}

static dt_status walk_derived(struct walk *w, unsigned number);

static dt_status walk_from(struct walk *w, unsigned number)
{
    if (w->select->n_sources == 0)
        return walk_matched(w);
    const struct source *s = &w->select->sources[number];
    return s->table ? walk_table(w, number) : s->derived ? walk_derived(w, number) : walk_json(w, number);
}

/* ---- SELECT ---- */

struct selected {
    struct val items[COLUMNS_MAX], order[4];
};
struct selection {
    struct selected *rows;
    size_t n, cap;
    const struct select *select;
};

static struct selected *new_selected(struct selection *out)
{
    if (out->n == out->cap) {
        out->cap = out->cap ? out->cap * 2 : 4;
        struct selected *bigger = world_alloc(out->cap * sizeof *bigger);
        if (out->n)
            memcpy(bigger, out->rows, out->n * sizeof *bigger);
        out->rows = bigger;
    }
    return &out->rows[out->n++];
}

/* Of the one SUM that a query may have. */
static void add_to_sum(const struct expr *e, struct frame *f)
{
    struct val v = eval(e->args[0], f);
    if (v.t == V_NULL)
        return;
    f->sum += as_int(&v);
    f->summed = true;
}

static bool is_extreme(const struct expr *e)
{
    return e->op == E_MAX || e->op == E_MIN;
}

/* Of the one MAX or MIN that a query may have. */
static void take_extreme(const struct expr *e, struct frame *f)
{
    struct val v = eval(e->args[0], f);
    int order = v.t == V_NULL || f->extreme.t == V_NULL ? 0 : compare(&v, &f->extreme);
    if (v.t != V_NULL && (f->extreme.t == V_NULL || (e->op == E_MAX ? order > 0 : order < 0)))
        f->extreme = v;
}

/* By how much a row more of its group raises what is told of it. */
static int64_t grouped_step(const struct expr *e, struct frame *f)
{
    if (e->op != E_SUM)
        return e->op == E_COUNT;
    struct val v = eval(e->args[0], f);
    return v.t == V_NULL ? 0 : as_int(&v);
}

/* The first row of a group. */
static void begin_group(const struct select *s, struct frame *f)
{
    f->count = 1;
    f->sum = 0;
    f->extreme = (struct val){.t = V_NULL};
    for (unsigned i = 0; i < s->n_items; i++)
        if (s->items[i]->op == E_SUM)
            add_to_sum(s->items[i], f);
        else if (is_extreme(s->items[i]))
            take_extreme(s->items[i], f);
}

static dt_status select_row(struct walk *w)
{
    struct selection *out = w->arg;
    const struct select *s = w->select;
    if (s->counts && !s->grouped) {
        w->frame->count++;
        for (unsigned i = 0; i < s->n_items; i++)
            if (s->items[i]->op == E_SUM)
                add_to_sum(s->items[i], w->frame);
            else if (is_extreme(s->items[i]))
                take_extreme(s->items[i], w->frame);
        return DT_OK;
    }
    if (s->grouped) {
        struct val key = eval(s->group, w->frame);
        for (size_t i = 0; i < out->n; i++)
            if (same(&out->rows[i].order[0], &key)) {
                for (unsigned k = 0; k < s->n_items; k++)
                    if (is_extreme(s->items[k])) {
                        w->frame->extreme = out->rows[i].items[k];
                        take_extreme(s->items[k], w->frame);
                        out->rows[i].items[k] = w->frame->extreme;
                    } else
                        out->rows[i].items[k].i += grouped_step(s->items[k], w->frame);
                return DT_OK;
            }
        begin_group(s, w->frame);
    }
    struct selected *row = new_selected(out);
    for (unsigned i = 0; i < s->n_items; i++)
        row->items[i] = is_extreme(s->items[i]) ? w->frame->extreme : eval(s->items[i], w->frame);
    for (unsigned i = 0; i < s->n_order; i++)
        row->order[i] = eval(s->order[i], w->frame);
    if (s->grouped)
        row->order[0] = eval(s->group, w->frame);
    return w->frame->status;
}

static int compare_selected(const void *a, const void *b, void *arg)
{
    const struct selected *x = a, *y = b;
    const struct select *s = arg;
    for (unsigned i = 0; i < s->n_order; i++) {
        const struct val *v = &x->order[i], *w = &y->order[i];
        int order = v->t == V_NULL || w->t == V_NULL ? (w->t == V_NULL) - (v->t == V_NULL) : compare(v, w);
        if (order)
            return s->descending[i] ? -order : order;
    }
    return 0;
}

static dt_status run_select(const struct select *s, struct frame *frame, struct selection *out)
{
    struct walk w = {.select = s, .frame = frame, .lock = s->lock, .visit = select_row, .arg = out};
    out->select = s;
    dt_status status = walk_from(&w, 0);
    if (status != DT_OK)
        return status;
    if (s->counts && !s->grouped) {
        struct selected *row = new_selected(out);
        for (unsigned i = 0; i < s->n_items; i++)
            row->items[i] = is_extreme(s->items[i]) ? frame->extreme : eval(s->items[i], frame);
    }
    if (s->n_order && !s->grouped && out->n > 1)
        qsort_r(out->rows, out->n, sizeof *out->rows, compare_selected, (void *)(uintptr_t)s);
    if (s->offset) {
        struct val offset = eval(s->offset, frame);
        size_t skipped = out->n < (size_t)as_int(&offset) ? out->n : (size_t)as_int(&offset);
        out->n -= skipped;
        memmove(out->rows, out->rows + skipped, out->n * sizeof *out->rows);
    }
    if (s->limit) {
        struct val limit = eval(s->limit, frame);
        if (out->n > (size_t)as_int(&limit))
            out->n = (size_t)as_int(&limit);
    }
    return frame->status;
}

/* A SELECT in FROM sees nothing of what stands beside it. */
static dt_status walk_derived(struct walk *w, unsigned number)
{
    const struct source *s = &w->select->sources[number];
    struct frame *at = w->frame;
    struct frame frame = {.session = at->session, .params = at->params, .outer = at->outer, .err = at->err};
    struct selection out = {0};
    dt_status status = run_select(s->derived, &frame, &out);
    for (size_t i = 0; i < out.n && status == DT_OK && !w->enough; i++) {
        at->bound[number] = out.rows[i].items;
        if (!s->on || truth(eval(s->on, at)))
            status = walk_bound(w, number);
    }
    return status;
}

static struct val eval_select(const struct select *s, struct frame *outer, bool exists)
{
    struct frame frame = {.session = outer->session, .params = outer->params, .outer = outer, .err = outer->err};
    struct selection out = {0};
    if (run_select(s, &frame, &out) != DT_OK)
        outer->status = frame.status;
    if (exists)
        return int_val(out.n > 0);
    return out.n ? out.rows[0].items[0] : null_val;
}

/* ---- writing rows ---- */

/* What a column makes of a value. */
static dt_status convert(const struct column *c, struct val *v, struct dt_error *err)
{
    if (v->t == V_NULL)
        return c->not_null ? dt_fail(err, DT_INVALID, "column '%s' cannot be null", c->name) : DT_OK;
    if (c->is_int) {
        *v = int_val(as_int(v));
    } else if (c->words) {
        if (v->t == V_STR || v->t == V_ENUM) {
            struct dt_str word = as_text(v);
            int64_t i = 1;
            while (c->words[i] && !dt_str_is(word, c->words[i]))
                i++;
            if (!c->words[i])
                return dt_fail(err, DT_INVALID, "data truncated for column '%s'", c->name);
            v->i = i;
        }
        *v = (struct val){.t = V_ENUM, .i = v->i, .words = c->words};
    } else if (v->t != V_STR) {
        struct dt_str s = as_text(v);
        *v = str_val(s.p, s.n);
    } else { /* parameters' bytes are the caller's */
        char *p = world_alloc(v->n + 1);
        if (v->n)
            memcpy(p, v->p, v->n);
        v->p = p;
    }
    return DT_OK;
}

/* Generated columns and checks of a row that is about to be written. */
static dt_status complete(const struct table_def *def, struct val *values, struct dt_error *err)
{
    struct frame frame = {.bound = {values}, .err = err};
    for (unsigned i = 0; i < def->n_columns; i++)
        if (def->columns[i].generated) {
            values[i] = eval(def->columns[i].generated, &frame);
            if (values[i].t != V_NULL && def->columns[i].is_int)
                values[i] = int_val(as_int(&values[i]));
        }
    for (unsigned i = 0; i < def->n_checks; i++) {
        struct val v = eval(def->checks[i], &frame);
        if (v.t != V_NULL && !truth(v))
            return dt_fail(err, DT_INVALID, "a CHECK of %s failed", def->name);
    }
    return frame.status;
}

static bool same_values(const struct table_def *def, const struct val *a, const struct val *b)
{
    for (unsigned i = 0; i < def->n_columns; i++)
        if (!same(&a[i], &b[i]))
            return false;
    return true;
}

/* ---- UPDATE and DELETE ---- */

struct change {
    struct row *row;
    struct val *values; /* NULL: delete */
};
struct changes {
    const struct stmt *stmt;
    struct change *v;
    size_t n, cap;
};

/* An UPDATE of one table assigns from left to right and reads what it has assigned; of an UPDATE of several tables
 * nobody says so: either way. */
static dt_status new_values(struct walk *w, const struct stmt *st, const struct val *was, struct val **out)
{
    unsigned target = st->target;
    bool ordered = st->select.n_sources == 1 || one_in(2);
    struct val *values = values_copy(st->table, was);
    dt_status status = DT_OK;
    if (ordered)
        w->frame->bound[target] = values;
    for (unsigned i = 0; i < st->n_set && status == DT_OK; i++) {
        struct val v = eval(st->set[i].value, w->frame);
        status = convert(&st->table->columns[st->set[i].column], &v, w->frame->err);
        values[st->set[i].column] = v;
    }
    w->frame->bound[target] = was;
    *out = values;
    return status == DT_OK ? complete(st->table, values, w->frame->err) : status;
}

static dt_status change_row(struct walk *w)
{
    struct changes *changes = w->arg;
    const struct stmt *st = changes->stmt;
    struct change change = {.row = w->rows[st->target]};
    for (size_t i = 0; i < changes->n; i++)
        if (changes->v[i].row == change.row) /* joined twice: changed once */
            return DT_OK;
    if (st->kind == S_UPDATE) {
        dt_status status = new_values(w, st, w->frame->bound[st->target], &change.values);
        if (status != DT_OK)
            return status;
    }
    if (changes->n == changes->cap) {
        changes->cap = changes->cap ? changes->cap * 2 : 8;
        struct change *bigger = world_alloc(changes->cap * sizeof *bigger);
        if (changes->n)
            memcpy(bigger, changes->v, changes->n * sizeof *bigger);
        changes->v = bigger;
    }
    changes->v[changes->n++] = change;
    return DT_OK;
}

static dt_status run_change(struct frame *frame, const struct stmt *st, uint64_t *affected)
{
    struct changes changes = {.stmt = st};
    struct walk w = {.select = &st->select,
                     .frame = frame,
                     .lock = true,
                     .update = st->kind == S_UPDATE,
                     .visit = change_row,
                     .arg = &changes};
    dt_status status = walk_from(&w, 0);
    for (size_t i = 0; i < changes.n && status == DT_OK; i++) {
        struct row *row = changes.v[i].row;
        if (changes.v[i].values && same_values(st->table, row->current, changes.v[i].values))
            continue;
        if (!changes.v[i].values)
            row->deleted = row->current;
        row->current = changes.v[i].values;
        ++*affected;
    }
    return status;
}

/* ---- INSERT ---- */

static dt_status insert_duplicate(struct frame *frame, const struct stmt *st, struct row *row, struct val *values,
                                  uint64_t *affected)
{
    struct val *next = values_copy(st->table, row->current);
    frame->bound[0] = next;
    frame->inserted = values;
    for (unsigned i = 0; i < st->n_set; i++) {
        struct val v = eval(st->set[i].value, frame);
        dt_status status = convert(&st->table->columns[st->set[i].column], &v, frame->err);
        if (status != DT_OK)
            return status;
        next[st->set[i].column] = v;
    }
    dt_status status = complete(st->table, next, frame->err);
    if (status != DT_OK || same_values(st->table, row->current, next))
        return status;
    row->current = next;
    *affected += 2;
    return DT_OK;
}

static dt_status insert_values(struct frame *frame, const struct stmt *st, struct val *values, uint64_t *affected)
{
    struct table *t = &tables[st->table->number];
    dt_status status = complete(st->table, values, frame->err);
    for (unsigned i = 0; i < st->table->n_columns; i++)
        if (st->table->columns[i].auto_increment && values[i].t == V_NULL)
            values[i] = int_val(frame->session->last_id = t->next_auto++);
    for (;;) {
        bool found, fresh, gone;
        if (status != DT_OK)
            return status;
        size_t place = place_of(t, values, &found);
        if (!found) {
            struct row *row = world_alloc(sizeof *row);
            row->table = t;
            row->current = values;
            add_row(t, row, place);
            own(frame->session, row);
            ++*affected;
            return DT_OK;
        }
        struct row *row = t->rows[place];
        status = lock(frame->session, row, false, &fresh, &gone, frame->err);
        if (status != DT_OK || gone)
            continue;
        if (!row->current) { /* deleted by this transaction */
            row->current = values;
            ++*affected;
            return DT_OK;
        }
        if (st->ignore)
            return DT_OK;
        if (!st->on_duplicate)
            return dt_fail(frame->err, DT_EXISTS, "duplicate entry in %s", st->table->name);
        return insert_duplicate(frame, st, row, values, affected);
    }
}

static dt_status insert_row(struct frame *frame, const struct stmt *st, const struct val *given, uint64_t *affected)
{
    struct val *values = world_alloc(st->table->n_columns * sizeof *values);
    dt_status status = DT_OK;
    for (unsigned i = 0; i < st->table->n_columns; i++) {
        values[i] = st->table->columns[i].initial;
        if (values[i].t != V_NULL)
            (void)!convert(&st->table->columns[i], &values[i], NULL);
    }
    for (unsigned i = 0; i < st->n_columns && status == DT_OK; i++) {
        struct val v = given[i];
        status = convert(&st->table->columns[st->columns[i]], &v, frame->err);
        values[st->columns[i]] = v;
    }
    return status == DT_OK ? insert_values(frame, st, values, affected) : status;
}

static dt_status run_insert(struct frame *frame, const struct stmt *st, uint64_t *affected)
{
    struct selection from = {0};
    if (!st->from_select) {
        struct val given[COLUMNS_MAX];
        for (unsigned i = 0; i < st->n_columns; i++)
            given[i] = eval(st->values[i], frame);
        return frame->status != DT_OK ? frame->status : insert_row(frame, st, given, affected);
    }
    dt_status status = run_select(&st->select, frame, &from);
    for (size_t i = 0; i < from.n && status == DT_OK; i++)
        status = insert_row(frame, st, from.rows[i].items, affected);
    return status;
}

/* ---- a statement ---- */

static int compare_places(const void *a, const void *b, void *arg)
{
    const struct selected *x = a, *y = b;
    const struct select *first = arg;
    for (unsigned i = 0; i < first->n_by; i++) {
        int order = compare(&x->items[first->by[i]], &y->items[first->by[i]]);
        if (order)
            return order;
    }
    return 0;
}

/* One after the other, then all of them in order. */
static dt_status run_union(const struct select *first, const struct frame *like, struct selection *out)
{
    struct frame frame = *like;
    dt_status status = DT_OK;
    for (const struct select *s = first; s && status == DT_OK; s = s->also) {
        struct selection some = {0};
        frame = *like;
        status = run_select(s, &frame, &some);
        for (size_t i = 0; i < some.n; i++)
            *new_selected(out) = some.rows[i];
    }
    if (out->n > 1 && first->n_by)
        qsort_r(out->rows, out->n, sizeof *out->rows, compare_places, (void *)(uintptr_t)first);
    struct val most = first->all_limit ? eval(first->all_limit, &frame) : int_val(INT64_MAX);
    out->n = out->n > (size_t)as_int(&most) ? (size_t)as_int(&most) : out->n;
    return status;
}

dt_status sql_run(struct session *session, const struct stmt *st, struct dt_params params, struct result *result,
                  uint64_t *affected, struct dt_error *err)
{
    struct frame frame = {.session = session, .params = params.v, .err = err};
    struct selection selection = {0};
    uint64_t changed = 0;
    dt_status status;
    if (params.n != st->n_params)
        broken("%zu parameters for %u in: %s", params.n, st->n_params, st->text);
    if (st->kind == S_SELECT) {
        status =
            st->select.also ? run_union(&st->select, &frame, &selection) : run_select(&st->select, &frame, &selection);
        if (status == DT_OK && result) {
            const struct select *s = &st->select;
            result->columns = s->n_items;
            result->n = selection.n;
            result->cells = world_alloc(selection.n * s->n_items * sizeof *result->cells);
            for (size_t i = 0; i < selection.n; i++)
                memcpy(result->cells + i * s->n_items, selection.rows[i].items, s->n_items * sizeof *result->cells);
        }
    } else if (st->kind == S_INSERT)
        status = run_insert(&frame, st, &changed);
    else
        status = run_change(&frame, st, &changed);
    if (status == DT_OK)
        status = frame.status;
    if (affected)
        *affected = changed;
    return status;
}
