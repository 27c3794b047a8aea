/* The columns of each kind of answer, their widths, and the text of a cell. */
#include "show.h"

#include "base/assert.h"
#include "base/service.h"
#include "base/text/encoding.h"
#include "base/text/json_write.h"

#define COLUMNS_MAX 16
#define NARROWEST   4
#define BOLD        "\033[1m"
#define PLAIN       "\033[0m"

struct column {
    const char *title;
    const char *member; /* "last_error.code"; "cron|every": the first member that is set; "": the whole value */
    bool wide;          /* show only with --output wide */
};

/* clang-format off */
#define COLUMN(title, member) {title, member, false}
#define WIDE(title, member)   {title, member, true}

/* The columns for each kind of thing. A column without a title ends a list of columns. */
static const struct column columns_of[DT_CLI_THINGS][COLUMNS_MAX + 1] = {
    [DT_CLI_JOB] = {
        COLUMN("ID", "id"), COLUMN("TOPIC", "topic"), COLUMN("KEY", "key"), COLUMN("STATE", "state"),
        COLUMN("NEXT AT", "next_at"), COLUMN("ATTEMPT", "attempt"), COLUMN("OF", "max_attempts"),
        COLUMN("WAITING FOR", "waiting_for"), COLUMN("ERROR", "last_error.code"), WIDE("RUN AT", "run_at"),
        WIDE("FAILURES", "failures"), WIDE("CREATED AT", "created_at"), WIDE("FINISHED AT", "finished_at"),
        WIDE("MESSAGE", "last_error.message")},
    [DT_CLI_ATTEMPT] = {
        COLUMN("ATTEMPT", "attempt"), COLUMN("STATUS", "status"), COLUMN("DISPATCHED AT", "dispatched_at"),
        COLUMN("LATE MS", "lateness_ms"), COLUMN("FINISHED AT", "finished_at"), COLUMN("ERROR", "error.code"),
        COLUMN("MESSAGE", "error.message"), WIDE("DUE AT", "due_at"), WIDE("HTTP", "http_status"),
        WIDE("TOOK MS", "duration_ms")},
    [DT_CLI_TOPIC] = {
        COLUMN("NAME", "name"), COLUMN("DELIVERY", "delivery"), COLUMN("PAUSED", "paused"),
        COLUMN("IN FLIGHT", "max_in_flight"), COLUMN("RATE", "rate_limit"),
        COLUMN("ACK TIMEOUT", "effective.ack_timeout"), COLUMN("RETENTION", "effective.retention"),
        WIDE("KAFKA TOPIC", "effective.kafka_topic"), WIDE("CALLBACK URL", "callback_url"),
        WIDE("RETRY", "effective.retry"), WIDE("UPDATED AT", "updated_at")},
    [DT_CLI_TRAFFIC] = {
        COLUMN("TOPIC", "topic"), COLUMN("PAUSED", "paused"), COLUMN("OVERDUE", "overdue"),
        COLUMN("OLDEST MS", "oldest_overdue_ms"), COLUMN("SCHEDULED", "scheduled"), COLUMN("DISPATCHED", "dispatched"),
        COLUMN("DEAD", "dead"), COLUMN("CREATED/S", "rates.created"), COLUMN("SENT/S", "rates.dispatched"),
        COLUMN("FAILED/S", "rates.failed")},
    [DT_CLI_SCHEDULE] = {
        COLUMN("NAME", "name"), COLUMN("TOPIC", "topic"), COLUMN("FIRES", "cron|every"), COLUMN("ZONE", "time_zone"),
        COLUMN("NEXT AT", "next_at"), COLUMN("PAUSED", "paused"), COLUMN("ERROR", "last_error.message"),
        WIDE("LAST JOB", "last_job_id"), WIDE("OVERLAP", "overlap"), WIDE("CATCH UP", "catch_up"),
        WIDE("JITTER", "jitter")},
    [DT_CLI_FIRE] = {
        COLUMN("NEXT", "")},
    [DT_CLI_SHARD] = {
        COLUMN("SHARD", "shard"), COLUMN("LEADER", "leader"), COLUMN("EPOCH", "epoch"), COLUMN("IN FLIGHT", "in_flight"),
        COLUMN("OVERDUE", "overdue"), COLUMN("OLDEST MS", "oldest_overdue_ms"), COLUMN("WAITING FOR", "waiting_for"),
        COLUMN("HALTED", "halted"), WIDE("DETAIL", "detail"), WIDE("INDEX WHOLE", "index_whole"),
        WIDE("MISSING", "drift.missing"), WIDE("EXTRA", "drift.extra"), WIDE("WRONG", "drift.wrong"),
        WIDE("SEEN AT", "seen_at")},
    [DT_CLI_OPERATION] = {
        COLUMN("ID", "id"), COLUMN("KIND", "kind"), COLUMN("STATE", "state"), COLUMN("TOPIC", "filter.topic"),
        COLUMN("MATCHED", "matched"), COLUMN("CHANGED", "changed"), COLUMN("REFUSED", "refused"),
        COLUMN("STARTED AT", "started_at"), COLUMN("FINISHED AT", "finished_at"), WIDE("FILTER", "filter"),
        WIDE("ERROR", "error")},
    [DT_CLI_SPIKE] = {
        COLUMN("FROM", "from"), COLUMN("DUE", "due"), COLUMN("DRAINS", "drains"), COLUMN("TAKES", "takes")},
    [DT_CLI_ALERT] = {
        COLUMN("ID", "id"), COLUMN("TOPIC", "topic"), COLUMN("KIND", "kind"), COLUMN("VALUE", "value"),
        COLUMN("LIMIT", "limit"), COLUMN("BEGAN AT", "began_at"), COLUMN("SILENCED UNTIL", "silenced_until"),
        WIDE("TOLD AT", "told_at")},
    [DT_CLI_EVENT] = {
        COLUMN("AT", "at"), COLUMN("ACTOR", "actor"), COLUMN("ACTION", "action"), COLUMN("TOPIC", "topic"),
        COLUMN("JOB", "job_id"), COLUMN("SUBJECT", "subject"), COLUMN("AFTER", "after"), WIDE("BEFORE", "before"),
        WIDE("OPERATION", "operation_id")},
    [DT_CLI_TOKEN] = {
        COLUMN("NAME", "name"), COLUMN("SCOPES", "scopes"), COLUMN("TOPICS", "topics"),
        COLUMN("CREATED AT", "created_at"), WIDE("REQUESTS/S", "requests_per_second"), WIDE("JOBS/S", "jobs_per_second"),
        WIDE("BYTES/S", "payload_bytes_per_second"), WIDE("PENDING", "pending_jobs")},
    [DT_CLI_USED] = {
        COLUMN("TOKEN", "token"), COLUMN("REQUESTS", "requests"), COLUMN("REFUSED", "requests_refused"),
        COLUMN("JOBS", "jobs"), COLUMN("REFUSED", "jobs_refused"), COLUMN("BYTES", "payload_bytes"),
        COLUMN("PENDING", "pending_jobs"), WIDE("MAX REQUESTS/S", "limits.requests_per_second"),
        WIDE("MAX JOBS/S", "limits.jobs_per_second"), WIDE("MAX BYTES/S", "limits.payload_bytes_per_second"),
        WIDE("MAX PENDING", "limits.pending_jobs")},
    [DT_CLI_DEAD] = {
        COLUMN("JOBS", "jobs"), COLUMN("ERROR", "error_code"), COLUMN("TOPIC", "topic"), COLUMN("SUCH AS", "message"),
        WIDE("LAST AT", "last_at"), WIDE("ONE OF THEM", "job_id")},
    [DT_CLI_FACT] = {
        COLUMN("WHAT", "what"), COLUMN("VALUE", "value")},
    [DT_CLI_CLOCK] = {
        COLUMN("NOW", "now"), COLUMN("REAL", "real"), COLUMN("FROZEN", "frozen"), COLUMN("LEFT", "left"),
        WIDE("STEPS", "steps"), WIDE("DISPATCHED", "dispatched")},
};
/* clang-format on */

