"""Rows of the manifest and the state they mean."""

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from omnigraph.engine.state.manifest import (
    MANIFEST_SCHEMA,
    Change,
    Register,
    Tombstone,
    decode_commits,
    encode_manifest,
    manifest_ref,
    reduce_manifest,
)
from omnigraph.model.errors import CorruptError
from omnigraph.model.names import MAIN
from omnigraph.storage.ports import TableVersion
from tests.support.manifests import TIMESTAMP, make_commit, make_state, make_update

AT = TableVersion(manifest_ref(MAIN), 7)


def broken(rows: pa.Table, object_id: str, column: str) -> pa.Table:
    """The rows with one cell made null."""
    edited = [
        {**row, column: None} if row["object_id"] == object_id else row for row in rows.to_pylist()
    ]
    nullable = pa.schema([pa.field(each.name, each.type) for each in MANIFEST_SCHEMA])
    return pa.Table.from_pylist(edited, schema=nullable)


def test_the_newest_version_of_a_table_counts() -> None:
    state = make_state(
        make_update("node:A", 2), make_update("node:A", 10), make_update("node:A", 9)
    )

    assert [entry.version for entry in state.snapshot] == [10]


def test_tables_come_in_the_order_of_their_keys() -> None:
    state = make_state(make_update("node:B", 1), make_update("edge:Z", 1), make_update("node:A", 1))

    assert list(state.snapshot.entries) == ["edge:Z", "node:A", "node:B"]


def test_a_tombstone_hides_its_version_and_all_before() -> None:
    hidden = make_state(make_update("node:A", 3), Tombstone("node:A", 4))
    returned = make_state(make_update("node:A", 5), Tombstone("node:A", 4))

    assert not hidden.snapshot.entries
    assert [entry.version for entry in returned.snapshot] == [5]


def test_a_writer_expects_the_pin_the_tombstone_or_nothing() -> None:
    state = make_state(make_update("node:A", 3), make_update("node:B", 3), Tombstone("node:B", 4))

    assert [state.version_of(key) for key in ("node:A", "node:B", "node:C")] == [3, 4, 0]


def test_the_head_is_the_newest_commit() -> None:
    later = make_commit("a", manifest_version=2)
    tied = make_commit("b", manifest_version=2, created_at=TIMESTAMP + timedelta(microseconds=1))
    rows = pa.concat_tables(
        [encode_manifest([], each, after=None) for each in (tied, make_commit("z"), later)]
    )

    state = reduce_manifest(rows, at=AT, branch=MAIN, onto=None)

    assert state.head == tied
    assert [commit.id for commit in decode_commits(rows)] == ["z", "a", "b"]


def test_rows_added_to_a_state_mean_the_same_as_all_rows_at_once() -> None:
    first = encode_manifest(
        [Register("node:A", "nodes/a"), make_update("node:A", 1)], make_commit("c1"), after=None
    )
    second = encode_manifest(
        [make_update("node:A", 2, row_count=5), Tombstone("node:A", 9)],
        make_commit("c2", manifest_version=2),
        after=None,
    )
    known = reduce_manifest(first, at=AT, branch=MAIN, onto=None)

    folded = reduce_manifest(second, at=AT, branch=MAIN, onto=known)

    assert folded == reduce_manifest(
        pa.concat_tables([first, second]), at=AT, branch=MAIN, onto=None
    )


def test_a_long_history_gives_its_newest_rows() -> None:
    keys = [f"node:T{number}" for number in range(3)]
    registered = [Register(key, f"nodes/{key}") for key in keys]
    first = encode_manifest(registered, make_commit("c0"), after=None)
    commits = [
        encode_manifest(
            [make_update(keys[number % 3], number, row_count=number)],
            make_commit(f"c{number}", manifest_version=number),
            after=None,
        )
        for number in range(2, 700)
    ]

    state = reduce_manifest(pa.concat_tables([*commits, first]), at=AT, branch=MAIN, onto=None)

    assert [entry.version for entry in state.snapshot] == [699, 697, 698]
    assert state.head.id == "c699"


def test_the_same_version_again_replaces_what_is_known_of_it() -> None:
    known = make_state(make_update("node:A", 4, row_count=3))
    handed_over = encode_manifest(
        [make_update("node:A", 4, row_count=3, branch="b")],
        make_commit("c1", manifest_version=2),
        after=None,
    )

    state = reduce_manifest(handed_over, at=AT, branch=MAIN, onto=known)

    assert [entry.branch for entry in state.snapshot] == ["b"]


def test_kinds_of_rows_that_are_not_known_are_passed_over() -> None:
    rows = encode_manifest([], make_commit("c0"), after=None)
    stranger = rows.slice(0, 1).set_column(1, MANIFEST_SCHEMA.field(1), pa.array(["later"]))

    state = reduce_manifest(pa.concat_tables([rows, stranger]), at=AT, branch=MAIN, onto=None)

    assert state.head.id == "c0"


@pytest.mark.parametrize(
    ("object_id", "column"),
    [
        ("node:A", "location"),
        ("node:A$00000000000000000002", "table_version"),
        ("node:A$00000000000000000002", "row_count"),
        ("node:A$00000000000000000002", "metadata"),
        ("node:A$tombstone$00000000000000000001", "table_version"),
        ("c0", "metadata"),
        ("c0", "table_version"),
    ],
)
def test_a_row_that_lacks_what_it_must_have_is_a_broken_graph(object_id: str, column: str) -> None:
    changes: list[Change] = [
        Register("node:A", "a"),
        make_update("node:A", 2),
        Tombstone("node:A", 1),
    ]
    rows = broken(encode_manifest(changes, make_commit("c0"), after=None), object_id, column)

    with pytest.raises(CorruptError, match=object_id.partition("$")[0]):
        reduce_manifest(rows, at=AT, branch=MAIN, onto=None)


def test_a_version_of_a_table_without_a_place_is_a_broken_graph() -> None:
    rows = encode_manifest([make_update("node:A", 2)], make_commit("c0"), after=None)

    with pytest.raises(CorruptError, match="node:A"):
        reduce_manifest(rows, at=AT, branch=MAIN, onto=None)


def test_a_manifest_without_a_commit_is_a_broken_graph() -> None:
    with pytest.raises(CorruptError, match="no commit"):
        reduce_manifest(MANIFEST_SCHEMA.empty_table(), at=AT, branch=MAIN, onto=None)


def test_commits_are_read_back_as_they_were_written() -> None:
    commits = (
        make_commit("c0"),
        replace(make_commit("c1", parent_id="c0", actor="ann"), merged_parent_id="c9"),
        replace(make_commit("c2", manifest_version=3), branch="feature/x", schema_hash=None),
    )
    rows = pa.concat_tables([encode_manifest([], commit, after=None) for commit in commits])

    assert decode_commits(rows) == commits


@pytest.mark.parametrize(
    "metadata", ["", "[]", "{", '{"created_at":"now"}', '{"created_at":1,"actor_id":2}']
)
def test_a_commit_that_cannot_be_read_is_a_broken_graph(metadata: str) -> None:
    rows = encode_manifest([], make_commit("c0"), after=None)
    edited = rows.set_column(3, MANIFEST_SCHEMA.field(3), pa.array([metadata] * rows.num_rows))

    with pytest.raises(CorruptError, match="commit c0"):
        decode_commits(edited)
