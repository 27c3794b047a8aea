/* The columns of each kind of answer, their widths, and the text of a cell. */
#include "show.h"

#include "base/assert.h"
#include "base/service.h"
#include "base/text/encoding.h"
#include "base/text/json_write.h"
#include "base/text/timetext.h"

#define COLUMNS_MAX  16
#define KEPT         9    /* worth of a column that is always shown */
#define TOLERATED_MS 2000 /* the API's clock is known to the second, and an answer takes time */
#define BOLD         "\033[1m"
#define PLAIN        "\033[0m"
#define CLEAR        "\033[H\033[2J"

/* What a cell shows, and how it is shortened if the table is wider than the terminal. */
enum kind {
    WHOLE, /* never shortened: an id, a number, a word */
    TEXT,  /* cut after at least `least` characters */
    TIME,  /* without milliseconds, then without seconds, but always with its date and its hour */
    MS,    /* milliseconds, shown as a duration */
    LATE   /* how late a scheduled job is: computed */
};

struct column {
    const char *title;
    const char *member; /* "last_error.code"; "cron|every": the first member that is set; "": the whole value */
    unsigned worth;     /* columns that are worth more come first if not all fit; 0: only with --output wide */
    enum kind kind;
    size_t least;
};

/* clang-format off */
/* The columns for each kind of thing; the first one identifies it. A column without a title ends a list of columns. */
static const struct column columns_of[DT_CLI_THINGS][COLUMNS_MAX + 1] = {
    [DT_CLI_JOB] = {
        {"ID", "id", KEPT, WHOLE, 0}, {"TOPIC", "topic", 6, TEXT, 8}, {"KEY", "key", 7, TEXT, 8},
        {"STATE", "state", 8, WHOLE, 0}, {"NEXT AT", "next_at", 7, TIME, 0}, {"LATE BY", "next_at", 8, LATE, 0},
        {"ATTEMPT", "attempt", 3, WHOLE, 0}, {"OF", "max_attempts", 0, WHOLE, 0},
        {"WAITING FOR", "waiting_for", 5, WHOLE, 0}, {"ERROR", "last_error.code", 4, TEXT, 8},
        {"RUN AT", "run_at", 0, TIME, 0}, {"FAILURES", "failures", 0, WHOLE, 0}, {"CREATED AT", "created_at", 0, TIME, 0},
        {"FINISHED AT", "finished_at", 0, TIME, 0}, {"MESSAGE", "last_error.message", 0, TEXT, 16}},
    [DT_CLI_ATTEMPT] = {
        {"ATTEMPT", "attempt", KEPT, WHOLE, 0}, {"STATUS", "status", 8, WHOLE, 0},
        {"DISPATCHED AT", "dispatched_at", 6, TIME, 0}, {"LATE BY", "lateness_ms", 5, MS, 0},
        {"FINISHED AT", "finished_at", 4, TIME, 0}, {"ERROR", "error.code", 7, TEXT, 8},
        {"MESSAGE", "error.message", 3, TEXT, 16}, {"DUE AT", "due_at", 0, TIME, 0}, {"HTTP", "http_status", 0, WHOLE, 0},
        {"TOOK", "duration_ms", 0, MS, 0}},
    [DT_CLI_TOPIC] = {
        {"NAME", "name", KEPT, TEXT, 12}, {"DELIVERY", "delivery", 8, WHOLE, 0}, {"PAUSED", "paused", 7, WHOLE, 0},
        {"IN FLIGHT", "max_in_flight", 6, WHOLE, 0}, {"RATE", "rate_limit", 5, WHOLE, 0},
        {"ACK TIMEOUT", "effective.ack_timeout", 4, WHOLE, 0}, {"RETENTION", "effective.retention", 3, WHOLE, 0},
        {"KAFKA TOPIC", "effective.kafka_topic", 0, TEXT, 12}, {"CALLBACK URL", "callback_url", 0, TEXT, 16},
        {"RETRY", "effective.retry", 0, TEXT, 16}, {"UPDATED AT", "updated_at", 0, TIME, 0}},
    [DT_CLI_TRAFFIC] = {
        {"TOPIC", "topic", KEPT, TEXT, 12}, {"PAUSED", "paused", 4, WHOLE, 0}, {"OVERDUE", "overdue", 8, WHOLE, 0},
        {"OLDEST", "oldest_overdue_ms", 7, MS, 0}, {"SCHEDULED", "scheduled", 2, WHOLE, 0},
        {"DISPATCHED", "dispatched", 2, WHOLE, 0}, {"DEAD", "dead", 5, WHOLE, 0}, {"CREATED/S", "rates.created", 3, WHOLE, 0},
        {"SENT/S", "rates.dispatched", 3, WHOLE, 0}, {"FAILED/S", "rates.failed", 6, WHOLE, 0}},
    [DT_CLI_SCHEDULE] = {
        {"NAME", "name", KEPT, TEXT, 12}, {"TOPIC", "topic", 5, TEXT, 8}, {"FIRES", "cron|every", 6, TEXT, 10},
        {"ZONE", "time_zone", 3, TEXT, 8}, {"NEXT AT", "next_at", 8, TIME, 0}, {"PAUSED", "paused", 7, WHOLE, 0},
        {"ERROR", "last_error.message", 4, TEXT, 12}, {"LAST JOB", "last_job_id", 0, WHOLE, 0},
        {"OVERLAP", "overlap", 0, WHOLE, 0}, {"CATCH UP", "catch_up", 0, WHOLE, 0}, {"JITTER", "jitter", 0, WHOLE, 0}},
    [DT_CLI_FIRE] = {
        {"NEXT", "", KEPT, TIME, 0}},
    [DT_CLI_SHARD] = {
        {"SHARD", "shard", KEPT, WHOLE, 0}, {"LEADER", "leader", 8, TEXT, 8}, {"EPOCH", "epoch", 2, WHOLE, 0},
        {"IN FLIGHT", "in_flight", 3, WHOLE, 0}, {"OVERDUE", "overdue", 7, WHOLE, 0}, {"OLDEST", "oldest_overdue_ms", 6, MS, 0},
        {"WAITING FOR", "waiting_for", 5, WHOLE, 0}, {"HALTED", "halted", 7, TEXT, 8}, {"DETAIL", "detail", 0, TEXT, 16},
        {"INDEX WHOLE", "index_whole", 0, WHOLE, 0}, {"MISSING", "drift.missing", 0, WHOLE, 0},
        {"EXTRA", "drift.extra", 0, WHOLE, 0}, {"WRONG", "drift.wrong", 0, WHOLE, 0}, {"SEEN AT", "seen_at", 0, TIME, 0}},
    [DT_CLI_PROCESS] = {
        {"NAME", "name", KEPT, TEXT, 12}, {"KIND", "kind", 8, WHOLE, 0}, {"LEADS", "leads", 7, TEXT, 5},
        {"WAITS FOR", "waits_for", 6, TEXT, 9}, {"SEEN AGO", "seen_ms_ago", 4, MS, 0},
        {"STARTED AT", "started_at", 5, TIME, 0}, {"VERSION", "version", 3, WHOLE, 0}},
    [DT_CLI_OPERATION] = {
        {"ID", "id", KEPT, WHOLE, 0}, {"KIND", "kind", 8, WHOLE, 0}, {"STATE", "state", 8, WHOLE, 0},
        {"TOPIC", "filter.topic", 4, TEXT, 8}, {"MATCHED", "matched", 5, WHOLE, 0}, {"CHANGED", "changed", 7, WHOLE, 0},
        {"REFUSED", "refused", 6, WHOLE, 0}, {"STARTED AT", "started_at", 6, TIME, 0},
        {"FINISHED AT", "finished_at", 3, TIME, 0}, {"FILTER", "filter", 0, TEXT, 16}, {"ERROR", "error", 0, TEXT, 16}},
    [DT_CLI_SPIKE] = {
        {"FROM", "from", KEPT, TIME, 0}, {"DUE", "due", 8, WHOLE, 0}, {"DRAINS", "drains", 7, WHOLE, 0},
        {"TAKES", "takes", 7, WHOLE, 0}},
    [DT_CLI_ALERT] = {
        {"ID", "id", KEPT, WHOLE, 0}, {"TOPIC", "topic", 7, TEXT, 8}, {"KIND", "kind", 8, WHOLE, 0},
        {"VALUE", "value", 6, WHOLE, 0}, {"LIMIT", "limit", 4, WHOLE, 0}, {"BEGAN AT", "began_at", 5, TIME, 0},
        {"SILENCED UNTIL", "silenced_until", 3, TIME, 0}, {"TOLD AT", "told_at", 0, TIME, 0}},
    [DT_CLI_EVENT] = {
        {"AT", "at", KEPT, TIME, 0}, {"ACTOR", "actor", 7, TEXT, 6}, {"ACTION", "action", 8, WHOLE, 0},
        {"TOPIC", "topic", 6, TEXT, 8}, {"JOB", "job_id", 5, WHOLE, 0}, {"SUBJECT", "subject", 4, TEXT, 8},
        {"AFTER", "after", 3, TEXT, 12}, {"BEFORE", "before", 0, TEXT, 12}, {"OPERATION", "operation_id", 0, WHOLE, 0}},
    [DT_CLI_TOKEN] = {
        {"NAME", "name", KEPT, TEXT, 12}, {"SCOPES", "scopes", 8, TEXT, 9}, {"TOPICS", "topics", 7, TEXT, 8},
        {"CREATED AT", "created_at", 6, TIME, 0}, {"REQUESTS/S", "requests_per_second", 0, WHOLE, 0},
        {"JOBS/S", "jobs_per_second", 0, WHOLE, 0}, {"BYTES/S", "payload_bytes_per_second", 0, WHOLE, 0},
        {"PENDING", "pending_jobs", 0, WHOLE, 0}},
    [DT_CLI_USED] = {
        {"TOKEN", "token", KEPT, TEXT, 12}, {"REQUESTS", "requests", 6, WHOLE, 0}, {"REFUSED", "requests_refused", 7, WHOLE, 0},
        {"JOBS", "jobs", 6, WHOLE, 0}, {"REFUSED", "jobs_refused", 7, WHOLE, 0}, {"BYTES", "payload_bytes", 4, WHOLE, 0},
        {"PENDING", "pending_jobs", 5, WHOLE, 0}, {"MAX REQUESTS/S", "limits.requests_per_second", 0, WHOLE, 0},
        {"MAX JOBS/S", "limits.jobs_per_second", 0, WHOLE, 0}, {"MAX BYTES/S", "limits.payload_bytes_per_second", 0, WHOLE, 0},
        {"MAX PENDING", "limits.pending_jobs", 0, WHOLE, 0}},
    [DT_CLI_DEAD] = {
        {"JOBS", "jobs", KEPT, WHOLE, 0}, {"ERROR", "error_code", 8, TEXT, 8}, {"TOPIC", "topic", 7, TEXT, 8},
        {"SUCH AS", "message", 6, TEXT, 16}, {"LAST AT", "last_at", 0, TIME, 0}, {"ONE OF THEM", "job_id", 0, WHOLE, 0}},
    [DT_CLI_FACT] = {
        {"WHAT", "what", KEPT, TEXT, 12}, {"VALUE", "value", KEPT, TEXT, 16}},
    [DT_CLI_CLOCK] = {
        {"NOW", "now", KEPT, TIME, 0}, {"REAL", "real", 7, TIME, 0}, {"FROZEN", "frozen", 8, WHOLE, 0},
        {"LEFT", "left", 6, WHOLE, 0}, {"STEPS", "steps", 0, WHOLE, 0}, {"DISPATCHED", "dispatched", 0, WHOLE, 0}},
};
/* clang-format on */

