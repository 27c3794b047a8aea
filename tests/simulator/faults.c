/* See json_table.h. */
#include "simulator/faults.h"

#include "simulator/processes.h"

uint64_t fault_counts[FAULT_KINDS];

static struct {
    bool drawn[FAULT_KINDS];
    int budget[FAULT_KINDS];
    bool on, calm;
} now;

static const int all_kinds[] = {
#define X(name, row, text) row,
    FAULT_MAP(X)
#undef X
};
#define KINDS ((int64_t)(sizeof all_kinds / sizeof all_kinds[0]))

const char *fault_text(int kind)
{
    switch (kind) {
#define X(name, row, text)                                                                                             \
    case row:                                                                                                          \
        return text;
        FAULT_MAP(X)
#undef X
    default:
        return NULL;
    }
}

static void draw(int kind)
{
    now.drawn[kind] = true;
    now.budget[kind] = (int)rnd_in(1, kind == F_IN_TAKEOVER ? 6 : 3);
}

static bool is_calm(void)
{
    bool calm = true;
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        calm &= !now.drawn[kind] || kind == F_STORM || kind == F_EARLY_RESULT || kind == F_RESHARD ||
                kind == F_RECEIVER || kind == F_DELIVERY || kind == F_LIMITS;
    return calm;
}

bool faults_calm(void)
{
    return now.calm;
}

void faults_begin(const int *kinds, unsigned n)
{
    memset(&now, 0, sizeof now);
    now.on = true;
    for (unsigned i = 0; i < n; i++)
        draw(kinds[i]);
    if (n == 0)
        for (int64_t i = rnd_in(0, 4); i; i--)
            draw(all_kinds[rnd_in(0, KINDS - 1)]);
    if (now.drawn[F_IN_TAKEOVER]) /* with a batch that was sent and not settled, or there is little to take over */
        draw(F_AFTER_SEND);
    now.calm = is_calm();
}

void faults_heal(void)
{
    now.on = false;
}

bool faults_on(void)
{
    return now.on;
}

bool fault_drawn(enum fault_kind kind)
{
    return now.drawn[kind];
}

void fault_count(enum fault_kind kind)
{
    fault_counts[kind]++;
    TRACE("FAULT %d: %s", (int)kind, fault_text((int)kind));
}

bool fault(enum fault_kind kind, unsigned one_in_n)
{
    if (!now.on || !now.drawn[kind] || now.budget[kind] <= 0 || !one_in(one_in_n))
        return false;
    now.budget[kind]--;
    fault_count(kind);
    return true;
}

/* Mostly fast, sometimes slow: what comes first is left to chance. */
static int64_t latency_us(void)
{
    uint64_t dice = rnd() % 256;
    if (dice < 200)
        return rnd_in(50, 600);
    if (dice < 250)
        return rnd_in(600, 5 * MS);
    return now.on && !now.calm ? rnd_in(5 * MS, 150 * MS) : rnd_in(1 * MS, 10 * MS);
}

static void may_die(void)
{
    struct proc *self = proc_self();
    struct fiber_notes *notes = fiber_notes();
    if (!self || !process_is_dispatcher(self))
        return;
    bool die = (notes->takeover && fault(F_IN_TAKEOVER, 12)) || (notes->just_sent && fault(F_AFTER_SEND, 3)) ||
               (notes->moves && fault(F_INBOX, 30)) || (notes->operates && fault(F_OPERATION, 30)) ||
               (notes->commands && fault(F_COMMANDS, 30)) || fault(F_RECONCILER, 150);
    if (die)
        process_crash(self);
}

static void may_stop(void)
{
    struct proc *self = proc_self();
    if (!self || !process_is_dispatcher(self) || !fiber_notes()->loop || !fault(F_PAUSE, 60))
        return;
    self->paused_until_us = now_us + rnd_in(500 * MS, 6 * SEC);
    TRACE("stopped until %.3f", (double)(self->paused_until_us - 100 * SEC) / 1000);
    zookeeper_noticed_silence(self);
}

void op(const char *)
{
    if (now.on) {
        may_stop();
        may_die();
    }
    fiber_sleep(latency_us());
}
