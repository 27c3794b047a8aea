"""Times as the API writes them, and as milliseconds since 1970."""
import time
from datetime import datetime, timedelta, timezone

LONG_SECONDS = 120  # the longest wait for anything: more than ten times what it takes on a quiet machine


def now_ms():
    return time.time_ns() // 1_000_000


def to_ms(text):
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)


def to_text(ms, hours_east=0):
    """RFC 3339 with an offset, so that the samples show that any offset will do."""
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms)
    return moment.astimezone(timezone(timedelta(hours=hours_east))).isoformat(timespec="milliseconds")
