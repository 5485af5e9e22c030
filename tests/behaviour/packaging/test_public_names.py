"""The names under `omnigraph` after nothing but `import omnigraph`."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JError

import omnigraph
from omnigraph.model import errors
from omnigraph.model.errors import GraphError
from omnigraph.model.source import Source
from omnigraph.spark.errors import carried_errors, spark_errors

ERRORS = [
    each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, GraphError)
]


def test_errors_is_an_attribute_after_importing_the_package() -> None:
    assert _print_of("omnigraph.errors.NotFoundError.__name__") == "NotFoundError"


def test_spark_is_an_attribute_that_does_not_wait_for_pyspark() -> None:
    expression = "omnigraph.spark.__name__, 'pyspark' in __import__('sys').modules"

    assert _print_of(expression) == "omnigraph.spark False"


def test_dir_lists_every_public_name_before_any_of_them_was_used() -> None:
    listed = _print_of("*dir(omnigraph)").split()

    assert sorted(omnigraph.__all__) == [each for each in listed if each in omnigraph.__all__]
    assert {"connect", "errors", "init", "open", "__version__"} <= set(listed)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_an_error_class_prints_and_pickles_under_the_module_that_callers_import(
    kind: type[GraphError],
) -> None:
    assert repr(kind) == f"<class 'omnigraph.errors.{kind.__name__}'>"
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert getattr(omnigraph.errors, kind.__name__) is kind


@pytest.mark.parametrize(
    "error",
    [
        errors.NotFoundError(kind="branch", name="draft", advice=""),
        errors.RequestError("not like this"),
        errors.CompileError(diagnostics=[], source=Source("<query>", "query q()")),
        errors.BusyError(action="write", holder="pid 7", waited_s=1.0),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_passes_from_one_process_to_another(error: GraphError) -> None:
    received = pickle.loads(pickle.dumps(error))

    assert type(received) is type(error)
    assert (str(received), vars(received)) == (str(error), vars(error))


def test_an_uncaught_error_is_printed_under_the_module_that_callers_import(tmp_path: Path) -> None:
    finished = _run(f"omnigraph.open({str(tmp_path / 'none')!r})")

    assert finished.returncode == 1
    assert finished.stderr.splitlines()[-1].startswith("omnigraph.errors.NotFoundError: ")


def test_an_error_from_a_spark_task_retains_its_class_and_its_fields() -> None:
    sent = errors.NotFoundError(kind="branch", name="draft", advice="")
    with pytest.raises(RuntimeError) as carried, carried_errors():
        raise sent

    with pytest.raises(omnigraph.errors.NotFoundError) as received, spark_errors(action="read"):
        raise Py4JError(str(carried.value))

    assert vars(received.value) == vars(sent)
    assert str(received.value) == str(sent)


def _print_of(expression: str) -> str:
    finished = _run(f"print({expression})")
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def _run(line: str) -> subprocess.CompletedProcess[str]:
    # A process of its own: this one has imported the modules already.
    return subprocess.run(
        [sys.executable, "-c", f"import omnigraph\n{line}"],
        capture_output=True,
        text=True,
        check=False,
    )
