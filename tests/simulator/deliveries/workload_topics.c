/* Settings of topics: their deliveries and limits, drawn and changed. See workload_parts.h. */
#include "simulator/deliveries/workload_parts.h"
#include "simulator/faults.h"
#include "simulator/mysql.h"
#include "topic/topics.h"

#define FAR_MS       30000 /* for what is due later nobody waits */
#define CALLBACK_URL "http://receiver.example/jobs"

/* ---- changes ---- */

static enum dt_delivery_id delivery_of(enum way way)
{
    return way == BY_POP ? DT_DELIVERY_PULL : way == BY_CALLBACK ? DT_DELIVERY_HTTP : DT_DELIVERY_KAFKA;
}

static void note_setting(unsigned topic, const struct topic_setting *setting)
{
    journal->topics[topic] = *setting;
    journal->ways[topic] |= 1u << setting->way;
    journal->limited[topic] |= setting->max_in_flight || setting->rate;
}

void workload_put_topic(struct worker *w, struct op *op)
{
    const struct topic_setting *setting = &op->setting;
    struct answer *a = workload_ask(ASK_TOPIC, op->job);
    struct dt_topic_now now = {.arena = &w->arena};
    note_setting(op->job, setting);
    const struct dt_topic topic = {
        .name = workload_topic(op->job),
        .retention_ms = -1,
        .delivery = delivery_of(setting->way),
        .max_in_flight = setting->max_in_flight,
        .rate_limit = setting->rate ? dt_str(setting->rate) : DT_STR_NONE,
        .callback = {.places.url = DT_STR_LIT(CALLBACK_URL), .timeout_ms = setting->timeout_ms}};
    dt_status status = dt_store_topic_put(w->store, &topic, false, NULL, &now, &w->err);
    workload_answered(a, status, NULL);
    if (status == DT_OK && w->index)
        (void)!dt_index_wake_all(w->index, &w->err);
}

bool workload_plain(unsigned topic)
{
    return journal->ways[topic] == 1u << BY_KAFKA && !journal->limited[topic];
}

/* When the next job of the topic is due: its claim and whatever is asked then meet. Now, if there is none, or by chance. */
static int64_t about_to_claim(unsigned topic)
{
    const struct table *jobs = table_named("jobs");
    int64_t due_ms = INT64_MAX;
    for (size_t i = 0; i < jobs->n; i++)
        if (jobs->rows[i]->committed && dt_str_eq(cell_text(jobs->rows[i], "topic"), workload_topic(topic)) &&
            !cell_null(jobs->rows[i], "next_at") && cell_int(jobs->rows[i], "next_at") >= mysql_now_ms() &&
            cell_int(jobs->rows[i], "next_at") < due_ms)
            due_ms = cell_int(jobs->rows[i], "next_at");
    return due_ms > mysql_now_ms() + FAR_MS || one_in(4) ? now_us : (due_ms - EPOCH_MS) * MS + rnd_in(-1 * MS, 9 * MS);
}

void workload_change_topic(bool limits)
{
    const unsigned topic = (unsigned)rnd_in(0, TOPICS - 1);
    struct topic_setting setting = journal->topics[topic];
    if (!limits)
        setting.way = (enum way)rnd_in(BY_KAFKA, BY_POP);
    else if (setting.max_in_flight)
        setting.max_in_flight = rnd_in(1, 4);
    workload_plan(ASK_TOPIC, topic, about_to_claim(topic))->setting = setting;
}

/* ---- what is drawn ---- */

static const char topic_sql[] =
    "INSERT INTO topics (name, delivery, max_in_flight, rate_limit, callback_url, callback_timeout_ms, created_at, "
    "updated_at) VALUES (?, ?, ?, ?, ?, ?, 1, 1)";

static struct topic_setting draw_setting(bool kafka_only, bool limits)
{
    static const char *const rates[] = {"2/s", "3/s", "5/s", "120/m"};
    struct topic_setting setting = {.timeout_ms = one_in(4) ? rnd_in(500, 1500) : rnd_in(200, 600)};
    if (!kafka_only)
        setting.way = (enum way)rnd_in(BY_KAFKA, BY_POP);
    if (limits && one_in(2))
        setting.max_in_flight = rnd_in(1, 3);
    if (limits && one_in(3))
        setting.rate = rates[rnd_in(0, 3)];
    return setting;
}

static void make_topic(unsigned i, const struct topic_setting *setting)
{
    note_setting(i, setting);
    journal->rated[i] = setting->rate != NULL;
    const struct dt_param most = DT_P_INT_OR_NULL(setting->max_in_flight);
    const struct dt_str text = setting->rate ? dt_str(setting->rate) : DT_STR_NONE;
    const struct dt_param rate = DT_P_STR_OR_NULL(text);
    if (mysql_by_hand(topic_sql, DT_PARAMS(DT_P_STR(workload_topic(i)), DT_P_INT(delivery_of(setting->way)), most, rate,
                                           DT_P_STR(DT_STR_LIT(CALLBACK_URL)), DT_P_INT(setting->timeout_ms))) != DT_OK)
        broken("no topics");
}

/* Half of all worlds know Kafka alone. */
void workload_make_topics(void)
{
    const bool drawn = fault_drawn(F_CALLING) || fault_drawn(F_LEASE) || fault_drawn(F_RECEIVER) || fault_drawn(F_POPS);
    const bool kafka_only = !drawn && one_in(2), limits = fault_drawn(F_LIMITS) || one_in(3);
    for (unsigned i = 0; i < TOPICS; i++) {
        const struct topic_setting setting = draw_setting(kafka_only, limits);
        make_topic(i, &setting);
    }
}
