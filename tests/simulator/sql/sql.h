/*
 * A small SQL engine: what the store's statements need, and nothing more. A statement that it does not understand ends
 * the program with its text, so that nothing is ever half understood.
 *
 * Tables come from the migrations that are compiled into the product: columns, defaults, generated columns, primary
 * keys, checks. Statements are compiled once a program and text; rows live as long as the world. Because conditions are
 * evaluated as they stand in the text, a condition that is taken out of the product's SQL is out here, too.
 *
 * What is like InnoDB under READ COMMITTED: plain reads see what is committed now and the transaction's own changes;
 * locking reads and changes lock rows as they are met, look at them again once they are locked, and let those go that
 * do not match; locks last until the transaction ends; an UPDATE passes by a locked row whose committed values do not
 * match.
 */
#pragma once

#include "base/status.h"
#include "base/text/strbuf.h"
#include "mysql/db.h"
#include "simulator/world.h"

enum val_type { V_NULL, V_INT, V_STR, V_ENUM };

struct val {
    enum val_type t;
    uint32_t n;               /* V_STR: bytes */
    int64_t i;                /* V_INT; V_ENUM: 1-based */
    const char *p;            /* V_STR */
    const char *const *words; /* V_ENUM */
};

#define COLUMNS_MAX 48
#define SOURCES_MAX 4
#define KEYS_MAX    4

struct expr;
struct column {
    char name[32];
    bool is_int, is_text, not_null, auto_increment, has_default;
    const char *const *words; /* ENUM */
    struct val initial;
    struct expr *generated;
};

struct table_def {
    char name[32];
    struct column columns[COLUMNS_MAX];
    unsigned n_columns;
    unsigned keys[KEYS_MAX], n_keys;
    struct expr *checks[8];
    unsigned n_checks;
    unsigned number;
};

enum expr_op {
    E_LIT,
    E_PARAM,
    E_COLUMN,
    E_OR,
    E_AND,
    E_NOT,
    E_EQ,
    E_NE,
    E_LT,
    E_LE,
    E_GT,
    E_GE,
    E_SAME,
    E_IS_NULL,
    E_IN,
    E_ADD,
    E_SUB,
    E_MUL,
    E_MOD,
    E_DIV,
    E_NEG,
    E_NOW,
    E_SELECT,
    E_EXISTS,
    E_COUNT,
    E_VALUES,
    E_COALESCE,
    E_IF,
    E_NULLIF,
    E_LEAST,
    E_GREATEST,
    E_INSTR,
    E_CONCAT,
    E_LENGTH,
    E_LEFT,
    E_CRC32,
    E_UNHEX,
    E_REPLACE,
    E_MAX,
    E_MIN,
    E_SUM,
    E_REGEXP,
    E_LAST_ID,
    E_SUBSTRING_INDEX,
    E_SUBSTR
};

struct select;
struct expr {
    enum expr_op op;
    struct val lit;
    unsigned param;
    char table[32], name[32]; /* E_COLUMN, until resolved */
    bool resolved;
    unsigned up, source, column;
    struct expr **args;
    unsigned n, cap;
    struct select *select;
};

struct source {
    char alias[32];
    const struct table_def *table; /* NULL: JSON_TABLE, or a SELECT in FROM */
    struct expr *json;
    struct select *derived;
    struct {
        char name[32];
        int index; /* -1: the element itself */
        bool is_int;
    } cells[20];
    unsigned n_cells;
    bool left;
    struct expr *on;
    struct expr
        *key; /* what the first column of the primary key equals, or the E_IN that lists it; NULL: nothing says so */
};

struct select {
    struct expr *items[COLUMNS_MAX];
    char item_names[COLUMNS_MAX][32];
    unsigned n_items;
    struct source sources[SOURCES_MAX];
    unsigned n_sources;
    struct expr *where, *order[4], *limit, *offset;
    bool descending[4];
    unsigned n_order;
    bool lock, skip_locked, counts, grouped; /* counts: there is a COUNT or a SUM */
    struct expr *group;
    struct select *also;    /* (SELECT …) UNION ALL (SELECT …): the next one, of the first one … */
    unsigned by[4], n_by;   /* … whose places all are sorted by … */
    struct expr *all_limit; /* … and of which so many are told */
};

struct assignment {
    unsigned column;
    struct expr *value;
};

struct stmt {
    enum { S_SELECT, S_UPDATE, S_INSERT, S_DELETE } kind;
    struct select select;          /* also what UPDATE and DELETE go through, and INSERT reads */
    const struct table_def *table; /* that is changed */
    unsigned target;               /* its source */
    struct assignment set[COLUMNS_MAX];
    unsigned n_set;
    unsigned columns[COLUMNS_MAX], n_columns; /* INSERT */
    struct expr *values[COLUMNS_MAX];
    bool from_select, on_duplicate, ignore; /* ignore: a row that is there stays, and nobody hears of it */
    unsigned n_params;
    const char *text;
};

/* ---- sql_parse.c ---- */
const struct stmt *sql_compile(const char *text); /* cached by address */
const struct table_def *sql_table(const char *name);
unsigned sql_tables(void);
const struct table_def *sql_table_at(unsigned i);
int sql_column(const struct table_def *table, const char *name);
void *sql_keep(size_t n); /* zeroed memory for ever */

/* ---- sql_run.c ---- */
struct session;
struct row {
    struct val *current, *committed; /* NULL: deleted; not there yet. The same while nobody has changed it */
    struct val *deleted;             /* where it stands while the transaction that inserted and deleted it is open */
    struct session *owner;
    struct table *table;
    bool gone;
};
struct table {
    const struct table_def *def;
    struct row **rows; /* by primary key */
    size_t n, cap;
    int64_t next_auto;
};

struct table *table_named(const char *name);
void tables_begin(void); /* empty ones, for a new world */
/* Committed values of a table, and putting them back: what a copy of the data folder is. */
struct copy;
struct copy *tables_copy(void);
void tables_restore(const struct copy *copy);

struct session {
    bool open, in_transaction;
    struct row **locked;
    size_t n_locked, cap_locked;
    struct row *waits_for;
    struct fiber *waiter;
    bool killed_while_waiting;
    int64_t used_us;
    unsigned number;
    struct proc *proc;
    bool commit_later;
    int64_t last_id; /* of an AUTO_INCREMENT */
};
void session_end_transaction(struct session *session, bool commit);

struct result {
    struct val *cells;
    size_t n, cap;
    unsigned columns;
};
/* In the session's transaction. Waits for locks; BUSY, EXISTS, INVALID, UNAVAILABLE as in db.h. */
dt_status sql_run(struct session *session, const struct stmt *stmt, struct dt_params params, struct result *result,
                  uint64_t *affected, struct dt_error *err);
/* For the oracles: a cell of a committed row. */
struct row *table_find(struct table *table, int64_t key);
int64_t cell_int(const struct row *row, const char *column);
bool cell_null(const struct row *row, const char *column);
struct dt_str cell_text(const struct row *row, const char *column); /* of texts and ENUMs */

/* ---- mysql.c: who waits for whom ---- */
dt_status session_wait(struct session *session, struct row *row, struct dt_error *err);
