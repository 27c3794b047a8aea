/* See intake.h. */
#include "simulator/intake/intake.h"

#include "../dispatcher/intake.h"
#include "deliver/kafka/command_reader.h"
#include "simulator/faults.h"

struct proc *intake_proc;
const struct dt_config *intake_config;

static struct {
    bool rows, messages, sets, without_watch;
} it;

/* ---- which worlds ---- */

bool intake_is_used(void)
{
    return it.rows || it.sets;
}

bool intake_without_watch(void)
{
    return it.without_watch;
}

bool intake_has_commands(void)
{
    return it.messages;
}

bool intake_takes_ids(void)
{
    return it.rows || it.messages;
}

void intake_forget(void)
{
    it.rows = it.messages = it.sets = it.without_watch = false;
    stories_forget();
    sets_forget();
}

void intake_begin(const struct dt_config *config)
{
    intake_config = config;
    it.rows = fault_drawn(F_INBOX) || one_in(8);
    it.without_watch = it.rows && one_in(3);
    it.messages = fault_drawn(F_COMMANDS) || one_in(8);
    it.sets = fault_drawn(F_OPERATION) || one_in(8);
    if (!it.rows && !it.messages && !it.sets)
        return;
    intake_proc = proc_new("W", 0);
    stories_begin(it.rows, it.messages);
    if (it.sets)
        sets_begin();
}

/* ---- threads of dispatchers that have nothing to do are not there ---- */

__typeof__(dt_inbox_chore_start) __real_dt_inbox_chore_start;
__typeof__(dt_inbox_chore_start) __wrap_dt_inbox_chore_start;
dt_status __wrap_dt_inbox_chore_start(const struct dt_process_env *env, struct dt_resting *operations,
                                      struct dt_resting *schedules, struct dt_resting **out, struct dt_error *err)
{
    *out = NULL;
    return intake_is_used() ? __real_dt_inbox_chore_start(env, operations, schedules, out, err) : DT_OK;
}

__typeof__(dt_operation_runner_start) __real_dt_operation_runner_start;
__typeof__(dt_operation_runner_start) __wrap_dt_operation_runner_start;
dt_status __wrap_dt_operation_runner_start(const struct dt_process_env *env, struct dt_resting **out,
                                           struct dt_error *err)
{
    *out = NULL;
    return intake_is_used() ? __real_dt_operation_runner_start(env, out, err) : DT_OK;
}

__typeof__(dt_command_reader_start) __real_dt_command_reader_start;
__typeof__(dt_command_reader_start) __wrap_dt_command_reader_start;
dt_status __wrap_dt_command_reader_start(const struct dt_process_env *env, dt_command_reader **out,
                                         struct dt_error *err)
{
    *out = NULL;
    return intake_has_commands() ? __real_dt_command_reader_start(env, out, err) : DT_OK;
}

/* ---- for the servers ---- */

bool intake_rows_open(void)
{
    const struct table *inbox = table_named("job_inbox");
    for (size_t i = 0; i < inbox->n; i++)
        if (inbox->rows[i]->committed && !cell_null(inbox->rows[i], "is_open"))
            return true;
    return false;
}

bool intake_operation_due(void)
{
    const struct table *operations = table_named("operations");
    for (size_t i = 0; i < operations->n; i++) {
        const struct row *row = operations->rows[i];
        if (row->committed && !cell_null(row, "look_at") && cell_int(row, "look_at") <= mysql_now_ms())
            return true;
    }
    return false;
}

/* ---- jobs ---- */

bool intake_knows(const struct row *job)
{
    const struct dt_str key = cell_null(job, "job_key") ? DT_STR_NONE : cell_text(job, "job_key");
    return key.n > 1 && memchr("ims", key.p[0], 3) && key.p[1] >= '0' && key.p[1] <= '9';
}

const struct row *intake_find_job(unsigned topic, const char *key, unsigned *n)
{
    const char *const places[] = {"jobs", "history"};
    const struct row *found = NULL;
    *n = 0;
    for (size_t p = 0; p < 2; p++) {
        const struct table *table = table_named(places[p]);
        for (size_t i = 0; i < table->n; i++) {
            const struct row *row = table->rows[i];
            if (!row->committed || cell_null(row, "job_key") || !dt_str_is(cell_text(row, "job_key"), key) ||
                !dt_str_eq(cell_text(row, "topic"), workload_topic(topic)))
                continue;
            found = row;
            ++*n;
        }
    }
    return found;
}

/* ---- all of them ---- */

bool intake_done(void)
{
    return stories_done() && sets_done();
}

const char *intake_unrest(void)
{
    const char *why = intake_is_used() && intake_rows_open() ? "a row of the inbox is open" : stories_unrest();
    return why ? why : sets_unrest();
}

void intake_committed(void)
{
    if (it.sets)
        sets_committed();
}

void intake_judge(void)
{
    stories_judge();
    sets_judge();
}
