"""What pylance raises, and which words of the message distinguish the failures.

The same failure is a `ValueError` from one call and an `OSError` from the next; `ArrowInvalid` is a
`ValueError` too. So `lance_errors` goes by the words, and these are the words.
"""

from collections.abc import Callable
from pathlib import Path

import lance
import pytest
from lance import LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from tests.support.lance_probes import (
    ArrowInvalid,
    apply,
    create_table,
    create_two_fragments,
    head,
    keyed_rows,
    named_columns,
    stage_append,
    stage_overwrite,
)


def test_a_conflict_is_an_os_error_that_says_whether_to_retry(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    staged = stage_append(z=9)(lance.dataset(uri))
    apply(uri, stage_overwrite(q=1)(lance.dataset(uri)))

    with pytest.raises(CommitConflictError) as refusal:
        apply(uri, staged)

    assert isinstance(refusal.value, OSError)
    assert refusal.value.retryable is False


def test_opening_a_missing_table(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^Dataset at path .* was not found") as failure:
        lance.dataset(str(tmp_path / "nowhere"))

    assert type(failure.value) is ValueError


def test_opening_a_folder_that_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^Dataset at path .* was not found"):
        lance.dataset(str(tmp_path))


def test_opening_a_missing_version(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    with pytest.raises(ValueError, match=r"^Dataset at path .*/99.manifest was not found"):
        lance.dataset(uri, version=99)


def test_checking_out_a_missing_version_is_another_type(tmp_path: Path) -> None:
    table = lance.dataset(create_two_fragments(tmp_path / "t"))

    with pytest.raises(OSError, match=r"^Dataset at path .*/99.manifest was not found"):
        table.checkout_version(99)


def test_reading_the_transaction_of_a_missing_version(tmp_path: Path) -> None:
    table = lance.dataset(create_two_fragments(tmp_path / "t"))

    with pytest.raises(OSError, match=r"^Dataset at path .*/99.manifest was not found"):
        table.read_transaction(99)


def test_opening_a_missing_tag(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    with pytest.raises(ValueError, match="tag release does not exist"):
        lance.dataset(uri, version="release")


def test_opening_a_table_whose_manifest_is_damaged_is_not_a_missing_table(tmp_path: Path) -> None:
    uri = create_table(tmp_path / "t", keyed_rows(a=1))
    for manifest in Path(uri, "_versions").glob("*.manifest"):
        manifest.write_bytes(b"damaged")

    with pytest.raises(ValueError, match="does not have sufficient data") as failure:
        lance.dataset(uri)

    assert "was not found" not in str(failure.value)


def test_scanning_a_table_whose_file_was_deleted(tmp_path: Path) -> None:
    uri = create_table(tmp_path / "t", keyed_rows(a=1))
    for file in Path(uri, "data").iterdir():
        file.unlink()

    with pytest.raises(ArrowInvalid, match="Not found"):
        lance.dataset(uri).to_table()


@pytest.mark.parametrize(
    ("predicate", "words"),
    [
        ("absent = 1", "No field named absent"),
        ("value =", "Error parsing statement"),
        ("", "Error parsing statement"),
        ("value = 'text'", "could not convert to literal of type 'Int64'"),
        ("value = 1.5", "could not convert to literal of type 'Int64'"),
        ("object_id = 5", "could not convert to literal of type 'Utf8'"),
        ("value", "does not return a boolean"),
        ("unknown_function(value) = 1", "Invalid function 'unknown_function'"),
    ],
)
def test_a_bad_predicate_in_a_scan_is_a_value_error(
    tmp_path: Path, predicate: str, words: str
) -> None:
    table = lance.dataset(create_two_fragments(tmp_path / "t"))

    with pytest.raises(ValueError, match=r"^Invalid user input: ") as failure:
        table.to_table(filter=predicate)

    assert words in str(failure.value)


@pytest.mark.parametrize("call", ["count_rows", "delete", "fragment.count_rows", "fragment.delete"])
def test_a_bad_predicate_anywhere_else_is_an_os_error(tmp_path: Path, call: str) -> None:
    uri = create_two_fragments(tmp_path / "t")
    table = lance.dataset(uri)
    fragment = table.get_fragments()[0]
    calls: dict[str, Callable[[str], object]] = {
        "count_rows": table.count_rows,
        "delete": table.delete,
        "fragment.count_rows": fragment.count_rows,
        "fragment.delete": fragment.delete,
    }

    with pytest.raises(OSError, match=r"^Invalid user input: .*No field named absent"):
        calls[call]("absent = 1")

    assert head(uri) == 2


def test_a_predicate_that_fails_on_a_row_fails_in_the_scan(tmp_path: Path) -> None:
    table = lance.dataset(create_two_fragments(tmp_path / "t"))

    with pytest.raises(ArrowInvalid, match="Divide by zero"):
        table.to_table(filter="value / 0 = 1")


def test_a_missing_column_is_a_value_error(tmp_path: Path) -> None:
    table = lance.dataset(create_two_fragments(tmp_path / "t"))

    with pytest.raises(ValueError, match="No field named absent"):
        table.to_table(columns=["absent"])


def test_creating_a_table_that_exists(tmp_path: Path) -> None:
    uri = create_table(tmp_path / "t", keyed_rows(a=1))

    with pytest.raises(OSError, match=r"^Dataset already exists: "):
        create_table(uri, keyed_rows(b=2))


def test_staging_rows_of_another_schema(tmp_path: Path) -> None:
    table = lance.dataset(create_two_fragments(tmp_path / "t"))

    with pytest.raises(OSError, match="Append with different schema"):
        write_fragments(named_columns(other=[1]), table, mode="append")


def test_staging_a_null_where_none_may_be(tmp_path: Path) -> None:
    table = lance.dataset(create_two_fragments(tmp_path / "t"))
    rows = named_columns(object_id=["z", None], value=[1, 2])

    with pytest.raises(OSError, match="contained null values even though"):
        write_fragments(rows, table, mode="append")


def test_committing_to_a_missing_table(tmp_path: Path) -> None:
    staged = Transaction(1, LanceOperation.Append([]))

    with pytest.raises(OSError, match="The dataset must already exist"):
        apply(str(tmp_path / "nowhere"), staged)


def test_committing_onto_a_version_that_is_not_there(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    with pytest.raises(OSError, match=r"^Dataset at path .*/99.manifest was not found"):
        apply(uri, Transaction(99, LanceOperation.Append([])))


@pytest.mark.parametrize(
    ("start", "words"),
    [(-24, "Tail read position"), (-12, "column metadata region"), (-8, "Unknown Lance storage")],
)
def test_a_damaged_footer_is_reported_as_input_of_the_caller(
    tmp_path: Path, start: int, words: str
) -> None:
    uri = create_table(tmp_path / "t", keyed_rows(a=1, b=2))
    file = next((tmp_path / "t" / "data").iterdir())
    content = file.read_bytes()
    file.write_bytes(content[:start] + b"\x7f" * 4 + content[start + 4 :])

    with pytest.raises(
        (OSError, ValueError), match=f"Invalid user input.*{words}.*/lance-file/src/"
    ):
        lance.dataset(uri).to_table()
