/* What a suite about JSON bodies works with: rules, a parser, an arena with faults, and a text for answers. */
#ifndef DT_SUPPORT_BODY_RIG_H
#define DT_SUPPORT_BODY_RIG_H

#include "support/suite.h"

#include "base/json.h"
#include "job/request/job_decode.h"

struct body_rig {
    struct dt_arena arena;
    struct dt_faults faults;
    struct dt_strbuf out;
    dt_json *json;
    struct dt_job_rules rules;
};

static inline int open_body_rig(void **state, struct dt_job_rules rules)
{
    static struct body_rig rig;
    rig = (struct body_rig){.rules = rules};
    dt_arena_init(&rig.arena);
    dt_faults_init(&rig.faults, &rig.arena);
    dt_strbuf_init(&rig.out);
    assert_int_equal(dt_json_new(&rig.json), DT_OK);
    *state = &rig;
    return 0;
}

static inline int close_body_rig(void **state)
{
    struct body_rig *rig = *state;
    dt_json_free(rig->json);
    dt_strbuf_clear(&rig->out);
    dt_arena_clear(&rig->arena);
    return 0;
}

#endif
