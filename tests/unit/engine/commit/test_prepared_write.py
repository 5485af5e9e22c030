"""What a change of schema does to the list of types: its record, and the rows that it becomes."""

from collections.abc import Mapping
from dataclasses import replace

import orjson
import pytest

from omnigraph.engine.commit.prepared_write import SchemaDelta
from omnigraph.engine.state.manifest import Entry, Register, Tombstone, Update
from omnigraph.model.records import RecordError, decode_fields, encode_fields
from omnigraph.storage.ports import TableVersion, VersionFile

DELTA = SchemaDelta(
    replaced_hash="sha256:00",
    registered=(Register("node:Pet", "nodes/a"), Register("edge:Owns", "edges/b")),
    adopted=(Entry("node:Pet", "nodes/a", 3, None, 0), Entry("edge:Owns", "edges/b", 1, "dev", 7)),
    dropped=(Tombstone("node:Note", 5),),
)


@pytest.mark.parametrize(
    "delta",
    [
        DELTA,
        SchemaDelta("", (), (), ()),
        replace(DELTA, registered=(), adopted=()),
        replace(DELTA, dropped=()),
    ],
)
def test_a_delta_is_read_back_as_it_was_written(delta: SchemaDelta) -> None:
    stored = orjson.loads(orjson.dumps(encode_fields(delta)))

    assert decode_fields(SchemaDelta, stored) == delta


def without(name: str) -> Mapping[str, object]:
    """The fields of a delta but one."""
    return {key: value for key, value in encode_fields(DELTA).items() if key != name}


def broken(name: str, field: str, value: object) -> Mapping[str, object]:
    """The fields of a delta with one of a part made wrong."""
    document = orjson.loads(orjson.dumps(encode_fields(DELTA)))
    document[name][0][field] = value
    return dict(document)


BROKEN: Mapping[str, object] = {
    "no object": [],
    "no hash": without("replaced_schema_hash"),
    "no registrations": without("registrations"),
    "no adoptions": without("adoptions"),
    "no tombstones": without("tombstones"),
    "a hash of another type": {**encode_fields(DELTA), "replaced_schema_hash": None},
    "registrations of another type": {**encode_fields(DELTA), "registrations": {}},
    "a registration without a place": broken("registrations", "table_path", None),
    "a registration without a key": broken("registrations", "table_key", 1),
    "an adoption without a version": broken("adoptions", "table_version", "3"),
    "an adoption with a wrong branch": broken("adoptions", "table_branch", 1),
    "an adoption without a count": broken("adoptions", "row_count", None),
    "a tombstone without a version": broken("tombstones", "tombstone_version", None),
}


@pytest.mark.parametrize("document", BROKEN.values(), ids=BROKEN.keys())
def test_a_record_that_lacks_a_part_is_refused(document: object) -> None:
    with pytest.raises(RecordError, match="a field is missing"):
        decode_fields(SchemaDelta, document)


def test_a_delta_becomes_rows_of_the_manifest() -> None:
    def describe(at: TableVersion) -> VersionFile:
        return VersionFile(f"{at.ref.path}@{at.version}", None)

    changes = DELTA.changes(describe)

    assert changes == (
        *DELTA.registered,
        Update(DELTA.adopted[0], VersionFile("nodes/a@3", None)),
        Update(DELTA.adopted[1], VersionFile("edges/b@1", None)),
        *DELTA.dropped,
    )
