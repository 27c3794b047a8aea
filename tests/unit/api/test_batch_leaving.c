/* Batches of creates: however one ends, nothing of it is left. */
#include "unit/api/batch_suite.h"

/* Under no lock, as the threads of the slices do it. */
static void run_slice(void)
{
    struct dt_slice *slice = queued;
    queued = NULL;
    while (slice && slice->run(slice))
        ;
}

/* The first takes all the room there is, the others wait for it. */
static void make_line(struct dt_request *req, dt_batch **batch, int n)
{
    for (int i = 0; i < n; i++) {
        request_init(&req[i]);
        batch[i] = dt_batch_new(&req[i], &dt_batch_of_jobs, false);
        fill(batch[i]);
        assert_true(dt_batch_wait(batch[i], false));
    }
    assert_int_equal(n_units, 4);
    assert_int_equal(resumed, 0);
}

static void give_all_back(void)
{
    for (size_t i = 0; i < n_units; i++)
        if (units[i])
            give_back(i, DT_OK);
}

static void answer_all(struct dt_request *req, dt_batch **batch, int n)
{
    for (int i = 0; i < n; i++) {
        if (!batch[i])
            continue;
        assert_true(dt_batch_flush(batch[i]));
        give_all_back();
        dt_batch_answer(batch[i]);
        assert_int_equal(req[i].status, 200);
        dt_batch_release(batch[i]);
        request_clear(&req[i]);
    }
}

RIG_TEST(a_batch_that_leaves_the_queue_passes_its_room_on)
{
    struct dt_request req[4];
    dt_batch *batch[4];
    make_line(req, batch, 4);
    give_back(0, DT_OK);
    assert_int_equal(resumed, 1); /* the first in the queue, which is batch 0 again */
    dt_batch_release(batch[0]);   /* and its client has gone */
    request_clear(&req[0]);
    batch[0] = NULL;
    assert_int_equal(resumed, 2);
    dt_batch_release(batch[1]);
    request_clear(&req[1]);
    batch[1] = NULL;
    assert_int_equal(resumed, 3);
    answer_all(req, batch, 4);
    assert_int_equal(resumed, 4);
}

RIG_TEST(an_expired_batch_is_removed_from_the_queue_and_reports_its_results)
{
    struct dt_request req[3];
    dt_batch *batch[3];
    make_line(req, batch, 3);
    give_back(0, DT_OK);
    give_back(1, DT_OK);
    assert_int_equal(resumed, 2);
    assert_true(dt_batch_flush(batch[1]));
    fill(batch[1]);
    assert_true(dt_batch_wait(batch[1], false));
    dt_gate_expire(api.job_gate, NEVER - 1);
    assert_int_equal(resumed, 2);
    dt_gate_expire(api.job_gate, NEVER); /* everybody's time is up */
    assert_int_equal(resumed, 4);
    for (int i = 0; i < 3; i++)
        dt_batch_end(batch[i], DT_BATCH_LATE); /* as dt_batch_look does by the clock */
    assert_true(dt_batch_room(batch[2]));
    dt_batch_add(batch[2], dt_str(fine), true);
    assert_int_equal(count(req[2].out.p ? req[2].out.p : "", "201"), 0);
    size_t made = n_units;
    answer_all(req, batch, 1);
    batch[0] = NULL;
    answer_all(req, batch, 2);
    batch[1] = NULL;
    assert_int_equal(n_units, made); /* nothing was begun after the end */
    assert_true(dt_batch_flush(batch[2]));
    dt_batch_answer(batch[2]);
    assert_int_equal(req[2].status, 200);
    assert_int_equal(count(req[2].out.p, "\n"), ROWS + 1);
    assert_int_equal(count(req[2].out.p, "\"status\":408"), ROWS + 1);
    assert_int_equal(count(req[2].out.p, "no job was created"), ROWS + 1);
    dt_batch_release(batch[2]);
    request_clear(&req[2]);
}

