"""The client against a real API, whose address is in DUETIME_URL: python3 -m unittest discover -s tests"""
import asyncio
import datetime
import os
import pathlib
import socket
import sys
import threading
import time
import unittest
import uuid

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]

from between import Between, Told  # noqa: E402

import duetime  # noqa: E402

URL = os.environ["DUETIME_URL"]


def made(body):
    """A result for each line, as the server gives them."""
    return b"".join(b'{"status":201,"id":"%d"}\n' % number for number, _ in enumerate(body.splitlines()))


def ended(call):
    """Runs the call in a thread; what it returned or raised is in .result."""
    def run():
        try:
            thread.result = call()
        except Exception as error:  # whatever it was, the test looks at it
            thread.result = error
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def until(condition):
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("not within 30 s")
        time.sleep(0.005)


class Case(unittest.TestCase):
    def assert_in_doubt(self, call):
        """With a timeout that is long enough for the request to be under way, the outcome is unknown."""
        for timeout in (0.3, 3, 20):
            try:
                self.fail(call(timeout))
            except duetime.Unavailable:  # it was not, on a busy machine
                continue
            except duetime.OutcomeUnknown:
                return
        self.fail("it was never under way")

    def setUp(self):
        self.topic = f"py-{uuid.uuid4().hex[:10]}"
        self.between = Between(URL)
        self.addCleanup(self.between.close)

    def client(self, url=None, make_keys=False, **limits):
        client = duetime.Client(url or self.between.url, os.environ.get("DUETIME_TOKEN"), limits=duetime.Limits(**limits), make_keys=make_keys)
        self.addCleanup(client.close)
        return client

    def told(self, *answers):
        server = Told(*answers)
        self.addCleanup(server.close)
        return server


class Coalesced(Case):
    def test_each_of_many_callers_gets_the_answer_to_its_own_job(self):
        client = self.client()
        threads = [ended(lambda i=i: [client.create(self.topic, {"n": i * 10 + j}, delay="PT1H") for j in range(10)]) for i in range(64)]
        for thread in threads:
            thread.join()
        ids = [[created.id for created in thread.result] for thread in threads]
        self.assertEqual(len({id for some in ids for id in some}), 640)
        for i in range(0, 64, 7):
            self.assertEqual(client.get(ids[i][i % 10])["payload"], {"n": i * 10 + i % 10})
        creates = [body for body in self.between.requests if body]
        self.assertEqual(sum(body.count(b"\n") for body in creates), 640)
        self.assertLess(len(creates), 320, "creates that waited at the same time left together")

    def test_a_lone_create_leaves_at_once_and_lingering_ones_together(self):
        client = self.client(linger=30, batch_lines=3)
        first = [client.create_later(self.topic, i, delay="PT1H") for i in range(2)]
        self.assertEqual(self.between.requests, [])
        first.append(client.create_later(self.topic, 2, delay="PT1H"))
        self.assertEqual(len({future.result(30).id for future in first}), 3)
        self.assertEqual(len(self.between.requests), 1)
        self.assertFalse(self.client().create(self.topic, delay="PT1H").existed)

    def test_a_create_that_is_refused_leaves_the_others_alone(self):
        client = self.client(linger=30, batch_lines=3)
        good, bad, other = (client.create_later(self.topic, 1, delay=delay) for delay in ("PT1H", "soon", "PT2H"))
        self.assertTrue(good.result(30).id and other.result(30).id)
        with self.assertRaises(duetime.Invalid) as caught:
            bad.result(30)
        self.assertEqual((caught.exception.status, caught.exception.errors[0]["pointer"]), (422, "/delay"))

    def test_a_batch_is_bounded_in_lines_and_bytes(self):
        server = self.told((200, {}, made))
        server.hold.clear()
        client = self.client(server.url, connections=1, batch_lines=10, batch_bytes=10_000)
        futures = [client.create_later("t", "x" * (3000 if i >= 40 else 1)) for i in range(50)]
        server.hold.set()
        for future in futures:
            future.result(30)
        self.assertEqual(sum(body.count(b"\n") for body in server.asked), 50)
        self.assertLessEqual(max(body.count(b"\n") for body in server.asked), 10)
        self.assertLessEqual(max(len(body) for body in server.asked), 10_000)

    def test_callers_wait_while_too_much_waits(self):
        server = self.told((200, {}, made))
        server.hold.clear()
        client = self.client(server.url, connections=1, batch_lines=1, waiting_lines=2)
        first = client.create_later("t")
        until(lambda: server.asked)
        waiting = [client.create_later("t") for _ in range(2)]
        with self.assertRaisesRegex(duetime.Unavailable, "too many"):
            client.create("t", timeout=0.05)
        blocked = ended(lambda: client.create("t", timeout=30))
        blocked.join(0.1)
        self.assertTrue(blocked.is_alive())
        server.hold.set()
        blocked.join()
        self.assertEqual([future.result(30).id for future in [first, *waiting]] + [blocked.result.id], ["0"] * 4)
        self.assertEqual(len(server.asked), 4)


