/*
 * duetime-api: options, signals, and the only file that knows all parts. A part starts after the parts that it uses,
 * and ends before them:
 *
 *   chores -> topic cache, auth -> index writer -> committer, results, workers, waiting pops -> health -> http
 *
 * If MySQL is down, the parts start nevertheless; the API answers 503 until MySQL is up.
 */
#include <getopt.h>
#include <signal.h>
#include <time.h>

#include "api.h"
#include "base/assert.h"
#include "base/fail_point.h"
#include "base/http/tls_files.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/secrets.h"
#include "base/service.h"
#include "base/text/zone.h"
#include "features/clock/clock.h"
#include "features/doctor/process_findings.h"
#include "features/features.h"
#include "http/http_server.h"
#include "index/index.h"
#include "intake/batch.h"
#include "intake/batch_gate.h"
#include "intake/committer.h"
#include "intake/index_writer.h"
#include "intake/results_rest.h"
#include "mysql/db.h"
#include "pull/pop_room.h"
#include "request/auth.h"
#include "request/request.h"
#include "request/router.h"
#include "request/session.h"
#include "request/topic_cache.h"
#include "request/workers.h"
#include "rest/health.h"
#include "rest/overview_rest.h"
#include "store/store.h"
#include "token_commands.h"

#define DRAIN_US      INT64_C(10000000)
#define CUT_US        INT64_C(2000000) /* time for sending answers, once gates or workers have ended the waits */
#define AGAIN_US      INT64_C(1000000)
#define CHORE_THREADS 2

static const char help_text[] =
    "Usage: duetime-api [OPTION]...\n"
    "Takes jobs over HTTP, commits them to MySQL and answers questions about them.\n\n"
    "  --config FILE         read this INI file (the environment, DUETIME_<SECTION>_<KEY>, wins)\n"
    "  --check-config        check the configuration and exit\n"
    "  --print-config        print the effective configuration, secrets hidden, and exit\n"
    "  --migrate             bring the schema up to date and exit\n"
    "  --print-grants        print the least rights of the programs' accounts in MySQL and exit\n"
    "  --new-token NAME      create a bearer token, print it once and exit; needs --scopes\n"
    "    --scopes LIST       write,report,read,admin\n"
    "    --topics LIST       prefixes of the topics it may see; left out: all topics\n"
    "    --quotas LIST       such as jobs_per_second=100,pending_jobs=5000; also\n"
    "                        requests_per_second, payload_bytes_per_second\n"
    "  --list-tokens         name, scopes, topics and age of every token\n"
    "  --revoke-token NAME   takes effect within 5 s; without any token, every request is refused\n"
    "  --waive-tokens        require no token on the loopback again, until one is created;\n"
    "                        refused while a token exists\n"
    "  --help                this text\n"
    "  --version             the version\n\n"
    "SIGTERM finishes running requests and ends; SIGHUP reads the log level, secrets and the certificate again.\n";

enum command { SERVE, CHECK, PRINT, MIGRATE, GRANTS, NEW_TOKEN, LIST_TOKENS, REVOKE_TOKEN, WAIVE_TOKENS, ROUTES };

struct options {
    enum command command;
    unsigned commands; /* number of commands in the arguments */
    unsigned lists;    /* number of --scopes, --topics and --quotas in the arguments */
    const char *config;
    struct dt_command_token token;
};

/* ---- options ---- */

