/* Prints answers on standard output: for people as tables or lists of members, for programs as JSON, one value a line.
 * Texts for people have no control characters, so that a key or an error cannot control the terminal. */
#pragma once

#include "base/text/json.h"
#include "cli.h"

/* Prints JSON on one line. Line breaks become spaces, because they only occur between values. On a terminal,
 * dt_cli_add_plain escapes some characters, which does not change the meaning of the JSON; otherwise all other bytes
 * are unchanged. */
void dt_cli_show_json(const struct dt_cli *cli, struct dt_str json);
/* Prints one answer that is no list, for example a job. */
void dt_cli_show(const struct dt_cli *cli, const dt_json *json, const struct dt_json_node *node);

/* If cli->clear is set, clears the terminal: the next screen of a --watch begins. */
void dt_cli_clear_screen(const struct dt_cli *cli);

/*
 * A list that is printed page by page. The widths of its columns depend on the first page and on the width of the
 * terminal: columns are left out by their worth, texts are cut, and times are shortened.
 *
 *   call dt_cli_list_begin; for each page: dt_cli_list_row …, dt_cli_list_page; at last dt_cli_list_end
 */
struct dt_cli_list;
struct dt_cli_list *dt_cli_list_begin(const struct dt_cli *cli, enum dt_cli_thing thing); /* NULL: out of memory */
void dt_cli_list_row(struct dt_cli_list *list, const dt_json *json, const struct dt_json_node *node);
void dt_cli_list_page(struct dt_cli_list *list); /* prints the rows that were added since the last page */
void dt_cli_list_end(struct dt_cli_list *list);

/* Appends text for a terminal. A character that would control the terminal or is invisible (control, change of
 * direction, zero width) becomes \uNNNN, as in JSON; a byte that is not UTF-8 becomes \xNN. All texts that are not the
 * program's own are printed with this function. */
void dt_cli_add_plain(struct dt_strbuf *out, struct dt_str text);
/* Appends at most `width` characters of the text. If the text is longer, the last character is an ellipsis. */
void dt_cli_add_cut(struct dt_strbuf *out, struct dt_str text, size_t width);
