"""POST /v1/jobs: what a job may be, how its answer looks, durations and times."""
import base64
import datetime
import itertools
import json
import pathlib
import re

import pytest

from harness.problems import refused

DEFAULT_RETRY = ["15s", "3m", "10m", "30m", "30m", "1h", "2h", "6h", "15h"]


def ms(text):
    """RFC 3339 in UTC with milliseconds, as the API writes it -> ms."""
    when = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
    assert len(text) == 24, text
    return round(when.timestamp() * 1000)


def server_ms(db):
    return int(db("SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) ms")[0]["ms"])


def test_the_answer_is_the_job_with_location_and_etag(api, topic):
    answer = api.post("/v1/jobs", {"topic": topic, "key": "order-42", "delay": "PT30M", "payload": {"order": 42}, "partition_key": "customer-7",
                                   "retry": ["15s", "3m", "10m"], "ack_timeout": "PT1M", "headers": {"traceparent": "00-ab"}})
    assert answer.status == 201, answer
    job = answer.json
    assert answer.headers["Location"] == f"/v1/jobs/{job['id']}" and answer.headers["ETag"] == '"1"'
    assert answer.headers["Content-Type"] == "application/json"
    expected = {"topic": topic, "key": "order-42", "state": "scheduled", "attempt": 0, "max_attempts": 4, "retry": ["15s", "3m", "10m"],
                "ack_timeout": "PT1M", "payload": {"order": 42}, "partition_key": "customer-7", "headers": {"traceparent": "00-ab"},
                "waiting_for": "time", "version": 1}
    assert {name: job.get(name) for name in expected} == expected
    assert isinstance(job["id"], str) and job["id"].isdigit()
    assert job["run_at"] == job["next_at"] and job["created_at"] == job["updated_at"]
    assert ms(job["run_at"]) > ms(job["created_at"])
    assert api.get(answer.headers["Location"]).json == job


def test_omitted_members_have_their_defaults(api, topic):
    job = api.make(topic=topic, delay="PT1H")
    assert (job["retry"], job["max_attempts"], job["ack_timeout"], job["payload"]) == (DEFAULT_RETRY, 10, "PT5M", None)
    assert job.get("key") is None and job.get("partition_key") is None and not job.get("failures") and not job.get("last_error")


def test_an_empty_list_means_no_retries(api, topic):
    assert api.make(topic=topic, delay="PT1H", retry=[])["max_attempts"] == 1


@pytest.mark.parametrize("text, length", [
    ("P3D", 259200000), ("P2W", 1209600000), ("PT1M", 60000), ("PT0.5S", 500), ("P1DT2H3M4S", 93784000), ("PT90M", 5400000), ("15s", 15000),
    ("3m", 180000), ("1h", 3600000), ("2d", 172800000), (90000, 90000), (1.5e5, 150000), ("PT100.0001S", 100001), (60000.2, 60001)])
def test_delays_are_read_in_every_form_and_count_from_the_clock_of_mysql(api, held, db, text, length):
    before = server_ms(db)
    job = api.make(topic=held, delay=text)
    after = server_ms(db)
    assert before + length <= ms(job["run_at"]) <= after + length + 50


@pytest.mark.parametrize("text, shown", [("PT60S", "PT1M"), ("90s", "PT1M30S"), (500, "PT0.5S"), (0.2, "PT0.001S"), ("PT0.0001S", "PT0.001S"),
                                         ("PT36H", "P1DT12H"), (61001, "PT1M1.001S")])
def test_times_finer_than_a_millisecond_round_up_and_durations_are_normalized(api, topic, text, shown):
    first = api.make(topic=topic, delay="PT1H", ack_timeout=text)["ack_timeout"]
    assert api.make(topic=topic, delay="PT1H", ack_timeout=first)["ack_timeout"] == first
    assert first == shown


@pytest.mark.parametrize("bad", ["P1Y", "P1M", "P1Y2M", "PT", "P", "", "5 s", " PT1S", "PT1S ", "-PT1S", "PT-1S", "1y", "s", "PT1H1H", "1H30", "PT1,,5S",
                                 "PT1.5H2S", -1, -0.5, 1e300, True, None, [], {}, "PT99999999999999999999S", "P9999999999W"])
def test_an_invalid_delay_is_refused(api, topic, nothing_made, bad):
    refused(api.post("/v1/jobs", {"topic": topic, "delay": bad}), 422, "invalid", "/delay")


