"""The command line of deploy/quickstart: brings the stack up, plays the samples, tells what can be tried next."""
import argparse
import shlex
import signal
import sys
import textwrap

from stack import locks, paths, say, welcome
from stack.stack import Stack

from . import run, table

UP = """
duetime is up. Ctrl-C stops all that was started here.

  console    {console}
  API        {url}
  Kafka      {kafka}
  Redis      {redis}
  ZooKeeper  {zookeeper}
  MySQL      {socket}
  logs       {home}/log

Three commands to begin with (in another terminal, in {tree}):

{commands}
README.md has a job by each delivery. The SQL prompt, where a job can also be explained, and created by INSERT:

  {prompt}
    CALL dt_explain({job});
    INSERT INTO job_inbox (topic, job_key, delay_ms, payload) VALUES ('orders.close', 'order-2', 10000, '{{"order":2}}');
"""
ONCE = """
The stack stops now. `deploy/local up{small}` starts it again, in the background, at the same addresses, and shows what to try.
"""


def parser():
    top = argparse.ArgumentParser(prog="deploy/quickstart", description="Installs what is missing, builds, starts the local stack, runs "
                                  "sample jobs through the whole system and prints what became of them.")
    top.add_argument("--small", action="store_true", help="MariaDB and duetime alone: the samples are popped, and called back")
    top.add_argument("--once", action="store_true", help="stop after the table; exit code 0 only if every job behaved")
    return top


def interrupt(_number, _frame):
    raise KeyboardInterrupt


def tell_next(stack, stage):
    environment = stack.environment()
    servers = {name: environment[f"DUETIME_{name.upper()}"] or "(none)" for name in ("kafka", "redis", "zookeeper")}
    prompt = stack.mysql.client(environment["DUETIME_MYSQL_DATABASE"])
    print(UP.format(console=welcome.console(stack), url=environment["DUETIME_URL"], **servers, socket=environment["DUETIME_MYSQL_SOCKET"], home=stack.home,
                    tree=paths.TREE, commands=textwrap.indent(welcome.COMMANDS, "  "), prompt=shlex.join(prompt), job=stage.first.job or "ID"), flush=True)


def play(stack, once):
    stage = run.Stage(stack)
    say.step(f"running {len(stage.everything)} sample jobs beside {stage.way.told}")
    good = run.run(stage)
    print(table.render(stage), flush=True)
    if once:
        print(ONCE.format(small=" --small" if stack.state.options["small"] else ""), flush=True)
    else:
        tell_next(stack, stage)
        while True:
            signal.pause()
    return 0 if good else 1


def main():
    arguments = parser().parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell's background jobs are born ignoring it
        signal.signal(number, interrupt)
    started, stack, code = [], None, 1
    try:
        with locks.whole(paths.home()):
            stack = Stack(paths.home())
            started = stack.up({**stack.size(arguments.small), "preset": "release"})
        code = play(stack, arguments.once)
    except say.StackError as error:
        print(f"deploy/quickstart: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        code = 130 if arguments.once else 0
    for number in (signal.SIGINT, signal.SIGTERM):  # a second Ctrl-C does not leave half of it running
        signal.signal(number, signal.SIG_IGN)
    if stack and started:
        say.step(f"stopping {', '.join(part.name for part in started)}")
        stack.stop(started)
    return code


if __name__ == "__main__":
    sys.exit(main())
