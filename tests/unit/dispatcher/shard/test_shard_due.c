/* Which jobs a due scan hints at: those of the index while the leader trusts it; otherwise those of MySQL, with a
 * cursor and a reader ahead of the cursor. The index and MySQL are fakes; the trust in the index, the queues and the
 * readers' positions are real. A job's id is 100,000 times the number of its topic, plus 10,000 times the number of its
 * host. */

#include "support/suite.h"

#include "unit/dispatcher/shard/plain_topics.h"

#define BATCH  10
#define SCAN   (DT_SCAN_BATCHES * BATCH)
#define ROWS   5000
#define TOPICS 8
#define TOPIC  100000
#define HOST   10000
#define NOW    INT64_C(1000000)
#define SECOND INT64_C(1000000)

static struct {
    int64_t mono_us;
    /* the index */
    struct dt_entry entries[SCAN];
    size_t n_entries;
    int64_t next_ms, marked_as; /* the count of the marker that is there; -1: none of ours */
    int asked, marks, doubts, losses, parked, given_back;
    dt_status index_status, mark_status;
    /* MySQL: rows in their order */
    struct dt_due rows[ROWS];
    size_t n_rows;
    int reads, fail_read; /* the read that fails; 0: none */
    int topics_asked;
    dt_status topics_status, next_status;
    int64_t next_due_ms;
    int64_t last[TOPICS]; /* id that was claimed */
    bool believed, closed[TOPICS];
} fake;

static struct dt_config config;
static struct dt_process_env env;
static dt_shard_loop *l;

STUB(static int64_t, mono_us, (const dt_clock *clock), fake.mono_us)

static const dt_clock turned = {.mono_us = mono_us};

/* ---- the index ---- */

dt_status dt_index_due(dt_index *, unsigned, struct dt_due_scan *scan, struct dt_error *err)
{
    assert_members(*scan, (now_ms, NOW), (limit, SCAN));
    fake.asked++;
    scan->n = 0;
    scan->next_ms = 0;
    scan->marked = false;
    if (fake.index_status != DT_OK)
        return dt_fail(err, fake.index_status, "away");
    memcpy(scan->entries, fake.entries, fake.n_entries * sizeof(*scan->entries));
    scan->n = fake.n_entries;
    scan->next_ms = fake.next_ms;
    scan->marked = scan->marker.count == fake.marked_as;
    return DT_OK;
}

dt_status dt_index_mark(dt_index *, unsigned, struct dt_marker marker, const struct dt_marker *, bool *intact,
                        bool *gone, struct dt_error *err)
{
    fake.marks++;
    *intact = *gone = false;
    if (fake.mark_status != DT_OK)
        return dt_fail(err, fake.mark_status, "read-only");
    *intact = true;
    fake.marked_as = marker.count;
    return DT_OK;
}

dt_status dt_index_hold(dt_index *, unsigned, struct dt_str, const struct dt_entry *, size_t, struct dt_error *)
{
    fake.parked++;
    return DT_OK;
}

dt_status dt_index_unhold(dt_index *, unsigned, struct dt_str, size_t, int64_t *next_ms, struct dt_error *)
{
    *next_ms = NOW; /* more of it is parked still */
    fake.given_back++;
    return DT_OK;
}

dt_status dt_index_held(dt_index *, unsigned, struct dt_arena *, struct dt_str **, size_t *, struct dt_error *err)
{
    return dt_fail(err, DT_UNAVAILABLE, "not asked for here");
}

STUB(const char *, dt_index_home, (const dt_index *index, unsigned shard), "redis")

/* ---- MySQL ---- */

dt_status dt_store_scan_shard(dt_store *, struct dt_shard_scan *scan, struct dt_error *err)
{
    const int64_t after_ms = scan->after_ms, after_id = scan->after_id;
    assert_true(scan->now_ms <= NOW);
    if (++fake.reads == fake.fail_read)
        return dt_fail(err, DT_UNAVAILABLE, "away");
    scan->n = 0;
    scan->end = true;
    for (size_t i = 0; i < fake.n_rows; i++) {
        const struct dt_due *row = &fake.rows[i];
        const bool stands_after = row->next_ms > after_ms || (row->next_ms == after_ms && row->id > after_id);
        if (!stands_after || row->next_ms > scan->now_ms)
            continue;
        if (scan->n == scan->limit) {
            scan->end = false;
            break;
        }
        scan->out[scan->n++] = fake.rows[i];
        scan->after_ms = fake.rows[i].next_ms;
        scan->after_id = fake.rows[i].id;
    }
    return DT_OK;
}

