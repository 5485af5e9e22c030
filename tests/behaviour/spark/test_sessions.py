"""Spark sessions, the jobs that run in them, and the cancellation of jobs.

A test that kills Java, needs another master or receives a signal runs in a process of its own.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from omnigraph.model.errors import InvalidValueError, KeyConflictError, UnavailableError
from omnigraph.spark import session
from omnigraph.spark.jobs import run_job
from omnigraph.spark.sessions import find_session
from tests.support.spark import (
    await_that,
    beating,
    dying,
    failing,
    has_pulse,
    no_progress,
    pulses,
    refusing,
    slowly,
    tasks,
    waiting_for,
)
from tests.support.spark_servers import (
    connect_server,
    printed_by,
    run_on_cluster,
    run_script,
    started_script,
)

NAMELESS = ("unshare", "--uts", "sh", "-c", 'hostname nowhere-at-all && exec "$@"', "sh")

START = """
import sys
from omnigraph.errors import UnavailableError
from omnigraph.spark import session
try:
    spark = session(*sys.argv[1:])
    print(spark.range(3).count())
    spark.stop()
except UnavailableError as error:
    print(error)
"""

WITHOUT_PYSPARK = """
import sys
import omnigraph.spark
from omnigraph.errors import UnavailableError
print("pyspark" in sys.modules)
sys.modules["pyspark"] = None
try:
    omnigraph.spark.session()
except UnavailableError as error:
    print(error)
"""

JOURNEY = """
import sys
from omnigraph.errors import GraphError
from omnigraph.spark import session
from omnigraph.spark.jobs import run_job
from tests.support.spark import no_progress, refusing, slowly, tasks

reported = []
spark = session(sys.argv[1])
found = run_job(
    spark, tasks(spark, slowly).toArrow, stage="rows", progress=lambda *one: reported.append(one)
)
print(found.num_rows, reported[0], reported[-1])
try:
    run_job(spark, tasks(spark, refusing).toArrow, stage="rows", progress=no_progress)
except GraphError as error:
    print(type(error).__name__, error)
print(session() is spark, session(sys.argv[1]) is spark)
spark.stop()
"""

TRAVELLED = """\
2 ('rows', 0, None) ('rows', 2, 2)
KeyConflictError Person 'Ann 1' already exists; to replace it, load with mode "merge"
True True
"""

USE = """
import sys
import omnigraph
from omnigraph.spark import session
from pyspark.sql import SparkSession

def attempt(action):
    try:
        print("done", action())
    except omnigraph.errors.GraphError as error:
        print("refused", error)

def read():
    found = spark.read.format("omnigraph").option("type", "Person").load(graph.uri)
    return sorted(row.name for row in found.collect())

graph = omnigraph.init(sys.argv[1], schema="node Person { name: String @key }")
"""

USE_OURS = (
    USE
    + """
spark = session("local[2]")
people = spark.createDataFrame([("Ann",)], "name string")
people.write.format("omnigraph").option("type", "Person").mode("append").save(graph.uri)
attempt(lambda: graph.load({"Person": [{"name": "Bob"}]}, mode="append", engine="spark").engine)
attempt(read)
"""
)

USE_PLAIN = (
    USE
    + """
builder = SparkSession.builder.master("local[2]").config("spark.driver.host", "127.0.0.1")
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
attempt(session)
attempt(lambda: graph.load({"Person": [{"name": "Ann"}]}, mode="append", engine="spark"))
attempt(lambda: graph.query("query q() { match { $p: Person } return { $p } }", engine="spark"))
spark.stop()
spark = session("local[2]")
attempt(lambda: graph.load({"Person": [{"name": "Cyd"}]}, mode="append", engine="spark").engine)
attempt(read)
"""
)

USE_CHOSEN = (
    USE
    + """
attempt(lambda: session("local[2]"))
attempt(lambda: graph.load({"Person": [{"name": "Ann"}]}, mode="append", engine="spark"))
print(SparkSession.getActiveSession())
"""
)

INTERRUPTED = """
import sys
from pathlib import Path
from omnigraph.spark import session
from omnigraph.spark.jobs import run_job
from tests.support.spark import await_that, beating, has_pulse, no_progress, tasks

spark = session(sys.argv[1])
frame = tasks(spark, beating(Path(sys.argv[2])))
try:
    run_job(spark, frame.toArrow, stage="rows", progress=no_progress)
except KeyboardInterrupt:
    print("interrupted")
if sys.argv[1].startswith("sc:"):
    await_that(lambda: not has_pulse(Path(sys.argv[2])))
print("runs on" if has_pulse(Path(sys.argv[2])) else "ended")
print(run_job(spark, spark.range(3).count, stage="count", progress=no_progress))
spark.stop()
"""

KILLED = """
import os, signal, sys, threading
from pathlib import Path
from omnigraph.errors import GraphError
from omnigraph.spark import session
from omnigraph.spark.jobs import run_job
from omnigraph.spark.sessions import find_session
from tests.support.spark import await_that, beating, no_progress, pulses, tasks

