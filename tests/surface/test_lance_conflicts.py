"""What a staged write does when another one landed first: `apply` relies on this table.

`commit(max_retries=0)` is not a compare-and-swap. Lance compares the write with what landed since
its read version and either rebases it, reporting success, or refuses it. Only the returned version
distinguishes a write that moved its table by exactly one from a write on an unvalidated base.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import lance
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError

from tests.support.lance_probes import (
    Stage,
    append,
    apply,
    contents,
    create_two_fragments,
    files_of,
    fragment_ids,
    head,
    stage_append,
    stage_compaction,
    stage_config,
    stage_delete,
    stage_index,
    stage_overwrite,
    stage_restore,
    stage_schema_metadata,
    stage_upsert,
    values_of,
)


def stage_key_index(table: LanceDataset) -> Transaction:
    segment = table.create_index_uncommitted(
        "object_id", "BTREE", name="key_btree", fragment_ids=fragment_ids(table)
    )
    return Transaction(table.version, LanceOperation.CreateIndex([segment], []))


# Fragment 0 holds a and b, fragment 1 holds c and d.
STAGES: Mapping[str, Stage] = {
    "append": stage_append(z=10),
    "insert": stage_upsert(z=10),
    "update-a": stage_upsert(a=10),
    "update-b": stage_upsert(b=10),
    "update-c": stage_upsert(c=10),
    "delete-a": stage_delete("object_id = 'a'"),
    "delete-b": stage_delete("object_id = 'b'"),
    "delete-c": stage_delete("object_id = 'c'"),
    "delete-ab": stage_delete("object_id IN ('a', 'b')"),
    "overwrite": stage_overwrite(q=10),
    "index": stage_index,
    "index-key": stage_key_index,
    "compact": stage_compaction,
    "restore": stage_restore(1),
    "config": stage_config,
    "metadata": stage_schema_metadata,
}

# The row is the write that landed first, the column the one that comes second.
#   +  rebased: it lands one version further than it was staged for, and reports success
#   r  refused, retryable        x  refused, not retryable
MATRIX = """
          append insert update-a delete-a overwrite index compact restore config metadata
