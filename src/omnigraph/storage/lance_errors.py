"""What Lance raises, in our words: the one translation of pylance's and Arrow's exceptions.

The same failure is a `ValueError` from one call and an `OSError` from the next, so what happened is
told by words; the tests of the surface pin them. Promises that nothing foreign leaves this package
but for what is our own mistake, which becomes an `AssertionError`. Retries nothing.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import pyarrow as pa
from lance.commit import CommitConflictError

from omnigraph.model.errors import (
    AlreadyExistsError,
    CorruptError,
    GraphError,
    NotFoundError,
    UnavailableError,
)
from omnigraph.storage.object_errors import explain

FOREIGN = (OSError, ValueError, RuntimeError, pa.ArrowException)
"""Every class that pylance raises; `CommitConflictError` and `ArrowInvalid` are among them."""


class Failure(StrEnum):
    """What went wrong, as far as anybody can do something about it."""

    CONFLICT = "another writer was first"
    EXISTS = "the table is already there"
    MISSING_TABLE = "there is no table"
    MISSING_VERSION = "the table has no such version"
    MISSING_FILE = "a file of it is missing"
    DAMAGED = "a file of it is damaged"
    BRANCHED = "another branch was made from it"
    MISTAKE = "we asked for something that makes no sense"
    REFUSED = "the storage refused or did not answer"


# The first that is found in the text decides, so what is more special comes first.
_FAILURE_BY_WORDS: tuple[tuple[re.Pattern[str], Failure], ...] = tuple(
    (re.compile(words), failure)
    for words, failure in (
        (r"Too many concurrent writers|Incompatible transaction", Failure.CONFLICT),
        (r"[Cc]ommit conflict|preempted by concurrent transaction", Failure.CONFLICT),
        (r"^Dataset already exists", Failure.EXISTS),
        # A table is born on version 0, which is missing whenever another was born first.
        (r"^Dataset at path .*/0\.manifest was not found", Failure.EXISTS),
        (r"^Dataset at path .*\.manifest was not found", Failure.MISSING_VERSION),
        (r"^Dataset at path .* was not found", Failure.MISSING_TABLE),
        (r"The dataset must already exist", Failure.MISSING_TABLE),
        (r"^Not found: .*/_versions,", Failure.MISSING_TABLE),
        # It was listed and is gone: so goes a branch that is being deleted.
        (r"Not found: [^,]*/_versions/\d+\.manifest,", Failure.MISSING_VERSION),
        (r"Ref conflict error", Failure.BRANCHED),
        (r"[Ii]nvalid magic|does not appear to be a Lance file", Failure.DAMAGED),
        (r"file size is too small|does not have sufficient data", Failure.DAMAGED),
        # Not that it is missing: what is there says that it is another version.
        (r"^Version not found error", Failure.DAMAGED),
        (r"Invalid range .* for object of size|failed to decode", Failure.DAMAGED),
        (r"<Code>", Failure.REFUSED),
        (r"Not found: |No such file or directory", Failure.MISSING_FILE),
        (r"\(os error \d+\)", Failure.REFUSED),
        (r"Invalid user input|Error parsing statement|No field named", Failure.MISTAKE),
        (r"different schema|contained null values even though", Failure.MISTAKE),
    )
)
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


@contextmanager
def lance_errors(*, table: str, action: str) -> Iterator[None]:
    """Translate what Lance raises in the block; the action completes "cannot …"."""
    try:
        yield
    except FOREIGN as error:
        raise translate(error, table=table, action=action) from error


def classify(error: Exception) -> Failure:
    """What an exception of Lance, of Arrow or of the disk says."""
    if isinstance(error, CommitConflictError):
        return Failure.CONFLICT
    if isinstance(error, FileNotFoundError):
        return Failure.MISSING_FILE
    text = str(error)
    for words, failure in _FAILURE_BY_WORDS:
        if words.search(text):
            return failure
    return Failure.REFUSED


def translate(error: Exception, *, table: str, action: str) -> GraphError | AssertionError:
    """The error to raise in its place."""
    failure = classify(error)
    match failure:
        case Failure.EXISTS:
            return AlreadyExistsError(kind="table", name=table, advice="")
        case Failure.MISSING_VERSION:
            return missing_version(table)
        case Failure.MISSING_TABLE | Failure.MISSING_FILE | Failure.DAMAGED:
            return CorruptError(
                subject=f"'{table}'",
                problem=f"{failure}; nothing was written; restore it from a copy of the graph",
            )
        case Failure.CONFLICT | Failure.BRANCHED:
            return UnavailableError(action=action, reason=str(failure))
        case Failure.MISTAKE:
            return AssertionError(f"cannot {action}: {error}")
        case Failure.REFUSED:
            return UnavailableError(action=action, reason=_reason(error))


def missing_version(table: str) -> NotFoundError:
    """The error of a version that was cleaned up, or whose branch is gone."""
    return NotFoundError(
        kind="version", name=table, advice="it was cleaned up, or its branch was deleted"
    )


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return explain(error)
    text = str(error)
    found = _OS_ERROR.search(text)
    if found is None:
        return explain(OSError(text))
    code = int(found[1])
    # Lance repeats the disk's error number in its text and nowhere else.
    return explain(OSError(code, os.strerror(code) if code in errno.errorcode else text))
