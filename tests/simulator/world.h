/*
 * The simulated world: one OS thread, many fibers, a virtual clock and one seeded source of chance.
 *
 * A fiber runs until it waits: for a time, or to be woken. All waiting fibers and future events lie in one queue by
 * virtual time, so what a seed does is always the same, and whatever takes no virtual time is atomic. The fakes of the
 * servers call op() before each request: there other fibers run, and there faults hit.
 *
 * Memory that fibers ask for comes from one region that is forgotten as a whole with the world; a process that is
 * killed loses its fibers, not its memory.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "support/stub.h"

#define MS       INT64_C(1000)    /* in us, the unit of the virtual clock */
#define SEC      INT64_C(1000000) /* likewise */
#define EPOCH_MS INT64_C(1800000000000)
#define NEVER    INT64_MAX

#define SHARDS_MAX 8 /* that there may ever be in a world */

/* ---- processes ---- */
struct proc {
    const char *name;
    unsigned id;
    bool alive;
    int64_t paused_until_us;
    int64_t wall_off_ms; /* how wrong its wall clock is */
    void *app;
};

struct fiber;
struct fiber_notes { /* what the fakes remember of a fiber */
    bool loop;       /* it leads a shard: it has locked a shard's row */
    bool ledger_read;
    bool takeover;  /* between a new connection and the settling that ends a takeover */
    bool just_sent; /* a batch was committed to Kafka and is not settled */
    bool pops;      /* it pops for clients of the API */
    bool moves;     /* it has locked rows of the inbox … */
    bool commands;  /* … places of the commands topic … */
    bool operates;  /* … an operation */
    int64_t token;  /* that it wrote into a shard's row last */
};

extern int64_t now_us; /* the virtual clock */
int64_t mysql_now_ms(void);

/* ---- life of a world ---- */
void world_begin(uint64_t seed);
void world_end(void);
/* Runs what is due until `until_us`, or until world_stop. */
void world_run(int64_t until_us);
void world_stop(void);
/* Runs one function with memory of the world, outside of any fiber. */
void *world_alloc(size_t n); /* zeroed; lives as long as the world */
uint64_t world_steps(void);

struct proc *proc_new(const char *name, unsigned id);
/* Its fibers are gone; does not return when the caller is one of them. */
void proc_kill(struct proc *proc);
struct proc *proc_self(void); /* NULL in events */

typedef void *fiber_fn(void *arg);
struct fiber *fiber_start(struct proc *proc, fiber_fn *fn, void *arg);
struct fiber *fiber_self(void);
struct fiber_notes *fiber_notes(void); /* of the running fiber */
void fiber_sleep(int64_t us);
/* Until woken (true) or until that time (false). */
bool fiber_block(int64_t until_us);
void fiber_wake(struct fiber *fiber);
/* fn(arg) at that time, outside of any fiber. */
void at(int64_t when_us, void (*fn)(void *arg), void *arg);

/* ---- chance ---- */
uint64_t rnd(void);
int64_t rnd_in(int64_t low, int64_t high); /* both inclusive */
bool one_in(unsigned n);

/* ---- telling ---- */
extern bool tracing, tracing_all; /* all: also what only looks and finds nothing */
void trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
#define TRACE(...)                                                                                                     \
    do {                                                                                                               \
        if (tracing)                                                                                                   \
            trace(__VA_ARGS__);                                                                                        \
    } while (0)
/* The simulator itself is wrong, or was asked for what it does not know: ends the program. */
_Noreturn void broken(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* An oracle's verdict: the seed has failed. The first one counts. */
void violated(const char *oracle, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
extern char violation[400];
extern char violation_oracle[32];
