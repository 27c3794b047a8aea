/* What messages and callbacks are made of in unit tests: one claimed attempt, a parser, an arena. */
#pragma once

#include "support/suite.h"

#include "base/text/json.h"
#include "dispatch/leader.h"

#define DUE INT64_C(1795273967083) /* 2026-11-21T15:12:47.083Z */

struct outgoing_rig {
    struct dt_arena arena;
    dt_json *json;
    struct dt_outgoing job;
};

static inline void outgoing_rig_init(struct outgoing_rig *rig, const char *payload)
{
    assert_int_equal(dt_json_new(&rig->json), DT_OK);
    rig->job = (struct dt_outgoing){.claim = {42, 3, DUE}, .topic = dt_str("orders"), .payload = dt_str(payload)};
}

static inline void outgoing_rig_clear(struct outgoing_rig *rig)
{
    dt_json_free(rig->json);
    dt_arena_clear(&rig->arena);
}
