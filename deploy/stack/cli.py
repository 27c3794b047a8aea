"""The commands of deploy/local. Decodes the command line, calls the stack, prints."""
import argparse
import os
import re
import signal
import sys

from . import locks, paths, say, welcome
from .programs import Program
from .servers import kafka, mysql
from .stack import TO_SPARE, Stack, exists

EXIT_NOT_RUNNING = 3


def count(text):
    number = int(text)
    if not 1 <= number <= 1024:
        raise argparse.ArgumentTypeError("a number from 1 to 1024 is wanted")
    return number


def setting(text):
    if not re.fullmatch(r"[a-z_]+\.[a-z_]+=.*", text):
        raise argparse.ArgumentTypeError("wanted: section.key=value")
    return text


def detour(text):
    if not re.fullmatch(r"[a-z]+[0-9]*:[a-z]+[0-9]*=[0-9]+", text):
        raise argparse.ArgumentTypeError("wanted: part:server=port")
    return text


def broker_setting(text):
    if not re.fullmatch(r"[a-z.]+=.*", text):
        raise argparse.ArgumentTypeError("wanted: key=value")
    return text


def variable(text):
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=.*", text, re.DOTALL):
        raise argparse.ArgumentTypeError("wanted: NAME=value")
    return text


def parser():
    top = argparse.ArgumentParser(prog="deploy/local", description="The local stack: MySQL, Redis, ZooKeeper, Kafka and duetime on free "
                                  "loopback ports, in the background. Data: .local/stack, or the folder in DUETIME_LOCAL_DIR.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="install what is missing, build, start everything and wait until it is ready",
                             description="What is not given stays as it was at the last up (at first: 1 API, 2 dispatchers, 2 shards, "
                             "1 Redis, MariaDB, Kafka 3, release).")
    up.add_argument("--small", action="store_true", help="MariaDB and duetime alone, with one API and one dispatcher unless more are asked for; "
                    "an up without it adds the rest, on the same data")
    up.add_argument("--secured", action="store_true", default=None, help="TLS and authentication on every connection of duetime, and a token for its API "
                    "(DUETIME_CA_FILE and DUETIME_TOKEN of `env`); with MariaDB; kept for later starts")
    up.add_argument("--apis", type=count)
    up.add_argument("--dispatchers", type=count)
    up.add_argument("--shards", type=count, help="fixed once the data are there")
    up.add_argument("--redis", type=count, help="number of Redis servers")
    up.add_argument("--mysql", choices=["mariadb", "mysql"], help="MariaDB from Debian, or MySQL 9.7 (needs root)")
    up.add_argument("--kafka", choices=["3", "4"], help="3.9 or 4.1")
    up.add_argument("--without", action="append", choices=TO_SPARE, metavar="SERVER",
                    help=f"{' or '.join(TO_SPARE)}: it is not started, and duetime does without it (without kafka reports come by REST, without "
                    "redis leaders read MySQL, without zookeeper they are elected by leases there); "
                    "kept for later starts, until --with SERVER")
    up.add_argument("--with", action="append", choices=TO_SPARE, metavar="SERVER", dest="again", help="takes --without SERVER back, on the same data")
    up.add_argument("--set", action="append", type=setting, metavar="SECTION.KEY=VALUE", dest="settings",
                    help="a setting for all programs; kept for later starts; an empty value takes it away")
    up.add_argument("--via", action="append", type=detour, metavar="PART:SERVER=PORT",
                    help="for tests: a program reaches a server (mysql, redis1, zookeeper, kafka) through this loopback port, where "
                    "somebody forwards to it; kept for later starts")
    up.add_argument("--kafka-set", action="append", type=broker_setting, metavar="KEY=VALUE", dest="kafka_settings",
                    help="a line of the broker's configuration; kept for later starts")
    up.add_argument("--kafka-jvm", choices=list(kafka.MACHINES), help="the broker's Java: small and soon ready (as long as nothing else "
                    "is asked for), or 1 GB and its whole compiler, which costs CPU in the first minutes and halves what the broker takes later; many: the "
                    "same for thousands of partitions")
    up.add_argument("--monitoring", action=argparse.BooleanOptionalAction, default=None, help="beside it, Prometheus with the rules of deploy/monitoring, and "
                    "Grafana with the dashboard where the machine has one; kept for later starts")
    up.add_argument("--no-build", action="store_true", help="take the programs as they are")
    preset = up.add_mutually_exclusive_group()
    preset.add_argument("--release", action="store_const", const="release", dest="preset")
    preset.add_argument("--sanitize", action="store_const", const="sanitize", dest="preset")
    preset.add_argument("--preset", choices=["release", "debug", "sanitize", "faults", "tsan", "coverage"], help="another of CMakePresets.json")
    commands.add_parser("down", help="stop everything; the data stay")
    commands.add_parser("status", help=f"what runs, and where; exit code {EXIT_NOT_RUNNING} when a part does not run")
    commands.add_parser("env", help="print addresses and process ids as shell assignments")
    logs = commands.add_parser("logs", help="print the end of the logs of all parts, or of those named")
    logs.add_argument("parts", nargs="*", metavar="PART")
    logs.add_argument("-n", "--lines", type=int, default=20)
    logs.add_argument("-f", "--follow", action="store_true")
    commands.add_parser("reset", help="stop everything and remove the data (what was downloaded stays)")
    for verb, what in (("start", "start one part, on the same port as before"), ("stop", "end one part with SIGTERM"),
                       ("kill", "end one part with SIGKILL")):
        command = commands.add_parser(verb, help=what)
        command.add_argument("part", metavar="PART", help="api1, dispatcher2, redis1, mysql, zookeeper, kafka, …")
        if verb == "start":
            command.add_argument("--env", action="append", type=variable, default=[], metavar="NAME=VALUE",
                                 help="an environment variable for this start alone")
            command.add_argument("--set", action="append", type=setting, default=[], metavar="SECTION.KEY=VALUE", dest="settings",
                                 help="a setting for this start alone, of one of duetime's programs")
            command.add_argument("--config", metavar="FILE", help="one of duetime's programs reads this file, for this start alone")
            command.add_argument("--no-wait", action="store_true", help="do not wait until it is ready")
    return top


