/* The decisions of an elector by ZooKeeper, step by step, with a ZooKeeper in memory in place of zk.c, and a clock that
 * the test moves. Requests are answered when a test says so. */

#include "election/elector_parts.h"
#include "support/rigs/elector_rig.h"

enum { SHARDS = 2, TIMEOUT_MS = 3000, OURS = 7, SOMEBODY = 8, ASKED_MAX = 64 };

/* ---- ZooKeeper ---- */

struct dt_zk {
    enum dt_zk_state state;
    struct dt_zk_reply *asked[ASKED_MAX]; /* in order */
    size_t n_asked;
    struct dt_zk_reply *ready, **ready_end;
    unsigned reopened;
    bool renamed; /* the password is another one than the session was opened with */
    bool loses;   /* requests have no answer before somebody asks for the state */
};

static struct dt_zk fake;

void dt_zk_reply_free(struct dt_zk_reply *reply)
{
    for (size_t i = 0; i < reply->n_children; i++)
        free(reply->children[i]);
    free(reply->children);
    free(reply->name);
    free(reply);
}

dt_status dt_zk_new(dt_mailbox *, dt_zk **out)
{
    fake = (struct dt_zk){.ready_end = &fake.ready};
    *out = &fake;
    return DT_OK;
}

static void answer(struct dt_zk_reply *reply, enum dt_zk_outcome outcome)
{
    reply->outcome = outcome;
    reply->reason = "as the test says";
    reply->next = NULL;
    if (reply->lease && outcome != DT_ZK_LOST)
        dt_lease_extend(reply->lease, reply->sent_us);
    *fake.ready_end = reply;
    fake.ready_end = &reply->next;
}

/* The clock does not move by itself, so nothing may be waited for when a session is closed. */
static void lose_requests(void)
{
    for (size_t i = 0; i < fake.n_asked; i++)
        answer(fake.asked[i], DT_ZK_LOST);
    fake.n_asked = 0;
}

STUB(void, dt_zk_free, (dt_zk * zk), )

bool dt_zk_open(dt_zk *, const struct dt_zk_server *, int)
{
    if (fake.state == DT_ZK_CONNECTING) {
        fake.reopened++;
    } else {
        assert_int_equal(fake.state, DT_ZK_CLOSED);
        fake.state = DT_ZK_CONNECTED;
    }
    return true;
}

bool dt_zk_opened_as(const dt_zk *, const char *)
{
    return !fake.renamed;
}

void dt_zk_close(dt_zk *)
{
    fake.state = DT_ZK_CLOSED;
}

enum dt_zk_state dt_zk_state(dt_zk *, int *timeout_ms)
{
    *timeout_ms = TIMEOUT_MS;
    if (fake.loses)
        lose_requests();
    return fake.state;
}

STUB(int64_t, dt_zk_session, (dt_zk * zk), OURS)

struct dt_zk_reply *dt_zk_take(dt_zk *)
{
    struct dt_zk_reply *list = fake.ready;
    fake.ready = NULL;
    fake.ready_end = &fake.ready;
    return list;
}

static void note(struct dt_zk_reply *reply)
{
    assert_true(fake.n_asked < ASKED_MAX);
    fake.asked[fake.n_asked++] = reply;
}

void dt_zk_create(dt_zk *, struct dt_zk_reply *reply, const char *, const char *, enum dt_zk_node)
{
    note(reply);
}

void dt_zk_delete(dt_zk *, struct dt_zk_reply *reply, const char *)
{
    note(reply);
}

void dt_zk_list(dt_zk *, struct dt_zk_reply *reply, const char *, struct dt_zk_watch *)
{
    note(reply);
}

void dt_zk_owner(dt_zk *, struct dt_zk_reply *reply, const char *)
{
    note(reply);
}

void dt_zk_ping(dt_zk *, struct dt_zk_reply *reply, const char *, struct dt_lease *lease)
{
    reply->lease = lease;
    note(reply);
}

/* The oldest request of this kind that nobody has answered; NULL: there is none. */
static struct dt_zk_reply *take(enum dt_zk_request request)
{
    for (size_t i = 0; i < fake.n_asked; i++) {
        struct dt_zk_reply *reply = fake.asked[i];
        if (reply->request != (int)request)
            continue;
        memmove(&fake.asked[i], &fake.asked[i + 1], (--fake.n_asked - i) * sizeof(*fake.asked));
        return reply;
    }
    return NULL;
}

