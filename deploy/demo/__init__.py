"""deploy/quickstart: sample jobs through the whole system, beside a real consumer, judged from outside.

cli → run → samples (what is asked, what is expected) + ways (Kafka's consumer; or worker and callback) + rest (HTTP) → table. The
judgement rests on what they received (arrivals) and what REST says in the end; nothing here looks into duetime.
"""
