/* The dispatchers of the installation, from start to kill -9 and again; and what elects them (ZooKeeper, or leases in
 * MySQL; processes.h), sometimes two for one shard. The product's dispatcher.c runs as it is, on an elector (elector.h)
 * that is told whom to believe in. */
#include "simulator/processes.h"

#include "dispatcher.h"
#include "election/elector.h"
#include "simulator/faults.h"
#include "simulator/mysql.h"
#include "simulator/workload.h"

#define PLACES_MAX   4
#define ELECTORS_MAX 512

struct dt_elector {
    struct proc *proc;
    struct dt_elector_events events;
    bool believes[SHARDS_MAX]; /* what the process takes for the truth */
    bool gone, leaving;
    unsigned number, shards; /* shards: those below it are to be led, for all that this process knows */
};

static struct {
    const struct dt_config *config;
    unsigned places;
    struct proc *dispatchers[PLACES_MAX];
    unsigned lives;
    struct dt_elector *electors[ELECTORS_MAX];
    unsigned n_electors;
    struct dt_elector *owner[SHARDS_MAX];
    struct dt_elector *deceived[SHARDS_MAX]; /* believes still, though another owns it */
} it;

/* ---- ZooKeeper ---- */

static unsigned owned(const struct dt_elector *e)
{
    unsigned n = 0;
    for (unsigned i = 0; i < SHARDS_MAX; i++)
        n += it.owner[i] == e;
    return n;
}

static bool eligible(const struct dt_elector *e)
{
    return !e->gone && !e->leaving && e->proc->alive && e->proc->paused_until_us <= now_us;
}

static struct dt_elector *least_laden_for(const struct dt_elector *but, unsigned shard)
{
    struct dt_elector *best = NULL;
    for (unsigned i = 0; i < it.n_electors; i++) {
        struct dt_elector *e = it.electors[i];
        if (e != but && eligible(e) && e->shards > shard && (!best || owned(e) < owned(best)))
            best = e;
    }
    return best;
}

static void give(unsigned shard, struct dt_elector *e)
{
    it.owner[shard] = e;
    e->believes[shard] = true;
    TRACE("zookeeper: shard %u belongs to %s%u", shard, e->proc->name, e->proc->id);
    e->events.want(e->events.arg, shard, DT_WANT_LEAD);
}

static void elect(void *)
{
    for (unsigned i = 0; i < SHARDS_MAX; i++) {
        struct dt_elector *e = it.owner[i] ? NULL : least_laden_for(NULL, i);
        if (e)
            give(i, e);
        e = it.owner[i];
        if (e && eligible(e) && i >= e->shards)
            e->events.want(e->events.arg, i, DT_WANT_RELEASE);
    }
    struct dt_elector *idle = least_laden_for(NULL, 0);
    for (unsigned i = 0; idle && i < SHARDS_MAX; i++) {
        struct dt_elector *e = it.owner[i];
        if (e && e != idle && eligible(e) && i < idle->shards && owned(e) > owned(idle) + 1) {
            e->events.want(e->events.arg, i, DT_WANT_RELEASE);
            break;
        }
    }
}

static void free_shards(struct dt_elector *e)
{
    for (unsigned i = 0; i < SHARDS_MAX; i++)
        if (it.owner[i] == e)
            it.owner[i] = NULL;
    at(now_us + rnd_in(1 * MS, 50 * MS), elect, NULL);
}

static void learns(void *arg)
{
    struct dt_elector *e = arg;
    for (unsigned i = 0; i < SHARDS_MAX; i++)
        if (e->believes[i] && it.owner[i] != e && it.deceived[i] != e) {
            e->believes[i] = false;
            if (!e->gone)
                e->events.want(e->events.arg, i, DT_WANT_NOTHING);
        }
}