dt_status dt_store_next_due(dt_store *, const struct dt_shard_scan *, int64_t *next_ms, struct dt_error *err)
{
    if (fake.next_status != DT_OK)
        return dt_fail(err, fake.next_status, "away");
    *next_ms = fake.next_due_ms;
    return DT_OK;
}

/* All topics have been resumed. */
dt_status dt_store_read_topics(dt_store *, dt_topic_snapshot *, struct dt_error *)
{
    memset(fake.closed, 0, sizeof(fake.closed));
    plain.version++;
    return DT_OK;
}

dt_status dt_store_topics_of(dt_store *, const int64_t *ids, size_t n, struct dt_arena *arena, struct dt_topic_of *out,
                             struct dt_error *err)
{
    fake.topics_asked++;
    if (fake.topics_status != DT_OK)
        return dt_fail(err, fake.topics_status, "away");
    for (size_t i = 0; i < n; i++) {
        char name[] = {(char)('0' + ids[i] / TOPIC), '\0'};
        out[i] = (struct dt_topic_of){.topic = dt_arena_copy(arena, dt_str(name)),
                                      .host = (uint32_t)(ids[i] % TOPIC / HOST)};
    }
    return DT_OK;
}

STUB(struct dt_str, dt_topic_snapshot_kafka_topic, (const dt_topic_snapshot *snapshot, struct dt_str topic), topic)

bool dt_topic_snapshot_paused(const dt_topic_snapshot *, struct dt_str topic)
{
    return fake.closed[topic.p[0] - '0'];
}

STUB(enum dt_writable, dt_delivery_writable,
     (dt_delivery * delivery, struct dt_str topic, int64_t owner, int64_t bytes), DT_WRITABLE_YES)

/* ---- the process ---- */

static void index_lost(void *, unsigned)
{
    fake.losses++;
}

static void index_doubted(void *)
{
    fake.doubts++;
}

STUB(static bool, index_told, (void *arg, const char *endpoint), fake.believed)

/* ---- the rig ---- */

static void make(void)
{
    memset(&fake, 0, sizeof(fake));
    memset(&plain, 0, sizeof(plain));
    plain.all_places = 1000;
    fake.mono_us = 100 * SECOND;
    fake.marked_as = -1;
    fake.believed = true;
    l = calloc(1, sizeof(*l));
    assert_non_null(l);
    config.dispatch_batch_jobs = BATCH;
    env = (struct dt_process_env){.config = &config,
                                  .clock = &turned,
                                  .index_lost = index_lost,
                                  .index_doubted = index_doubted,
                                  .index_told = index_told};
    l->env = &env;
    l->index = (dt_index *)&fake;
    l->fair.hints = calloc(BATCH, sizeof(*l->fair.hints));
    l->due.entries = calloc(SCAN, sizeof(*l->due.entries));
    l->due.rows = calloc(SCAN, sizeof(*l->due.rows));
    l->trust.up = true;
    l->trust.whole = true;
    l->trust.compared = true;
    pthread_mutex_init(&l->state_lock, NULL);
    assert_int_equal(dt_mailbox_new(&l->mailbox), DT_OK);
    dt_shard_due_init(l);
}

static void drop(void)
{
    dt_topic_memory_clear(&l->fair.memory);
    dt_arena_clear(&l->fair.arena);
    dt_mailbox_free(l->mailbox);
    pthread_mutex_destroy(&l->state_lock);
    free(l->fair.v);
    free(l->fair.open);
    free(l->fair.hints);
    free(l->due.entries);
    free(l->due.rows);
    free(l);
}

#define FRESH_TEST(name) TEST_WITH(name, make, drop)

static dt_status try_scan(int64_t *next_ms)
{
    struct dt_error err = {0};
    dt_status status = dt_shard_due_scan(l, NOW, next_ms, &err);
    if (status != DT_OK)
        assert_int_equal(err.status, status);
    return status;
}

