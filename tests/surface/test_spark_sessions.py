"""What sessions and jobs rely on in PySpark 4.3 beyond what it documents."""

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder, SparkConnectClient
from pyspark.sql.connect.client.retries import DefaultPolicy

from tests.support.spark import await_that, tasks, waiting_for


def test_the_java_process_takes_where_its_complaints_go() -> None:
    assert list(inspect.signature(launch_gateway).parameters) == ["conf", "popen_kwargs"]


def test_a_context_exposes_its_java_process_and_is_a_singleton(spark: SparkSession) -> None:
    context = spark.sparkContext
    gateway = SparkContext._gateway  # noqa: SLF001

    assert gateway is not None
    assert gateway.proc.poll() is None
    assert SparkContext._active_spark_context is context  # noqa: SLF001
    assert isinstance(SparkContext._lock, type(threading.RLock()))  # noqa: SLF001


def test_the_python_of_workers_is_an_attribute_of_the_context(spark: SparkSession) -> None:
    assert Path(spark.sparkContext.pythonExec).is_absolute()


def test_a_connect_client_says_where_it_connects_and_takes_other_patience() -> None:
    assert DefaultChannelBuilder("sc://host:7/;a=b").endpoint == "host:7"
    assert DefaultPolicy(max_retries=3).max_retries == 3
    assert callable(SparkConnectClient.get_retry_policies)
    assert callable(SparkConnectClient.set_retry_policies)


def test_a_tag_of_a_session_cancels_nothing_for_another_thread(
    spark: SparkSession, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    found: list[int] = []

    def run() -> None:
        spark.addTag("here")
        found.append(tasks(spark, waiting_for(go_on), count=1).toArrow().num_rows)

    thread = threading.Thread(target=run)
    thread.start()
    await_that(go_on.with_suffix(".waiting").exists)
    interrupted = spark.interruptTag("here")
    go_on.touch()
    thread.join()

    assert interrupted == []
    assert found == [1]


def test_a_group_of_jobs_is_cancelled_by_any_thread(spark: SparkSession, tmp_path: Path) -> None:
    never = tmp_path / "never"

    def run() -> None:
        spark.sparkContext.setJobGroup("here", "a test")
        tasks(spark, waiting_for(never), count=1).toArrow()

    with ThreadPoolExecutor() as threads:
        running = threads.submit(run)
        await_that(never.with_suffix(".waiting").exists)
        spark.sparkContext.cancelJobGroup("here")

        with pytest.raises(Py4JJavaError, match="SPARK_JOB_CANCELLED"):
            running.result()
