/* Text to trees. See sql.h. Owns the grammar and the resolving of names; knows no rows. */
#include <ctype.h>

#include "simulator/sql/sql.h"
#include "store/migrations.h"

__typeof__(malloc) __real_malloc;

void *sql_keep(size_t n)
{
    void *p = __real_malloc(n ? n : 1);
    if (!p)
        broken("out of memory");
    return memset(p, 0, n);
}

/* ---- words ---- */

enum token_type { T_END, T_WORD, T_NUMBER, T_STRING, T_MARK };
struct token {
    enum token_type type;
    const char *p;
    size_t n;
};

struct parser {
    const char *text, *at;
    struct token token;
    unsigned params;
};

static _Noreturn void cannot(const struct parser *p, const char *what)
{
    broken("SQL not understood (%s) at '%.40s' of: %s", what, p->token.p ? p->token.p : "", p->text);
}

static const char *skip_space(const char *p)
{
    for (;;) {
        while (isspace((unsigned char)*p))
            p++;
        if (p[0] == '/' && p[1] == '*') {
            p = strstr(p, "*/");
            p += 2;
        } else if (p[0] == '-' && p[1] == '-' && (p[2] == ' ' || p[2] == '\n')) {
            while (*p && *p != '\n')
                p++;
        } else
            return p;
    }
}

static void next(struct parser *p)
{
    const char *s = skip_space(p->at), *e = s;
    if (!*s)
        p->token = (struct token){T_END, s, 0};
    else if (isalpha((unsigned char)*s) || *s == '_') {
        while (isalnum((unsigned char)*e) || *e == '_')
            e++;
        p->token = (struct token){T_WORD, s, (size_t)(e - s)};
    } else if (isdigit((unsigned char)*s)) {
        while (isdigit((unsigned char)*e))
            e++;
        p->token = (struct token){T_NUMBER, s, (size_t)(e - s)};
    } else if (*s == '\'') {
        for (e = s + 1; *e && (*e != '\'' || e[1] == '\''); e++)
            e += *e == '\'';
        e++;
        p->token = (struct token){T_STRING, s, (size_t)(e - s)};
    } else {
        static const char *const marks[] = {"<=>", "<>", "<=", ">=", "!="};
        e = s + 1;
        for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
            if (strncmp(s, marks[i], strlen(marks[i])) == 0) {
                e = s + strlen(marks[i]);
                break;
            }
        p->token = (struct token){T_MARK, s, (size_t)(e - s)};
    }
    p->at = e;
}

static bool is(const struct parser *p, const char *word)
{
    return (p->token.type == T_WORD || p->token.type == T_MARK) && strlen(word) == p->token.n &&
           strncasecmp(p->token.p, word, p->token.n) == 0;
}

static bool take(struct parser *p, const char *word)
{
    if (!is(p, word))
        return false;
    next(p);
    return true;
}

static void need(struct parser *p, const char *word)
{
    if (!take(p, word))
        cannot(p, word);
}

static void take_name(struct parser *p, char out[32])
{
    if (p->token.type != T_WORD || p->token.n > 31)
        cannot(p, "a name");
    memcpy(out, p->token.p, p->token.n);
    out[p->token.n] = '\0';
    next(p);
}

static struct val take_string(struct parser *p)
{
    char *s = sql_keep(p->token.n);
    uint32_t n = 0;
    for (size_t i = 1; i + 1 < p->token.n; i++) {
        s[n++] = p->token.p[i];
        i += p->token.p[i] == '\'';
    }
    next(p);
    return (struct val){.t = V_STR, .p = s, .n = n};
}

static int64_t take_number(struct parser *p)
{
    if (p->token.type != T_NUMBER)
        cannot(p, "a number");
    int64_t n = strtoll(p->token.p, NULL, 10);
    next(p);
    return n;
}

/* ---- expressions ---- */

static struct expr *parse_expr(struct parser *p);
static struct select *parse_select(struct parser *p);

static void add_arg(struct expr *e, struct expr *arg)
{
    if (e->n == e->cap) {
        struct expr **args = sql_keep((e->cap ? e->cap * 2 : 2) * sizeof *args);
        if (e->n)
            memcpy(args, e->args, e->n * sizeof *args);
        e->cap = e->cap ? e->cap * 2 : 2;
        e->args = args;
    }
    e->args[e->n++] = arg;
}

