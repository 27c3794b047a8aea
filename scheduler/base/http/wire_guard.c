/*
 * Two bits per socket, one timer, one signal. The handler calls only shutdown(2), clock_gettime(2) and
 * timer_settime(2).
 *
 * Invariants:
 *   - An armed timer is not changed until its signal was handled: since Linux 6.13, a pending signal is lost if its
 *     timer is set again or deleted. So a new end is only stored, and the handler arms the timer for it.
 *   - The handler may see the end of a lease that began after the thread had checked an earlier lease. So leases that
 *     ended are counted, and the handler compares the count with the count at the latest check.
 */
#include "wire_guard.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define SOCKETS   (1 << 20)
#define WORD_BITS 64

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "what a handler of signals reads takes no lock");

struct dt_wire_guard {
    pthread_mutex_t lock; /* held while the timer is created, deleted, or armed for a new end */
    timer_t timer;
    _Atomic bool attached;    /* the timer exists */
    _Atomic bool armed;       /* the timer's signal will arrive */
    _Atomic int64_t until_us; /* end of the lease; 0: no end was set */
    _Atomic unsigned over;    /* number of leases that have ended */
    _Atomic unsigned looked;  /* value of `over` when the thread last entered the guard */
    const dt_clock *clock;
    volatile sig_atomic_t inside, shut;
    _Atomic int highest; /* index of the last word that has a bit set */
    _Atomic uint64_t sockets[SOCKETS / WORD_BITS];
    _Atomic uint64_t owing[SOCKETS / WORD_BITS]; /* guarded sockets with an unwritten rest of a request */
};

/* ---- the timer, which uses the clock of dt_clock_boot_us ---- */

static void set_timer(dt_wire_guard *guard, int64_t until_us)
{
    const struct itimerspec when = {.it_value = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000}};
    (void)timer_settime(guard->timer, TIMER_ABSTIME, &when, NULL);
}

/* Arms the timer, unless its signal will arrive anyway. */
static void arm_timer(dt_wire_guard *guard)
{
    if (guard->attached && guard->until_us && !atomic_exchange(&guard->armed, true))
        set_timer(guard, guard->until_us);
}

/* ---- the handler ---- */

static void shut_late_sockets(dt_wire_guard *guard)
{
    const bool all = guard->inside;
    for (int word = 0; word <= guard->highest; word++) {
        uint64_t bits = all ? guard->sockets[word] : guard->owing[word];
        for (int bit = 0; bits; bit++, bits >>= 1)
            if (bits & 1)
                (void)shutdown(word * WORD_BITS + bit, SHUT_WR);
    }
    if (all)
        guard->shut = 1;
}

/* Handles the timer's signal. Sets the timer before it checks the end of the lease: if the thread is stopped in
 * between, the next signal notices the end. */
static void on_timer_signal(int, siginfo_t *info, void *)
{
    dt_wire_guard *guard = info->si_value.sival_ptr;
    int saved = errno;
    if (info->si_code != SI_TIMER)
        return; /* another program sent the signal */
    const int64_t now_us = dt_clock_boot_us(guard->clock);
    if (guard->attached && now_us < guard->until_us) {
        set_timer(guard, guard->until_us);
    } else if (guard->attached) {
        /* `armed` is cleared before the end is read again: if the end changes meanwhile, dt_wire_guard_until or this
         * handler arms the timer */
        guard->armed = false;
        if (now_us < guard->until_us)
            arm_timer(guard);
    }
    if (dt_clock_boot_us(guard->clock) >= guard->until_us || guard->over != guard->looked)
        shut_late_sockets(guard);
    errno = saved;
}

/* ---- leases ---- */

void dt_wire_guard_until(dt_wire_guard *guard, int64_t until_us)
{
    pthread_mutex_lock(&guard->lock);
    guard->until_us = dt_later(until_us, 1);
    arm_timer(guard);
    pthread_mutex_unlock(&guard->lock);
}

void dt_wire_guard_over(dt_wire_guard *guard)
{
    atomic_fetch_add(&guard->over, 1);
}

