"""Clients of the stack's servers, for tests that speak to them themselves."""
import redis


def redis_clients(stack):
    found = []
    for endpoint in filter(None, stack["DUETIME_REDIS"].split(",")):
        host, port = endpoint.split(":")
        found.append(redis.Redis(host, int(port), socket_timeout=60))
    return found