static struct expr *make(enum expr_op op, struct expr *a, struct expr *b)
{
    struct expr *e = sql_keep(sizeof *e);
    e->op = op;
    if (a)
        add_arg(e, a);
    if (b)
        add_arg(e, b);
    return e;
}

static struct expr *literal(struct val v)
{
    struct expr *e = make(E_LIT, NULL, NULL);
    e->lit = v;
    return e;
}

static const struct {
    const char *name;
    enum expr_op op;
} functions[] = {
    {"COALESCE", E_COALESCE}, {"IF", E_IF},       {"NULLIF", E_NULLIF}, {"LEAST", E_LEAST},
    {"GREATEST", E_GREATEST}, {"INSTR", E_INSTR}, {"CONCAT", E_CONCAT}, {"LENGTH", E_LENGTH},
    {"LEFT", E_LEFT},         {"CRC32", E_CRC32}, {"UNHEX", E_UNHEX},   {"REPLACE", E_REPLACE},
    {"MAX", E_MAX},           {"MIN", E_MIN},     {"SUM", E_SUM},       {"SUBSTRING_INDEX", E_SUBSTRING_INDEX},
    {"SUBSTR", E_SUBSTR},
};

static struct expr *parse_call(struct parser *p, const char *name)
{
    struct expr *e;
    need(p, "(");
    if (strcasecmp(name, "NOW") == 0 || strcasecmp(name, "SYSDATE") == 0) {
        take_number(p);
        need(p, ")");
        return make(E_NOW, NULL, NULL);
    }
    if (strcasecmp(name, "LAST_INSERT_ID") == 0) {
        need(p, ")");
        return make(E_LAST_ID, NULL, NULL);
    }
    if (strcasecmp(name, "UNIX_TIMESTAMP") == 0) {
        e = parse_expr(p);
        need(p, ")");
        return e;
    }
    if (strcasecmp(name, "CAST") == 0) {
        e = parse_expr(p);
        need(p, "AS");
        next(p);
        need(p, ")");
        return e;
    }
    if (strcasecmp(name, "COUNT") == 0) {
        need(p, "*");
        need(p, ")");
        return make(E_COUNT, NULL, NULL);
    }
    if (strcasecmp(name, "VALUES") == 0) {
        e = make(E_VALUES, NULL, NULL);
        take_name(p, e->name);
        need(p, ")");
        return e;
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcasecmp(name, functions[i].name) == 0) {
            e = make(functions[i].op, NULL, NULL);
            do {
                add_arg(e, parse_expr(p));
            } while (take(p, ","));
            need(p, ")");
            return e;
        }
    cannot(p, "a function");
}

static struct expr *parse_primary(struct parser *p)
{
    struct expr *e;
    if (take(p, "(")) {
        if (is(p, "SELECT")) {
            e = make(E_SELECT, NULL, NULL);
            e->select = parse_select(p);
        } else
            e = parse_expr(p);
        need(p, ")");
        return e;
    }
    if (take(p, "?")) {
        e = make(E_PARAM, NULL, NULL);
        e->param = p->params++;
        return e;
    }
    if (take(p, "-")) {
        e = parse_primary(p);
        if (e->op == E_LIT)
            e->lit.i = -e->lit.i;
        return e->op == E_LIT ? e : make(E_NEG, e, NULL);
    }
    if (p->token.type == T_NUMBER)
        return literal((struct val){.t = V_INT, .i = take_number(p)});
    if (p->token.type == T_STRING)
        return literal(take_string(p));
    if (take(p, "NULL"))
        return literal((struct val){.t = V_NULL});
    if (take(p, "TRUE"))
        return literal((struct val){.t = V_INT, .i = 1});
    if (take(p, "FALSE"))
        return literal((struct val){.t = V_INT, .i = 0});
    if (take(p, "EXISTS")) {
        e = make(E_EXISTS, NULL, NULL);
        need(p, "(");
        e->select = parse_select(p);
        need(p, ")");
        return e;
    }
    char name[32];
    take_name(p, name);
    if (is(p, "("))
        return parse_call(p, name);
    e = make(E_COLUMN, NULL, NULL);
    memcpy(e->name, name, sizeof name);
    if (take(p, ".")) {
        memcpy(e->table, name, sizeof name);
        take_name(p, e->name);
    }
    return e;
}