/* Reads the arguments. Returns the exit code; -1: the program continues. */
static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {{"config", required_argument, NULL, 'f'},
                                          {"check-config", no_argument, NULL, CHECK},
                                          {"print-config", no_argument, NULL, PRINT},
                                          {"migrate", no_argument, NULL, MIGRATE},
                                          {"print-grants", no_argument, NULL, GRANTS},
                                          {"new-token", required_argument, NULL, NEW_TOKEN},
                                          {"scopes", required_argument, NULL, 's'},
                                          {"topics", required_argument, NULL, 't'},
                                          {"quotas", required_argument, NULL, 'q'},
                                          {"list-tokens", no_argument, NULL, LIST_TOKENS},
                                          {"revoke-token", required_argument, NULL, REVOKE_TOKEN},
                                          {"waive-tokens", no_argument, NULL, WAIVE_TOKENS},
                                          {"print-routes", no_argument, NULL, ROUTES},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'V'},
                                          {NULL, 0, NULL, 0}};
    struct dt_command_token *token = &options->token;
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        const char **list = c == 's' ? &token->scopes : c == 't' ? &token->topics : c == 'q' ? &token->quotas : NULL;
        if (c == 'h') {
            fputs(help_text, stdout);
            return 0;
        }
        if (c == 'V') {
            puts("duetime-api " DUETIME_VERSION);
            return 0;
        }
        if (c == '?')
            return 2;
        if (c == 'f') {
            options->config = optarg;
        } else if (list) {
            *list = optarg;
            options->lists++;
        } else {
            options->command = (enum command)c;
            options->commands++;
            if (c == NEW_TOKEN || c == REVOKE_TOKEN)
                token->name = optarg;
        }
    }
    const unsigned lists = (token->scopes ? 1U : 0U) + (token->topics ? 1U : 0U) + (token->quotas ? 1U : 0U);
    if (optind < argc || options->commands > 1 || (options->command != NEW_TOKEN && options->lists > 0) ||
        options->lists > lists) {
        fputs("duetime-api: these options cannot be combined; see --help\n", stderr);
        return 2;
    }
    return -1;
}

/* ---- the parts ---- */

struct server {
    struct dt_config config;
    const char *config_file;
    dt_refclock ref;
    struct dt_session_env env;
    _Atomic int64_t answered_us; /* mono: when a session last got an answer from MySQL; env points to it */
    struct dt_budget memory;
    struct dt_activity activity;
    struct dt_api api;
    dt_router *router;
    dt_http *http;
    struct dt_config brief; /* configuration of the chores' connections */
    struct dt_store_source stores;
    dt_chores *urgent; /* runs only the health chore, because no other chore may block it */
    dt_chores *chores;
    dt_features *features;
    dt_watcher *watcher;
    dt_clock_follower *follower;
    bool loopback; /* the API listens only on the loopback and Unix sockets */
    /* Members below: for the messages to the service manager. */
    struct dt_service service;
    bool ready;
    int64_t alive_us; /* when the next keep-alive is due */
};

/* Ends waits of suspended requests whose deadline has passed. Usually the queues' own threads do this; here it is done
 * in case all of them hang. */
static void expire_waits(const struct dt_api *api, int64_t now_us)
{
    dt_workers_expire(api->workers, now_us);
    dt_committer_expire(api->committer, now_us);
    dt_results_batcher_expire(api->results, now_us);
    dt_gate_expire(api->job_gate, now_us);
    dt_gate_expire(api->result_gate, now_us);
}

/* Starts the runtimes of chores, and the thread that waits in MySQL for some of them. */
static dt_status start_runtimes(struct server *s, struct dt_error *err)
{
    const struct dt_chores_env urgent = {.name = "urgent", .threads = 1, .clock = s->api.clock};
    const struct dt_watcher_env watcher = {.config = &s->config, .clock = s->api.clock, .ref = &s->ref};
    struct dt_clock_follower_env follower = {.config = &s->config, .ref = &s->ref};
    dt_session_shorten(&s->brief, &s->config);
    s->stores = (struct dt_store_source){&s->brief, &s->ref};
    dt_status status = dt_chores_start(&urgent, &s->urgent, err);
    DT_THEN(status, dt_store_chores_start(&s->stores, s->api.clock, "chores", CHORE_THREADS, &s->chores, err));
    DT_THEN(status, dt_watcher_new(&watcher, &s->watcher, err));
    follower.watcher = s->watcher;
    DT_THEN(status, dt_clock_follower_new(&follower, &s->follower, err));
    return DT_THEN(status, dt_watcher_start(s->watcher, err));
}

