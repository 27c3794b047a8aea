/*
 * The contract of elector.h, for whatever elects: tests on electors that run, on a server that is killed, stopped and
 * started again. Every gain, loss and release of every elector is recorded with its time; two that lead one shard at once
 * are an error in every test, unless the test expects it.
 *
 *     return elector_suite_run(&world);     // the tests of the suite and those of the file
 */
#pragma once

#include "election/elector.h"
#include "store/store.h"
#include "support/wait.h"

/* Electors have the timeout PATIENT_MS, which is longer than any stall of a busy machine. While a test waits for
 * electors, it makes them look. If a test needs a timeout to expire, it calls impatient() first. Then leaders may lose
 * shards when the machine delays them. */
enum { SHARDS = 4, ELECTORS = 3, PATIENT_MS = 15000, TIMEOUT_MS = 1000, LEASE_MS = TIMEOUT_MS * 2 / 3 };

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
    struct dt_config hasty; /* of its connection */
    struct dt_store_source store;
    dt_chores *urgent;
    _Atomic bool leads[SHARDS * 2]; /* told gained, and neither lost nor released since */
    _Atomic bool asked[SHARDS * 2]; /* told release, not yet released */
    _Atomic int gained, lost;
    _Atomic int64_t gained_us, lost_us; /* when the last one was */
    _Atomic bool keep;                  /* do not release at once when asked */
};

extern struct player players[ELECTORS];
extern _Atomic int overlaps;  /* how often a shard was gained while another player led it or had its lease */
extern char installation[64]; /* of the running test */
extern const dt_clock
    *players_clock; /* of electors that are started from now on; the system's at the start of each test */
/* Whether players hear of each other's moves, as processes do through Redis; false at the start of each test. */
extern _Atomic bool players_hear;
/* Whether players look at the election while a test waits for them; true at the start of each test. */
extern bool players_look;
extern int timeout_ms; /* of electors started from now on; PATIENT_MS at the start of each test */
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

void impatient(void); /* sets TIMEOUT_MS; players look only by themselves */
/* If players_look is set, all players look at the election. */
void look(void);

/* The numbers that each of the players should lead; -1 ends the list. */
bool lead_this_many(const int *want);
#define AWAIT_SPLIT(...)                                                                                               \
    AWAIT_OR(lead_this_many((const int[]){__VA_ARGS__, -1}),                                                           \
             print_error("shards led: %d %d %d\n", led_by(&players[0]), led_by(&players[1]), led_by(&players[2])))

/* A player in a process of its own. */
struct other_process {
    int pid, ask, answer;
};
/* Starts player 0 in a child; returns when it leads every shard. */
void other_process_start(struct other_process *other);
/* Until when its lease of shard 0 lasts (monotonic), as it reports while it runs; 0: it does not lead. */
int64_t other_process_leads_until(const struct other_process *other);
void other_process_kill(struct other_process *other); /* kill -9, waited for */

void elector_fresh(void); /* set-up and tear-down of tests of a file's own */
void elector_quit(void);
#define ELECTOR_TEST(name) TEST_WITH(name, elector_fresh, elector_quit)
int elector_suite_run(const struct elector_world *world);
