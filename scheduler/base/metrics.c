/* The registry: families with their series, in the order of registration. Handles live as long as the process. One
 * mutex protects registering and writing; updates only touch atomics of their series. A histogram counts an observation
 * in one bucket only; cumulative sums are made when the text is written. */
#include "metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "assert.h"

enum kind { COUNTER, GAUGE, SECONDS, COUNTS };

#define BUCKETS_MAX 32

/* Upper bounds of the buckets: narrow buckets where lateness and round trips usually are. */
static const double seconds_bounds[] = {0.0005, 0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02,
                                        0.03,   0.04,  0.05,   0.075, 0.1,    0.25, 0.5,   1,
                                        2.5,    5,     10,     30,    60,     120,  300,   600};
static const double counts_bounds[] = {1,   2,    4,    8,    16,   32,    64,    128,  256,
                                       512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};

#define SECONDS_N (sizeof(seconds_bounds) / sizeof(seconds_bounds[0]))
#define COUNTS_N  (sizeof(counts_bounds) / sizeof(counts_bounds[0]))
_Static_assert(SECONDS_N < BUCKETS_MAX && COUNTS_N < BUCKETS_MAX, "one more bucket takes what is above all bounds");

struct dt_metric {
    struct dt_metric *next; /* next series of the same family */
    enum kind kind;
    char *labels;
    _Atomic int64_t count;      /* value of a counter */
    _Atomic uint64_t value;     /* a double's bits: value of a gauge, or sum of a histogram */
    _Atomic uint64_t buckets[]; /* observations of a histogram, by bucket; other kinds have none */
};

