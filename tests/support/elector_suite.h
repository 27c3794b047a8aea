/*
 * The contract of elector.h, for whatever elects: tests on electors that run, on a server that is killed, stopped and
 * started again. Every gain, loss and release of every elector is recorded with its time; two that lead one shard at once
 * are an error in every test, unless the test expects it.
 *
 *     return elector_suite_run(&world, own_tests, n);     // the tests of the suite, then those of the file
 */
#ifndef DT_TESTS_SUPPORT_ELECTOR_SUITE_H
#define DT_TESTS_SUPPORT_ELECTOR_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "election/elector.h"
#include "support/redis_fixture.h" /* wait_until */

enum { SHARDS = 4, ELECTORS = 3, TIMEOUT_MS = 1000, LEASE_MS = TIMEOUT_MS * 2 / 3 };
/* Scheduling on a busy machine with sanitizers. */
enum { SLACK_MS = 150 };
/* What a server may add to the timeout before it says that a session is over, and others 250 ms more. */
enum { TICK_MS = 100 };

/* A server of an election. Whatever these do is done when they return. */
struct elector_world {
    void (*prepare)(void); /* once, before all tests: it serves */
    void (*remove)(void);  /* once, after them */
    void (*fresh)(void);   /* before each test: nothing is known of the installation, and it serves */
    void (*kill)(void);    /* every connection breaks, none is to be had */
    void (*start)(void);   /* after kill */
    void (*pause)(void);   /* connections stay, nothing is answered */
    void (*resume)(void);
    const struct dt_config *(*config)(void); /* what electors are told; valid until `remove` */
};

struct player {
    int number;
    dt_elector *elector;
    _Atomic bool leads[SHARDS * 2]; /* told gained, and neither lost nor released since */
    _Atomic bool asked[SHARDS * 2]; /* told release, not yet released */
    _Atomic int gained, lost;
    _Atomic int64_t gained_us, lost_us; /* when the last one was */
    _Atomic bool keep;                  /* do not release at once when asked */
};

extern struct player players[ELECTORS];
extern _Atomic int overlaps;  /* how often a shard was gained while another player led it */
extern char installation[64]; /* of the running test */
extern const dt_clock
    *players_clock; /* of electors that are started from now on; the system's at the start of each test */
/* Whether players hear of each other's moves, as processes do through Redis; false at the start of each test. */
extern _Atomic bool players_hear;
/* Called with each gain, on the elector's thread, before it is recorded; NULL: nothing. */
extern void (*player_gains)(struct player *player, unsigned shard);

int64_t now_us(void);
struct player *start(int number);
/* The same with another configuration than the world's. */
struct player *start_with(int number, const struct dt_config *config);
void stop(struct player *player);
void let_go(struct player *player, unsigned shard);
int led_by(const struct player *player);
int gains(void); /* of all players */

/* The numbers that each of the players should lead; -1 ends the list. */
bool lead_this_many(void *want);
#define AWAIT_SPLIT(deadline_ms, ...)                                                                                  \
    do {                                                                                                               \
        int want_[] = {__VA_ARGS__, -1};                                                                               \
        if (!wait_until(lead_this_many, want_, deadline_ms))                                                           \
            fail_msg("shards led: %d %d %d", led_by(&players[0]), led_by(&players[1]), led_by(&players[2]));           \
    } while (0)

bool has_lost_all(void *player);

/* A player in a process of its own. */
struct other_process {
    int pid, ask, answer;
};
/* Starts player 0 in a child; returns when it leads every shard. */
void other_process_start(struct other_process *other);
/* Whether it leads shard 0, as it says when it runs. */
bool other_process_leads(const struct other_process *other);
void other_process_kill(struct other_process *other); /* kill -9, waited for */

int elector_fresh(void **state); /* set-up and tear-down of tests of a file's own */
int elector_quit(void **state);
#define ELECTOR_TEST(test) cmocka_unit_test_setup_teardown(test, elector_fresh, elector_quit)
int elector_suite_run(const struct elector_world *world, const struct CMUnitTest *own, size_t n);

#endif