@pytest.mark.parametrize("text, shown", [
    ("2031-01-01T00:00:00+02:00", "2030-12-31T22:00:00.000Z"), ("2031-01-01T00:00:00.25-00:30", "2031-01-01T00:30:00.250Z"),
    ("2031-01-01T00:00:00Z", "2031-01-01T00:00:00.000Z"), ("2031-01-01t00:00:00z", "2031-01-01T00:00:00.000Z"),
    ("2032-02-29T23:59:59.999+00:00", "2032-02-29T23:59:59.999Z"), ("2031-01-01T00:00:00.0001Z", "2031-01-01T00:00:00.001Z")])
def test_times_are_read_with_any_offset_and_shown_in_utc(api, topic, text, shown):
    job = api.make(topic=topic, run_at=text)
    assert job["run_at"] == job["next_at"] == shown


@pytest.mark.parametrize("bad", ["2031-01-01T00:00:00", "2031-01-01", "2031-02-29T00:00:00Z", "2031-13-01T00:00:00Z", "2031-01-01T24:00:00Z",
                                 "2031-01-01T00:60:00Z", "2031-01-01T00:00:00+25:00", "2031-01-01T00:00:00+0200", "2031-1-1T00:00:00Z", "tomorrow",
                                 "2031-01-01T00:00:00Zx", "2031-01-01T00:00:00.Z", "", 1900000000000, None, True])
def test_an_invalid_time_is_refused(api, topic, nothing_made, bad):
    refused(api.post("/v1/jobs", {"topic": topic, "run_at": bad}), 422, "invalid", "/run_at")