struct family {
    struct family *next;
    enum kind kind;
    char *name, *help;
    struct dt_metric *series, **last;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct family *families, **last_family = &families;

static uint64_t bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static double double_of(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

static double load_double(const _Atomic uint64_t *at)
{
    return double_of(atomic_load_explicit(at, memory_order_relaxed));
}

static const double *bucket_bounds_of(enum kind kind)
{
    return kind == SECONDS ? seconds_bounds : counts_bounds;
}

/* Returns the number of bounds. A histogram has one more bucket than bounds. */
static unsigned count_bucket_bounds(enum kind kind)
{
    return kind == SECONDS ? SECONDS_N : kind == COUNTS ? COUNTS_N : 0;
}

static bool is_histogram(enum kind kind)
{
    return kind == SECONDS || kind == COUNTS;
}

static struct family *new_family(enum kind kind, const char *name, const char *help)
{
    struct family *family = calloc(1, sizeof(*family));
    if (!family)
        return NULL;
    family->kind = kind;
    family->name = strdup(name);
    family->help = strdup(help ? help : "");
    family->last = &family->series;
    if (!family->name || !family->help) {
        free(family->name);
        free(family->help);
        free(family);
        return NULL;
    }
    *last_family = family;
    last_family = &family->next;
    return family;
}

static struct family *find_family(const char *name)
{
    struct family *family = families;
    while (family && strcmp(family->name, name) != 0)
        family = family->next;
    return family;
}

static dt_metric *find_series(const struct family *family, const char *labels)
{
    dt_metric *metric = family->series;
    while (metric && strcmp(metric->labels, labels) != 0)
        metric = metric->next;
    return metric;
}

/* Finds or adds a series. Returns NULL if a family of another kind has the name. */
static dt_metric *find_or_add(enum kind kind, const char *name, const char *help, const char *labels)
{
    dt_metric *metric = NULL;
    labels = labels ? labels : "";
    pthread_mutex_lock(&mutex);
    struct family *family = find_family(name);
    if (!family)
        family = new_family(kind, name, help);
    if (!family || family->kind != kind)
        goto out;
    metric = find_series(family, labels);
    if (metric)
        goto out;
    size_t buckets = is_histogram(kind) ? count_bucket_bounds(kind) + 1 : 0;
    metric = calloc(1, sizeof(*metric) + buckets * sizeof(metric->buckets[0]));
    char *copy = metric ? strdup(labels) : NULL;
    if (!copy) {
        free(metric);
        metric = NULL;
        goto out;
    }
    metric->kind = kind;
    metric->labels = copy;
    dt_assert(!*family->last);
    *family->last = metric;
    family->last = &metric->next;
out:
    pthread_mutex_unlock(&mutex);
    return metric;
}

dt_metric *dt_counter(const char *name, const char *help, const char *labels)
{
    return find_or_add(COUNTER, name, help, labels);
}

dt_metric *dt_gauge(const char *name, const char *help, const char *labels)
{
    return find_or_add(GAUGE, name, help, labels);
}

dt_metric *dt_histogram(const char *name, const char *help, const char *labels)
{
    return find_or_add(SECONDS, name, help, labels);
}

dt_metric *dt_histogram_count(const char *name, const char *help, const char *labels)
{
    return find_or_add(COUNTS, name, help, labels);
}

static void add_to_value(dt_metric *metric, double v)
{
    uint64_t seen = atomic_load_explicit(&metric->value, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&metric->value, &seen, bits_of(double_of(seen) + v),
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

void dt_metric_add(dt_metric *metric, int64_t n)
{
    if (metric && metric->kind == GAUGE)
        add_to_value(metric, (double)n);
    else if (metric && metric->kind == COUNTER && n >= 0)
        atomic_fetch_add_explicit(&metric->count, n, memory_order_relaxed);
}

void dt_metric_set(dt_metric *metric, double v)
{
    if (!metric || metric->kind != GAUGE)
        return;
    atomic_store_explicit(&metric->value, bits_of(v), memory_order_relaxed);
}

void dt_metric_observe(dt_metric *metric, double v)
{
    if (!metric || !is_histogram(metric->kind) || isnan(v))
        return;
    const double *bounds = bucket_bounds_of(metric->kind);
    unsigned i = 0;
    while (i < count_bucket_bounds(metric->kind) && v > bounds[i])
        i++;
    atomic_fetch_add_explicit(&metric->buckets[i], 1, memory_order_relaxed);
    add_to_value(metric, v);
}

double dt_metric_value(const dt_metric *metric)
{
    uint64_t observations = 0;
    if (!metric)
        return 0;
    if (metric->kind == COUNTER)
        return (double)atomic_load_explicit(&metric->count, memory_order_relaxed);
    if (metric->kind == GAUGE)
        return load_double(&metric->value);
    for (unsigned i = 0; i <= count_bucket_bounds(metric->kind); i++)
        observations += atomic_load_explicit(&metric->buckets[i], memory_order_relaxed);
    return (double)observations;
}

const dt_metric *dt_metric_find(const char *name)
{
    pthread_mutex_lock(&mutex);
    const struct family *family = find_family(name);
    const dt_metric *metric = family ? find_series(family, "") : NULL;
    pthread_mutex_unlock(&mutex);
    return metric;
}

size_t dt_metric_buckets(const dt_metric *metric)
{
    return metric && is_histogram(metric->kind) ? count_bucket_bounds(metric->kind) + 1 : 0;
}

uint64_t dt_metric_bucket(const dt_metric *metric, size_t i, double *bound)
{
    dt_assert(is_histogram(metric->kind));
    dt_assert_cmp(i, <=, count_bucket_bounds(metric->kind));
    *bound = i < count_bucket_bounds(metric->kind) ? bucket_bounds_of(metric->kind)[i] : INFINITY;
    return atomic_load_explicit(&metric->buckets[i], memory_order_relaxed);
}

static void add_number(struct dt_strbuf *out, double v)
{
    if (isnan(v))
        dt_strbuf_adds(out, "NaN");
    else if (isinf(v))
        dt_strbuf_adds(out, v > 0 ? "+Inf" : "-Inf");
    else
        dt_strbuf_addf(out, "%.15g", v);
}

/* Writes the series' name: "name suffix {labels, le}". */
static void add_series_name(struct dt_strbuf *out, const char *name, const char *suffix, const char *labels)
{
    dt_strbuf_adds(out, name);
    dt_strbuf_adds(out, suffix);
    if (labels[0])
        dt_strbuf_addf(out, "{%s}", labels);
    dt_strbuf_addc(out, ' ');
}

static void add_series_text(struct dt_strbuf *out, const char *name, const dt_metric *metric)
{
    uint64_t sum = 0;
    if (!is_histogram(metric->kind)) {
        add_series_name(out, name, "", metric->labels);
        if (metric->kind == COUNTER)
            dt_strbuf_add_i64(out, atomic_load_explicit(&metric->count, memory_order_relaxed));
        else
            add_number(out, load_double(&metric->value));
        dt_strbuf_addc(out, '\n');
        return;
    }
    for (unsigned i = 0; i <= count_bucket_bounds(metric->kind); i++) {
        double bound;
        sum += dt_metric_bucket(metric, i, &bound);
        dt_strbuf_addf(out, "%s_bucket{%s%sle=\"", name, metric->labels, metric->labels[0] ? "," : "");
        add_number(out, bound);
        dt_strbuf_addf(out, "\"} %llu\n", (unsigned long long)sum);
    }
    add_series_name(out, name, "_sum", metric->labels);
    add_number(out, load_double(&metric->value));
    dt_strbuf_addc(out, '\n');
    add_series_name(out, name, "_count", metric->labels);
    dt_strbuf_addf(out, "%llu\n", (unsigned long long)sum);
}

void dt_metrics_write(struct dt_strbuf *out)
{
    static const char *const types[] = {"counter", "gauge", "histogram", "histogram"};
    pthread_mutex_lock(&mutex);
    for (const struct family *family = families; family; family = family->next) {
        dt_strbuf_addf(out, "# HELP %s ", family->name);
        for (const char *help = family->help; *help; help++) {
            if (*help == '\\' || *help == '\n')
                dt_strbuf_addc(out, '\\');
            dt_strbuf_addc(out, *help == '\n' ? 'n' : *help);
        }
        dt_strbuf_addf(out, "\n# TYPE %s %s\n", family->name, types[family->kind]);
        for (const dt_metric *metric = family->series; metric; metric = metric->next)
            add_series_text(out, family->name, metric);
    }
    pthread_mutex_unlock(&mutex);
}
