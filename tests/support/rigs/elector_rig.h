/* An elector whose thread does not run, for unit suites: its clock stands, its events are counted, and its steps are asked for. */
#pragma once

#include "support/suite.h"

#include "election/elector.h"
#include "election/elector_kind.h"

static int64_t now_us;
static int gained[DT_SHARDS_MAX], released[DT_SHARDS_MAX], lost[DT_SHARDS_MAX];

static inline int64_t mono(const dt_clock *)
{
    return now_us;
}

static const dt_clock by_hand = {.mono_us = mono};

static inline void on_want(void *, unsigned shard, enum dt_loop_want want)
{
    (want == DT_WANT_LEAD ? gained : want == DT_WANT_RELEASE ? released : lost)[shard]++;
}

static inline dt_elector *elector_rig_start(char *zookeeper_servers, unsigned shards, int64_t timeout_ms)
{
    static struct dt_config config; /* outlives the elector */
    const struct dt_elector_env env = {.config = &config,
                                       .installation = "test",
                                       .shards = shards,
                                       .owner = "host:1",
                                       .clock = &by_hand,
                                       .events = {.want = on_want}};
    dt_elector *e = NULL;
    config = (struct dt_config){.zookeeper_servers = zookeeper_servers, .zookeeper_session_timeout = timeout_ms};
    now_us = 1000000000;
    memset(gained, 0, sizeof(gained));
    memset(released, 0, sizeof(released));
    memset(lost, 0, sizeof(lost));
    assert_int_equal(dt_elector_new(&env, &e, NULL), DT_OK);
    return e;
}

static inline void step(dt_elector *e)
{
    dt_elector_step(e, 0);
}
