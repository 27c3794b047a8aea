/* See fail_point.h. Invariants: rules change before other threads start; afterwards only their counts change. Without
 * rules, passing a point costs one load. */
#include "fail_point.h"

#ifdef DT_FAIL_POINTS

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "log.h"

#define RULES_MAX    64
#define DELAY_MAX_MS (24 * 3600 * 1000)

enum action { CRASH, STOP, DELAY, ERROR, FORCE };

struct rule {
    const struct dt_fail_point *point;
    enum action action;
    int64_t delay_ms;
    dt_status status;
    uint64_t first, last; /* first and last pass at which the rule acts */
    _Atomic uint64_t passes;
};

static const char *const action_names[] = {"crash", "stop", "delay", "error", "force"};

static struct rule rules[RULES_MAX];
static _Atomic size_t n_rules;

/* Beginning and end of the section with the fail points, set by the linker. */
extern const struct dt_fail_point *const __start_dt_fail_points[] __attribute__((weak));
extern const struct dt_fail_point *const __stop_dt_fail_points[] __attribute__((weak));

static size_t count_points(void)
{
    return (size_t)(__stop_dt_fail_points - __start_dt_fail_points);
}

/* Returns the text before the first `at`, and removes it and the `at` from *rest. */
static struct dt_str take_text_before(struct dt_str *rest, char at)
{
    const char *found = rest->n ? memchr(rest->p, at, rest->n) : NULL;
    struct dt_str before = {rest->p, found ? (size_t)(found - rest->p) : rest->n};
    size_t taken = before.n + (found ? 1 : 0);
    *rest = (struct dt_str){found ? rest->p + taken : NULL, rest->n - taken};
    return before;
}

static bool read_rule_number(struct dt_str text, uint64_t least, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    if (text.n == 0 || text.n > 18)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text.p[i] - '0');
    }
    *out = value;
    return value >= least && value <= most;
}

