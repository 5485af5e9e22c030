"""Spark sessions and the Java process behind them.

A running session is used as it is, and a setting that it cannot take is rejected. A session started
here prints nothing unless a log level is set, and a failed start reports the error of Java. All
PySpark internals that the project depends on for this are named here. What a session is used for is
not known here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from socket import create_connection
from typing import IO, TypeGuard

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from omnigraph.model.errors import InvalidValueError, UnavailableError
from omnigraph.model.limits import (
    SPARK_CANCEL_WAIT_S,
    SPARK_CONNECT_RETRIES_MAX,
    SPARK_HEAP_BYTES_MAX,
    SPARK_HEAP_BYTES_MIN,
    SPARK_PYTHON_START_S_MAX,
)
from omnigraph.spark.errors import explain, spark_errors

_PYTHON_VARIABLE = "PYSPARK_PYTHON"

# Error text of the start script or of Java, and the advice for each.
_ADVICE = (
    ("JAVA_HOME is not set", "Java is not installed; install Java 17 or newer"),
    (
        "bin/java: No such file",
        "there is no Java where JAVA_HOME points; Java 17 or newer is needed",
    ),
    ("UnsupportedClassVersionError", "this Java is too old; install Java 17 or newer"),
)


def reset_dead_gateway() -> None:
    """Reset PySpark if its Java process has died.

    Otherwise PySpark continues to call the dead process and cannot start a new one.
    """
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
        # A killed process closes its sockets before it ends. No other client can reach it any more,
        # so it is killed here.
        gateway.proc.kill()
        gateway.proc.wait(timeout=SPARK_CANCEL_WAIT_S)
        return True
    return False


def _start_session(requested: Mapping[str, str], *, python: str) -> SparkSession:
    """Start a session, and its Java process unless one is running.

    Tasks on this machine run the given `python` unless another one is configured.
    """
    with SparkContext._lock:  # noqa: SLF001  # two threads must not start two processes
        context = SparkContext._active_spark_context or _start_context(requested, python)  # noqa: SLF001
    if str(context.master).startswith("local") and context.pythonExec == "python3":
        context.pythonExec = python
    return SparkSession.builder.getOrCreate()


def _start_context(requested: Mapping[str, str], python: str) -> SparkContext:
    gateway = SparkContext._gateway  # noqa: SLF001  # the process outlives its sessions
    if gateway is None:
        settings = _resolve_settings(requested, {})
        gateway = _launch(settings, python=python, is_quiet="spark.log.level" not in requested)
    conf = SparkConf(_jvm=gateway.jvm)
    for name, value in _resolve_settings(requested, dict(conf.getAll())).items():
        conf.set(name, value)
    return SparkContext(conf=conf, gateway=gateway)


def _launch(settings: Mapping[str, str], *, python: str, is_quiet: bool) -> JavaGateway:
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    is_local = settings["spark.master"].startswith("local")
    environment = _environment(python) if is_local else nullcontext()
    # Java and Spark write to standard error before any log level applies. The file has no name;
    # Java holds it open, and it is deleted when the process ends.
    with environment, warnings.catch_warnings(), tempfile.TemporaryFile() as log:
        # Lance warns about forks, but the process that PySpark forks only executes Java.
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        options = {"stderr": log} if is_quiet else {}
        try:
            return launch_gateway(conf, options)  # type: ignore[no-untyped-call]  # it has no types
        except PySparkException as error:
            raise UnavailableError(action="start Spark", reason=_start_error(log)) from error


@contextmanager
def _environment(python: str) -> Iterator[None]:
    """Set the environment variables that Spark reads only from the environment, for the block.

    They are the loopback address, because Spark does not start on a machine whose host name cannot
    be resolved, and the Python in which Spark searches for data sources. Variables that are already
    set are not changed.
    """
    wanted = {"SPARK_LOCAL_IP": "127.0.0.1", _PYTHON_VARIABLE: python}
    missing = {name: value for name, value in wanted.items() if not os.environ.get(name)}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


def _start_error(log: IO[bytes]) -> str:
    log.seek(0)
    text = log.read().decode(errors="replace")
    for words, advice in _ADVICE:
        if words in text:
            return advice
    _, _, thrown = text.rpartition('Exception in thread "main" ')
    return f"its Java process ended: {explain(thrown)}"


_MASTER, _REMOTE = "spark.master", "spark.remote"
_PYTHON = "spark.pyspark.python"

_WORKER_MODULES = ("omnigraph", "numpy", "obstore", "orjson", "pyarrow")
"""Modules that the workers import first; a Python that has them has this package installed."""

_PRINT_MISSING = """
import sys
from importlib.util import find_spec
version = "%d.%d" % sys.version_info[:2]
missing = [name for name in sys.argv[2:] if find_spec(name) is None]
print("\\n".join(missing if version == sys.argv[1] else ["Python " + sys.argv[1]]))
"""


def session(master: str | None = None, **conf: object) -> SparkSession:
    """Return the running Spark session, or start one, on this machine unless `master` is given.

    A master of the form `sc://…` is a Spark Connect server. `conf` holds settings by their Spark
    names. On a running session, settings that Spark can still change are applied; others are
    rejected if they differ from the current value. A session whose Python workers do not have this
    package is rejected.
    """
    requested = _parse_settings(master, conf)
    running = _find_running()
    if running is not None:
        _require_settings(running, requested)
        require_workers(running)
        return running
    return _start(requested)


def find_session(given: object) -> SparkSession:
    """Return the given session, else the running one, else a new one on this machine."""
    reset_dead_gateway()
    if given is None:
        return _find_running() or _start({})
    if not _is_session(given):
        problem = f"a Spark session is needed, not {type(given).__name__}"
    elif not _is_running(given):
        problem = "this Spark session was stopped; give one that runs, or none"
    else:
        return given
    raise InvalidValueError(
        subject="spark", expected="a running Spark session", value=given, problem=problem
    )


def find_working_session(given: object) -> SparkSession:
    """Return the session as `find_session` does, and require that its workers have this package."""
    found = find_session(given)
    require_workers(found)
    return found


def require_same_session(given: object, running: SparkSession) -> None:
    """Reject a session other than the one that computes some rows; None is that one."""
    if given is not None and given is not running:
        raise InvalidValueError(
            subject="session",
            expected="the session of the query or analysis",
            value=given,
            problem="the rows are computed in another session; pass that one or none",
        )


def require_workers(spark: SparkSession) -> None:
    """Reject a session whose Python workers cannot import this package, before a task fails.

    On one machine the Python of the workers is run directly, because a failing task prints a stack
    trace before its error can be translated. Workers behind a Spark Connect server are not checked,
    because it runs queries only; the error of a query there is translated.
    """
    if is_connect(spark):
        return
    context = spark.sparkContext
    is_local = str(context.master).startswith("local")
    if not is_local:
        with spark_errors(action="list the modules of Spark's Python workers"):
            found = context.parallelize(_WORKER_MODULES, 1).map(find_spec).map(bool).collect()
        missing = [
            name for name, is_found in zip(_WORKER_MODULES, found, strict=True) if not is_found
        ]
        advice = "install omnigraph on every executor, for the Python that PYSPARK_PYTHON names"
    elif _is_this_python(context.pythonExec):
        return
    else:
        missing = _find_missing(context.pythonExec)
        advice = (
            "before the first Spark session of this process starts, set: "
            f'os.environ["PYSPARK_PYTHON"] = "{sys.executable}"'
        )
    if missing:
        raise UnavailableError(
            action="use this Spark session",
            reason=f"its Python workers run {context.pythonExec}, which does not have "
            f"{', '.join(missing)}; {advice}",
        )


def is_connect(spark: object) -> bool:
    """Whether a session talks to a Spark Connect server."""
    # The module takes a second to import, and a Connect session exists only if it was imported.
    module = sys.modules.get("pyspark.sql.connect.session")
    return module is not None and isinstance(spark, module.SparkSession)


def local_settings(*, cores: int, memory_bytes: int) -> dict[str, str]:
    """The settings of a session on one machine with the given cores and memory."""
    heap_bytes = min(max(memory_bytes // 4, SPARK_HEAP_BYTES_MIN), SPARK_HEAP_BYTES_MAX)
    return {
        # Keys pass through Java, rows do not; keys beyond this size are spilled to disk.
        "spark.driver.memory": f"{heap_bytes >> 20}m",
        # Parallel garbage collectors use extra cores, which a heap this small does not need.
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": str(2 * cores),
        # Keys are short, so more of them than Spark's default of 10,000 go to Python per batch.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # This address works even if the host name of the machine cannot be resolved.
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }


def _start(requested: Mapping[str, str]) -> SparkSession:
    with spark_errors(action="start Spark"):
        if _REMOTE in requested:
            return _connect(requested)
        python = requested.get(_PYTHON, sys.executable)
        started = _start_session(requested, python=python)
    if _PYTHON in requested:
        # Only `spark-submit` applies this setting by itself.
        started.sparkContext.pythonExec = python
    try:
        require_workers(started)
    except UnavailableError:
        started.stop()
        raise
    java = started.sparkContext._jvm  # noqa: SLF001
    assert java is not None, "a session that runs has a process"
    if not java.System.getenv(_PYTHON_VARIABLE):
        # Java reads from its start environment which Python to search for data sources, and an
        # earlier session may have started the process without it.
        started.dataSource.register(import_module("pyspark_omnigraph").DefaultSource)
    return started


def _is_this_python(name: str) -> bool:
    """Whether a command is the Python of this process, possibly under another of its names."""
    found = shutil.which(name)
    if found is None:
        return False
    # All virtual environments resolve to the same file; the folder identifies each.
    here, there = Path(sys.executable), Path(found)
    return (here.parent, here.resolve()) == (there.parent, there.resolve())


def _find_missing(python: str) -> list[str]:
    """What a Python of this machine lacks: this Python version, or modules of the workers."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        requested = subprocess.run(
            [python, "-c", _PRINT_MISSING, version, *_WORKER_MODULES],
            capture_output=True,
            text=True,
            timeout=SPARK_PYTHON_START_S_MAX,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return list(_WORKER_MODULES)
    return requested.stdout.splitlines()


