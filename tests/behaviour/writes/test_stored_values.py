"""Stored values equal the given ones: every property type, every kind of write, all bounds."""

import datetime
import io
import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.errors import IntegrityError, InvalidValueError
from tests.support.graphs import GAUGE, build_graph, ndjson, node, rows, unchanged
from tests.support.queries import query

FULL: Mapping[str, object] = {
    "code": "g1",
    "f": 2.5,
    "g": 0.1,
    "i": 1,
    "l": 9007199254740993,
    "u": 7,
    "w": 12,
    "on": True,
    "day": "2024-06-01",
    "at": "2024-06-01T12:00:00.000Z",
    "tags": ["x", "y"],
    "nums": [1, 2],
    "v": [0.25, -1.0],
    "kind": "hot",
}
EMPTY = dict.fromkeys(FULL) | {"code": "g4"}


def test_every_type_of_value_is_loaded_and_read_back(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, GAUGE)

    graph.load(ndjson(node("Gauge", **FULL), node("Gauge", code="g4")), mode="append")

    assert rows(graph, "Gauge") == {"g1": FULL, "g4": EMPTY}


def test_times_are_loaded_as_milliseconds_too(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, GAUGE)

    graph.load(ndjson(node("Gauge", code="g", at=1717243200000)), mode="append")

    assert rows(graph, "Gauge")["g"]["at"] == FULL["at"]


def test_every_type_of_value_is_a_parameter(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, GAUGE)
    declared = {
        "code": "String", "f": "F64", "g": "F32", "i": "I32", "l": "I64", "u": "U32", "w": "U64",
        "on": "Bool", "day": "Date", "at": "DateTime", "tags": "[String]", "nums": "[I32]",
        "v": "Vector(2)", "kind": "String",
    }  # fmt: skip
    given = {
        **FULL,
        "day": datetime.date(2024, 6, 1),
        "at": datetime.datetime(
            2024, 6, 1, 14, tzinfo=datetime.timezone(datetime.timedelta(hours=2))
        ),
    }

    graph.mutate(
        query(
            f"insert Gauge {{ {', '.join(f'{name}: ${name}' for name in declared)} }}",
            parameters=", ".join(f"${name}: {type}" for name, type in declared.items()),
        ),
        given,
    )

    assert rows(graph, "Gauge") == {"g1": FULL}


def test_every_type_of_value_is_a_literal(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, GAUGE)

    graph.mutate(
        query(
            'insert Gauge { code: "g1", f: 2.5, g: 0.1, i: 1, l: 9007199254740993, u: 7, w: 12,'
            ' on: true, day: date("2024-06-01"), at: datetime("2024-06-01T12:00:00Z"),'
            ' tags: ["x", "y"], nums: [1, 2], v: [0.25, -1.0], kind: "hot" }'
        )
    )

    assert rows(graph, "Gauge") == {"g1": FULL}


def test_an_update_writes_every_type_of_value(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, GAUGE, node("Gauge", code="g1"))

    graph.mutate(
        query(
            "update Gauge set { f: 2.5, g: 0.1, i: 1, l: 9007199254740993, u: 7, w: 12,"
            ' on: true, day: date("2024-06-01"), at: datetime("2024-06-01T12:00:00Z"),'
            ' tags: ["x", "y"], nums: [1, 2], v: [0.25, -1.0], kind: "hot" } where code = "g1"'
        )
    )

    assert rows(graph, "Gauge") == {"g1": FULL}


EXTREMES: Mapping[str, object] = {
    "f": 1.7976931348623157e308,
    "g": 3.4028235e38,
    "i": -(2**31),
    "l": -(2**63),
    "u": 2**32 - 1,
    "w": 2**64 - 1,
    "day": "0001-01-01",
    "at": "9999-12-31T23:59:59.999Z",
    "tags": [],
    "nums": [2**31 - 1, -(2**31)],
    "kind": "in-between",
}


@pytest.mark.parametrize(("name", "value"), EXTREMES.items(), ids=EXTREMES)
def test_the_bounds_of_a_type_are_stored_exactly(tmp_path: Path, name: str, value: object) -> None:
    graph = build_graph(tmp_path, GAUGE)

    graph.load(ndjson(node("Gauge", code="g", **{name: value})), mode="append")

    assert rows(graph, "Gauge")["g"][name] == value


@pytest.mark.parametrize(
    "text", ["", " ", "\x00", "\n", "é", "🜂", "a'b\"c", "\\", "line one\nline two\r\n\t"]
)
def test_any_text_is_stored_exactly(tmp_path: Path, text: str) -> None:
    graph = build_graph(tmp_path, "node Note { slug: String @key  text: String? }")

    graph.load(ndjson(node("Note", slug="loaded", text=text)), mode="append")
    graph.mutate(
        query('insert Note { slug: "inserted", text: $t }', parameters="$t: String"), {"t": text}
    )

    assert rows(graph, "Note") == {
        "loaded": {"slug": "loaded", "text": text},
        "inserted": {"slug": "inserted", "text": text},
    }


