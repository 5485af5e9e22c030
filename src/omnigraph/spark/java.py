"""The Java process behind a Spark session of this process.

Promises that it says nothing on the terminal unless a log level was asked for, that its complaint
is read when it does not start, and that one which died is forgotten, so that another can start.
What PySpark keeps to itself about the process is named here and nowhere else.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from socket import create_connection
from typing import IO, TypeAlias

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from omnigraph.model.errors import UnavailableError
from omnigraph.model.limits import SPARK_CANCEL_WAIT_S
from omnigraph.spark.spark_errors import explain

Settle: TypeAlias = Callable[[Mapping[str, str], Mapping[str, str]], dict[str, str]]

_LOG_LEVEL = "spark.log.level"
_LOCAL_ADDRESS = "SPARK_LOCAL_IP"
_PYTHON = "PYSPARK_PYTHON"
_ANY_PYTHON = "python3"
_UNCAUGHT = 'Exception in thread "main" '

# What the start script or Java itself says, and what to do about it.
_ADVICE = (
    ("JAVA_HOME is not set", "Java is not installed; install Java 17 or newer"),
    (
        "bin/java: No such file",
        "there is no Java where JAVA_HOME points; Java 17 or newer is needed",
    ),
    ("UnsupportedClassVersionError", "this Java is too old; install Java 17 or newer"),
)


def is_stopped(spark: SparkSession) -> bool:
    """Whether a session of this process was stopped."""
    # A process has one context at a time, and its sessions end with it.
    return spark.sparkContext is not SparkContext._active_spark_context  # noqa: SLF001


def forget_dead_java() -> None:
    """Let PySpark start anew if its Java process has died: it would go on asking that one."""
    gateway = SparkContext._gateway  # noqa: SLF001
    child = None if gateway is None else gateway.proc
    if child is not None and _has_died(gateway):
        child.stdin.close()
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
        SparkContext._active_spark_context = None  # noqa: SLF001
        SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001


def _has_died(gateway: JavaGateway) -> bool:
    if gateway.proc.poll() is not None:
        return True
    try:
        at = gateway.gateway_parameters
        create_connection((at.address, at.port), timeout=SPARK_CANCEL_WAIT_S).close()
    except ConnectionError:
        # A process that is killed closes its sockets, and has not ended yet. Nobody else can reach
        # it any more, so it may as well be told so.
        gateway.proc.kill()
        gateway.proc.wait(timeout=SPARK_CANCEL_WAIT_S)
        return True
    return False


def start_classic_session(asked: Mapping[str, str], *, settle: Settle, python: str) -> SparkSession:
    """Start a session, and the Java process for it unless there is one.

    `settle` makes all settings out of those that were asked for and those that the process came
    with. Tasks run the given `python` if they run on this machine and nobody chose another.
    """
    with SparkContext._lock:  # noqa: SLF001  # two threads must not start two processes
        context = SparkContext._active_spark_context or _start_context(asked, settle, python)  # noqa: SLF001
    if str(context.master).startswith("local") and context.pythonExec == _ANY_PYTHON:
        context.pythonExec = python
    return SparkSession.builder.getOrCreate()


def _start_context(asked: Mapping[str, str], settle: Settle, python: str) -> SparkContext:
    gateway = SparkContext._gateway  # noqa: SLF001  # the process outlives its sessions
    if gateway is None:
        gateway = _launch(settle(asked, {}), python=python, is_quiet=_LOG_LEVEL not in asked)
    conf = SparkConf(_jvm=gateway.jvm)
    for name, value in settle(asked, dict(conf.getAll())).items():
        conf.set(name, value)
    return SparkContext(conf=conf, gateway=gateway)


def _launch(settings: Mapping[str, str], *, python: str, is_quiet: bool) -> JavaGateway:
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    is_local = settings["spark.master"].startswith("local")
    environment = _environment(python) if is_local else nullcontext()
    # Java and Spark write to the standard error before any log level holds. The file has no name;
    # Java keeps it open, and it is gone with the process.
    with environment, warnings.catch_warnings(), tempfile.TemporaryFile() as log:
        # Lance warns of forks; what PySpark forks does nothing but become Java.
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        options = {"stderr": log} if is_quiet else {}
        try:
            return launch_gateway(conf, options)  # type: ignore[no-untyped-call]  # it has no types
        except PySparkException as error:
            raise UnavailableError(action="start Spark", reason=_complaint(log)) from error


@contextmanager
def _environment(python: str) -> Iterator[None]:
    """Give Java started in the block what Spark takes from the environment and from nowhere else.

    The loopback address, because a machine whose name leads nowhere starts no Spark otherwise; and
    the Python in which Spark looks for data sources. What somebody chose stays.
    """
    wanted = {_LOCAL_ADDRESS: "127.0.0.1", _PYTHON: python}
    missing = {name: value for name, value in wanted.items() if not os.environ.get(name)}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


def _complaint(log: IO[bytes]) -> str:
    log.seek(0)
    text = log.read().decode(errors="replace")
    for words, advice in _ADVICE:
        if words in text:
            return advice
    _, _, thrown = text.rpartition(_UNCAUGHT)
    return f"its Java process ended: {explain(thrown)}"