dt_status dt_wire_guard_attach(dt_wire_guard *guard, struct dt_error *err)
{
    struct sigaction action = {.sa_sigaction = on_timer_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigevent event = {
        .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = DT_WIRE_GUARD_SIGNAL, .sigev_value.sival_ptr = guard};
    dt_status status = DT_OK;
    sigset_t set;
    event.sigev_notify_thread_id = gettid();
    sigemptyset(&action.sa_mask);
    sigemptyset(&set);
    sigaddset(&set, DT_WIRE_GUARD_SIGNAL);
    if (sigaction(DT_WIRE_GUARD_SIGNAL, &action, NULL) != 0 || pthread_sigmask(SIG_UNBLOCK, &set, NULL) != 0)
        return dt_fail(err, DT_SYSTEM, "the signal for the end of a lease could not be set up: %s", strerror(errno));
    pthread_mutex_lock(&guard->lock);
    dt_assert(!guard->attached && !guard->armed);
    guard->attached = timer_create(CLOCK_BOOTTIME, &event, &guard->timer) == 0;
    if (!guard->attached)
        status = dt_fail(err, DT_SYSTEM, "the timer for the end of a lease could not be set up: %s", strerror(errno));
    arm_timer(guard);
    pthread_mutex_unlock(&guard->lock);
    return status;
}

/* A pending signal is handled before the thread ends, so the guard can be freed after the thread. */
void dt_wire_guard_detach(dt_wire_guard *guard)
{
    pthread_mutex_lock(&guard->lock);
    const bool attached = atomic_exchange(&guard->attached, false);
    if (attached)
        timer_delete(guard->timer);
    guard->armed = false;
    pthread_mutex_unlock(&guard->lock);
}

/* ---- sockets ---- */

static uint64_t bit_of_socket(int fd)
{
    return UINT64_C(1) << (fd % WORD_BITS);
}

bool dt_wire_guard_open(dt_wire_guard *guard, int fd)
{
    if (fd < 0 || fd >= SOCKETS)
        return false;
    int word = fd / WORD_BITS;
    if (word > guard->highest)
        guard->highest = word;
    atomic_fetch_or(&guard->sockets[word], bit_of_socket(fd));
    return true;
}

void dt_wire_guard_close(dt_wire_guard *guard, int fd)
{
    if (fd < 0 || fd >= SOCKETS)
        return;
    dt_wire_guard_owes(guard, fd, false);
    atomic_fetch_and(&guard->sockets[fd / WORD_BITS], ~bit_of_socket(fd));
}

void dt_wire_guard_owes(dt_wire_guard *guard, int fd, bool owes)
{
    if (fd < 0 || fd >= SOCKETS)
        return;
    if (owes)
        atomic_fetch_or(&guard->owing[fd / WORD_BITS], bit_of_socket(fd));
    else
        atomic_fetch_and(&guard->owing[fd / WORD_BITS], ~bit_of_socket(fd));
}

/* Shuts sockets that still owe bytes of earlier leases, because after this check the handler no longer notices that
 * these leases have ended. */
void dt_wire_guard_enter(dt_wire_guard *guard)
{
    const unsigned over = guard->over;
    if (over != guard->looked)
        shut_late_sockets(guard);
    guard->looked = over;
    guard->inside = 1;
    atomic_signal_fence(memory_order_seq_cst);
}

bool dt_wire_guard_leave(dt_wire_guard *guard)
{
    atomic_signal_fence(memory_order_seq_cst);
    guard->inside = 0;
    bool shut = guard->shut;
    guard->shut = 0;
    return shut;
}

/* ---- creating and freeing ---- */

dt_status dt_wire_guard_new(const dt_clock *clock, dt_wire_guard **out)
{
    dt_wire_guard *guard = calloc(1, sizeof(*guard));
    if (!guard || pthread_mutex_init(&guard->lock, NULL) != 0) {
        free(guard);
        return DT_NOMEM;
    }
    guard->clock = clock;
    *out = guard;
    return DT_OK;
}

void dt_wire_guard_free(dt_wire_guard *guard)
{
    if (!guard)
        return;
    dt_assert(!guard->attached && !guard->armed);
    pthread_mutex_destroy(&guard->lock);
    free(guard);
}
