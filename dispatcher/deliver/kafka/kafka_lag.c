/* Owns: how far the results topic has been read, by the ends of its partitions and the offsets that the group
 * committed.
 * Refuses to know: which process reads, and what the caller does with the answer.
 * Invariants: an end is read before the offset that is compared with it. So messages from before the mark count as read
 * only if their offset was committed, which happens after they were applied. If the offset is unknown (no answer, or an
 * offset beyond the end because the topic was created again), the messages count as unread. */
#include "kafka_common.h"

/* ANSWER_MS is enough for a busy broker. With a shorter timeout, each request could time out, and the lag would stay
 * unknown. */
enum { KEEP_HANDLE_MS = 60000, ANSWER_MS = 5000 };

struct dt_result_lag {
    const struct dt_kafka_env *env;
    dt_kafka_on_demand *handle;
    char topic[DT_KAFKA_TOPIC_MAX + 1]; /* the topic of results; its consumer group has the same name */
    /* Offset after each partition's last message, as last recorded (dt_result_lag_mark); NULL: not recorded. */
    rd_kafka_topic_partition_list_t *ends;
};

static void forget_end_offsets(struct dt_result_lag *l)
{
    if (l->ends)
        rd_kafka_topic_partition_list_destroy(l->ends);
    l->ends = NULL;
}

/* ---- where partitions begin and end ---- */

/* Gives the handle back. If the handle got no answer, it is destroyed, so that the next request connects again. */
static void close_handle(struct dt_result_lag *l, dt_status status)
{
    if (status == DT_OK)
        dt_kafka_on_demand_let_go(l->handle);
    else
        dt_kafka_on_demand_discard(l->handle);
}

dt_status dt_result_lag_mark(dt_result_lag *l, struct dt_error *err)
{
    rd_kafka_t *rk;
    dt_status status = dt_kafka_on_demand_hold(l->handle, &rk, err);
    forget_end_offsets(l);
    if (status != DT_OK)
        return status;
    struct dt_kafka_topic_info info = {0};
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, l->topic, NULL);
    const int64_t until_us = dt_kafka_now_us() + ANSWER_MS * INT64_C(1000);
    status = topic ? dt_kafka_await_topic(rk, topic, until_us, NULL, &info, err)
                   : dt_kafka_fail(err, rd_kafka_last_error(), l->topic);
    if (topic)
        rd_kafka_topic_destroy(topic);
    if (status == DT_OK) {
        l->ends = rd_kafka_topic_partition_list_new(info.partitions);
        for (int i = 0; i < info.partitions; i++)
            rd_kafka_topic_partition_list_add(l->ends, l->topic, i);
        status = dt_kafka_ask_offsets(rk, l->ends, RD_KAFKA_OFFSET_END, err);
        if (status != DT_OK)
            forget_end_offsets(l);
    }
    close_handle(l, status);
    return status;
}

/* ---- what the group has committed ---- */

/* Asks Kafka for the current first or end offset of a partition. which: RD_KAFKA_OFFSET_BEGINNING or _END. */
static dt_status ask_offset(struct dt_result_lag *l, rd_kafka_t *rk, int32_t partition, int64_t which, int64_t *offset,
                            struct dt_error *err)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, l->topic, partition);
    dt_status status = dt_kafka_ask_offsets(rk, list, which, err);
    *offset = list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}

static dt_status compare_offsets(struct dt_result_lag *l, rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *group,
                                 bool *passed, struct dt_error *err)
{
    dt_status status = DT_OK;
    *passed = true;
    for (int i = 0; status == DT_OK && *passed && i < l->ends->cnt; i++) {
        const rd_kafka_topic_partition_t *end = &l->ends->elems[i];
        int64_t bound = 0;
        int64_t offset = -1; /* offset that the group committed; -1: none */
        for (int k = 0; k < group->cnt && offset < 0; k++)
            if (group->elems[k].partition == end->partition && group->elems[k].err == RD_KAFKA_RESP_ERR_NO_ERROR)
                offset = group->elems[k].offset;
        if (offset < 0) { /* if the group has committed no offset, the partition counts as read only if it is empty */
            status = ask_offset(l, rk, end->partition, RD_KAFKA_OFFSET_BEGINNING, &bound, err);
            *passed = bound == end->offset;
        } else if (offset > end->offset) {
            /* An offset beyond the recorded end was committed after the ends were recorded, or belongs to a topic that
             * was created again. If it is not beyond the partition's current end, it was committed after the ends were
             * recorded. */
            status = ask_offset(l, rk, end->partition, RD_KAFKA_OFFSET_END, &bound, err);
            *passed = offset <= bound;
        } else {
            *passed = offset == end->offset;
        }
        *passed = *passed && status == DT_OK;
    }
    return status;
}

