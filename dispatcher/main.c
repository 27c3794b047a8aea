/* duetime-dispatcher: options, signals, and one dispatcher. */
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/log.h"
#include "base/secrets.h"
#include "base/service.h"
#include "base/thread.h"
#include "deliver/kafka/kafka.h"
#include "dispatcher.h"
#include "index/index.h"
#include "metrics_server.h"
#include "mysql/db.h"

#define SLICE_NS 100000 /* shortest time slice that Linux's scheduler accepts */

struct options {
    const char *config;
    int check, print, reference, sample, acls;
};

static void print_usage(FILE *out)
{
    fputs("usage: duetime-dispatcher [--config FILE]\n"
          "Leads shards: forwards due jobs to Kafka, applies results, keeps the Redis index in step with MySQL.\n\n"
          "  --config FILE    read settings from an INI file; DUETIME_<SECTION>_<KEY> in the environment wins\n"
          "  --check-config   check the settings and exit\n"
          "  --print-config   print the settings in force (secrets hidden) and exit\n"
          "  --print-acls     print the least rights of a dispatcher in Kafka and exit\n"
          "  --config-reference   print the reference of every key (Markdown) and exit\n"
          "  --config-sample  print a file to begin with, every key in it explained, and exit\n"
          "  --version, --help\n",
          out);
}

/* Reads the options. False: the program should end with *code. */
static bool parse_options(int argc, char **argv, struct options *o, int *code)
{
    const struct option table[] = {{"config", required_argument, NULL, 'c'},
                                   {"check-config", no_argument, &o->check, 1},
                                   {"print-config", no_argument, &o->print, 1},
                                   {"config-reference", no_argument, &o->reference, 1},
                                   {"config-sample", no_argument, &o->sample, 1},
                                   {"print-acls", no_argument, &o->acls, 1},
                                   {"version", no_argument, NULL, 'v'},
                                   {"help", no_argument, NULL, 'h'},
                                   {NULL, 0, NULL, 0}};
    int c;
    while ((c = getopt_long(argc, argv, "c:h", table, NULL)) != -1) {
        switch (c) {
        case 0: /* a flag that getopt has set */
            break;
        case 'c':
            o->config = optarg;
            break;
        case 'v':
            puts("duetime-dispatcher " DUETIME_VERSION);
            *code = EXIT_SUCCESS;
            return false;
        case 'h':
            print_usage(stdout);
            *code = EXIT_SUCCESS;
            return false;
        default:
            print_usage(stderr);
            *code = 2;
            return false;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "duetime-dispatcher: unexpected argument '%s'\n", argv[optind]);
        *code = 2;
        return false;
    }
    return true;
}