static int64_t scan(void)
{
    int64_t next_ms;
    assert_int_equal(try_scan(&next_ms), DT_OK);
    return next_ms;
}

static void fill_index(size_t n)
{
    for (size_t i = 0; i < n; i++)
        fake.entries[i] = (struct dt_entry){.id = (int64_t)i + 1, .due_ms = (int64_t)i + 50};
    fake.n_entries = n;
}

static void add_rows(int64_t topic, size_t n, int64_t from_ms)
{
    for (size_t i = 0; i < n; i++)
        fake.rows[fake.n_rows++] = (struct dt_due){topic * TOPIC + (int64_t)i, from_ms + (int64_t)i};
}

static void take_out(int64_t id)
{
    for (size_t i = 0; i < fake.n_rows; i++)
        if (fake.rows[i].id == id) {
            memmove(&fake.rows[i], &fake.rows[i + 1], (--fake.n_rows - i) * sizeof(*fake.rows));
            return;
        }
    fail_msg("job %lld is hinted at twice", (long long)id);
}

/* Each hint is claimed, or left when its topic is closed; counts them by topic, and sees to the order within it. */
static void claim(size_t each[TOPICS])
{
    assert_true(l->fair.n_hints <= BATCH);
    for (size_t i = 0; i < l->fair.n_hints; i++) {
        size_t topic = (size_t)(l->fair.hints[i].id / TOPIC);
        if (fake.closed[topic])
            continue;
        assert_true(l->fair.hints[i].id >= fake.last[topic]);
        fake.last[topic] = l->fair.hints[i].id;
        each[topic]++;
        take_out(l->fair.hints[i].id);
    }
}

static size_t rows_of(int64_t topic)
{
    size_t n = 0;
    for (size_t i = 0; i < fake.n_rows; i++)
        n += fake.rows[i].id / TOPIC == topic;
    return n;
}

/* ---- from the index ---- */

FRESH_TEST(entries_of_the_index_become_hints_up_to_a_batch)
{
    fill_index(BATCH);
    fake.next_ms = NOW + 7;
    assert_int_equal(scan(), NOW + 7);
    assert_int_equal(l->fair.n_hints, BATCH);
    for (size_t i = 0; i < BATCH; i++) {
        assert_members(l->fair.hints[i], (id, i + 1), (due_ms, i + 50));
    }
    assert_false(l->due.backlog);
    fill_index(BATCH + 1);
    assert_int_equal(scan(), NOW); /* there is more already */
    assert_int_equal(l->fair.n_hints, BATCH);
    assert_true(l->due.backlog);
    fill_index(0);
    assert_int_equal(scan(), NOW + 7);
    assert_int_equal(l->fair.n_hints, 0);
    assert_int_equal(fake.reads + fake.topics_asked, 0);
}

FRESH_TEST(entries_beyond_a_batch_and_parked_ones_wait_in_queues)
{
    fill_index(2 * BATCH);
    scan();
    assert_int_equal(fake.topics_asked, 0);
    fill_index(2 * BATCH + 1);
    scan();
    assert_members(fake, (topics_asked, 1), (parked, 1));
    assert_true(l->due.backlog);
    fill_index(1);
    scan();
    assert_members(fake, (topics_asked, 2), (given_back, 1));
    assert_true(l->due.backlog);
    fill_index(0);
    assert_int_equal(scan(), NOW);
    assert_members(fake, (topics_asked, 2), (given_back, 2));
}

FRESH_TEST(the_marker_is_put_there_and_again_every_five_seconds)
{
    scan();
    assert_int_equal(fake.marks, 2); /* ours, and that the set is whole */
    scan();
    fake.mono_us += 5 * SECOND - 1;
    scan();
    assert_int_equal(fake.marks, 2);
    fake.mono_us += 1;
    scan();
    assert_members(fake, (marks, 3), (losses, 0));
    fake.marked_as = -1; /* it is gone, and the set with it */
    scan();
    assert_members(fake, (marks, 4), (losses, 1));
    assert_false(l->trust.says_whole);
}

