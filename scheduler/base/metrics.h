/* Metrics in the Prometheus text format. A family is registered once, by name; a series in it by its labels
 * ("shard=\"3\""; "": no labels). Registering a series again returns the same handle, which lives as long as the
 * process. Registering returns NULL if memory runs out, and all functions accept a NULL handle. Updates are lock-free;
 * every function is thread-safe. */
#pragma once

#include "base/text/strbuf.h"

typedef struct dt_metric dt_metric;

dt_metric *dt_counter(const char *name, const char *help, const char *labels);
dt_metric *dt_gauge(const char *name, const char *help, const char *labels);
/* Registers a histogram of seconds, from 0.5 ms to 10 min. */
dt_metric *dt_histogram(const char *name, const char *help, const char *labels);
/* Registers a histogram of counts (batch sizes): powers of two from 1 to 65,536. */
dt_metric *dt_histogram_count(const char *name, const char *help, const char *labels);

void dt_metric_add(dt_metric *metric, int64_t n);    /* adds n to a counter or gauge; a counter never decreases */
void dt_metric_set(dt_metric *metric, double v);     /* sets a gauge */
void dt_metric_observe(dt_metric *metric, double v); /* adds an observation to a histogram: seconds or a count */
/* Returns the value of a counter or gauge, or the number of observations of a histogram. */
double dt_metric_value(const dt_metric *metric);

/* Returns a family's series without labels, or NULL if it is not registered yet. */
const dt_metric *dt_metric_find(const char *name);
/* Returns a histogram's buckets: their number (0: not a histogram), and the observations and the upper bound of each.
 * The bound of the last bucket is infinite. */
size_t dt_metric_buckets(const dt_metric *metric);
uint64_t dt_metric_bucket(const dt_metric *metric, size_t i, double *bound);

/* Appends all series as Prometheus text. */
void dt_metrics_write(struct dt_strbuf *out);
