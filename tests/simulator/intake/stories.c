/*
 * Jobs that are made and changed from outside, far ahead of their time, so that nothing else touches them: a job's
 * version counts what was done to it, and its time and state are those of the last row, or message.
 *
 * Rows stand in transactions of their own, which last for a while, are rolled back, or lose the answer to their COMMIT:
 * then all of the transaction is there, or nothing of it.
 */

#include "simulator/faults.h"
#include "simulator/intake/intake.h"
#include "simulator/oracles.h"

#define STORIES_MAX 10
#define WRITERS     2
#define JUNK_MAX    4
#define DAY_MS      INT64_C(86400000)

struct outcome {
    unsigned effects; /* 0: there is no such job */
    int64_t run_at_ms;
    bool cancelled;
};

struct story {
    char key[16];
    unsigned topic;
    bool by_message, excused;   /* excused: somebody kept its job locked for longer than a reader waits */
    bool in_doubt;              /* it may also be as … */
    struct outcome sure, maybe; /* … `maybe` says */
};

static struct {
    struct story v[STORIES_MAX];
    unsigned n, at_work;
    unsigned strays, strays_in_doubt; /* rows that cannot be carried out, and are kept with their error */
    bool junk[JUNK_MAX];              /* messages that nobody understands, and whether they were put aside */
    unsigned n_junk;
} it;

/* ---- rows ---- */

static const char row_sql[] =
    "INSERT INTO job_inbox (action, topic, job_key, delay_ms, payload, created_at) VALUES (?, ?, ?, ?, ?, ?)";

static dt_status write_row(dt_db *db, unsigned topic, const char *key, const char *action, int64_t delay_ms,
                           int64_t now_ms)
{
    struct dt_error err = {0};
    const bool bare = strcmp(action, "cancel") == 0;
    return dt_db_run(db, row_sql,
                     DT_PARAMS(DT_P_STR(dt_str(action)), DT_P_STR(workload_topic(topic)), DT_P_STR(dt_str(key)),
                               bare ? DT_P_NULL : DT_P_INT(delay_ms), bare ? DT_P_NULL : DT_P_STR(DT_STR_LIT("1")),
                               DT_P_INT(now_ms)),
                     NULL, &err);
}

static const char *action_of(unsigned step, unsigned steps, bool cancels)
{
    return step == 0 ? "create" : cancels && step + 1 == steps ? "cancel" : "change";
}

static int64_t some_delay_ms(void)
{
    return DAY_MS / 2 + rnd_in(0, DAY_MS / 3);
}

static void add_effect(struct outcome *next, const char *action, int64_t run_at_ms)
{
    next->effects++;
    if (strcmp(action, "cancel") == 0)
        next->cancelled = true;
    else
        next->run_at_ms = run_at_ms;
}

/* Returns whether the story goes on. */
static bool end_transaction(dt_db *db, struct story *s, const struct outcome *next)
{
    struct dt_error err = {0};
    if (s->sure.effects && one_in(8)) { /* what is rolled back may be anything but the create */
        dt_db_rollback(db);
        TRACE("application: what it wrote of %s is rolled back", s->key);
        return true;
    }
    dt_status status = dt_db_commit(db, &err);
    TRACE("application: %s: %s", s->key, dt_status_name(status));
    if (status == DT_OK)
        s->sure = *next;
    else if (status == DT_UNKNOWN) {
        s->maybe = *next;
        s->in_doubt = true;
    }
    return status == DT_OK;
}

static void write_story(dt_db *db, struct story *s)
{
    const bool cancels = one_in(3);
    const unsigned steps = 1 + (unsigned)rnd_in(0, 3) + cancels;
    struct outcome next = s->sure;
    struct dt_error err = {0};
    bool open = false, goes_on = true;
    for (unsigned i = 0; i < steps && goes_on; i++) {
        const char *action = action_of(i, steps, cancels);
        const int64_t now_ms = mysql_now_ms(), delay_ms = some_delay_ms();
        goes_on = (open || dt_db_begin(db, &err) == DT_OK) &&
                  write_row(db, s->topic, s->key, action, delay_ms, now_ms) == DT_OK;
        open = true;
        add_effect(&next, action, now_ms + delay_ms);
        if (goes_on && (i + 1 == steps || one_in(2))) {
            goes_on = end_transaction(db, s, &next);
            next = s->sure;
            open = false;
        } else
            fiber_sleep(rnd_in(0, 300 * MS));
    }
}

