"""The merge-insert by which a graph commit becomes true, and every way around its fence.

The publisher writes `__manifest` with `conflict_retries(0)` and `use_index(False)` on a table whose
key carries the unenforced-primary-key annotation. Each of the three is load-bearing.
"""

import subprocess
import sys
import threading
from pathlib import Path

import lance
import pytest

from tests.support.lance_probes import (
    append,
    apply,
    contents,
    create_table,
    create_two_fragments,
    files_of,
    head,
    keyed_rows,
    publish,
    repeated_key_rows,
    stage_upsert,
    upsert,
    values_of,
    without_annotation,
)
from tests.support.source_tree import ROOT

CONTENTION = "Too many concurrent writers"

# Opens the table, waits for a line, and then publishes on the version it opened.
RIVAL = """
import sys
import lance
from tests.support.lance_probes import publish

uri, key = sys.argv[1:]
table = lance.dataset(uri)
print("opened", flush=True)
sys.stdin.readline()
try:
    publish(table, **{key: 20})
except OSError as error:
    print(error)
else:
    print("landed")
"""


@pytest.mark.parametrize("key", ["new", "a"])
def test_the_second_writer_of_a_key_is_refused(tmp_path: Path, key: str) -> None:
    uri = create_two_fragments(tmp_path / "t")
    first, second = lance.dataset(uri), lance.dataset(uri)
    publish(first, **{key: 10})

    with pytest.raises(OSError, match=CONTENTION) as refusal:
        publish(second, **{key: 20})

    # Not a CommitConflictError: only the text distinguishes this refusal from a failing disk.
    assert type(refusal.value) is OSError
    assert values_of(uri, key) == [10]
    assert head(uri) == 3


@pytest.mark.parametrize("keys", [("new", "newer"), ("a", "b"), ("a", "new")])
def test_writers_of_different_keys_both_land(tmp_path: Path, keys: tuple[str, str]) -> None:
    uri = create_two_fragments(tmp_path / "t")
    first, second = lance.dataset(uri), lance.dataset(uri)

    publish(first, **{keys[0]: 10})
    publish(second, **{keys[1]: 20})

    assert contents(uri) | {keys[0]: 10, keys[1]: 20} == contents(uri)
    assert second.version == head(uri) == 4


def test_a_row_that_both_write_makes_writers_of_different_keys_collide(tmp_path: Path) -> None:
    # `graph_head:<branch>` is that row: it is what puts the commits of a branch in one line.
    uri = create_two_fragments(tmp_path / "t")
    first, second = lance.dataset(uri), lance.dataset(uri)
    publish(first, mine=10, a=1)

    with pytest.raises(OSError, match=CONTENTION):
        publish(second, yours=20, a=2)

    assert "yours" not in contents(uri)


@pytest.mark.parametrize(("key", "outcome"), [("ours", CONTENTION), ("theirs", "landed")])
def test_the_fence_holds_between_processes(tmp_path: Path, key: str, outcome: str) -> None:
    uri = create_two_fragments(tmp_path / "t")
    command = [sys.executable, "-c", RIVAL, uri, key]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as rival:
        assert rival.stdin
        assert rival.stdout
        assert rival.stdout.readline() == "opened\n"
        publish(lance.dataset(uri), ours=10)

        said, _ = rival.communicate("go\n")

    assert said.startswith(outcome)
    assert values_of(uri, "ours") == [10]