static struct expr *parse_product(struct parser *p)
{
    struct expr *e = parse_primary(p);
    for (;;) {
        if (take(p, "*")) {
            struct expr *by = parse_primary(p);
            /* UNIX_TIMESTAMP(NOW(3))*1000: the time is in ms already */
            e = e->op == E_NOW && by->op == E_LIT && by->lit.i == 1000 ? e : make(E_MUL, e, by);
        } else if (take(p, "%") || take(p, "MOD"))
            e = make(E_MOD, e, parse_primary(p));
        else if (take(p, "DIV"))
            e = make(E_DIV, e, parse_primary(p));
        else
            return e;
    }
}

static struct expr *parse_sum(struct parser *p)
{
    struct expr *e = parse_product(p);
    for (;;) {
        if (take(p, "+"))
            e = make(E_ADD, e, parse_product(p));
        else if (take(p, "-"))
            e = make(E_SUB, e, parse_product(p));
        else
            return e;
    }
}

static struct expr *parse_in(struct parser *p, struct expr *left)
{
    struct expr *e = make(E_IN, left, NULL);
    need(p, "(");
    do {
        add_arg(e, parse_expr(p));
    } while (take(p, ","));
    need(p, ")");
    return e;
}

static struct expr *parse_comparison(struct parser *p)
{
    static const struct {
        const char *mark;
        enum expr_op op;
    } marks[] = {{"=", E_EQ},  {"<>", E_NE}, {"!=", E_NE}, {"<=>", E_SAME},
                 {"<=", E_LE}, {">=", E_GE}, {"<", E_LT},  {">", E_GT}};
    struct expr *e = parse_sum(p);
    for (;;) {
        bool found = false;
        for (size_t i = 0; !found && i < sizeof marks / sizeof marks[0]; i++)
            if (take(p, marks[i].mark)) {
                e = make(marks[i].op, e, parse_sum(p));
                found = true;
            }
        if (found)
            continue;
        if (take(p, "IS")) {
            bool negated = take(p, "NOT");
            need(p, "NULL");
            e = make(E_IS_NULL, e, NULL);
            if (negated)
                e = make(E_NOT, e, NULL);
        } else if (take(p, "REGEXP"))
            e = make(E_REGEXP, e, parse_primary(p));
        else if (take(p, "IN"))
            e = parse_in(p, e);
        else if (take(p, "NOT")) {
            need(p, "IN");
            e = make(E_NOT, parse_in(p, e), NULL);
        } else
            return e;
    }
}

static struct expr *parse_not(struct parser *p)
{
    return take(p, "NOT") ? make(E_NOT, parse_not(p), NULL) : parse_comparison(p);
}

static struct expr *parse_and(struct parser *p)
{
    struct expr *e = parse_not(p);
    while (take(p, "AND"))
        e = make(E_AND, e, parse_not(p));
    return e;
}

static struct expr *parse_expr(struct parser *p)
{
    struct expr *e = parse_and(p);
    while (take(p, "OR"))
        e = make(E_OR, e, parse_and(p));
    return e;
}

/* ---- names ---- */

/* What a name may mean: the sources of the statement at hand, then of those around it. */
struct scope {
    const struct select *select;
    const struct scope *outer;
};

static bool find_in_source(const struct source *s, struct expr *e)
{
    if (e->table[0] && strcasecmp(e->table, s->alias) != 0)
        return false;
    for (unsigned i = 0; i < s->n_cells; i++)
        if (strcasecmp(s->cells[i].name, e->name) == 0) {
            e->column = i;
            return true;
        }
    int column = s->table ? sql_column(s->table, e->name) : -1;
    e->column = (unsigned)column;
    return column >= 0;
}

static bool find_name(const struct scope *scope, struct expr *e)
{
    for (unsigned up = 0; scope; up++, scope = scope->outer)
        for (unsigned i = 0; i < scope->select->n_sources; i++)
            if (find_in_source(&scope->select->sources[i], e)) {
                e->up = up;
                e->source = i;
                return true;
            }
    return false;
}