class Failures(Case):
    def test_with_a_key_a_lost_answer_is_asked_for_again(self):
        client = self.client()
        self.between.cut = 2
        created = client.create(self.topic, 1, key="k", delay="PT1H")
        self.assertTrue(created.existed)
        self.assertEqual(client.get((self.topic, "k"))["id"], created.id)
        self.assertEqual(len(self.between.requests), 4)

    def test_without_a_key_a_lost_answer_is_an_unknown_outcome(self):
        client = self.client()
        client.create(self.topic, 0, delay="PT1H")  # the connection is a kept one
        self.between.cut = 1
        with self.assertRaises(duetime.OutcomeUnknown):
            client.create_later(self.topic, 1, delay="PT1H").result(20)
        self.assertEqual(len(self.between.requests), 2)
        self.assertTrue(client.create(self.topic, 1, delay="PT1H").id)

    def test_answers_that_are_lost_until_the_deadline_are_an_unknown_outcome(self):
        client = self.client()
        self.between.cut = 1_000_000
        self.assert_in_doubt(lambda timeout: client.create(self.topic, 1, key="k", delay="PT1H", timeout=timeout))

    def test_a_call_ends_at_its_own_deadline_whoever_shares_its_request(self):
        server = self.told((200, {}, made))
        server.hold.clear()
        client = self.client(server.url, linger=30, batch_lines=2)
        patient = client.create_later("t", timeout=30)
        with self.assertRaises(duetime.OutcomeUnknown):
            client.create("t", timeout=1.5)
        server.hold.set()
        self.assertEqual(patient.result(30).id, "0")

    def test_keys_that_the_client_makes_do_as_well(self):
        client = self.client(make_keys=True)
        self.between.cut = 1
        self.assertTrue(client.create(self.topic, 1, delay="PT1H").existed)
        self.assertFalse(client.create(self.topic, 1, delay="PT1H").existed)

    def test_a_connection_that_ended_while_idle_is_no_unknown_outcome(self):
        client = self.client(connections=1)
        for _ in range(3):
            self.assertFalse(client.create(self.topic, 1, delay="PT1H").existed)
            self.between.end_all()

    def test_retry_after_is_obeyed(self):
        problem = b'{"type":"/problems/unavailable","title":"not now","status":503}'
        line = b'{"type":"/problems/quota-exceeded","title":"slowly","status":429,"retry_after":"PT0.5S"}\n'
        server = self.told((503, {"retry-after": 1}, problem), (429, {"retry-after": 1}, problem.replace(b"503", b"429")), (200, {}, line),
                           (200, {}, made))
        began = time.monotonic()
        self.assertEqual(self.client(server.url).create("t").id, "0")
        self.assertGreaterEqual(time.monotonic() - began, 2.5)
        self.assertEqual(len(server.asked), 4)

    def test_a_server_that_asks_for_no_pause_is_not_asked_all_the_time(self):
        server = self.told((503, {"retry-after": 0}, b'{"type":"/problems/unavailable","title":"not now"}'))
        client = self.client(server.url)
        for call in (lambda: client.create("t", timeout=1), lambda: client.cancel("1", timeout=1)):
            with self.assertRaises(duetime.Unavailable):
                call()
        self.assertLess(len(server.asked), 30)

    def test_an_answer_that_a_proxy_has_lost_is_an_unknown_outcome(self):
        server = self.told((502, {}, b"<html>"), (504, {}, b"<html>"), (200, {}, made), (502, {}, b"<html>"))
        client = self.client(server.url)
        self.assertEqual(client.create("t", key="k").id, "0")
        self.assertEqual(len(server.asked), 3)
        for call in (lambda: client.create("t"), lambda: client.pop("t", wait=0)):
            with self.assertRaises(duetime.OutcomeUnknown):
                call()

    def test_a_redirect_is_a_refusal(self):
        client = self.client(self.told((301, {"location": "https://127.0.0.1"}, b"")).url)
        for call in (lambda: client.create("t"), lambda: client.cancel("1")):
            with self.assertRaises(duetime.Problem) as caught:
                call()
            self.assertEqual(caught.exception.status, 301)

    def test_what_is_no_answer_of_a_batch_is_an_unknown_outcome(self):
        client = self.client(self.told((200, {}, b"<html>\nLog in, please\n"), (200, {}, b'{"status":201}\n'), (200, {}, made)).url)
        with self.assertRaises(duetime.OutcomeUnknown):
            client.create("t")
        with self.assertRaisesRegex(duetime.DuetimeError, "KeyError"):
            client.create("t")
        self.assertEqual(client.create("t").id, "0")

    def test_a_token_that_no_header_can_carry_is_told_to_each_caller(self):
        client = duetime.Client(self.told((200, {}, made)).url, "secret\n", limits=duetime.Limits(connections=1))
        self.addCleanup(client.close)
        for _ in range(2):
            with self.assertRaisesRegex(duetime.DuetimeError, "Invalid header"):
                client.create("t")

    def test_an_answer_that_drips_is_an_unknown_outcome_at_the_deadline(self):
        drip = socket.create_server(("127.0.0.1", 0))
        over = threading.Event()

        def run():
            with drip.accept()[0] as link:
                link.recv(1 << 16)
                link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while not over.wait(0.05):
                    link.sendall(b" ")
        thread = ended(run)
        client = self.client(f"http://127.0.0.1:{drip.getsockname()[1]}")
        with self.assertRaises(duetime.OutcomeUnknown):
            client.pop("t", wait=0, timeout=1)
        over.set()
        thread.join()
        drip.close()

    def test_nobody_there_is_unavailable_at_the_deadline(self):
        taken = socket.socket()  # bound, but nobody listens
        self.addCleanup(taken.close)
        taken.bind(("127.0.0.1", 0))
        client = self.client(f"http://127.0.0.1:{taken.getsockname()[1]}")
        for call in (lambda: client.create("t", timeout=0.3), lambda: client.get("1", timeout=0.3)):
            with self.assertRaises(duetime.Unavailable):
                call()

    def test_an_answer_that_is_late_is_an_unknown_outcome(self):
        server = self.told((200, {}, made))
        server.hold.clear()
        client = self.client(server.url)
        self.addCleanup(server.hold.set)
        self.assert_in_doubt(lambda timeout: client.create("t", timeout=timeout))

    def test_a_batch_that_ended_early_goes_on(self):
        def half(body):
            return made(body.splitlines()[0]) + b'{"status":413,"type":"/problems/too-large","title":"no job was created from here on"}\n'
        server = self.told((200, {}, half), (200, {}, made))
        client = self.client(server.url, linger=30, batch_lines=3)
        self.assertEqual([future.result(30).id for future in [client.create_later("t") for _ in range(3)]], ["0", "0", "1"])
        self.assertEqual([body.count(b"\n") for body in server.asked], [3, 2])

    def test_another_job_under_the_key_is_a_conflict_with_its_id(self):
        client = self.client()
        first = client.create(self.topic, 1, key="k", delay="PT1H")
        with self.assertRaises(duetime.KeyConflict) as caught:
            client.create(self.topic, 2, key="k", delay="PT1H")
        self.assertEqual(caught.exception.id, first.id)


