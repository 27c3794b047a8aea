/* See nemesis.h. */
#include "simulator/nemesis.h"

#include "deliver/kafka/delivery_kafka.h"
#include "simulator/deliveries/receiver.h"
#include "simulator/faults.h"
#include "simulator/mysql.h"
#include "simulator/oracles.h"
#include "simulator/processes.h"
#include "simulator/redis.h"
#include "simulator/workload.h"

static struct proc *some_dispatcher(void)
{
    return process_dispatcher((unsigned)rnd_in(0, process_dispatchers() - 1));
}

static unsigned some_shard(void)
{
    return (unsigned)rnd_in(0, journal->map.shards - 1);
}

static void cut_one_way(void)
{
    struct proc *proc = some_dispatcher();
    int64_t until_us = now_us + rnd_in(100 * MS, 4 * SEC);
    if (!proc)
        return;
    switch (rnd_in(0, 3)) {
    case 0:
        mysql_cut_replies(proc, until_us);
        break;
    case 1:
        broker_cut_replies(proc, until_us);
        break;
    case 2:
        redis_cut_replies(proc, until_us);
        break;
    default:
        zookeeper_expire(proc);
    }
}

/* When more than one witness of what was sent is gone, a young ledger that is made anew and trimmed, or a MySQL of
 * before, nobody can know. */
static bool ledger_is_young(void)
{
    return ledger_age == 0;
}

static int64_t copied_generation;

static int64_t generation(void)
{
    return cell_int(table_named("installation")->rows[0], "generation");
}

/* The ledger is made anew, and others write into it about as far as the shard's row says. A ledger that is not young is
 * left empty: who fills it so far that the next batch stands right before the row's offset deceives its leaders. */
static void remake_ledger(unsigned shard)
{
    const struct row *row = table_find(table_named("shards"), shard);
    if (!row || mysql_restored_us)
        return;
    int64_t offset = cell_int(row, "ledger_offset");
    history_lost = true;
    broker_recreate_ledger_up_to(shard, offset < DT_LEDGER_YOUNG ? rnd_in(offset > 3 ? offset - 3 : 0, offset + 1) : 0);
}

/* A request that was made of one ledger is carried out on the next. */
void nemesis_while_trimming(unsigned shard)
{
    if (fault(F_LEDGER_ANEW, 1))
        remake_ledger(shard);
}

static void lose_history(void)
{
    history_lost = true;
    if (one_in(4)) {
        broker_trim_ledger(some_shard());
        return;
    }
    if (one_in(6) && !((ledger_is_young() || generation() > 1) && mysql_restored_us)) {
        /* Filled by others it tells nothing of what was sent, so the row has to. */
        broker_recreate_ledger(some_shard(), !mysql_restored_us && one_in(2));
        return;
    }
    /* Not one from before a change of the number of shards was through: what other shards have sent since no ledger of
     * the new ones can tell (README.md). Nor while one is asked for, which would come after it. */
    if (mysql_has_copy() && generation() == copied_generation && workload_map_rests())
        mysql_restore();
    else
        broker_trim_ledger(some_shard());
}

/* One that waits for its result, if there is one: that result cannot be applied meanwhile. */
static int64_t some_dispatched(void)
{
    const struct table *jobs = table_named("jobs");
    for (size_t i = 0, from = jobs->n ? (size_t)rnd_in(0, (int64_t)jobs->n - 1) : 0; i < jobs->n; i++) {
        const struct row *row = jobs->rows[(from + i) % jobs->n];
        if (row->committed && dt_str_is(cell_text(row, "state"), "dispatched"))
            return cell_int(row, "id");
    }
    return 0;
}

static int64_t some_job(void)
{
    const struct table *jobs = table_named("jobs");
    const struct row *row = jobs->n ? jobs->rows[rnd_in(0, (int64_t)jobs->n - 1)] : NULL;
    return row && row->committed ? cell_int(row, "id") : 0;
}

static void hold_some_row(void)
{
    const struct journal_job *j = &journal->jobs[rnd_in(0, (int64_t)journal->n_jobs - 1)];
    int64_t id = one_in(2) ? some_dispatched() : 0;
    id = id ? id : j->id;
    if (!id || one_in(3)) /* one that nobody here has asked for */
        id = some_job();
    if (id)
        mysql_hold_row(id, rnd_in(10 * MS, 3 * SEC));
}

