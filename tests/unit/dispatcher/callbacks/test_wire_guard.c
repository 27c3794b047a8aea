/* The guard of sockets on pairs of them: what the end of a lease shuts, and what it leaves open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "delivery/http/wire_guard.h"

#define HOUR_US INT64_C(3600000000)
#define PAIRS   4

struct pair {
    int ours, peer;
};

struct rig {
    dt_wire_guard *guard;
    struct pair pairs[PAIRS];
};

static int make(void **state)
{
    static struct rig r;
    struct dt_error err = {0};
    r = (struct rig){0};
    if (dt_wire_guard_new(dt_clock_system(), &r.guard) != DT_OK || dt_wire_guard_attach(r.guard, &err) != DT_OK)
        return 1;
    for (int i = 0; i < PAIRS; i++) {
        int v[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, v) != 0)
            return 1;
        r.pairs[i] = (struct pair){dup2(v[0], 100 * (i + 1)), v[1]}; /* far from each other */
        close(v[0]);
        if (!dt_wire_guard_open(r.guard, r.pairs[i].ours))
            return 1;
    }
    *state = &r;
    return 0;
}

static int drop(void **state)
{
    struct rig *r = *state;
    for (int i = 0; i < PAIRS; i++) {
        dt_wire_guard_close(r->guard, r->pairs[i].ours);
        close(r->pairs[i].ours);
        close(r->pairs[i].peer);
    }
    dt_wire_guard_detach(r->guard);
    dt_wire_guard_free(r->guard);
    return 0;
}

static bool is_shut(const struct pair *pair)
{
    char byte;
    return recv(pair->peer, &byte, 1, MSG_DONTWAIT) == 0;
}

/* The signal goes to this thread: once one socket is shut, the handler has ended. */
static void await_shut(const struct pair *pair)
{
    for (int tries = 0; !is_shut(pair); tries++) {
        if (tries == 40000)
            fail_msg("nothing was shut within 20 s");
        usleep(500);
    }
}

static void outside_the_end_shuts_those_alone_that_owe(void **state)
{
    struct rig *r = *state;
    dt_wire_guard_owes(r->guard, r->pairs[1].ours, true);
    dt_wire_guard_owes(r->guard, r->pairs[0].ours, false);
    dt_wire_guard_owes(r->guard, r->pairs[2].ours, true);
    dt_wire_guard_owes(r->guard, r->pairs[2].ours, false); /* it has written the rest */
    dt_wire_guard_until(r->guard, 1);
    await_shut(&r->pairs[1]);
    assert_false(is_shut(&r->pairs[0]));
    assert_false(is_shut(&r->pairs[2]));
    assert_false(is_shut(&r->pairs[3]));
    assert_false(dt_wire_guard_leave(r->guard));
}

static void a_socket_owes_nothing_of_the_one_that_had_its_number(void **state)
{
    struct rig *r = *state;
    dt_wire_guard_owes(r->guard, r->pairs[0].ours, true);
    dt_wire_guard_owes(r->guard, r->pairs[3].ours, true);
    dt_wire_guard_close(r->guard, r->pairs[3].ours);
    assert_true(dt_wire_guard_open(r->guard, r->pairs[3].ours));
    dt_wire_guard_until(r->guard, 1);
    await_shut(&r->pairs[0]);
    assert_false(is_shut(&r->pairs[3]));
}

static void inside_the_end_shuts_all_and_leaving_says_so_once(void **state)
{
    struct rig *r = *state;
    dt_wire_guard_close(r->guard, r->pairs[2].ours);
    dt_wire_guard_enter(r->guard);
    dt_wire_guard_until(r->guard, HOUR_US);
    dt_wire_guard_until(r->guard, 1); /* the end moves */
    await_shut(&r->pairs[3]);
    assert_true(is_shut(&r->pairs[0]));
    assert_true(is_shut(&r->pairs[1]));
    assert_false(is_shut(&r->pairs[2]));
    assert_true(dt_wire_guard_leave(r->guard));
    assert_false(dt_wire_guard_leave(r->guard));
}

static void what_was_left_in_time_is_outside(void **state)
{
    struct rig *r = *state;
    dt_wire_guard_enter(r->guard);
    assert_false(dt_wire_guard_leave(r->guard));
    dt_wire_guard_owes(r->guard, r->pairs[0].ours, true);
    dt_wire_guard_until(r->guard, 1);
    await_shut(&r->pairs[0]);
    assert_false(is_shut(&r->pairs[1]));
    assert_false(dt_wire_guard_leave(r->guard));
}

static void an_end_that_is_told_before_there_is_a_timer_is_kept(void **state)
{
    struct rig *r = *state;
    struct dt_error err = {0};
    dt_wire_guard_detach(r->guard);
    dt_wire_guard_owes(r->guard, r->pairs[0].ours, true);
    dt_wire_guard_until(r->guard, 1);
    usleep(5000);
    assert_false(is_shut(&r->pairs[0])); /* nobody is signalled */
    assert_int_equal(dt_wire_guard_attach(r->guard, &err), DT_OK);
    await_shut(&r->pairs[0]);
}

static void numbers_that_are_no_sockets_of_ours_are_refused(void **state)
{
    struct rig *r = *state;
    assert_false(dt_wire_guard_open(r->guard, -1));
    assert_false(dt_wire_guard_open(r->guard, 1 << 20));
    dt_wire_guard_owes(r->guard, -1, true);
    dt_wire_guard_owes(r->guard, 1 << 20, true);
    dt_wire_guard_close(r->guard, -1);
    dt_wire_guard_close(r->guard, 1 << 20);
    assert_true(dt_wire_guard_open(r->guard, (1 << 20) - 1));
    dt_wire_guard_close(r->guard, (1 << 20) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(outside_the_end_shuts_those_alone_that_owe, make, drop),
        cmocka_unit_test_setup_teardown(a_socket_owes_nothing_of_the_one_that_had_its_number, make, drop),
        cmocka_unit_test_setup_teardown(inside_the_end_shuts_all_and_leaving_says_so_once, make, drop),
        cmocka_unit_test_setup_teardown(what_was_left_in_time_is_outside, make, drop),
        cmocka_unit_test_setup_teardown(an_end_that_is_told_before_there_is_a_timer_is_kept, make, drop),
        cmocka_unit_test_setup_teardown(numbers_that_are_no_sockets_of_ours_are_refused, make, drop),
    };
    return cmocka_run_group_tests_name("wire guard", tests, NULL, NULL);
}
