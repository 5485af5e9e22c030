"""Translation of Spark exceptions, classic and Connect, into errors of this package.

Every translated error has a reason of one line, without a Java stack trace. A package error raised
in a task arrives at the driver with its own type and fields. Nothing is retried here.
"""

from __future__ import annotations

import pickle
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from omnigraph.model.errors import GraphError, UnavailableError
from omnigraph.model.limits import FOREIGN_REASON_CHARACTERS_MAX

FOREIGN = (PySparkException, Py4JError, ConnectionError)
"""Every exception class that Spark's client raises, including network failures."""

_CARRIED = re.compile(r"omnigraph-error:([A-Za-z0-9+/]+=*)")
_TRACEBACK = "Traceback (most recent call last):"

# The first pattern found anywhere in the text determines the reason.
_REASON_BY_WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (
            r"No module named '(omnigraph|lance|pyarrow)\b",
            "Spark's Python workers do not have omnigraph; install it on every executor",
        ),
        (
            r"OutOfMemoryError",
            "Spark's Java process ran out of memory; raise spark.driver.memory "
            "or spark.executor.memory",
        ),
        (
            r"Python worker exited unexpectedly",
            "a Python worker of Spark ended; it was killed or ran out of memory",
        ),
        (r"SPARK_JOB_CANCELLED|OPERATION_CANCELED", "the job was cancelled"),
        (
            r"StatusCode\.UNAVAILABLE|failed to connect to all addresses|RETRIES_EXCEEDED",
            "the Spark Connect server does not answer",
        ),
    )
)
_JAVA_NOT_RESPONDING = "Spark's Java process does not answer; it was killed or ran out of memory"

# Prefixes before the message: the failed call or task, the exception class, the condition.
_BEFORE_THE_MESSAGE = (
    re.compile(r"^An error occurred while calling \S+$"),
    re.compile(r"^(: )?(Caused by: )?"),
    re.compile(r"^.*most recent failure: Lost task [^:]*\): "),
    re.compile(r"^\(?([a-z]\w*\.)+[\w$]+(: |\) |:?$)"),
    re.compile(r"^Exception thrown in awaitResult:$"),
    re.compile(r"^\[[A-Z_.0-9]+\] "),
)
_AFTER_THE_MESSAGE = re.compile(r"\.? SQLSTATE: .*$")
_PYTHON_FRAME = re.compile(r"^ ")
_JAVA_FRAME = re.compile(r"^\s+at |^\s*\.\.\. \d+ more")


@contextmanager
def spark_errors(*, action: str) -> Iterator[None]:
    """Translate Spark exceptions raised in the block; the action completes "cannot …"."""
    try:
        yield
    except FOREIGN as error:
        text = str(error)
        carried = _find_carried(text)
        if carried is not None:
            raise carried from error
        # Exceptions thrown in Java carry a message; other Py4J errors only mean that Java did not
        # respond.
        has_words = isinstance(error, PySparkException | Py4JJavaError)
        reason = explain(text) if has_words else _JAVA_NOT_RESPONDING
        raise UnavailableError(action=action, reason=reason) from error


@contextmanager
def carried_errors() -> Iterator[None]:
    """Send a package error that a task raises in the block to the driver unchanged."""
    try:
        yield
    except GraphError as error:
        # Spark transfers only the text of an exception.
        raise RuntimeError(f"omnigraph-error:{b64encode(pickle.dumps(error)).decode()}") from error


def explain(text: str) -> str:
    """The reason, in one line, from the multi-line text of a Spark exception."""
    for pattern, reason in _REASON_BY_WORDS:
        if pattern.search(text):
            return reason
    _, is_python, stack = text.rpartition(_TRACEBACK)
    frame = _PYTHON_FRAME if is_python else _JAVA_FRAME
    messages = (_message(line) for line in stack.splitlines() if not frame.match(line))
    reason = next(filter(None, messages), "no reason given")
    if len(reason) > FOREIGN_REASON_CHARACTERS_MAX:
        return f"{reason[:FOREIGN_REASON_CHARACTERS_MAX]}…"
    return reason


def _message(line: str) -> str:
    for pattern in _BEFORE_THE_MESSAGE:
        line = pattern.sub("", line.strip(), count=1)
    return _AFTER_THE_MESSAGE.sub("", line).strip()


def _find_carried(text: str) -> GraphError | None:
    found = _CARRIED.search(text)
    if found is None:
        return None
    error = pickle.loads(b64decode(found[1]))
    assert isinstance(error, GraphError), "nothing else is carried"
    return error