/* The session has expired: others may have its shards; it learns of it when it runs again, or later. */
static void expire(struct dt_elector *e)
{
    int64_t awake_us = e->proc->paused_until_us > now_us ? e->proc->paused_until_us : now_us;
    TRACE("zookeeper: the session of %s%u has expired", e->proc->name, e->proc->id);
    free_shards(e);
    if (e->proc->alive)
        at(awake_us + (one_in(3) ? rnd_in(1 * MS, 800 * MS) : rnd_in(0, 5 * MS)), learns, e);
}

static void silence_ends(void *arg)
{
    struct dt_elector *e = arg;
    if (!e->gone && e->proc->alive && e->proc->paused_until_us <= now_us) {
        at(now_us + 5 * MS, elect, NULL);
        return;
    }
    if (!e->gone)
        expire(e);
    if (e->proc->alive)
        at(e->proc->paused_until_us + 10 * MS, elect, NULL);
}

static struct dt_elector *elector_of(const struct proc *proc)
{
    for (unsigned i = it.n_electors; i-- > 0;)
        if (it.electors[i]->proc == proc)
            return it.electors[i];
    return NULL;
}

void zookeeper_noticed_silence(struct proc *proc)
{
    struct dt_elector *e = elector_of(proc);
    if (e)
        at(now_us + SESSION_US, silence_ends, e);
}

void zookeeper_expire(struct proc *proc)
{
    struct dt_elector *e = elector_of(proc);
    if (e)
        expire(e);
}

static void truth_comes_out(void *arg)
{
    unsigned shard = (unsigned)(uintptr_t)arg;
    struct dt_elector *e = it.deceived[shard];
    it.deceived[shard] = NULL;
    if (e)
        learns(e);
}

void zookeeper_two_leaders(unsigned shard, int64_t us)
{
    struct dt_elector *was = it.owner[shard], *other = least_laden_for(was, shard);
    if (!was || !other || it.deceived[shard])
        return;
    it.deceived[shard] = was;
    give(shard, other);
    at(now_us + us, truth_comes_out, (void *)(uintptr_t)shard);
}

/* ---- elector.h ---- */

STUB(const char *, dt_elector_name, (const struct dt_config *config), "zookeeper")
STUB(enum dt_outage_of, dt_elector_server, (const struct dt_config *config), DT_OUTAGE_ZOOKEEPER)

/* Sessions of worlds have no time limits. */
struct dt_config dt_lease_config(const struct dt_config *config)
{
    return *config;
}

dt_status dt_elector_start(const struct dt_elector_env *env, dt_elector **out, struct dt_error *)
{
    if (it.n_electors == ELECTORS_MAX)
        broken("too many electors");
    struct dt_elector *e = world_alloc(sizeof *e);
    *e =
        (struct dt_elector){.proc = proc_self(), .events = env->events, .number = it.n_electors, .shards = env->shards};
    it.electors[it.n_electors++] = e;
    *out = e;
    at(now_us + rnd_in(1 * MS, 20 * MS), elect, NULL);
    return DT_OK;
}

void dt_elector_released(dt_elector *e, unsigned shard)
{
    e->believes[shard] = false;
    if (it.owner[shard] == e)
        it.owner[shard] = NULL;
    at(now_us + rnd_in(1 * MS, 20 * MS), elect, NULL);
}

bool dt_elector_leads(const dt_elector *e, unsigned shard)
{
    return e->believes[shard];
}

bool dt_elector_rank(const dt_elector *e, unsigned *rank, unsigned *members)
{
    *rank = *members = 0;
    for (unsigned i = 0; i < it.n_electors; i++) {
        if (it.electors[i]->gone || !it.electors[i]->proc->alive)
            continue;
        *rank += it.electors[i]->number < e->number;
        ++*members;
    }
    return *members > 0;
}

void dt_elector_set_shards(dt_elector *e, unsigned shards)
{
    TRACE("%s%u: shards below %u are to be led", e->proc->name, e->proc->id, shards);
    e->shards = shards;
    at(now_us + rnd_in(1 * MS, 20 * MS), elect, NULL);
}

