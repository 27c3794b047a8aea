/* Implements the part of commands.h that works on rows of command_offsets outside of the transaction that raises the
 * offsets, and on rows that store answers. */

#include "base/text/encoding.h"
#include "base/text/json.h"
#include "base/text/json_write.h"
#include "commands.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

/* State while rows are read into the places (offsets of partitions). Rows and places are both sorted by partition. */
struct reading {
    dt_db *db;
    struct dt_command_place *v;
    size_t n, at;
};

void dt_command_digest(struct dt_str key, struct dt_str value, int64_t timestamp_ms, unsigned char digest[16])
{
    const struct dt_str time = {(const char *)&timestamp_ms, sizeof(timestamp_ms)};
    memset(digest, 0, 16);
    dt_job_digest_add(digest, time);
    dt_job_digest_add(digest, key);
    dt_job_digest_add(digest, value);
}

static dt_status read_partition_offset(void *arg)
{
    struct reading *r = arg;
    while (r->at < r->n && r->v[r->at].partition != dt_db_i64(r->db, 0))
        r->at++;
    if (r->at == r->n)
        return DT_OK;
    struct dt_command_place *place = &r->v[r->at];
    struct dt_str digest = dt_db_bytes(r->db, 3);
    bool known = !dt_db_is_null(r->db, 2) && digest.n == sizeof(place->digest);
    place->next = dt_db_i64(r->db, 1);
    place->halted = !dt_db_is_null(r->db, 4);
    place->last = known ? dt_db_i64(r->db, 2) : -1;
    if (known)
        memcpy(place->digest, digest.p, digest.n);
    return DT_OK;
}

dt_status dt_store_command_places(dt_store *store, struct dt_command_place *v, size_t n, struct dt_error *err)
{
    dt_db *db;
    unsigned tries = 0;
    dt_status status;
    do {
        for (size_t i = 0; i < n; i++)
            v[i].next = v[i].last = -1;
        status = dt_store_db(store, &db, err);
        if (status != DT_OK)
            return status;
        struct reading reading = {.db = db, .v = v, .n = n};
        int64_t ids[DT_ID_IN_MOST];
        for (size_t from = 0; from < n && status == DT_OK; from += DT_ID_IN_MOST) {
            size_t some = n - from < DT_ID_IN_MOST ? n - from : DT_ID_IN_MOST;
            for (size_t i = 0; i < some; i++)
                ids[i] = v[from + i].partition;
            status = dt_id_in_read(db, &dt_sql_select_command_offsets, DT_NO_PARAMS, DT_IDS(ids, some),
                                   read_partition_offset, &reading, err);
        }
        for (size_t i = 0; i < n && status == DT_OK; i++) /* inserts a row for each partition that has none */
            if (v[i].next < 0)
                status = dt_db_run(db, dt_sql_insert_command_offset,
                                   DT_PARAMS(DT_P_INT(v[i].partition), DT_P_INT(0), DT_P_INT(0)), NULL, err);
    } while (dt_store_read_again(&tries, status));
    for (size_t i = 0; i < n; i++)
        v[i].next = v[i].next < 0 ? 0 : v[i].next;
    return status;
}

dt_status dt_store_halt_commands(dt_store *store, const struct dt_command_place *place, const char *reason,
                                 struct dt_error *err)
{
    dt_db *db;
    int64_t now_ms = 0;
    dt_status status = dt_store_begin(store, &db, &now_ms, err);
    DT_THEN(status, dt_db_run(db, dt_sql_halt_commands,
                              DT_PARAMS(DT_P_STR_OR_NULL(dt_str(reason)), DT_P_INT(now_ms), DT_P_INT(place->partition),
                                        DT_P_INT(place->next)),
                              NULL, err));
    return dt_store_commit(db, status, err);
}

/* A row has a JSON text with answers of one batch: those that are about one topic, and are sent to one Kafka topic. So
 * even for many messages there is only a statement for each million bytes, and a row waits for only one Kafka topic.
 * The rows for a Kafka topic have the order of the messages. */

