/* Names of states, rules for topic names, ids, retry schedules, keys of fires, and functions over all columns of a job.
 * Pure. */
#include "job.h"

#define HOME_DAY_0_MS INT64_C(1735689600000)                 /* 2025-01-01T00:00:00Z */
#define SEQUENCES     (INT64_C(1) << (DT_SEQUENCE_BITS - 1)) /* distinct sequence numbers (job.h) */
#define HOME_DAY_MAX  ((INT64_C(1) << (63 - DT_SEQUENCE_BITS)) - 1)

static const char *const state_names[DT_JOB_STATES] = {
    [DT_SCHEDULED] = "scheduled", [DT_DISPATCHED] = "dispatched", [DT_SUCCEEDED] = "succeeded",
    [DT_DEAD] = "dead",           [DT_CANCELLED] = "cancelled",
};

static const char *const attempt_names[DT_ATTEMPT_STATUSES] = {
    [DT_ATTEMPT_NONE] = "none",           [DT_ATTEMPT_DISPATCHED] = "dispatched",
    [DT_ATTEMPT_SUCCEEDED] = "succeeded", [DT_ATTEMPT_FAILED] = "failed",
    [DT_ATTEMPT_TIMED_OUT] = "timed_out", [DT_ATTEMPT_SNOOZED] = "snoozed",
    [DT_ATTEMPT_GAVE_UP] = "gave_up",     [DT_ATTEMPT_UNDELIVERABLE] = "undeliverable",
    [DT_ATTEMPT_LOST] = "lost",
};

const char *dt_job_state_name(enum dt_job_state state)
{
    return (unsigned)state < DT_JOB_STATES ? state_names[state] : "unknown";
}

const char *dt_attempt_status_name(enum dt_attempt_status status)
{
    return (unsigned)status < DT_ATTEMPT_STATUSES ? attempt_names[status] : "unknown";
}

bool dt_job_state_parse(struct dt_str word, enum dt_job_state *out)
{
    for (unsigned i = 0; i < DT_JOB_STATES; i++)
        if (dt_str_is(word, state_names[i])) {
            *out = (enum dt_job_state)i;
            return true;
        }
    return false;
}

static bool is_topic_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

bool dt_topic_prefix_valid(struct dt_str prefix)
{
    for (size_t i = 0; i < prefix.n; i++)
        if (!is_topic_char(prefix.p[i]))
            return false;
    return prefix.n > 0 && prefix.n <= DT_TOPIC_MAX;
}

bool dt_topic_within(const struct dt_topic_bound *bound, struct dt_str topic)
{
    for (size_t i = 0; bound && i < bound->n; i++)
        if (bound->prefixes[i].n && dt_str_begins(topic, bound->prefixes[i]))
            return true;
    return !bound;
}

const char *dt_topic_check(struct dt_str topic, struct dt_str installation)
{
    if (topic.n == 0 || topic.n > DT_TOPIC_MAX)
        return "must have 1 to 200 characters";
    for (size_t i = 0; i < topic.n; i++)
        if (!is_topic_char(topic.p[i]))
            return "may have letters, digits, '.', '_' and '-' only";
    if (dt_str_is(topic, ".") || dt_str_is(topic, ".."))
        return "must not be '.' or '..'";
    if (dt_str_begins(topic, DT_STR_LIT("__")))
        return "must not start with '__'";
    if (installation.n && dt_str_begins(topic, installation) && topic.n > installation.n &&
        topic.p[installation.n] == '.')
        return "must not start with the name of the installation and a dot: such topics are internal";
    return NULL;
}

const char *const dt_kafka_own_topics[DT_KAFKA_OWN_TOPICS] = {
    "ledger", "results", "results.rejected", "commands", "commands.rejected", "dead", "alerts"};

bool dt_kafka_topic_internal(struct dt_str kafka_topic)
{
    for (size_t i = 0; i < DT_KAFKA_OWN_TOPICS; i++) {
        const struct dt_str own = dt_str(dt_kafka_own_topics[i]);
        if (dt_str_ends(kafka_topic, own) && kafka_topic.n > own.n && kafka_topic.p[kafka_topic.n - own.n - 1] == '.')
            return true;
    }
    return dt_str_begins(kafka_topic, DT_STR_LIT("__"));
}

