/*
 * Checks Kafka's settings and this process, and reports findings (kafka_parts.h). What makes a topic in Kafka a
 * finding:
 *
 *   missing                                    reports, dead letters or commands are lost; without the ledger, shards
 *                                              halt
 *   fewer replicas than there should be        data on a single broker is lost with that broker
 *   min.insync.replicas above the replicas     nothing can be written
 *   min.insync.replicas 1 of several           data on a single broker counts as written
 *   a topic of jobs that cannot be written     its jobs wait
 *   unclean.leader.election.enable             a replica that lacks messages may become the leader, and they are lost
 */
#include "kafka_parts.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/text/strbuf.h"
#include "base/tls.h"
#include "features/doctor/process_findings.h"

#define ENOUGH 3 /* number of replicas with which writes continue while one broker is down and another one fails */

/* Checks the settings of a topic. replicas: kafka.replication_factor, the least number of replicas that a topic should
 * have. Returns whether a finding was reported. */
static bool judge_topic(const char *topic, const struct dt_kafka_topic_info *info, int64_t replicas,
                        dt_found_here_fn *found, void *arg)
{
    const int64_t possible = info->brokers < ENOUGH ? info->brokers : ENOUGH;
    const int64_t wanted = replicas > possible ? replicas : possible;
    const bool on_few = info->replicas && info->replicas < wanted;
    const bool many = info->replicas && info->min_in_sync > info->replicas;
    const bool few = info->replicas > 1 && info->min_in_sync == 1;
    char detail[160];
    if (on_few) {
        snprintf(detail, sizeof(detail), "it has partitions with %d replicas, and should have %lld", info->replicas,
                 (long long)wanted);
        found(arg, DT_FINDING_KAFKA_REPLICATION, topic, detail);
    }
    if (many || few) {
        snprintf(detail, sizeof(detail), "min.insync.replicas is %lld, of %d replicas%s", (long long)info->min_in_sync,
                 info->replicas, many ? ": nothing can be written" : "");
        found(arg, DT_FINDING_KAFKA_MIN_ISR, topic, detail);
    }
    if (info->elects_unclean)
        found(arg, DT_FINDING_KAFKA_UNCLEAN, topic, "unclean.leader.election.enable is true");
    return on_few || many || few || info->elects_unclean;
}

void dt_kafka_judge(const struct dt_kafka_state *state, int64_t replicas, dt_found_here_fn *found, void *arg)
{
    for (size_t i = 0; i < DT_KAFKA_OWN_TOPICS; i++) {
        if (state->topics[i].there)
            (void)judge_topic(state->topics[i].name, &state->topics[i].info, replicas, found, arg);
        else
            found(arg, DT_FINDING_KAFKA_TOPIC, state->topics[i].name, "Kafka knows no topic of this name");
    }
}

/* A missing topic is a finding only if a caller was refused because the topic could not be created: other missing
 * topics are created on demand. */
bool dt_kafka_judge_asked(const struct dt_kafka_asked_topic *topic, int64_t replicas, dt_found_here_fn *found,
                          void *arg)
{
    if (topic->status == DT_REFUSED)
        found(arg, DT_FINDING_KAFKA_JOB_TOPIC, topic->name, topic->reason);
    return topic->status == DT_REFUSED ||
           (topic->status == DT_OK && judge_topic(topic->name, &topic->info, replicas, found, arg));
}

/*
 * ---- the chore ----
 *
 * check ─▶ findings as last written, and written not long ago: nothing to do
 *      └▶ otherwise: one transaction replaces the findings that this process wrote
 *
 * If MySQL was restored from a copy, its rows differ from the findings that were written. So unchanged findings are
 * written again now and then.
 *
 * While there are findings, the chore checks every few seconds, to report their end soon. Otherwise it checks twice a
 * minute, and Kafka once a minute. If another part of the process gets no answer from Kafka, the chore checks Kafka at
 * once.
 */

#define FIRST_US   INT64_C(1000000)   /* delay of the first check; by then, MySQL's clock has been compared with ours */
#define REST_US    INT64_C(30000000)  /* time between two checks if there are no findings */
#define SOON_US    INT64_C(3000000)   /* time between two checks if there are findings, or if Kafka may be down */
#define SUSPECT_US INT64_C(1000000)   /* time between two calls of may_kafka_be_down, which sends no request */
#define KAFKA_US   INT64_C(60000000)  /* time between two requests to Kafka if the earlier one yielded no findings */
#define ANEW_US    INT64_C(60000000)  /* time between two writes of unchanged findings */
#define WELL_US    INT64_C(600000000) /* time between two writes if there are no findings */
#define SKEW_MS    1000
#define MAX        32 /* maximal number of findings */

