/* The in-flight list as text, from shards.inflight (which people can edit) and from the ledger. */
#include "fuzz.h"
#include "job/inflight.h"

/* What was read is written as a text that reads the same, and is written the same. */
static void check_stable(const struct dt_inflight *claims)
{
    struct dt_strbuf text = {0}, again = {0};
    struct dt_inflight back = {0};
    dt_inflight_format(claims->v, claims->n, &text);
    MUST(dt_inflight_parse(dt_strbuf_str(&text), &back) == DT_OK);
    MUST(dt_inflight_equal(claims->v, claims->n, back.v, back.n));
    dt_inflight_format(back.v, back.n, &again);
    MUST(dt_str_eq(dt_strbuf_str(&text), dt_strbuf_str(&again)));
    dt_inflight_clear(&back);
    dt_strbuf_clear(&text);
    dt_strbuf_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct dt_str text = exact_copy((struct dt_str){(const char *)data, n});
    struct dt_inflight claims = {0};
    if (dt_inflight_parse(text, &claims) == DT_OK) {
        check_stable(&claims);
        /* However often a batch goes through, is refused or is found in the ledger, the list gets shorter in the
         * end. */
        size_t send_n = claims.n, before;
        for (unsigned round = 0; claims.n > 0 && round < 64; round++) {
            struct dt_inflight refused = {.v = claims.v, .n = send_n};
            struct dt_shrink shrink = dt_inflight_taken_over(&claims, send_n, round % 3 == 0, &refused);
            before = claims.n;
            MUST(shrink.leave <= before && shrink.send_n <= before - shrink.leave);
            MUST(shrink.leave > 0 || (shrink.halved && shrink.send_n > 0 && shrink.send_n < send_n));
            MUST(!shrink.undeliverable || (shrink.leave == 1 && send_n == 1));
            dt_inflight_drop(&claims, shrink.leave);
            MUST(claims.n == before - shrink.leave);
            MUST(claims.n == 0 || shrink.send_n > 0);
            send_n = shrink.send_n;
        }
    }
    dt_inflight_clear(&claims);
    free_copy(text);
    return 0;
}
