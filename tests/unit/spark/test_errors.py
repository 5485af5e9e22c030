"""What Spark says in many lines, in one."""

import pytest
from pyspark.errors import PySparkException

from omnigraph.model.errors import (
    GraphError,
    IntegrityError,
    KeyConflictError,
    UnavailableError,
    Violation,
)
from omnigraph.model.limits import FOREIGN_REASON_CHARACTERS_MAX
from omnigraph.spark.errors import carried_errors, explain, spark_errors

OF_A_TASK = """\
An error occurred while calling o151.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:\x20
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 \
failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 (TID 2) (127.0.0.1 executor \
driver): java.io.FileNotFoundException: File does not exist: people.parquet
\tat org.apache.spark.sql.execution.Something(Something.scala:1)
\t... 17 more
Caused by: java.io.EOFException
"""

OF_A_WORKER = """\
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "rows.py", line 3, in stage
KeyError: 'age'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "rows.py", line 5, in stage
    raise ValueError("no age\\nat all")
ValueError: no age
at all
 SQLSTATE: 38000
"""

OF_A_SERVER = """\
(org.apache.spark.SparkSQLException) [SOME_CONDITION.OF_IT] The table is gone. SQLSTATE: HY008

JVM stacktrace:
org.apache.spark.SparkSQLException
\tat org.apache.spark.sql.connect.execution.ExecuteThreadRunner.execute(ExecuteThreadRunner.scala)
"""

OUT_OF_MEMORY = "An error occurred.\n: java.lang.OutOfMemoryError: Java heap space\n\tat x.y"
CRASHED = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat x.y"
NOT_INSTALLED = f"{OF_A_WORKER}\nModuleNotFoundError: No module named 'omnigraph'"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (OF_A_TASK, "File does not exist: people.parquet"),
        (OF_A_WORKER, "ValueError: no age"),
        (OF_A_SERVER, "The table is gone"),
        (OUT_OF_MEMORY, "Spark's Java process ran out of memory; raise spark.driver.memory or"),
        (CRASHED, "a Python worker of Spark ended; it was killed or ran out of memory"),
        (NOT_INSTALLED, "Spark's Python workers do not have omnigraph; install it on every"),
        ("", "no reason given"),
    ],
    ids=["task", "worker", "server", "memory", "crash", "not-installed", "silence"],
)
def test_the_reason_is_found_among_the_stack_traces(said: str, reason: str) -> None:
    found = explain(said)

    assert found.startswith(reason)
    assert "\n" not in found


def test_a_long_reason_is_truncated() -> None:
    assert len(explain("word " * 1_000)) == FOREIGN_REASON_CHARACTERS_MAX + 1


def test_what_spark_raises_is_an_error_of_ours() -> None:
    with pytest.raises(UnavailableError) as raised, spark_errors(action="count the rows"):
        raise PySparkException(message=OF_A_SERVER)

    assert str(raised.value) == "cannot count the rows: The table is gone"
    assert raised.value.outcome == "unchanged"


@pytest.mark.parametrize(
    "error",
    [
        KeyConflictError(type="Person", id="Ann"),
        IntegrityError(
            violations=[Violation("Person", "Ann", "range", "age", -1, "age of 'Ann' is -1")],
            count=12,
        ),
    ],
    ids=["simple", "with-violations"],
)
def test_an_error_of_ours_comes_home_from_a_task_as_what_it_was(error: GraphError) -> None:
    with pytest.raises(RuntimeError) as carried, carried_errors():
        raise error

    with pytest.raises(type(error)) as raised, spark_errors(action="load"):
        raise PySparkException(message=f"Traceback (most recent call last):\n{carried.value}\n")

    assert str(raised.value) == str(error)
    assert vars(raised.value) == vars(error)