folder = Path(sys.argv[1])
spark = session("local[2]")
java = spark.sparkContext._gateway.proc.pid

def kill():
    await_that(lambda: len(pulses(folder)) == 2)
    os.kill(java, signal.SIGKILL)

threading.Thread(target=kill).start()
for action in (
    lambda: run_job(
        spark, tasks(spark, beating(folder)).toArrow, stage="rows", progress=no_progress
    ),
    lambda: find_session(spark),
):
    try:
        action()
    except GraphError as error:
        print(error)
print(find_session(None).range(3).count())
"""


class TooFarError(ConnectionError):
    """The error of a progress callback, as if it wrote to a closed pipe."""


def test_a_session_that_runs_is_used_as_it_is(spark: SparkSession) -> None:
    found = [session(), session("local[2]"), find_session(None), find_session(spark)]

    assert all(each is spark for each in found)


def test_an_invalid_session_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidValueError, match="a Spark session is needed, not str"):
        find_session(str(spark))


@pytest.mark.parametrize(
    ("name", "value"),
    [("spark.master", "local[3]"), ("spark.driver.memory", "3g"), ("spark.remote", "sc://a")],
)
def test_a_setting_after_startup_is_refused(spark: SparkSession, name: str, value: str) -> None:
    with pytest.raises(InvalidValueError, match=f"{name}: the running Spark session"):
        session(**{name: value})

    assert session() is spark


def test_a_setting_that_can_still_be_changed_is_changed(spark: SparkSession) -> None:
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)

    found = session(**{name: "7"})

    assert found is spark
    assert spark.conf.get(name) == "7"
    spark.conf.set(name, str(before))


def test_a_job_reports_its_completed_tasks(spark: SparkSession) -> None:
    reported: list[tuple[str, int, int | None]] = []
    threads: set[int] = set()

    def progress(stage: str, done: int, total: int | None) -> None:
        reported.append((stage, done, total))
        threads.add(threading.get_ident())

    frame = tasks(spark, slowly, count=6)
    found = run_job(spark, frame.toArrow, stage="rows", progress=progress)

    assert found.num_rows == 6
    assert reported[0] == ("rows", 0, None)
    assert reported[-1] == ("rows", 6, 6)
    assert any(0 < done < 6 for _, done, _ in reported)
    assert [done for _, done, _ in reported] == sorted(done for _, done, _ in reported)
    assert threads == {threading.get_ident()}


def test_a_failed_task_is_reported_in_one_line(spark: SparkSession) -> None:
    with pytest.raises(UnavailableError) as raised:
        run_job(spark, tasks(spark, failing).toArrow, stage="rows", progress=no_progress)

    assert str(raised.value) == (
        "cannot finish 'rows' on Spark, so the graph is unchanged: "
        "ValueError: no row is good enough"
    )


def test_an_omnigraph_error_in_a_task_keeps_its_class(spark: SparkSession) -> None:
    with pytest.raises(KeyConflictError) as raised:
        run_job(spark, tasks(spark, refusing).toArrow, stage="rows", progress=no_progress)

    assert (raised.value.type, raised.value.id) == ("Person", "Ann 1")


def test_a_worker_that_dies_fails_the_job_and_not_the_session(spark: SparkSession) -> None:
    with pytest.raises(UnavailableError, match="a Python worker of Spark ended"):
        run_job(spark, tasks(spark, dying).toArrow, stage="rows", progress=no_progress)

    assert run_job(spark, spark.range(3).count, stage="count", progress=no_progress) == 3


def test_progress_that_raises_cancels_the_job(spark: SparkSession, tmp_path: Path) -> None:
    def progress(_stage: str, _done: int, total: int | None) -> None:
        if total:
            await_that(lambda: len(pulses(tmp_path)) == 2)
            raise TooFarError

    with pytest.raises(TooFarError):
        run_job(spark, tasks(spark, beating(tmp_path)).toArrow, stage="rows", progress=progress)

    assert not has_pulse(tmp_path)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


def test_cancelling_a_job_does_not_affect_others(spark: SparkSession, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    other = tasks(spark, waiting_for(go_on), count=1)
    given_up = tasks(spark, beating(tmp_path), count=1)

    def progress(_stage: str, _done: int, total: int | None) -> None:
        if total:
            await_that(lambda: len(pulses(tmp_path)) == 1)
            raise TooFarError

    with ThreadPoolExecutor() as threads:
        finished = threads.submit(
            run_job, spark, other.toArrow, stage="other rows", progress=no_progress
        )
        await_that(go_on.with_suffix(".waiting").exists)
        with pytest.raises(TooFarError):
            run_job(spark, given_up.toArrow, stage="rows", progress=progress)
        go_on.touch()

    assert finished.result().num_rows == 1


def test_an_interrupt_ends_the_job_and_keeps_the_session(tmp_path: Path) -> None:
    assert _interrupted("local[2]", tmp_path) == "interrupted\nended\n3\n"


def test_a_session_starts_without_output_on_a_machine_without_a_name() -> None:
    if not shutil.which("unshare") or subprocess.run([*NAMELESS, "true"], check=False).returncode:
        pytest.skip("renaming this machine is not permitted here")

    assert run_script(START, "local[2]", prefix=NAMELESS) == "3\n"


def test_without_pyspark_a_session_says_what_to_install() -> None:
    is_imported, said = run_script(WITHOUT_PYSPARK).splitlines()

    assert is_imported == "False"
    assert said.startswith("cannot start Spark: pyspark is not installed; install it")


def test_an_error_without_java_says_what_to_install() -> None:
    nowhere = ("env", "JAVA_HOME=/nowhere")

    assert run_script(START, prefix=nowhere) == (
        "cannot start Spark: there is no Java where JAVA_HOME points; Java 17 or newer is needed\n"
    )


def test_after_java_was_killed_another_session_can_start(tmp_path: Path) -> None:
    printed = run_script(KILLED, str(tmp_path)).splitlines()

    said = [line for line in printed if line.startswith(("cannot", "spark:"))]
    assert said == [
        "cannot finish 'rows' on Spark, so the graph is unchanged: Spark's Java process does not "
        "answer; it was killed or ran out of memory",
        "spark: this Spark session was stopped; give one that runs, or none",
    ]
    assert printed[-1] == "3"


@pytest.mark.exhaustive
def test_a_cluster_runs_jobs_as_this_machine_does() -> None:
    assert run_on_cluster(JOURNEY) == TRAVELLED


@pytest.mark.exhaustive
def test_a_spark_connect_server_runs_jobs_as_this_machine_does(tmp_path: Path) -> None:
    with connect_server() as address:
        assert run_script(JOURNEY, address) == TRAVELLED
        assert _interrupted(address, tmp_path) == "interrupted\nended\n3\n"


def test_an_unreachable_server_fails_soon() -> None:
    printed = run_script(START, "sc://127.0.0.1:9")

    assert printed.splitlines()[-1] == (
        "cannot start Spark: the Spark Connect server does not answer"
    )


def _interrupted(master: str, folder: Path) -> str:
    """The output of a script whose process group gets the signal of Ctrl-C while its tasks run."""
    with started_script(INTERRUPTED, master, str(folder)) as child:
        await_that(lambda: len(pulses(folder)) == 2)
        os.killpg(child.pid, signal.SIGINT)
        return printed_by(child)


# Workers that have the package, and workers that do not


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A separate Python without packages."""
    folder = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python3"