static dt_status start_server_parts(struct server *s, struct dt_error *err)
{
    struct dt_api *api = &s->api;
    const dt_clock *clock = dt_clock_system();
    size_t n;
    const struct dt_route *routes = dt_routes(&n);
    dt_refclock_init(&s->ref, clock);
    api->config = &s->config;
    api->clock = clock;
    api->ref = &s->ref;
    api->memory = &s->memory;
    api->activity = &s->activity;
    s->env =
        (struct dt_session_env){.config = &s->config, .clock = clock, .ref = &s->ref, .answered_us = &s->answered_us};
    dt_budget_init(&s->memory, (size_t)s->config.limits_memory);
    dt_status status = dt_router_new(routes, n, &s->router);
    DT_THEN(status, start_runtimes(s, err));
    DT_THEN(status, dt_topic_cache_new(api->config, clock, &api->topics));
    DT_THEN(status, dt_overview_new(api, &api->overview));
    DT_THEN(status, dt_zone_files_new(NULL, &api->zones));
    DT_THEN(status, dt_quotas_start(&s->env, s->chores, &api->quotas, err));
    DT_THEN(status, dt_auth_new(!s->loopback, api->quotas, &api->auth));
    DT_THEN(status, dt_index_writer_start(&s->env, api->topics, &api->index, err));
    DT_THEN(status, dt_committer_start(&s->env, api->topics, api->index, &api->committer, err));
    DT_THEN(status, dt_results_batcher_start(&s->env, api->topics, api->index, &api->results, err));
    if (status != DT_OK)
        return status;
    const struct dt_gate_bounds jobs = {.chunk_rows = dt_committer_unit_rows(api->committer),
                                        .chunk_bytes = DT_BATCH_CHUNK_BYTES,
                                        .rows = (size_t)api->config->api_queue_jobs / 2,
                                        .bytes = (size_t)api->config->api_queue_bytes / 2};
    const struct dt_gate_bounds results = {.chunk_rows = dt_results_batcher_unit(api->results),
                                           .rows = DT_RESULTS_QUEUE / 2};
    struct dt_features_env features = {.chores = s->chores, .config = &s->config, .clock = clock, .ref = &s->ref};
    DT_THEN(status, dt_gate_new("jobs", &jobs, &api->job_gate));
    DT_THEN(status, dt_gate_new("results", &results, &api->result_gate));
    DT_THEN(status, dt_workers_start(&s->env, api->activity, &api->workers, err));
    DT_THEN(status, dt_pop_room_start(&s->env, api, &api->pops, err));
    DT_THEN(status, dt_health_start(&s->env, s->urgent, api->topics, api->auth, api->index, &api->health, err));
    if (status == DT_OK)
        features.process = dt_health_process(api->health);
    return DT_THEN(status, dt_features_start(&features, &s->features, err));
}

/* Stops the parts. Running requests may finish; queued elements are committed and answered; batches answer with the
 * outcomes so far; the HTTP server ends after the parts that answer requests. */
static void stop_server_parts(struct server *s)
{
    struct dt_api *api = &s->api;
    dt_features_leave(s->features);
    if (api->health)
        dt_health_drain(api->health);
    if (api->pops)
        dt_pop_room_close(api->pops);
    if (s->http)
        dt_http_drain(s->http, false, dt_clock_mono_us(api->clock) + DRAIN_US);
    if (api->job_gate)
        dt_gate_close(api->job_gate);
    if (api->result_gate)
        dt_gate_close(api->result_gate);
    if (s->http)
        dt_http_drain(s->http, true, dt_clock_mono_us(api->clock) + CUT_US);
    if (api->committer)
        dt_committer_stop(api->committer);
    if (api->results)
        dt_results_batcher_stop(api->results);
    if (api->workers)
        dt_workers_stop(api->workers);
    if (api->pops)
        dt_pop_room_stop(api->pops);
    if (s->http)
        dt_http_drain(s->http, true, dt_clock_mono_us(api->clock) + CUT_US);
    dt_http_stop(s->http);
    if (api->quotas)
        dt_quotas_stop(api->quotas);
    if (api->index)
        dt_index_writer_stop(api->index);
    if (api->health)
        dt_health_stop(api->health);
    dt_chores_cut(s->chores); /* ends statements of chores that wait in MySQL */
    dt_features_stop(s->features);
    dt_watcher_stop(s->watcher);
    dt_chores_stop(s->chores);
    dt_chores_stop(s->urgent);
}

