/* Base64: strict, so one text stands for one sequence of bytes: what is decoded is encoded to the same text again. */
#include "base/text/encoding.h"
#include "fuzz.h"

static void encode_decode(struct dt_str bytes)
{
    struct dt_strbuf text = {0};
    size_t n = 0;
    dt_base64_add(&text, bytes);
    char *back = malloc(dt_base64_decoded_max(text.n) + 1);
    MUST(back && dt_base64_decode(dt_strbuf_str(&text), back, &n));
    MUST(n == bytes.n && memcmp(back, bytes.p, n) == 0);
    free(back);
    dt_strbuf_clear(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_str text = exact_copy((struct dt_str){(const char *)data, size});
    size_t n = 0, most = dt_base64_decoded_max(text.n);
    char *bytes = malloc(most ? most : 1);
    MUST(bytes);
    if (dt_base64_decode(text, bytes, &n)) {
        struct dt_strbuf again = {0};
        MUST(n <= most);
        dt_base64_add(&again, (struct dt_str){bytes, n});
        MUST(dt_str_eq(dt_strbuf_str(&again), text));
        dt_strbuf_clear(&again);
    }
    encode_decode(text);
    free(bytes);
    free_copy(text);
    return 0;
}
