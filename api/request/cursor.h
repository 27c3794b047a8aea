/* The text of next_cursor: a sealed position in a list. A caller can neither read it (the position may contain data
 * that the caller must not see) nor forge it: the cursor is encrypted and authenticated (AES-256-GCM) with a key that
 * all APIs of the installation share. It is bound to its list, filter and caller, and cannot be opened for another one.
 * Pure: the key comes from the snapshot (topic_cache.h). */
#pragma once

#include "auth.h"
#include "base/text/strbuf.h"
#include "store/store.h"

/* Identifies a list, its filter and its caller. May be copied; contains a copy of the key. */
struct dt_cursor_list {
    unsigned char key[DT_CURSOR_KEY], digest[32];
};

/* Fills in the identity of a list. kind: letter of the list. fields: all parts of the filter that decide which rows are
 * in the list, in a fixed order (an absent field differs from an empty one). NOMEM: memory ran out. */
dt_status dt_cursor_list_init(struct dt_cursor_list *list, const unsigned char key[DT_CURSOR_KEY], char kind,
                              const struct dt_caller *caller, const struct dt_str *fields, size_t n);
/* Appends the cursor of a position, in the base64 alphabet for URLs. out->failed: out of memory. */
void dt_cursor_add(struct dt_strbuf *out, const struct dt_cursor_list *list, struct dt_str position);
/* Opens a cursor; *position is in the arena. False: the cursor is malformed or belongs to another list or caller, or
 * memory ran out. */
bool dt_cursor_parse(struct dt_arena *arena, const struct dt_cursor_list *list, struct dt_str text,
                     struct dt_str *position);
