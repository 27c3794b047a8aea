/* See findings.h. */
#include "findings.h"

#include <stdio.h>
#include <string.h>

#include "base/text/timetext.h"

#define SKEW_MS    2500 /* what an API says of the time may be a second old */
#define PAGE(name) "deploy/runbook/" name ".md"

const struct dt_finding_text dt_finding_texts[DT_FINDINGS] = {
    [DT_FOUND_UNREACHED] = {"api-unreached", "error",
                            "No API answers there: it does not run, or the address is another one.",
                            "check DUETIME_URL or the context; on its machine: systemctl status duetime-api",
                            PAGE("way/api-unreached")},
    [DT_FOUND_NOT_DUETIME] =
        {"not-an-api", "error",
         "Something answers there that is no API of duetime, or one behind a proxy that is not well.",
         "check DUETIME_URL or the context", PAGE("way/not-an-api")},
    [DT_FOUND_TOKEN] =
        {"token-refused", "error",
         "There is no token, it is revoked, or it may not read what concerns all topics; the rest cannot be looked at.",
         "duetime-api --new-token NAME --scopes read, and its output into the file of --token-file",
         PAGE("way/token-refused")},
    [DT_FOUND_CLEAR_TOKEN] = {"token-in-the-clear", "warning",
                              "The token goes over the network unencrypted: whoever hears it can use it.",
                              "give the API a certificate ([http] tls_cert), and DUETIME_URL https://",
                              PAGE("way/token-in-the-clear")},
    [DT_FOUND_CERTIFICATE] = {"certificate-ends", "warning",
                              "When it has ended, no client that checks certificates is served.",
                              "renew the certificate of the server before the API", PAGE("way/certificate-ends")},
    [DT_FOUND_VERSION] = {"versions-differ", "warning",
                          "This program may ask for what the API does not know, and the other way round.",
                          "install the same version of both: duetime version", PAGE("way/versions-differ")},
    [DT_FOUND_CLOCK] = {"clock-skew", "warning",
                        "Times that are given as run_at mean something else here than there; delays are not concerned.",
                        "timedatectl status, here and on MySQL's machine", PAGE("way/clock-skew")},
    [DT_FOUND_DRAINING] = {"api-draining", "note", "This API process is about to end, and finishes what is under way.",
                           "systemctl status duetime-api", PAGE("processes/api-draining")},
    [DT_FOUND_MYSQL] =
        {"mysql-away", "error",
         "Nothing can be accepted or claimed; what was accepted is safe, and goes on when MySQL is back.",
         "systemctl status mariadb; mysqladmin ping, with the account of the API", PAGE("mysql/mysql-away")},
    [DT_FOUND_SCHEMA] = {"schema-differs", "error",
                         "The database has not the schema that the API was built for, so it takes no jobs.",
                         "duetime-api --migrate", PAGE("mysql/schema-differs")},
    [DT_FOUND_READ_ONLY] =
        {"mysql-read-only", "error", "MySQL takes no writes, so no job can be accepted or claimed.",
         "mysql -e 'SHOW VARIABLES LIKE \"read_only\"'; connect the API with the server that is the writer",
         PAGE("mysql/mysql-read-only")},
};

/* ---- members ---- */

static const struct dt_json_node *member(const dt_json *json, const struct dt_json_node *node, const char *name)
{
    return node && node->type == DT_JSON_OBJECT ? dt_json_member(json, node, name) : NULL;
}

static struct dt_str text(const dt_json *json, const struct dt_json_node *node, const char *name)
{
    const struct dt_json_node *m = member(json, node, name);
    return m && m->type == DT_JSON_STRING ? m->str : DT_STR_NONE;
}

/* ---- readiness ---- */

static enum dt_finding finding_of(struct dt_str mysql)
{
    return dt_str_is(mysql, "schema")      ? DT_FOUND_SCHEMA
           : dt_str_is(mysql, "read-only") ? DT_FOUND_READ_ONLY
                                           : DT_FOUND_MYSQL;
}

void dt_judge_readiness(const dt_json *json, const struct dt_json_node *root, dt_found_fn *found, void *arg)
{
    char detail[128];
    const struct dt_json_node *draining = member(json, root, "draining");
    struct dt_str mysql = text(json, root, "mysql");
    if (draining && draining->type == DT_JSON_BOOL && draining->b)
        found(arg, DT_FOUND_DRAINING, "it says so");
    if (!dt_str_is(mysql, "ok")) {
        snprintf(detail, sizeof(detail), "MySQL is %.*s", (int)(mysql.n < 64 ? mysql.n : 64), mysql.p ? mysql.p : "");
        found(arg, finding_of(mysql), detail);
    }
}

/* ---- the installation ---- */

static void judge_clock(const dt_json *json, const struct dt_json_node *root, int64_t before_ms, int64_t after_ms,
                        dt_found_fn *found, void *arg)
{
    char detail[128];
    int64_t now_ms = 0;
    if (dt_time_parse(text(json, root, "now"), &now_ms) != DT_OK)
        return;
    int64_t ahead = before_ms - now_ms;
    int64_t behind = now_ms - after_ms;
    if (ahead <= SKEW_MS && behind <= SKEW_MS)
        return;
    snprintf(detail, sizeof(detail), "this clock is %lld ms %s MySQL's", (long long)(ahead > behind ? ahead : behind),
             ahead > behind ? "ahead of" : "behind");
    found(arg, DT_FOUND_CLOCK, detail);
}

void dt_judge_info(const dt_json *json, const struct dt_json_node *root, int64_t before_ms, int64_t after_ms,
                   dt_found_fn *found, void *arg)
{
    char detail[128];
    struct dt_str version = text(json, root, "version");
    if (!dt_str_is(version, DUETIME_VERSION)) {
        snprintf(detail, sizeof(detail), "the API is %.*s, this program %s", (int)(version.n < 40 ? version.n : 40),
                 version.p ? version.p : "", DUETIME_VERSION);
        found(arg, DT_FOUND_VERSION, detail);
    }
    judge_clock(json, root, before_ms, after_ms, found, arg);
}
