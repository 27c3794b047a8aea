"""Every job is accounted for: accepted = in MySQL = dispatched, once, to Kafka, or popped, once = reported. What is missing ends the run.

Owns the reading of MySQL's tables for that, and nothing else in tests/bench does it. The bare loaders' rows have sequence numbers from
4 << 37 on, which the product never gives out, so that they are left out by ranges of the primary key.
"""
import json

from harness.checker import connect, rows

import programs

BARE_FROM = 4 << 37


class Missing(Exception):
    """Jobs that are not where they should be."""


class Account:
    def __init__(self, stack):
        self._stack = stack
        self._topics = {}

    def accepted(self, topic, jobs, unanswered=0):
        """So many jobs of the topic were answered 201; so many requests at most got no answer and may have made one."""
        entry = self._topics.setdefault(topic, {"accepted": 0, "unanswered": 0, "reported": None, "popped": None})
        entry["accepted"] += jobs
        entry["unanswered"] += unanswered

    def jobs(self):
        """So many were accepted so far."""
        return sum(entry["accepted"] for entry in self._topics.values())

    def popped(self, topic, attempts, distinct):
        """So many attempts of the topic, whose delivery is pull, were handed out, and so many of them are different."""
        self._topics[topic]["popped"] = {"messages": attempts, "distinct": distinct}

    def reported(self, topic, jobs):
        """So many of them were reported as succeeded."""
        self._topics[topic]["reported"] = (self._topics[topic]["reported"] or 0) + jobs

    def check(self):
        """One line; raises Missing with all that is wrong."""
        table, problems, sums = in_mysql(self._stack), [], {"accepted": 0, "MySQL": 0, "sent": 0, "Kafka": 0, "reported": 0, "done": 0}
        for topic, entry in self._topics.items():
            row = table.get(topic, {"jobs": 0, "sent": 0, "done": 0})
            kafka = entry["popped"] or (in_kafka(self._stack, topic) if row["sent"] else {"messages": 0, "distinct": 0})
            problems += wrong(topic, entry, row, kafka)
            for name, n in (("accepted", entry["accepted"]), ("MySQL", row["jobs"]), ("sent", row["sent"]), ("Kafka", kafka["distinct"]),
                            ("reported", entry["reported"] or 0), ("done", row["done"])):
                sums[name] += n
        if problems:
            raise Missing("; ".join(problems))
        return (f"{sums['accepted']} accepted, {sums['MySQL']} in MySQL, {sums['sent']} of them dispatched, {sums['Kafka']} in Kafka, or popped, each once, "
                f"{sums['reported']} reported, {sums['done']} succeeded")


def wrong(topic, entry, row, kafka):
    """What does not add up for one topic. `row`: jobs, sent and done by MySQL; `kafka`: messages and distinct ones, committed, or popped."""
    problems = []
    if not entry["accepted"] <= row["jobs"] <= entry["accepted"] + entry["unanswered"]:
        problems.append(f"{topic}: {entry['accepted']} accepted ({entry['unanswered']} without an answer), {row['jobs']} in MySQL")
    if kafka["messages"] != kafka["distinct"]:
        problems.append(f"{topic}: {kafka['messages'] - kafka['distinct']} messages twice in Kafka, or popped twice")
    if row["sent"] != kafka["distinct"]:
        problems.append(f"{topic}: {row['sent']} dispatched by MySQL, {kafka['distinct']} in Kafka, or popped")
    if entry["reported"] is not None and not entry["reported"] == row["done"] == row["sent"]:
        problems.append(f"{topic}: {row['sent']} dispatched, {entry['reported']} reported, {row['done']} succeeded in MySQL")
    return problems


def home_days(stack):
    """The days that hold jobs, by hops along the primary key."""
    connection, days, after = connect(stack), [], -1
    while True:
        found = rows(connection, "SELECT MIN(id) id FROM jobs FORCE INDEX (PRIMARY) WHERE id > %s", after)[0]["id"]
        if found is None:
            return days
        days.append(found >> 40)
        after = ((found >> 40) + 1 << 40) - 1


def in_mysql(stack):
    """{topic: jobs, dispatches, succeeded ones} of what came through the product."""
    found, connection = {}, connect(stack)

    def add(counted):
        for row in counted:
            entry = found.setdefault(row["topic"].decode(), {"jobs": 0, "sent": 0, "done": 0})
            for name in entry:
                entry[name] += int(row[name])
    days = home_days(stack)
    rows(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")  # a job that moves to history meanwhile is seen once
    for day in days:
        add(rows(connection, "SELECT topic, COUNT(*) jobs, SUM(attempt) sent, SUM(state = 'succeeded') done FROM jobs FORCE INDEX (PRIMARY) "
                 "WHERE id BETWEEN %s AND %s GROUP BY topic", day << 40, (day << 40) + BARE_FROM - 1))
    add(rows(connection, "SELECT topic, COUNT(*) jobs, SUM(attempt) sent, SUM(state = 'succeeded') done FROM history "
             "WHERE id & 0xFFFFFFFFFF < %s GROUP BY topic", BARE_FROM))
    rows(connection, "COMMIT")
    return found


def in_kafka(stack, topic):
    """Committed messages of the topic, from its beginning to its end, and how many of them are different (job, attempt)s."""
    return json.loads(programs.run("reporter", stack["DUETIME_KAFKA"], topic, "all", "-", 180))
