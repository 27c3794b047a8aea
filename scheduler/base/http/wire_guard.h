/*
 * Closes the gap between checking a lease and the write that it allows. A process may be stopped in this gap for any
 * time; when it continues, it would write although the lease ended long ago.
 *
 * A kernel timer is armed for the end of the lease. Its signal goes to the thread that writes; a thread that was
 * stopped or not scheduled handles a pending signal before its next instruction. If the lease was renewed meanwhile,
 * the handler arms the timer for the new end. Otherwise it shuts the sending side of sockets: of all guarded sockets if
 * the thread is between enter and leave; else only of sockets that still have the rest of a request to write, because
 * for other sockets the next check of the lease fails.
 *
 *     enter ─▶ check the lease ─▶ write ─▶ leave
 *                                            └─▶ socket full: the rest is owed, and written when the socket accepts it
 *
 * The timer also counts the time in which the machine is suspended. It fires at the end of the lease, which is after
 * two thirds of the timeout. Other processes wait for the whole timeout, so the signal may be late by the last third.
 */
#pragma once

#include <signal.h>

#include "base/clock.h"
#include "base/status.h"

#define DT_WIRE_GUARD_SIGNAL (SIGRTMIN + 3) /* signal of the timer to the thread that writes */

typedef struct dt_wire_guard dt_wire_guard;

/* Creates a guard without a timer; dt_wire_guard_attach creates the timer, for the end that was set by then. The clock
 * must outlive the guard. Returns NOMEM if memory runs out. */
dt_status dt_wire_guard_new(const dt_clock *clock, dt_wire_guard **out);
/* Frees the guard, which must be detached and guard no socket. Accepts NULL. */
void dt_wire_guard_free(dt_wire_guard *guard);

/* Forbids writing from until_us on (dt_clock_boot_us). A further call means that the lease was renewed, and moves the
 * end. Any thread may call it. */
void dt_wire_guard_until(dt_wire_guard *guard, int64_t until_us);
/* Reports that the lease has ended permanently: the next dt_wire_guard_until is for another lease. Any thread may call
 * it. */
void dt_wire_guard_over(dt_wire_guard *guard);

/* ---- the thread that writes ---- */

/* Makes the timer send its signal to the calling thread from now on. Returns SYSTEM if no timer can be made; err has
 * the reason. */
dt_status dt_wire_guard_attach(dt_wire_guard *guard, struct dt_error *err);
void dt_wire_guard_detach(dt_wire_guard *guard);
/* Guards a socket. Call it after the socket's creation; the socket is guarded until just before it is closed. Returns
 * false if its number is too large. */
bool dt_wire_guard_open(dt_wire_guard *guard, int fd);
void dt_wire_guard_close(dt_wire_guard *guard, int fd);
/* Sets whether the socket owes bytes: the kernel did not accept all bytes of a request that was allowed. The missing
 * bytes are not written after the end of the lease. */
void dt_wire_guard_owes(dt_wire_guard *guard, int fd, bool owes);
void dt_wire_guard_enter(dt_wire_guard *guard);
/* Returns whether sockets were shut since dt_wire_guard_enter; false if the thread had not entered. */
bool dt_wire_guard_leave(dt_wire_guard *guard);