struct dt_cli_list {
    const struct dt_cli *cli;
    const struct column *columns[COLUMNS_MAX];
    size_t n;
    size_t width[COLUMNS_MAX]; /* chosen when the first page is shown; 0: the column is left out */
    struct dt_arena arena;     /* memory of the cells of the current page */
    struct dt_str *cells;
    size_t n_cells, cap;
    struct dt_strbuf line;
    bool headed;
};

/* ---- text ---- */

void dt_cli_add_plain(struct dt_strbuf *out, struct dt_str text)
{
    /* Characters that control a terminal or are invisible: controls, line ends, changes of direction, and Unicode's
     * default-ignorable characters. */
    static const struct {
        uint32_t from, to;
    } hidden[] = {{0x00, 0x1f},     {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},    {0x61c, 0x61c},
                  {0x115f, 0x1160}, {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},  {0x2028, 0x202e},
                  {0x2060, 0x206f}, {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},  {0xffa0, 0xffa0},
                  {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < text.n;) {
        const unsigned char *p = (const unsigned char *)text.p + i;
        size_t n = dt_utf8_character(p, text.n - i);
        uint32_t c = n > 1 ? p[0] & (0xffu >> (n + 1)) : p[0];
        bool shown = true;
        for (size_t k = 1; k < n; k++)
            c = c << 6 | (p[k] & 0x3f);
        for (size_t k = 0; k < sizeof(hidden) / sizeof(hidden[0]); k++)
            shown = shown && (c < hidden[k].from || c > hidden[k].to);
        if (n == 0)
            dt_strbuf_addf(out, "\\x%02x", p[0]);
        else if (shown)
            dt_strbuf_add(out, text.p + i, n);
        else if (c > 0xffff)
            dt_strbuf_addf(out, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
        else
            dt_strbuf_addf(out, "\\u%04x", c);
        i += n ? n : 1;
    }
}

/* Counts the characters of UTF-8 text. Assumes that each character takes one cell of the terminal. */
static size_t text_width(struct dt_str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += ((unsigned char)text.p[i] & 0xc0) != 0x80;
    return n;
}

void dt_cli_add_cut(struct dt_strbuf *out, struct dt_str text, size_t width)
{
    size_t i = 0;
    if (text_width(text) <= width) {
        dt_strbuf_add(out, text.p, text.n);
        return;
    }
    for (size_t n = 0; i < text.n; i++)
        if (((unsigned char)text.p[i] & 0xc0) != 0x80 && n++ == width - 1)
            break;
    dt_strbuf_add(out, text.p, i);
    dt_strbuf_adds(out, "…");
}

static const char *text_colour(struct dt_str text)
{
    static const struct {
        const char *word, *colour;
    } words[] = {{"dead", "\033[31m"},      {"failed", "\033[31m"},     {"timed_out", "\033[31m"},
                 {"succeeded", "\033[32m"}, {"dispatched", "\033[33m"}, {"cancelled", "\033[2m"}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (dt_str_is(text, words[i].word))
            return words[i].colour;
    return NULL;
}

void dt_cli_clear_screen(const struct dt_cli *cli)
{
    if (cli->clear)
        fputs(CLEAR, stdout);
}

/* ---- one thing ---- */

static void add_value(struct dt_strbuf *out, const struct dt_json_node *node)
{
    if (!node || node->type == DT_JSON_NULL)
        dt_strbuf_addc(out, '-');
    else if (node->type == DT_JSON_STRING)
        dt_cli_add_plain(out, node->str);
    else {
        struct dt_strbuf compact = {0};
        dt_json_add_compact(&compact, node->raw);
        dt_cli_add_plain(out, dt_strbuf_str(&compact));
        dt_strbuf_clear(&compact);
    }
}

void dt_cli_show_json(const struct dt_cli *cli, struct dt_str json)
{
    struct dt_strbuf line = {0};
    struct dt_strbuf plain = {0};
    dt_strbuf_add(&line, json.p, json.n);
    for (size_t i = 0; i < line.n; i++)
        if (line.p[i] == '\n' || line.p[i] == '\r' || (cli->width && line.p[i] == '\t'))
            line.p[i] = ' ';
    if (cli->width)
        dt_cli_add_plain(&plain, dt_strbuf_str(&line));
    const struct dt_strbuf *shown = cli->width ? &plain : &line;
    fwrite(shown->p ? shown->p : "", 1, shown->n, stdout);
    putchar('\n');
    dt_strbuf_clear(&line);
    dt_strbuf_clear(&plain);
}

/* Finds the value for a column. "cron|every": the first of these members that is set; "a.b": member b of member a. */
static const struct dt_json_node *find_cell_node(const dt_json *json, const struct dt_json_node *node,
                                                 const char *member)
{
    char name[64];
    for (;;) {
        const struct dt_json_node *found = node;
        size_t n = strcspn(member, "|");
        for (size_t at = 0; found && at < n;) {
            size_t length = strcspn(member + at, ".|");
            snprintf(name, sizeof(name), "%.*s", (int)length, member + at);
            found = dt_json_member(json, found, name);
            at += length + (member[at + length] == '.' ? 1 : 0);
        }
        if ((found && found->type != DT_JSON_NULL) || !member[n])
            return found;
        member += n + 1;
    }
}

/* Prints the value of the first column, which identifies the thing. */
static void show_name(const struct column *first, const dt_json *json, const struct dt_json_node *node)
{
    struct dt_strbuf line = {0};
    add_value(&line, find_cell_node(json, node, first->member));
    printf("%s\n", line.p ? line.p : "");
    dt_strbuf_clear(&line);
}

void dt_cli_show(const struct dt_cli *cli, const dt_json *json, const struct dt_json_node *node)
{
    const struct column *columns = columns_of[cli->call->verb->thing];
    struct dt_strbuf line = {0};
    size_t longest = 0;
    if (cli->form == DT_CLI_AS_JSON) {
        dt_cli_show_json(cli, node->raw);
        return;
    }
    if (cli->form == DT_CLI_NAMES && columns->title && find_cell_node(json, node, columns->member)) {
        show_name(columns, json, node);
        return;
    }
    for (const struct dt_json_node *m = dt_json_first(json, node); m; m = dt_json_sibling(json, node, m))
        longest = m->name.n > longest ? m->name.n : longest;
    for (const struct dt_json_node *m = dt_json_first(json, node); m; m = dt_json_sibling(json, node, m)) {
        const char *colour = cli->colours && m->type == DT_JSON_STRING ? text_colour(m->str) : NULL;
        dt_cli_add_plain(&line, m->name);
        dt_strbuf_addf(&line, "%*s%s", (int)(longest - m->name.n + 2), "", colour ? colour : "");
        add_value(&line, m);
        dt_strbuf_addf(&line, "%s\n", colour ? PLAIN : "");
    }
    fwrite(line.p ? line.p : "", 1, line.n, stdout);
    dt_strbuf_clear(&line);
}

/* ---- cells ---- */

/* Adds a duration as the console shows it: "6 ms", "1.2 s", "3 min 4 s", "2 d 5 h". */
static void add_duration(struct dt_strbuf *out, int64_t ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"d", 86400000}, {"h", 3600000}, {"min", 60000}, {"s", 1000}, {"ms", 1}};
    size_t i = 0;
    while (i < 4 && ms < units[i].ms)
        i++;
    const int64_t whole = ms / units[i].ms;
    if (ms >= 1000 && ms < 10000)
        dt_strbuf_addf(out, "%lld.%lld s", (long long)whole, (long long)(ms % 1000 / 100));
    else
        dt_strbuf_addf(out, "%lld %s", (long long)whole, units[i].name);
    const int64_t rest = i < 3 ? (ms - whole * units[i].ms) / units[i + 1].ms : 0;
    if (rest > 0 && whole < 100)
        dt_strbuf_addf(out, " %lld %s", (long long)rest, units[i + 1].name);
}

/* Returns how late a job is, in whole seconds: the API's clock is only known to the second. 0: it is not late, or waits
 * because its topic is paused. */
static int64_t late_by_ms(const struct dt_cli *cli, const dt_json *json, const struct dt_json_node *job)
{
    int64_t due_ms;
    if (!dt_str_is(dt_json_text_of(json, job, "state"), "scheduled") ||
        dt_str_is(dt_json_text_of(json, job, "waiting_for"), "paused") ||
        dt_time_parse(dt_json_text_of(json, job, "next_at"), &due_ms) != DT_OK || cli->heard_ms - due_ms < TOLERATED_MS)
        return 0;
    return (cli->heard_ms - due_ms) / 1000 * 1000;
}

static void add_cell_text(struct dt_strbuf *out, const struct dt_cli *cli, const struct column *column,
                          const dt_json *json, const struct dt_json_node *row)
{
    const struct dt_json_node *value = find_cell_node(json, row, column->member);
    const int64_t late_ms = column->kind == LATE ? late_by_ms(cli, json, row) : 0;
    if (late_ms || (column->kind == MS && value && value->type == DT_JSON_INT))
        add_duration(out, late_ms ? late_ms : value->i);
    else
        add_value(out, column->kind == LATE ? NULL : value);
}

/* ---- lists ---- */

struct dt_cli_list *dt_cli_list_begin(const struct dt_cli *cli, enum dt_cli_thing thing)
{
    struct dt_cli_list *list = calloc(1, sizeof(*list));
    if (!list)
        return NULL;
    list->cli = cli;
    for (const struct column *column = columns_of[thing]; column->title; column++)
        if (column->worth > 0 || cli->form == DT_CLI_WIDE) {
            dt_assert_cmp(list->n, <, COLUMNS_MAX);
            list->columns[list->n++] = column;
        }
    return list;
}

void dt_cli_list_row(struct dt_cli_list *list, const dt_json *json, const struct dt_json_node *node)
{
    if (list->cli->form == DT_CLI_AS_JSON) {
        dt_cli_show_json(list->cli, node->raw);
        return;
    }
    if (list->cli->form == DT_CLI_NAMES) {
        show_name(list->columns[0], json, node);
        return;
    }
    if (list->n_cells + list->n > list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 1024;
        struct dt_str *cells = realloc(list->cells, cap * sizeof(*cells));
        if (!cells)
            return;
        list->cells = cells;
        list->cap = cap;
    }
    dt_assert_cmp(list->n_cells + list->n, <=, list->cap);
    for (size_t i = 0; i < list->n; i++) {
        dt_strbuf_reset(&list->line);
        add_cell_text(&list->line, list->cli, list->columns[i], json, node);
        list->cells[list->n_cells++] = dt_arena_copy(&list->arena, dt_strbuf_str(&list->line));
    }
}

#define SECONDS 20 /* characters of a time without milliseconds */
#define MINUTES 17 /* and without seconds */

/* Returns the least width of a column whose title and cells have this width. */
static size_t least_width(const struct column *column, size_t width)
{
    const size_t title = strlen(column->title);
    size_t least = column->kind == TEXT ? column->least : column->kind == TIME ? MINUTES : width;
    least = least > title ? least : title;
    return least < width ? least : width;
}

/* Chooses columns by their worth, as many as fit if each has its least width, and sets the width of the others to 0. A
 * column that has no values, or whose value an option of the command chose, needs room that no other column wants. */
static void choose_columns(struct dt_cli_list *list, const bool *empty)
{
    size_t least = 0; /* least width of the chosen columns and of the space after them */
    size_t whole = 0; /* and their width if none is shortened */
    for (unsigned worth = KEPT + 1; worth-- > 0;)
        for (size_t i = 0; i < list->n; i++) {
            const struct column *column = list->columns[i];
            const bool told = empty[i] || dt_cli_value(list->cli->call, column->member);
            const size_t narrow = least_width(column, list->width[i]);
            if (worth != (told && column->worth < KEPT ? 0 : column->worth))
                continue;
            if (worth < KEPT && (worth ? least + narrow : whole + list->width[i]) > list->cli->width) {
                list->width[i] = 0;
                continue;
            }
            least += narrow + 2;
            whole += list->width[i] + 2;
        }
}

/* Shortens columns until the table fits: first times lose their milliseconds, then the column that exceeds its least
 * width most is narrowed. */
static void narrow_columns(struct dt_cli_list *list)
{
    for (;;) {
        size_t at = list->n;
        size_t most = 0;
        size_t all = 0;
        for (size_t i = 0; i < list->n; i++) {
            const struct column *column = list->columns[i];
            size_t excess = list->width[i] - least_width(column, list->width[i]);
            if (list->width[i] == 0)
                continue;
            all += list->width[i] + (all ? 2 : 0);
            excess += column->kind == TIME && list->width[i] > SECONDS ? SIZE_MAX / 2 : 0;
            if (excess > most) {
                most = excess;
                at = i;
            }
        }
        if (all <= list->cli->width || at == list->n)
            return;
        size_t *width = &list->width[at];
        *width = list->columns[at]->kind != TIME ? *width - 1
                 : *width > SECONDS              ? SECONDS
                                                 : least_width(list->columns[at], *width);
    }
}

static void choose_widths(struct dt_cli_list *list)
{
    bool empty[COLUMNS_MAX];
    for (size_t i = 0; i < list->n; i++) {
        list->width[i] = strlen(list->columns[i]->title);
        empty[i] = true;
        for (size_t at = i; at < list->n_cells; at += list->n) {
            const size_t width = text_width(list->cells[at]);
            list->width[i] = width > list->width[i] ? width : list->width[i];
            empty[i] = empty[i] && dt_str_is(list->cells[at], "-");
        }
    }
    if (list->cli->width == 0)
        return;
    if (list->cli->form == DT_CLI_TABLE)
        choose_columns(list, empty);
    narrow_columns(list);
}

/* Adds a time in at most `width` characters: 2030-01-01T09:00:00.000Z, 2030-01-01T09:00:00Z, 2030-01-01T09:00Z. */
static void add_time(struct dt_strbuf *out, struct dt_str text, size_t width)
{
    if (text.n <= width || text.n != sizeof("2030-01-01T09:00:00.000Z") - 1) {
        dt_strbuf_add(out, text.p, text.n);
        return;
    }
    dt_strbuf_add(out, text.p, width < SECONDS ? MINUTES - 1 : SECONDS - 1);
    dt_strbuf_addc(out, 'Z');
}

static void add_cell(struct dt_cli_list *list, size_t i, struct dt_str text, const char *colour)
{
    const enum kind kind = list->columns[i]->kind;
    const size_t width = list->width[i];
    struct dt_strbuf cell = {0};
    if (width == 0)
        return;
    if (list->cli->width && kind == TIME)
        add_time(&cell, text, width);
    else
        dt_cli_add_cut(&cell, text, list->cli->width && kind == TEXT ? width : SIZE_MAX);
    const size_t shown = text_width(dt_strbuf_str(&cell));
    dt_strbuf_addf(&list->line, "%s%s%s", colour ? colour : "", cell.p ? cell.p : "", colour ? PLAIN : "");
    dt_strbuf_addf(&list->line, "%*s", (int)((shown < width ? width - shown : 0) + 2), "");
    dt_strbuf_clear(&cell);
}

static void write_table_line(struct dt_cli_list *list)
{
    while (list->line.n > 0 && list->line.p[list->line.n - 1] == ' ')
        list->line.n--;
    dt_strbuf_addc(&list->line, '\n');
    fwrite(list->line.p ? list->line.p : "", 1, list->line.n, stdout);
    dt_strbuf_reset(&list->line);
}

void dt_cli_list_page(struct dt_cli_list *list)
{
    const bool colours = list->cli->colours;
    dt_assert(list->n_cells == 0 || list->n_cells % list->n == 0); /* the page consists of whole rows */
    if (list->n_cells > 0 && !list->headed) {
        choose_widths(list);
        dt_strbuf_reset(&list->line);
        for (size_t i = 0; i < list->n; i++)
            add_cell(list, i, dt_str(list->columns[i]->title), colours ? BOLD : NULL);
        write_table_line(list);
        list->headed = true;
    }
    for (size_t at = 0; at < list->n_cells; at += list->n) {
        dt_strbuf_reset(&list->line);
        for (size_t i = 0; i < list->n; i++)
            add_cell(list, i, list->cells[at + i], colours ? text_colour(list->cells[at + i]) : NULL);
        write_table_line(list);
    }
    list->n_cells = 0;
    dt_arena_reset(&list->arena);
    dt_streams_flush();
}

void dt_cli_list_end(struct dt_cli_list *list)
{
    if (!list)
        return;
    dt_cli_list_page(list);
    dt_arena_clear(&list->arena);
    dt_strbuf_clear(&list->line);
    free(list->cells);
    free(list);
}