class Lives(Case):
    def pulled(self, client, **members):
        """A job of a pull topic, popped."""
        client.put_topic(self.topic, delivery="pull")
        created = client.create(self.topic, b"\x00\xff", delay=0, retry=[1], **members)
        job, = client.pop(self.topic, wait="PT20S", ttr=datetime.timedelta(minutes=1))
        self.assertEqual((job["id"], job["attempt"], job["payload_base64"]), (created.id, 1, "AP8="))
        return job

    def test_a_job_is_popped_and_reported(self):
        client = self.client()
        job = self.pulled(client)
        self.assertEqual(client.report(job["id"], 2), "stale")
        self.assertEqual(client.report(job["id"], 1), "applied")
        self.assertEqual(client.report(job["id"], 1), "duplicate")
        self.assertEqual(client.get(job["id"])["state"], "succeeded")
        with self.assertRaises(duetime.TooLate) as caught:
            client.cancel(job["id"])
        self.assertEqual((caught.exception.state, caught.exception.attempt), ("succeeded", 1))

    def test_a_failure_is_told_with_its_error(self):
        client = self.client()
        job = self.pulled(client, headers={"traceparent": "00-1-2-03"})
        client.report(job["id"], 1, "gave_up", error={"code": "no", "message": "never"})
        self.assertEqual(client.get(job["id"])["last_error"]["message"], "never")
        self.assertEqual([attempt["status"] for attempt in client.attempts(job["id"])], ["gave_up"])

    def test_a_scheduled_job_is_changed_and_cancelled(self):
        client = self.client()
        at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        id = client.create(self.topic, {"a": 1}, run_at=at).id
        self.between.cut = 1
        with self.assertRaises(duetime.OutcomeUnknown):
            client.change(id, payload=[0], if_match=9)
        self.between.cut = 1
        changed = client.change(id, payload=[1, 2])
        self.assertEqual((changed["payload"], changed["version"]), ([1, 2], 2))
        with self.assertRaises(duetime.VersionMismatch):
            client.change(id, payload=None, if_match=1)
        self.assertEqual(client.change(id, payload=[3], if_match=2)["version"], 3)
        self.assertEqual(client.cancel(id)["state"], "cancelled")
        with self.assertRaises(duetime.NotFound):
            client.get((self.topic, "none"))

    def test_asyncio_callers_share_batches(self):
        async def all():
            async with duetime.AsyncClient(self.between.url, limits=duetime.Limits(waiting_lines=50)) as client:
                created = await asyncio.gather(*(client.create(self.topic, i, delay="PT1H") for i in range(300)))
                self.assertEqual((await client.get(created[7].id))["payload"], 7)
                return {one.id for one in created}
        self.assertEqual(len(asyncio.run(all())), 300)
        self.assertLess(len(self.between.requests), 150)


    def test_asyncio_calls_end_at_their_own_deadline_whoever_shares_their_request(self):
        server = self.told((200, {}, made))
        server.hold.clear()

        async def both():
            async with duetime.AsyncClient(server.url, limits=duetime.Limits(linger=30, batch_lines=2)) as client:
                patient = asyncio.create_task(client.create("t", timeout=30))
                await asyncio.sleep(0)
                try:
                    with self.assertRaises(duetime.OutcomeUnknown):
                        await client.create("t", timeout=1.5)
                finally:
                    server.hold.set()
                self.assertEqual((await patient).id, "0")
        asyncio.run(both())


class Closed(Case):
    def test_a_call_that_waits_for_room_ends_with_the_client(self):
        server = self.told((200, {}, made))
        server.hold.clear()
        client = duetime.Client(server.url, limits=duetime.Limits(connections=1, batch_lines=1, waiting_lines=1))
        sent = client.create_later("t")
        until(lambda: server.asked)
        waits = client.create_later("t")
        crowded = ended(lambda: client.create_later("t"))
        closing = ended(client.close)
        crowded.join()
        self.assertIsInstance(crowded.result, RuntimeError)
        server.hold.set()
        closing.join()
        self.assertEqual([sent.result(0).id, waits.result(0).id], ["0", "0"])

    def test_what_waits_is_sent_by_close(self):
        client = duetime.Client(self.between.url, limits=duetime.Limits(linger=30))
        futures = [client.create_later(self.topic, i, delay="PT1H") for i in range(5)]
        client.close()
        self.assertEqual(len({future.result(0).id for future in futures}), 5)
        self.assertEqual([body.count(b"\n") for body in self.between.requests], [5])


if __name__ == "__main__":
    unittest.main()