def not_activated(bare_python: Path, **more: str) -> tuple[str, ...]:
    """A launcher whose `python3` is another Python than the one that runs the program."""
    java = shutil.which("java")
    folders = (bare_python.parent, *([] if java is None else [Path(java).parent]), os.defpath)
    set_to = {"PATH": os.pathsep.join(map(str, folders)), **more}
    return ("env", "-u", "PYSPARK_PYTHON", *(f"{name}={value}" for name, value in set_to.items()))


def line_to_set() -> str:
    return f'set: os.environ["PYSPARK_PYTHON"] = "{sys.executable}"'


def test_workers_of_our_session_run_this_python_in_an_environment_that_is_not_activated(
    tmp_path: Path, bare_python: Path
) -> None:
    printed = run_script(USE_OURS, str(tmp_path / "graph"), prefix=not_activated(bare_python))

    assert printed.splitlines() == ["done spark", "done ['Ann', 'Bob']"]


def test_a_session_whose_workers_lack_the_package_is_refused_with_the_line_to_set(
    tmp_path: Path, bare_python: Path
) -> None:
    printed = run_script(USE_PLAIN, str(tmp_path / "graph"), prefix=not_activated(bare_python))

    attempts = [line for line in printed.splitlines() if line.startswith(("done", "refused"))]
    assert "Traceback" not in printed
    for refused in attempts[:3]:
        assert refused.startswith("refused cannot use this Spark session: its Python workers run ")
        assert refused.endswith(line_to_set())
    # The Java process is still the one that the first session started.
    assert attempts[3:] == ["done spark", "done ['Cyd']"]


def test_a_chosen_python_without_the_package_is_refused_with_the_line_to_set(
    tmp_path: Path, bare_python: Path
) -> None:
    chosen = not_activated(bare_python, PYSPARK_PYTHON=str(bare_python))

    *attempts, running = run_script(USE_CHOSEN, str(tmp_path / "graph"), prefix=chosen).splitlines()

    for refused in attempts:
        assert f"its Python workers run {bare_python}, which does not have" in refused
        assert refused.endswith(line_to_set())
    assert (len(attempts), running) == (2, "None")
