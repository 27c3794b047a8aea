/* Ready, and alive: see signs.h. */
#include "ops/signs.h"

#include "base/log.h"

#define LOOK_US INT64_C(1000000) /* between two looks at whether MySQL is there */

int64_t dt_signs_give(struct dt_signs *signs, int64_t now_us)
{
    int64_t pause_us = dt_service_pause_us(&signs->service);
    struct dt_health_state state;
    if (!dt_service_heard(&signs->service))
        return INT64_MAX;
    if (!signs->ready) {
        dt_health_get(signs->health, &state);
        signs->ready = state.mysql == DT_OK;
        if (!signs->ready) {
            dt_service_waits(&signs->service, "waits for MySQL and its schema");
            return now_us + LOOK_US;
        }
        dt_service_ready(&signs->service);
        return now_us;
    }
    if (pause_us == INT64_MAX)
        return INT64_MAX;
    if (now_us >= signs->due_us) {
        if (dt_http_moves(signs->http))
            dt_service_alive(&signs->service);
        else
            DT_LOG(ERROR, "main",
                   "a thread of the HTTP server hangs: the service manager is not told that all is well");
        signs->due_us = now_us + pause_us;
    }
    return signs->due_us;
}
