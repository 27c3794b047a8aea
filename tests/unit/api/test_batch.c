/* Batches of creates: their results, refusals, chunks and waits. */
#include "unit/api/batch_suite.h"

RIG_TEST(results_stand_in_the_order_of_elements)
{
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    for (unsigned i = 0; i < 2 * ROWS; i++)
        add(batch, fine);
    assert_true(dt_batch_flush(batch));
    assert_int_equal(n_units, 2);
    give_back(1, DT_OK); /* the second chunk is faster */
    give_back(0, DT_OK);
    dt_batch_answer(batch);
    assert_int_equal(req.status, 200);
    assert_string_equal(req.reply_type, "application/x-ndjson");
    const char *p = req.out.p;
    for (unsigned i = 0; i < 2 * ROWS; i++) {
        char line[64];
        snprintf(line, sizeof(line), "{\"status\":201,\"id\":\"%u\"}\n", i < ROWS ? 111 + i : 101 + i - ROWS);
        assert_memory_equal(p, line, strlen(line));
        p += strlen(line);
    }
    assert_int_equal(*p, '\0');
    dt_batch_release(batch);
    request_clear(&req);
}

RIG_TEST(refused_elements_keep_their_place_and_make_no_job)
{
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, true);
    add(batch, "{\"topic\":");
    add(batch, fine);
    add(batch, "{\"topic\":\"t\"}");
    add(batch, "{\"topic\":\"hidden\",\"delay\":1}");
    add(batch, "");
    dt_batch_refuse(batch, DT_PROBLEM_TOO_LARGE, "too long", false);
    assert_true(dt_batch_flush(batch));
    assert_int_equal(n_units, 1);
    assert_int_equal(units[0]->n, 1);
    give_back(0, DT_OK);
    dt_batch_answer(batch);
    dt_json *json;
    assert_int_equal(dt_json_new(&json), DT_OK);
    assert_int_equal(dt_json_parse(json, dt_strbuf_str(&req.out), &(struct dt_json_limits){0}, NULL), DT_OK);
    static const int statuses[] = {400, 201, 422, 404, 400, 413};
    const struct dt_json_node *root = dt_json_root(json), *e = dt_json_first(json, root);
    assert_int_equal(root->n, 6);
    for (int i = 0; i < 6; i++, e = dt_json_sibling(json, root, e))
        assert_int_equal(dt_json_member(json, e, "status")->i, statuses[i]);
    dt_json_free(json);
    dt_batch_release(batch);
    request_clear(&req);
}

RIG_TEST(a_refusal_says_what_is_wrong_and_in_which_line)
{
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    add(batch, "{");
    dt_batch_refuse(batch, DT_PROBLEM_TOO_LARGE, "too long", false);
    add(batch, "{\"topic\":\"t\"}");
    add(batch, "[");
    assert_true(dt_batch_flush(batch));
    dt_batch_answer(batch);
    assert_int_equal(count(req.out.p, "\n"), 4);
    assert_int_equal(count(req.out.p, "\"detail\":\"line 1: "), 1);
    assert_int_equal(count(req.out.p, "\"detail\":\"too long; no job was made\""), 1);
    assert_int_equal(count(req.out.p, "\"detail\":\"see errors for each member that is wrong\""), 1);
    assert_int_equal(count(req.out.p, "\"detail\":\"line 4: "), 1);
    dt_batch_release(batch);
    request_clear(&req);
}

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

RIG_TEST(an_empty_batch_is_an_empty_answer)
{
    for (int array = 0; array < 2; array++) {
        struct dt_request req;
        request_init(&req);
        dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, array == 1);
        assert_true(dt_batch_flush(batch));
        dt_batch_answer(batch);
        assert_string_equal(req.out.p ? req.out.p : "", array ? "[]" : "");
        dt_batch_release(batch);
        request_clear(&req);
    }
}

RIG_TEST(outcomes_become_results)
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
RIG_TEST(chunks_of_many_bytes_weigh_as_more_rows)
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

RIG_TEST(at_most_so_many_chunks_of_a_batch_are_under_way)
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

RIG_TEST(batches_share_half_of_the_queue_and_wait_in_line)
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

RIG_TEST(a_batch_outlives_a_client_that_left_until_its_chunks_are_back)
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

RIG_TEST(elements_beyond_the_limit_are_refused_and_then_not_answered)
{
    struct dt_request req;
    request_init(&req);
    config.limits_batch_lines = 3;
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    unsigned n = 0;
    for (; !dt_batch_over(batch); n++)
        add(batch, fine);
    assert_int_equal(n, 6);
    assert_true(dt_batch_flush(batch));
    assert_int_equal(units[0]->n, 3);
    give_back(0, DT_OK);
    dt_batch_answer(batch);
    assert_int_equal(count(req.out.p, "\"status\":201"), 3);
    assert_int_equal(count(req.out.p, "\"status\":413"), 3);
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

RIG_TEST(kept_elements_do_not_need_their_text_any_more)
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

SUITE(NULL, NULL)
