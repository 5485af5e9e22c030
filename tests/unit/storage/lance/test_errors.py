"""What becomes of each thing that Lance says; the surface tests pin that it says so."""

import errno

import pyarrow as pa
import pytest
from lance.commit import CommitConflictError

from omnigraph.model.errors import (
    AlreadyExistsError,
    CorruptError,
    GraphError,
    NotFoundError,
    UnavailableError,
)
from omnigraph.storage.lance.errors import Failure, classify, lance_errors, translate

PLACE = "/home/runner/work/lance/lance/rust/lance/src/dataset.rs:765:44"
S3 = "LanceError(IO): Generic S3 error: Error performing list request: Error performing GET "

SAID: list[tuple[Exception, Failure]] = [
    (CommitConflictError("anything"), Failure.CONFLICT),
    (OSError("Too many concurrent writers. Attempted 0 retries."), Failure.CONFLICT),
    (OSError("Incompatible transaction: this Update"), Failure.CONFLICT),
    (OSError("Retryable commit conflict for version 2: This Overwrite"), Failure.CONFLICT),
    (OSError(f"Dataset already exists: g/t, {PLACE}"), Failure.EXISTS),
    (
        OSError("Dataset at path g/t/_versions/0.manifest was not found: Not found"),
        Failure.EXISTS,
    ),
    (
        ValueError("Dataset at path g/t/_versions/99.manifest was not found: Not found: g/t"),
        Failure.MISSING_VERSION,
    ),
    (
        OSError("Dataset at path g/t/_versions/10.manifest was not found: Error performing HEAD"),
        Failure.MISSING_VERSION,
    ),
    (
        ValueError(f"Dataset at path g/t was not found: Not found: g/t/_versions, {PLACE}"),
        Failure.MISSING_TABLE,
    ),
    (ValueError(f"Not found: g/t/tree/b/_versions, {PLACE}"), Failure.MISSING_TABLE),
    (
        ValueError(f"Generic N/A error: Not found: g/t/tree/b/_versions/12.manifest, {PLACE}"),
        Failure.MISSING_VERSION,
    ),
    (OSError("The dataset must already exist unless the operation"), Failure.MISSING_TABLE),
    (
        pa.ArrowInvalid("External error: Generic N/A error: Not found: g/t/data/1.lance, x"),
        Failure.MISSING_FILE,
    ),
    (
        OSError("LanceError(IO): No such file or directory (os error 2)"),
        Failure.MISSING_FILE,
    ),
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"), Failure.MISSING_FILE),
    (ValueError(f"LanceError(IO): file size is too small, {PLACE}"), Failure.DAMAGED),
    (ValueError("file does not have sufficient data"), Failure.DAMAGED),
    (
        pa.ArrowInvalid("Generic memory error: Invalid range 0..690 for object of size 345 bytes"),
        Failure.DAMAGED,
    ),
    (
        pa.ArrowInvalid(
            "External error: Invalid user input: file does not appear to be a Lance file "
            "(invalid magic: [76, 65, 78, 67])"
        ),
        Failure.DAMAGED,
    ),
    (OSError("Ref conflict error: branch"), Failure.BRANCHED),
    (ValueError("Invalid user input: No field named absent."), Failure.MISTAKE),
    (OSError("Append with different schema: `c` should have"), Failure.MISTAKE),
    (OSError("The field `id` contained null values even though"), Failure.MISTAKE),
    (OSError("LanceError(IO): Permission denied (os error 13) at path"), Failure.REFUSED),
    (PermissionError(errno.EACCES, "Permission denied", "/x"), Failure.REFUSED),
    (ValueError(f"{S3}http://x/b - HTTP error: error sending request"), Failure.REFUSED),
    (ValueError(f"{S3}404 Not Found: <Error><Code>NoSuchBucket</Code>"), Failure.REFUSED),
    (RuntimeError("an unknown failure"), Failure.REFUSED),
]


@pytest.mark.parametrize(("error", "failure"), SAID, ids=lambda value: str(value)[:50])
def test_what_lance_says_is_understood(error: Exception, failure: Failure) -> None:
    assert classify(error) is failure


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failure.EXISTS, AlreadyExistsError),
        (Failure.MISSING_VERSION, NotFoundError),
        (Failure.MISSING_TABLE, CorruptError),
        (Failure.MISSING_FILE, CorruptError),
        (Failure.DAMAGED, CorruptError),
        (Failure.CONFLICT, UnavailableError),
        (Failure.BRANCHED, UnavailableError),
        (Failure.REFUSED, UnavailableError),
        (Failure.MISTAKE, AssertionError),
    ],
)
def test_every_failure_becomes_one_of_our_errors(
    failure: Failure, expected: type[Exception]
) -> None:
    said = [error for error, found in SAID if found is failure]

    translated = [translate(error, table="nodes/t", action="read it") for error in said]

    assert said
    assert {type(each) for each in translated} == {expected}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("LanceError(IO): No space left on device (os error 28), x.rs:1", "the disk is full"),
        ("LanceError(IO): Permission denied (os error 13) at path /x", "no permission"),
        ("LanceError(IO): Read-only file system (os error 30)", "mounted read-only"),
        ("Unable to walk dir: IO error: Not a directory (os error 20)", "a file is where a folder"),
        (f"{S3}http://x/b - HTTP error: error sending request", "does not answer"),
        (f"{S3}403 Forbidden: <Code>AccessDenied</Code>", "access denied"),
        (f"{S3}404 Not Found: <Code>NoSuchBucket</Code>", "the bucket does not exist"),
        (f"{S3}503: <Error><Code>SlowDown</Code></Error>", "overloaded"),
    ],
)
def test_a_refusal_has_a_reason_that_a_person_can_act_on(text: str, words: str) -> None:
    for error in (OSError(text), ValueError(text), pa.ArrowInvalid(text)):
        translated = translate(error, table="nodes/t", action="read 'nodes/t'")

        assert isinstance(translated, UnavailableError)
        assert str(translated).startswith("cannot read 'nodes/t': ")
        assert words in translated.reason


@pytest.mark.parametrize(("number", "is_full"), [(28, True), (122, True), (13, False)])
def test_a_full_disk_is_distinguished_from_other_errors(number: int, *, is_full: bool) -> None:
    for error in (OSError(number, "x"), ValueError(f"LanceError(IO): x (os error {number})")):
        translated = translate(error, table="nodes/t", action="write 'nodes/t'")

        assert isinstance(translated, UnavailableError)
        assert translated.is_disk_full is is_full


def test_nothing_foreign_leaves_a_block() -> None:
    for error, _ in SAID:
        with (
            pytest.raises((GraphError, AssertionError)) as raised,
            lance_errors(table="nodes/t", action="read it"),
        ):
            raise error

        assert raised.value.__cause__ is error


def test_our_own_errors_pass_through_a_block() -> None:
    ours = NotFoundError(kind="version", name="nodes/t", advice="")

    with pytest.raises(NotFoundError) as raised, lance_errors(table="t", action="read it"):
        raise ours

    assert raised.value is ours
