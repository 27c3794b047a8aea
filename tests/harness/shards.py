"""Another number of shards on a running stack, and how long dispatching stood still meanwhile."""
from .checker import connect, rows
from .rest import Rest
from .stack import until


def ask_for(stack, count, part="api1"):
    """202, from an API that is there; gives the generation."""
    rest = Rest(stack[f"DUETIME_URL_{part.upper()}"])
    try:
        answer = rest.post("/v1/admin/shards", {"count": count})
        assert answer.status == 202 and answer.json["count"] == count, answer
        return answer.json["generation"]
    finally:
        rest.close()


def moving(stack, part="api1"):
    """What /v1/info says of the change under way: shards that are not through."""
    rest = Rest(stack[f"DUETIME_URL_{part.upper()}"])
    try:
        return rest.get("/v1/info").json["shard_map"]["moving"]
    finally:
        rest.close()


def through(stack, seconds=60):
    """Everybody works with the present number of shards, and nothing is left of the old one."""
    until(lambda: moving(stack) == [], lambda: f"the change has ended; moving: {moving(stack)}; "
          f"{rows(connect(stack), 'SELECT shard, owner, inflight, halted FROM shards')}", every=0.2, seconds=seconds)


def longest_silence_ms(seen, from_ms, to_ms):
    """seen: times of receipt. The longest time without an arrival that began between the two."""
    times = sorted(at for at in seen if from_ms - 1000 <= at <= to_ms + 10000)
    return max((later - at for at, later in zip(times, times[1:]) if later >= from_ms and at <= to_ms), default=0)


def shares(stack):
    """Shards led by each process, largest first; empty while one has no leader."""
    answer = Rest(stack["DUETIME_URL_API1"]).get("/v1/info")
    names = [shard["leader"] for shard in answer.json["shards"]] if answer.status == 200 else [None]
    return sorted((names.count(name) for name in set(names)), reverse=True) if all(names) else []