#define ROW_BYTES ((size_t)1 << 20) /* most bytes of a row, or a quarter of MySQL's limit if that is less */

static void add_answer_bytes(struct dt_strbuf *out, const char *name, struct dt_str bytes)
{
    if (bytes.p)
        dt_json_put_base64(out, name, bytes);
    else
        dt_json_put_null(out, name);
}

static void add_answer_json(struct dt_strbuf *out, const struct dt_command_answer *a)
{
    if (out->n == 0)
        dt_json_begin_array(out, NULL);
    dt_json_begin_object(out, NULL);
    dt_json_put_string(out, "topic", a->topic);
    add_answer_bytes(out, "key", a->key);
    add_answer_bytes(out, "value", a->value);
    dt_json_begin_array(out, "headers");
    for (size_t i = 0; i < a->n_headers; i++) {
        dt_json_begin_array(out, NULL);
        add_answer_bytes(out, NULL, a->headers[i].name);
        add_answer_bytes(out, NULL, a->headers[i].value);
        dt_json_end_array(out);
    }
    dt_json_end_array(out);
    dt_json_end_object(out);
}

/* Sorts answers by the Kafka topic to which they are sent. The answers to one Kafka topic keep their order. */
static int answers_by_topic(const void *a, const void *b)
{
    const struct dt_command_answer *x = *(const struct dt_command_answer *const *)a;
    const struct dt_command_answer *y = *(const struct dt_command_answer *const *)b;
    const int order = dt_str_order(x->topic, y->topic);
    return order ? order : DT_ORDER(x, y);
}

/* Ends the text of a row, and adds the row to the list of rows. */
static void add_row_json(struct dt_strbuf *list, const struct dt_command_answer *a, struct dt_strbuf *text)
{
    dt_json_end_array(text);
    if (list->n == 0)
        dt_json_begin_array(list, NULL);
    dt_json_begin_array(list, NULL);
    dt_json_put_string(list, NULL, a->of_topic.p ? a->of_topic : DT_STR_LIT("")); /* NULL is not allowed in the
                                                                                   * column */
    dt_json_put_string(list, NULL, a->topic);
    dt_json_put_string(list, NULL, dt_strbuf_str(text));
    dt_json_end_array(list);
    list->failed |= text->failed;
    dt_strbuf_reset(text);
}

dt_status dt_command_answers_insert(dt_db *db, struct dt_arena *arena, int32_t partition, int64_t now_ms,
                                    const struct dt_command_answers *answers, struct dt_error *err)
{
    struct dt_strbuf list = {0};
    struct dt_strbuf text = {0};
    const size_t quarter = dt_db_packet_max(db) / 4;
    const size_t most = quarter < ROW_BYTES ? quarter : ROW_BYTES;
    dt_status status = DT_OK;
    const struct dt_command_answer **v = dt_arena_alloc(arena, (answers->n + 1) * sizeof(*v));
    if (!v)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < answers->n; i++)
        v[i] = &answers->v[i];
    qsort(v, answers->n, sizeof(*v), answers_by_topic);
    for (size_t i = 0; i < answers->n && status == DT_OK; i++) {
        const bool last = i + 1 == answers->n;
        add_answer_json(&text, v[i]);
        if (last || text.n >= most || !dt_str_eq(v[i]->topic, v[i + 1]->topic) ||
            !dt_str_eq(v[i]->of_topic, v[i + 1]->of_topic))
            add_row_json(&list, v[i], &text);
        if (list.n == 0 || (!last && list.n < most))
            continue;
        dt_strbuf_addc(&list, ']');
        status = dt_db_run(db, dt_sql_insert_command_answers,
                           DT_PARAMS(DT_P_INT(partition), DT_P_INT(now_ms), DT_P_BUF(&list)), NULL, err);
        dt_strbuf_reset(&list);
    }
    dt_strbuf_clear(&list);
    dt_strbuf_clear(&text);
    return status;
}

struct reading_answers {
    dt_db *db;
    dt_json *json;
    struct dt_arena *arena;
    struct dt_command_answers *out;
    size_t room;
    int64_t row;
    struct dt_error *err;
};