struct seen {
    size_t n;
    struct {
        enum dt_finding_kind finding;
        char subject[250], detail[300];
    } v[MAX];
};

struct dt_examiner {
    const struct dt_process_env *env;
    struct dt_chore chore;
    /* Findings of the running check, of the last request to Kafka, and as last written into MySQL. */
    struct seen now, kafka, written;
    int64_t kafka_us; /* mono: time of the next request to Kafka; earlier during an outage of Kafka */
    int64_t asked_us; /* mono: time of the last request to Kafka */
    int64_t look_us;  /* mono: time of the next check; earlier during an outage of Kafka */
    int64_t anew_us;  /* mono: when unchanged findings are written again */
    bool failed;      /* the last write of findings failed */
};

/* Adds a finding once per name and subject, because several settings may name one file. */
static void add_finding(void *arg, enum dt_finding_kind finding, const char *subject, const char *detail)
{
    struct seen *seen = arg;
    dt_assert_cmp(seen->n, <=, MAX);
    for (size_t i = 0; i < seen->n; i++)
        if (seen->v[i].finding == finding && strncmp(seen->v[i].subject, subject, sizeof(seen->v[i].subject) - 1) == 0)
            return;
    if (seen->n == MAX)
        return;
    /* All bytes are set to zero, because write_changed_findings compares findings with memcmp, which also compares the
     * padding. */
    memset(&seen->v[seen->n], 0, sizeof(seen->v[0]));
    seen->v[seen->n].finding = finding;
    snprintf(seen->v[seen->n].subject, sizeof(seen->v[0].subject), "%s", subject);
    snprintf(seen->v[seen->n].detail, sizeof(seen->v[0].detail), "%s", detail);
    seen->n++;
}

/* ---- looking ---- */

/* Returns whether the topic must be looked up again before the next check: it has a fault, and the list of findings has
 * room. */
static bool judge_asked_topic(void *arg, const struct dt_kafka_asked_topic *topic)
{
    dt_examiner *e = arg;
    const bool wrong = dt_kafka_judge_asked(topic, e->env->config->kafka_replication_factor, add_finding, &e->kafka);
    return wrong && e->kafka.n < MAX;
}

/* Returns whether another part of the process reports an outage of Kafka. Only a request of our own shows whether all
 * brokers are down or only one. */
static bool may_kafka_be_down(const dt_examiner *e)
{
    return e->env->kafka->admin && dt_outage_lasts(DT_OUTAGE_KAFKA) &&
           dt_clock_mono_us(e->env->clock) - e->asked_us >= SOON_US;
}

static void check_kafka(dt_examiner *e)
{
    struct dt_kafka_state state;
    struct dt_error err = {0};
    if (!e->env->kafka->admin || (dt_clock_mono_us(e->env->clock) < e->kafka_us && !may_kafka_be_down(e)))
        return;
    e->kafka.n = 0;
    e->chore.idle = false;
    dt_status status = dt_kafka_admin_examine(e->env->kafka->admin, &state, &err);
    *e->env->kafka_away = status != DT_OK;
    if (status == DT_OK) {
        dt_kafka_judge(&state, e->env->config->kafka_replication_factor, add_finding, &e->kafka);
        dt_kafka_admin_tell_asked(e->env->kafka->admin, judge_asked_topic, e);
    } else {
        (void)dt_chore_failed(&e->chore, DT_OUTAGE_KAFKA, "Kafka does not answer", status, &err, 0);
        add_finding(&e->kafka, DT_FINDING_KAFKA_AWAY, "kafka", err.text[0] ? err.text : dt_status_text(status));
    }
    e->kafka_us = dt_clock_mono_us(e->env->clock) + (e->kafka.n ? SOON_US : KAFKA_US);
    e->asked_us = dt_clock_mono_us(e->env->clock);
}

/* Compares the clocks of this host and of MySQL. The finding shows the difference rounded, so that a slow drift does
 * not change the finding, and cause a write, in each check. */
