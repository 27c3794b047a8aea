"""Runs a command with a deadline and keeps what it printed. Nothing that it started outlives it."""
import os
import signal
import subprocess
import threading

_running = set()
_lock = threading.Lock()


def _end(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)  # a session of its own: the group's number is its pid
    except ProcessLookupError:
        pass


def _until(child, seconds, enough):
    """What it printed up to a line that is enough; then it is ended, as it is when its time is up (TimeoutExpired)."""
    late = threading.Event()
    timer = threading.Timer(seconds, lambda: (late.set(), _end(child)))
    timer.start()
    lines = []
    try:
        for line in child.stdout:
            lines.append(line)
            if enough(line):
                _end(child)
        child.wait()
    finally:
        timer.cancel()
    if late.is_set():
        raise subprocess.TimeoutExpired(child.args, seconds, "".join(lines))
    return "".join(lines)


def run(argv, seconds, env=None, cwd=None, enough=None):
    """(exit code or None when it ran out of time, output). enough: whether it can be ended after a line that it printed."""
    with subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=env, cwd=cwd, text=True, errors="replace",
                          start_new_session=True) as child:
        with _lock:
            _running.add(child)
        try:
            if enough:
                output = _until(child, seconds, enough)
            else:
                output, _ = child.communicate(timeout=seconds)
            return child.returncode, output
        except subprocess.TimeoutExpired as late:
            _end(child)
            return None, f"{late.output if enough else child.communicate()[0]}\nit was still running after {seconds} s"
        except BaseException:
            _end(child)
            raise
        finally:
            with _lock:
                _running.discard(child)


def end_all():
    """Ends what other threads are waiting for."""
    with _lock:
        for child in _running:
            _end(child)
