"""Spark sessions: the one that runs, or one made for this machine.

Promises that a session which somebody else started is used as it is, that one of ours starts
without a word on the terminal, and that a setting which cannot be had is refused rather than
ignored. Does not know what the session is for.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TypeGuard

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import (
    SPARK_CONNECT_RETRIES_MAX,
    SPARK_HEAP_BYTES_MAX,
    SPARK_HEAP_BYTES_MIN,
)
from omnigraph.spark.java import forget_dead_java, is_stopped, start_classic_session
from omnigraph.spark.spark_errors import spark_errors

_CONNECT = "pyspark.sql.connect.session"
_LOCAL = "local[*]"
_MASTER, _REMOTE = "spark.master", "spark.remote"


def session(master: str | None = None, **conf: object) -> SparkSession:
    """Return the running Spark session, or start one: on this machine unless `master` says where.

    A master of the form `sc://…` is a Spark Connect server. `conf` holds settings by their Spark
    names. A session that runs already takes the settings that Spark can still change; others are
    refused if they differ from what it has.
    """
    asked = _parse_settings(master, conf)
    running = _find_running()
    if running is not None:
        _require_settings(running, asked)
        return running
    with spark_errors(action="start Spark"):
        if _REMOTE in asked:
            return _connect(asked)
        return start_classic_session(asked, settle=_settle, python=sys.executable)


def find_session(given: object) -> SparkSession:
    """Return the session that was given, else the one that runs, else a new one on this machine."""
    if given is None:
        return session()
    forget_dead_java()
    if not _is_session(given):
        problem = f"a Spark session is needed, not {type(given).__name__}"
    elif not _is_running(given):
        problem = "this Spark session was stopped; give one that runs, or none"
    else:
        return given
    raise InvalidValueError(
        subject="spark", expected="a running Spark session", value=given, problem=problem
    )


def is_connect(spark: object) -> bool:
    """Whether a session talks to a Spark Connect server."""
    # Its module takes a second to import, and nobody has such a session without having done it.
    module = sys.modules.get(_CONNECT)
    return module is not None and isinstance(spark, module.SparkSession)


def local_settings(*, cores: int, memory_bytes: int) -> dict[str, str]:
    """The settings of a session on one machine that has so many cores and so much memory."""
    heap_bytes = min(max(memory_bytes // 4, SPARK_HEAP_BYTES_MIN), SPARK_HEAP_BYTES_MAX)
    return {
        # Rows do not pass through Java, keys do; more than this they are spilled to disk.
        "spark.driver.memory": f"{heap_bytes >> 20}m",
        # The garbage collectors for many cores want cores, and a heap this small needs none.
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": str(2 * cores),
        # Keys are short, so more of them than Spark's own 10,000 go to Python at a time.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # A machine whose own name leads nowhere still has this address.
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }


def _settle(asked: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """All settings of a new session; `given` are those that its Java process came with."""
    wanted = {
        _MASTER: _LOCAL,
        "spark.app.name": "omnigraph",
        # Where in Python each expression was written is not worth what noting it costs.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    master = {**wanted, **given, **asked}[_MASTER]
    if master.startswith("local"):
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        wanted |= local_settings(cores=_cores(master), memory_bytes=memory_bytes)
    return {**wanted, **given, **asked}


def _cores(master: str) -> int:
    """How many tasks a local master runs at a time."""
    counts = [int(digits) for digits in re.findall(r"\d+", master)]
    if master.startswith("local-cluster") and len(counts) == 3:
        return counts[0] * counts[1]
    if master.startswith("local[") and not master.startswith("local[*"):
        return counts[0] if counts else 1
    return 1 if master == "local" else os.cpu_count() or 1


def _parse_settings(master: str | None, conf: Mapping[str, object]) -> dict[str, str]:
    asked = {name: _parse_setting(name, value) for name, value in conf.items()}
    if master is not None:
        name = _REMOTE if master.startswith("sc://") else _MASTER
        asked[name] = _parse_setting(name, master)
    if _REMOTE in asked and _MASTER in asked:
        raise _refused(_MASTER, asked[_MASTER], "a session has a master or a server, not both")
    return asked


def _parse_setting(name: str, value: object) -> str:
    if not name.startswith("spark."):
        raise _refused(name, value, "no setting of Spark: their names begin with `spark.`")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise _refused(name, value, "a setting is a text, a number, or true or false")


def _find_running() -> SparkSession | None:
    forget_dead_java()
    try:
        found = SparkSession.active()
    except PySparkException:
        return None
    return found if _is_running(found) else None


def _is_session(given: object) -> TypeGuard[SparkSession]:
    # Classic and Connect have a class each, and neither is a kind of the other.
    return isinstance(given, SparkSession) or is_connect(given)


def _is_running(spark: SparkSession) -> bool:
    if is_connect(spark):
        return not spark.is_stopped  # type: ignore[attr-defined]  # only the class of Connect has it
    return not is_stopped(spark)


def _connect(asked: Mapping[str, str]) -> SparkSession:
    spark = SparkSession.builder.remote(asked[_REMOTE]).getOrCreate()
    patient = spark.client.get_retry_policies()
    # PySpark tries a server that is not there for ten minutes; one that was there may come back.
    hasty = [type(policy)(max_retries=SPARK_CONNECT_RETRIES_MAX) for policy in patient]
    spark.client.set_retry_policies(hasty)
    is_there = False
    try:
        is_there = bool(spark.version)
        _require_settings(spark, asked)
    finally:
        spark.client.set_retry_policies(patient if is_there else [])
        if not is_there:
            spark.stop()
    return spark


def _require_settings(running: SparkSession, asked: Mapping[str, str]) -> None:
    for name, value in asked.items():
        with spark_errors(action="read the settings of the running Spark session"):
            current = _find_setting(running, name)
            can_change = running.conf.isModifiable(name)
        if current == value:
            continue
        if not can_change:
            shown = "does not have it" if current is None else f"has {current}"
            problem = f"the Spark session that runs {shown}; stop it first, or leave this out"
            raise _refused(name, value, problem)
        running.conf.set(name, value)


def _find_setting(running: SparkSession, name: str) -> str | None:
    if name == _REMOTE and is_connect(running):
        builder = running.client._builder  # noqa: SLF001  # told nowhere else
        return f"sc://{builder.endpoint}"  # type: ignore[attr-defined]  # the default builder has it
    return running.conf.get(name, None)


def _refused(name: str, value: object, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=name, expected="a setting of Spark", value=value, problem=problem
    )
