"""Stable row ids and the two version columns, through every kind of write.

Change detection and merge read `_row_created_at_version` and `_row_last_updated_at_version`; both
mean something only on a table that was created with stable row ids.
"""

from dataclasses import dataclass
from pathlib import Path

import lance
import pytest

from tests.support.lance_probes import (
    Stage,
    append,
    apply,
    create_two_fragments,
    head,
    keyed_rows,
    publish,
    restore,
    stage_append,
    stage_compaction,
    stage_delete,
    stage_overwrite,
    stage_upsert,
)


@dataclass(frozen=True, slots=True)
class Row:
    """Where a row is and when it was written."""

    id: int
    created: int
    updated: int


def rows_of(uri: str) -> dict[str, Row]:
    columns = ["object_id", "_row_created_at_version", "_row_last_updated_at_version"]
    found = lance.dataset(uri).scanner(columns=columns, with_row_id=True).to_table()
    return {
        row["object_id"]: Row(
            row["_rowid"], row["_row_created_at_version"], row["_row_last_updated_at_version"]
        )
        for row in found.to_pylist()
    }


BEFORE = {
    "a": Row(id=0, created=1, updated=1),
    "b": Row(id=1, created=1, updated=1),
    "c": Row(id=2, created=2, updated=2),
    "d": Row(id=3, created=2, updated=2),
}


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (stage_append(z=9), BEFORE | {"z": Row(id=4, created=3, updated=3)}),
        (
            stage_upsert(a=9, z=9),
            BEFORE | {"a": Row(id=0, created=1, updated=3), "z": Row(id=4, created=3, updated=3)},
        ),
        (stage_upsert(a=1), BEFORE | {"a": Row(id=0, created=1, updated=3)}),
        (stage_delete("object_id = 'a'"), {key: BEFORE[key] for key in "bcd"}),
        (stage_compaction, BEFORE),
        (stage_overwrite(a=1), {"a": Row(id=4, created=3, updated=3)}),
    ],
    ids=["append", "upsert", "upsert-of-the-same-value", "delete", "compact", "overwrite"],
)
def test_what_a_staged_write_does_to_row_ids_and_versions(
    tmp_path: Path, stage: Stage, expected: dict[str, Row]
) -> None:
    uri = create_two_fragments(tmp_path / "t")
    assert rows_of(uri) == BEFORE

    apply(uri, stage(lance.dataset(uri)))

    assert rows_of(uri) == expected


def test_a_publish_keeps_ids_and_first_versions_like_a_staged_upsert(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    publish(lance.dataset(uri), a=9, z=9)

    assert rows_of(uri) == BEFORE | {
        "a": Row(id=0, created=1, updated=3),
        "z": Row(id=4, created=3, updated=3),
    }


def test_plain_compaction_changes_neither(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    publish(lance.dataset(uri), a=9)
    before = rows_of(uri)

    lance.dataset(uri).optimize.compact_files()

    assert rows_of(uri) == before


def test_a_restore_brings_back_the_old_ids_and_versions(tmp_path: Path) -> None:
    # Rows restored to version 5 still say that they were last written at 1 or 2, so a comparison
    # of versions across a restore sees nothing.
    uri = create_two_fragments(tmp_path / "t")
    publish(lance.dataset(uri), a=9)
    apply(uri, stage_delete("object_id = 'b'")(lance.dataset(uri)))

    restore(uri, version=2)

    assert head(uri) == 5
    assert rows_of(uri) == BEFORE


def test_an_id_is_never_given_twice_not_even_after_a_restore(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    append(uri, z=9)
    restore(uri, version=2)

    append(uri, y=8)

    assert rows_of(uri)["y"] == Row(id=5, created=5, updated=5)


def test_a_rebased_write_carries_the_version_it_landed_at(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    staged = stage_upsert(a=9, z=9)(lance.dataset(uri))
    append(uri, rival=1)

    assert apply(uri, staged) == 4
    assert rows_of(uri)["a"] == Row(id=0, created=1, updated=4)
    assert rows_of(uri)["z"] == Row(id=5, created=4, updated=4)


def test_two_branches_give_the_same_id_to_different_rows(tmp_path: Path) -> None:
    # So a merge matches rows by key; ids are comparable along one line of versions only.
    uri = create_two_fragments(tmp_path / "t")
    branch = lance.dataset(uri).create_branch("feature", 2).uri

    append(uri, ours=1)
    append(branch, theirs=1)

    assert rows_of(uri)["ours"].id == rows_of(branch)["theirs"].id == 4


def test_a_branch_keeps_the_versions_of_the_rows_it_inherited(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    branch = lance.dataset(uri).create_branch("feature", 2).uri

    apply(branch, stage_upsert(a=9)(lance.dataset(branch)))

    assert rows_of(branch) == BEFORE | {"a": Row(id=0, created=1, updated=3)}


def test_rows_can_be_filtered_by_the_version_that_wrote_them(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    publish(lance.dataset(uri), a=9, z=9)

    table = lance.dataset(uri)
    written = table.to_table(filter="_row_last_updated_at_version > 2")
    inserted = table.to_table(filter="_row_created_at_version > 2")

    assert written["object_id"].to_pylist() == ["a", "z"]
    assert inserted["object_id"].to_pylist() == ["z"]


def test_without_stable_row_ids_an_update_moves_the_row_and_tracks_no_version(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(keyed_rows(a=1), uri, enable_stable_row_ids=False)
    append(uri, b=2)

    publish(lance.dataset(uri), a=9)

    assert rows_of(uri) == {"a": Row(id=2 << 32, created=1, updated=1), "b": Row(1 << 32, 1, 1)}


def test_stable_row_ids_are_chosen_at_birth_or_never(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(keyed_rows(a=1), uri)

    lance.write_dataset(keyed_rows(a=1), uri, mode="overwrite", enable_stable_row_ids=True)

    assert not lance.dataset(uri).has_stable_row_ids
