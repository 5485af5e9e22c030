"""How each write is staged: unreferenced files, then one transaction that names them."""

import json
from pathlib import Path

import lance
import pytest
from lance import FragmentMetadata, LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments

from tests.support.lance_probes import (
    Stage,
    apply,
    contents,
    create_two_fragments,
    files_of,
    fragment_ids,
    head,
    keyed_rows,
    keyed_schema,
    stage_append,
    stage_compaction,
    stage_config,
    stage_delete,
    stage_index,
    stage_overwrite,
    stage_restore,
    stage_upsert,
)

TRANSACTION_ID = "0e8a3b1c-5d0f-4a52-9a86-0d3f3c0b8a11"


@pytest.mark.parametrize(
    "stage",
    [
        stage_append(z=1),
        stage_upsert(a=1, z=1),
        stage_delete("object_id = 'a'"),
        stage_overwrite(z=1),
        stage_index,
        stage_compaction,
    ],
    ids=["append", "upsert", "delete", "overwrite", "index", "compact"],
)
def test_staging_writes_files_and_moves_nothing(tmp_path: Path, stage: Stage) -> None:
    uri = create_two_fragments(tmp_path / "t")
    before = files_of(uri)

    staged = stage(lance.dataset(uri))

    folders = {path.split("/")[0] for path in files_of(uri) - before}
    assert folders
    assert folders <= {"data", "_deletions", "_indices"}
    assert head(uri) == staged.read_version == 2


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (stage_append(z=9), {"a": 1, "b": 2, "c": 3, "d": 4, "z": 9}),
        (stage_upsert(a=9, z=9), {"a": 9, "b": 2, "c": 3, "d": 4, "z": 9}),
        (stage_delete("value >= 2"), {"a": 1}),
        (stage_delete("value <= 3"), {"d": 4}),
        (stage_delete("true"), {}),
        (stage_overwrite(z=9), {"z": 9}),
        (stage_overwrite(), {}),
        (stage_restore(1), {"a": 1, "b": 2}),
        (stage_compaction, {"a": 1, "b": 2, "c": 3, "d": 4}),
    ],
    ids=[
        "append",
        "upsert",
        "delete-from-second-row",
        "delete-to-last-row",
        "delete-all",
        "overwrite",
        "empty",
        "restore",
        "compact",
    ],
)
def test_a_staged_write_does_what_it_says(
    tmp_path: Path, stage: Stage, expected: dict[str, int]
) -> None:
    uri = create_two_fragments(tmp_path / "t")

    apply(uri, stage(lance.dataset(uri)))

    assert contents(uri) == expected


