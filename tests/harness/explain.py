"""How MySQL would carry out what the product asks: its statements are caught in the server's general log and explained.

Owns the judgement of a plan. The product asks by prepared statements, which the log calls Execute and shows with their values; what tests
ask themselves is Query, and is left out. The product's scans of the due index are Query as well: they are known by the index that they
name. Of the big tables (those that grow with the jobs) a plan must read neither all rows, nor a whole index, nor more than a batch without
a limit, and sort no more than a batch. A statement that reads a range of one must name its index: which one the optimizer would take
depends on statistics, and it was seen taking the wrong one.
"""
import contextlib
import re

import pymysql

BATCH = 10000  # what one statement may look at: the reconciler's slice, a page of a list
SAMPLES = 3    # of one statement, with different values

VALUE = re.compile(rb"""'(?:[^'\\]|\\.|'')*'|\b-?\d+\b|\bNULL\b""")
OPEN = re.compile(rb"""\?(?=(?:[^']*'[^']*')*[^']*$)""")  # outside of quotes
LIST = re.compile(rb"\(\s*\?(?:\s*,\s*\?)+\s*\)")
NAMED = re.compile(r"\b(?:FROM|JOIN|UPDATE|INTO|TABLE)\s+(\w+)(?:\s+(?:AS\s+)?(?!FORCE\b|SET\b|WHERE\b|STRAIGHT_JOIN\b|LEFT\b|JOIN\b|ON\b|ORDER\b|LIMIT\b|VALUES\b"
                   r"|SELECT\b|PARTITION\b|USE\b|IGNORE\b|GROUP\b|FOR\b|UNION\b|USING\b)(\w+))?", re.I)


def shape(sql):
    """The statement without its values: what makes two of them the same."""
    return LIST.sub(b"(?)", VALUE.sub(b"?", re.sub(rb"\s+", b" ", sql))).strip()


@contextlib.contextmanager
def caught(connection):
    """{shape: [statements]} of what was executed while the block ran, filled when it ends."""
    found = {}
    with connection.cursor() as cursor:
        cursor.execute("SET GLOBAL general_log = 0")
        cursor.execute("TRUNCATE mysql.general_log")
        cursor.execute("SET GLOBAL log_output = 'TABLE'")
        cursor.execute("SET GLOBAL general_log = 1")
    try:
        yield found
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET GLOBAL general_log = 0")
            cursor.execute("SET GLOBAL log_output = 'FILE'")
    with connection.cursor(pymysql.cursors.SSCursor) as cursor:
        cursor.execute("SELECT CAST(argument AS BINARY) FROM mysql.general_log WHERE command_type = 'Execute'"
                       " OR (command_type = 'Query' AND argument LIKE 'SELECT %FORCE INDEX (due)%')")
        for (sql,) in cursor:
            keep(found.setdefault(shape(sql), []), sql)
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE mysql.general_log")


def keep(samples, sql):
    """The longest, that is the largest batch, and the latest ones."""
    samples.append(sql)
    if len(samples) > SAMPLES:
        samples.sort(key=len)
        del samples[0]


def tables_by_alias(sql):
    found = {}
    for table, alias in NAMED.findall(sql):
        found[alias or table] = table
    return found


def with_values(sql):
    """A statement whose values the log (or the source) leaves open, with values made up."""
    sql = re.sub(rb"\b(LIMIT|OFFSET)\s+\?", rb"\1 1", re.sub(rb"JSON_TABLE\(\s*\?", b"JSON_TABLE('[[1,1,1,1]]'", sql))
    return OPEN.sub(b"'1'", sql)  # as text: a number beside a column of bytes would cost its index


def plan(connection, sql):
    """The rows of EXPLAIN; none of an INSERT of given values, which reads nothing."""
    if re.match(rb"(INSERT|REPLACE)\b(?!.*\bSELECT\b)", sql, re.S | re.I):
        return []
    with connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(b"EXPLAIN " + with_values(sql))
        return cursor.fetchall()


def judge(plan_rows, text, big):
    """What is wrong with the plan of a statement, as sentences. `big`: the names of the big tables."""
    aliases, problems = tables_by_alias(text), []
    limited = re.search(r"\bLIMIT\b", text) is not None
    for row in plan_rows:
        name, rows, extra = aliases.get(row["table"] or "", row["table"] or ""), int(row["rows"] or 0), row["Extra"] or ""
        if name in big and row["type"] == "ALL":
            problems.append(f"a full scan of {name}")
        if name in big and row["type"] == "index":
            problems.append(f"a scan of the whole index {row['key']} of {name}")
        chosen = row["type"] in ("range", "index_merge") or row["type"] == "ref" and row["key"] != "PRIMARY"
        if name in big and chosen and (rows > 1 or limited) and not re.search(rf"\b{name}\b[^,()]{{0,40}}FORCE INDEX", text):
            problems.append(f"the index of {name} is left to the optimizer")
        if name in big and rows > BATCH and not limited:
            problems.append(f"{rows} rows of {name} without a limit")
        grouped = "Using temporary" in extra and re.search(r"\bGROUP BY\b", text)  # what is sorted then are the groups, not the rows
        if "Using filesort" in extra and rows > BATCH and not grouped:
            problems.append(f"a filesort of {rows} rows ({name})")
    return problems


def examine(connection, statements, big):
    """[(problem, statement)] over all samples of all shapes that name a big table; and how many shapes those were."""
    found, shapes = [], 0
    for samples in statements.values():
        texts = [(sql, sql.decode("utf-8", "replace")) for sql in samples]
        if not big & set(tables_by_alias(texts[0][1]).values()):
            continue
        shapes += 1
        for sql, text in texts:
            try:
                found += [(problem, text) for problem in judge(plan(connection, sql), text, big)]
            except pymysql.MySQLError as error:
                found.append((str(error), text))
    return found, shapes
