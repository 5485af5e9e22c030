"""The files of a schema: stored by the hash of the schema, staged, promoted, verified when read."""

from pathlib import Path

import pytest

from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.schema.canonical import hash_schema
from omnigraph.engine.state.schema_files import (
    FILES,
    STAGED_FILE,
    archive_schema,
    discard_staged,
    find_archived,
    find_files,
    find_staged,
    is_staged,
    promote_schema,
    read_accepted_schema,
    stage_schema,
)
from omnigraph.errors import CorruptError
from omnigraph.model.source import Source
from omnigraph.storage.ports import ObjectStore
from tests.support.control_objects import local_objects

ONE = "node Person { name: String @key }"
TWO = "node Person { name: String @key  age: I32? }"


def hash_of(text: str) -> str:
    """The hash of a schema."""
    return hash_schema(compile_schema(Source("<schema>", text)))


def keep(text: str, objects: ObjectStore) -> str:
    """Store a schema; its hash."""
    archive_schema(text, hash_of(text), objects=objects)
    return hash_of(text)


def promote(schema_hash: str, objects: ObjectStore) -> None:
    """Promote a schema over the existing files."""
    promote_schema(schema_hash, over=find_files(objects), objects=objects)


def test_a_stored_schema_is_found_by_its_hash(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)
    hashes = [keep(text, objects) for text in (ONE, TWO)]

    found = [find_archived(each, objects=objects) for each in hashes]

    assert [each and (each.source, each.schema_hash) for each in found] == [
        (ONE, hashes[0]),
        (TWO, hashes[1]),
    ]
    assert find_archived("sha256:00", objects=objects) is None


def test_the_first_text_of_a_schema_hash_is_the_stored_one(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)

    for text in (ONE, f"// again\n{ONE}"):
        keep(text, objects)

    found = find_archived(hash_of(ONE), objects=objects)
    assert found is not None
    assert found.source == ONE


def test_a_stored_schema_with_another_hash_is_refused(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)
    archive_schema(TWO, hash_of(ONE), objects=objects)

    with pytest.raises(CorruptError):
        find_archived(hash_of(ONE), objects=objects)


def test_a_staged_schema_is_found_until_it_is_promoted_or_discarded(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)
    keep(ONE, objects)

    stage_schema(ONE, objects=objects)
    assert find_staged(objects) == hash_of(ONE)
    assert is_staged(objects.list(""))
    promote(hash_of(ONE), objects)
    assert not is_staged(objects.list(""))
    stage_schema(TWO, objects=objects)
    discard_staged(objects)

    assert find_staged(objects) is None
    assert read_accepted_schema(objects, uri="x").source == ONE


def test_promoting_again_changes_nothing(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)
    schema_hash = keep(TWO, objects)
    promote(schema_hash, objects)
    before = {name: (tmp_path / name).read_bytes() for name in FILES}

    promote(schema_hash, objects)

    assert {name: (tmp_path / name).read_bytes() for name in FILES} == before
    assert not (tmp_path / STAGED_FILE).exists()


def test_the_staged_text_is_promoted_rather_than_an_earlier_one_of_its_hash(
    tmp_path: Path,
) -> None:
    objects = local_objects(tmp_path)
    keep(ONE, objects)
    text = f"// again\n{ONE}"
    stage_schema(text, objects=objects)

    for _ in range(2):
        promote(hash_of(ONE), objects)

    assert read_accepted_schema(objects, uri="x").source == text


def test_a_late_promotion_does_not_change_the_files_of_a_later_schema(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)
    hashes = [keep(text, objects) for text in (ONE, TWO)]
    promote(hashes[0], objects)
    stage_schema(TWO, objects=objects)
    late = find_files(objects)
    promote(hashes[1], objects)
    stage_schema(ONE, objects=objects)
    promote(hashes[0], objects)

    promote_schema(hashes[1], over=late, objects=objects)

    assert read_accepted_schema(objects, uri="x").source == ONE
    assert find_staged(objects) is None


def test_an_accepted_schema_is_as_listed_until_a_file_of_it_is_written(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)
    promote(keep(ONE, objects), objects)
    accepted_schema = read_accepted_schema(objects, uri="x")
    assert accepted_schema.is_as_listed(objects.tokens(""))

    promote(keep(TWO, objects), objects)

    assert not accepted_schema.is_as_listed(objects.tokens(""))
    archived = find_archived(hash_of(ONE), objects=objects)
    assert archived is not None
    assert not archived.is_as_listed(objects.tokens("")), "it was not read from those files"