static void answer_all(enum dt_zk_request request, enum dt_zk_outcome outcome)
{
    for (struct dt_zk_reply *reply; (reply = take(request)) != NULL;)
        answer(reply, outcome);
}

static void answer_list(enum dt_zk_request request, const char *name)
{
    struct dt_zk_reply *reply = take(request);
    assert_non_null(reply);
    if (name) {
        reply->children = calloc(1, sizeof(*reply->children));
        reply->children[0] = strdup(name);
        reply->n_children = 1;
    }
    answer(reply, DT_ZK_OK);
}

static bool is_asked(enum dt_zk_request request)
{
    for (size_t i = 0; i < fake.n_asked; i++)
        if (fake.asked[i]->request == (int)request)
            return true;
    return false;
}

/* ---- the elector ---- */

static int start(void **state)
{
    static char servers[] = "nowhere:1";
    *state = elector_rig_start(servers, SHARDS, TIMEOUT_MS);
    return 0;
}

static int stop(void **state)
{
    dt_elector *e = *state;
    lose_requests();
    e->kind->close(e);
    dt_elector_stop(e);
    return 0;
}

#define STARTED_TEST(name) TEST_OF(dt_elector *e, name, start, stop)

static const char *guid_of(const dt_elector *e)
{
    return ((const dt_zk_elector *)e)->guid;
}

/* Connected, joined, alone, and both shards are asked for. */
static void ask_for_shards(dt_elector *e)
{
    char name[64];
    step(e);
    step(e);
    answer_all(DT_ASK_PATH, DT_ZK_OK);
    step(e);
    answer_all(DT_ASK_JOIN, DT_ZK_OK);
    answer_all(DT_ASK_MEMBERS, DT_ZK_LOST); /* it was asked for before the answer to the join */
    step(e);
    snprintf(name, sizeof(name), "m-%s-0000000001", guid_of(e));
    answer_list(DT_ASK_MEMBERS, name);
    answer_list(DT_ASK_LEADERS, NULL);
    step(e);
    assert_true(is_asked(DT_ASK_TAKE));
}

static void lead_both(dt_elector *e)
{
    ask_for_shards(e);
    answer_all(DT_ASK_TAKE, DT_ZK_OK);
    step(e);
    assert_int_equal(gained[0] + gained[1], 2);
}

STARTED_TEST(a_shard_with_a_leader_is_not_taken)
{
    ask_for_shards(e);
    answer(take(DT_ASK_TAKE), DT_ZK_EXISTS);
    answer(take(DT_ASK_TAKE), DT_ZK_OK);
    step(e);
    assert_int_equal(gained[0] + gained[1], 1);
}

STARTED_TEST(without_answers_shards_are_lost_exactly_at_the_end_of_the_lease)
{
    int64_t begun_us = now_us;
    lead_both(e);
    now_us = begun_us + TIMEOUT_MS * INT64_C(1000) * 2 / 3 - 1;
    step(e);
    assert_int_equal(lost[0] + lost[1], 0);
    assert_true(dt_elector_leads(e, 0));
    now_us++;
    assert_false(dt_elector_leads(e, 0)); /* also before the next step */
    step(e);
    assert_int_equal(lost[0] + lost[1], 2);
    assert_true(dt_elector_idle(e));
}

STARTED_TEST(an_answered_ping_extends_the_lease_from_its_sending)
{
    lead_both(e);
    now_us += TIMEOUT_MS * INT64_C(300);
    int64_t sent_us = now_us;
    assert_true(dt_elector_next_us(e) <= now_us + TIMEOUT_MS * INT64_C(400));
    step(e);
    now_us += 500000;
    answer_all(DT_ASK_PING, DT_ZK_OK);
    assert_int_equal(atomic_load(&e->lease.until_us), sent_us + TIMEOUT_MS * INT64_C(1000) * 2 / 3);
}

STARTED_TEST(a_node_with_an_unanswered_creation_is_led_only_after_a_check)
{
    ask_for_shards(e);
    answer_all(DT_ASK_TAKE, DT_ZK_LOST);
    step(e);
    assert_int_equal(gained[0] + gained[1], 0);
    struct dt_zk_reply *look = take(DT_ASK_LOOK);
    assert_non_null(look);
    look->owner_session = look->index == 0 ? OURS : SOMEBODY;
    answer(look, DT_ZK_OK);
    look = take(DT_ASK_LOOK);
    look->owner_session = look->index == 0 ? OURS : SOMEBODY;
    answer(look, DT_ZK_OK);
    step(e);
    assert_int_equal(gained[0], 1);
    assert_int_equal(gained[1], 0);
}