FRESH_TEST(a_marker_whose_answer_was_lost_is_searched)
{
    scan();
    fake.asked = fake.marks = 0;
    l->trust.mark_unanswered = true;
    l->trust.unanswered_says_whole = true;
    l->trust.says_whole = false;
    fake.marked_as++; /* it came about */
    scan();
    assert_members(fake, (asked, 2), (marks, 0));
    assert_true(l->trust.says_whole);
    fake.asked = 0;
    l->trust.mark_unanswered = false;
    fake.marked_as++;
    scan();
    assert_members(fake, (asked, 1), (marks, 1));
}

FRESH_TEST(an_index_that_fails_is_doubted_when_it_is_back)
{
    scan();
    fake.index_status = DT_UNAVAILABLE;
    scan();
    assert_false(l->trust.up);
    assert_int_equal(fake.reads, 1);
    fake.index_status = DT_OK;
    fake.mark_status = DT_UNAVAILABLE; /* it answers, and takes no change */
    fake.marked_as = -1;
    scan();
    assert_false(l->trust.up);
    assert_members(fake, (reads, 2), (doubts, 0));
    fake.mark_status = DT_OK;
    scan();
    assert_true(l->trust.up);
    assert_int_equal(fake.doubts, 1);
    assert_int_equal(fake.losses, 1); /* nobody knows what became of the marking */
    assert_int_equal(fake.reads, 3);  /* MySQL is read until the set is compared, and whole again */
    scan();
    assert_members(fake, (doubts, 1), (reads, 4));
}

/* ---- from MySQL ---- */

FRESH_TEST(overdue_jobs_are_read_in_order_and_then_from_the_start_again)
{
    size_t each[TOPICS] = {0};
    fake.believed = false;
    fake.next_due_ms = NOW + 9;
    add_rows(1, 4, 100);
    l->cursor.reads_through = true;
    assert_int_equal(scan(), NOW + 9);
    assert_int_equal(l->fair.n_hints, 4);
    assert_false(l->cursor.reads_through); /* read once through */
    claim(each);
    add_rows(1, 3, 50); /* before what was read */
    scan();
    assert_int_equal(l->fair.n_hints, 3);
    assert_int_equal(l->fair.hints[0].due_ms, 50);
}

static void have_no_index(void)
{
    l->index = NULL;
    l->trust.up = false;
}

FRESH_TEST(without_an_index_only_rows_are_read)
{
    have_no_index();
    fake.next_due_ms = NOW + 9;
    add_rows(1, 3, 100);
    assert_int_equal(scan(), NOW + 9);
    assert_int_equal(l->fair.n_hints, 3);
    assert_false(dt_shard_believes_index(l));
    assert_members(fake, (asked, 0), (marks, 0), (doubts, 0));
}

/* A scan until there is nothing more that it might look at. */
static void sweep(size_t each[TOPICS])
{
    int scans = 0;
    do {
        scan();
        claim(each);
        assert_true(++scans < 100);
    } while (l->cursor.ms);
}

/* The overdue jobs of topic 1, which is paused, were all read once. */
static void sweep_closed_jobs(size_t each[TOPICS])
{
    have_no_index();
    config.reconcile_period = 5000;
    fake.closed[1] = true;
    add_rows(1, 3 * BATCH, 100);
    sweep(each);
    assert_true(dt_shard_has_closed(l));
    assert_int_equal(each[1], 0);
}

FRESH_TEST(without_an_index_closed_jobs_are_read_once_a_period)
{
    size_t each[TOPICS] = {0};
    sweep_closed_jobs(each);
    fake.reads = 0;
    fake.topics_asked = 0;
    add_rows(2, 1, NOW - 10);
    scan();
    assert_int_equal(l->fair.n_hints, 1);
    assert_int_equal(l->fair.hints[0].due_ms, NOW - 10);
    assert_members(fake, (reads, 1), (topics_asked, 0));
    claim(each);
    fake.rows[0] = (struct dt_due){2 * TOPIC + 1, 50}; /* a manual edit has it due before all others */
    scan();
    assert_int_equal(l->fair.n_hints, 0);
    for (int i = 0; i < 10; i++) {
        fake.mono_us += SECOND;
        sweep(each);
    }
    assert_int_equal(each[2], 2);
    l->cursor.closed = true; /* topics changed */
    dt_shard_topics_changed(l);
    assert_int_equal(l->cursor.swept_ms, 0);
}

