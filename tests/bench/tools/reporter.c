/*
 * A consumer that costs little, so that it is not what is measured: reads committed messages of a topic from its
 * beginning, reports each as succeeded when asked to, and prints its counts after COUNT messages, or after SECONDS
 * without one.
 *
 *   reporter BROKERS TOPIC COUNT|all RESULTS-TOPIC|- SECONDS [gather | SINCE-MS]
 *
 * all: to the end that every partition has now. gather: reports only when all were read (prints {"messages":n}) and a
 * line came on the standard input. SINCE-MS: what was due earlier, to warm up, does not count as late or early. Prints,
 * at last, one line:
 *
 *   {"messages":n,"distinct":n,"early":n,"seconds":s,"last_ms":t,"p50":ms,"p90":ms,"p99":ms,"max":ms}
 *
 * distinct: different (job, attempt)s; seconds: from the first to the last; the rest: receive time less
 * ce_scheduledtime.
 */
#include <librdkafka/rdkafka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bare.h"

#define ATTEMPTS 4096 /* more than an attempt number; job ids have less than 52 bits for years to come */

struct seen {
    long n, capacity, n_late;
    uint64_t *jobs; /* job * ATTEMPTS + attempt */
    double *late;
    double first, last;
};

struct options {
    const char *brokers, *topic, *results;
    long count; /* 0: to the end */
    double silence_ms, since_ms;
    int gather;
};

static rd_kafka_t *make(rd_kafka_type_t type, const char *brokers)
{
    char error[300];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    const char *const consumer[][2] = {{"group.id", "bench"},
                                       {"isolation.level", "read_committed"},
                                       {"auto.offset.reset", "earliest"},
                                       {"enable.auto.commit", "false"},
                                       {"enable.partition.eof", "true"},
                                       {"fetch.wait.max.ms", "100"},
                                       {"topic.metadata.refresh.interval.ms", "200"}};
    const char *const producer[][2] = {{"linger.ms", "20"}, {"queue.buffering.max.messages", "2000000"}};
    size_t n = type == RD_KAFKA_CONSUMER ? sizeof consumer / sizeof *consumer : sizeof producer / sizeof *producer;
    rd_kafka_conf_set(conf, "bootstrap.servers", brokers, error, sizeof error);
    for (size_t i = 0; i < n; i++) {
        const char *const *pair = type == RD_KAFKA_CONSUMER ? consumer[i] : producer[i];
        if (rd_kafka_conf_set(conf, pair[0], pair[1], error, sizeof error) != RD_KAFKA_CONF_OK)
            die(pair[0], error);
    }
    rd_kafka_t *handle = rd_kafka_new(type, conf, error, sizeof error);
    if (!handle)
        die("handle", error);
    return handle;
}

/* Asks until the broker names the topic's partitions; how many there are. A producer that has asked knows the leaders:
 * one that has not needs up to a second for its first message. */
static int partitions_of(rd_kafka_t *handle, const char *name)
{
    const struct rd_kafka_metadata *metadata;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(handle, name, NULL);
    int partitions = 0;
    for (double end = wall_ms() + 30000; partitions == 0 && wall_ms() < end;) {
        if (rd_kafka_metadata(handle, 0, topic, &metadata, 5000))
            continue;
        partitions = metadata->topics[0].partition_cnt;
        rd_kafka_metadata_destroy(metadata);
    }
    if (partitions == 0)
        die(name, "no such topic");
    rd_kafka_topic_destroy(topic);
    return partitions;
}

/* All partitions, without a group: nobody else takes part, and joining one takes seconds. The number of partitions. */
static int assign(rd_kafka_t *consumer, const char *topic)
{
    int partitions = partitions_of(consumer, topic);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    for (int i = 0; i < partitions; i++)
        rd_kafka_topic_partition_list_add(list, topic, i)->offset = RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_assign(consumer, list);
    rd_kafka_topic_partition_list_destroy(list);
    return partitions;
}

static const char *header(const rd_kafka_message_t *message, const char *name, char *buf, size_t cap)
{
    rd_kafka_headers_t *headers;
    const void *value;
    size_t n;
    if (rd_kafka_message_headers(message, &headers) || rd_kafka_header_get_last(headers, name, &value, &n) || n >= cap)
        return NULL;
    memcpy(buf, value, n);
    buf[n] = '\0';
    return buf;
}

/* "2026-11-21T10:30:00.123Z" */
static double time_of(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    return rest ? (double)timegm(&tm) * 1000 + atof(rest) * 1000 : 0;
}

static void report(rd_kafka_t *producer, const char *topic, uint64_t job, unsigned attempt)
{
    char id[40], body[200];
    snprintf(id, sizeof id, "%llu", (unsigned long long)job);
    int n = snprintf(body, sizeof body, "{\"job_id\":\"%s\",\"attempt\":%u,\"status\":\"succeeded\"}", id, attempt);
    while (rd_kafka_producev(producer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY(id, strlen(id)),
                             RD_KAFKA_V_VALUE(body, (size_t)n), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                             RD_KAFKA_V_END) == RD_KAFKA_RESP_ERR__QUEUE_FULL)
        rd_kafka_poll(producer, 10);
}