def test_of_many_writers_at_once_exactly_one_wins(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    tables = [lance.dataset(uri) for _ in range(4)]
    start = threading.Barrier(len(tables))
    refusals: list[str] = []

    def race(value: int) -> None:
        start.wait()
        try:
            publish(tables[value], new=value)
        except OSError as error:
            refusals.append(str(error))

    writers = [threading.Thread(target=race, args=(value,)) for value in range(len(tables))]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert len(values_of(uri, "new")) == 1
    assert len(refusals) == 3
    assert all(CONTENTION in refusal for refusal in refusals)


def test_a_refused_publish_leaves_no_files(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    stale = lance.dataset(uri)
    append(uri, new=10)
    before = files_of(uri)

    with pytest.raises(OSError, match=CONTENTION):
        publish(stale, new=20)

    assert files_of(uri) == before


def test_without_the_annotation_a_new_key_goes_in_twice(tmp_path: Path) -> None:
    uri = create_table(tmp_path / "t", without_annotation(keyed_rows(a=1)))
    first, second = lance.dataset(uri), lance.dataset(uri)

    upsert(first).execute(without_annotation(keyed_rows(new=10)))
    upsert(second).execute(without_annotation(keyed_rows(new=20)))

    assert values_of(uri, "new") == [10, 20]


def test_an_index_on_the_key_defeats_the_fence_unless_it_is_not_used(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    lance.dataset(uri).create_scalar_index("object_id", "BTREE")
    first, second = lance.dataset(uri), lance.dataset(uri)

    upsert(first).use_index(use_index=True).execute(keyed_rows(new=10))
    upsert(second).use_index(use_index=True).execute(keyed_rows(new=20))

    assert values_of(uri, "new") == [10, 20]


def test_an_unused_index_leaves_the_fence_in_place(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    lance.dataset(uri).create_scalar_index("object_id", "BTREE")
    first, second = lance.dataset(uri), lance.dataset(uri)
    publish(first, new=10)

    with pytest.raises(OSError, match=CONTENTION):
        publish(second, new=20)


def test_with_retries_the_second_writer_silently_replaces_the_first(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    first, second = lance.dataset(uri), lance.dataset(uri)
    publish(first, new=10)

    upsert(second).conflict_retries(1).execute(keyed_rows(new=20))

    assert values_of(uri, "new") == [20]


def test_a_staged_merge_insert_has_no_fence(tmp_path: Path) -> None:
    # Data tables are written this way, so our locks and HEAD == pin fence them, not Lance.
    uri = create_two_fragments(tmp_path / "t")
    first = stage_upsert(new=10)(lance.dataset(uri))
    second = stage_upsert(new=20)(lance.dataset(uri))

    versions = [apply(uri, first), apply(uri, second)]

    assert versions == [3, 4]
    assert values_of(uri, "new") == [10, 20]


def test_a_plain_append_passes_by_a_fence_that_came_first(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    stale = lance.dataset(uri)
    publish(lance.dataset(uri), new=10)

    lance.write_dataset(keyed_rows(new=20), stale, mode="append")

    assert values_of(uri, "new") == [10, 20]


@pytest.mark.parametrize("keys", [{"new": 20}, {"unrelated": 20}, {"a": 20}])
def test_a_publish_after_a_plain_append_is_refused_whatever_its_keys(
    tmp_path: Path, keys: dict[str, int]
) -> None:
    # An append says nothing about its keys, so Lance assumes the worst.
    uri = create_two_fragments(tmp_path / "t")
    stale = lance.dataset(uri)
    append(uri, new=10)

    with pytest.raises(OSError, match=CONTENTION):
        publish(stale, **keys)


def test_a_publish_that_updates_a_compacted_row_is_refused_as_contention(tmp_path: Path) -> None:
    # The publisher compacts `__manifest` itself: the loser retries as after any other commit.
    uri = create_two_fragments(tmp_path / "t")
    stale = lance.dataset(uri)
    lance.dataset(uri).optimize.compact_files()

    with pytest.raises(OSError, match=CONTENTION):
        publish(stale, a=20)


def test_a_publish_after_an_overwrite_is_refused_as_incompatible(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    stale = lance.dataset(uri)
    lance.write_dataset(keyed_rows(q=1), uri, mode="overwrite")

    with pytest.raises(OSError, match="Incompatible transaction") as refusal:
        publish(stale, new=20)

    assert type(refusal.value) is OSError
    assert contents(uri) == {"q": 1}


def test_a_new_key_twice_in_one_publish_goes_in_twice(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    upsert(lance.dataset(uri)).execute(repeated_key_rows("new", values=[1, 2]))

    assert values_of(uri, "new") == [1, 2]


def test_an_existing_key_twice_in_one_publish_is_refused(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    with pytest.raises(OSError, match="Ambiguous merge inserts are prohibited"):
        upsert(lance.dataset(uri)).execute(repeated_key_rows("a", values=[1, 2]))

    assert head(uri) == 2


def test_a_publish_of_no_rows_still_makes_a_version(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    publish(lance.dataset(uri))

    assert head(uri) == 3
