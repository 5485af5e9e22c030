"""The files that a load reads: how they name their type, their contents, how errors name them."""

import gzip
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from omnigraph.errors import InvalidValueError, NotFoundError, RequestError, UnreadableError
from tests.support.graphs import FLEET, GAUGE
from tests.support.received import receive_all, rows_of

PILOT = {"type": "Pilot", "data": {"handle": "ada", "hours": 410}}
ADA = {"id": "ada", "handle": "ada", "hours": 410}
PILOTS = pa.table({"handle": ["ada"], "hours": [410]})
FLIGHTS = pa.table({"src": ["ada", "ben"], "dst": ["S1", "S2"]})


def write_lines(path: Path, *records: object) -> Path:
    """A file with one record a line."""
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return path


def write_parquet(path: Path, rows: pa.Table) -> Path:
    """A Parquet file, and the directory around it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(rows, path)
    return path


def refuse(given: object, *, schema: str) -> RequestError:
    """The refusal of what was given."""
    with pytest.raises(RequestError) as refused:
        receive_all(given, schema=schema)
    return refused.value


# Where rows come from


@pytest.mark.parametrize(
    "name", ["fleet.jsonl", "fleet.ndjson", "fleet.json", "fleet", "été 1.txt"]
)
def test_a_file_of_any_other_name_holds_ndjson(tmp_path: Path, name: str) -> None:
    path = write_lines(tmp_path / name, PILOT)

    for spelling in (path, str(path), path.as_uri(), [path], (path.as_uri(),)):
        assert rows_of(receive_all(spelling, schema=FLEET), "node:Pilot") == [ADA]


def test_an_open_file_of_text_or_bytes_is_read(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "fleet.jsonl", PILOT)
    packed = tmp_path / "fleet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))

    with path.open(encoding="utf-8") as text, path.open("rb") as content, gzip.open(packed) as gz:
        for file in (text, content, gz):
            assert rows_of(receive_all(file, schema=FLEET), "node:Pilot") == [ADA]


def test_a_parquet_file_is_named_after_its_type(tmp_path: Path) -> None:
    pilots = write_parquet(tmp_path / "Pilot.parquet", PILOTS)
    flights = write_parquet(tmp_path / "flies.PARQUET", FLIGHTS)

    received = receive_all([pilots, flights], schema=FLEET)

    assert rows_of(received, "node:Pilot") == [ADA]
    assert received["edge:Flies"].rows.num_rows == 2


def test_a_directory_is_named_after_the_type_of_its_files(tmp_path: Path) -> None:
    write_parquet(tmp_path / "Flies" / "part-1.parquet", FLIGHTS.slice(1))
    write_parquet(tmp_path / "Flies" / "part-0.parquet", FLIGHTS.slice(0, 1))
    (tmp_path / "Flies" / "_SUCCESS").touch()
    (tmp_path / "Flies" / ".part-0.parquet.crc").touch()

    received = receive_all(tmp_path / "Flies", schema=FLEET)

    assert [row["src"] for row in rows_of(received, "edge:Flies")] == ["ada", "ben"]


def test_a_single_part_knows_its_type_from_its_directory(tmp_path: Path) -> None:
    part = write_parquet(tmp_path / "Flies.parquet" / "part-0.parquet", FLIGHTS)

    assert receive_all(part, schema=FLEET)["edge:Flies"].rows.num_rows == 2


def test_a_directory_of_several_types_is_read_whole(tmp_path: Path) -> None:
    write_parquet(tmp_path / "Pilot.parquet", PILOTS)
    write_parquet(tmp_path / "Flies" / "part-0.parquet", FLIGHTS)
    write_lines(tmp_path / "more.jsonl", {"type": "Ship", "data": {"reg": "S1"}})

    received = receive_all(tmp_path, schema=FLEET)

    assert list(received) == ["edge:Flies", "node:Pilot", "node:Ship"]


def test_a_mapping_gives_the_type_of_files_of_any_name(tmp_path: Path) -> None:
    one = write_parquet(tmp_path / "a.parquet", PILOTS)
    other = write_parquet(tmp_path / "parts" / "b.parquet", PILOTS)

    received = receive_all({"Pilot": [one, str(other.parent)]}, schema=FLEET)

    assert rows_of(received, "node:Pilot") == [ADA, ADA]


def test_a_csv_file_holds_texts_numbers_and_dates(tmp_path: Path) -> None:
    path = tmp_path / "Gauge.csv"
    path.write_text(
        "code,f,i,w,on,day,at,kind\n"
        '"a, b",2.5,-1,18446744073709551615,true,2024-06-01,2024-06-01T12:00:00+02:00,hot\n'
        '"",,,,,,,\n'
        "12,1,7,1,False,20240601,2024-06-01,cold\n",
        encoding="utf-8",
    )

    rows = rows_of(receive_all(path, schema=GAUGE), "node:Gauge")

    assert [row["id"] for row in rows] == ["a, b", "", "12"]
    assert [row["f"] for row in rows] == [2.5, None, 1.0]
    assert [row["w"] for row in rows] == [2**64 - 1, None, 1]
    assert [row["on"] for row in rows] == [True, None, False]
    assert [str(row["day"]) for row in rows] == ["2024-06-01", "None", "2024-06-01"]
    assert [row["at"] for row in rows] == [1717236000000, None, 1717200000000]
    assert [row["kind"] for row in rows] == ["hot", None, "cold"]


def test_records_of_several_files_are_numbered_by_file(tmp_path: Path) -> None:
    fine = write_lines(tmp_path / "fine.jsonl", PILOT, PILOT)
    bad = write_lines(tmp_path / "bad.jsonl", PILOT, {"type": "Pilot", "data": {"handle": 5}})

    refused = refuse([fine, bad], schema=FLEET)

    assert str(refused).startswith(f"{bad}: record 2 (line 2), Pilot.handle: ")


def test_rows_of_a_table_are_numbered_by_file(tmp_path: Path) -> None:
    fine = write_parquet(tmp_path / "Pilot" / "a.parquet", PILOTS)
    rows = pa.table({"handle": ["x", "y"], "hours": [1, 2**40]})
    bad = write_parquet(tmp_path / "Pilot" / "b.parquet", rows)

    refused = refuse(fine.parent, schema=FLEET)

    assert str(refused).startswith(f"{bad}: row 2, Pilot.hours: 1099511627776 exceeds I32")


# What cannot be read


@pytest.mark.parametrize("name", ["nowhere.jsonl", "a/b.parquet", "x" * 5000, "nul\0l"])
def test_a_missing_file_is_not_found(tmp_path: Path, name: str) -> None:
    refused = refuse(f"{tmp_path}/{name}", schema=FLEET)

    assert isinstance(refused, NotFoundError)
    assert refused.kind == "file"
    assert len(str(refused)) < 500


def test_text_that_is_not_a_path_is_recognised() -> None:
    refused = refuse(json.dumps(PILOT), schema=FLEET)

    assert isinstance(refused, NotFoundError)
    assert "io.StringIO" in str(refused)


def test_a_file_that_holds_something_else_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "Pilot.parquet").write_bytes(b"PAR1 and nothing else")

    refused = refuse(tmp_path / "Pilot.parquet", schema=FLEET)

    assert isinstance(refused, UnreadableError)
    assert refused.path == str(tmp_path / "Pilot.parquet")


def test_a_file_that_cannot_be_read_is_unreadable(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "fleet.jsonl", PILOT)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with path.open() as closed:
        pass
    with path.open("a") as written:
        for given in (closed, written, tmp_path / "loop"):
            assert isinstance(refuse(given, schema=FLEET), UnreadableError)


def test_a_damaged_compressed_file_is_unreadable() -> None:
    packed = gzip.compress(json.dumps(PILOT).encode() * 1000)

    for damaged in (packed[:-9], packed[:20] + b"\xff" * 20 + packed[40:], b"PK"):
        with gzip.open(io.BytesIO(damaged)) as file:
            assert isinstance(refuse(file, schema=FLEET), UnreadableError)


def test_a_text_file_of_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fleet.jsonl"
    path.write_bytes('{"type":"Pilot","data":{"handle":"é"}}'.encode("latin-1"))

    with path.open(encoding="utf-8") as file:
        refused = refuse(file, schema=FLEET)

    assert isinstance(refused, InvalidValueError)
    assert str(path) in str(refused)


REFUSED_CSV = {
    "text for a number": ("code,i\nx,1\ny,many\n", "many"),
    "a number out of range": ("code,i\nx,2147483648\n", "2147483648"),
    "an unknown column": ("code,speed\nx,1\n", "speed"),
    "a short row": ("code,i\nx\n", "Expected 2 columns"),
    "no header": ("", "Empty CSV"),
    "a list": ("code,tags\nx,[]\n", "an array is needed"),
    "no UTF-8": ("code,kind\nx,\udcff\n", "UTF8"),
}


@pytest.mark.parametrize(("content", "problem"), REFUSED_CSV.values(), ids=REFUSED_CSV)
def test_a_csv_file_that_does_not_fit_is_refused(
    tmp_path: Path, content: str, problem: str
) -> None:
    path = tmp_path / "Gauge.csv"
    path.write_bytes(content.encode(errors="surrogateescape"))

    refused = refuse(path, schema=GAUGE)

    assert isinstance(refused, InvalidValueError)
    assert problem in str(refused)
    assert str(refused).startswith(f"{path}: ")


def test_files_of_unnamed_type_are_refused(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "rows" / "part-0.parquet", PILOTS)

    refused = refuse(path, schema=FLEET)

    assert isinstance(refused, InvalidValueError)
    assert "neither 'part-0' nor 'rows' is a type" in str(refused)


def test_input_that_cannot_be_loaded_in_process_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "Pilot.lance").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "Pilot").symlink_to(tmp_path / "empty")
    ndjson = write_lines(tmp_path / "fleet.jsonl", PILOT)

    reasons = {
        tmp_path / "Pilot.lance": "a Lance table is a directory",
        tmp_path / "empty": "nothing to load",
        tmp_path / "linked": "a link to a directory",
        "https://host/Pilot.parquet": "local disks and in S3",
        "s3:///Pilot.parquet": "needs a bucket",
        "file://elsewhere/Pilot.parquet": "local disks",
    }

    for path, reason in reasons.items():
        assert reason in str(refuse(path, schema=FLEET))
    assert "name their types" in str(refuse({"Pilot": ndjson}, schema=FLEET))