static void resolve_select(const struct parser *p, struct select *s, const struct scope *outer);

static void resolve(const struct parser *p, struct expr *e, const struct scope *scope, const struct table_def *target)
{
    if (!e || e->resolved)
        return;
    e->resolved = true;
    if (e->op == E_COLUMN && !find_name(scope, e))
        broken("SQL names '%s.%s', which there is not, in: %s", e->table, e->name, p->text);
    if (e->op == E_VALUES) {
        int column = sql_column(target, e->name);
        if (column < 0)
            broken("SQL: VALUES(%s) in: %s", e->name, p->text);
        e->column = (unsigned)column;
    }
    for (unsigned i = 0; i < e->n; i++)
        resolve(p, e->args[i], scope, target);
    if (e->select)
        resolve_select(p, e->select, scope);
}

static bool reads_only_before(const struct expr *e, unsigned source)
{
    if (e->op == E_COLUMN && e->up == 0 && e->source >= source)
        return false;
    if (e->select)
        return false;
    for (unsigned i = 0; i < e->n; i++)
        if (!reads_only_before(e->args[i], source))
            return false;
    return true;
}

static bool is_key(const struct expr *e, const struct source *s, unsigned number)
{
    return e->op == E_COLUMN && e->up == 0 && e->source == number && s->table->n_keys && e->column == s->table->keys[0];
}

static bool lists_keys(const struct expr *e, const struct source *s, unsigned number)
{
    bool constant = e->op == E_IN && is_key(e->args[0], s, number);
    for (unsigned i = 1; constant && i < e->n; i++)
        constant = reads_only_before(e->args[i], number);
    return constant;
}

/* Looks among AND-ed conditions for one that gives the first column of the primary key, or lists its values. */
static struct expr *find_key(struct expr *e, const struct source *s, unsigned number)
{
    struct expr *found = NULL;
    if (!e || !s->table)
        return NULL;
    if (e->op == E_AND) {
        found = find_key(e->args[0], s, number);
        return found ? found : find_key(e->args[1], s, number);
    }
    if (lists_keys(e, s, number))
        return e;
    if (e->op != E_EQ)
        return NULL;
    if (is_key(e->args[0], s, number) && reads_only_before(e->args[1], number))
        return e->args[1];
    if (is_key(e->args[1], s, number) && reads_only_before(e->args[0], number))
        return e->args[0];
    return NULL;
}

static void resolve_select(const struct parser *p, struct select *s, const struct scope *outer)
{
    const struct scope scope = {s, outer};
    for (unsigned i = 0; i < s->n_sources; i++) {
        if (s->sources[i].derived)
            resolve_select(p, s->sources[i].derived, outer);
        resolve(p, s->sources[i].json, &scope, NULL);
        resolve(p, s->sources[i].on, &scope, NULL);
    }
    for (unsigned i = 0; i < s->n_items; i++) {
        resolve(p, s->items[i], &scope, NULL);
        const enum expr_op op = s->items[i]->op;
        s->counts |= op == E_COUNT || op == E_SUM || op == E_MAX || op == E_MIN;
    }
    resolve(p, s->where, &scope, NULL);
    if (s->group && s->group->op == E_COLUMN)
        for (unsigned i = 0; i < s->n_items; i++)
            if (strcasecmp(s->item_names[i], s->group->name) == 0)
                s->group = s->items[i];
    resolve(p, s->group, &scope, NULL);
    for (unsigned i = 0; i < s->n_order; i++)
        resolve(p, s->order[i], &scope, NULL);
    resolve(p, s->limit, &scope, NULL);
    resolve(p, s->offset, &scope, NULL);
    resolve(p, s->all_limit, &scope, NULL);
    if (s->also)
        resolve_select(p, s->also, outer);
    for (unsigned i = 0; i < s->n_sources; i++) {
        struct source *of = &s->sources[i];
        of->key = find_key(of->on, of, i);
        if (!of->key && !of->left)
            of->key = find_key(s->where, of, i);
    }
}

/* ---- FROM ---- */

