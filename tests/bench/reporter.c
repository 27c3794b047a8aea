/*
 * A consumer that costs little, so that it is not what is measured: reads committed messages of a topic from its
 * beginning, reports each as succeeded when asked to, and prints what it saw once `count` have arrived.
 *
 *   reporter BROKERS TOPIC COUNT RESULTS-TOPIC|- SECONDS
 *   -> one line: messages, seconds from the first to the last, lateness p50 p90 p99 max in ms (receive time less
 * ce_scheduledtime)
 */
#include <librdkafka/rdkafka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec * 1000 + (double)t.tv_nsec / 1e6;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "reporter: %s: %s\n", what, why);
    exit(1);
}

static rd_kafka_t *make(rd_kafka_type_t type, const char *brokers)
{
    char error[300];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    const char *const consumer[][2] = {{"group.id", "bench"},
                                       {"isolation.level", "read_committed"},
                                       {"auto.offset.reset", "earliest"},
                                       {"enable.auto.commit", "false"},
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

static void report(rd_kafka_t *producer, const char *topic, const rd_kafka_message_t *message)
{
    char id[40], attempt[20], body[200];
    if (!header(message, "ce_jobid", id, sizeof id) || !header(message, "ce_attempt", attempt, sizeof attempt))
        die("message", "no job id");
    int n = snprintf(body, sizeof body, "{\"job_id\":\"%s\",\"attempt\":%s,\"status\":\"succeeded\"}", id, attempt);
    while (rd_kafka_producev(producer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY(id, strlen(id)),
                             RD_KAFKA_V_VALUE(body, (size_t)n), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                             RD_KAFKA_V_END) == RD_KAFKA_RESP_ERR__QUEUE_FULL)
        rd_kafka_poll(producer, 10);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        die("usage", "reporter BROKERS TOPIC COUNT RESULTS-TOPIC|- SECONDS");
    long count = atol(argv[3]), n = 0;
    double *late = calloc((size_t)count, sizeof *late), first = 0, last = 0, end = wall_ms() + atof(argv[5]) * 1000;
    int reports = strcmp(argv[4], "-") != 0;
    rd_kafka_t *consumer = make(RD_KAFKA_CONSUMER, argv[1]), *producer = make(RD_KAFKA_PRODUCER, argv[1]);
    rd_kafka_poll_set_consumer(consumer);
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, argv[2], RD_KAFKA_PARTITION_UA);
    rd_kafka_subscribe(consumer, topics);
    while (n < count && wall_ms() < end) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, 100);
        if (message && !message->err) {
            char due[40];
            last = wall_ms();
            first = first > 0 ? first : last;
            if (!header(message, "ce_scheduledtime", due, sizeof due))
                die("message", "no ce_scheduledtime");
            late[n++] = last - time_of(due);
            if (reports)
                report(producer, argv[4], message);
        }
        if (message)
            rd_kafka_message_destroy(message);
        rd_kafka_poll(producer, 0);
    }
    rd_kafka_flush(producer, 10000);
    qsort(late, (size_t)n, sizeof *late, compare);
    printf("%ld %.3f %.1f %.1f %.1f %.1f\n", n, (last - first) / 1000, n ? late[n / 2] : 0, n ? late[n * 9 / 10] : 0,
           n ? late[n * 99 / 100] : 0, n ? late[n - 1] : 0);
    fflush(stdout);
    rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
    rd_kafka_destroy(producer);
    rd_kafka_topic_partition_list_destroy(topics);
    free(late);
    return n == count ? 0 : 1;
}