FRESH_TEST(without_an_index_jobs_of_a_resumed_topic_are_sent_although_no_event_reports_it)
{
    size_t each[TOPICS] = {0};
    sweep_closed_jobs(each);
    for (int i = 0; i < 10 && each[1] < 3 * BATCH; i++) {
        fake.mono_us += SECOND;
        dt_shard_list_held(l);
        sweep(each);
    }
    assert_int_equal(each[1], 3 * BATCH);
}

FRESH_TEST(closed_jobs_are_read_again_when_a_leader_transaction_has_read_changed_topics)
{
    size_t each[TOPICS] = {0};
    sweep_closed_jobs(each);
    fake.closed[1] = false;
    plain.version++;
    sweep(each);
    assert_int_equal(each[1], 3 * BATCH);
}

static bool is_hinted(int64_t id)
{
    for (size_t i = 0; i < l->fair.n_hints; i++)
        if (l->fair.hints[i].id == id)
            return true;
    return false;
}

/* Its row is locked, for instance, or another leader has its topic's gate; the scans after it end the sweep. */
FRESH_TEST(a_job_that_was_left_among_closed_ones_is_hinted_by_the_next_sweep)
{
    have_no_index();
    config.reconcile_period = 5000;
    fake.closed[1] = fake.closed[3] = true;
    add_rows(1, 2 * BATCH + 5, 100);
    add_rows(2, 1, 100 + 2 * BATCH + 5);
    add_rows(3, BATCH, 100 + 2 * BATCH + 6);
    do {
        scan();
        bool left = is_hinted(2 * TOPIC) && l->cursor.began_ms; /* the cursor has come to it */
        dt_shard_note_left(l, &(struct dt_leader_txn){.seen = {.n = l->fair.n_hints - left, .locked = left}});
    } while (l->cursor.ms);
    assert_true(dt_shard_has_closed(l)); /* the longest overdue jobs need not be read again */
    for (scan(); !is_hinted(2 * TOPIC); scan())
        assert_true(l->cursor.ms);
}

FRESH_TEST(a_failed_read_is_reported)
{
    int64_t next_ms;
    fake.believed = false;
    add_rows(1, 3 * BATCH, 100);
    for (int at = 1; at <= 2; at++) { /* at the cursor, and ahead of it */
        fake.reads = 0;
        fake.fail_read = at;
        assert_int_equal(try_scan(&next_ms), DT_UNAVAILABLE);
        assert_int_equal(l->fair.n_hints, 0);
    }
    fake.fail_read = 0;
    fake.topics_status = DT_UNAVAILABLE;
    assert_int_equal(try_scan(&next_ms), DT_UNAVAILABLE);
    assert_int_equal(l->fair.n_hints, 0);
    fake.topics_status = DT_OK;
    fake.n_rows = 1;
    fake.next_status = DT_UNAVAILABLE;
    assert_int_equal(try_scan(&next_ms), DT_UNAVAILABLE);
}

FRESH_TEST(a_topic_with_very_many_jobs_does_not_block_others_and_order_is_kept)
{
    size_t each[TOPICS] = {0};
    int scans = 0;
    fake.believed = false;
    add_rows(1, 2000, 100);
    add_rows(2, 30, 3000); /* behind all of the first */
    add_rows(3, 1, 4000);
    l->cursor.reads_through = true;
    while (each[3] == 0) {
        assert_int_equal(scan(), NOW);
        assert_true(l->fair.n_hints > 0);
        claim(each);
        fake.mono_us += SECOND / 10;
        assert_true(++scans < 100);
    }
    assert_true(each[1] < 1000);
    assert_true(each[2] > 0);
    while (fake.n_rows > 0) {
        scan();
        claim(each);
        fake.mono_us += SECOND / 10;
        assert_true(++scans < 600);
    }
    assert_int_equal(each[1], 2000);
    assert_int_equal(each[2], 30);
    scan();
    assert_int_equal(l->fair.n_hints, 0);
    assert_false(l->cursor.reads_through);
}

