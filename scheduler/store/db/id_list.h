/*
 * A list of ids as the one parameter of statements that join JSON_TABLE(?, '$[*]' …): begins empty, grows by one id at
 * a time, is ended once. A failed allocation shows in list->failed. For store/ only.
 */
#ifndef DT_STORE_ID_LIST_H
#define DT_STORE_ID_LIST_H

#include "base/strbuf.h"

static inline void dt_id_list_add(struct dt_strbuf *list, int64_t id)
{
    dt_strbuf_addc(list, list->n ? ',' : '[');
    dt_strbuf_add_i64(list, id);
}

static inline void dt_id_list_end(struct dt_strbuf *list)
{
    dt_strbuf_adds(list, list->n ? "]" : "[]");
}

#endif
