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


def run(argv, seconds, env=None, cwd=None):
    """(exit code or None when it ran out of time, output)."""
    with subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=env, cwd=cwd, text=True, errors="replace",
                          start_new_session=True) as child:
        with _lock:
            _running.add(child)
        try:
            output, _ = child.communicate(timeout=seconds)
            return child.returncode, output
        except subprocess.TimeoutExpired:
            _end(child)
            output, _ = child.communicate()
            return None, output
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