static void take(struct seen *seen, double since_ms, const rd_kafka_message_t *message, uint64_t *job,
                 unsigned *attempt)
{
    char id[40], n[20], due[40];
    if (!header(message, "ce_jobid", id, sizeof id) || !header(message, "ce_attempt", n, sizeof n) ||
        !header(message, "ce_scheduledtime", due, sizeof due))
        die("message", "a header is missing");
    if (seen->n == seen->capacity) {
        seen->capacity = seen->capacity ? 2 * seen->capacity : 65536;
        seen->jobs = realloc(seen->jobs, (size_t)seen->capacity * sizeof *seen->jobs);
        seen->late = realloc(seen->late, (size_t)seen->capacity * sizeof *seen->late);
        if (!seen->jobs || !seen->late)
            die("memory", "none left");
    }
    *job = strtoull(id, NULL, 10);
    *attempt = (unsigned)atoi(n);
    seen->last = wall_ms();
    seen->first = seen->n ? seen->first : seen->last;
    seen->jobs[seen->n++] = *job * ATTEMPTS + *attempt;
    if (time_of(due) > since_ms - 0.5)
        seen->late[seen->n_late++] = seen->last - time_of(due);
}

static void read_all(const struct options *o, rd_kafka_t *consumer, rd_kafka_t *producer, struct seen *seen)
{
    int ends = 0, partitions = assign(consumer, o->topic);
    double until_ms = wall_ms() + o->silence_ms;
    while ((o->count ? seen->n < o->count : ends < partitions) && wall_ms() < until_ms) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, 100);
        uint64_t job;
        unsigned attempt;
        if (message && message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            ends++;
        if (message && !message->err) {
            take(seen, o->since_ms, message, &job, &attempt);
            until_ms = seen->last + o->silence_ms;
            if (o->results && !o->gather)
                report(producer, o->results, job, attempt);
        }
        if (message)
            rd_kafka_message_destroy(message);
        if (producer)
            rd_kafka_poll(producer, 0);
    }
}

static void report_all(const struct options *o, rd_kafka_t *producer, const struct seen *seen)
{
    char line[20];
    printf("{\"messages\":%ld}\n", seen->n);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        die("gather", "nobody said go");
    for (long i = 0; i < seen->n; i++) {
        report(producer, o->results, seen->jobs[i] / ATTEMPTS, (unsigned)(seen->jobs[i] % ATTEMPTS));
        rd_kafka_poll(producer, 0);
    }
}

static long distinct(struct seen *seen)
{
    long n = 0;
    qsort(seen->jobs, (size_t)seen->n, sizeof *seen->jobs, by_id);
    for (long i = 0; i < seen->n; i++)
        n += i == 0 || seen->jobs[i] != seen->jobs[i - 1];
    return n;
}

static double late(const struct seen *seen, double share)
{
    long at = (long)((double)seen->n_late * share);
    return seen->n_late ? seen->late[at < seen->n_late ? at : seen->n_late - 1] : 0;
}

static long early(const struct seen *seen)
{
    long n = 0;
    for (long i = 0; i < seen->n_late; i++)
        n += seen->late[i] < 0;
    return n;
}

int main(int argc, char **argv)
{
    if (argc < 6)
        die("usage", "reporter BROKERS TOPIC COUNT|all RESULTS-TOPIC|- SECONDS [gather | SINCE-MS]");
    struct options o = {argv[1],
                        argv[2],
                        strcmp(argv[4], "-") ? argv[4] : NULL,
                        atol(argv[3]),
                        atof(argv[5]) * 1000,
                        argc > 6 ? atof(argv[6]) : 0,
                        argc > 6 && !strcmp(argv[6], "gather")};
    struct seen seen = {0};
    rd_kafka_t *consumer = make(RD_KAFKA_CONSUMER, o.brokers),
               *producer = o.results ? make(RD_KAFKA_PRODUCER, o.brokers) : NULL;
    rd_kafka_poll_set_consumer(consumer);
    if (producer)
        partitions_of(producer, o.results);
    read_all(&o, consumer, producer, &seen);
    if (o.gather)
        report_all(&o, producer, &seen);
    if (producer && rd_kafka_flush(producer, 60000))
        die("flush", "results are left");
    qsort(seen.late, (size_t)seen.n_late, sizeof *seen.late, by_number);
    printf("{\"messages\":%ld,\"distinct\":%ld,\"early\":%ld,\"seconds\":%.3f,\"last_ms\":%.0f,\"p50\":%.1f,\"p90\":%."
           "1f,\"p99\":%.1f,\"max\":%.1f}\n",
           seen.n, distinct(&seen), early(&seen), (seen.last - seen.first) / 1000, seen.last, late(&seen, .5),
           late(&seen, .9), late(&seen, .99), late(&seen, 1));
    fflush(stdout);
    rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
    if (producer)
        rd_kafka_destroy(producer);
    free(seen.jobs);
    free(seen.late);
    return o.count && seen.n < o.count;
}
