/*
 * simulator [--seeds N] [--from S] [--replay SEED [--all]] [--kind K] [--seconds T] [--list]
 *           [--first]
 *
 * Runs worlds, one a seed. A world that fails prints the end of its trace and how to see all of it; the exit code
 * tells.
 */
#include <getopt.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "simulator/deliveries/arrivals.h"
#include "simulator/deliveries/receiver.h"
#include "simulator/faults.h"
#include "simulator/intake/intake.h"
#include "simulator/mysql.h"
#include "simulator/nemesis.h"
#include "simulator/oracles.h"
#include "simulator/processes.h"
#include "simulator/redis.h"

#define TRACE_LINES 160

static struct {
    uint64_t seeds, from, seed, jobs, messages, steps, injections;
    int kinds[8], seconds;
    unsigned n_kinds;
    bool replay, list, first;
} run = {.seeds = 1000, .from = 1};

__typeof__(clock_gettime) __real_clock_gettime;

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    __real_clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void draw_config(struct dt_config *config)
{
    config->mysql_lock_timeout = LOCK_TIMEOUT_US / 1000;
    config->mysql_idle_transaction_timeout = IDLE_TRANSACTION_US / 1000;
    config->mysql_io_timeout = IO_TIMEOUT_US / 1000;
    config->kafka_transaction_timeout = TRANSACTION_US / 1000;
    config->dispatch_batch_jobs = faults_calm() && !one_in(3) ? 50 : rnd_in(2, 6);
    config->dispatch_batch_topics = config->dispatch_batch_jobs % 3 ? 16 : 1;
    config->dispatch_rest_after = rnd_in(500, 4000);
    config->reconcile_period = rnd_in(1000, 3000);
    config->reconcile_slice = 100;
    config->reconcile_walk = rnd_in(4000, 12000);
    config->index_horizon = one_in(3) ? 10000 : 3600000;
    config->results_batch = 16;
    config->commands_batch = one_in(2) ? 16 : rnd_in(1, 4);
    config->history_after = one_in(3) ? DT_MINUTE : rnd_in(0, 4000);
    config->history_dead_after = one_in(3) ? DT_MINUTE : rnd_in(0, 6000);
    config->history_keys = one_in(2) ? DT_DAY : rnd_in(30000, 60000);
    if (one_in(6)) {
        config->redis_endpoints = "";
        TRACE("there is no Redis: leaders read MySQL");
    }
    config->zookeeper_session_timeout = LEASE_US / 1000;
    config->callbacks_enabled = true;
    config->callbacks_max_in_flight = one_in(3) ? rnd_in(1, 4) : 100;
    config->callbacks_per_host = one_in(3) ? rnd_in(1, 4) : 100;
    config->ledger_trim_after = one_in(3) || fault_drawn(F_LEDGER_ANEW) ? rnd_in(300, 4000) : 86400000;
}

static void world(const struct dt_config *defaults, uint64_t seed)
{
    struct dt_config config = *defaults;
    run.seed = seed;
    world_begin(seed);
    faults_begin(run.kinds, run.n_kinds);
    intake_forget();
    draw_config(&config);
    unsigned shards = (unsigned)rnd_in(1, fault_drawn(F_RESHARD) ? 4 : 2), dispatchers = (unsigned)rnd_in(2, 3);
    int64_t heal_us = now_us + rnd_in(3, 9) * SEC;
    history_lost = false;
    broker_begin(shards);
    mysql_begin();
    mysql_install(shards);
    redis_begin();
    arrivals_begin();
    receiver_begin();
    oracles_begin();
    workload_begin(&config, shards);
    processes_begin(&config, dispatchers);
    nemesis_begin(heal_us);
    world_run(heal_us);
    faults_heal();
    processes_heal();
    receiver_heal();
    workload_heal();
    const char *unrest = "nothing was looked at";
    for (int64_t until_us = heal_us; unrest && !violation[0] && until_us < heal_us + 90 * SEC;) {
        until_us += 400 * MS;
        world_run(until_us);
        unrest = oracles_unrest(&config);
    }
    if (unrest && !violation[0])
        violated(strstr(unrest, "entry") || strstr(unrest, "list") ? "O5" : "O7", "no rest after healing: %s", unrest);
    if (!violation[0])
        oracles_judge();
    run.jobs += journal->n_jobs;
    run.messages += workload_messages();
    run.steps += world_steps();
    world_end();
}

/* ---- a failed seed, told again ---- */

