/*
 * Closes the gap between the look at a lease and the write that it allowed. A process may be stopped just there, for
 * any time: when it goes on, the write would follow although the lease has ended long since.
 *
 * A timer of the kernel is armed for the end of the lease. Its signal goes to the thread that writes, and a thread that
 * was stopped, or not chosen, handles a signal that is pending before its next instruction. Where the lease was renewed
 * meanwhile the handler arms the timer for the new end. Else it shuts: if the thread is inside (enter … leave) at that
 * time, the sending side of all guarded sockets; outside, that of those alone that have the rest of a request to write,
 * because for all others the next look says no.
 *
 *     enter ─▶ look at the lease ─▶ write ─▶ leave
 *                                            └─▶ full: the rest is owed, and written when there is room
 *
 * The timer counts the time of a suspended machine, too. It fires at the end of the lease, two thirds of the timeout;
 * others take the lease for over after all of it, so a signal may come late by the last third.
 */
#ifndef DT_BASE_WIRE_GUARD_H
#define DT_BASE_WIRE_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"

#define DT_WIRE_GUARD_SIGNAL (SIGRTMIN + 3) /* of the timer, to the thread that writes */

typedef struct dt_wire_guard dt_wire_guard;

/* Without a timer yet: until is remembered. The clock outlives the guard. NOMEM. */
DT_MUST_CHECK dt_status dt_wire_guard_new(const dt_clock *clock, dt_wire_guard **out);
/* Accepts NULL. Detached, and no socket is guarded. */
void dt_wire_guard_free(dt_wire_guard *guard);

/*
 * Nothing may be written from until_us on (dt_clock_boot_us). Called again, that end moves forward: the lease was
 * renewed. Any thread.
 */
void dt_wire_guard_until(dt_wire_guard *guard, int64_t until_us);
/* The lease is over, and is never renewed: an end that is told from now on is another lease's. Any thread. */
void dt_wire_guard_over(dt_wire_guard *guard);

/* ---- the thread that writes ---- */

/* Makes the calling thread the one that is signalled. SYSTEM: there is no timer; err says why. */
DT_MUST_CHECK dt_status dt_wire_guard_attach(dt_wire_guard *guard, struct dt_error *err);
void dt_wire_guard_detach(dt_wire_guard *guard);
/* Guards a socket, from its making to just before it is closed. False: its number is too large. */
bool dt_wire_guard_open(dt_wire_guard *guard, int fd);
void dt_wire_guard_close(dt_wire_guard *guard, int fd);
/* Whether the kernel did not take all of a request that was let through: what is owed is not written after the end. */
void dt_wire_guard_owes(dt_wire_guard *guard, int fd, bool owes);
void dt_wire_guard_enter(dt_wire_guard *guard);
/* True: sockets were shut meanwhile. Whoever leaves without having entered gets false. */
bool dt_wire_guard_leave(dt_wire_guard *guard);

#endif