FRESH_TEST(the_cursor_skips_jobs_that_must_not_be_sent)
{
    size_t each[TOPICS] = {0};
    int scans = 0;
    fake.believed = false;
    fake.closed[1] = true;
    add_rows(1, 200, 100);
    add_rows(2, 100, 1000);
    add_rows(3, 20, 2000);
    while (rows_of(2) + rows_of(3) > 0) {
        scan();
        claim(each);
        fake.mono_us += SECOND / 10;
        assert_true(++scans < 200);
    }
    assert_int_equal(rows_of(1), 200);
    fake.closed[1] = false;
    dt_shard_due_from_start(l);
    while (fake.n_rows > 0) {
        scan();
        claim(each);
        assert_true(++scans < 400);
    }
    assert_int_equal(each[1], 200);
}

static void add_rows_at(uint32_t host, size_t n, int64_t from_ms)
{
    for (size_t i = 0; i < n; i++)
        fake.rows[fake.n_rows++] = (struct dt_due){TOPIC + (int64_t)host * HOST + (int64_t)i, from_ms + (int64_t)i};
}

/* The dead one's place comes back again and again, and each time all is read from the start. */
FRESH_TEST(hosts_that_a_topics_jobs_name_do_not_wait_behind_one_without_places)
{
    size_t n = 0;
    int scans = 0;
    have_no_index();
    plain.called_back = '1';
    plain.places[1] = 1;
    plain.places[2] = 1000;
    add_rows_at(1, 2000, 100);
    add_rows_at(2, 20, 3000);
    while (n < 20) {
        scan();
        for (size_t i = 0; i < l->fair.n_hints; i++) {
            n += l->fair.hints[i].id % TOPIC / HOST == 2;
            take_out(l->fair.hints[i].id);
        }
        dt_shard_due_again(l);
        assert_true(++scans < 100);
    }
}

/* All of them would be locked and looked at for the few that can go. */
FRESH_TEST(no_more_jobs_are_hinted_than_there_is_room_for)
{
    size_t each[TOPICS] = {0};
    have_no_index();
    plain.called_back = '1';
    plain.all_places = 3;
    fake.next_due_ms = NOW + 9;
    add_rows(1, BATCH - 2, 100);
    add_rows(2, 1, 200);
    assert_int_equal(scan(), NOW + 9);
    assert_int_equal(l->fair.n_hints, BATCH - 1);
    l->full_us = 1; /* some of them found none */
    assert_int_equal(scan(), NOW);
    assert_int_equal(l->fair.n_hints, 3 + 1);
    claim(each);
    plain.all_places = 0;
    assert_int_equal(scan(), NOW + 9); /* one finds out, the others are passed by */
    assert_int_equal(l->fair.n_hints, 1);
    assert_true(dt_shard_has_closed(l));
}

/* The process reports free places only to shards that were refused a place. */
FRESH_TEST(jobs_of_a_host_are_passed_over_only_after_it_was_asked_for_places_and_had_none)
{
    size_t each[TOPICS] = {0};
    have_no_index();
    l->full_us = 1;
    plain.called_back = '1';
    plain.places[1] = 3;
    add_rows_at(1, BATCH - 2, 100);
    scan();
    assert_int_equal(l->fair.n_hints, 3);
    claim(each);
    assert_int_equal(l->full_us, 1);
    assert_false(dt_shard_has_closed(l));
    plain.places[1] = 0;
    scan();
    assert_int_equal(l->fair.n_hints, 0);
    assert_int_equal(l->full_us, fake.mono_us);
    assert_true(dt_shard_has_closed(l));
}

/* A change of its URL needs no other word. */
FRESH_TEST(the_host_of_a_job_that_waits_for_a_place_is_read_each_time)
{
    size_t each[TOPICS] = {0};
    fake.believed = false;
    plain.called_back = '1';
    add_rows_at(1, 3 * BATCH, 100);
    scan();
    assert_int_equal(l->fair.n_hints, 0);
    plain.places[1] = 3;
    dt_shard_due_from_start(l);
    scan();
    assert_int_equal(l->fair.n_hints, 3);
    claim(each);
    assert_int_equal(fake.topics_asked, 2);
}