struct dt_cli_list {
    const struct dt_cli *cli;
    const struct column *columns[COLUMNS_MAX];
    size_t n;
    size_t width[COLUMNS_MAX]; /* 0: not known before the first page is shown */
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

void dt_cli_show(const struct dt_cli *cli, const dt_json *json, const struct dt_json_node *node)
{
    struct dt_strbuf line = {0};
    size_t longest = 0;
    if (cli->form == DT_CLI_AS_JSON) {
        dt_cli_show_json(cli, node->raw);
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

/* ---- lists ---- */

struct dt_cli_list *dt_cli_list_begin(const struct dt_cli *cli, enum dt_cli_thing thing)
{
    struct dt_cli_list *list = calloc(1, sizeof(*list));
    if (!list)
        return NULL;
    list->cli = cli;
    for (const struct column *column = columns_of[thing]; column->title; column++)
        if (!column->wide || cli->form == DT_CLI_WIDE) {
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
        add_value(&list->line, find_cell_node(json, node, list->columns[i]->member));
        list->cells[list->n_cells++] = dt_arena_copy(&list->arena, dt_strbuf_str(&list->line));
    }
}

/* Chooses the column to narrow by one character if the table is too wide for the terminal: the column whose title
 * exceeds its cells most, else the widest column. The first column identifies the row, so it keeps up to a third of the
 * line. */
static size_t find_column_to_narrow(const struct dt_cli_list *list, const size_t *content)
{
    size_t title = 0;
    size_t widest = list->n == 1 || list->width[0] > list->cli->width / 3 ? 0 : 1;
    for (size_t i = 1; i < list->n; i++) {
        title = list->width[i] + content[title] > list->width[title] + content[i] ? i : title;
        widest = list->width[i] > list->width[widest] ? i : widest;
    }
    if (list->width[title] > content[title])
        return title;
    return list->width[widest] > NARROWEST ? widest : 0;
}

static void set_widths(struct dt_cli_list *list)
{
    size_t content[COLUMNS_MAX]; /* width of the widest cell of each column, without the title */
    size_t all = list->n ? 2 * (list->n - 1) : 0;
    for (size_t i = 0; i < list->n; i++) {
        size_t title = strlen(list->columns[i]->title);
        content[i] = NARROWEST;
        for (size_t at = i; at < list->n_cells; at += list->n) {
            size_t width = text_width(list->cells[at]);
            content[i] = width > content[i] ? width : content[i];
        }
        list->width[i] = content[i] > title ? content[i] : title;
        all += list->width[i];
    }
    while (list->cli->width && all > list->cli->width) {
        size_t column = find_column_to_narrow(list, content);
        if (list->width[column] <= NARROWEST)
            break;
        list->width[column]--;
        all--;
    }
}

static void add_cell(struct dt_cli_list *list, size_t i, struct dt_str text, const char *colour)
{
    size_t limit = list->cli->width ? list->width[i] : SIZE_MAX;
    size_t width = text_width(text) < limit ? text_width(text) : limit;
    dt_strbuf_adds(&list->line, colour ? colour : "");
    dt_cli_add_cut(&list->line, text, limit);
    dt_strbuf_adds(&list->line, colour ? PLAIN : "");
    if (i + 1 < list->n)
        dt_strbuf_addf(&list->line, "%*s", (int)((width < list->width[i] ? list->width[i] - width : 0) + 2), "");
}

static void write_table_line(struct dt_cli_list *list)
{
    dt_strbuf_addc(&list->line, '\n');
    fwrite(list->line.p ? list->line.p : "", 1, list->line.n, stdout);
    dt_strbuf_reset(&list->line);
}

void dt_cli_list_page(struct dt_cli_list *list)
{
    const bool colours = list->cli->colours;
    dt_assert(list->n_cells == 0 || list->n_cells % list->n == 0); /* the page consists of whole rows */
    if (list->n_cells > 0 && !list->headed) {
        set_widths(list);
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