static void check_clock(dt_examiner *e)
{
    char detail[100];
    int64_t host_ms = dt_clock_real_ms(e->env->clock);
    int64_t ahead_ms = host_ms - dt_refclock_real_latest_ms(e->env->ref);
    int64_t behind_ms = dt_refclock_real_earliest_ms(e->env->ref) - host_ms;
    int64_t apart_ms = ahead_ms > behind_ms ? ahead_ms : behind_ms;
    if (apart_ms <= SKEW_MS)
        return;
    snprintf(detail, sizeof(detail), "the dispatcher's clock is some %lld s %s MySQL's",
             (long long)((apart_ms + 500) / 1000), ahead_ms > behind_ms ? "ahead of" : "behind");
    add_finding(&e->now, DT_FINDING_DISPATCHER_CLOCK, "mysql", detail);
}

static void check_certificate_expiry(void *arg, const char *key, const char *file, int64_t ends_s)
{
    dt_examiner *e = arg;
    char detail[160];
    if (dt_finding_certificate(key, ends_s, dt_clock_real_ms(e->env->clock) / 1000, detail, sizeof(detail)))
        add_finding(&e->now, DT_FINDING_CERTIFICATE, file, detail);
}

/* ---- writing ---- */

static void write_changed_findings(dt_examiner *e, dt_store *store)
{
    const struct seen *now = &e->now;
    struct dt_process_finding findings[MAX];
    struct dt_error err = {0};
    if (now->n == e->written.n && memcmp(now->v, e->written.v, now->n * sizeof(now->v[0])) == 0 &&
        dt_clock_mono_us(e->env->clock) < e->anew_us)
        return;
    for (size_t i = 0; i < now->n; i++)
        findings[i] = (struct dt_process_finding){.finding = dt_str(dt_finding_kinds[now->v[i].finding].name),
                                                  .subject = dt_str(now->v[i].subject),
                                                  .detail = dt_str(now->v[i].detail)};
    dt_status status = dt_store_put_findings(store, e->env->process, findings, now->n, &err);
    if (status == DT_OK) {
        e->written = *now;
        e->anew_us = dt_clock_mono_us(e->env->clock) + (now->n ? ANEW_US : WELL_US);
    }
    if (status != DT_OK && !e->failed)
        DT_LOG(WARN, "examiner", "the findings for the doctor were not written to MySQL", DT_S("reason", err.text));
    e->failed = status != DT_OK;
}

static int64_t tick_examiner(void *arg, void *store)
{
    dt_examiner *e = arg;
    e->chore.idle = true; /* a tick that sends no request ends no outage; check_kafka clears `idle` if it sends one */
    if (dt_clock_mono_us(e->env->clock) >= e->look_us || may_kafka_be_down(e)) {
        e->now.n = 0;
        if (e->env->config->zookeeper_servers[0] && dt_outage_lasts(DT_OUTAGE_ZOOKEEPER))
            add_finding(&e->now, DT_FINDING_ZOOKEEPER_AWAY, e->env->config->zookeeper_servers,
                        "this dispatcher has no session with ZooKeeper");
        check_clock(e);
        dt_certificates_look(e->env->config, check_certificate_expiry, e);
        check_kafka(e);
        for (size_t i = 0; i < e->kafka.n; i++)
            add_finding(&e->now, e->kafka.v[i].finding, e->kafka.v[i].subject, e->kafka.v[i].detail);
        write_changed_findings(e, store);
        e->look_us = dt_clock_mono_us(e->env->clock) + (e->now.n || e->failed ? SOON_US : REST_US);
    }
    return dt_earlier(e->look_us, dt_clock_mono_us(e->env->clock) + SUSPECT_US);
}

dt_status dt_examiner_start(const struct dt_process_env *env, dt_examiner **out)
{
    dt_examiner *e = *out = calloc(1, sizeof(*e));
    if (!e)
        return DT_NOMEM;
    e->env = env;
    const int64_t now_us = dt_clock_mono_us(e->env->clock);
    e->anew_us = now_us + WELL_US;
    e->chore = (struct dt_chore){
        .name = "examiner", .tick = tick_examiner, .arg = e, .waits = true, .not_before_us = now_us + FIRST_US};
    dt_chores_add(env->chores, &e->chore);
    return DT_OK;
}

void dt_examiner_stop(dt_examiner *e)
{
    if (!e)
        return;
    dt_chore_remove(&e->chore);
    free(e);
}