append    +      +      +        +        r         +     +       +       +      +
insert    +      +      +        +        r         +     +       +       +      +
update-a  +      +      r        r        r         +     r       +       +      +
update-b  +      +      r        r        r         +     r       +       +      +
update-c  +      +      +        +        r         +     r       +       +      +
delete-a  +      +      r        r        r         +     r       +       +      +
delete-b  +      +      r        r        r         +     r       +       +      +
delete-c  +      +      +        +        r         +     r       +       +      +
delete-ab +      +      r        r        r         +     r       +       +      +
overwrite x      x      x        x        r         x     x       +       +      x
index     +      +      +        +        r         r     r       +       +      +
index-key +      +      +        +        r         +     r       +       +      +
compact   +      +      r        r        r         r     r       +       +      +
restore   x      x      x        x        r         x     x       +       +      x
config    +      +      +        +        r         +     +       +       x      +
metadata  +      +      +        +        r         +     +       x       +      x
"""


def cells() -> Iterator[tuple[str, str, str]]:
    columns, *rows = (line.split() for line in MATRIX.strip().splitlines())
    for first, *outcomes in rows:
        for second, outcome in zip(columns, outcomes, strict=True):
            yield first, second, outcome


def cells_with(outcome: str) -> list[tuple[str, str]]:
    return [(first, second) for first, second, found in cells() if found == outcome]


@pytest.mark.parametrize(("first", "second"), cells_with("+"))
def test_a_rebased_write_reports_success_one_version_too_far(
    tmp_path: Path, first: str, second: str
) -> None:
    uri = create_two_fragments(tmp_path / "t")
    late = STAGES[second](lance.dataset(uri))
    apply(uri, STAGES[first](lance.dataset(uri)))

    assert apply(uri, late) == late.read_version + 2 == head(uri)


@pytest.mark.parametrize(
    ("first", "second", "is_retryable"),
    [(*cell, True) for cell in cells_with("r")] + [(*cell, False) for cell in cells_with("x")],
)
def test_a_refused_write_says_whether_to_retry_and_changes_nothing(
    tmp_path: Path, first: str, second: str, *, is_retryable: bool
) -> None:
    uri = create_two_fragments(tmp_path / "t")
    late = STAGES[second](lance.dataset(uri))
    apply(uri, STAGES[first](lance.dataset(uri)))
    rows = lance.dataset(uri).to_table()

    with pytest.raises(CommitConflictError) as refusal:
        apply(uri, late)

    assert refusal.value.retryable is is_retryable
    assert head(uri) == 3
    assert lance.dataset(uri).to_table() == rows


@pytest.mark.parametrize("operation", STAGES)
def test_a_staged_write_without_concurrent_writes_moves_the_table_by_one(
    tmp_path: Path, operation: str
) -> None:
    uri = create_two_fragments(tmp_path / "t")
    staged = STAGES[operation](lance.dataset(uri))

    assert apply(uri, staged) == staged.read_version + 1 == head(uri) == 3


@pytest.mark.parametrize("is_stale", [True, False])
def test_committing_through_an_open_table_rebases_just_the_same(
    tmp_path: Path, *, is_stale: bool
) -> None:
    uri = create_two_fragments(tmp_path / "t")
    stale = lance.dataset(uri)
    staged = stage_append(z=10)(stale)
    append(uri, rival=1)
    through = stale if is_stale else lance.dataset(uri)

    landed = LanceDataset.commit(through, staged, max_retries=0)

    assert landed.version == 4
    assert contents(uri)["rival"] == 1


@pytest.mark.parametrize(
    "operation", ["append", "update-a", "delete-a", "overwrite", "index", "compact", "restore"]
)
def test_a_rival_that_lands_at_the_last_instant_is_never_rebased_onto(
    tmp_path: Path, operation: str
) -> None:
    # The rival lands after Lance looked for rivals and before it writes the manifest: that write
    # is the compare-and-swap, and without retries losing it is the end.
    uri = create_two_fragments(tmp_path / "t")
    staged = STAGES[operation](lance.dataset(uri))

    with pytest.raises(CommitConflictError, match="after 0 retries") as refusal:
        LanceDataset.commit(
            uri, staged, max_retries=0, commit_lock=_after(lambda: append(uri, rival=1))
        )

    assert refusal.value.retryable
    assert contents(uri) == {"a": 1, "b": 2, "c": 3, "d": 4, "rival": 1}


def test_of_many_commits_at_once_one_moves_the_table_by_one(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    staged = [stage_append(**{f"z{number}": number})(lance.dataset(uri)) for number in range(4)]
    start = threading.Barrier(len(staged))
    landed: list[int] = []
    refused: list[CommitConflictError] = []

    def race(transaction: Transaction) -> None:
        start.wait()
        try:
            landed.append(apply(uri, transaction))
        except CommitConflictError as error:
            refused.append(error)

    writers = [threading.Thread(target=race, args=(transaction,)) for transaction in staged]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert landed.count(3) == 1
    assert sorted(landed) == list(range(3, 3 + len(landed)))
    assert len(contents(uri)) == 4 + len(landed)
    assert len(landed) + len(refused) == 4
    assert all(error.retryable for error in refused)


def test_an_overwrite_with_a_retry_replaces_what_landed_first(tmp_path: Path) -> None:
    # Without retries an overwrite is the one operation that is a true compare-and-swap.
    uri = create_two_fragments(tmp_path / "t")
    staged = stage_overwrite(q=1)(lance.dataset(uri))
    append(uri, rival=1)

    landed = LanceDataset.commit(uri, staged, max_retries=1)

    assert landed.version == 4
    assert contents(uri) == {"q": 1}


def test_a_restore_discards_what_landed_first(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    staged = stage_restore(1)(lance.dataset(uri))
    append(uri, rival=1)

    assert apply(uri, staged) == 4
    assert contents(uri) == {"a": 1, "b": 2}


def test_an_append_committed_twice_goes_in_twice(tmp_path: Path) -> None:
    # So a commit whose response was lost is looked up by its uuid and never sent again.
    uri = create_two_fragments(tmp_path / "t")
    staged = stage_append(z=10)(lance.dataset(uri))

    versions = [apply(uri, staged), apply(uri, staged)]

    assert versions == [3, 4]
    assert values_of(uri, "z") == [10, 10]
    assert lance.dataset(uri).read_transaction(3) == lance.dataset(uri).read_transaction(4)


def test_an_overwrite_committed_twice_is_recognised_as_the_one_that_landed(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    staged = stage_overwrite(q=1)(lance.dataset(uri))
    apply(uri, staged)
    append(uri, later=1)

    assert apply(uri, staged) == 3
    assert contents(uri) == {"q": 1, "later": 1}


@pytest.mark.parametrize("operation", ["update-a", "delete-a", "index", "compact"])
def test_any_other_write_committed_twice_is_refused(tmp_path: Path, operation: str) -> None:
    uri = create_two_fragments(tmp_path / "t")
    staged = STAGES[operation](lance.dataset(uri))
    apply(uri, staged)

    with pytest.raises(CommitConflictError):
        apply(uri, staged)

    assert head(uri) == 3


def test_a_commit_lock_can_refuse_to_be_rebased(tmp_path: Path) -> None:
    # It receives the version that will be written. The price is in test_lance_durability: with
    # a lock Lance no longer links the manifest into place, so the lock has to be a real one.
    uri = create_two_fragments(tmp_path / "t")
    staged = stage_append(z=10)(lance.dataset(uri))
    append(uri, rival=1)
    before = files_of(uri)

    with pytest.raises(OSError, match="about to write 4, staged for 3"):
        LanceDataset.commit(uri, staged, max_retries=0, commit_lock=_only(3))

    assert head(uri) == 3
    assert {path.split("/")[0] for path in files_of(uri) - before} <= {"_transactions"}


def test_a_plain_write_through_an_old_version_lands_on_head(tmp_path: Path) -> None:
    # Opening a version pins what is read, not what is written.
    uri = create_two_fragments(tmp_path / "t")
    append(uri, rival=1)

    lance.dataset(uri, version=1).delete("object_id = 'b'", conflict_retries=0)

    assert contents(uri) == {"a": 1, "c": 3, "d": 4, "rival": 1}


def test_a_plain_delete_that_lost_is_refused_like_a_publish(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    stale = lance.dataset(uri)
    lance.dataset(uri).delete("object_id = 'a'")

    with pytest.raises(OSError, match="Too many concurrent writers") as refusal:
        stale.delete("object_id = 'a'", conflict_retries=0)

    assert type(refusal.value) is OSError


def _after(rival: Callable[[], None]) -> Callable[[int], AbstractContextManager[None]]:
    @contextmanager
    def lock(_version: int) -> Iterator[None]:
        # In a thread of its own: Lance calls the lock inside its runtime and cannot enter it again.
        thread = threading.Thread(target=rival)
        thread.start()
        thread.join()
        yield

    return lock


def _only(expected: int) -> Callable[[int], AbstractContextManager[None]]:
    @contextmanager
    def lock(version: int) -> Iterator[None]:
        if version != expected:
            raise RuntimeError(f"about to write {version}, staged for {expected}")
        yield

    return lock