def _resolve_settings(requested: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """All settings of a new session; `given` are the settings of its Java process."""
    wanted = {
        _MASTER: "local[*]",
        "spark.app.name": "omnigraph",
        # Recording where in Python each expression was written is not worth its cost.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    master = {**wanted, **given, **requested}[_MASTER]
    if master.startswith("local"):
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        wanted |= local_settings(cores=_cores(master), memory_bytes=memory_bytes)
    return {**wanted, **given, **requested}


def _cores(master: str) -> int:
    """The number of tasks that a local master runs at a time."""
    counts = [int(digits) for digits in re.findall(r"\d+", master)]
    if master.startswith("local-cluster") and len(counts) == 3:
        return counts[0] * counts[1]
    if master.startswith("local[") and not master.startswith("local[*"):
        return counts[0] if counts else 1
    return 1 if master == "local" else os.cpu_count() or 1


def _parse_settings(master: str | None, conf: Mapping[str, object]) -> dict[str, str]:
    requested = {name: _parse_setting(name, value) for name, value in conf.items()}
    if master is not None:
        name = _REMOTE if master.startswith("sc://") else _MASTER
        requested[name] = _parse_setting(name, master)
    if _REMOTE in requested and _MASTER in requested:
        raise _refused(_MASTER, requested[_MASTER], "a session has a master or a server, not both")
    return requested


def _parse_setting(name: str, value: object) -> str:
    if not name.startswith("spark."):
        raise _refused(name, value, "not a Spark setting; names start with `spark.`")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise _refused(name, value, "a setting must be a string, a number or a boolean")


def _find_running() -> SparkSession | None:
    reset_dead_gateway()
    try:
        found = SparkSession.active()
    except PySparkException:
        return None
    return found if _is_running(found) else None


def _is_session(given: object) -> TypeGuard[SparkSession]:
    # Classic and Connect have separate session classes, and neither is a subclass of the other.
    return isinstance(given, SparkSession) or is_connect(given)


def _is_running(spark: SparkSession) -> bool:
    if is_connect(spark):
        return not spark.is_stopped  # type: ignore[attr-defined]  # only Connect has it
    # A process has one context at a time, and its sessions end with it.
    return spark.sparkContext is SparkContext._active_spark_context  # noqa: SLF001


def _connect(requested: Mapping[str, str]) -> SparkSession:
    spark = SparkSession.builder.remote(requested[_REMOTE]).getOrCreate()
    patient = spark.client.get_retry_policies()
    # PySpark retries an unreachable server for ten minutes. The short policy applies only to the
    # first contact; a server that has answered may come back.
    hasty = [type(policy)(max_retries=SPARK_CONNECT_RETRIES_MAX) for policy in patient]
    spark.client.set_retry_policies(hasty)
    is_there = False
    try:
        is_there = bool(spark.version)
        _require_settings(spark, requested)
    finally:
        spark.client.set_retry_policies(patient if is_there else [])
        if not is_there:
            spark.stop()
    return spark


def _require_settings(running: SparkSession, requested: Mapping[str, str]) -> None:
    for name, value in requested.items():
        with spark_errors(action="read the settings of the running Spark session"):
            current: str | None
            if name == _REMOTE and is_connect(running):
                builder = running.client._builder  # noqa: SLF001  # available nowhere else
                current = f"sc://{builder.endpoint}"  # type: ignore[attr-defined]  # default builder has it
            else:
                current = running.conf.get(name, None)
            can_change = running.conf.isModifiable(name)
        if current == value:
            continue
        if not can_change:
            shown = "does not have it" if current is None else f"has {current}"
            problem = f"the running Spark session {shown}; stop it first, or omit this setting"
            raise _refused(name, value, problem)
        running.conf.set(name, value)


def _refused(name: str, value: object, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=name, expected="a setting of Spark", value=value, problem=problem
    )
