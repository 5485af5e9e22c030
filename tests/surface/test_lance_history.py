"""Old versions: restoring one, tagging one, and what cleaning up takes away."""

from datetime import timedelta
from pathlib import Path

import lance
import pytest
from lance import LanceOperation, Transaction

from tests.support.lance_probes import (
    ArrowInvalid,
    append,
    apply,
    contents,
    create_two_fragments,
    files_of,
    head,
    keyed_rows,
    publish,
    restore,
    stage_append,
    stage_delete,
    stage_index,
    stage_overwrite,
)

# Not zero: pylance takes a zero age for one that was not given.
ANY_AGE = timedelta(microseconds=1)

ALL = {"a": 1, "b": 2, "c": 3, "d": 4}


def versions(uri: str) -> list[int]:
    return [found["version"] for found in lance.dataset(uri).version_refs()]


def test_a_restore_appends_one_version_with_the_old_rows(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    publish(lance.dataset(uri), a=9, z=9)

    restore(uri, version=2)

    assert head(uri) == 4
    assert contents(uri) == ALL
    assert contents(uri, version=3) == ALL | {"a": 9, "z": 9}


def test_a_restore_is_a_transaction_like_any_other(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    staged = Transaction(2, LanceOperation.Restore(1), "restoring", {"omnigraph:why": "rollback"})

    version = apply(uri, staged)

    assert version == 3
    assert lance.dataset(uri).read_transaction(3) == staged


def test_a_restore_through_an_old_table_discards_everything_since(tmp_path: Path) -> None:
    # It neither knows nor asks what landed: rolling back is safe only under our locks.
    uri = create_two_fragments(tmp_path / "t")
    append(uri, foreign=5)

    restore(uri, version=1)

    assert contents(uri) == {"a": 1, "b": 2}
    assert head(uri) == 4


def test_a_restore_on_a_branch_stays_on_the_branch(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    branch = lance.dataset(uri).create_branch("feature", 2).uri
    append(branch, z=9)

    restore(branch, version=2)

    assert (head(branch), contents(branch)) == (4, ALL)
    assert head(uri) == 2


def test_a_branch_cannot_be_restored_to_before_its_fork(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    branch = lance.dataset(uri).create_branch("feature", 2).uri

    with pytest.raises(OSError, match="Not found"):
        apply(branch, Transaction(2, LanceOperation.Restore(1)))

    assert head(branch) == 2


def test_an_open_table_sees_the_latest_version_and_keeps_reading_its_own(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    table = lance.dataset(uri)

    append(uri, z=9)

    assert table.latest_version == 3
    assert table.version == 2
    assert table.count_rows() == 4


def test_a_table_moves_to_the_latest_version_in_place(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    table = lance.dataset(uri)
    append(uri, z=9)

    table.checkout_latest()  # type: ignore[no-untyped-call]  # pylance

    assert (table.version, table.count_rows()) == (3, 5)


def test_a_tag_names_a_version_and_makes_none(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    lance.dataset(uri).tags.create("release", 1)

    assert lance.dataset(uri, version="release").version == 1
    assert head(uri) == 2


def test_a_tag_is_never_created_twice(tmp_path: Path) -> None:
    table = lance.dataset(create_two_fragments(tmp_path / "t"))
    table.tags.create("release", 1)

    with pytest.raises(ValueError, match="tag release already exists"):
        table.tags.create("release", 2)


def test_a_tag_of_a_missing_version_is_refused(tmp_path: Path) -> None:
    table = lance.dataset(create_two_fragments(tmp_path / "t"))

    with pytest.raises(ValueError, match="version main:99 does not exist"):
        table.tags.create("release", 99)


def test_nothing_is_cleaned_up_by_default(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    for value in range(30):
        publish(lance.dataset(uri), a=value)

    assert versions(uri) == list(range(1, 33))
    assert not [key for key in lance.dataset(uri).config() if "auto_cleanup" in key]


def test_cleaning_up_leaves_the_newest_version_and_its_rows(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    apply(uri, stage_overwrite(z=9)(lance.dataset(uri)))

    lance.dataset(uri).cleanup_old_versions(older_than=ANY_AGE)

    assert versions(uri) == [3]
    assert contents(uri) == {"z": 9}
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(uri, version=2)


def test_cleaning_up_retains_the_requested_number_of_versions(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    append(uri, z=9)

    lance.dataset(uri).cleanup_old_versions(retain_versions=2)

    assert versions(uri) == [2, 3]


def test_the_transaction_of_a_version_goes_with_it(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    lance.dataset(uri).cleanup_old_versions(retain_versions=1)

    with pytest.raises(OSError, match="was not found"):
        lance.dataset(uri).read_transaction(1)

    assert lance.dataset(uri).read_transaction(2)


def test_cleaning_up_leaves_recent_staged_files(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    before = files_of(uri)
    staged = stage_append(z=9)(lance.dataset(uri))
    stage_index(lance.dataset(uri))
    stage_delete("object_id = 'a'")(lance.dataset(uri))
    written = files_of(uri) - before

    lance.dataset(uri).cleanup_old_versions(older_than=ANY_AGE)

    assert written <= files_of(uri)
    apply(uri, staged)
    assert contents(uri) == ALL | {"z": 9}


def test_cleaning_up_unverified_files_deletes_staged_rows_and_indexes(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    before = files_of(uri)
    stage_append(z=9)(lance.dataset(uri))
    stage_index(lance.dataset(uri))
    written = files_of(uri) - before

    lance.dataset(uri).cleanup_old_versions(older_than=ANY_AGE, delete_unverified=True)

    assert written
    assert written.isdisjoint(files_of(uri))


def test_cleaning_up_unverified_files_leaves_staged_deletions(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    before = files_of(uri)
    stage_delete("object_id = 'a'")(lance.dataset(uri))
    written = files_of(uri) - before

    lance.dataset(uri).cleanup_old_versions(older_than=ANY_AGE, delete_unverified=True)

    assert written
    assert written <= files_of(uri)


def test_lance_commits_a_write_whose_files_were_deleted(tmp_path: Path) -> None:
    # Nothing is checked: the table is broken from that version on.
    uri = create_two_fragments(tmp_path / "t")
    staged = stage_append(z=9)(lance.dataset(uri))
    lance.dataset(uri).cleanup_old_versions(older_than=ANY_AGE, delete_unverified=True)

    apply(uri, staged)

    assert head(uri) == 3
    with pytest.raises(ArrowInvalid, match="Not found"):
        lance.dataset(uri).to_table()


def test_cleaning_up_stops_at_a_tagged_version(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    lance.dataset(uri).tags.create("release", 1)

    with pytest.raises(OSError, match="tagged version"):
        lance.dataset(uri).cleanup_old_versions(older_than=ANY_AGE)

    assert versions(uri) == [1, 2]


def test_a_tagged_version_outlives_its_neighbours(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    lance.dataset(uri).tags.create("release", 1)
    apply(uri, stage_overwrite(z=9)(lance.dataset(uri)))

    lance.dataset(uri).cleanup_old_versions(older_than=ANY_AGE, error_if_tagged_old_versions=False)

    assert versions(uri) == [1, 3]
    assert contents(uri, version=1) == {"a": 1, "b": 2}


def test_the_version_a_branch_forked_from_outlives_its_neighbours(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    branch = lance.dataset(uri).create_branch("feature", 2).uri
    lance.write_dataset(keyed_rows(z=9), uri, mode="overwrite")

    lance.dataset(uri).cleanup_old_versions(older_than=ANY_AGE, delete_unverified=True)

    assert versions(uri) == [2, 3]
    assert contents(branch) == ALL


def test_cleaning_up_main_leaves_what_is_staged_on_a_branch(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    branch = lance.dataset(uri).create_branch("feature", 2).uri
    staged = stage_append(z=9)(lance.dataset(branch))

    lance.dataset(uri).cleanup_old_versions(older_than=ANY_AGE, delete_unverified=True)

    apply(branch, staged)
    assert contents(branch) == ALL | {"z": 9}


def test_cleaning_up_a_branch_leaves_main(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    branch = lance.dataset(uri).create_branch("feature", 2).uri
    lance.write_dataset(keyed_rows(z=9), branch, mode="overwrite")

    lance.dataset(branch).cleanup_old_versions(older_than=ANY_AGE, delete_unverified=True)

    assert contents(branch) == {"z": 9}
    assert contents(uri) == ALL
