/*
 * Answers on standard output, for people (tables, lists of members) or for programs (JSON, one thing a line). Texts for
 * people have no control characters, so that a key or an error cannot control the terminal.
 */
#pragma once

#include "base/text/json.h"
#include "cli.h"

/* Shows JSON in one line: line breaks, which are only between values, become spaces. For a terminal dt_cli_add_plain
 * escapes it, which is the same JSON; otherwise every other byte stays. */
void dt_cli_show_json(const struct dt_cli *cli, struct dt_str json);
/* Shows one thing. */
void dt_cli_show(const struct dt_cli *cli, const dt_json *json, const struct dt_json_node *node);

/*
 * A list, shown page by page. The columns are as wide as the first page needs and the terminal allows.
 *
 *   begin, then for each page: row …, page; then end
 */
struct dt_cli_list;
struct dt_cli_list *dt_cli_list_begin(const struct dt_cli *cli, enum dt_cli_thing thing); /* NULL: out of memory */
void dt_cli_list_row(struct dt_cli_list *list, const dt_json *json, const struct dt_json_node *node);
void dt_cli_list_page(struct dt_cli_list *list); /* shows the rows since the last page */
void dt_cli_list_end(struct dt_cli_list *list);

/* Appends text for a terminal. Characters that would control it or are invisible (controls, changes of direction,
 * without width) are written as in JSON, \uNNNN, and bytes that are not UTF-8 as \xNN. All texts from outside are
 * shown so. */
void dt_cli_add_plain(struct dt_strbuf *out, struct dt_str text);
/* Appends at most `width` characters. If some are left out, the last one is an ellipsis. */
void dt_cli_add_cut(struct dt_strbuf *out, struct dt_str text, size_t width);
