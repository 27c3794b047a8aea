"""The index in Redis, read without the product's code, from what scheduler/index/index.h says of it: a shard's set is a sorted set of
pages (score: where one begins), each page a sorted set of entries (score: ms after that; member: the id's bytes, the highest first,
without the home day where that is the day of the entry's time)."""
DAY_MS = 86400000
FIRST_DAY_MS = 1735689600000  # 2025-01-01


def home_of(ms):
    return max(0, (ms - FIRST_DAY_MS) // DAY_MS) << 40


def member_of(job, ms):
    rest = job & ((1 << 40) - 1)
    if job - rest != home_of(ms):
        return job.to_bytes(8, "big")
    return rest.to_bytes(5 if rest >> 32 else 4, "big")


def entries_of(client, name):
    """(id, ms) of all entries, in the order of Redis."""
    found = []
    pages = [(member, int(start)) for member, start in client.zrangebyscore(name, "-inf", "(inf", withscores=True)]
    for at in range(0, len(pages), 500):
        pipeline = client.pipeline(transaction=False)
        for member, _ in pages[at:at + 500]:
            pipeline.zrange(name.encode() + b":" + member, 0, -1, withscores=True)
        for (_, start), entries in zip(pages[at:at + 500], pipeline.execute()):
            for member, score in entries:
                ms = start + int(score)
                assert len(member) in (4, 5, 8), (name, member)
                found.append(((home_of(ms) if len(member) < 8 else 0) | int.from_bytes(member, "big"), ms))
    return found


def count(client, name):
    """Entries of a shard's set, in one step of the server."""
    return client.eval("""local n = 0
for _, page in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(inf')) do n = n + redis.call('ZCARD', KEYS[1] .. ':' .. page) end
return n""", 1, name)


def is_whole(client, name):
    """Its leader's marker is there, and says that the set is not being filled."""
    markers = client.zrangebyscore(name, "+inf", "+inf")
    return len(markers) == 1 and not markers[0].endswith(b":0")


def add(client, name, job, ms):
    """An entry by a stranger's hand, into whichever page there is for it."""
    before = client.zrevrangebyscore(name, ms, "-inf", start=0, num=1, withscores=True)
    page_name, start = before[0] if before else (str(ms).encode(), ms)
    client.zadd(name, {page_name: start})
    client.zadd(name.encode() + b":" + page_name, {member_of(job, ms): ms - int(start)})