/* It names no job. */
static void write_stray(dt_db *db)
{
    struct dt_error err = {0};
    if (dt_db_begin(db, &err) != DT_OK || write_row(db, 0, "none", "cancel", 0, mysql_now_ms()) != DT_OK)
        return;
    dt_status status = dt_db_commit(db, &err);
    it.strays += status == DT_OK;
    it.strays_in_doubt += status == DT_UNKNOWN;
}

static dt_db *connect(void)
{
    struct dt_error err = {0};
    dt_db *db = NULL;
    while (dt_db_open(intake_config, &db, &err) != DT_OK) {
        dt_db_free(db);
        fiber_sleep(100 * MS);
    }
    return db;
}

static void *application_main(void *arg)
{
    const unsigned number = (unsigned)(uintptr_t)arg;
    for (unsigned i = number; i < it.n; i += WRITERS) {
        if (it.v[i].by_message)
            continue;
        fiber_sleep(rnd_in(0, 1500 * MS));
        dt_db *db = connect();
        write_story(db, &it.v[i]);
        dt_db_free(db);
    }
    if (one_in(2)) {
        dt_db *db = connect();
        write_stray(db);
        dt_db_free(db);
    }
    it.at_work--;
    return NULL;
}

/* ---- messages ---- */

static void say(struct story *s, const char *action)
{
    char value[200];
    const int64_t delay_ms = some_delay_ms();
    int n = snprintf(value, sizeof value, "{\"action\":\"%s\",\"topic\":\"%s\",\"key\":\"%s\"", action,
                     workload_topic(s->topic).p, s->key);
    if (strcmp(action, "cancel") != 0)
        n += snprintf(value + n, sizeof value - (size_t)n, ",\"delay\":%lld,\"payload\":1", (long long)delay_ms);
    snprintf(value + n, sizeof value - (size_t)n, "}");
    TRACE("application: says %s", value);
    add_effect(&s->sure, action, mysql_now_ms() + delay_ms);
    broker_command((unsigned)s->key[1] % 2, dt_str(s->key), dt_str(value));
}

static void say_junk(void)
{
    char value[24];
    if (it.n_junk == JUNK_MAX)
        return;
    snprintf(value, sizeof value, "junk %u", it.n_junk++);
    broker_command((unsigned)rnd_in(0, 1), DT_STR_LIT("junk"), dt_str(value));
}

static struct story *story_of(struct dt_str value)
{
    for (unsigned i = 0; i < it.n; i++) {
        char name[32];
        const int n = snprintf(name, sizeof name, "\"key\":\"%s\"", it.v[i].key);
        if (memmem(value.p, value.n, name, (size_t)n))
            return &it.v[i];
    }
    return NULL;
}

void intake_rejected(struct dt_str value, struct dt_str problem)
{
    static const char locked[] = "another session keeps the job locked";
    struct story *s = story_of(value);
    TRACE("kafka: rejected: %.*s: %.*s", (int)value.n, value.p, (int)problem.n, problem.p ? problem.p : "");
    if (value.n == 6 && memcmp(value.p, "junk ", 5) == 0)
        it.junk[value.p[5] - '0'] = true;
    else if (s && fault_drawn(F_LOCKS) && problem.p && memmem(problem.p, problem.n, locked, sizeof locked - 1))
        s->excused = true;
    else if (!history_lost)
        violated("commands", "a message was rejected: %.*s", (int)value.n, value.p);
}

static void tell_story(struct story *s)
{
    const bool cancels = one_in(3), at_once = one_in(2);
    const unsigned steps = 1 + (unsigned)rnd_in(0, 4) + cancels;
    for (unsigned i = 0; i < steps; i++) {
        say(s, action_of(i, steps, cancels));
        if (!at_once)
            fiber_sleep(rnd_in(0, 400 * MS));
        if (one_in(10))
            say_junk();
    }
}

