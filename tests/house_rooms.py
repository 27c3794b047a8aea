"""What house.py knows of single rooms and files: what a room may include, and which files may do what others may not."""

# Room of scheduler/ -> the rooms that it may include. Subrooms that are not named here count as their room.
JOBS = {"job/change", "job/results", "job/archive", "job/list"}
BELOW = {"base", "mysql", "store", "job", "topic", "events"}
LAYERS = {
    "base": {"base"},
    "job": {"base", "job"}, "mysql": {"base", "mysql"},
    "redis": {"base", "job", "redis"},
    "store": {"base", "mysql", "job", "store"},
    "topic": BELOW | {"job/change"},
    "events": BELOW,
    **{room: BELOW | JOBS for room in JOBS},
    "dispatch": BELOW | JOBS | {"dispatch"},
    "index": {"base", "redis", "job", "index"},
    "index/reconcile": {"base", "store", "job", "job/archive", "topic", "dispatch", "index", "index/reconcile"},
    "features": BELOW | JOBS | {"dispatch", "features"},
}

# One vendor library, one adapter. Headers of C, POSIX and Linux may be included anywhere.
VENDORS = {
    r"mysql|mysql/.*|mariadb/.*|errmsg|mysqld_error": ["scheduler/mysql/db_mysql*.c"],
    r"hiredis/.*|sds": ["scheduler/redis/redis_*.c"],
    r"librdkafka/.*": ["dispatcher/deliver/kafka/kafka_*.[ch]"],
    r"zookeeper/.*": ["dispatcher/election/zk.c"],
    r"yajl/.*": ["scheduler/base/text/json.c"],
    r"ini": ["scheduler/base/config.c", "api/cli/settings.c"],
    r"nghttp2/.*": ["scheduler/base/http/h2.c"],
    r"curl/.*": ["scheduler/base/http/http_curl*.c", "scheduler/base/http/callback_rules.c", "dispatcher/deliver/http/callback.c", "api/cli/rest_curl.c"],
    r"openssl/.*": ["scheduler/base/tls.c", "scheduler/redis/redis_connect.c", "api/request/auth.c", "api/request/cursor.c", "scheduler/base/http/tls_*.c", "scheduler/base/http/sock.c", "scheduler/base/http/webhook.c"],
    r"zlib": ["scheduler/job/shard.c"],
    r"xxhash": ["scheduler/job/shard.c", "scheduler/topic/owners.c", "scheduler/features/quotas/quotas_store.c", "scheduler/base/text/json.c", "scheduler/job/job_json.c", "api/rest/list_rest.c"],
    r"uthash|utlist": ["*"],
    r"systemd/.*": ["api/main.c", "dispatcher/main.c"],
    r"(arpa|linux|net|netinet|sys)/\w+": ["*"],
    r"assert|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal|stdalign|stdarg|stdatomic"
    r"|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath|threads|time|wchar|wctype": ["*"],
    r"dirent|dlfcn|endian|fcntl|fnmatch|getopt|glob|grp|ifaddrs|netdb|poll|pthread|pwd|regex|sched|semaphore|spawn"
    r"|strings|syslog|termios|unistd|wordexp": ["*"],
}

# What talks to one vendor's library may be longer, and so may what stands for one server in the simulator.
ADAPTERS = {"scheduler/mysql/db_mysql.c", "scheduler/base/text/json.c", "dispatcher/deliver/kafka/kafka_txn_producer.c",
            "tests/simulator/broker.c", "tests/simulator/mysql.c", "tests/simulator/redis.c", "tests/simulator/sql/sql_parse.c",
            "tests/simulator/sql/sql_run.c", "tests/simulator/oracles.c"}

# Who may ask for the time.
CLOCK_FILES = ["scheduler/base/clock.c", "api/main.c", "dispatcher/main.c"]

# Where SQL may stand in C: what a session says (mysql/), names that are no parameters (partitions), grants. Statements are in the *.sql of their subject.
SQL_IN_C = ("scheduler/mysql/*", "scheduler/job/archive/archive_days.c", "scheduler/events/events_store.c", "scheduler/store/store_schema.c")
