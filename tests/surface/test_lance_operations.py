"""Lance's records of transactions: which operation one is of, past what pylance has words for."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction

from omnigraph.storage.lance.commit import read_operation
from tests.support.lance_probes import (
    Stage,
    append,
    apply,
    create_two_fragments,
    stage_append,
    stage_compaction,
    stage_config,
    stage_delete,
    stage_index,
    stage_overwrite,
    stage_restore,
    stage_upsert,
)


def stage_fewer_columns(table: LanceDataset) -> Transaction:
    schema = table.lance_schema
    return Transaction(table.version, LanceOperation.Project(schema))


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        (stage_append(z=1), "Append"),
        (stage_delete("object_id = 'a'"), "Delete"),
        (stage_overwrite(z=1), "Overwrite"),
        (stage_index, "CreateIndex"),
        (stage_compaction, "Rewrite"),
        (stage_restore(1), "Restore"),
        (stage_upsert(a=9), "Update"),
        (stage_fewer_columns, "Project"),
        (stage_config, "UpdateConfig"),
    ],
)
def test_a_record_says_which_operation_it_is_of(tmp_path: Path, stage: Stage, name: str) -> None:
    uri = create_two_fragments(tmp_path / "t")

    apply(uri, stage(lance.dataset(uri)))

    assert operations_after(uri, 2) == [name]


def test_a_new_column_with_values_is_a_merge(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    lance.dataset(uri).add_columns({"more": "value + 1"})

    assert operations_after(uri, 2) == ["Merge"]


@pytest.mark.parametrize("is_indexed", [True, False])
def test_plain_compaction_is_known_whether_it_moves_an_index_or_not(
    tmp_path: Path, *, is_indexed: bool
) -> None:
    uri = create_two_fragments(tmp_path / "t")
    if is_indexed:
        apply(uri, stage_index(lance.dataset(uri)))
    before = lance.dataset(uri).version

    lance.dataset(uri).optimize.compact_files()

    assert operations_after(uri, before) == ["ReserveFragments", "Rewrite"]


def test_what_is_no_record_says_nothing(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    append(uri, z=1)
    record = record_of(uri, 3)

    assert read_operation(b"") is None
    assert read_operation(b"\x07\xff\xff") is None
    assert read_operation(b"\xff" * 3) is None
    assert read_operation(record[:3]) is None
    assert read_operation(record) == "Append"


def operations_after(uri: str, version: int) -> list[str | None]:
    newest = lance.dataset(uri).version
    return [read_operation(record_of(uri, each)) for each in range(version + 1, newest + 1)]


def record_of(uri: str, version: int) -> bytes:
    tracked: pa.Table = lance.dataset(uri).tracked_files(min_version=version).read_all()
    (path,) = [
        each["path"]
        for each in tracked.to_pylist()
        if (each["version"], each["type"]) == (version, "transaction file")
    ]
    return Path(uri, path).read_bytes()
