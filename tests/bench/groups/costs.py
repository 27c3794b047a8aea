"""What a job costs: microseconds of a core by part, for single POSTs, NDJSON, and whole lives; bytes a job in each store"""
import resource

from harness.servers import redis_clients

import clients
import lives
import pulls
import table


def used(stack):
    """{part: CPU seconds so far}; the load is this process and all its helpers that have ended."""
    parts = {"mysql": 0.0, "redis": 0.0, "kafka": 0.0, "zookeeper": 0.0, "api": 0.0, "dispatcher": 0.0}
    for part in stack.parts():
        parts[part.rstrip("0123456789")] += stack.core_seconds(part)
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    parts["load"] = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return parts


def of(bench, stack, name, jobs_of):
    """`jobs_of` does the work and gives the number of jobs."""
    before = used(stack)
    jobs = jobs_of()
    after = used(stack)
    each = {part: (after[part] - before[part]) / jobs * 1e6 for part in before}
    bench.figure(None, f"{name}: core time a job", sum(us for part, us in each.items() if part != "load"), "µs",
                 ", ".join(f"{part} {us:.1f}" for part, us in each.items() if us >= 0.05))


def posts(stack, account, seconds):
    found = clients.Posts(stack, "costs-posts", 64, seconds)
    account.accepted("costs-posts", found.accepted, found.unanswered)
    return found.accepted


def measure(bench):
    stack = bench.stack()
    account = bench.account(stack)
    clients.make_topic(stack, "costs-posts")
    clients.make_topic(stack, "costs-bulk")
    count = bench.count(100000, 20000)
    lives.live(bench, stack, account, "costs-warm", count // 2)  # the broker compiles itself, every shard leads
    of(bench, stack, "single POST", lambda: posts(stack, account, bench.seconds(8, 4)))
    bulk, redis_before, mysql_before = clients.Ndjson(stack, "costs-bulk", count), memory(stack), table.bytes_on_disk(stack)

    def by_ndjson():
        bulk.post(2)
        return bulk.accepted
    of(bench, stack, "NDJSON", by_ndjson)
    account.accepted("costs-bulk", bulk.accepted)
    bench.figure(None, "a pending job of 200 bytes in MySQL", (table.bytes_on_disk(stack) - mysql_before) / bulk.accepted, "B")
    bench.figure(None, "a pending job within the horizon in Redis", (memory(stack) - redis_before) / bulk.accepted, "B")
    of(bench, stack, "whole life", lambda: count if lives.live(bench, stack, account, "costs-lives", count) else 0)
    of(bench, stack, "whole life by pop", lambda: count if pulls.live(stack, account, "costs-pulls", count) else 0)


def memory(stack):
    return sum(int(client.info("memory")["used_memory"]) for client in redis_clients(stack))