@pytest.mark.parametrize(
    "stage",
    [
        stage_append(z=1),
        stage_upsert(a=1),
        stage_delete("object_id = 'a'"),
        stage_overwrite(z=1),
        stage_index,
        stage_compaction,
        stage_restore(1),
        stage_config,
    ],
    ids=["append", "upsert", "delete", "overwrite", "index", "compact", "restore", "config"],
)
def test_a_transaction_is_found_again_by_the_uuid_and_properties_it_was_given(
    tmp_path: Path, stage: Stage
) -> None:
    # Recovery knows its own commits by these two, whatever the version numbers say.
    uri = create_two_fragments(tmp_path / "t")
    staged = stage(lance.dataset(uri))
    properties = {"omnigraph:operation": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
    identified = Transaction(2, staged.operation, TRANSACTION_ID, properties)

    apply(uri, identified)

    found = lance.dataset(uri).read_transaction(3)
    assert found
    assert found.uuid == TRANSACTION_ID
    assert found.transaction_properties == properties
    assert found.read_version == 2
    assert type(found.operation) is type(staged.operation)


def test_a_transaction_is_stored_in_a_file_of_its_own(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    before = files_of(uri)

    apply(uri, Transaction(2, stage_append(z=1)(lance.dataset(uri)).operation, TRANSACTION_ID))

    assert f"_transactions/2-{TRANSACTION_ID}.txn" in files_of(uri) - before


def test_fragments_written_apart_go_in_as_one_version(tmp_path: Path) -> None:
    # A Spark executor writes, returns JSON, and never sees the table.
    uri = create_two_fragments(tmp_path / "t")
    described = [
        json.dumps(fragment.to_json())
        for rows in (keyed_rows(x=8), keyed_rows(y=9))
        for fragment in write_fragments(rows, uri, mode="append", data_storage_version="2.2")
    ]

    fragments = [FragmentMetadata.from_json(text) for text in described]
    version = apply(uri, Transaction(2, LanceOperation.Append(fragments)))

    assert version == 3
    assert contents(uri) == {"a": 1, "b": 2, "c": 3, "d": 4, "x": 8, "y": 9}


def test_a_deletion_survives_json(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    remaining = lance.dataset(uri).get_fragments()[0].delete("object_id = 'a'")
    assert remaining

    returned = FragmentMetadata.from_json(json.dumps(remaining.to_json()))
    apply(uri, Transaction(2, LanceOperation.Delete([returned], [], "object_id = 'a'")))

    assert returned == remaining
    assert contents(uri) == {"b": 2, "c": 3, "d": 4}


def test_deleting_all_of_a_fragment_returns_nothing_and_writes_nothing(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    before = files_of(uri)

    remaining = lance.dataset(uri).get_fragments()[0].delete("value <= 2")

    assert remaining is None
    assert files_of(uri) == before


def test_deleting_nothing_of_a_fragment_returns_it_as_it_was(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    before = files_of(uri)
    fragment = lance.dataset(uri).get_fragments()[0]

    remaining = fragment.delete("object_id = 'absent'")

    assert remaining == fragment.metadata
    assert remaining.num_deletions == 0
    assert files_of(uri) == before


def test_a_fragment_counts_what_it_lost(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    apply(uri, stage_delete("object_id = 'a'")(lance.dataset(uri)))

    fragment = lance.dataset(uri).get_fragments()[0]
    assert (fragment.physical_rows, fragment.num_deletions, fragment.count_rows()) == (2, 1, 1)
    assert any(path.startswith("_deletions/0-2-") for path in files_of(uri))


def test_a_plain_delete_of_nothing_makes_a_version(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    lance.dataset(uri).delete("object_id = 'absent'")

    assert head(uri) == 3


@pytest.mark.parametrize(
    "operation",
    [
        LanceOperation.Append([]),
        LanceOperation.Delete([], [], "object_id = 'absent'"),
        LanceOperation.Update(),
    ],
    ids=["append", "delete", "update"],
)
def test_committing_a_write_of_nothing_makes_a_version(
    tmp_path: Path, operation: LanceOperation.BaseOperation
) -> None:
    # So it is the stager that has to say "nothing to do".
    uri = create_two_fragments(tmp_path / "t")

    assert apply(uri, Transaction(2, operation)) == 3


@pytest.mark.parametrize("rows", [{"z": 9}, {}], ids=["rows", "no-rows"])
def test_an_overwrite_keeps_everything_but_the_rows(tmp_path: Path, rows: dict[str, int]) -> None:
    uri = create_two_fragments(tmp_path / "t")
    lance.dataset(uri).update_config({"kept": "yes"})

    apply(uri, stage_overwrite(**rows)(lance.dataset(uri)))

    table = lance.dataset(uri)
    assert table.has_stable_row_ids
    assert table.data_storage_version == "2.2"
    assert table.schema == keyed_schema(is_annotated=True)
    assert table.schema.field("object_id").metadata == {
        b"lance-schema:unenforced-primary-key": b"true"
    }
    assert table.config() == {"kept": "yes"}


def test_a_table_is_born_by_one_commit_of_staged_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    schema = keyed_schema(is_annotated=True)
    fragments = write_fragments(keyed_rows(a=1), uri, data_storage_version="2.2")

    operation = LanceOperation.Overwrite(schema, fragments)
    LanceDataset.commit(
        uri,
        Transaction(0, operation, TRANSACTION_ID),
        max_retries=0,
        enable_stable_row_ids=True,
    )

    table = lance.dataset(uri)
    assert (table.version, table.has_stable_row_ids, table.data_storage_version) == (1, True, "2.2")
    assert contents(uri) == {"a": 1}
    born = table.read_transaction(1)
    assert born
    assert born.uuid == TRANSACTION_ID


def test_a_table_is_not_born_twice(tmp_path: Path) -> None:
    # Read version 0 means that there was none; the message is a by-product, so do not rely on it.
    uri = create_two_fragments(tmp_path / "t")
    operation = LanceOperation.Overwrite(keyed_schema(is_annotated=True), [])

    with pytest.raises(OSError, match="was not found"):
        LanceDataset.commit(
            uri, Transaction(0, operation), max_retries=0, enable_stable_row_ids=True
        )

    assert head(uri) == 2


def test_compaction_can_be_staged_as_one_version(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    version = apply(uri, stage_compaction(lance.dataset(uri)))

    assert version == 3
    assert fragment_ids(lance.dataset(uri)) == [2]


def test_plain_compaction_takes_two_versions(tmp_path: Path) -> None:
    # One reserves the fragment ids, and pylance cannot name its operation; one rewrites.
    uri = create_two_fragments(tmp_path / "t")

    lance.dataset(uri).optimize.compact_files()

    table = lance.dataset(uri)
    reserve, rewrite = table.read_transaction(3), table.read_transaction(4)
    assert table.version == 4
    assert reserve
    assert type(reserve.operation) is LanceOperation.BaseOperation
    assert rewrite
    assert type(rewrite.operation) is LanceOperation.Rewrite


def test_the_transaction_of_a_compaction_that_moved_an_index_cannot_be_read(tmp_path: Path) -> None:
    # Code that walks history to classify drift must handle this; the version itself is readable.
    uri = create_two_fragments(tmp_path / "t")
    apply(uri, stage_index(lance.dataset(uri)))
    lance.dataset(uri).optimize.compact_files()

    with pytest.raises(TypeError, match="RewrittenIndex"):
        lance.dataset(uri).read_transaction(5)

    assert contents(uri) == {"a": 1, "b": 2, "c": 3, "d": 4}