/* This election tells everybody by itself. */
STUB(void, dt_elector_news, (dt_elector * e), )

void dt_elector_leave(dt_elector *e)
{
    e->leaving = true;
    for (unsigned i = 0; i < SHARDS_MAX; i++)
        if (it.owner[i] == e)
            e->events.want(e->events.arg, i, DT_WANT_RELEASE);
}

bool dt_elector_idle(const dt_elector *e)
{
    return owned(e) == 0;
}

void dt_elector_stop(dt_elector *e)
{
    e->gone = true;
    free_shards(e);
}

/* ---- dispatchers ---- */

static uint64_t unpredictable(void)
{
    return rnd();
}

static void start_place(unsigned place);

static void *dispatcher_main(void *arg)
{
    unsigned place = (unsigned)(uintptr_t)arg;
    struct proc *self = proc_self();
    struct dt_error err = {0};
    dt_dispatcher *d = NULL;
    if (dt_dispatcher_new(it.config, dt_clock_system(), unpredictable, &d, &err) != DT_OK)
        broken("a dispatcher does not start: %s", err.text);
    self->app = d;
    dt_status status = dt_dispatcher_run(d, &err);
    self->app = NULL;
    dt_dispatcher_free(d);
    TRACE("the dispatcher ended: %s %s", dt_status_name(status), err.text);
    self->alive = false;
    mysql_process_died(self);
    start_place(place);
    return NULL;
}

static void start_now(void *arg)
{
    unsigned place = (unsigned)(uintptr_t)arg;
    struct proc *proc = proc_new("D", ++it.lives);
    if (fault(F_CLOCK, 1))
        proc->wall_off_ms = one_in(2) ? 3600000 : -3600000;
    it.dispatchers[place] = proc;
    fiber_start(proc, dispatcher_main, arg);
}

static void start_place(unsigned place)
{
    at(now_us + (faults_on() ? rnd_in(5 * MS, 800 * MS) : 5 * MS), start_now, (void *)(uintptr_t)place);
}

bool process_is_dispatcher(const struct proc *proc)
{
    return proc->name[0] == 'D';
}

bool process_is_api(const struct proc *proc)
{
    return proc->name[0] == 'A';
}

static void session_times_out(void *arg)
{
    expire(arg);
}

static void dispatcher_died(struct proc *proc)
{
    struct dt_elector *e = elector_of(proc);
    if (e) {
        e->gone = true;
        at(now_us + rnd_in(1 * MS, SESSION_US), session_times_out, e);
    }
    for (unsigned i = 0; i < it.places; i++)
        if (it.dispatchers[i] == proc)
            start_place(i);
}

void process_crash(struct proc *proc)
{
    TRACE("KILLED %s%u", proc->name, proc->id);
    mysql_process_died(proc);
    if (process_is_dispatcher(proc))
        dispatcher_died(proc);
    else
        workload_api_died(proc);
    proc_kill(proc);
}

struct proc *process_dispatcher(unsigned i)
{
    return it.dispatchers[i] && it.dispatchers[i]->alive ? it.dispatchers[i] : NULL;
}

unsigned process_dispatchers(void)
{
    return it.places;
}

void process_terminate(struct proc *proc)
{
    if (proc->alive && proc->app)
        dt_dispatcher_stop(proc->app);
}

void processes_heal(void)
{
    for (unsigned i = 0; i < SHARDS_MAX; i++)
        truth_comes_out((void *)(uintptr_t)i);
    at(now_us + 300 * MS, elect, NULL);
    at(now_us + 3 * SEC, elect, NULL);
}

void processes_begin(const struct dt_config *config, unsigned dispatchers)
{
    memset(&it, 0, sizeof it);
    it.config = config;
    it.places = dispatchers;
    for (unsigned i = 0; i < dispatchers; i++)
        start_now((void *)(uintptr_t)i);
}