STARTED_TEST(an_answer_that_arrives_after_the_lease_gains_no_shard)
{
    ask_for_shards(e);
    now_us += TIMEOUT_MS * INT64_C(1000);
    answer_all(DT_ASK_TAKE, DT_ZK_OK);
    step(e);
    assert_int_equal(gained[0] + gained[1], 0);
    assert_true(is_asked(DT_ASK_LOOK));
}

STARTED_TEST(a_node_is_kept_until_its_loop_has_stopped)
{
    lead_both(e);
    dt_elector_leave(e);
    step(e);
    assert_int_equal(released[0] + released[1], 2);
    assert_false(is_asked(DT_ASK_DROP));
    dt_elector_released(e, 1);
    step(e);
    struct dt_zk_reply *drop = take(DT_ASK_DROP);
    assert_non_null(drop);
    assert_int_equal(drop->index, 1);
    answer(drop, DT_ZK_OK);
    assert_true(dt_elector_leads(e, 0));
}

STARTED_TEST(an_expired_session_loses_everything_and_is_followed_by_another)
{
    char guid[DT_ELECTOR_GUID];
    lead_both(e);
    memcpy(guid, guid_of(e), sizeof(guid));
    dt_elector_step(e, DT_ELECTOR_MEMBERS);
    assert_true(is_asked(DT_ASK_MEMBERS)); /* its answer goes with the session */
    fake.loses = true;
    fake.state = DT_ZK_EXPIRED;
    step(e);
    fake.loses = false;
    assert_int_equal(lost[0] + lost[1], 2);
    assert_int_equal(fake.state, DT_ZK_CLOSED);
    step(e);
    assert_int_equal(fake.state, DT_ZK_CLOSED); /* not at once */
    now_us = dt_elector_next_us(e);
    step(e);
    assert_int_equal(fake.state, DT_ZK_CONNECTED);
    assert_string_not_equal(guid, guid_of(e));
    step(e);
    answer_all(DT_ASK_PATH, DT_ZK_OK);
    step(e);
    assert_true(is_asked(DT_ASK_JOIN)); /* nothing holds from the session before: neither this, nor what it knew */
    answer_all(DT_ASK_JOIN, DT_ZK_OK);
    step(e);
    assert_true(is_asked(DT_ASK_MEMBERS) && is_asked(DT_ASK_LEADERS));
    assert_false(is_asked(DT_ASK_TAKE));
}

/* Nothing of it is sent before: the client tries by itself. */
STARTED_TEST(a_refused_member_joins_by_another_session_after_the_password_changed)
{
    char guid[DT_ELECTOR_GUID];
    step(e);
    step(e);
    memcpy(guid, guid_of(e), sizeof(guid));
    for (int i = 0; i < 2; i++) {
        answer_all(DT_ASK_PATH, DT_ZK_REFUSED);
        step(e);
        now_us += 10000000;
        step(e);
        assert_true(is_asked(DT_ASK_PATH));
        assert_string_equal(guid, guid_of(e)); /* with the same password nothing would be gained */
    }
    fake.renamed = true;
    answer_all(DT_ASK_PATH, DT_ZK_REFUSED);
    step(e);
    step(e);
    assert_int_equal(fake.state, DT_ZK_CLOSED);
    fake.renamed = false;
    now_us += 10000000;
    lead_both(e);
    assert_string_not_equal(guid, guid_of(e));
}

STARTED_TEST(a_handle_without_answers_is_replaced_and_lists_are_read_again)
{
    char guid[DT_ELECTOR_GUID];
    lead_both(e);
    memcpy(guid, guid_of(e), sizeof(guid));
    lose_requests();
    fake.state = DT_ZK_CONNECTING;
    step(e);
    now_us += 2 * TIMEOUT_MS * INT64_C(1000) - 1;
    step(e);
    assert_int_equal(fake.reopened, 0);
    assert_true(dt_elector_next_us(e) == now_us + 1);
    now_us++;
    step(e);
    assert_int_equal(fake.reopened, 1);
    step(e);
    assert_int_equal(fake.reopened, 1); /* it has its time, too */
    fake.state = DT_ZK_CONNECTED;
    step(e);
    assert_string_equal(guid, guid_of(e)); /* the session goes on */
    assert_true(is_asked(DT_ASK_MEMBERS) && is_asked(DT_ASK_LEADERS));
    now_us += 3 * TIMEOUT_MS * INT64_C(1000);
    step(e);
    assert_int_equal(fake.reopened, 1);
}
