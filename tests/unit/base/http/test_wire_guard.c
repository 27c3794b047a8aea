/* The guard of sockets on pairs of them: what the end of a lease shuts, and what it leaves open. */
#include <sys/socket.h>
#include <unistd.h>

#include "base/http/wire_guard.h"
#include "support/wait.h"

#define HOUR_US INT64_C(3600000000)
#define PAIRS   4

struct pair {
    int ours, peer;
};

struct rig {
    dt_wire_guard *guard;
    struct pair pairs[PAIRS];
};

static void make(struct rig *r)
{
    struct dt_error err = {0};
    assert_int_equal(dt_wire_guard_new(dt_clock_system(), &r->guard), DT_OK);
    assert_int_equal(dt_wire_guard_attach(r->guard, &err), DT_OK);
    for (int i = 0; i < PAIRS; i++) {
        int v[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, v), 0);
        r->pairs[i] = (struct pair){dup2(v[0], 100 * (i + 1)), v[1]}; /* far from each other */
        close(v[0]);
        assert_true(dt_wire_guard_open(r->guard, r->pairs[i].ours));
    }
}

static void drop(struct rig *r)
{
    for (int i = 0; i < PAIRS; i++) {
        dt_wire_guard_close(r->guard, r->pairs[i].ours);
        close(r->pairs[i].ours);
        close(r->pairs[i].peer);
    }
    dt_wire_guard_detach(r->guard);
    dt_wire_guard_free(r->guard);
}

#define RIG_TEST(name) TEST_ON(struct rig, r, name, make, drop)

static bool is_shut(const struct pair *pair)
{
    char byte;
    return recv(pair->peer, &byte, 1, MSG_DONTWAIT) == 0;
}

/* The signal goes to this thread: once one socket is shut, the handler has ended. */
static void await_shut(const struct pair *pair)
{
    AWAIT(is_shut(pair));
}

static void end_in(struct rig *r, int64_t us)
{
    dt_wire_guard_until(r->guard, dt_clock_boot_us(dt_clock_system()) + us);
}

RIG_TEST(outside_the_guard_the_end_of_a_lease_shuts_only_sockets_with_unwritten_bytes)
{
    dt_wire_guard_owes(r->guard, r->pairs[1].ours, true);
    dt_wire_guard_owes(r->guard, r->pairs[0].ours, false);
    dt_wire_guard_owes(r->guard, r->pairs[2].ours, true);
    dt_wire_guard_owes(r->guard, r->pairs[2].ours, false); /* it has written the rest */
    end_in(r, 1);
    await_shut(&r->pairs[1]);
    assert_false(is_shut(&r->pairs[0]));
    assert_false(is_shut(&r->pairs[2]));
    assert_false(is_shut(&r->pairs[3]));
    assert_false(dt_wire_guard_leave(r->guard));
}

RIG_TEST(a_socket_does_not_inherit_unwritten_bytes_of_an_earlier_one_with_its_number)
{
    dt_wire_guard_owes(r->guard, r->pairs[0].ours, true);
    dt_wire_guard_owes(r->guard, r->pairs[3].ours, true);
    dt_wire_guard_close(r->guard, r->pairs[3].ours);
    assert_true(dt_wire_guard_open(r->guard, r->pairs[3].ours));
    end_in(r, 1);
    await_shut(&r->pairs[0]);
    assert_false(is_shut(&r->pairs[3]));
}

RIG_TEST(inside_the_guard_the_end_of_a_lease_shuts_all_sockets_and_leaving_reports_it_once)
{
    dt_wire_guard_close(r->guard, r->pairs[2].ours);
    dt_wire_guard_enter(r->guard);
    end_in(r, 1);
    await_shut(&r->pairs[3]);
    assert_true(is_shut(&r->pairs[0]));
    assert_true(is_shut(&r->pairs[1]));
    assert_false(is_shut(&r->pairs[2]));
    assert_true(dt_wire_guard_leave(r->guard));
    assert_false(dt_wire_guard_leave(r->guard));
}

RIG_TEST(a_thread_that_left_the_guard_in_time_is_outside_it)
{
    dt_wire_guard_enter(r->guard);
    assert_false(dt_wire_guard_leave(r->guard));
    dt_wire_guard_owes(r->guard, r->pairs[0].ours, true);
    end_in(r, 1);
    await_shut(&r->pairs[0]);
    assert_false(is_shut(&r->pairs[1]));
    assert_false(dt_wire_guard_leave(r->guard));
}

