"""How a table is born, what it carries besides rows, and where it may lie."""

from pathlib import Path

import lance
import pytest

from tests.support.lance_probes import (
    UNENFORCED_PRIMARY_KEY,
    append,
    apply,
    contents,
    create_table,
    create_two_fragments,
    files_of,
    head,
    keyed_rows,
    named_columns,
    stage_append,
    stage_overwrite,
    with_schema_metadata,
    without_annotation,
)

STAMP = {"omnigraph:internal_schema_version": "4"}


def test_a_table_is_created_with_the_requested_options(tmp_path: Path) -> None:
    table = lance.dataset(create_table(tmp_path / "t", keyed_rows(a=1)))

    assert (table.version, table.data_storage_version) == (1, "2.2")
    assert table.has_stable_row_ids
    assert table.config() == {}


def test_a_table_is_born_with_defaults_that_are_not_ours(tmp_path: Path) -> None:
    table = lance.write_dataset(keyed_rows(a=1), str(tmp_path / "t"))

    assert table.data_storage_version == "2.2"
    assert not table.has_stable_row_ids


def test_a_table_may_be_born_empty(tmp_path: Path) -> None:
    table = lance.dataset(create_table(tmp_path / "t", keyed_rows()))

    assert (table.version, table.count_rows(), table.get_fragments()) == (1, 0, [])


def test_the_files_of_a_table(tmp_path: Path) -> None:
    # Versions are written backwards, so that the newest is the first in a listing.
    uri = create_table(tmp_path / "t", keyed_rows(a=1))

    folders = sorted(path.split("/")[0] for path in files_of(uri))

    assert folders == ["_transactions", "_versions", "_versions", "data"]
    assert f"_versions/{2**64 - 1 - 1}.manifest" in files_of(uri)
    assert "_versions/latest_version_hint.json" in files_of(uri)


def test_an_append_to_a_missing_table_creates_it(tmp_path: Path) -> None:
    # And without stable row ids: nothing but staged writes may be used on a table.
    uri = str(tmp_path / "t")

    append(uri, a=1)

    assert head(uri) == 1
    assert not lance.dataset(uri).has_stable_row_ids


def test_schema_metadata_is_there_from_the_first_version(tmp_path: Path) -> None:
    uri = create_table(tmp_path / "t", with_schema_metadata(keyed_rows(a=1), STAMP))

    table = lance.dataset(uri)

    assert table.version == 1
    assert table.schema_metadata == STAMP


def test_an_append_keeps_the_schema_metadata(tmp_path: Path) -> None:
    uri = create_table(tmp_path / "t", with_schema_metadata(keyed_rows(a=1), STAMP))

    apply(uri, stage_append(b=2)(lance.dataset(uri)))

    assert lance.dataset(uri).schema_metadata == STAMP


def test_an_overwrite_loses_the_schema_metadata(tmp_path: Path) -> None:
    # Unlike the configuration and the key's annotation, which it keeps.
    uri = create_table(tmp_path / "t", with_schema_metadata(keyed_rows(a=1), STAMP))

    apply(uri, stage_overwrite(b=2)(lance.dataset(uri)))

    assert lance.dataset(uri).schema_metadata == {}


def test_configuration_and_schema_metadata_cost_a_version_each(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    table = lance.dataset(uri)

    table.update_config({"table_version_management": "true"})
    table.update_schema_metadata({**STAMP})

    assert head(uri) == 4
    assert lance.dataset(uri).config() == {"table_version_management": "true"}
    assert lance.dataset(uri).schema_metadata == STAMP


@pytest.mark.parametrize("value", ["true", "false", None])
def test_the_primary_key_can_never_be_changed(tmp_path: Path, value: str | None) -> None:
    table = lance.dataset(create_two_fragments(tmp_path / "t"))

    with pytest.raises(OSError, match="cannot be changed once set"):
        table.update_field_metadata({"object_id": {UNENFORCED_PRIMARY_KEY: value}})


def test_the_primary_key_can_be_set_late(tmp_path: Path) -> None:
    table = lance.dataset(create_table(tmp_path / "t", without_annotation(keyed_rows(a=1))))

    table.update_field_metadata({"object_id": {UNENFORCED_PRIMARY_KEY: "true"}})

    found = lance.dataset(table.uri).schema.field("object_id").metadata
    assert found == {UNENFORCED_PRIMARY_KEY.encode(): b"true"}


def test_a_nullable_column_cannot_be_the_primary_key(tmp_path: Path) -> None:
    table = lance.dataset(create_table(tmp_path / "t", named_columns(object_id=["a"])))

    with pytest.raises(OSError, match="must not be nullable"):
        table.update_field_metadata({"object_id": {UNENFORCED_PRIMARY_KEY: "true"}})


def test_a_table_in_memory_is_lost_when_it_is_opened_again() -> None:
    uri = "memory://graph"
    table = lance.write_dataset(keyed_rows(a=1), uri)

    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(uri)

    assert table.count_rows() == 1


@pytest.mark.parametrize(
    "folder", ["with space", "ha#sh", "per%cent", "per%20cent", "größe", "a+b"]
)
def test_a_path_is_taken_as_it_is(tmp_path: Path, folder: str) -> None:
    uri = create_two_fragments(tmp_path / folder)
    branch = lance.dataset(uri).create_branch("team/feature", 2).uri

    append(branch, z=9)

    assert branch == f"{tmp_path}/{folder}/tree/team/feature"
    assert contents(branch) == {"a": 1, "b": 2, "c": 3, "d": 4, "z": 9}
    assert (tmp_path / folder / "tree/team/feature/_versions").is_dir()


@pytest.mark.parametrize("folder", ["ha#sh", "per%20cent"])
def test_a_file_uri_is_decoded_so_it_is_not_the_path(tmp_path: Path, folder: str) -> None:
    # Hence roots are given to Lance as paths.
    uri = create_two_fragments(tmp_path / folder)

    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(f"file://{uri}")


def test_a_question_mark_in_the_path_sends_a_branch_elsewhere(tmp_path: Path) -> None:
    # Files land outside the table, so such a root has to be refused.
    uri = create_two_fragments(tmp_path / "what?")

    lance.dataset(uri).create_branch("feature", 2)

    assert not (tmp_path / "what?" / "tree").exists()
    assert (tmp_path / "what").is_dir()


@pytest.mark.parametrize("folder", ["ha#sh", "größe"])
def test_a_branch_below_an_odd_path_leaves_an_empty_folder_beside_it(
    tmp_path: Path, folder: str
) -> None:
    uri = create_two_fragments(tmp_path / folder)

    lance.dataset(uri).create_branch("feature", 2)

    (stray,) = [path for path in tmp_path.iterdir() if path.name != folder]
    assert "%" in stray.name
    assert files_of(str(stray)) == frozenset()
