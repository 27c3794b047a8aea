/* A parser of a suite's own, and texts in memory that ends where they end. */
#pragma once

#include "support/suite.h"

#include "base/text/json.h"

static inline int open_json(void **state)
{
    dt_json *json;
    assert_int_equal(dt_json_new(&json), DT_OK);
    *state = json;
    return 0;
}

static inline int close_json(void **state)
{
    dt_json_free(*state);
    return 0;
}

/* The text lies at the end of an allocation, without a terminator, so that reading on is seen by the sanitizer. */
static char *held;

static inline struct dt_str hold(const void *p, size_t n)
{
    free(held);
    held = malloc(n ? n : 1);
    assert_non_null(held);
    memcpy(held, p, n);
    return (struct dt_str){held, n};
}

static inline dt_status parse(dt_json *json, const char *text, const struct dt_json_limits *limits)
{
    return dt_json_parse(json, hold(text, strlen(text)), limits, NULL);
}

static inline const struct dt_json_node *parsed(dt_json *json, const char *text)
{
    struct dt_error err = {0};
    if (dt_json_parse(json, hold(text, strlen(text)), NULL, &err))
        fail_msg("%s: %s", text, err.text);
    return dt_json_root(json);
}

#define JSON_TEST(name) TEST_OF(dt_json *json, name, open_json, close_json)

static inline void free_held(void)
{
    free(held);
}
