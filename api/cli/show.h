/*
 * Answers on standard output, for people (tables, lists of members) or for programs (JSON, one thing a line). What is
 * shown to people has no control characters: nothing that somebody put into a key or an error may rule the terminal.
 */
#ifndef DT_CLI_SHOW_H
#define DT_CLI_SHOW_H

#include "base/text/json.h"
#include "cli.h"

/* JSON, in one line, for which line breaks, which stand between values alone, become spaces. To a terminal as
 * dt_cli_add_plain writes it, which is the same JSON; the rest stays byte for byte. */
void dt_cli_show_json(const struct dt_cli *cli, struct dt_str json);
/* One thing. */
void dt_cli_show(const struct dt_cli *cli, const dt_json *json, const struct dt_json_node *node);

/*
 * A list that comes page by page: the columns are as wide as the first page needs, or as the terminal lets them be.
 *
 *   begin, then for each page: row …, page; then end
 */
struct dt_cli_list;
struct dt_cli_list *dt_cli_list_begin(const struct dt_cli *cli, enum dt_cli_thing thing); /* NULL: out of memory */
void dt_cli_list_row(struct dt_cli_list *list, const dt_json *json, const struct dt_json_node *node);
void dt_cli_list_page(struct dt_cli_list *list); /* shows the rows since the last page */
void dt_cli_list_end(struct dt_cli_list *list);

/* Appends text for a terminal: what it would obey, or shows nothing of (controls, changes of direction, characters
 * without width), is written as JSON does, \uNNNN, and bytes that are no UTF-8 as \xNN. All texts of others that the
 * program shows go this way. */
void dt_cli_add_plain(struct dt_strbuf *out, struct dt_str text);
/* Appends at most `width` characters; where some are left out, the last one is an ellipsis. */
void dt_cli_add_cut(struct dt_strbuf *out, struct dt_str text, size_t width);

#endif
