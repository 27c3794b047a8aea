/* Passes all complete elements that have arrived on a connection. Returns how many bytes they have. */
#pragma once

#include "base/http/parse.h"

static inline size_t frames_pass(struct dt_frames *frames, struct dt_str text)
{
    size_t passed = 0;
    size_t n;
    while (passed < text.n && (n = dt_frames_step(frames, (struct dt_str){text.p + passed, text.n - passed})) > 0)
        passed += n;
    return passed;
}
