/* What the fuzz targets share. A target feeds bytes from anywhere to one parser of ours, and checks what must hold of
 * whatever it takes; memory and undefined behaviour are the sanitizers' business. A property that does not hold ends
 * the run with its text, so that libFuzzer keeps the input. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/strbuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The input, read from its front. */
struct input {
    const char *p;
    size_t n;
};

static inline unsigned char input_byte(struct input *in)
{
    if (in->n == 0)
        return 0;
    in->n--;
    return (unsigned char)*in->p++;
}

static inline struct dt_str input_rest(const struct input *in)
{
    return (struct dt_str){in->n ? in->p : "", in->n};
}

/* A copy that ends where the text ends, so that reading one byte beyond it is seen. */
static inline struct dt_str exact_copy(struct dt_str text)
{
    char *p = malloc(text.n ? text.n : 1);
    MUST(p);
    memcpy(p, text.p, text.n);
    return (struct dt_str){p, text.n};
}

static inline void free_copy(struct dt_str copy)
{
    free((void *)(uintptr_t)copy.p);
}
