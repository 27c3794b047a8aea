"""Another number of shards by REST: answers, what /v1/info shows meanwhile, and jobs that go on."""
import pytest

from harness.problems import refused
from harness.stack import until

URL = "/v1/admin/shards"


def shard_map(api):
    return api.get("/v1/info").json["shard_map"]


def through(api, count):
    """The change to this number is through: everybody works with the map, nothing is left of the old one."""
    def look():
        info = api.get("/v1/info").json
        return info["shard_map"]["count"] == count and info["shard_map"]["moving"] == [] and info
    return until(look, lambda: api.get("/v1/info").body)


@pytest.mark.parametrize("body, pointer", [
    ({"count": 0}, "/count"), ({"count": -1}, "/count"), ({"count": 1025}, "/count"), ({"count": 2.5}, "/count"), ({"count": "3"}, "/count"),
    ({"count": None}, "/count"), ({}, "/count"), ({"count": 3, "shards": 3}, "/shards"), ([3], "")])
def test_an_invalid_number_of_shards_is_refused(api, body, pointer):
    before = shard_map(api)
    answer = api.post(URL, body)
    refused(answer, 422, "invalid", pointer)
    assert shard_map(api) == before


def test_setting_the_same_number_of_shards_again_changes_nothing(api):
    before = shard_map(api)
    answer = api.post(URL, {"count": before["count"]})
    assert answer.status == 202 and answer.json == {"count": before["count"], "generation": before["generation"]}
    assert shard_map(api)["generation"] == before["generation"]


def test_shards_are_added_and_removed_while_jobs_run(api, api2, topic):
    until(lambda: not shard_map(api)["moving"], lambda: api.get("/v1/info").body)
    made = []
    for count in (5, 1, 2):
        generation = shard_map(api)["generation"]
        answer = api.post(URL, {"count": count})
        assert answer.status == 202 and answer.json["count"] == count and answer.json["generation"] == generation + 1
        made += [who.make(topic=topic, delay=0)["id"] for who in (api, api2) for _ in range(20)]
        info = through(api2, count)
        assert [shard["shard"] for shard in info["shards"]] == list(range(count))
        assert all(shard["leader"] and shard["generation"] == generation + 1 for shard in info["shards"])
    for job in made:
        until(lambda job=job: api.get(f"/v1/jobs/{job}").json["state"] == "dispatched", lambda job=job: api.get(f"/v1/jobs/{job}").body)