static void *sayer_main(void *)
{
    for (unsigned i = 0; i < it.n; i++) {
        if (!it.v[i].by_message)
            continue;
        fiber_sleep(rnd_in(0, 1500 * MS));
        tell_story(&it.v[i]);
    }
    it.at_work--;
    return NULL;
}

/* ---- what is drawn ---- */

static void draw_stories(bool by_message)
{
    for (int64_t n = rnd_in(2, STORIES_MAX / 2); n; n--) {
        struct story *s = &it.v[it.n];
        *s = (struct story){.topic = (unsigned)rnd_in(0, TOPICS - 1), .by_message = by_message};
        snprintf(s->key, sizeof s->key, "%c%u", by_message ? 'm' : 'i', it.n++);
    }
}

void stories_forget(void)
{
    memset(&it, 0, sizeof it);
}

void stories_begin(bool rows, bool messages)
{
    if (rows)
        draw_stories(false);
    if (messages)
        draw_stories(true);
    it.at_work = (rows ? WRITERS : 0u) + (messages ? 1u : 0u);
    for (unsigned i = 0; rows && i < WRITERS; i++)
        fiber_start(intake_proc, application_main, (void *)(uintptr_t)i);
    if (messages)
        fiber_start(intake_proc, sayer_main, NULL);
}

bool stories_done(void)
{
    return it.at_work == 0;
}

/* ---- rest ---- */

static int64_t done_up_to(unsigned partition)
{
    const struct row *row = table_find(table_named("command_offsets"), partition);
    return row ? cell_int(row, "next_offset") : 0;
}

const char *stories_unrest(void)
{
    for (unsigned i = 0; i < 2 && intake_has_commands(); i++)
        if (done_up_to(i) < broker_commands(i))
            return "messages are not done";
    return intake_has_commands() && table_named("messages")->n ? "answers have not left" : NULL;
}

/* ---- judging ---- */

static bool is_as(const struct story *s, const struct outcome *o)
{
    unsigned n;
    const struct row *row = intake_find_job(s->topic, s->key, &n);
    if (o->effects == 0 || n != 1)
        return o->effects == 0 && n == 0;
    return cell_int(row, "version") == o->effects && cell_int(row, "run_at") == o->run_at_ms &&
           dt_str_is(cell_text(row, "state"), o->cancelled ? "cancelled" : "scheduled");
}

static void judge_story(const struct story *s)
{
    unsigned n;
    if (is_as(s, &s->sure) || (s->in_doubt && is_as(s, &s->maybe)))
        return;
    const struct row *row = intake_find_job(s->topic, s->key, &n);
    const struct dt_str state = row ? cell_text(row, "state") : DT_STR_LIT("not there");
    violated(s->by_message ? "commands" : "inbox",
             "%u jobs of %s, %.*s, version %lld, at %lld, where %u %s should have made it %s, at %lld", n, s->key,
             (int)state.n, state.p, (long long)(row ? cell_int(row, "version") : 0),
             (long long)(row ? cell_int(row, "run_at") : 0), s->sure.effects, s->by_message ? "messages" : "rows",
             s->sure.cancelled ? "cancelled" : "scheduled", (long long)s->sure.run_at_ms);
}

/* What is left in the inbox is what could not be carried out. */
static void judge_inbox(void)
{
    const struct table *inbox = table_named("job_inbox");
    for (size_t i = 0; i < inbox->n; i++) {
        const struct dt_str error = cell_text(inbox->rows[i], "error");
        if (!dt_str_is(cell_text(inbox->rows[i], "job_key"), "none"))
            violated("inbox", "row %lld was refused: %.*s", (long long)cell_int(inbox->rows[i], "id"), (int)error.n,
                     error.p);
    }
    if (inbox->n < it.strays || inbox->n > it.strays + it.strays_in_doubt)
        violated("inbox", "%zu rows are kept with their errors, of %u", inbox->n, it.strays);
}

void stories_judge(void)
{
    if (history_lost)
        return;
    for (unsigned i = 0; i < it.n; i++)
        if (!it.v[i].excused)
            judge_story(&it.v[i]);
    judge_inbox();
    for (unsigned i = 0; i < it.n_junk; i++)
        if (!it.junk[i])
            violated("commands", "a message that nobody understands was not put aside");
}
