/*
 * Serves the console: chooses the file, its form and the headers. The files are static and public; all data comes from
 * the REST API, with the user's token. Does not know what the files contain.
 *
 * The content security policy lets the page use only this origin, and run only its own files.
 */

#include "base/assert.h"
#include "console_files.h"
#include "handlers.h"

#define POLICY                                                                                                         \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "   \
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
#define FOR_EVER "public, max-age=31536000, immutable"

/* Removes the next element of a header's list, and returns it without surrounding white space. */
static struct dt_str next_element(struct dt_str *list, char separator)
{
    const char *at = list->n ? memchr(list->p, separator, list->n) : NULL;
    size_t n = at ? (size_t)(at - list->p) : list->n;
    struct dt_str element = {list->p, n};
    size_t skipped = at ? n + 1 : n;
    *list = (struct dt_str){list->p + skipped, list->n - skipped};
    return dt_str_trimmed(element);
}

/* Returns whether Accept-Encoding names this coding with a weight other than zero ("q=0", "q=0.000"). */
static bool accepts_coding(struct dt_str accepted, const char *coding)
{
    while (accepted.n) {
        struct dt_str element = next_element(&accepted, ',');
        struct dt_str name = next_element(&element, ';');
        if (!dt_str_is_caseless(name, coding))
            continue;
        struct dt_str weight = dt_str_trimmed(element);
        bool zero = weight.n >= 3 && (weight.p[0] == 'q' || weight.p[0] == 'Q') && weight.p[1] == '=';
        for (size_t i = 2; zero && i < weight.n; i++)
            zero = weight.p[i] == '0' || weight.p[i] == '.';
        return !zero;
    }
    return false;
}

static enum dt_next answer_file(struct dt_request *req, const struct dt_console_file *file)
{
    const struct dt_console_form *form = &file->plain;
    const char *coding = NULL;
    struct dt_str tags = req->if_none_match;
    bool known = false;
    while (tags.n && !known) { /* a weak tag matches, too (RFC 9110, 13.1.2) */
        struct dt_str tag = next_element(&tags, ',');
        if (tag.n > 2 && tag.p[0] == 'W' && tag.p[1] == '/')
            tag = (struct dt_str){tag.p + 2, tag.n - 2};
        known = dt_str_is(tag, "*") || dt_str_is(tag, file->etag);
    }
    req->status = known ? 304 : 200;
    req->reply_type = file->type;
    dt_request_header(req, "ETag", dt_str(file->etag));
    dt_request_header(req, "Cache-Control", file->lasting ? DT_STR_LIT(FOR_EVER) : DT_STR_LIT("no-cache"));
    dt_request_header(req, "Vary", DT_STR_LIT("Accept-Encoding"));
    dt_request_header(req, "Content-Security-Policy", DT_STR_LIT(POLICY));
    dt_request_header(req, "Referrer-Policy", DT_STR_LIT("no-referrer"));
    dt_request_header(req, "Cross-Origin-Opener-Policy", DT_STR_LIT("same-origin"));
    if (known)
        return DT_REPLY;
    if (file->brotli.bytes && accepts_coding(req->accept_encoding, "br")) {
        form = &file->brotli;
        coding = "br";
    } else if (file->gzip.bytes && accepts_coding(req->accept_encoding, "gzip")) {
        form = &file->gzip;
        coding = "gzip";
    }
    if (coding)
        dt_request_header(req, "Content-Encoding", dt_str(coding));
    dt_assert(form->bytes); /* each file has its plain form */
    dt_strbuf_add(&req->out, form->bytes, form->n);
    return DT_REPLY;
}

enum dt_next dt_handle_console(struct dt_request *req)
{
    const struct dt_str name = req->params[0].p ? req->params[0] : DT_STR_LIT("index.html");
    for (size_t i = 0; i < dt_console_n_files; i++)
        if (dt_str_is(name, dt_console_files[i].name))
            return answer_file(req, &dt_console_files[i]);
    dt_request_refuse(req, DT_PROBLEM_NOT_FOUND, "the console has no such file");
    return DT_REPLY;
}

enum dt_next dt_handle_console_moved(struct dt_request *req)
{
    req->status = 308;
    dt_request_header(req, "Location", DT_STR_LIT("/console/"));
    return DT_REPLY;
}
