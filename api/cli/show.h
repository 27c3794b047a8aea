/* Answers on standard output, for people (tables, lists of members) or for programs (JSON, one value a line). Texts for
 * people have no control characters, so that a key or an error cannot control the terminal. */
#pragma once

#include "base/text/json.h"
#include "cli.h"

/* Prints JSON on one line. Line breaks, which occur only between values, become spaces. On a terminal dt_cli_add_plain
 * escapes characters, which keeps the JSON equal; otherwise all other bytes are unchanged. */
void dt_cli_show_json(const struct dt_cli *cli, struct dt_str json);
/* Prints one answer, for example a job. */
void dt_cli_show(const struct dt_cli *cli, const dt_json *json, const struct dt_json_node *node);

/*
 * A list that is printed page by page. The first page and the width of the terminal decide the widths of columns.
 *
 *   call begin; for each page: row …, page; at last end
 */
struct dt_cli_list;
struct dt_cli_list *dt_cli_list_begin(const struct dt_cli *cli, enum dt_cli_thing thing); /* NULL: out of memory */
void dt_cli_list_row(struct dt_cli_list *list, const dt_json *json, const struct dt_json_node *node);
void dt_cli_list_page(struct dt_cli_list *list); /* prints the rows that were added since the last page */
void dt_cli_list_end(struct dt_cli_list *list);

/* Appends text for a terminal. Characters that would control the terminal or are invisible (controls, changes of
 * direction, zero width) become \uNNNN, as in JSON; bytes that are not UTF-8 become \xNN. All texts that are not the
 * program's own are printed with this function. */
void dt_cli_add_plain(struct dt_strbuf *out, struct dt_str text);
/* Appends at most `width` characters. If the text is longer, the last one is an ellipsis. */
void dt_cli_add_cut(struct dt_strbuf *out, struct dt_str text, size_t width);
