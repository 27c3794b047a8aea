"""What a run was measured on: the machine, the commit, and how durable each server is, by the servers' own word."""
import os
import pathlib
import platform
import re
import subprocess

import pymysql
from confluent_kafka.admin import AdminClient, ConfigResource
from harness.checker import connect, rows
from harness.servers import redis_clients

import programs

TREE = pathlib.Path(__file__).resolve().parents[2]
MYSQL = ("version", "innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "binlog_format", "innodb_doublewrite", "innodb_flush_method",
         "innodb_buffer_pool_size")
BROKER = ("default.replication.factor", "min.insync.replicas", "unclean.leader.election.enable", "log.flush.interval.messages",
          "transaction.state.log.min.isr")


def machine():
    model = re.search(r"model name\s*:\s*(.+)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=TREE, capture_output=True, text=True, check=False).stdout.strip()
    return {"cores": os.cpu_count(), "cpu": model[1] if model else platform.machine(), "memory_gib": round(memory / 2**20, 1),
            "kernel": platform.release(), "commit": commit or "?"}


def stalls(seconds=5):
    """What the machine takes from a thread that has a core to itself, so from everyone: no latency is better than that."""
    lost, longer, longest = programs.run("stalls", seconds).split()
    return {"lost_percent": float(lost), "longer_than_5_ms": int(longer), "longest_ms": float(longest), "seconds": seconds}


def quiet(on):
    """What was taken before, meanwhile and after, for people."""
    told = [f"{when} {one['lost_percent']} % of {one['seconds']} s, {one['longer_than_5_ms']} stalls longer than 5 ms, the longest {one['longest_ms']} ms"
            for when, one in zip(("before", "after"), on["stalls"])]
    return f"taken by the machine itself: {'; '.join(told)}; stolen in between {on['stolen_percent']} %"


def cpu_ticks():
    """(stolen by the host, all) since the machine's start."""
    ticks = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return ticks[7], sum(ticks)


def stolen_percent(before):
    """Of the machine's time since an earlier look."""
    stolen, ticks = (after - then for after, then in zip(cpu_ticks(), before))
    return round(100 * stolen / max(1, ticks), 2)


def of_mysql(connection):
    found = {}
    for name in MYSQL:
        try:
            found[name] = rows(connection, f"SELECT @@{name} v")[0]["v"]
        except pymysql.MySQLError:  # a name that this server does not have
            continue
    return found


def of_kafka(brokers):
    admin = AdminClient({"bootstrap.servers": brokers, "log_level": 3})
    broker = next(iter(admin.list_topics(timeout=10).brokers))
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
    told = next(iter(admin.describe_configs([resource]).values())).result(10)
    return {name: told[name].value for name in BROKER if name in told}


def of_redis(stack):
    return [{"version": client.info("server")["redis_version"],
             **{name: client.config_get(name)[name] for name in ("appendonly", "appendfsync", "save", "maxmemory")}}
            for client in redis_clients(stack)]


def of_zookeeper(stack):
    """It tells a client nothing of it: the command line of its process does."""
    words = pathlib.Path(f"/proc/{stack.pid('zookeeper')}/cmdline").read_bytes().decode().split("\0")
    sync = [word.split("=")[1] for word in words if word.startswith("-Dzookeeper.forceSync=")]
    return {"forceSync": sync[0] if sync else "yes (default)"}


def of_servers(stack):
    return {"mysql": of_mysql(connect(stack)), "redis": of_redis(stack), "kafka": of_kafka(stack["DUETIME_KAFKA"]),
            "zookeeper": of_zookeeper(stack)}


def told(servers):
    lines = []
    for name, settings in servers.items():
        for one in settings if isinstance(settings, list) else [settings]:
            lines.append(f"  {name}: " + ", ".join(f"{key}={value}" for key, value in one.items()))
    return "\n".join(lines)
