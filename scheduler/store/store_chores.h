/*
 * A runtime of chores (base/chores.h) whose contexts are stores: one connection to MySQL for each of its threads, made
 * when a tick uses it, and closed with its thread. Ticks cast their context to dt_store.
 */
#ifndef DT_STORE_STORE_CHORES_H
#define DT_STORE_STORE_CHORES_H

#include "base/chores.h"
#include "store.h"

/* What the stores are made with (dt_store_new). */
struct dt_store_source {
    const struct dt_config *config;
    dt_refclock *ref;
};

/* name: of the threads. All is borrowed, and outlives the runtime. NOMEM, SYSTEM. */
DT_MUST_CHECK dt_status dt_store_chores_start(const struct dt_store_source *source, const dt_clock *clock,
                                              const char *name, unsigned threads, dt_chores **out,
                                              struct dt_error *err);

#endif
