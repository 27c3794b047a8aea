/*
 * What a process provides to its parts: its settings, clocks and threads, and the callbacks by which parts ask and
 * notify each other, so that no part includes another part only for that. dispatcher.c fills it in; each part borrows
 * it, and documents only what it does with it. Tests fill in the members that the part under test uses.
 *
 * It outlives all parts. Members are set before the first part that uses them starts. Callbacks may be called on any
 * thread, and return at once, except announce and outbox, which may wait for Redis.
 */
#pragma once

#include "base/chores.h"
#include "base/config.h"
#include "dispatch/leader.h"
#include "dispatch/watch.h"
#include "index/index.h"
#include "job/results/results.h"
#include "job/shard.h"

struct dt_loop_state;

/* News for the loop of a shard; also bits of its mailbox. */
enum dt_loop_news {
    DT_LOOP_DUE = 1,   /* a job may be due, the shard's row changed, or a wait is over */
    DT_LOOP_AGAIN = 2, /* topics, or what is known of the index, changed: the loop checks everything again */
    DT_LOOP_PLACES = 4 /* this process may have places for attempts again */
};

/* What the election wants of the loop of a shard. */
enum dt_loop_want { DT_WANT_NOTHING, DT_WANT_LEAD, DT_WANT_RELEASE };

struct dt_process_env {
    /* Sessions of MySQL with this configuration are ended early if they are idle in a transaction, because they lock
     * rows that a successor may need. */
    const struct dt_config *config;
    const char *installation;
    const char *owner; /* host:pid */
    int64_t process;   /* id of this process's row in `processes`, a random number */
    const dt_clock *clock;
    dt_refclock *ref;
    dt_chores *chores;
    dt_chores *urgent; /* threads of chores that must not wait for other chores */
    /* Waits in MySQL. Parts add listeners before it starts, and it is stopped before them. */
    struct dt_watcher *watcher;
    struct dt_kafka_env *kafka;
    _Atomic bool *kafka_away; /* Kafka left the last request of the examiner unanswered */
    struct dt_hands *hands;   /* the attempts that leaders claim into the hands of this process */
    struct dt_room *room;     /* divides room within the limits of topics; NULL: grants nothing */
    struct dt_loop_table *loops;
    uint64_t (*random)(void);
    void *arg; /* passed to all callbacks below */

    /* ---- the election ---- */
    bool (*leads)(void *arg, unsigned shard); /* whether the election still names this process */
    /* Returns this process's rank among the dispatchers. False: the rank is not known yet. */
    bool (*place)(void *arg, unsigned *rank, unsigned *members);
    unsigned (*share)(void *arg); /* returns how many shards the election gives to this process */

    /* ---- the shard map ---- */
    void (*map)(void *arg, struct dt_shard_map *out); /* returns the current shard map */
    void (*stale_map)(void *arg);                     /* requests a reload of the map */
    unsigned (*shards)(void *arg);                    /* returns n: this process may lead only shards 0 to n - 1 */
    void (*led_changed)(void *arg, unsigned shards);  /* all shards with numbers below `shards` must be led */

    /* ---- the loops of shards; nothing happens if this process has no loop of the shard ---- */
    void (*tell)(void *arg, unsigned shard, enum dt_loop_news news);
    /* Attempts of these jobs belong to an expired owner: the leaders of their shards, in any process, should check
     * them. */
    void (*lost)(void *arg, const int64_t *ids, size_t n);
    bool (*state)(void *arg, unsigned shard, struct dt_loop_state *out); /* false: there is no loop of the shard */
    void (*led)(void *arg);                                              /* a leadership began or ended */
    void (*stopped)(void *arg, unsigned shard);                          /* a loop has ended, as ordered or by itself */
    void (*ordered)(void *arg);                  /* an order to the table of loops waits to be carried out */
    void (*released)(void *arg, unsigned shard); /* a loop was stopped in order: another process may lead the shard */
    /* Whether leaders are woken in time: through Redis, or, without an index, by the watch of MySQL. */
    bool (*hears)(void *arg);
    /* Without an index: copies the shard's row as the watch last read it. If the row changes later, the watch wakes the
     * loop. False: the row is not known. */
    bool (*watched_row)(void *arg, unsigned shard, struct dt_watched_row *out);
    bool (*none_due)(void *arg); /* no job of any shard is due; false: a job is due, or it is not known */

    /* ---- the index ---- */
    void (*index_lost)(void *arg, unsigned shard); /* requests a rebuild; dt_shard_loop_index_whole reports its end */
    /* Requests a compare, because a set may lack entries; dt_shard_loop_index_compared reports its end. */
    void (*index_doubted)(void *arg);
    /* Entries could not be written to this index and are lost: no leader may trust the index. */
    void (*index_entries_lost)(void *arg, const dt_index *index);
    /* Returns whether every process that changes jobs can write to the index at this endpoint, as far as is known. */
    bool (*index_told)(void *arg, const char *endpoint);
    void (*doubt)(void *arg);    /* entries of any shard may be missing: leaders must not trust the index */
    void (*announce)(void *arg); /* all processes should do their periodic checks now */

    /* ---- results, and messages that jobs leave behind ---- */
    /* read_up_to returns the deadlines up to which attempts may time out (kafka_parts.h). want_read records that the
     * shard waits for a later deadline. */
    struct dt_read_up_to (*read_up_to)(void *arg);
    void (*want_read)(void *arg, unsigned shard, int64_t deadline_ms);
    void (*outbox)(void *arg, unsigned shard); /* messages were added to the shard's outbox; any process may lead it */
    bool (*sends_outbox)(void *arg, int64_t shard); /* whether this process sends the messages of the shard's outbox */
};

/* Makes the index entries of a job to which a result was applied; none if it was not. `out` has room for DT_WAS_MAX
 * entries. Calls env->outbox if the result left a message. */
size_t dt_process_entries_of(const struct dt_process_env *env, const struct dt_shard_map *map,
                             const struct dt_apply *applied, struct dt_entry *out);
/* Writes index entries of changes that MySQL has committed. If that fails, leaders doubt the index
 * (env->index_entries_lost). index: NULL without an index; entries: NULL if memory ran out; wakes: wakes leaders. */
void dt_process_tell_index(const struct dt_process_env *env, dt_index *index, const struct dt_shard_map *map,
                           const struct dt_entry *entries, size_t n, bool wakes);