static dt_status has_group_passed(struct dt_result_lag *l, rd_kafka_t *rk, bool *passed, struct dt_error *err)
{
    char reason[128];
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(rk, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS);
    rd_kafka_ListConsumerGroupOffsets_t *request = rd_kafka_ListConsumerGroupOffsets_new(l->topic, l->ends);
    (void)!rd_kafka_AdminOptions_set_request_timeout(options, ANSWER_MS, reason, sizeof(reason));
    rd_kafka_ListConsumerGroupOffsets(rk, &request, 1, options, queue);
    rd_kafka_ListConsumerGroupOffsets_destroy(request);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, ANSWER_MS + 500);
    rd_kafka_resp_err_t code = event ? rd_kafka_event_error(event) : RD_KAFKA_RESP_ERR__TIMED_OUT;
    const rd_kafka_topic_partition_list_t *group = NULL; /* committed offsets of the requested group; owned by event */
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        size_t n = 0;
        const rd_kafka_ListConsumerGroupOffsets_result_t *result =
            rd_kafka_event_ListConsumerGroupOffsets_result(event);
        const rd_kafka_group_result_t **groups =
            result ? rd_kafka_ListConsumerGroupOffsets_result_groups(result, &n) : NULL;
        const rd_kafka_error_t *error = n == 1 ? rd_kafka_group_result_error(groups[0]) : NULL;
        code = n != 1 ? RD_KAFKA_RESP_ERR__BAD_MSG : error ? rd_kafka_error_code(error) : code;
        group = code == RD_KAFKA_RESP_ERR_NO_ERROR ? rd_kafka_group_result_partitions(groups[0]) : NULL;
    }
    dt_status status = group ? compare_offsets(l, rk, group, passed, err) : dt_kafka_fail(err, code, l->topic);
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    return status;
}

dt_status dt_result_lag_passed(dt_result_lag *l, bool *passed, struct dt_error *err)
{
    rd_kafka_t *rk;
    dt_status status = l->ends ? dt_kafka_on_demand_hold(l->handle, &rk, err)
                               : dt_fail(err, DT_UNAVAILABLE, "no end offsets are recorded for %s", l->topic);
    *passed = false;
    if (status != DT_OK)
        return status;
    status = has_group_passed(l, rk, passed, err);
    *passed = *passed && status == DT_OK;
    close_handle(l, status);
    return status;
}

static const struct dt_kafka_setting settings[] = {
    {"isolation.level", "read_committed"},
    {"enable.auto.commit", "false"},
    {NULL, NULL},
};
/* The handle needs a group, although it joins none: when Kafka answers that the group's coordinator has moved,
 * librdkafka (2.0.2: rd_kafka_handle_OffsetFetch) uses the handle's own group without a check. */
static const struct dt_kafka_on_demand_ops on_demand_ops = {
    .handle = {.type = RD_KAFKA_CONSUMER, .group = "results", .settings = settings}};

dt_status dt_result_lag_new(const struct dt_kafka_env *env, dt_result_lag **out, struct dt_error *err)
{
    struct dt_result_lag *l = calloc(1, sizeof(*l));
    *out = NULL;
    if (!l)
        return dt_fail(err, DT_NOMEM, "out of memory");
    l->env = env;
    dt_status status = dt_kafka_topic_name(env, "results", l->topic, err);
    DT_THEN(status, dt_kafka_on_demand_new(env, &on_demand_ops, KEEP_HANDLE_MS, &l->handle, err));
    if (status == DT_OK)
        *out = l;
    else
        dt_result_lag_free(l);
    return status;
}

void dt_result_lag_free(dt_result_lag *l)
{
    if (!l)
        return;
    forget_end_offsets(l);
    dt_kafka_on_demand_free(l->handle);
    free(l);
}
