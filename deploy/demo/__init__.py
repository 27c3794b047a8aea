"""deploy/quickstart: sample jobs through the whole system, beside a real consumer, judged from outside.

cli → run → samples (what is asked, what is expected) + consumer (Kafka) + rest (HTTP) → table. The judgement rests
on what the consumer received and what REST says in the end; nothing here looks into duetime.
"""
