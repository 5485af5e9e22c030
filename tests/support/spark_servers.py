"""Sparks beside the test's own, for tests: a Spark Connect server, and a cluster on this machine.

Guarantees that what was started has ended when the block ends, Java and Python workers alike, and
that it listens on the loopback address only. A process holds one classic session, and Spark Connect
changes what `pyspark` means in it, so what runs there is a script in a process of its own.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pyspark

from tests.support.source_tree import ROOT

CLUSTER_MASTER = "local-cluster[2,1,1024]"

_SPARK = Path(pyspark.__file__).parent
_SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_SECONDS_MAX = 120
_RUN_SECONDS_MAX = 300
_SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "4",
    "spark.connect.grpc.binding.address": "127.0.0.1",
}


@contextmanager
def connect_server() -> Iterator[str]:
    """A Spark Connect server with two cores; yields the address that a session takes as master."""
    port = _free_port()
    settings = _SETTINGS | {"spark.connect.grpc.binding.port": str(port)}
    options = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    command = (str(_SPARK / "bin" / "spark-submit"), "--class", _SERVER_CLASS, *options)
    with tempfile.TemporaryFile() as log, _started(command, log=log) as server:
        _await_server(server, port=port, log=log)
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def local_cluster(script: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs a script whose first argument is a cluster's master.

    The cluster starts when the script starts a session there: two executors, processes of their
    own, of one core and 1 GiB each.
    """
    with tempfile.TemporaryDirectory() as home:
        # Executors work below the folder that Spark lives in, and leave everything there.
        for part in _SPARK.iterdir():
            (Path(home) / part.name).symlink_to(part)
        prefix = ("env", f"SPARK_HOME={home}")
        with started_script(script, CLUSTER_MASTER, *arguments, prefix=prefix) as driver:
            yield driver


def run_on_cluster(script: str, *arguments: str) -> str:
    """What a script prints that gets a cluster's master as its first argument."""
    with local_cluster(script, *arguments) as driver:
        return printed_by(driver)


@contextmanager
def started_script(
    script: str, *arguments: str, prefix: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """A process for a script with a session of its own; a process group, as a terminal has it."""
    command = (*prefix, sys.executable, "-c", script, *arguments)
    with _started(command, log=subprocess.PIPE) as child:
        yield child


def run_script(script: str, *arguments: str, prefix: Sequence[str] = ()) -> str:
    """What a script prints that has a session of its own, complaints among it."""
    with started_script(script, *arguments, prefix=prefix) as child:
        return printed_by(child)


def printed_by(child: subprocess.Popen[bytes]) -> str:
    """Everything that a process prints until its end; fails if it fails."""
    printed, _ = child.communicate(timeout=_RUN_SECONDS_MAX)
    assert child.returncode == 0, printed.decode(errors="replace")
    return printed.decode()


@contextmanager
def _started(command: Sequence[str], *, log: IO[bytes] | int) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose words go to the log; killed at the end, with all that it has started."""
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        # Executors start elsewhere, and tests are not installed.
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "SPARK_CONNECT_MODE": "0",
    }
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as child:
        try:
            yield child
        finally:
            # Executors are processes of the group; Python workers end when their executor does.
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        _, port = listener.getsockname()
    assert isinstance(port, int)
    return port


def _await_server(server: subprocess.Popen[bytes], *, port: int, log: IO[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as caller:
            if caller.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    log.seek(0)
    raise AssertionError(f"no server: {log.read().decode(errors='replace')[-4000:]}")