static void tell_again(const struct dt_config *defaults, uint64_t seed)
{
    int ends[2];
    static char lines[TRACE_LINES][1300];
    char line[1300];
    size_t n = 0;
    fflush(stdout);
    if (pipe(ends) != 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        tracing = true;
        world(defaults, seed);
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    FILE *in = fdopen(ends[0], "r");
    while (in && fgets(line, sizeof line, in))
        memcpy(lines[n++ % TRACE_LINES], line, sizeof line);
    for (size_t i = n > TRACE_LINES ? n - TRACE_LINES : 0; i < n; i++)
        fputs(lines[i % TRACE_LINES], stdout);
    if (in)
        fclose(in);
    waitpid(child, NULL, 0);
}

static void tell_failure(const struct dt_config *defaults, uint64_t seed)
{
    char oracle[32], what[400];
    memcpy(oracle, violation_oracle, sizeof oracle);
    memcpy(what, violation, sizeof what);
    if (!run.first) {
        printf("seed %llu: the end of its trace:\n", (unsigned long long)seed);
        tell_again(defaults, seed);
    }
    printf("seed %llu FAILED: %s: %s\nreplay: tests/sim --replay %llu", (unsigned long long)seed, oracle, what,
           (unsigned long long)seed);
    for (unsigned i = 0; i < run.n_kinds; i++)
        printf(" --kind %d", run.kinds[i]);
    putchar('\n');
}

/* ---- the account ---- */

static void account(uint64_t done, uint64_t failed, double seconds)
{
    printf("%llu seeds, %llu failed; %llu jobs, %llu attempts dispatched, %llu jobs found in history, %llu steps; %.1f "
           "s, %.0f seeds/s of a core\n",
           (unsigned long long)done, (unsigned long long)failed, (unsigned long long)run.jobs,
           (unsigned long long)run.messages, (unsigned long long)history_kept, (unsigned long long)run.steps, seconds,
           (double)done / seconds_of(CLOCK_PROCESS_CPUTIME_ID));
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        if (fault_text(kind))
            printf("  %3d %9llu  %s\n", kind, (unsigned long long)fault_counts[kind], fault_text(kind));
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"seeds", 1, NULL, 'n'}, {"from", 1, NULL, 's'},    {"replay", 1, NULL, 'r'},
        {"kind", 1, NULL, 'k'},  {"seconds", 1, NULL, 't'}, {"list", 0, NULL, 'l'},
        {"all", 0, NULL, 'a'},   {"first", 0, NULL, 'f'},   {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'n')
            run.seeds = strtoull(optarg, NULL, 10);
        else if (c == 's')
            run.from = strtoull(optarg, NULL, 10);
        else if (c == 'k')
            run.kinds[run.n_kinds++ % 8] = atoi(optarg);
        else if (c == 't')
            run.seconds = atoi(optarg);
        else if (c == 'f')
            run.first = true;
        else if (c == 'a')
            tracing_all = true;
        else if (c == 'l')
            run.list = true;
        else if (c == 'r') {
            run.from = strtoull(optarg, NULL, 10);
            run.replay = true;
        } else
            exit(2);
    }
    for (unsigned i = 0; i < run.n_kinds; i++)
        if (run.n_kinds > 8 || !fault_text(run.kinds[i])) {
            fprintf(stderr, "simulator: there is no kind %d (--list names them)\n", run.kinds[i]);
            exit(2);
        }
}

/* A crash, the product's or the world's own, names its seed like any other failure. */
static void on_crash(int number)
{
    char text[128];
    int n = snprintf(text, sizeof text, "seed %llu crashed (signal %d); --replay %llu shows it\n",
                     (unsigned long long)run.seed, number, (unsigned long long)run.seed);
    if (write(STDOUT_FILENO, text, (size_t)n) == n)
        raise(number);
}

static void watch_for_crashes(void)
{
    static char stack[65536];
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)(SA_ONSTACK | SA_RESETHAND)};
    const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        sigaction(fatal[i], &action, NULL);
}

int main(int argc, char **argv)
{
    static struct dt_config config;
    struct dt_error err = {0};
    uint64_t done = 0, failed = 0;
    parse(argc, argv);
    if (run.list) {
        for (int kind = 0; kind < FAULT_KINDS; kind++)
            if (fault_text(kind))
                printf("%3d  %s\n", kind, fault_text(kind));
        return 0;
    }
    clearenv();
    if (dt_config_load(&config, NULL, &err) != DT_OK)
        broken("%s", err.text);
    watch_for_crashes();
    double start = seconds_of(CLOCK_MONOTONIC), told = start;
    if (run.replay) {
        tracing = true;
        world(&config, run.from);
        printf("%s%s%s\n", violation[0] ? violation_oracle : "nothing was violated", violation[0] ? ": " : "",
               violation);
        return violation[0] != '\0';
    }
    for (uint64_t seed = run.from; done < run.seeds; seed++) {
        world(&config, seed);
        done++;
        if (violation[0]) {
            tell_failure(&config, seed);
            if (++failed == 3 || run.first)
                break;
        }
        double now = seconds_of(CLOCK_MONOTONIC);
        if (now - told >= 10) {
            printf("… %llu seeds, %.0f a second\n", (unsigned long long)done, (double)done / (now - start));
            fflush(stdout);
            told = now;
        }
        if (run.seconds && now - start >= run.seconds)
            break;
    }
    account(done, failed, seconds_of(CLOCK_MONOTONIC) - start);
    return failed != 0;
}