static bool read_action(struct dt_str text, struct rule *rule)
{
    uint64_t delay_ms = 0;
    struct dt_str argument = text;
    struct dt_str word = take_text_before(&argument, ':');
    size_t i = 0;
    while (i < sizeof(action_names) / sizeof(*action_names) && !dt_str_eq(word, dt_str(action_names[i])))
        i++;
    rule->action = (enum action)i;
    switch (rule->action) {
    case CRASH:
    case STOP:
    case FORCE:
        return !argument.p;
    case DELAY:
        if (!read_rule_number(argument, 0, DELAY_MAX_MS, &delay_ms))
            return false;
        rule->delay_ms = (int64_t)delay_ms;
        return true;
    case ERROR:
        rule->status = argument.p ? DT_OK : DT_UNAVAILABLE;
#define X(word, cls, text)                                                                                             \
    if (dt_str_eq(argument, dt_str(#word)))                                                                            \
        rule->status = DT_##word;
        DT_STATUS_MAP(X)
#undef X
        return rule->status != DT_OK;
    }
    return false;
}

static dt_status read_rule(struct dt_str text, struct rule *rule, struct dt_error *err)
{
    const char *why = NULL;
    struct dt_str passes = text;
    struct dt_str name = take_text_before(&passes, '=');
    struct dt_str action = take_text_before(&passes, '@');
    struct dt_str last = passes;
    struct dt_str first = take_text_before(&last, '-');
    const bool counted = passes.p;
    *rule = (struct rule){.first = 1, .last = UINT64_MAX};
    /* Several places may share the name: chooses the place that allows the most actions. */
    for (size_t i = 0; i < count_points(); i++) {
        const struct dt_fail_point *point = __start_dt_fail_points[i];
        if (dt_str_eq(dt_str(point->name), name) && (!rule->point || point->kind > rule->point->kind))
            rule->point = point;
    }
    if (!rule->point)
        why = "this program has no such point; --fail-points prints them";
    else if (!read_action(action, rule))
        why = "the action is crash, stop, delay:MS, error[:STATUS] or force";
    else if (counted && (!read_rule_number(first, 1, UINT64_MAX, &rule->first) ||
                         (last.n && !read_rule_number(last, rule->first, UINT64_MAX, &rule->last))))
        why = "the passes are N, N- or N-M, from 1";
    else if (rule->point->kind == DT_FAIL_KIND_FORCED
                 ? rule->action != FORCE
                 : rule->action == FORCE || (rule->action == ERROR && rule->point->kind != DT_FAIL_KIND_STATUS))
        why = "this place cannot do that";
    if (counted && !last.p) /* a number without a dash is a single pass */
        rule->last = rule->first;
    return why ? dt_fail(err, DT_INVALID, "DUETIME_FAIL: \"%.*s\": %s", (int)text.n, text.p, why) : DT_OK;
}

dt_status dt_fail_points_set(const char *text, struct dt_error *err)
{
    size_t n = 0;
    struct dt_str rest = dt_str(text ? text : "");
    bool more = rest.n > 0;
    n_rules = 0;
    while (more) {
        struct dt_str one = take_text_before(&rest, ',');
        more = rest.p != NULL;
        if (n == RULES_MAX)
            return dt_fail(err, DT_INVALID, "DUETIME_FAIL: more than %d rules", RULES_MAX);
        dt_status status = read_rule(one, &rules[n++], err);
        if (status != DT_OK)
            return status;
    }
    n_rules = n;
    return DT_OK;
}

static int points_by_name(const void *a, const void *b)
{
    const struct dt_fail_point *const *x = a;
    const struct dt_fail_point *const *y = b;
    int order = strcmp((*x)->name, (*y)->name);
    return order ? order : (int)(*y)->kind - (int)(*x)->kind;
}

void dt_fail_points_print(FILE *out)
{
    static const char *const beyond[] = {"", " error", " force"};
    size_t n = count_points();
    const struct dt_fail_point **sorted = malloc((n ? n : 1) * sizeof(*sorted));
    if (!sorted)
        return;
    for (size_t i = 0; i < n; i++)
        sorted[i] = __start_dt_fail_points[i];
    qsort(sorted, n, sizeof(*sorted), points_by_name);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(sorted[i]->name, sorted[i - 1]->name) != 0)
            fprintf(out, "%s%s\n", sorted[i]->name, beyond[sorted[i]->kind]);
    free(sorted);
}

int dt_fail_points_main(int argc, char **argv)
{
    struct dt_error err = {0};
    if (argc == 2 && strcmp(argv[1], "--fail-points") == 0) {
        dt_fail_points_print(stdout);
        return EXIT_SUCCESS;
    }
    if (dt_fail_points_set(getenv("DUETIME_FAIL"), &err) == DT_OK)
        return -1;
    fprintf(stderr, "%s\n", err.text);
    return 2;
}

/* Applies the rules of a point. If a rule has an action for the caller (error, force), returns the rule, else NULL. */
static const struct rule *apply_rules(const struct dt_fail_point *point)
{
    const struct rule *hit = NULL;
    for (size_t i = 0; i < n_rules; i++) {
        struct rule *rule = &rules[i];
        struct timespec left = {.tv_sec = rule->delay_ms / 1000, .tv_nsec = rule->delay_ms % 1000 * 1000000};
        if (strcmp(rule->point->name, point->name) != 0)
            continue;
        uint64_t number = atomic_fetch_add(&rule->passes, 1) + 1;
        if (number < rule->first || number > rule->last)
            continue;
        /* A forced condition is evaluated all the time, so only the first pass that is forced is logged. */
        if (rule->action != FORCE || number == rule->first)
            DT_LOG(WARN, "fail", "a fail point was hit", DT_S("point", point->name),
                   DT_S("action", action_names[rule->action]), DT_I("pass", number));
        switch (rule->action) {
        case CRASH:
            kill(getpid(), SIGKILL);
            break;
        case STOP:
            raise(SIGSTOP); /* kill() might stop another thread first, while this thread continues */
            break;
        case DELAY:
            while (nanosleep(&left, &left) != 0 && errno == EINTR)
                ;
            break;
        case ERROR:
        case FORCE:
            hit = rule;
        }
    }
    return hit;
}

void dt_fail_point_pass(const struct dt_fail_point *point)
{
    if (n_rules)
        (void)apply_rules(point);
}

dt_status dt_fail_point_status(const struct dt_fail_point *point, struct dt_error *err)
{
    const struct rule *rule = n_rules ? apply_rules(point) : NULL;
    return rule ? dt_fail(err, rule->status, "fail point %s", point->name) : DT_OK;
}

bool dt_fail_point_forced(const struct dt_fail_point *point)
{
    return n_rules && apply_rules(point) != NULL;
}

#else

typedef int dt_fail_point_none; /* ISO C requires a declaration in each translation unit */

#endif
