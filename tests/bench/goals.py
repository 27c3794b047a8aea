"""The goals of performance: what each figure must reach (floor) and is driven towards (aim). Knows no measurement."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    what: str
    unit: str
    floor: float
    aim: float

    @property
    def higher_is_better(self):
        return self.aim > self.floor

    def reaches(self, value, limit):
        return value >= limit if self.higher_is_better else value <= limit

    def met(self, value):
        """"aim", "floor" or "no"."""
        return "aim" if self.reaches(value, self.aim) else "floor" if self.reaches(value, self.floor) else "no"


GOALS = {
    "G1": Goal("single POSTs ÷ bare bulk loader", "", 0.15, 0.35),
    "G1b": Goal("single POSTs ÷ a bare HTTP server and the loader, costs added", "", 0.6, 0.8),
    "G2": Goal("NDJSON ÷ bare bulk loader", "", 0.5, 0.8),
    "G3": Goal("due → Kafka's commit, p99, 1,000 due/s beside intake at half speed", "ms", 50, 15),
    "G4": Goal("Redis bytes a pending job ÷ plain zset, all within the horizon", "", 0.35, 0.15),
    "G4 horizon": Goal("the same, 100 M jobs over 30 days", "", 0.05, 0.01),
    "G5": Goal("index whole again after FLUSHALL ÷ bare covering-index stream", "×", 6, 2),
    "G5 first": Goal("FLUSHALL → first right dispatch", "s", 1, 0.25),
    "G6 intake": Goal("intake with many pending jobs ÷ with 1 M", "", 0.6, 0.9),
    "G6 lateness": Goal("p99 of lateness with many pending jobs ÷ with 1 M", "×", 2, 1.2),
    "G7": Goal("whole lives ÷ bare bulk loader", "", 0.05, 0.12),
    "G8": Goal("results applied ÷ bare UPDATE … IN (500)", "", 0.3, 0.7),
    "G9": Goal("kill -9 of a leader: worst lateness − session timeout", "s", 1, 0.25),
    "G10": Goal("durable intake ÷ the same with sync off", "", 0.85, 0.95),
    "G11": Goal("lives by pop ÷ bare bulk loader", "", 0.05, 0.12),
    "G12": Goal("callbacks ÷ a bare libcurl multi client", "", 0.25, 0.5),
    "G13": Goal("due → answer of a waiting pop, p99, 1,000 due/s, with Redis", "ms", 50, 15),
    "G13 without": Goal("the same without Redis", "ms", 150, 100),
    "G14": Goal("due → request received, p99, 1,000 due/s", "ms", 60, 20),
    "G15": Goal("pop side ÷ beanstalkd with fsync", "", 1, 2),
    "G16 Node.js": Goal("creates by 64 callers of our client ÷ by BullMQ's own", "", 0.8, 1.2),
    "G16 Java": Goal("creates by 64 callers of our client ÷ by db-scheduler's own", "", 0.8, 1.2),
}
