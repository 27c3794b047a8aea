/*
 * Owns how the console is served: which file, in which form, with which headers. Its files are static and public; what
 * it shows, it asks of the REST API with the token of whoever looks. Refuses to know what is in the files.
 *
 * The policy lets the page load from and speak to this origin only, and run no code but its own files.
 */
#include <string.h>

#include "console_files.h"
#include "handlers.h"

#define POLICY                                                                                                         \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "   \
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
#define FOR_EVER "public, max-age=31536000, immutable"

static const struct dt_console_file *file_named(struct dt_str name)
{
    for (size_t i = 0; i < dt_console_n_files; i++)
        if (dt_str_is(name, dt_console_files[i].name))
            return &dt_console_files[i];
    return NULL;
}

/* Cuts the next element of a header's list off, trimmed. */
static struct dt_str next_element(struct dt_str *list, char separator)
{
    const char *at = list->n ? memchr(list->p, separator, list->n) : NULL;
    size_t n = at ? (size_t)(at - list->p) : list->n;
    struct dt_str element = {list->p, n};
    size_t skipped = at ? n + 1 : n;
    *list = (struct dt_str){list->p + skipped, list->n - skipped};
    return dt_str_trimmed(element);
}

/* Says whether a weight is none at all: "q=0", "q=0.000". */
static bool is_refusal(struct dt_str weight)
{
    if (weight.n < 3 || (weight.p[0] != 'q' && weight.p[0] != 'Q') || weight.p[1] != '=')
        return false;
    for (size_t i = 2; i < weight.n; i++)
        if (weight.p[i] != '0' && weight.p[i] != '.')
            return false;
    return true;
}

/* Says whether Accept-Encoding names this coding, and does not refuse it. */
static bool takes(struct dt_str accepted, const char *coding)
{
    while (accepted.n) {
        struct dt_str element = next_element(&accepted, ',');
        struct dt_str name = next_element(&element, ';');
        if (dt_str_is_caseless(name, coding))
            return !is_refusal(dt_str_trimmed(element));
    }
    return false;
}

/* Says whether If-None-Match names this tag; weak ones match, too (RFC 9110, 13.1.2). */
static bool is_known(struct dt_str tags, const char *etag)
{
    while (tags.n) {
        struct dt_str tag = next_element(&tags, ',');
        if (tag.n > 2 && tag.p[0] == 'W' && tag.p[1] == '/')
            tag = (struct dt_str){tag.p + 2, tag.n - 2};
        if (dt_str_is(tag, "*") || dt_str_is(tag, etag))
            return true;
    }
    return false;
}

static void add_form(struct dt_request *req, const struct dt_console_file *file)
{
    const struct dt_console_form *form = &file->plain;
    const char *coding = NULL;
    if (file->brotli.bytes && takes(req->accept_encoding, "br")) {
        form = &file->brotli;
        coding = "br";
    } else if (file->gzip.bytes && takes(req->accept_encoding, "gzip")) {
        form = &file->gzip;
        coding = "gzip";
    }
    if (coding)
        dt_request_header(req, "Content-Encoding", dt_str(coding));
    dt_strbuf_add(&req->out, form->bytes, form->n);
}

static enum dt_next answer_file(struct dt_request *req, const struct dt_console_file *file)
{
    bool known = is_known(req->if_none_match, file->etag);
    req->status = known ? 304 : 200;
    req->reply_type = file->type;
    dt_request_header(req, "ETag", dt_str(file->etag));
    dt_request_header(req, "Cache-Control", file->lasting ? DT_STR_LIT(FOR_EVER) : DT_STR_LIT("no-cache"));
    dt_request_header(req, "Vary", DT_STR_LIT("Accept-Encoding"));
    dt_request_header(req, "Content-Security-Policy", DT_STR_LIT(POLICY));
    dt_request_header(req, "Referrer-Policy", DT_STR_LIT("no-referrer"));
    dt_request_header(req, "Cross-Origin-Opener-Policy", DT_STR_LIT("same-origin"));
    if (!known)
        add_form(req, file);
    return DT_REPLY;
}

enum dt_next dt_handle_console(struct dt_request *req)
{
    return answer_file(req, file_named(DT_STR_LIT("index.html")));
}

enum dt_next dt_handle_console_file(struct dt_request *req)
{
    const struct dt_console_file *file = file_named(req->params[0]);
    if (file)
        return answer_file(req, file);
    dt_request_refuse(req, DT_PROBLEM_NOT_FOUND, "the console has no such file");
    return DT_REPLY;
}

enum dt_next dt_handle_console_moved(struct dt_request *req)
{
    req->status = 308;
    dt_request_header(req, "Location", DT_STR_LIT("/console/"));
    return DT_REPLY;
}