static uint64_t random_number(void)
{
    uint64_t number = 0;
    while (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        ;
    return number >> 1; /* not negative, so that it fits a signed column */
}

/* ---- signals: one thread waits for them; there are no asynchronous handlers ---- */

struct signals {
    sigset_t set;
    dt_dispatcher *dispatcher;
    const char *file;
    const struct dt_config *config;
    struct dt_service service;
};

static void reload_settings(const char *file, const struct dt_config *running)
{
    struct dt_config config;
    struct dt_error err = {0};
    if (dt_config_load(&config, file, &err) != DT_OK) {
        DT_LOG(ERROR, "main", "reload failed: the running settings are kept", DT_S("reason", err.text));
        return;
    }
    dt_log_configure(config.log_level, config.log_format);
    if (dt_secrets_renew(running, &config) != DT_OK)
        DT_LOG(ERROR, "main", "no memory for new secrets: the old ones stay");
    if (dt_kafka_renew(running, &config, &err) != DT_OK)
        DT_LOG(ERROR, "main", "the settings of Kafka are not changed", DT_S("reason", err.text));
    dt_config_clear(&config);
    DT_LOG(INFO, "main", "reloaded the log level and secrets");
}

static void wait_for_signals(void *arg)
{
    struct signals *s = arg;
    bool stopping = false;
    int number;
    while (sigwait(&s->set, &number) == 0) {
        if (number == SIGHUP) {
            dt_service_reloading(&s->service, dt_clock_mono_us(dt_clock_system()));
            reload_settings(s->file, s->config);
            dt_service_reloaded(&s->service);
        } else if (number == SIGUSR1) { /* a thread of this process sends it when the dispatcher has ended by itself */
            break;
        } else {
            if (!stopping)
                dt_stop_bound(DT_STOP_SECONDS);
            stopping = true;
            dt_service_tell(&s->service, DT_SERVICE_STOPPING);
            dt_dispatcher_stop(s->dispatcher);
        }
    }
}

static dt_status serve_until_signal(const struct dt_config *config, struct signals *signals, struct dt_error *err)
{
    struct dt_thread thread = {0};
    dt_metrics_server *metrics = NULL;
    uint16_t port = 0;
    dt_status status = dt_db_library_init();
    DT_THEN(status, dt_dispatcher_new(config, dt_clock_system(), random_number, &signals->dispatcher, err));
    if (status != DT_OK)
        return status;
    dt_assert_hook(dt_dispatcher_died, signals->dispatcher);
    dt_dispatcher_tells(signals->dispatcher, &signals->service);
    status = dt_metrics_server_start(config->dispatch_metrics_listen, (uint16_t)config->dispatch_metrics_port, &port,
                                     &metrics, err);
    DT_THEN(status, dt_thread_start(&thread, "signals", wait_for_signals, signals, err));
    if (status == DT_OK) {
        DT_LOG(INFO, "main", "started", DT_S("version", DUETIME_VERSION), DT_I("pid", getpid()),
               DT_I("metrics_port", port));
        status = dt_dispatcher_run(signals->dispatcher, err);
        pthread_kill(thread.id, SIGUSR1);
        dt_thread_join(&thread);
    }
    dt_metrics_server_stop(metrics);
    dt_assert_hook(NULL, NULL);
    dt_dispatcher_free(signals->dispatcher);
    return status;
}

static int run_dispatcher(const struct dt_config *config, const char *file)
{
    struct { /* like the kernel's sched_attr, which not every C library declares */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } attr = {.size = sizeof(attr), .policy = SCHED_OTHER, .runtime_ns = SLICE_NS};
    struct signals signals = {.file = file, .config = config};
    struct dt_error err = {0};
    dt_log_configure(config->log_level, config->log_format);
    if (setpriority(PRIO_PROCESS, 0, (int)config->dispatch_priority) != 0)
        DT_LOG(INFO, "main", "the scheduling priority could not be changed", DT_I("asked", config->dispatch_priority));
    /* A batch is many short steps, each after a wake-up. With a short time slice the process gets a core sooner, but
     * not more of its time (Linux 6.12 and later; older kernels ignore it). Threads inherit the setting. A scheduling
     * policy that was set from outside is kept. */
    attr.nice = getpriority(PRIO_PROCESS, 0);
    if (sched_getscheduler(0) == SCHED_OTHER && syscall(SYS_sched_setattr, 0, &attr, 0) != 0)
        DT_LOG(INFO, "main", "the processor time slice could not be changed");
    sigemptyset(&signals.set);
    sigaddset(&signals.set, SIGTERM);
    sigaddset(&signals.set, SIGINT);
    sigaddset(&signals.set, SIGHUP);
    sigaddset(&signals.set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals.set, NULL);
    signal(SIGPIPE, SIG_IGN);
    dt_service_open(&signals.service);
    dt_status status = serve_until_signal(config, &signals, &err);
    dt_service_close(&signals.service);
    if (status != DT_OK) {
        DT_LOG(ERROR, "main", "ends", DT_S("status", dt_status_name(status)),
               DT_S("reason", err.text[0] ? err.text : dt_status_text(status)));
        return EXIT_FAILURE;
    }
    DT_LOG(INFO, "main", "stopped");
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct dt_config config;
    struct dt_error err = {0};
    dt_streams_occupy();
    int code = DT_FAIL_POINTS_MAIN(argc, argv);
    if (code >= 0)
        return dt_streams_end("duetime-dispatcher", code);
    code = EXIT_SUCCESS;
    if (!parse_options(argc, argv, &options, &code))
        return dt_streams_end("duetime-dispatcher", code);
    if (options.reference || options.sample) {
        (options.sample ? dt_config_sample : dt_config_reference)(stdout);
        return dt_streams_end("duetime-dispatcher", EXIT_SUCCESS);
    }
    if (dt_config_load(&config, options.config, &err) != DT_OK || dt_index_check(&config, &err) != DT_OK ||
        dt_kafka_check(&config, &err) != DT_OK) {
        fprintf(stderr, "duetime-dispatcher: %s\n", err.text);
        dt_config_clear(&config);
        return 2;
    }
    if (options.print)
        dt_config_print(&config, stdout);
    else if (options.acls)
        dt_kafka_print_acls(&config, stdout);
    else if (options.check)
        puts("configuration is fine");
    else
        code = run_dispatcher(&config, options.config);
    dt_config_clear(&config);
    return dt_streams_end("duetime-dispatcher", code);
}
