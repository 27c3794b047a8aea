/* The text of the status line and of the headers that every response has: see reply.h. */
#include "reply.h"

#include <time.h>

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {207, "Multi-Status"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
};

void dt_reply_date(int64_t real_ms, char out[DT_REPLY_DATE])
{
    const time_t seconds = (time_t)(real_ms / 1000);
    struct tm utc;
    if (!gmtime_r(&seconds, &utc) || strftime(out, DT_REPLY_DATE, "%a, %d %b %Y %H:%M:%S GMT", &utc) == 0)
        out[0] = '\0';
}

void dt_reply_add_header(struct dt_strbuf *out, struct dt_str name, struct dt_str value)
{
    dt_strbuf_add(out, name.p, name.n);
    dt_strbuf_adds(out, ": ");
    dt_strbuf_add(out, value.p, value.n);
    dt_strbuf_adds(out, "\r\n");
}

void dt_reply_add_head(struct dt_strbuf *out, const struct dt_reply *reply, size_t length, const char *connection,
                       const char *date)
{
    const char *reason = "Status"; /* reason phrase; clients use only the number */
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == reply->status)
            reason = reasons[i].reason;
    dt_strbuf_adds(out, "HTTP/1.1 ");
    dt_strbuf_add_i64(out, reply->status);
    dt_strbuf_addc(out, ' ');
    dt_strbuf_adds(out, reason);
    dt_strbuf_adds(out, "\r\n");
    if (date[0])
        dt_reply_add_header(out, DT_STR_LIT("Date"), dt_str(date));
    if (connection)
        dt_reply_add_header(out, DT_STR_LIT("Connection"), dt_str(connection));
    if (!dt_reply_is_bare(reply->status)) {
        dt_strbuf_adds(out, "Content-Length: ");
        dt_strbuf_add_i64(out, (int64_t)length);
        dt_strbuf_adds(out, "\r\n");
    }
    if (reply->type)
        dt_reply_add_header(out, DT_STR_LIT("Content-Type"), dt_str(reply->type));
    dt_strbuf_add(out, reply->headers.p, reply->headers.n);
    dt_strbuf_adds(out, "\r\n");
}
