/* Schedules, whose fires every dispatcher makes, all of them at once. See workload_parts.h. */
#include "simulator/deliveries/workload_parts.h"
#include "simulator/mysql.h"

static const char schedule_sql[] =
    "INSERT INTO schedules (name, topic, every_ms, anchor_at, time_zone, starts_at, ends_at, overlap, catch_up_ms, "
    "jitter_ms, paused, created_at, updated_at, version, digest, retry, ack_timeout_ms, payload_binary, payload) "
    "VALUES (?, ?, ?, ?, 'UTC', ?, ?, ?, 3600000, 0, FALSE, 1, 1, 1, 'dddddddddddddddd', ?, ?, FALSE, '{}')";
static const char fires_sql[] = "INSERT INTO schedule_fires (name, next_fire_at, look_at) VALUES (?, ?, 0)";

static void make_schedule(struct journal_schedule *s)
{
    const int64_t begins_ms = mysql_now_ms();
    snprintf(s->name, sizeof s->name, "tick%u", journal->n_schedules++);
    s->step_ms = rnd_in(300, 1500);
    s->starts_ms = begins_ms + rnd_in(500, 3000);
    s->ends_ms = s->starts_ms + rnd_in(1, 8) * s->step_ms;
    if (mysql_by_hand(schedule_sql,
                      DT_PARAMS(DT_P_STR(dt_str(s->name)), DT_P_STR(workload_topic((unsigned)rnd_in(0, TOPICS - 1))),
                                DT_P_INT(s->step_ms), DT_P_INT(s->starts_ms), DT_P_INT(s->starts_ms),
                                DT_P_INT(s->ends_ms), DT_P_INT(rnd_in(1, 3)), DT_P_STR(DT_STR_LIT("200ms")),
                                DT_P_INT(rnd_in(700, 2000)))) != DT_OK ||
        mysql_by_hand(fires_sql, DT_PARAMS(DT_P_STR(dt_str(s->name)), DT_P_INT(s->starts_ms))) != DT_OK)
        broken("no schedules");
}

/* One world in five has one or two. */
void workload_make_schedules(void)
{
    for (int64_t n = one_in(5) ? rnd_in(1, SCHEDULES_MAX) : 0; n; n--)
        make_schedule(&journal->schedules[journal->n_schedules]);
}
