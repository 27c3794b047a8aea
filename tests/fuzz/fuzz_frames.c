/* The bytes of a connection to the API: however they arrive, the same of them are passed on and the same is refused;
 * what waits for more is bounded; and what was passed begins with whole heads that the parser of heads takes. */
#include "fuzz.h"
#include "support/frames.h"

/* Sends bytes as they would come, `step` at a time; returns how many were passed. */
static size_t send_all(struct dt_frames *frames, struct dt_str text, size_t step)
{
    size_t passed = 0, come = 0;
    *frames = (struct dt_frames){0};
    while (come < text.n && frames->next != DT_FRAME_REFUSED) {
        come = text.n - come > step ? come + step : text.n;
        /* A copy of its own: whoever reads beyond what has come is caught. */
        struct dt_str some = exact_copy((struct dt_str){text.p + passed, come - passed});
        size_t n = frames_pass(frames, some);
        MUST(n <= some.n);
        MUST(frames->next == DT_FRAME_REFUSED || some.n - n <= DT_HEAD_MAX);
        MUST(frames->next != DT_FRAME_REFUSED || (frames->head.detail && frames->head.detail[0]));
        free_copy(some);
        passed += n;
    }
    return passed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_str text = {(const char *)data, size};
    struct dt_frames at_once, in_pieces;
    size_t step = size ? 1 + data[size - 1] % 7 : 1;
    size_t passed = send_all(&at_once, text, size ? size : 1);
    MUST(send_all(&in_pieces, text, step) == passed);
    MUST(at_once.next == in_pieces.next && at_once.heads == in_pieces.heads && at_once.left == in_pieces.left);
    MUST(at_once.next != DT_FRAME_REFUSED || at_once.head.status == in_pieces.head.status);
    return 0;
}