static void free_server_parts(struct server *s)
{
    struct dt_api *api = &s->api;
    dt_health_free(api->health);
    dt_pop_room_free(api->pops);
    dt_workers_free(api->workers);
    dt_results_batcher_free(api->results);
    dt_gate_free(api->result_gate);
    dt_gate_free(api->job_gate);
    dt_committer_free(api->committer);
    dt_index_writer_free(api->index);
    dt_auth_free(api->auth);
    dt_quotas_free(api->quotas);
    dt_overview_free(api->overview);
    dt_topic_cache_free(api->topics);
    dt_clock_follower_free(s->follower);
    dt_watcher_free(s->watcher);
    dt_zone_files_free(api->zones);
    dt_tls_files_free(api->tls);
    dt_router_free(s->router);
}

/* ---- serving ---- */

static void print_migration(const char *name)
{
    fprintf(stderr, "applied %s\n", name);
}

static void log_migration(const char *name)
{
    DT_LOG(INFO, "main", "applied a migration", DT_S("name", name));
}

/* Applies migrations. UNAVAILABLE: try again later. Other statuses are permanent. */
static dt_status migrate_schema(const struct dt_config *config, void (*applied)(const char *name), struct dt_error *err)
{
    dt_store *store = NULL;
    dt_status status = dt_store_new(config, NULL, &store);
    DT_THEN(status, dt_store_migrate(store, applied, err));
    dt_store_free(store);
    return status;
}

/* Refuses to listen beyond the loopback without a token. */
static dt_status require_token_beyond_loopback(struct server *s, struct dt_error *err)
{
    if (s->loopback || !dt_auth_known(s->api.auth) || dt_auth_count(s->api.auth) > 0)
        return DT_OK;
    return dt_fail(err, DT_DENIED,
                   "no token exists, so the API listens only on the loopback and on Unix sockets: create a token with "
                   "--new-token, or set [http] listen to 127.0.0.1");
}

static void reload_config(struct server *s)
{
    struct dt_config config;
    struct dt_error err = {0};
    dt_service_reloading(&s->service, dt_clock_mono_us(s->api.clock));
    dt_status status = dt_config_load(&config, s->config_file, &err);
    if (status == DT_OK) {
        status = dt_secrets_renew(&s->config, &config);
        if (status == DT_OK) {
            dt_log_configure(config.log_level, config.log_format);
            dt_tls_files_renew(s->api.tls, &config);
        }
        dt_config_clear(&config);
    }
    if (status == DT_OK) {
        DT_LOG(INFO, "main", "reloaded the log level and secrets");
    } else {
        DT_LOG(WARN, "main", "the configuration was not reloaded", DT_S("error", err.text));
    }
    dt_service_reloaded(&s->service);
}

/* Notifies the service manager (base/service.h) when the API is ready: it accepts requests, and MySQL has the schema.
 * After that it notifies regularly, unless a thread of the HTTP server hangs. Returns when the next notification is due
 * (monotonic); INT64_MAX: the service manager expects none. */
static int64_t notify_service(struct server *s, int64_t now_us)
{
    int64_t pause_us = dt_service_pause_us(&s->service);
    struct dt_health_state state;
    if (!dt_service_heard(&s->service))
        return INT64_MAX;
    if (!s->ready) {
        dt_health_get(s->api.health, &state);
        s->ready = state.mysql == DT_OK;
        if (!s->ready) {
            dt_service_waits(&s->service, "waits for MySQL and its schema");
            return now_us + AGAIN_US;
        }
        dt_service_ready(&s->service);
        return now_us;
    }
    if (pause_us == INT64_MAX)
        return INT64_MAX;
    if (now_us >= s->alive_us) {
        if (dt_http_moves(s->http))
            dt_service_tell(&s->service, DT_SERVICE_ALIVE);
        else
            DT_LOG(ERROR, "main", "a thread of the HTTP server hangs: no keep-alive is sent to the service manager");
        s->alive_us = now_us + pause_us;
    }
    return s->alive_us;
}