RIG_TEST(stopping_the_server_ends_every_wait_of_batches)
{
    struct dt_request req[3];
    dt_batch *batch[3];
    make_line(req, batch, 3);
    dt_gate_close(api.job_gate);
    assert_int_equal(resumed, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(dt_batch_look(batch[i]));
        assert_false(dt_batch_wait(batch[i], false));
    }
    give_all_back();
    for (int i = 0; i < 3; i++) {
        assert_true(dt_batch_flush(batch[i]));
        dt_batch_answer(batch[i]);
        assert_int_equal(count(req[i].out.p, "\"status\":201"), i == 0 ? 4 * ROWS : 0);
        assert_int_equal(count(req[i].out.p, "\"status\":503"), ROWS);
        dt_batch_release(batch[i]);
        request_clear(&req[i]);
    }
    assert_int_equal(n_units, 4);
}

RIG_TEST(chunks_that_never_return_have_an_unknown_outcome)
{
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    add(batch, "no");
    for (unsigned i = 0; i < 2 * ROWS; i++)
        add(batch, fine);
    assert_true(dt_batch_flush(batch));
    assert_int_equal(n_units, 3);
    give_back(1, DT_OK);
    assert_true(dt_batch_wait(batch, true));
    dt_gate_expire(api.job_gate, NEVER + DT_GATE_GRACE_US - 1);
    assert_int_equal(resumed, 0);
    dt_gate_expire(api.job_gate, NEVER + DT_GATE_GRACE_US);
    assert_int_equal(resumed, 1);
    dt_batch_answer(batch);
    assert_int_equal(req.status, 200);
    assert_int_equal(count(req.out.p, "\n"), 2 * ROWS + 1);
    assert_int_equal(count(req.out.p, "\"status\":201"), ROWS);
    assert_int_equal(count(req.out.p, "\"status\":400"), 1);
    assert_int_equal(count(req.out.p, "/problems/outcome-unknown"), ROWS);
    dt_batch_release(batch);
    request_clear(&req);
    give_all_back();
}

RIG_TEST(an_incomplete_body_is_answered_when_all_chunks_returned)
{
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    for (unsigned i = 0; i < ROWS + 3; i++)
        add(batch, fine);
    assert_int_equal(n_units, 1);
    dt_batch_end(batch, DT_BATCH_LATE);
    dt_batch_detach(batch);
    dt_batch_release(batch); /* the request is over */
    request_clear(&req);
    assert_int_equal(detached_status, 0);
    give_back(0, DT_OK);
    run_slice();
    assert_int_equal(detached_status, 200);
    assert_int_equal(count(detached_text.p, "\"status\":201"), ROWS);
    assert_int_equal(count(detached_text.p, "\"status\":408"), 3 + 1);
    assert_int_equal(count(detached_text.p, "no job was created from here on"), 1);
    assert_int_equal(count(detached_text.p, "\n"), ROWS + 4);
    assert_int_equal(resumed, 0);
}

RIG_TEST(a_batch_that_ends_early_because_memory_is_scarce_says_so)
{
    struct dt_request req;
    struct dt_hold others;
    dt_hold_init(&others, &memory);
    assert_true(dt_hold_more(&others, MEMORY - MEMORY / 8 - ((size_t)64 << 10)));
    request_init(&req);
    config.api_queue_jobs = 100000;
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    char text[4100];
    snprintf(text, sizeof(text), "{\"topic\":\"t\",\"delay\":5,\"payload\":\"%04000d\"}", 0);
    for (unsigned n = 0; n < 4 * ROWS && !dt_batch_over(batch); n++) /* they are not given back */
        add(batch, text);
    assert_true(dt_batch_over(batch));
    dt_batch_remainder(batch);
    assert_true(dt_batch_flush(batch));
    give_all_back();
    dt_batch_answer(batch);
    assert_int_equal(req.status, 200);
    assert_true(count(req.out.p, "\"status\":201") > 0);
    assert_int_equal(count(req.out.p, "no job was created from here on"), 1);
    assert_true(dt_budget_held(&memory) <= MEMORY);
    dt_batch_release(batch);
    request_clear(&req);
    dt_hold_less(&others, DT_HOLD_ALL);
}

