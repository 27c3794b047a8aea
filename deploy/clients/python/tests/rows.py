"""Does what it is told, a call a line, and says what came of it: the table of tests that all clients have in common."""
import asyncio
import json
import os
import pathlib
import ssl
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]

import duetime  # noqa: E402

URL, TOKEN = os.environ["DUETIME_URL"], os.environ.get("DUETIME_TOKEN")
OPTIONS = {"timeout": float(os.environ.get("DUETIME_TIMEOUT", "30000")) / 1000, "make_keys": "DUETIME_MAKE_KEYS" in os.environ,
           "tls": ssl.create_default_context(cafile=os.environ["DUETIME_CA_FILE"]) if os.environ.get("DUETIME_CA_FILE") else None}
client = duetime.Client(URL, TOKEN, **OPTIONS)


def forked(call):
    """Runs it in a child: a file with its answer as JSON."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, json.dumps(call()).encode())
        os._exit(0)
    os.close(write)
    return os.fdopen(read)


def work(topic, worker, calls):
    """(what was another's, what was made)"""
    wrong, made = [], []
    for n in range(calls):
        made.append(client.create(topic, [worker, n], delay="PT1H").id)
        job = client.get(made[-1])
        if (job["id"], job["payload"]) != (made[-1], [worker, n]):
            wrong.append([made[-1], job["id"]])
    return wrong, made


def workers(topic, count, calls):
    answers = [json.load(one) for one in [forked(lambda worker=worker: work(topic, worker, calls)) for worker in range(count)]]
    return {"wrong": [one for wrong, _ in answers for one in wrong], "made": [id for _, made in answers for id in made]}


def kind_of(future):
    try:
        return future.result(20).id
    except duetime.DuetimeError as error:
        return type(error).__name__


def fork(**_):
    futures = [client.create_later("t", n, delay="PT1H") for n in range(2)]
    sys.stdin.readline()
    with forked(lambda: [kind_of(future) for future in futures]) as child:
        tell({"child": json.load(child)})
    return {"parent": [kind_of(future) for future in futures]}


def give_up(topic, **_):
    async def run():
        async with duetime.AsyncClient(URL, TOKEN, **OPTIONS) as shared:
            popping = asyncio.create_task(shared.pop(topic, wait="PT20S"))
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
            popping.cancel()
            try:
                await popping
            except asyncio.CancelledError:
                return {"gave_up": True}
    return asyncio.run(run())


def big(topic, **_):
    id = client.create(topic, [2 ** 53 + 1, 2 ** 63 - 1, -2 ** 63, 2 ** 64 + 1], delay="PT1H").id
    return {"id": id, "digits": [str(one) for one in client.get(id)["payload"]]}


CALLS = {"create": lambda topic, key=None, **_: {"id": client.create(topic, delay="PT1H", **({"key": key} if key else {})).id},
         "get": lambda id, **_: {"id": client.get(id)["id"]},
         "report": lambda id, **_: {"outcome": client.report(id, 1)},
         "workers": workers, "fork": fork, "give_up": give_up, "big": big}


def tell(told):
    print(json.dumps(told), flush=True)


while line := sys.stdin.readline():
    asked = json.loads(line)
    try:
        tell(CALLS[asked.pop("call")](**asked))
    except duetime.DuetimeError as error:
        tell({"error": type(error).__name__})
client.close()