UNFIT = {
    "D22 past I32": ("i", 2**40),
    "past I32 by one": ("i", 2**31),
    "past 64 bits": ("l", 2**63),
    "far past 64 bits": ("l", 2**200),
    "past U64": ("w", 2**64),
    "below U32": ("u", -1),
    "past I32 in a list": ("nums", [1, 2**31]),
    "past F32": ("g", 1e39),
    "I13 text for a number": ("i", "12"),
    "a fraction for a whole number": ("i", 3.5),
    "an integral float for a whole number": ("i", 3.0),
    "a number for a text": ("kind", 5),
    "a number for a truth": ("on", 1),
    "a truth for a number": ("i", True),
    "I14 a short vector": ("v", [1.0]),
    "I14 a long vector": ("v", [1.0, 2.0, 3.0]),
    "I14 text in a vector": ("v", ["a", 1]),
    "null in a vector": ("v", [None, 1]),
    "null in a list": ("nums", [1, None]),
    "no list": ("tags", "x"),
    "bad date": ("day", "2024-13-01"),
    "bad time": ("at", "yesterday"),
    "an object": ("code", {"a": 1}),
}


@pytest.mark.parametrize(("name", "value"), UNFIT.values(), ids=UNFIT)
def test_a_value_that_does_not_fit_is_refused_and_its_record_named(
    tmp_path: Path, name: str, value: object
) -> None:
    graph = build_graph(tmp_path, GAUGE)
    records = ndjson(node("Gauge", code="fine"), node("Gauge", **{"code": "g", name: value}))

    with unchanged(graph), pytest.raises(InvalidValueError, match="record 2") as refused:
        graph.load(records, mode="append")

    assert f"'{name}'" in str(refused.value) or f".{name}" in str(refused.value)


def test_i14_a_vector_of_the_wrong_length_says_what_is_expected(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, GAUGE)

    with pytest.raises(InvalidValueError, match="expects 2 dimensions"):
        graph.load(ndjson(node("Gauge", code="g", v=[1, 2, 3])), mode="append")


def test_i13_a_required_property_must_be_given(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node T { name: String @key  n: I32 }")

    with unchanged(graph):
        for missing in ({"n": None}, {}):
            with pytest.raises(IntegrityError, match=r"missing required property T\.n"):
                graph.load(ndjson(node("T", name="a", **missing)), mode="append")


def test_arrow_values_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, GAUGE)
    code = pa.array(["g"])
    unfit = {
        "i": pa.array([2**40]),
        "u": pa.array([-1]),
        "v": pa.array([[1.0, 2.0, 3.0]]),
        "day": pa.array(["never"]),
        "nums": pa.array([[1, None]]),
    }

    with unchanged(graph):
        for name, column in unfit.items():
            with pytest.raises(InvalidValueError, match=name):
                graph.load({"Gauge": pa.table({"code": code, name: column})}, mode="append")


def test_arrow_values_of_narrower_types_are_stored(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, GAUGE)
    narrow = pa.table(
        {
            "code": pa.array(["g1"]).dictionary_encode(),
            "i": pa.array([1], pa.int8()),
            "l": pa.array([2], pa.uint16()),
            "f": pa.array([0.5], pa.float32()),
            "day": pa.array([datetime.date(2024, 6, 1)]),
            "at": pa.array([datetime.datetime(2024, 6, 1, 12, tzinfo=datetime.UTC)]),
            "tags": pa.array([["x"]], pa.large_list(pa.large_string())),
            "v": pa.array([[0.25, -1.0]], pa.list_(pa.float64())),
        }
    )

    graph.load({"Gauge": narrow}, mode="append")

    stored = rows(graph, "Gauge")["g1"]
    expected = {"i": 1, "l": 2, "f": 0.5, "day": FULL["day"], "at": FULL["at"], "tags": ["x"]}
    assert {name: stored[name] for name in expected} == expected
    assert stored["v"] == [0.25, -1.0]


def test_a_blob_is_stored_and_survives_an_update_of_its_row(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Doc { slug: String @key  body: Blob?  n: I32? }")

    graph.load(ndjson(node("Doc", slug="loaded", body="base64:AQID")), mode="append")
    graph.mutate(query('insert Doc { slug: "inserted", body: "base64:BAUG" }'))
    graph.mutate(query('update Doc set { n: 1 } where slug = "loaded"'))

    assert rows(graph, "Doc") == {
        "loaded": {"slug": "loaded", "body": "base64:AQID", "n": 1},
        "inserted": {"slug": "inserted", "body": "base64:BAUG", "n": None},
    }


def test_exported_rows_can_be_loaded_again(tmp_path: Path) -> None:
    original = build_graph(
        tmp_path / "original", GAUGE, node("Gauge", **FULL), node("Gauge", code="g4")
    )
    lines = list(original.export())

    copy = build_graph(tmp_path / "copy", GAUGE)
    copy.load(io.StringIO("\n".join(lines)), mode="append")

    assert list(copy.export()) == lines
    assert all(json.loads(line) for line in lines)
