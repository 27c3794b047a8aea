"""The command line of deploy/quickstart: brings the stack up, plays the samples, tells what can be tried next."""
import argparse
import shlex
import signal
import sys

from stack import locks, paths, say
from stack.stack import Stack

from . import run, table

UP = "duetime is up."
ONCE = "It stops now; `deploy/local up{small}` brings the same stack up again, in the background, at the same addresses."
SERVERS = """
{head}

  API        {url}
  Kafka      {kafka}
  Redis      {redis}
  ZooKeeper  {zookeeper}
  MySQL      {socket}
  logs       {home}/log

Things to try (in another terminal, in {tree}):
"""
BY_KAFKA = """
  a job in ten seconds:
    curl -s {url}/v1/jobs -H 'content-type: application/json' \\
      -d '{{"topic":"orders.close","delay":"PT10S","payload":{{"order":42}}}}'
  watch it arrive (any Kafka consumer will do; read_committed is the point):
    kcat -b {kafka} -C -t orders.close -o beginning -X isolation.level=read_committed -f '%k %h\\n  %s\\n'
"""
BY_POPS = """
  a job in ten seconds, and a pop that waits for it:
    curl -s {url}/v1/jobs -H 'content-type: application/json' \\
      -d '{{"topic":"orders.close","delay":"PT10S","payload":{{"order":42}}}}'
    curl -s {url}/v1/topics/orders.close/pop -H 'content-type: application/json' -d '{{"wait":"PT20S"}}'
"""
NEXT = """\
  report what became of it (put in its id):
    curl -s {url}/v1/jobs/ID/results -H 'content-type: application/json' -d '{{"attempt":1,"status":"succeeded"}}'
  a job every morning, and when it fires; all jobs of the topic a day later; the schedule and the topic with its jobs removed:
    curl -s -X PUT {url}/v1/schedules/report -H 'content-type: application/json' \\
      -d '{{"topic":"orders.close","cron":"0 9 * * MON-FRI","time_zone":"Europe/Berlin","payload":{{}}}}'
    curl -s {url}/v1/schedules/report/next
    curl -s {url}/v1/jobs:reschedule -H 'content-type: application/json' -d '{{"filter":{{"topic":"orders.close"}},"shift":"P1D"}}'
    curl -s -X DELETE '{url}/v1/schedules/report?cancel=true'; curl -s -X DELETE '{url}/v1/topics/orders.close?cancel=true'
  the SQL prompt, where every job is explained, and asked for in your own transaction:
    {prompt}
      INSERT INTO job_inbox (topic, job_key, delay_ms, payload) VALUES ('orders.close', 'order-43', 10000, '{{"order":43}}');
      SELECT * FROM v_jobs ORDER BY id DESC LIMIT 5;   SELECT * FROM v_backlog;   CALL dt_explain({job});
  the same stack in the background: deploy/local up{small} | status | env | logs | kill dispatcher1 | start dispatcher1 | down
"""


def parser():
    top = argparse.ArgumentParser(prog="deploy/quickstart", description="Installs what is missing, builds, starts the local stack, runs "
                                  "sample jobs through the whole system and prints what became of them.")
    top.add_argument("--small", action="store_true", help="MariaDB and duetime alone: the samples are popped, and called back")
    top.add_argument("--once", action="store_true", help="stop after the table; exit code 0 only if every job behaved")
    return top


def interrupt(_number, _frame):
    raise KeyboardInterrupt


def tell_next(stack, stage, head):
    environment = stack.environment()
    prompt = stack.mysql.client(environment["DUETIME_MYSQL_DATABASE"])
    by_kafka = bool(environment["DUETIME_KAFKA"])
    servers = {name: environment[f"DUETIME_{name.upper()}"] or "(none)" for name in ("kafka", "redis", "zookeeper")}
    text = SERVERS + (BY_KAFKA if by_kafka else BY_POPS) + NEXT
    print(text.format(head=head, url=environment["DUETIME_URL"], **servers, socket=environment["DUETIME_MYSQL_SOCKET"], home=stack.home,
                      tree=paths.TREE, prompt=shlex.join(prompt), job=stage.first.job or "ID", small="" if by_kafka else " --small"))


def play(stack, once):
    stage = run.Stage(stack)
    say.step(f"running {len(stage.everything)} sample jobs beside {stage.way.told}")
    good = run.run(stage)
    print(table.render(stage), flush=True)
    tell_next(stack, stage, ONCE.format(small=" --small" if stack.state.options["small"] else "") if once else UP)
    if not once:
        print("Ctrl-C stops all that was started here.", flush=True)
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
