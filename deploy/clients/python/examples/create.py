#!/usr/bin/env python3
"""Makes jobs from 64 threads: python3 create.py TOPIC FIRST COUNT. They leave in a few requests, and each has its own answer. The key makes it
safe to ask again: the second run gives the same ids. Some are made to fail a time or two, some are impossible."""
import os
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor

import duetime


def order(n):
    payload = {"n": n}
    if n % 10 == 3:
        payload["fails"] = 1
    if n % 50 == 7:
        payload["fails"] = 2
    if n % 100 == 9:
        payload["impossible"] = True
    return payload


def main(topic, first, count):
    tls = ssl.create_default_context(cafile=os.environ.get("DUETIME_CA_FILE"))
    with duetime.Client(os.environ["DUETIME_URL"], os.environ.get("DUETIME_TOKEN"), tls=tls) as client, ThreadPoolExecutor(64) as callers:
        def create(n):
            return client.create(topic, order(n), key=f"order-{n}", delay=n % 100 * 10, retry=["1s"] * 5)

        for created in callers.map(create, range(first, first + count)):
            print(created.id)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