static void parse_json_table(struct parser *p, struct source *s)
{
    need(p, "(");
    s->json = parse_expr(p);
    need(p, ",");
    struct val path = take_string(p);
    if (path.n != 4 || memcmp(path.p, "$[*]", 4) != 0)
        cannot(p, "the path $[*]");
    need(p, "COLUMNS");
    need(p, "(");
    do {
        if (s->n_cells == 20)
            cannot(p, "fewer columns");
        char type[32];
        take_name(p, s->cells[s->n_cells].name);
        take_name(p, type);
        s->cells[s->n_cells].is_int = strcasestr(type, "INT") != NULL;
        if (take(p, "(")) {
            take_number(p);
            need(p, ")");
        }
        if (take(p, "CHARACTER")) {
            need(p, "SET");
            next(p);
        }
        need(p, "PATH");
        path = take_string(p);
        s->cells[s->n_cells++].index = path.n > 1 ? atoi(path.p + 2) : -1;
    } while (take(p, ","));
    need(p, ")");
    need(p, ")");
}

static bool is_clause(const struct parser *p)
{
    static const char *const words[] = {"WHERE", "ON",    "STRAIGHT_JOIN", "JOIN",  "LEFT", "SET",   "ORDER", "LIMIT",
                                        "FOR",   "FORCE", "GROUP",         "UNION", "LOCK", "INNER", "AS"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (is(p, words[i]))
            return true;
    return false;
}

/* Its columns have the names of what it selects. */
static void parse_derived(struct parser *p, struct source *s)
{
    s->derived = parse_select(p);
    need(p, ")");
    for (unsigned i = 0; i < s->derived->n_items; i++) {
        const struct expr *item = s->derived->items[i];
        if (i == sizeof s->cells / sizeof *s->cells)
            cannot(p, "fewer columns of a SELECT in FROM");
        memcpy(s->cells[i].name, s->derived->item_names[i], sizeof s->cells[i].name);
        if (!s->cells[i].name[0] && item->op == E_COLUMN)
            memcpy(s->cells[i].name, item->name, sizeof s->cells[i].name);
        s->n_cells++;
    }
}

static void parse_source(struct parser *p, struct select *s, bool left)
{
    if (s->n_sources == SOURCES_MAX)
        cannot(p, "fewer tables");
    struct source *of = &s->sources[s->n_sources++];
    of->left = left;
    if (take(p, "JSON_TABLE"))
        parse_json_table(p, of);
    else if (take(p, "("))
        parse_derived(p, of);
    else {
        char name[32];
        take_name(p, name);
        of->table = sql_table(name);
        if (!of->table)
            broken("SQL: no table %s: %s", name, p->text);
        memcpy(of->alias, name, sizeof name);
    }
    take(p, "AS");
    if (p->token.type == T_WORD && !is_clause(p))
        take_name(p, of->alias);
    if (take(p, "FORCE")) {
        need(p, "INDEX");
        need(p, "(");
        next(p);
        need(p, ")");
    }
    if (take(p, "ON"))
        of->on = parse_expr(p);
}

static void parse_from(struct parser *p, struct select *s)
{
    parse_source(p, s, false);
    for (;;) {
        bool left = take(p, "LEFT");
        if (!take(p, "STRAIGHT_JOIN") && !take(p, "JOIN"))
            return;
        parse_source(p, s, left);
    }
}

static void parse_tail(struct parser *p, struct select *s)
{
    if (take(p, "WHERE"))
        s->where = parse_expr(p);
    if (take(p, "GROUP")) {
        need(p, "BY");
        s->group = parse_expr(p);
        s->grouped = true;
    }
    if (take(p, "ORDER")) {
        need(p, "BY");
        do {
            if (s->n_order == 4)
                cannot(p, "fewer columns to sort by");
            s->order[s->n_order] = parse_expr(p);
            s->descending[s->n_order++] = take(p, "DESC");
            take(p, "ASC");
        } while (take(p, ","));
    }
    if (take(p, "LIMIT"))
        s->limit = parse_expr(p);
    if (s->limit && take(p, "OFFSET"))
        s->offset = parse_expr(p);
    if (take(p, "FOR")) {
        need(p, "UPDATE");
        s->lock = true;
        if (take(p, "SKIP")) {
            need(p, "LOCKED");
            s->skip_locked = true;
        }
    } else if (take(p, "LOCK")) {
        need(p, "IN");
        need(p, "SHARE");
        need(p, "MODE");
        s->lock = true;
    }
}

static void parse_select_into(struct parser *p, struct select *s)
{
    need(p, "SELECT");
    take(p, "DISTINCT"); /* rows come more than once: who asks so wants each, and does no harm twice */
    do {
        if (s->n_items == COLUMNS_MAX)
            cannot(p, "fewer columns");
        s->items[s->n_items] = parse_expr(p);
        if (take(p, "AS"))
            take_name(p, s->item_names[s->n_items]);
        s->n_items++;
    } while (take(p, ","));
    if (take(p, "FROM"))
        parse_from(p, s);
    parse_tail(p, s);
}

static struct select *parse_select(struct parser *p)
{
    struct select *s = sql_keep(sizeof *s);
    parse_select_into(p, s);
    return s;
}

/* (SELECT …) UNION ALL (SELECT …) ORDER BY 1, 2 LIMIT n: each stands in parentheses. */
static void parse_union(struct parser *p, struct select *first)
{
    need(p, "(");
    parse_select_into(p, first);
    need(p, ")");
    for (struct select *last = first; take(p, "UNION"); last = last->also) {
        need(p, "ALL");
        need(p, "(");
        last->also = parse_select(p);
        need(p, ")");
    }
    if (take(p, "ORDER")) {
        need(p, "BY");
        do {
            if (first->n_by == 4)
                cannot(p, "fewer columns to sort by");
            first->by[first->n_by++] = (unsigned)take_number(p) - 1;
        } while (take(p, ","));
    }
    if (take(p, "LIMIT"))
        first->all_limit = parse_expr(p);
}

/* ---- changes ---- */

static unsigned need_column(const struct parser *p, const struct table_def *table, const char *name)
{
    int column = sql_column(table, name);
    if (column < 0)
        broken("SQL: %s has no column %s: %s", table->name, name, p->text);
    return (unsigned)column;
}

static void parse_assignments(struct parser *p, struct stmt *st)
{
    do {
        char name[32], second[32];
        take_name(p, name);
        if (take(p, ".")) {
            take_name(p, second);
            memcpy(name, second, sizeof name);
        }
        need(p, "=");
        st->set[st->n_set++] = (struct assignment){need_column(p, st->table, name), parse_expr(p)};
    } while (take(p, ","));
}

static void parse_update(struct parser *p, struct stmt *st)
{
    st->kind = S_UPDATE;
    parse_from(p, &st->select);
    st->target = st->select.n_sources - 1; /* the only table beside JSON_TABLEs, and the last */
    st->table = st->select.sources[st->target].table;
    need(p, "SET");
    parse_assignments(p, st);
    parse_tail(p, &st->select);
    st->select.lock = true;
    resolve_select(p, &st->select, NULL);
    const struct scope scope = {&st->select, NULL};
    for (unsigned i = 0; i < st->n_set; i++)
        resolve(p, st->set[i].value, &scope, st->table);
}

static void parse_delete(struct parser *p, struct stmt *st)
{
    char alias[32] = "";
    st->kind = S_DELETE;
    if (!is(p, "FROM"))
        take_name(p, alias);
    need(p, "FROM");
    parse_from(p, &st->select);
    parse_tail(p, &st->select);
    st->select.lock = true;
    for (unsigned i = 0; i < st->select.n_sources; i++)
        if (!alias[0] || strcasecmp(st->select.sources[i].alias, alias) == 0)
            st->target = i;
    st->table = st->select.sources[st->target].table;
    resolve_select(p, &st->select, NULL);
}

static void parse_insert(struct parser *p, struct stmt *st)
{
    char name[32];
    st->kind = S_INSERT;
    st->ignore = take(p, "IGNORE");
    need(p, "INTO");
    take_name(p, name);
    st->table = sql_table(name);
    if (!st->table)
        broken("SQL: no table %s: %s", name, p->text);
    need(p, "(");
    do {
        take_name(p, name);
        st->columns[st->n_columns++] = need_column(p, st->table, name);
    } while (take(p, ","));
    need(p, ")");
    if (take(p, "VALUES")) {
        unsigned n = 0;
        need(p, "(");
        do
            st->values[n++] = parse_expr(p);
        while (take(p, ","));
        need(p, ")");
        if (n != st->n_columns)
            cannot(p, "as many values as columns");
    } else {
        st->from_select = true;
        parse_select_into(p, &st->select);
        resolve_select(p, &st->select, NULL);
    }
    if (take(p, "ON")) {
        need(p, "DUPLICATE");
        need(p, "KEY");
        need(p, "UPDATE");
        st->on_duplicate = true;
        parse_assignments(p, st);
    }
    /* In what follows ON DUPLICATE KEY UPDATE names are those of the row that is there. */
    struct select *own = sql_keep(sizeof *own);
    own->n_sources = 1;
    own->sources[0].table = st->table;
    memcpy(own->sources[0].alias, st->table->name, 32);
    const struct scope scope = {own, NULL};
    for (unsigned i = 0; i < st->n_set; i++)
        resolve(p, st->set[i].value, &scope, st->table);
    for (unsigned i = 0; !st->from_select && i < st->n_columns; i++)
        resolve(p, st->values[i], &scope, st->table);
}

static struct stmt *parse_statement(const char *text)
{
    struct parser p = {.text = text, .at = text};
    struct stmt *st = sql_keep(sizeof *st);
    st->text = text;
    next(&p);
    if (is(&p, "SELECT")) {
        parse_select_into(&p, &st->select);
        resolve_select(&p, &st->select, NULL);
    } else if (is(&p, "(")) {
        parse_union(&p, &st->select);
        resolve_select(&p, &st->select, NULL);
    } else if (take(&p, "UPDATE"))
        parse_update(&p, st);
    else if (take(&p, "INSERT"))
        parse_insert(&p, st);
    else if (take(&p, "DELETE"))
        parse_delete(&p, st);
    else
        cannot(&p, "a statement");
    if (p.token.type != T_END)
        cannot(&p, "the end");
    st->n_params = p.params;
    return st;
}

/* ---- tables, from the migrations ---- */

static struct table_def defs[64];
static unsigned defs_n;

unsigned sql_tables(void)
{
    return defs_n;
}

const struct table_def *sql_table_at(unsigned i)
{
    return &defs[i];
}

int sql_column(const struct table_def *table, const char *name)
{
    for (unsigned i = 0; i < table->n_columns; i++)
        if (strcasecmp(table->columns[i].name, name) == 0)
            return (int)i;
    return -1;
}

static void skip_parentheses(struct parser *p)
{
    unsigned depth = 0;
    do {
        depth += is(p, "(");
        depth -= is(p, ")");
        next(p);
    } while (depth && p->token.type != T_END);
}

static const char *const *parse_words(struct parser *p)
{
    const char **words = sql_keep(16 * sizeof *words);
    unsigned n = 1; /* 1-based, as in SQL */
    need(p, "(");
    do {
        struct val v = take_string(p);
        char *word = sql_keep(v.n + 1);
        memcpy(word, v.p, v.n);
        words[n++] = word;
    } while (take(p, ","));
    need(p, ")");
    return words;
}

static void resolve_in_table(struct parser *p, struct expr *e, const struct table_def *def)
{
    struct select *own = sql_keep(sizeof *own);
    own->n_sources = 1;
    own->sources[0].table = def;
    memcpy(own->sources[0].alias, def->name, 32);
    const struct scope scope = {own, NULL};
    resolve(p, e, &scope, NULL);
}

static void parse_column(struct parser *p, struct table_def *def)
{
    if (def->n_columns == COLUMNS_MAX)
        cannot(p, "fewer columns");
    struct column *c = &def->columns[def->n_columns++];
    *c = (struct column){0}; /* a column that was modified was read here before */
    char type[32];
    take_name(p, c->name);
    take_name(p, type);
    if (strcasecmp(type, "ENUM") == 0)
        c->words = parse_words(p);
    else if (is(p, "("))
        skip_parentheses(p);
    c->is_int = strcasestr(type, "INT") != NULL || strcasecmp(type, "BOOLEAN") == 0;
    c->is_text = !c->is_int && !c->words;
    while (p->token.type != T_END && !is(p, ",") && !is(p, ")")) {
        if (take(p, "NOT")) {
            need(p, "NULL");
            c->not_null = true;
        } else if (take(p, "DEFAULT")) {
            c->has_default = !is(p, "(");
            if (c->has_default)
                c->initial = parse_primary(p)->lit;
            else
                skip_parentheses(p); /* an expression: no world leaves out such a column */
        } else if (take(p, "AS"))
            c->generated = parse_primary(p);
        else if (take(p, "AUTO_INCREMENT"))
            c->auto_increment = true;
        else if (take(p, "PRIMARY"))
            def->keys[def->n_keys++] = def->n_columns - 1;
        else if (take(p, "CHECK"))
            def->checks[def->n_checks++] = parse_primary(p);
        else
            next(p); /* NULL, KEY, STORED, COMMENT '…', CHARACTER SET … */
    }
}

static void parse_table_item(struct parser *p, struct table_def *def)
{
    if (take(p, "PRIMARY")) {
        need(p, "KEY");
        need(p, "(");
        do {
            char name[32];
            take_name(p, name);
            if (def->n_keys == KEYS_MAX)
                cannot(p, "a shorter primary key");
            def->keys[def->n_keys++] = need_column(p, def, name);
        } while (take(p, ","));
        need(p, ")");
    } else if (is(p, "CONSTRAINT") || is(p, "CHECK")) {
        if (take(p, "CONSTRAINT"))
            next(p); /* its name */
        need(p, "CHECK");
        def->checks[def->n_checks++] = parse_primary(p);
    } else if (take(p, "KEY") || take(p, "INDEX") || take(p, "UNIQUE")) {
        while (!is(p, "("))
            next(p);
        skip_parentheses(p);
    } else
        parse_column(p, def);
}

static void parse_create_table(struct parser *p)
{
    if (defs_n == sizeof defs / sizeof defs[0])
        cannot(p, "fewer tables");
    struct table_def *def = &defs[defs_n];
    take(p, "IF");
    take(p, "NOT");
    take(p, "EXISTS");
    take_name(p, def->name);
    def->number = defs_n++;
    need(p, "(");
    do
        parse_table_item(p, def);
    while (take(p, ","));
    need(p, ")");
    for (unsigned i = 0; i < def->n_columns; i++)
        if (def->columns[i].generated)
            resolve_in_table(p, def->columns[i].generated, def);
    for (unsigned i = 0; i < def->n_checks; i++)
        resolve_in_table(p, def->checks[i], def);
}

static void read_migrations(void)
{
    for (int i = 0; i < dt_migrations_n; i++) {
        struct dt_sql_split split = {dt_migrations[i].sql, ";"};
        for (struct dt_str text; (text = dt_sql_split_next(&split)).p;) {
            char *copy = sql_keep(text.n + 1);
            memcpy(copy, text.p, text.n);
            struct parser p = {.text = copy, .at = copy};
            next(&p);
            if (take(&p, "CREATE") && take(&p, "TABLE"))
                parse_create_table(&p);
            else if (take(&p, "ALTER"))
                cannot(&p, "a baseline without ALTER");
        }
    }
}

const struct table_def *sql_table(const char *name)
{
    if (!defs_n)
        read_migrations();
    for (unsigned i = 0; i < defs_n; i++)
        if (strcasecmp(defs[i].name, name) == 0)
            return &defs[i];
    return NULL;
}

/* ---- compiled once ---- */

#define CACHE 8192 /* texts of one run; never full */

const struct stmt *sql_compile(const char *text)
{
    static struct {
        const char *text;
        const struct stmt *stmt;
    } cache[CACHE];
    static size_t used;
    size_t i = ((uintptr_t)text >> 3) % CACHE;
    while (cache[i].text && cache[i].text != text)
        i = (i + 1) % CACHE;
    if (!cache[i].text) {
        sql_table("");
        if (++used == CACHE)
            abort();
        cache[i].text = text;
        cache[i].stmt = parse_statement(text);
    }
    return cache[i].stmt;
}