/* Returns the decoded bytes. Absent: null, or a value that a manual edit broke. */
static struct dt_str read_bytes(const struct reading_answers *r, const struct dt_json_node *node)
{
    if (!node || node->type != DT_JSON_STRING)
        return DT_STR_NONE;
    char *bytes = dt_arena_alloc(r->arena, dt_base64_decoded_max(node->str.n) + 1);
    struct dt_str out = {bytes, 0};
    return bytes && dt_base64_decode(node->str, bytes, &out.n) ? out : DT_STR_NONE;
}

static dt_status read_stored_answer(struct reading_answers *r, const struct dt_json_node *node)
{
    const struct dt_json_node *topic = dt_json_member(r->json, node, "topic");
    if (!topic || topic->type != DT_JSON_STRING)
        return DT_OK;
    if (r->out->n == r->room) {
        const size_t room = r->room ? 2 * r->room : 64;
        struct dt_command_answer *v = dt_arena_alloc(r->arena, room * sizeof(*v));
        if (!v)
            return DT_NOMEM;
        if (r->out->n)
            memcpy(v, r->out->v, r->out->n * sizeof(*v));
        r->out->v = v;
        r->room = room;
    }
    struct dt_command_answer *a = &r->out->v[r->out->n++];
    *a = (struct dt_command_answer){.row = r->row,
                                    .topic = dt_arena_copy(r->arena, topic->str),
                                    .key = read_bytes(r, dt_json_member(r->json, node, "key")),
                                    .value = read_bytes(r, dt_json_member(r->json, node, "value"))};
    if (!a->topic.p)
        return DT_NOMEM;
    const struct dt_json_node *list = dt_json_member(r->json, node, "headers");
    if (!list)
        return DT_OK;
    struct dt_message_header *headers = dt_arena_alloc(r->arena, (list->n + 1) * sizeof(*headers));
    if (!headers)
        return DT_NOMEM;
    a->headers = headers;
    for (const struct dt_json_node *i = dt_json_first(r->json, list); i; i = dt_json_sibling(r->json, list, i)) {
        const struct dt_json_node *name = dt_json_first(r->json, i);
        const struct dt_json_node *value = name ? dt_json_sibling(r->json, i, name) : NULL;
        headers[a->n_headers++] = (struct dt_message_header){read_bytes(r, name), read_bytes(r, value)};
    }
    return DT_OK;
}

/* If a manual edit broke the text of a row, the row can never be sent, so it counts as sent. */
static dt_status read_answers_row(void *arg)
{
    struct reading_answers *r = arg;
    struct dt_json_limits limits = {.depth = 8};
    r->row = dt_db_i64(r->db, 0);
    struct dt_str text = dt_arena_copy(r->arena, dt_db_bytes(r->db, 1));
    dt_status status = text.p ? dt_json_parse(r->json, text, &limits, NULL) : DT_NOMEM;
    if (status != DT_OK)
        return status == DT_NOMEM ? dt_fail(r->err, status, "out of memory") : DT_OK;
    const struct dt_json_node *root = dt_json_root(r->json);
    for (const struct dt_json_node *i = dt_json_first(r->json, root); i && status == DT_OK;
         i = dt_json_sibling(r->json, root, i))
        status = i->type == DT_JSON_OBJECT ? read_stored_answer(r, i) : DT_OK;
    return status == DT_OK ? status : dt_fail(r->err, status, "out of memory");
}

dt_status dt_store_read_command_answers(dt_store *store, dt_json *json, const int64_t *rows, size_t n,
                                        struct dt_arena *arena, struct dt_command_answers *out, struct dt_error *err)
{
    struct reading_answers r = {.json = json, .arena = arena, .out = out, .err = err};
    *out = (struct dt_command_answers){0};
    dt_status status = n ? dt_store_db(store, &r.db, err) : DT_OK;
    return n && status == DT_OK ? dt_id_in_read(r.db, &dt_sql_select_command_answers, DT_NO_PARAMS, DT_IDS(rows, n),
                                                read_answers_row, &r, err)
                                : status;
}