/* Called if an assertion fails: stores a finding, which `duetime doctor` shows. */
static void report_failed_assertion(void *arg, const char *where, const char *what, int shard)
{
    const struct server *s = arg;
    if (s->api.health)
        dt_store_put_death(&s->config, dt_health_process(s->api.health), where, what, shard);
}

/* Waits for the signal that ends the process. Meanwhile, every second, retries what failed because MySQL was down. */
static dt_status wait_for_stop_signal(struct server *s, const sigset_t *set, bool migrate_later, struct dt_error *err)
{
    const bool broken = DT_FAIL_FORCED("api.broken"); /* lets a test reach report_failed_assertion */
    dt_assert(!broken);
    for (;;) {
        bool pending = migrate_later || (!s->loopback && !dt_auth_known(s->api.auth));
        int64_t now_us = dt_clock_mono_us(s->api.clock);
        int64_t until_us = notify_service(s, now_us);
        if (pending)
            until_us = dt_earlier(until_us, now_us + AGAIN_US);
        const int64_t left_us = dt_later(until_us - dt_clock_mono_us(s->api.clock), 0);
        const struct timespec pause = {left_us / 1000000, left_us % 1000000 * 1000};
        int sig = until_us == INT64_MAX ? sigwaitinfo(set, NULL) : sigtimedwait(set, NULL, &pause); /* -1: no signal */
        if (sig == SIGHUP)
            reload_config(s);
        if (sig == SIGTERM || sig == SIGINT) {
            DT_LOG(INFO, "main", "finishing running requests");
            dt_stop_bound(DT_STOP_SECONDS);
            dt_service_tell(&s->service, DT_SERVICE_STOPPING);
            return DT_OK;
        }
        dt_status status = migrate_later ? migrate_schema(&s->config, log_migration, err) : DT_OK;
        migrate_later = migrate_later && status == DT_UNAVAILABLE;
        if (status != DT_OK && status != DT_UNAVAILABLE)
            return status;
        status = require_token_beyond_loopback(s, err);
        if (status != DT_OK)
            return status;
    }
}

static dt_status read_certificate(const struct dt_config *config, dt_tls_files **out, struct dt_error *err)
{
    dt_status status = dt_tls_files_new(config, dt_clock_system(), out, err);
    if (status == DT_OK && !*out && dt_http_wants_tls(config))
        return dt_fail(err, DT_INVALID, "[http] listen: tls:… needs a certificate, tls_cert");
    return status;
}

static dt_status start_serving(struct server *s, bool *migrate_later, struct dt_error *err)
{
    dt_store *store = NULL;
    dt_log_configure(s->config.log_level, s->config.log_format);
    dt_status status = dt_http_is_local(s->config.http_listen, &s->loopback, err);
    DT_THEN(status, read_certificate(&s->config, &s->api.tls, err));
    DT_THEN(status, dt_db_library_init());
    if (status == DT_OK && s->config.api_migrate) {
        status = migrate_schema(&s->config, log_migration, err);
        *migrate_later = status == DT_UNAVAILABLE;
        status = *migrate_later ? DT_OK : status;
    }
    if (status == DT_OK) {
        /* If MySQL is down or lacks the schema, the API starts nevertheless; /readyz reports it (rest/health.h). */
        dt_status checked = dt_store_new(&s->config, NULL, &store);
        if (checked == DT_OK)
            checked = dt_store_check_test_clock(store, err);
        if (checked == DT_INVALID || checked == DT_NOMEM)
            status = checked;
    }
    dt_store_free(store);
    DT_THEN(status, start_server_parts(s, err));
    DT_THEN(status, require_token_beyond_loopback(s, err));
    DT_THEN(status, dt_http_start(&s->api, s->router, expire_waits, &s->http, err));
    return status;
}