RIG_TEST(two_hundred_kilobytes_of_line_feeds_do_not_lead_to_an_answer_of_megabytes)
{
    struct dt_request req;
    request_init(&req);
    config.limits_batch_lines = 100000;
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    unsigned n = 0;
    for (; n < 200000 && !dt_batch_over(batch); n++)
        add(batch, "");
    assert_true(n < 20000);
    dt_batch_remainder(batch);
    assert_true(dt_batch_flush(batch));
    dt_batch_answer(batch);
    assert_true(req.out.n < 2000000);
    assert_int_equal(count(req.out.p, "\n"), n + 1);
    assert_int_equal(count(req.out.p, "\"status\":413"), 1);
    dt_batch_release(batch);
    request_clear(&req);
}

/* A batch of a token, of these lines, whose chunks are all back. */
static dt_batch *batch_of_token(struct dt_request *req, int64_t deadline_us, const char *const *lines, size_t n)
{
    static char token;
    request_init(req);
    req->deadline_us = deadline_us;
    req->caller.tenant = (dt_tenant *)&token;
    dt_batch *batch = dt_batch_new(req, &dt_batch_of_jobs, false);
    for (size_t i = 0; i < n; i++)
        add(batch, lines[i]);
    assert_true(dt_batch_flush(batch));
    give_all_back();
    return batch;
}

static void answer_and_end(struct dt_request *req, dt_batch *batch)
{
    dt_batch_answer(batch);
    assert_int_equal(req->status, 200);
    dt_batch_release(batch);
    request_clear(req);
}

static const char no_topic[] = "{\"topic\":\"hidden\",\"delay\":5}";
static const char no_job[] = "{\"topic\":\"t\",\"delay\":-5}";

RIG_TEST(a_batch_reports_its_refused_elements_and_pauses_for_the_time_it_is_given)
{
    struct dt_request req;
    rest_us = INT64_C(3000000);
    dt_batch *batch = batch_of_token(&req, NEVER, (const char *const[]){fine, "no", no_topic, no_job, fine, ""}, 6);
    int64_t before_us = dt_clock_mono_us(api.clock);
    assert_true(dt_batch_rest(batch, DT_BATCH_REST_LAST));
    int64_t after_us = dt_clock_mono_us(api.clock);
    assert_int_equal(refused_elements, 4);
    assert_int_equal(suspended, 1);
    dt_gate_expire(api.job_gate, before_us + rest_us - 1);
    assert_int_equal(resumed, 0);
    dt_gate_expire(api.job_gate, after_us + rest_us);
    assert_int_equal(resumed, 1);
    answer_and_end(&req, batch);
}

RIG_TEST(a_batch_pauses_at_most_until_its_deadline_or_until_the_server_stops)
{
    struct dt_request req[2];
    rest_us = INT64_C(500000000);
    int64_t deadline_us = dt_clock_mono_us(api.clock) + 100000000;
    dt_batch *late = batch_of_token(&req[0], deadline_us, (const char *const[]){"no"}, 1);
    dt_batch *last = batch_of_token(&req[1], NEVER, (const char *const[]){"no"}, 1);
    assert_true(dt_batch_rest(late, DT_BATCH_REST_LAST));
    assert_true(dt_batch_rest(last, DT_BATCH_REST_LAST));
    dt_gate_expire(api.job_gate, deadline_us);
    assert_int_equal(resumed, 1);
    dt_gate_close(api.job_gate);
    assert_int_equal(resumed, 2);
    answer_and_end(&req[0], late);
    answer_and_end(&req[1], last);
    dt_batch *behind = batch_of_token(&req[0], NEVER, (const char *const[]){"no"}, 1);
    assert_false(dt_batch_rest(behind, DT_BATCH_REST_LAST));
    answer_and_end(&req[0], behind);
}

RIG_TEST(elements_that_failed_through_no_fault_of_the_caller_do_not_count_as_refused)
{
    struct dt_request req;
    rest_us = INT64_C(3000000);
    dt_batch *batch = batch_of_token(&req, NEVER, (const char *const[]){fine, fine}, 2);
    assert_false(dt_batch_rest(batch, DT_BATCH_REST_LAST));
    answer_and_end(&req, batch);
    batch = batch_of_token(&req, NEVER, (const char *const[]){fine}, 1);
    dt_batch_refuse(batch, DT_PROBLEM_UNAVAILABLE, "out of memory", false);
    dt_batch_end(batch, DT_BATCH_LATE);
    add(batch, fine); /* 408 */
    assert_true(dt_batch_flush(batch));
    assert_false(dt_batch_rest(batch, DT_BATCH_REST_LAST));
    answer_and_end(&req, batch);
    assert_int_equal(refused_elements, 0);
}

