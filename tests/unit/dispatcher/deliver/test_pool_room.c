/* Which leaders are told of places that came back: as many as can use them, in turn, and all of them in the end. */
#include "support/suite.h"

#include "deliver/http/pool_parts.h"

static struct dt_process_env env;
static struct dt_hands hands;
static unsigned told[8], n_told;

static void room(void *arg, unsigned shard, enum dt_loop_news news)
{
    assert_int_equal(news, DT_LOOP_PLACES);
    assert_ptr_equal(arg, &hands);
    assert_true(n_told < 8);
    told[n_told++] = shard;
}

static void make(void)
{
    memset(&hands, 0, sizeof(hands));
    env = (struct dt_process_env){.arg = &hands, .tell = room};
    hands.env = &env;
    n_told = 0;
    pthread_mutex_init(&hands.lock, NULL);
}

static void clear(void)
{
    pthread_mutex_destroy(&hands.lock);
}

#define FRESH_TEST(name) TEST_WITH(name, make, clear)

FRESH_TEST(leaders_are_woken_in_turn_up_to_the_requested_number)
{
    hands.refused[0] = hands.refused[3] = hands.refused[5] = true;
    assert_true(dt_pool_tell_some(&hands, 1));
    assert_int_equal(told[0], 3);
    hands.refused[3] = true; /* it found nothing: it stands behind the others */
    assert_true(dt_pool_tell_some(&hands, 2));
    assert_int_equal(told[1], 5);
    assert_int_equal(told[2], 0);
    assert_false(dt_pool_tell_some(&hands, 9));
    assert_int_equal(told[3], 3);
    assert_int_equal(n_told, 4);
}

FRESH_TEST(leaders_that_did_not_ask_are_not_woken)
{
    assert_false(dt_pool_tell_some(&hands, 3));
    dt_pool_tell_room(&hands);
    assert_int_equal(n_told, 0);
}

FRESH_TEST(shards_that_were_not_woken_yet_are_woken_together)
{
    hands.refused[1] = hands.refused[2] = hands.refused[4] = true;
    assert_true(dt_pool_tell_some(&hands, 1));
    dt_pool_tell_room(&hands);
    assert_int_equal(n_told, 3);
    assert_false(dt_pool_tell_some(&hands, 1));
    assert_int_equal(n_told, 3);
}

FRESH_TEST(enough_places_for_a_claim_wake_a_leader_once)
{
    hands.refused[2] = true;
    for (unsigned i = 1; i < 2 * DT_POOL_PLACES_EACH; i++)
        assert_int_equal(dt_pool_came_back(&hands, 100), i == DT_POOL_PLACES_EACH);
    assert_true(dt_pool_told_lately(&hands));
    assert_true(dt_pool_came_back(&hands, 100)); /* those before it count still */
    assert_true(dt_pool_told_lately(&hands));
    assert_false(dt_pool_came_back(&hands, 100));
    assert_false(dt_pool_told_lately(&hands)); /* whoever asks tells of this one */
    for (unsigned i = 1; i <= DT_POOL_PLACES_EACH; i++)
        assert_int_equal(dt_pool_came_back(&hands, 100), i == DT_POOL_PLACES_EACH);
}

/* A host with few places has all of them back before that many are together. */
FRESH_TEST(half_of_a_hosts_places_wake_a_leader)
{
    hands.refused[2] = true;
    for (unsigned i = 1; i <= 10; i++)
        assert_int_equal(dt_pool_came_back(&hands, 20 - i), i == 10);
    hands.refused[2] = false;
    assert_true(dt_pool_told_lately(&hands));
    assert_false(dt_pool_came_back(&hands, 0)); /* nobody waits */
}
