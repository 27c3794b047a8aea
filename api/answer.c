/* Shared by the handlers: see answer.h. */
#include "answer.h"

#include <stdatomic.h>

#include "base/base64.h"
#include "job/result_json.h"
#include "scratch.h"

struct dt_job_rules dt_answer_rules(const struct dt_api *api, const struct dt_view *view)
{
    const struct dt_config *config = api->config;
    return (struct dt_job_rules){
        .max_delay_ms = config->limits_max_delay,
        .payload_max = (size_t)config->limits_payload,
        .headers_max = (size_t)config->limits_headers,
        .json_depth = (unsigned)config->limits_json_depth,
        .installation = dt_str(view ? view->installation.name : config->installation_name),
    };
}

dt_json *dt_answer_parse(struct dt_request *req, const struct dt_job_rules *rules, const struct dt_json_node **root)
{
    struct dt_error err = {0};
    struct dt_json_limits limits = dt_job_json_limits(rules, 0);
    dt_json *json = dt_scratch_json();
    dt_status status = json ? dt_json_parse(json, req->body, &limits, &err) : DT_NOMEM;
    if (status != DT_OK) {
        dt_answer_status(req, status, NULL, &err);
        return NULL;
    }
    *root = dt_json_root(json);
    return json;
}

bool dt_answer_id(struct dt_request *req, int64_t *id)
{
    if (dt_job_id_parse(req->params[0], id))
        return true;
    dt_answer_not_found(req, "job");
    return false;
}

bool dt_answer_clock(struct dt_request *req)
{
    if (atomic_load_explicit(&req->api->ref->taken_us, memory_order_relaxed) != 0)
        return true;
    dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "MySQL has not been reached yet");
    return false;
}

enum dt_next dt_answer_faults(struct dt_request *req, dt_status status, const struct dt_faults *faults)
{
    struct dt_problem problem = {.type = dt_problem_of_status(status), .faults = faults};
    if (status == DT_INVALID)
        problem.detail = DT_STR_LIT("see errors for each member that is wrong");
    dt_request_problem(req, &problem);
    return DT_REPLY;
}

/* Texts of the client library may name hosts and users: only what is about the request itself goes out. */
static struct dt_str detail_of(dt_status status, const struct dt_error *err)
{
    bool about_the_request = status == DT_MALFORMED || status == DT_INVALID || status == DT_TOO_LARGE;
    return dt_str(about_the_request && err && err->text[0] ? err->text : dt_status_text(status));
}

enum dt_next dt_answer_status(struct dt_request *req, dt_status status, const struct dt_job *job,
                              const struct dt_error *err)
{
    struct dt_problem problem = {.type = dt_problem_of_status(status), .detail = detail_of(status, err)};
    if (status == DT_TOO_LATE || status == DT_NOT_DEAD || status == DT_VERSION)
        problem.job = job;
    if (job)
        problem.id = job->id;
    dt_request_problem(req, &problem);
    return DT_REPLY;
}

enum dt_next dt_answer_not_found(struct dt_request *req, const char *what)
{
    dt_request_refuse(req, DT_PROBLEM_NOT_FOUND, "no such %s", what);
    return DT_REPLY;
}

static void add_number_header(struct dt_request *req, const char *name, const char *before, int64_t n,
                              const char *after)
{
    char text[64];
    int length = snprintf(text, sizeof(text), "%s%lld%s", before, (long long)n, after);
    dt_request_header(req, name, (struct dt_str){text, (size_t)length});
}

enum dt_next dt_answer_job(struct dt_request *req, int status, const struct dt_job *job, const struct dt_job_view *view)
{
    req->status = status;
    dt_strbuf_reset(&req->out);
    dt_job_add(&req->out, job, view);
    add_number_header(req, "ETag", "\"", job->version, "\"");
    if (status == 201)
        add_number_header(req, "Location", "/v1/jobs/", job->id, "");
    return DT_REPLY;
}

/* ---- cursors: base64 in the alphabet of URLs, without padding ---- */

#define CURSOR_HEAD 9 /* kind, hash */

void dt_cursor_add(struct dt_strbuf *out, char kind, uint64_t list, struct dt_str position)
{
    struct dt_strbuf raw;
    dt_strbuf_init(&raw);
    dt_strbuf_addc(&raw, kind);
    dt_strbuf_add(&raw, &list, sizeof(list));
    dt_strbuf_add(&raw, position.p, position.n);
    size_t start = out->n;
    if (!raw.failed)
        dt_base64_add(out, dt_strbuf_str(&raw));
    out->failed = out->failed || raw.failed;
    dt_strbuf_clear(&raw);
    while (!out->failed && out->n > start && out->p[out->n - 1] == '=')
        out->p[--out->n] = '\0';
    for (size_t i = start; !out->failed && i < out->n; i++)
        out->p[i] = out->p[i] == '+' ? '-' : out->p[i] == '/' ? '_' : out->p[i];
}

bool dt_cursor_parse(struct dt_arena *arena, struct dt_str text, char kind, uint64_t list, struct dt_str *position)
{
    size_t padded = (text.n + 3) / 4 * 4, n = 0;
    char *quads = dt_arena_alloc(arena, padded + 1), *raw = dt_arena_alloc(arena, dt_base64_decoded_max(padded) + 1);
    if (!quads || !raw || text.n == 0)
        return false;
    for (size_t i = 0; i < padded; i++) {
        char c = i < text.n ? text.p[i] : '=';
        quads[i] = c == '-' ? '+' : c == '_' ? '/' : c;
    }
    if (!dt_base64_decode((struct dt_str){quads, padded}, raw, &n) || n < CURSOR_HEAD)
        return false;
    if (raw[0] != kind || memcmp(raw + 1, &list, sizeof(list)) != 0)
        return false;
    *position = (struct dt_str){raw + CURSOR_HEAD, n - CURSOR_HEAD};
    return true;
}

bool dt_answer_limit(const struct dt_request *req, struct dt_faults *faults, unsigned *limit)
{
    struct dt_str text = dt_request_query(req, "limit");
    *limit = 100;
    if (!text.p)
        return true;
    unsigned n = 0;
    for (size_t i = 0; i < text.n && n <= 1000; i++)
        n = text.p[i] >= '0' && text.p[i] <= '9' ? n * 10 + (unsigned)(text.p[i] - '0') : 10000;
    if (text.n > 0 && n >= 1 && n <= 1000) {
        *limit = n;
        return true;
    }
    dt_faults_add_query(faults, DT_STR_LIT("limit"), "must be a whole number from 1 to 1000");
    return false;
}
