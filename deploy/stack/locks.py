"""Locks between commands that run at the same time: `up`, `down` and `reset` are alone; `start`, `stop` and `kill`
run side by side, but one at a time on a part. What several stacks share (the build, the cache) has locks as well."""
import contextlib
import fcntl


@contextlib.contextmanager
def held(path, kind=fcntl.LOCK_EX):
    """Holds a lock file for as long as the block runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, kind)
        yield


def whole(home):
    # Beside the folder and not in it: `reset` removes the folder while it holds the lock.
    return held(home.with_name(home.name + ".lock"), fcntl.LOCK_EX)


@contextlib.contextmanager
def one(home, part):
    with held(home.with_name(home.name + ".lock"), fcntl.LOCK_SH), \
         held(home / "run" / f"{part}.lock", fcntl.LOCK_EX):
        yield