static int run_server(struct server *s)
{
    struct dt_error err = {0};
    sigset_t set;
    bool migrate_later = false;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    dt_service_open(&s->service);
    dt_status status = start_serving(s, &migrate_later, &err);
    dt_assert_hook(report_failed_assertion, s);
    dt_metric_set(dt_gauge("duetime_build_info", "Always 1; the labels have the program and its version.",
                           "program=\"api\",version=\"" DUETIME_VERSION "\""),
                  1);
    DT_THEN(status, wait_for_stop_signal(s, &set, migrate_later, &err));
    if (status != DT_OK)
        DT_LOG(ERROR, "main", "cannot serve", DT_S("status", dt_status_name(status)),
               DT_S("error", err.text[0] ? err.text : dt_status_text(status)));
    dt_assert_hook(NULL, NULL);
    stop_server_parts(s);
    free_server_parts(s);
    DT_LOG(INFO, "main", "ended");
    dt_service_close(&s->service);
    return status == DT_OK ? 0 : 1;
}

/* ---- the other commands ---- */

/* Prints the words of the scopes of which a route needs one: "write|report"; "-" if it needs none. */
static void print_scopes(enum dt_scope scope)
{
    const bool any = scope == DT_SCOPE_ANY;
    const bool either = scope == DT_SCOPE_WRITE_OR_REPORT;
    const char *before = "";
    for (size_t i = 0; i < DT_SCOPE_WORDS; i++) {
        const enum dt_scope one = dt_scope_words[i].scope;
        if (!any && scope != one && !(either && one & (DT_SCOPE_WRITE | DT_SCOPE_REPORT)))
            continue;
        printf("%s%s", before, dt_scope_words[i].word);
        before = "|";
    }
    fputs(*before ? "" : "-", stdout);
}

static int run_command(struct server *s, const struct options *options)
{
    size_t n_routes;
    const struct dt_route *routes = dt_routes(&n_routes);
    struct dt_error err = {0};
    dt_status status;
    switch (options->command) {
    case CHECK: /* --check also reads the files of the certificate */
        if (read_certificate(&s->config, &s->api.tls, &err) != DT_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        dt_tls_files_free(s->api.tls);
        fputs("the configuration is fine\n", stderr);
        return 0;
    case PRINT:
        dt_config_print(&s->config, stdout);
        return 0;
    case MIGRATE:
        status = dt_db_library_init();
        if (status != DT_OK)
            status = dt_fail(&err, status, "the MySQL library cannot start");
        else
            status = migrate_schema(&s->config, print_migration, &err);
        if (status == DT_OK)
            fputs("the schema is up to date\n", stderr);
        else
            fprintf(stderr, "duetime-api: %s\n", err.text[0] ? err.text : dt_status_text(status));
        return status == DT_OK ? 0 : 1;
    case GRANTS:
        dt_store_print_grants(s->config.mysql_database, stdout);
        return 0;
    case NEW_TOKEN:
        return dt_command_new_token(&s->config, &options->token);
    case LIST_TOKENS:
        return dt_command_list_tokens(&s->config);
    case REVOKE_TOKEN:
        return dt_command_revoke_token(&s->config, options->token.name);
    case WAIVE_TOKENS:
        return dt_command_waive_tokens(&s->config);
    case ROUTES: /* tests/openapi.py compares the routes with openapi.yaml */
        for (size_t i = 0; i < n_routes; i++) {
            printf("%s %s ", routes[i].method, routes[i].path);
            print_scopes(routes[i].scope);
            printf(" %s\n", routes[i].query ? routes[i].query : "");
        }
        return 0;
    case SERVE:
        break;
    }
    return run_server(s);
}

int main(int argc, char **argv)
{
    struct options options = {.command = SERVE};
    struct dt_error err = {0};
    static struct server server;
    dt_streams_occupy();
    int code = DT_FAIL_POINTS_MAIN(argc, argv);
    if (code < 0)
        code = parse_options(argc, argv, &options);
    if (code >= 0)
        return dt_streams_end("duetime-api", code);
    server.config_file = options.config;
    if (dt_config_load(&server.config, options.config, &err) != DT_OK ||
        dt_index_check(&server.config, &err) != DT_OK) {
        fprintf(stderr, "duetime-api: %s\n", err.text);
        dt_config_clear(&server.config);
        return 1;
    }
    code = run_command(&server, &options);
    dt_config_clear(&server.config);
    return dt_streams_end("duetime-api", code);
}