bool dt_topic_listed(const char *list, struct dt_str name)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        bool prefix = n > 0 && list[n - 1] == '*';
        size_t same = prefix ? n - 1 : n;
        if (name.n >= same && (prefix || name.n == same) && memcmp(name.p, list, same) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

int64_t dt_job_id(int64_t run_at_ms, int64_t sequence)
{
    int64_t day = run_at_ms <= HOME_DAY_0_MS ? 0 : (run_at_ms - HOME_DAY_0_MS) / DT_DAY_MS;
    if (day > HOME_DAY_MAX)
        day = HOME_DAY_MAX;
    return day << DT_SEQUENCE_BITS | (sequence & (SEQUENCES - 1));
}

int64_t dt_ack_may_lose_ms(int64_t ack_timeout_ms)
{
    int64_t share_ms = ack_timeout_ms / 20;
    return share_ms < 100 ? 100 : share_ms > 1000 ? 1000 : share_ms;
}

int64_t dt_near_end_ms(int64_t now_ms)
{
    int64_t then_ms = now_ms + 2 * DT_DAY_MS;
    int64_t into_day_ms = then_ms % DT_DAY_MS;
    if (into_day_ms < 0)
        into_day_ms += DT_DAY_MS;
    return then_ms - into_day_ms + DT_DAY_MS;
}

#define BYTES(kind, member, column) BYTES_##kind(member)
#define BYTES_TEXT(member)          n += job->member.n;
#define BYTES_INT(member)
#define BYTES_FLAG(member)
#define BYTES_SHARD(member)
#define BYTES_STATE(member)
#define BYTES_STATUS(member)

size_t dt_job_bytes(const struct dt_job *job)
{
    size_t n = job->payload.n;
    DT_JOB_COLUMNS(BYTES, BYTES, BYTES)
    return n;
}

size_t dt_new_job_bytes(const struct dt_new_job *job)
{
    size_t n = job->topic.n + job->key.n + job->retry.n + job->payload.n;
    DT_JOB_COLUMNS(DT_COLUMN_NONE, BYTES, BYTES)
    return n;
}

#define HAS(kind, member, column) HAS_##kind(member)
#define HAS_TEXT(member)          has |= job->member.p != NULL;
#define HAS_FLAG(member)          has |= job->member;

bool dt_new_job_has_extras(const struct dt_new_job *job)
{
    bool has = false;
    DT_JOB_COLUMNS(DT_COLUMN_NONE, HAS, HAS)
    return has;
}

#define COPY(kind, member, column) job->member = made->member;

void dt_job_from_new(struct dt_job *job, const struct dt_new_job *made, int64_t created_ms)
{
    *job = (struct dt_job){
        .id = made->id,
        .topic = made->topic,
        .key = made->key,
        .state = DT_SCHEDULED,
        .run_at_ms = made->run_at_ms,
        .next_at_ms = made->run_at_ms,
        .claim_shard = -1,
        .retry = made->retry,
        .ack_timeout_ms = made->ack_timeout_ms,
        .payload = made->payload,
        .created_at_ms = created_ms,
        .updated_at_ms = created_ms,
        .version = 1,
    };
    DT_JOB_COLUMNS(DT_COLUMN_NONE, COPY, COPY)
}

void dt_retry_format(struct dt_strbuf *out, const int64_t *delays_ms, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (i)
            dt_strbuf_addc(out, ' ');
        dt_duration_add_short(out, delays_ms[i]);
    }
}

static bool is_separator(char c)
{
    return c == ' ' || c == ',' || c == '\t' || c == '\n' || c == '\r';
}

dt_status dt_retry_parse(struct dt_str text, int64_t delays_ms[DT_RETRY_MAX], unsigned *n)
{
    unsigned count = 0;
    *n = 0;
    for (size_t i = 0; i < text.n;) {
        if (is_separator(text.p[i])) {
            i++;
            continue;
        }
        struct dt_str word = {text.p + i, 0};
        while (i < text.n && !is_separator(text.p[i]))
            i++, word.n++;
        /* dt_duration_parse does not accept the unit in "1500ms", but reads a number without a unit as milliseconds. */
        if (word.n > 2 && memcmp(word.p + word.n - 2, "ms", 2) == 0 && word.p[word.n - 3] >= '0' &&
            word.p[word.n - 3] <= '9')
            word.n -= 2;
        if (count == DT_RETRY_MAX || dt_duration_parse(word, &delays_ms[count]) != DT_OK)
            return DT_INVALID;
        count++;
    }
    *n = count;
    return DT_OK;
}

bool dt_fire_key_split(struct dt_str key, struct dt_str *name)
{
    size_t at = key.n;
    while (at > 0 && key.p[at - 1] >= '0' && key.p[at - 1] <= '9')
        at--;
    if (at < 2 || at == key.n || key.p[at - 1] != '@' || at - 1 > DT_SCHEDULE_NAME_MAX)
        return false;
    *name = (struct dt_str){key.p, at - 1};
    return true;
}

int64_t dt_fire_key_time_ms(struct dt_str key, struct dt_str name)
{
    const size_t first = name.n + 1;
    int64_t ms = 0;
    if (key.n <= first || key.p[name.n] != '@' || (key.p[first] == '0' && key.n > first + 1))
        return -1;
    for (size_t i = first; i < key.n; i++) {
        if (key.p[i] < '0' || key.p[i] > '9' || ms > DT_TIME_MAX_MS)
            return -1;
        ms = ms * 10 + (key.p[i] - '0');
    }
    return ms > DT_TIME_MAX_MS ? -1 : ms;
}
