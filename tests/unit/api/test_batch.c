/* Batches of creates: their results, refusals, chunks and waits. */
#include "unit/api/batch_suite.h"

RIG_TEST(a_batch_of_refusals_needs_no_committer)
{
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, true);
    for (unsigned i = 0; i < 3 * ROWS; i++)
        add(batch, "no");
    assert_true(dt_batch_flush(batch));
    assert_false(dt_batch_wait(batch, true));
    dt_batch_answer(batch);
    assert_int_equal(n_units, 0);
    assert_int_equal(count(req.out.p, "\"status\":400"), 3 * ROWS);
    dt_batch_release(batch);
    request_clear(&req);
}

RIG_TEST(outcomes_of_rows_become_results_of_elements)
{
    static const struct {
        dt_status status;
        enum dt_insert_outcome outcome;
        const char *result;
    } cases[] = {{DT_OK, DT_INSERT_SAME, "{\"status\":200,\"id\":\"77\"}"},
                 {DT_OK, DT_INSERT_CONFLICT, "\"status\":409"},
                 {DT_OK, DT_INSERT_NO_TOPIC, "\"status\":422"},
                 {DT_FULL, DT_INSERT_CREATED, "/problems/unavailable"},
                 {DT_UNKNOWN, DT_INSERT_CREATED, "/problems/outcome-unknown"},
                 {DT_CORRUPT, DT_INSERT_CREATED, "/problems/internal"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dt_request req;
        everything_is_back();
        make();
        request_init(&req);
        dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
        add(batch, fine);
        assert_true(dt_batch_flush(batch));
        outcome = cases[i].outcome;
        give_back(0, cases[i].status);
        dt_batch_answer(batch);
        if (!strstr(req.out.p, cases[i].result))
            fail_msg("%s is not in %s", cases[i].result, req.out.p);
        assert_int_equal(count(req.out.p, "\n"), 1);
        dt_batch_release(batch);
        request_clear(&req);
    }
}

/* The queue bounds bytes, too, and large elements of batches must leave half of these to others. */
RIG_TEST(chunks_of_many_bytes_are_charged_as_more_rows)
{
    enum { ROOM = 8, LARGE = 3000 };
    struct dt_request req;
    char text[LARGE + 100];
    snprintf(text, sizeof(text), "{\"topic\":\"t\",\"delay\":5,\"payload\":\"%0*d\"}", LARGE, 0);
    request_init(&req);
    use_gate(&(struct dt_gate_bounds){.chunk_rows = ROWS,
                                      .chunk_bytes = (size_t)ROWS * LARGE,
                                      .rows = (size_t)ROOM * ROWS,
                                      .bytes = (size_t)ROOM * ROWS * LARGE / 4}); /* a row has four times as many */
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    while (dt_batch_room(batch))
        dt_batch_add(batch, dt_str(text), true);
    assert_int_equal(n_units, ROOM / 4);
    give_back(0, DT_OK);
    assert_true(dt_batch_room(batch));
    for (size_t i = 1; i < n_units; i++)
        give_back(i, DT_OK);
    assert_true(gauge("duetime_api_batch_rows") == 0);
    dt_batch_release(batch);
    request_clear(&req);
}

RIG_TEST(the_number_of_queued_chunks_of_a_batch_is_bounded)
{
    struct dt_request req;
    request_init(&req);
    /* More room than a batch may have. */
    use_gate(&(struct dt_gate_bounds){.chunk_rows = ROWS, .rows = (size_t)2 * DT_BATCH_UNDER_WAY * ROWS});
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    assert_int_equal(fill(batch), (DT_BATCH_UNDER_WAY + 1) * ROWS); /* and one that waits, full */
    assert_int_equal(n_units, DT_BATCH_UNDER_WAY);
    assert_true(dt_batch_wait(batch, false));
    assert_int_equal(suspended, 1);
    assert_int_equal(resumed, 0);
    give_back(2, DT_OK);
    assert_int_equal(resumed, 1);
    assert_int_equal(fill(batch), ROWS);
    for (size_t i = 0; i < n_units; i++)
        if (units[i])
            give_back(i, DT_OK);
    assert_true(dt_batch_flush(batch));
    assert_true(dt_batch_wait(batch, true));
    give_back(n_units - 1, DT_OK);
    assert_int_equal(resumed, 2);
    dt_batch_answer(batch);
    assert_int_equal(count(req.out.p, "\"status\":201"), (DT_BATCH_UNDER_WAY + 2) * ROWS);
    dt_batch_release(batch);
    request_clear(&req);
}

RIG_TEST(batches_share_half_of_the_queue_and_wait_in_order)
{
    struct dt_request req[3];
    dt_batch *batch[3];
    for (int i = 0; i < 3; i++) {
        request_init(&req[i]);
        batch[i] = dt_batch_new(&req[i], &dt_batch_of_jobs, false);
    }
    fill(batch[0]); /* four chunks: all that batches may have */
    assert_int_equal(n_units, 4);
    for (int i = 0; i < 3; i++) {
        fill(batch[i]);
        assert_true(dt_batch_wait(batch[i], false));
    }
    give_back(0, DT_OK); /* room for one: the first in the queue, and no other */
    assert_int_equal(resumed, 1);
    assert_true(dt_batch_flush(batch[0]));
    give_back(1, DT_OK);
    assert_int_equal(resumed, 2);
    assert_true(dt_batch_flush(batch[1]));
    assert_int_equal(most_under_way, 4);
    for (size_t i = 0; i < n_units; i++)
        if (units[i])
            give_back(i, DT_OK);
    assert_int_equal(resumed, 3);
    assert_true(dt_batch_flush(batch[2]));
    give_back(n_units - 1, DT_OK);
    for (int i = 0; i < 3; i++) {
        dt_batch_answer(batch[i]);
        dt_batch_release(batch[i]);
        request_clear(&req[i]);
    }
}

RIG_TEST(a_batch_exists_until_its_chunks_return_even_without_its_client)
{
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    fill(batch);
    assert_int_equal(n_units, 4);
    dt_batch_release(batch); /* the client left: nobody asks for the results */
    request_clear(&req);
    for (size_t i = 0; i < 4; i++)
        give_back(i, DT_OK);
    assert_int_equal(resumed, 0);
    /* the gate is open again */
    request_init(&req);
    batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    add(batch, fine);
    assert_true(dt_batch_flush(batch));
    give_back(4, DT_OK);
    dt_batch_release(batch);
    request_clear(&req);
}

RIG_TEST(chunks_that_share_a_key_are_committed_one_after_the_other)
{
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    for (unsigned i = 0; i < 2 * ROWS; i++) {
        char text[80];
        snprintf(text, sizeof(text), "{\"topic\":\"t\",\"delay\":5,\"key\":\"%u\"}", i);
        add(batch, text);
    }
    add(batch, "{\"topic\":\"t\",\"delay\":6,\"key\":\"3\"}");
    assert_int_equal(n_units, 2); /* no key is shared: both are under way */
    assert_false(dt_batch_flush(batch));
    assert_true(dt_batch_wait(batch, false));
    give_back(1, DT_OK);
    assert_int_equal(resumed, 0);
    give_back(0, DT_OK);
    assert_int_equal(resumed, 1);
    assert_true(dt_batch_flush(batch));
    assert_int_equal(n_units, 3);
    give_back(2, DT_OK);
    dt_batch_answer(batch);
    assert_int_equal(count(req.out.p, "\"status\":201"), 2 * ROWS + 1);
    dt_batch_release(batch);
    request_clear(&req);
}

RIG_TEST(copied_elements_no_longer_need_their_text)
{
    struct dt_request req;
    char text[] = "{\"topic\":\"t\",\"key\":\"k\",\"delay\":5,\"payload\":[1,2,3],\"headers\":{\"a\":\"b\"}}";
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    add(batch, text);
    memset(text, 'x', sizeof(text) - 1);
    assert_true(dt_batch_flush(batch));
    const struct dt_new_job *job = &units[0]->rows[0].row.job;
    assert_memory_equal(job->payload.p, "[1,2,3]", 7);
    assert_memory_equal(job->key.p, "k", 1);
    assert_memory_equal(job->headers.p, "{\"a\":\"b\"}", 9);
    give_back(0, DT_OK);
    dt_batch_release(batch);
    request_clear(&req);
}
