"""Translation of pylance and Arrow exceptions into OmniGraph errors.

The same failure is a `ValueError` from one call and an `OSError` from another, so failures are
classified by the text of the message; surface tests pin these texts. No foreign exception leaves
this package. A failure caused by a mistake in OmniGraph becomes an `AssertionError`. Nothing is
retried.
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
from omnigraph.storage.errors import unavailable

FOREIGN = (OSError, ValueError, RuntimeError, pa.ArrowException)
"""Every class that pylance raises; they include `CommitConflictError` and `ArrowInvalid`."""


class Failure(StrEnum):
    """The kinds of failure that callers handle differently."""

    CONFLICT = "another writer was first"
    EXISTS = "the table is already there"
    MISSING_TABLE = "there is no table"
    MISSING_VERSION = "the table has no such version"
    MISSING_FILE = "a file of it is missing"
    DAMAGED = "a file of it is damaged"
    BRANCHED = "another branch was made from it"
    MISTAKE = "OmniGraph made an invalid request"
    REFUSED = "the storage refused or did not answer"


# The first pattern that matches the text decides, so more specific patterns come first.
_FAILURE_BY_WORDS: tuple[tuple[re.Pattern[str], Failure], ...] = tuple(
    (re.compile(words), failure)
    for words, failure in (
        (r"Too many concurrent writers|Incompatible transaction", Failure.CONFLICT),
        (r"[Cc]ommit conflict|preempted by concurrent transaction", Failure.CONFLICT),
        (r"^Dataset already exists", Failure.EXISTS),
        # A table is created on version 0, which is missing whenever another create was first.
        (r"^Dataset at path .*/0\.manifest was not found", Failure.EXISTS),
        (r"^Dataset at path .*\.manifest was not found", Failure.MISSING_VERSION),
        (r"^Dataset at path .* was not found", Failure.MISSING_TABLE),
        (r"The dataset must already exist", Failure.MISSING_TABLE),
        (r"^Not found: .*/_versions,", Failure.MISSING_TABLE),
        # It was listed and then deleted, as happens while a branch is deleted.
        (r"Not found: [^,]*/_versions/\d+\.manifest,", Failure.MISSING_VERSION),
        (r"Ref conflict error", Failure.BRANCHED),
        (r"[Ii]nvalid magic|does not appear to be a Lance file", Failure.DAMAGED),
        (r"file size is too small|does not have sufficient data", Failure.DAMAGED),
        # The version is not missing: the file contains another version number.
        (r"^Version not found error", Failure.DAMAGED),
        (r"corrupt file|failed to fill whole buffer", Failure.DAMAGED),
        (r"Invalid range .* for object of size|failed to decode", Failure.DAMAGED),
        # Lance checks the footer of a file as if the caller had provided it.
        (r"Invalid user input.*/lance-file/src/(reader|version|format)\b", Failure.DAMAGED),
        (r"<Code>", Failure.REFUSED),
        (r"Not found: |No such file or directory", Failure.MISSING_FILE),
        (r"\(os error \d+\)", Failure.REFUSED),
        (r"Invalid user input|Error parsing statement|No field named", Failure.MISTAKE),
        (r"different schema|contained null values even though", Failure.MISTAKE),
    )
)
_STORAGE_CODE = re.compile(r"<Code>|\(os error \d+\)|error sending request|timed out", re.I)
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


@contextmanager
def lance_errors(*, table: str, action: str) -> Iterator[None]:
    """Translate exceptions of Lance in the block; `action` completes "cannot …"."""
    try:
        yield
    except FOREIGN as error:
        raise translate(error, table=table, action=action) from error


def is_damage(error: Exception) -> bool:
    """Whether a read failed because of damaged or missing files, not the storage or the request."""
    if classify(error) in (Failure.DAMAGED, Failure.MISSING_FILE):
        return True
    # Lance describes invalid content in many ways, while storage errors have codes.
    text = str(error)
    return classify(error) is Failure.REFUSED and not _STORAGE_CODE.search(text)


def classify(error: Exception) -> Failure:
    """The kind of failure of an exception of Lance, Arrow or the disk."""
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
    """The error that replaces an exception of Lance."""
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
            return unavailable(_as_os_error(error), action=action)


def missing_version(table: str) -> NotFoundError:
    """The error for a version that was cleaned up or whose branch was deleted."""
    return NotFoundError(
        kind="version", name=table, advice="it was cleaned up, or its branch was deleted"
    )


def _as_os_error(error: Exception) -> OSError:
    if isinstance(error, OSError) and error.errno is not None:
        return error
    text = str(error)
    found = _OS_ERROR.search(text)
    if found is None:
        return OSError(text)
    code = int(found[1])
    # Lance reports the error number of the disk only in the text.
    return OSError(code, os.strerror(code) if code in errno.errorcode else text)