def wanted_options(arguments, stack):
    options, sized = stack.state.options, stack.size(arguments.small)
    before = options["settings"]
    wanted = {name: getattr(arguments, name) for name in ("apis", "dispatchers", "shards", "redis", "mysql", "kafka", "kafka_jvm", "monitoring", "preset", "secured")
              if getattr(arguments, name) is not None}
    if arguments.settings:
        pairs = (text.split("=", 1) for text in arguments.settings)
        wanted["settings"] = {name: value for name, value in {**before, **dict(pairs)}.items() if value}
    if arguments.without or arguments.again:
        already = sized.get("without", options["without"])
        wanted["without"] = sorted({*already, *(arguments.without or [])} - set(arguments.again or []))
    if arguments.via:
        wanted["via"] = {}
        for part, server, port in (re.split("[:=]", text) for text in arguments.via):
            wanted["via"].setdefault(part, {})[server] = int(port)
    if arguments.kafka_settings:
        wanted["kafka_settings"] = dict(text.split("=", 1) for text in arguments.kafka_settings)
    return {**sized, **wanted}


def existing(home):
    if not exists(home):
        raise say.StackError(f"there is no stack in {home}: `deploy/local up` makes one")
    return Stack(home)


def up(home, arguments):
    reason = mysql.unavailable() if arguments.mysql == "mysql" else None
    if reason:
        raise say.StackError(f"--mysql mysql cannot be had here: {reason}; --mysql mariadb can")
    with locks.whole(home):
        stack = Stack(home)
        stack.up(wanted_options(arguments, stack), must_build=not arguments.no_build)
    say.step(f"up: {stack.apis[0].address}  (addresses: `deploy/local env`)")
    for line in (f"console: {welcome.console(stack)}", "three commands to begin with:", *welcome.COMMANDS.splitlines()):
        say.note(line)


def down(home, _arguments):
    with locks.whole(home):
        if exists(home):
            stack = Stack(home)
            stack.stop(stack.running())


def reset(home, _arguments):
    with locks.whole(home):
        if exists(home):
            Stack(home).reset()


def status(home, _arguments):
    stack = existing(home)
    stopped = 0
    for part in stack.parts:
        pid = part.process.pid()
        stopped += pid is None
        print(f"{part.name:<14}{'running' if pid else 'stopped':<9}{pid or '-':<9}{part.address}")
    return EXIT_NOT_RUNNING if stopped else 0


def env(home, _arguments):
    sys.stdout.write(existing(home).assignments())


def logs(home, arguments):
    stack = existing(home)
    parts = [stack.part(name) for name in arguments.parts] or stack.parts
    files = [str(part.log) for part in parts if part.log.exists()]
    if files:
        sys.stdout.flush()
        os.execvp("tail", ["tail", "-n", str(arguments.lines)] + (["-F"] if arguments.follow else []) + files)


def for_once(part, arguments):
    part.once = dict(text.split("=", 1) for text in arguments.env)
    if (arguments.settings or arguments.config) and not isinstance(part, Program):
        raise say.StackError(f"--set and --config are for duetime's programs, and {part.name} is none")
    if arguments.config:
        part.once_config = os.path.abspath(arguments.config)
    for text in arguments.settings:
        name, value = text.split("=", 1)
        section, key = name.split(".", 1)
        part.once_settings.setdefault(section, {})[key] = value


def start(home, arguments):
    part = existing(home).part(arguments.part)
    for_once(part, arguments)
    with locks.one(home, part.name):
        started = part.start()
        if not started:
            say.note(f"{part.name} runs already")
        try:
            if not arguments.no_wait:
                part.wait_ready()
        except KeyboardInterrupt:
            if started:
                part.process.stop()
            raise


def stop(home, arguments):
    part = existing(home).part(arguments.part)
    with locks.one(home, part.name):
        part.process.stop()


def kill(home, arguments):
    part = existing(home).part(arguments.part)
    with locks.one(home, part.name):
        part.process.kill()


COMMANDS = {"up": up, "down": down, "status": status, "env": env, "logs": logs, "reset": reset,
            "start": start, "stop": stop, "kill": kill}


def interrupt(_number, _frame):
    raise KeyboardInterrupt


def main():
    arguments = parser().parse_args()
    signal.signal(signal.SIGTERM, interrupt)
    try:
        return COMMANDS[arguments.command](paths.home(), arguments) or 0
    except say.StackError as error:
        print(f"deploy/local: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