RIG_TEST(an_end_that_is_set_before_the_timer_exists_is_remembered)
{
    struct dt_error err = {0};
    dt_wire_guard_detach(r->guard);
    dt_wire_guard_owes(r->guard, r->pairs[0].ours, true);
    end_in(r, 1);
    usleep(5000);
    assert_false(is_shut(&r->pairs[0])); /* nobody is signalled */
    assert_int_equal(dt_wire_guard_attach(r->guard, &err), DT_OK);
    await_shut(&r->pairs[0]);
}

/* As if the thread were not chosen, or stopped: it has the signal at once when it goes on. */
static void set_aside(bool aside)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, DT_WIRE_GUARD_SIGNAL);
    assert_int_equal(pthread_sigmask(aside ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL), 0);
}

static bool is_pending(void)
{
    sigset_t set;
    assert_int_equal(sigpending(&set), 0);
    return sigismember(&set, DT_WIRE_GUARD_SIGNAL) == 1;
}

RIG_TEST(a_new_lease_does_not_cover_writes_that_the_previous_lease_allowed)
{
    dt_wire_guard_enter(r->guard);
    set_aside(true);
    end_in(r, 1);
    AWAIT(is_pending());
    dt_wire_guard_over(r->guard);
    end_in(r, HOUR_US);
    set_aside(false);
    assert_true(is_shut(&r->pairs[0]));
    assert_true(dt_wire_guard_leave(r->guard));
}

RIG_TEST(the_rest_of_a_request_is_not_written_under_a_later_lease)
{
    dt_wire_guard_enter(r->guard);
    assert_false(dt_wire_guard_leave(r->guard));
    dt_wire_guard_owes(r->guard, r->pairs[1].ours, true);
    set_aside(true);
    end_in(r, 1);
    AWAIT(is_pending());
    dt_wire_guard_over(r->guard);
    end_in(r, HOUR_US);
    set_aside(false);
    assert_true(is_shut(&r->pairs[1]));
    assert_false(is_shut(&r->pairs[0]));
}

/* However late the signal of the end before: what a new look allows is written, and what an old one did is not. */
RIG_TEST(a_late_socket_is_also_shut_by_the_next_check)
{
    end_in(r, HOUR_US);
    dt_wire_guard_enter(r->guard);
    assert_false(dt_wire_guard_leave(r->guard));
    dt_wire_guard_owes(r->guard, r->pairs[1].ours, true);
    dt_wire_guard_over(r->guard);
    dt_wire_guard_enter(r->guard);
    assert_true(is_shut(&r->pairs[1]));
    assert_false(is_shut(&r->pairs[0]));
    dt_wire_guard_over(r->guard); /* and in the middle of what the thread does */
    dt_wire_guard_enter(r->guard);
    assert_true(is_shut(&r->pairs[0]));
    assert_true(dt_wire_guard_leave(r->guard));
}

RIG_TEST(a_renewed_lease_continues_at_its_first_end_and_ends_at_its_last)
{
    dt_wire_guard_enter(r->guard);
    const int64_t began_us = dt_clock_boot_us(dt_clock_system()), last_us = began_us + 400000;
    end_in(r, 20000);
    dt_wire_guard_until(r->guard, last_us);
    const bool renewed = dt_clock_boot_us(dt_clock_system()) < began_us + 20000;
    usleep(60000); /* the signal of the first end cuts it short */
    usleep(60000);
    bool shut = is_shut(&r->pairs[0]);
    if (renewed && dt_clock_boot_us(dt_clock_system()) < last_us)
        assert_false(shut);
    await_shut(&r->pairs[0]);
    assert_true(dt_wire_guard_leave(r->guard));
    dt_wire_guard_over(r->guard);
    end_in(r, 20000); /* another lease has an end as well */
    dt_wire_guard_enter(r->guard);
    usleep(40000);
    usleep(40000);
    assert_true(dt_wire_guard_leave(r->guard));
}

RIG_TEST(file_descriptors_that_are_not_our_sockets_are_refused)
{
    assert_false(dt_wire_guard_open(r->guard, -1));
    assert_false(dt_wire_guard_open(r->guard, 1 << 20));
    dt_wire_guard_owes(r->guard, -1, true);
    dt_wire_guard_owes(r->guard, 1 << 20, true);
    dt_wire_guard_close(r->guard, -1);
    dt_wire_guard_close(r->guard, 1 << 20);
    assert_true(dt_wire_guard_open(r->guard, (1 << 20) - 1));
    dt_wire_guard_close(r->guard, (1 << 20) - 1);
}

SUITE(NULL, NULL)