RIG_TEST(all_elements_of_a_batch_cut_off_by_its_client_count_as_refused)
{
    struct dt_request req;
    dt_batch *batch = batch_of_token(&req, NEVER, (const char *const[]){fine, "no", fine}, 3);
    dt_batch_end(batch, DT_BATCH_LATE); /* and nothing more for the reason that comes second */
    dt_batch_end(batch, DT_BATCH_CUT);
    assert_int_equal(refused_elements, 0);
    answer_and_end(&req, batch);
    assert_int_equal(refused_elements, 1);
    refused_elements = 0;
    batch = batch_of_token(&req, NEVER, (const char *const[]){fine, "no", fine}, 3);
    dt_batch_end(batch, DT_BATCH_CUT);
    assert_int_equal(refused_elements, 3);
    answer_and_end(&req, batch);
}

/* Its body dripped until its time was up; or it was too long, and its client left before an answer. */
RIG_TEST(refused_elements_of_a_batch_without_a_pause_are_counted_once)
{
    struct dt_request req;
    dt_batch *batch = batch_of_token(&req, NEVER, (const char *const[]){fine, "no", no_topic}, 3);
    dt_batch_end(batch, DT_BATCH_LATE);
    dt_batch_detach(batch);
    dt_batch_release(batch);
    request_clear(&req);
    run_slice();
    assert_int_equal(refused_elements, 2);
    batch = batch_of_token(&req, NEVER, (const char *const[]){"no", no_job}, 2);
    dt_batch_end(batch, DT_BATCH_LONG);
    dt_batch_end(batch, DT_BATCH_CUT);
    dt_batch_release(batch);
    request_clear(&req);
    assert_int_equal(refused_elements, 4);
    batch = batch_of_token(&req, NEVER, (const char *const[]){"no"}, 1);
    assert_false(dt_batch_rest(batch, DT_BATCH_REST_LAST));
    answer_and_end(&req, batch);
    assert_int_equal(refused_elements, 5);
}

RIG_TEST(a_batch_pauses_first_if_its_token_has_too_many_refused_elements)
{
    struct dt_request req;
    dt_batch *batch = batch_of_token(&req, NEVER, NULL, 0);
    assert_int_equal(dt_batch_begin(batch), DT_BATCH_AT_ONCE);
    assert_false(dt_batch_rest(batch, DT_BATCH_REST_FIRST));
    rest_us = INT64_C(3000000);
    assert_int_equal(dt_batch_begin(batch), DT_BATCH_RESTS);
    assert_int_equal(places_left, 0);
    assert_true(dt_batch_rest(batch, DT_BATCH_REST_FIRST));
    int64_t after_us = dt_clock_mono_us(api.clock);
    dt_gate_expire(api.job_gate, after_us);
    assert_int_equal(resumed, 0);
    dt_gate_expire(api.job_gate, after_us + rest_us);
    assert_int_equal(resumed, 1);
    assert_int_equal(refused_elements, 0);
    assert_int_equal(places_left, 0);
    dt_batch_rest_over(batch); /* and others of its token may rest, however long this one takes now */
    assert_int_equal(places_left, 1);
    answer_and_end(&req, batch);
    assert_int_equal(places_left, 1);
}

RIG_TEST(the_number_of_paused_batches_of_a_token_is_bounded)
{
    struct dt_request req[2];
    rest_us = INT64_C(3000000);
    dt_batch *first = batch_of_token(&req[0], NEVER, NULL, 0), *next = batch_of_token(&req[1], NEVER, NULL, 0);
    assert_int_equal(dt_batch_begin(first), DT_BATCH_RESTS);
    assert_int_equal(dt_batch_begin(next), DT_BATCH_NO_PLACE);
    answer_and_end(&req[1], next);
    assert_int_equal(places_left, 0);
    answer_and_end(&req[0], first);
    assert_int_equal(places_left, 1);
}