static void harm_receivers(void)
{
    const int64_t until_us = now_us + rnd_in(300 * MS, 5 * SEC);
    switch (rnd_in(0, 2)) {
    case 0:
        receiver_dead(until_us);
        break;
    case 1:
        receiver_slow(until_us);
        break;
    default:
        receiver_busy(until_us);
    }
}

static void strike(void *arg)
{
    enum fault_kind kind = (enum fault_kind)(uintptr_t)arg;
    if (!fault(kind, 1))
        return;
    switch ((int)kind) {
    case F_TWO_LEADERS:
        zookeeper_two_leaders(some_shard(), rnd_in(100 * MS, 4 * SEC));
        break;
    case F_BROKER:
        broker_down(now_us + rnd_in(50 * MS, 3 * SEC));
        break;
    case F_COORDINATOR:
        broker_coordinator_down(now_us + rnd_in(100 * MS, 5 * SEC));
        break;
    case F_REFUSED:
        broker_topic_missing(workload_topic((unsigned)rnd_in(0, TOPICS - 1)), now_us + rnd_in(500 * MS, 5 * SEC));
        break;
    case F_RESTORE:
        lose_history();
        break;
    case F_LEDGER_ANEW:
        remake_ledger(some_shard());
        break;
    case F_REDIS_FLUSH:
        if (one_in(2))
            redis_flush();
        else
            redis_lose_some();
        break;
    case F_REDIS_OLD:
        if (redis_has_copy())
            redis_restore();
        break;
    case F_REDIS_STOP:
        redis_down(now_us + rnd_in(50 * MS, 5 * SEC));
        break;
    case F_REDIS_FULL:
        redis_read_only(now_us + rnd_in(100 * MS, 5 * SEC));
        break;
    case F_MYSQL_RESTART:
        mysql_restart(now_us + rnd_in(0, 2 * SEC));
        break;
    case F_LOCKS:
        hold_some_row();
        break;
    case F_READERS:
        broker_results_late(now_us + rnd_in(500 * MS, 6 * SEC));
        break;
    case F_CUT:
        cut_one_way();
        break;
    case F_STRANGERS:
        broker_strangers(some_shard(), (unsigned)rnd_in(1, 4));
        break;
    case F_RECEIVER:
        harm_receivers();
        break;
    case F_DELIVERY:
    case F_LIMITS:
        workload_change_topic(kind == F_LIMITS);
        break;
    case F_RESHARD: /* not after MySQL or the ledger were lost: what a shard has sent only its own leader can find out
                     */
        if (!history_lost)
            workload_reshard((unsigned)rnd_in(1, SHARDS_MAX - 1));
        break;
    default:
        break;
    }
}

static void copy_mysql(void *)
{
    mysql_copy();
    copied_generation = workload_map_rests() ? generation() : 0;
}

static void copy_redis(void *)
{
    redis_copy();
}

static void terminate_one(void *)
{
    struct proc *proc = some_dispatcher();
    if (proc)
        process_terminate(proc);
}

void nemesis_begin(int64_t heal_us)
{
    static const enum fault_kind timed[] = {F_TWO_LEADERS, F_BROKER,    F_COORDINATOR, F_REFUSED,    F_RESTORE,
                                            F_REDIS_FLUSH, F_REDIS_OLD, F_REDIS_STOP,  F_REDIS_FULL, F_MYSQL_RESTART,
                                            F_LOCKS,       F_CUT,       F_RESHARD,     F_STRANGERS,  F_READERS,
                                            F_LEDGER_ANEW, F_RECEIVER,  F_DELIVERY,    F_LIMITS};
    for (size_t i = 0; i < sizeof timed / sizeof timed[0]; i++)
        for (int k = 0; k < 3 && fault_drawn(timed[i]); k++)
            at(rnd_in(now_us + 500 * MS, heal_us), strike, (void *)(uintptr_t)timed[i]);
    if (fault_drawn(F_RESTORE))
        at(rnd_in(now_us, now_us + (heal_us - now_us) * 2 / 3), copy_mysql, NULL);
    if (fault_drawn(F_REDIS_OLD))
        at(rnd_in(now_us, now_us + (heal_us - now_us) / 2), copy_redis, NULL);
    if (one_in(6) && !faults_calm())
        at(rnd_in(now_us, heal_us), terminate_one, NULL);
}
