/*
 * The text of next_cursor: where a list goes on, sealed. A caller can neither read it (the position may be what the
 * caller does not see) nor make one: it is encrypted and authenticated (AES-256-GCM) with a key that all API processes
 * of the installation share, and bound to its list, the filter and the caller's view. One that is used elsewhere does
 * not open. Pure: the key comes from the snapshot (topic_cache.h).
 */
#ifndef DT_API_CURSOR_H
#define DT_API_CURSOR_H

#include "auth.h"
#include "base/text/strbuf.h"
#include "store/store.h"

/* A list as somebody looks at it. A value; the key is copied. */
struct dt_cursor_list {
    unsigned char key[DT_CURSOR_KEY], digest[32];
};

/*
 * Names a list. kind: a letter for each list. fields: every part of the filter that decides what is in the list, each
 * at its own place (absent and empty differ), but not the limit. NOMEM.
 */
DT_MUST_CHECK dt_status dt_cursor_list_init(struct dt_cursor_list *list, const unsigned char key[DT_CURSOR_KEY],
                                            char kind, const struct dt_caller *caller, const struct dt_str *fields,
                                            size_t n);
/* Adds the sealed cursor in the alphabet of URLs. out->failed: memory is out. */
void dt_cursor_add(struct dt_strbuf *out, const struct dt_cursor_list *list, struct dt_str position);
/* Opens a cursor. False: it is none of this list for this caller, or memory is out. *position lives in the arena. */
bool dt_cursor_parse(struct dt_arena *arena, const struct dt_cursor_list *list, struct dt_str text,
                     struct dt_str *position);

#endif
