/*
 * A clock that the test moves with pass(), for code that sleeps in a mailbox, or is a chore of a runtime with one thread.
 * If pass() reaches the end of a sleep, the sleeper wakes. Suites are linked with --wrap=dt_mailbox_wait,--wrap=dt_mailbox_pause.
 *
 *     AWAIT(hand_paused_for() == RETRY_US);   // it sleeps for this long
 *     pass(RETRY_US);
 */
#pragma once

#include "base/thread.h"
#include "support/wait.h"

static _Atomic int64_t hand_us = 1000000000, hand_paused_until_us;
static _Atomic bool hand_waits; /* it waits for a message or a deadline: */
static _Atomic int64_t hand_waits_until_us;

static inline int64_t hand_mono_us(const dt_clock *)
{
    return hand_us;
}

static const dt_clock hand_clock = {.mono_us = hand_mono_us};

static inline void pass(int64_t us)
{
    hand_us += us;
}

/* The rest of the current pause; 0: it does not pause, or its end has come. */
static inline int64_t hand_paused_for(void)
{
    return dt_later(hand_paused_until_us - hand_us, 0);
}

/* How long it still waits; 0: it does not wait, has no deadline, or the deadline has come. */
static inline int64_t hand_due_in(void)
{
    const int64_t until_us = hand_waits_until_us;
    return until_us != INT64_MAX ? dt_later(until_us - hand_us, 0) : 0;
}

__typeof__(dt_mailbox_pause) __real_dt_mailbox_pause;
__typeof__(dt_mailbox_pause) __wrap_dt_mailbox_pause;
__typeof__(dt_mailbox_wait) __wrap_dt_mailbox_wait;

static inline uint32_t hand_sleep(dt_mailbox *box, int64_t until_us, uint32_t ends)
{
    uint32_t came = 0;
    do
        came |= __real_dt_mailbox_pause(box, dt_clock_mono_us(dt_clock_system()) + 2000, ends);
    while ((came & ends) == 0 && hand_us < until_us);
    return came;
}

uint32_t __wrap_dt_mailbox_pause(dt_mailbox *box, int64_t until_us, uint32_t ends)
{
    hand_paused_until_us = until_us;
    const uint32_t came = hand_sleep(box, until_us, ends);
    hand_paused_until_us = 0;
    return came;
}

uint32_t __wrap_dt_mailbox_wait(dt_mailbox *box, int64_t until_us)
{
    hand_waits_until_us = until_us;
    hand_waits = true;
    const uint32_t came = hand_sleep(box, until_us, UINT32_MAX);
    hand_waits = false;
    hand_waits_until_us = 0;
    return came;
}