@pytest.mark.parametrize("past", ["2001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_a_past_time_means_now(api, held, db, past):
    before = server_ms(db)
    job = api.make(topic=held, run_at=past)
    assert before <= ms(job["run_at"]) <= server_ms(db) + 50 and job["next_at"] == job["run_at"]


@pytest.mark.parametrize("member, value", [("delay", "P3654D"), ("delay", 3654 * 86400000), ("run_at", "2100-01-01T00:00:00Z"), ("run_at", "9999-12-31T23:59:59Z")])
def test_a_time_beyond_the_limit_is_refused(api, topic, nothing_made, member, value):
    refused(api.post("/v1/jobs", {"topic": topic, member: value}), 422, "invalid", f"/{member}")


def test_a_job_can_be_ten_years_ahead(api, topic):
    assert api.make(topic=topic, delay="P3652D")["state"] == "scheduled"


@pytest.mark.parametrize("body, pointers", [
    ({"delay": 0, "run_at": "2031-01-01T00:00:00Z"}, ["/run_at", "/delay"]), ({}, ["/run_at"]), ({"delay": "P3660D", "x": 1}, ["/x", "/delay"]),
    ({"delay": 0, "payload": 1, "payload_base64": "AA==", "content_type": "a/b"}, ["/payload", "/payload_base64"]),
    ({"delay": 0, "payload_base64": "AA=="}, ["/content_type"]), ({"delay": 0, "content_type": "a/b"}, ["/content_type"]),
    ({"delay": 0, "payload_base64": "A", "content_type": "a/b"}, ["/payload_base64"]),
    ({"delay": 0, "payload_base64": "A-_=", "content_type": "a/b"}, ["/payload_base64"]), ({"delay": 0, "payload_base64": "AB==", "content_type": "a/b"}, ["/payload_base64"]),
    ({"delay": 0, "payload_base64": 7, "content_type": "a/b"}, ["/payload_base64"]),
    ({"delay": 0, "payload_base64": "AA==", "content_type": "a\r\nb: c/d"}, ["/content_type"])])
def test_members_that_contradict_each_other_or_lack_a_required_partner_are_refused(api, topic, nothing_made, body, pointers):
    refused(api.post("/v1/jobs", {"topic": topic, **body}), 422, "invalid", *pointers)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", ".", "..", "__x", "duetime.results", "duetime.x", "x" * 201, 5, None, ["a"], "a\u0000b", "a\n"])
def test_an_invalid_topic_name_is_refused(api, nothing_made, name):
    refused(api.post("/v1/jobs", {"topic": name, "delay": 0}), 422, "invalid", "/topic")


def test_a_missing_topic_is_refused(api, nothing_made):
    refused(api.post("/v1/jobs", {"delay": 0}), 422, "invalid", "/topic")


def test_a_topic_of_200_characters_is_accepted(api, topic):
    assert api.make(topic=(topic + "._-" + "x" * 200)[:200], delay="PT1H", partition_key="p" * 255)["state"] == "scheduled"


def test_names_that_collide_in_kafka_are_refused(api, topic, db):
    api.make(topic=f"{topic}.a_b", delay="PT1H")
    refused(api.post("/v1/jobs", {"topic": f"{topic}.a.b", "delay": 0}), 422, "invalid", "/topic")
    assert api.get(f"/v1/topics/{topic}.a.b").status == 404
    assert db("SELECT COUNT(*) n FROM jobs WHERE topic = %s", f"{topic}.a.b")[0]["n"] == 0


@pytest.mark.parametrize("member, value", [
    ("key", ""), ("key", "x" * 256), ("key", "é" * 128), ("key", 5), ("key", None), ("partition_key", "x" * 256), ("partition_key", 7), ("partition_key", ""),
    ("ack_timeout", 0), ("ack_timeout", "P1Y"), ("ack_timeout", None), ("retry", "15s"), ("retry", {}), ("retry", None), ("headers", []), ("headers", None),
    ("retry", ["1s"] * 101)])
def test_a_member_with_a_wrong_value_is_refused(api, topic, nothing_made, member, value):
    refused(api.post("/v1/jobs", {"topic": topic, "delay": 0, member: value}), 422, "invalid", f"/{member}")


@pytest.mark.parametrize("member", ["http", "callback_url", "cron", "priority", "state", "id", "next_at", "max_attempts", "Delay", "topic ", "replace", ""])
def test_an_unknown_member_is_refused(api, topic, nothing_made, member):
    refused(api.post("/v1/jobs", {"topic": topic, "delay": 0, member: 1}), 422, "invalid", f"/{member}")


def test_pointers_of_faults_are_escaped_as_json_pointers(api, topic, nothing_made):
    refused(api.post("/v1/jobs", {"topic": topic, "delay": 0, "a/b~c": 1}), 422, "invalid", "/a~1b~0c")


@pytest.mark.parametrize("headers, pointer", [({"ce_id": "x"}, "/headers/ce_id"), ({"CE_Type": "x"}, "/headers/CE_Type"), ({"": "x"}, "/headers/"),
                                              ({"Content-Type": "x"}, "/headers/Content-Type"), ({"content-type\u0000": "x"}, "/headers/content-type\u0000"), ({"a\u0000b": "x"}, "/headers/a\u0000b"), ({"n": 5}, "/headers/n"), ({"n": None}, "/headers/n")])
def test_a_reserved_or_non_string_header_is_refused(api, topic, nothing_made, headers, pointer):
    refused(api.post("/v1/jobs", {"topic": topic, "delay": 0, "headers": headers}), 422, "invalid", pointer)


def test_headers_may_have_8_kib_in_total(api, topic):
    fits = {"a": "x" * 4095, "b": "x" * 4095}
    assert api.make(topic=topic, delay="PT1H", headers=fits)["headers"] == fits
    refused(api.post("/v1/jobs", {"topic": topic, "delay": "PT1H", "headers": {**fits, "c": ""}}), 413, "too-large", "/headers")
    controls = [chr(c) for c in range(1, 32) if chr(c) not in "\b\t\n\f\r"]
    names = ["".join(name) for length in (1, 2, 3) for name in itertools.product(controls, repeat=length)]
    escapes = {name: "" for name in names[:2970]}
    assert sum(map(len, escapes)) < 8192 and len(json.dumps(escapes, separators=(",", ":"))) > 65535
    refused(api.post("/v1/jobs", {"topic": topic, "delay": "PT1H", "headers": escapes}), 413, "too-large", "/headers")


def test_all_faults_of_a_request_are_reported_at_once(api, nothing_made):
    body = {"topic": "a b", "key": "", "delay": "x", "retry": ["1s", "y", -3], "ack_timeout": 0, "headers": {"ce_id": "1", "ok": 2}, "nope": 1}
    refused(api.post("/v1/jobs", body), 422, "invalid", "/topic", "/key", "/delay", "/retry/1", "/retry/2", "/ack_timeout", "/headers/ce_id", "/headers/ok", "/nope")


@pytest.mark.parametrize("body", ["[]", "5", "null", '"x"', "true", "[{}]"])
def test_a_body_that_is_not_an_object_is_refused(api, nothing_made, body):
    refused(api.post("/v1/jobs", body), 422, "invalid", "")


MALFORMED = {
    "empty": b"", "blank": b"  \n", "cut off": b'{"topic":"%s","delay":0', "trailing text": b'{"topic":"%s","delay":0} x', "two values": b'{"topic":"%s","delay":0}{}',
    "trailing comma": b'{"topic":"%s","delay":0,}', "single quotes": b"{'topic':'%s','delay':0}", "a comment": b'{"topic":"%s","delay":0/* */}',
    "NaN": b'{"topic":"%s","delay":NaN}', "leading zero": b'{"topic":"%s","delay":01}', "plus sign": b'{"topic":"%s","delay":+1}', "bare point": b'{"topic":"%s","delay":1.}',
    "a member twice": b'{"topic":"%s","delay":0,"delay":0}', "a member twice, escaped": b'{"topic":"%s","delay":0,"dela\\u0079":0}',
    "a member twice in the payload": b'{"topic":"%s","delay":0,"payload":{"a":1,"a":2}}', "a header twice": b'{"topic":"%s","delay":0,"headers":{"a":"1","a":"2"}}',
    "bad UTF-8": b'{"topic":"%s","delay":0,"key":"\xff"}', "bad UTF-8 in the payload": b'{"topic":"%s","delay":0,"payload":"\xc3("}',
    "overlong UTF-8": b'{"topic":"%s","delay":0,"key":"\xc0\xaf"}', "a surrogate in UTF-8": b'{"topic":"%s","delay":0,"key":"\xed\xa0\x80"}',
    "beyond U+10FFFF": b'{"topic":"%s","delay":0,"key":"\xf4\x90\x80\x80"}', "a lone surrogate": b'{"topic":"%s","delay":0,"key":"\\ud800"}',
    "a lone surrogate in the payload": b'{"topic":"%s","delay":0,"payload":["\\udc00"]}', "surrogates the wrong way round": b'{"topic":"%s","delay":0,"key":"\\udc00\\ud800"}',
    "a raw control character": b'{"topic":"%s","delay":0,"key":"a\nb"}', "a bad escape": b'{"topic":"%s","delay":0,"key":"\\x"}', "a NUL": b'{"topic":"%s","delay":0}\0',
    "a bad payload": b'{"topic":"%s","delay":0,"payload":{"a":tru}}', "a deep payload": b'{"topic":"%s","delay":0,"payload":' + b"[" * 1000 + b"]" * 1000 + b"}",
    "a very deep payload": b'{"topic":"%s","delay":0,"payload":' + b"[" * 600000 + b"]" * 600000 + b"}", "only brackets": b"[" * 900000, "UTF-16": '{"topic":"x","delay":0}'.encode("utf-16"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_json_is_refused(api, topic, nothing_made, what):
    refused(api.post("/v1/jobs", MALFORMED[what].replace(b"%s", topic.encode())), 400, "malformed")


def test_json_nesting_is_limited_as_documented(api, topic):
    """The body itself is the first level."""
    limits = (pathlib.Path(__file__).resolve().parents[3] / "api" / "README.md").read_text(encoding="utf-8").split("## Limits")[1]
    [deepest] = map(int, re.findall(r"JSON (\d+) levels deep", limits))
    body = lambda levels: json.dumps({"topic": topic, "delay": "PT1H", "payload": json.loads("[" * (levels - 1) + "]" * (levels - 1))})  # noqa: E731
    assert api.post("/v1/jobs", body(deepest)).status == 201
    assert "nested too deeply" in refused(api.post("/v1/jobs", body(deepest + 1)), 400, "malformed")["detail"]
    assert len(api.list(topic=topic)) == 1


@pytest.mark.parametrize("payload", [
    '{"a" : 1.0e+10, "b":"\\u00e9\\/\\u0041", "c":[ 1 ,2], "n":12345678901234567890123456789012345678901234567890}', "null", "true", '"é \\ud83d\\ude00 😀"', "-0", "1E400",
    "0.1000000000000000055511151231257827", "[ ]", '{"":{" ":"\\u0000"}}', '{"A":1,"a":2}', '"</script>&\\"\'"', "[[[[[[[[[[[[1]]]]]]]]]]]]"])
def test_a_payload_comes_back_byte_for_byte(api, api2, topic, payload):
    made = api.post("/v1/jobs", ('{"topic":"%s","key":"k","delay":"PT1H","payload": %s }' % (topic, payload)).encode())
    assert made.status == 201, made
    wanted = b'"payload":' + payload.encode() + b","
    assert wanted in made.body
    assert wanted in api2.get(f"/v1/jobs/{made.json['id']}").body
    assert wanted in api2.get(f"/v1/topics/{topic}/jobs/k").body
    assert wanted in api2.get(f"/v1/jobs?topic={topic}&key_prefix=k&include=payload").body


def test_white_space_inside_a_payload_is_kept_and_around_it_is_dropped(api, topic):
    made = api.post("/v1/jobs", ('\n{"topic":"%s",\t"delay":"PT1H" ,"payload":\r\n[1,\r\n\t2]\n}\n' % topic).encode())
    assert made.status == 201 and b'"payload":[1,\r\n\t2],' in api.get(f"/v1/jobs/{made.json['id']}").body


def test_a_binary_payload_comes_back_with_its_content_type(api, topic):
    made = api.make(topic=topic, delay="PT1H", payload_base64="AAH/gAo=", content_type="application/x-thing; v=1")
    for job in made, api.get(f"/v1/jobs/{made['id']}").json:
        assert (job["payload_base64"], job["content_type"]) == ("AAH/gAo=", "application/x-thing; v=1") and "payload" not in job


def test_a_payload_may_have_900_000_bytes_and_no_more(api, topic):
    made = api.post("/v1/jobs", '{"topic":"%s","delay":"PT1H","payload":"%s"}' % (topic, "x" * 899998))
    assert made.status == 201 and len(api.get(f"/v1/jobs/{made.json['id']}").json["payload"]) == 899998
    refused(api.post("/v1/jobs", '{"topic":"%s","delay":"PT1H","payload":"%s"}' % (topic, "x" * 899999)), 413, "too-large", "/payload")


def test_a_binary_payload_is_bounded_by_its_decoded_bytes(small, topic):
    body = lambda n: {"topic": topic, "delay": "PT1H", "payload_base64": base64.b64encode(b"x" * n).decode(), "content_type": "a/b"}  # noqa: E731
    assert small.rest.post("/v1/jobs", body(2000)).status == 201
    refused(small.rest.post("/v1/jobs", body(2001)), 413, "too-large", "/payload_base64")


def test_a_body_beyond_the_limit_is_refused(api, topic, nothing_made):
    refused(api.post("/v1/jobs", '{"topic":"%s","delay":"PT1H","payload":"%s"}' % (topic, "x" * 1400000)), 413, "too-large")


@pytest.mark.parametrize("media", ["text/plain", "application/x-ndjson", "application/xml", "application/jsonx", "application/x-www-form-urlencoded", "json"])
def test_another_content_type_is_refused(api, topic, nothing_made, media):
    refused(api.post("/v1/jobs", {"topic": topic, "delay": 0}, content_type=media), 415, "unsupported-media-type")


@pytest.mark.parametrize("media", ["application/json; charset=utf-8", "Application/JSON"])
def test_a_content_type_may_have_parameters_and_any_case(api, topic, media):
    assert api.post("/v1/jobs", {"topic": topic, "delay": "PT1H"}, content_type=media).status == 201


def test_an_encoded_body_is_refused(api, topic, nothing_made):
    refused(api.post("/v1/jobs", {"topic": topic, "delay": 0}, headers={"Content-Encoding": "gzip"}), 415, "unsupported-media-type")


def test_ids_are_strings_of_digits_and_differ(api, api2, topic):
    ids = [rest.make(topic=topic, delay="PT1H", payload=n)["id"] for n in range(20) for rest in (api, api2)]
    assert len(set(ids)) == 40


def test_the_answered_job_is_in_mysql(api, topic, db):
    job = api.make(topic=topic, key="k", run_at="2031-01-01T00:00:00Z", payload={"a": [1, 2]}, retry=["1s"], ack_timeout="7s")
    [row] = db("SELECT * FROM jobs WHERE id = %s", job["id"])
    assert (row["topic"], row["job_key"], row["state"], row["run_at"], row["next_at"]) == (topic.encode(), b"k", "scheduled", ms(job["run_at"]), ms(job["next_at"]))
    assert json.loads(row["payload"]) == {"a": [1, 2]} and (row["attempt"], row["version"]) == (0, 1)
    assert db("SELECT job_id FROM job_keys WHERE topic = %s AND job_key = 'k'", topic) == [{"job_id": int(job["id"])}]
