/* What a suite about JSON bodies works with: rules, a parser, an arena with faults, and a text for answers. */
#pragma once

#include "support/suite.h"

#include "base/text/json.h"
#include "job/job_json.h"

struct body_rig {
    struct dt_arena arena;
    struct dt_faults faults;
    struct dt_strbuf out;
    dt_json *json;
    struct dt_job_rules rules;
};

static inline void open_body_rig(struct body_rig *rig, struct dt_job_rules rules)
{
    rig->rules = rules;
    rig->faults = (struct dt_faults){.arena = &rig->arena};
    assert_int_equal(dt_json_new(&rig->json), DT_OK);
}

static inline void close_body_rig(struct body_rig *rig)
{
    dt_json_free(rig->json);
    dt_strbuf_clear(&rig->out);
    dt_arena_clear(&rig->arena);
}
