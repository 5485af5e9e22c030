"""Inputs of a load by name: compressed files, folders, patterns, CSV and Lance, on S3 too."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
import zstandard
from pyarrow import csv, ipc, parquet

import omnigraph
from omnigraph.engine.input.csv_files import CsvFile
from omnigraph.errors import (
    InvalidValueError,
    NotFoundError,
    RequestError,
    UnavailableError,
    UnreadableError,
)
from tests.support.graphs import SOCIAL, build_graph, contents, unchanged
from tests.support.received import receive_all, rows_of
from tests.support.s3_server import S3Server

PEOPLE = pa.table({"name": ["Ann", "Bob"], "age": pa.array([34, None], pa.int32())})
LINES = (
    b'{"type":"Person","data":{"name":"Ann","age":34}}\n{"type":"Person","data":{"name":"Bob"}}\n'
)
ROWS = [{"id": "Ann", "name": "Ann", "age": 34}, {"id": "Bob", "name": "Bob", "age": None}]


@pytest.mark.parametrize(
    "given", ["~/people.jsonl", "~/*.jsonl", CsvFile("~/people.csv"), Path("~/people.jsonl")]
)
def test_a_tilde_in_the_path_of_an_input_is_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: object
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "people.jsonl").write_bytes(LINES)
    csv.write_csv(PEOPLE, tmp_path / "people.csv")

    assert people_of({"Person": given} if isinstance(given, CsvFile) else given) == ROWS


def people_of(given: object) -> list[object]:
    """The people that are received."""
    return [*rows_of(receive_all(given, schema=SOCIAL), "node:Person")]


def names_of(given: object) -> list[object]:
    """Their names."""
    received = receive_all(given, schema=SOCIAL)
    return [row["name"] for row in rows_of(received, "node:Person")]


def refuse(given: object) -> RequestError:
    """The refusal of what was given."""
    with pytest.raises(RequestError) as refused:
        receive_all(given, schema=SOCIAL)
    return refused.value


def write_person(path: Path, name: str) -> Path:
    """A file with one person, and the folders around it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"type": "Person", "data": {"name": name}}) + "\n")
    return path


# Compressed files


@pytest.mark.parametrize("name", ["people.jsonl.gz", "people.GZ", "people.jsonl", "people"])
def test_a_gzip_file_is_known_by_its_name_or_by_how_it_begins(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(LINES))

    assert people_of(tmp_path / name) == ROWS


@pytest.mark.parametrize("name", ["people.jsonl.zst", "people.zstd", "people.ndjson"])
def test_a_zstd_file_is_known_by_its_name_or_by_how_it_begins(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(zstandard.compress(LINES))

    assert people_of(tmp_path / name) == ROWS


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_compressed_files_that_were_joined_are_read_to_the_end(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    first, _, second = LINES.partition(b"\n")
    (tmp_path / "people").write_bytes(pack(first) + pack(b"\n" + second))

    assert people_of(tmp_path / "people") == ROWS


@pytest.mark.parametrize(("name", "pack"), [("p.gz", gzip.compress), ("p.zst", zstandard.compress)])
def test_a_truncated_or_invalid_compressed_file_changes_nothing(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    graph = build_graph(tmp_path / "graph", SOCIAL)
    whole = pack(LINES * 1000)

    with unchanged(graph):
        for content in (whole[:-3], whole[:20], LINES, whole + b"more"):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(UnreadableError, match=name):
                graph.load(tmp_path / name, mode="merge")


def test_a_record_of_a_compressed_file_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "people.gz").write_bytes(gzip.compress(LINES + b'\n{"type":"Person"}'))

    refused = refuse(tmp_path / "people.gz")

    assert str(refused).startswith(f"{tmp_path}/people.gz: record 3 (line 4), Person.name: ")


def test_a_compressed_csv_file_is_named_after_its_type(tmp_path: Path) -> None:
    (tmp_path / "Person.csv.gz").write_bytes(gzip.compress(b"name,age\nAnn,34\nBob,\n"))
    (tmp_path / "Person.parquet.gz").write_bytes(gzip.compress(b"PAR1"))

    assert people_of(tmp_path / "Person.csv.gz") == ROWS
    assert "decompress" in str(refuse(tmp_path / "Person.parquet.gz"))


# Folders and patterns


def test_a_folder_is_read_with_all_folders_in_it_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b/2.json", "b/10.json", "a.json", "a/z.json", "c", "_notes/x", "b/.hidden"):
        write_person(tmp_path / name, name)

    assert names_of(tmp_path) == ["a/z.json", "a.json", "b/10.json", "b/2.json", "c"]


PATTERNS = {
    "*.json": ["a.json", "b.json"],
    "?.json": ["a.json", "b.json"],
    "[!a].json": ["b.json"],
    "*/*.json": ["one/a.json", "two/b.json"],
    "**/a.json": ["a.json", "one/a.json", "two/deep/a.json"],
    "two/**": ["two/b.json", "two/deep/a.json"],
    "t*": ["two/b.json", "two/deep/a.json"],
    "**/deep/*": ["two/deep/a.json"],
    "_*/x": ["_notes/x"],
}


@pytest.mark.parametrize(("pattern", "expected"), PATTERNS.items(), ids=PATTERNS)
@pytest.mark.parametrize("is_relative", [False, True], ids=["absolute", "relative"])
def test_a_pattern_selects_every_matching_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
    expected: list[str],
    *,
    is_relative: bool,
) -> None:
    for name in ("a.json", "b.json", "one/a.json", "two/b.json", "two/deep/a.json", "_notes/x"):
        write_person(tmp_path / name, name)
    monkeypatch.chdir(tmp_path)

    found = names_of(pattern if is_relative else f"{tmp_path}/{pattern}")

    assert found == expected


def test_an_existing_file_takes_precedence_over_a_pattern(tmp_path: Path) -> None:
    write_person(tmp_path / "[ab].json", "itself")
    write_person(tmp_path / "a.json", "another")

    assert names_of(tmp_path / "[ab].json") == ["itself"]


def test_a_pattern_that_fits_nothing_is_not_found(tmp_path: Path) -> None:
    refused = refuse(f"{tmp_path}/nowhere/*.json")

    assert isinstance(refused, NotFoundError)
    assert "nowhere/*.json" in str(refused)


def test_the_parts_of_a_pattern_know_their_type(tmp_path: Path) -> None:
    (tmp_path / "Person").mkdir()
    for number in range(2):
        rows = PEOPLE.slice(number, 1)
        parquet.write_table(rows, tmp_path / "Person" / f"part-{number}.parquet")

    assert people_of(f"{tmp_path}/Person/part-*.parquet") == ROWS
    assert people_of({"Person": f"{tmp_path}/*/part-*.parquet"}) == ROWS


# CSV


def test_columns_of_a_csv_file_become_the_properties_that_the_caller_says(tmp_path: Path) -> None:
    path = tmp_path / "people.txt"
    path.write_text('Full name;age;Notes\nAnn;34;"a;b"\nBob;-;\n', encoding="utf-8")
    given = CsvFile(path, columns={"Full name": "name", "Notes": None}, delimiter=";", null="-")

    assert people_of({"Person": given}) == ROWS
    assert people_of({"Person": [given]}) == ROWS


def test_a_csv_file_that_is_described_may_name_its_type_itself(tmp_path: Path) -> None:
    (tmp_path / "Knows.csv").write_text("who,whom,since\nAnn,Bob,2024-06-01\n", encoding="utf-8")
    given = CsvFile(tmp_path / "Knows.csv", columns={"who": "src", "whom": "dst"})

    received = receive_all([given], schema=SOCIAL)

    (row,) = rows_of(received, "edge:Knows")
    assert (row["src"], row["dst"], str(row["since"])) == ("Ann", "Bob", "2024-06-01")


def test_every_row_of_a_large_csv_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "Person.csv"
    names = [f'person "{number}"\n{"x" * 500}' for number in range(40_000)]
    csv.write_csv(pa.table({"name": names}), path)

    assert names_of(path) == names


CSV_REFUSALS = {
    "no such column": (
        {"columns": {"nme": "name"}},
        "unknown column 'nme' in the file; did you mean",
    ),
    "no such property": ({"columns": {"name": "nam"}}, "has no property 'nam'; did you mean"),
    "two columns for one": ({"columns": {"age": "name"}}, "there are 2 columns 'name'"),
    "a key left out": ({"columns": {"name": None}}, "missing @key property"),
    "a long delimiter": ({"delimiter": "--"}, "a delimiter is one ASCII character"),
    "a quote for a delimiter": ({"delimiter": '"'}, "cannot be a quote"),
    "a list of columns": ({"columns": ["name"]}, "columns lead from names"),
    "null for null": ({"null": None}, "null is spelled by a text"),
}


@pytest.mark.parametrize(("options", "problem"), CSV_REFUSALS.values(), ids=CSV_REFUSALS)
def test_a_description_that_does_not_fit_the_csv_file_is_refused(
    tmp_path: Path, options: dict[str, object], problem: str
) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name,age\nAnn,34\n", encoding="utf-8")

    refused = refuse({"Person": CsvFile(path, **options)})  # type: ignore[arg-type]  # on purpose

    assert isinstance(refused, InvalidValueError)
    assert problem in str(refused)


def test_a_field_that_does_not_fit_is_named_by_its_row(tmp_path: Path) -> None:
    path = tmp_path / "Person.csv"
    problems = {
        "many": "row 2, Person.age: a whole number is needed, not 'many'",
        "2147483648": "row 2, Person.age: 2147483648 exceeds I32",
        "1,2": "row 2: Expected 2 columns, got 3",
    }

    for field, problem in problems.items():
        path.write_text(f"name,age\nAnn,34\nBob,{field}\nCid,x\n", encoding="utf-8")
        assert str(refuse(path)).startswith(f"{path}: {problem}")


def test_an_unclosed_quote_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.engine.input.csv_files.CSV_BLOCK_BYTES", 1000)
    path = tmp_path / "Person.csv"
    path.write_text('name,age\nAnn,34\n"Bob,\n' + "Cid,1\n" * 1000, encoding="utf-8")

    assert "a row has more than 1,000 bytes; check that every quote is closed" in str(refuse(path))


# Arrow and Lance


def test_an_arrow_file_holds_a_file_or_a_stream(tmp_path: Path) -> None:
    with ipc.new_file(tmp_path / "Person.arrow", PEOPLE.schema) as writer:
        writer.write_table(PEOPLE)
    (tmp_path / "Person").mkdir()
    with ipc.new_stream(tmp_path / "Person" / "stream.arrow", PEOPLE.schema) as writer:
        writer.write_table(PEOPLE)

    assert people_of(tmp_path / "Person.arrow") == ROWS
    assert people_of(tmp_path / "Person") == ROWS


@pytest.mark.parametrize("name", ["Person.lance", "Person", "Person/rows.lance"])
def test_a_lance_table_is_named_after_its_type(tmp_path: Path, name: str) -> None:
    lance.write_dataset(PEOPLE, tmp_path / name)

    assert people_of(tmp_path / name) == ROWS


def test_lance_tables_are_found_in_folders_and_by_a_mapping(tmp_path: Path) -> None:
    lance.write_dataset(PEOPLE, tmp_path / "in" / "Person.lance")
    lance.write_dataset(PEOPLE.slice(0, 0), tmp_path / "any.lance")
    write_person(tmp_path / "in" / "more.json", "Cid")

    assert names_of(tmp_path / "in") == ["Ann", "Bob", "Cid"]
    assert people_of({"Person": [tmp_path / "any.lance", tmp_path / "in" / "*.lance"]}) == ROWS
    assert people_of({"Person": tmp_path / "any.lance"}) == []


def test_a_lance_table_is_read_as_it_is_without_deleted_rows(tmp_path: Path) -> None:
    table = lance.write_dataset(PEOPLE, tmp_path / "Person.lance")
    table.insert(pa.table({"name": ["Cid"], "age": pa.array([1], pa.int32())}))
    table.delete("name = 'Bob'")

    assert names_of(tmp_path / "Person.lance") == ["Ann", "Cid"]


def test_blobs_of_a_lance_table_are_loaded(tmp_path: Path) -> None:
    documents = "node Doc { slug: String @key  body: Blob? }"
    graph = build_graph(tmp_path / "graph", documents)
    bodies = pa.table({"slug": ["a", "b"], "body": pa.array([b"text", None], pa.large_binary())})
    graph.load({"Doc": bodies}, mode="append")
    (table,) = (tmp_path / "graph" / "nodes").iterdir()
    copy = build_graph(tmp_path / "copy", documents)

    copy.load({"Doc": table}, mode="append")

    assert contents(copy) == contents(graph)


def test_a_folder_that_says_it_is_lance_and_is_not_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "Person.lance").mkdir()
    damaged = tmp_path / "damaged.lance"
    lance.write_dataset(PEOPLE, damaged)
    for file in (damaged / "data").iterdir():
        file.write_bytes(b"nothing of the kind")

    for path in (tmp_path / "Person.lance", damaged):
        refused = refuse({"Person": path})
        assert isinstance(refused, UnreadableError)
        assert str(path) in str(refused)


# S3


def test_files_of_a_bucket_are_loaded_like_those_of_a_disk(
    tmp_path: Path, server: S3Server
) -> None:
    bucket = server.create_bucket()
    store = server.object_store(bucket, prefix="in")
    parquet.write_table(PEOPLE, tmp_path / "file")
    store.put("people.jsonl", LINES)
    store.put("packed/people.jsonl.gz", gzip.compress(LINES))
    store.put("packed/people.jsonl.zst", zstandard.compress(LINES))
    store.put("Person/part-0.parquet", (tmp_path / "file").read_bytes())
    store.put("Person/_SUCCESS", b"")
    options = server.lance_options()
    lance.write_dataset(PEOPLE, f"s3://{bucket}/in/Person.lance", storage_options=options)
    graph = omnigraph.init(tmp_path / "graph", SOCIAL, storage_options=options)
    store.put("people.csv", b"Full name,age\nAnn,34\nBob,\n")
    described = CsvFile(f"s3://{bucket}/in/people.csv", columns={"Full name": "name"})
    expected = {"Person": {"Ann": {"name": "Ann", "age": 34}, "Bob": {"name": "Bob", "age": None}}}

    for given in (
        f"s3://{bucket}/in/people.jsonl",
        f"s3://{bucket}/in/packed/people.jsonl.gz",
        f"s3://{bucket}/in/packed/*.zst",
        f"s3://{bucket}/in/Person/part-0.parquet",
        f"s3://{bucket}/in/Person/",
        f"S3://{bucket}/in/Person",
        f"s3://{bucket}/**/part-?.parquet",
        f"s3://{bucket}/in/Person.lance",
        {"Person": f"s3://{bucket}/in/Person/*"},
        {"Person": described},
    ):
        graph.load(given, mode="overwrite")
        assert contents(graph) == expected, given


def test_a_missing_object_in_a_bucket_is_not_found(tmp_path: Path, server: S3Server) -> None:
    bucket = server.create_bucket()
    server.object_store(bucket, prefix="in").put("people.jsonl", LINES)
    graph = omnigraph.init(tmp_path / "graph", SOCIAL, storage_options=server.lance_options())

    with unchanged(graph):
        for path in ("in/people", "in/people.jso", "in/*.csv", "out", "in/people.jsonl/x"):
            with pytest.raises(NotFoundError, match="check the path"):
                graph.load(f"s3://{bucket}/{path}", mode="append")
        with pytest.raises(UnavailableError, match="bucket does not exist"):
            graph.load("s3://no-such-bucket/people.jsonl", mode="append")


def test_a_large_file_of_a_bucket_is_read_in_few_requests(tmp_path: Path, server: S3Server) -> None:
    bucket = server.create_bucket()
    text = "x" * 1000
    lines = [
        json.dumps({"type": "Person", "data": {"name": f"{number} {text}"}}).encode()
        for number in range(12_000)
    ]
    server.object_store(bucket, prefix="in").put("people.jsonl", b"\n".join(lines))
    graph = omnigraph.init(tmp_path / "graph", SOCIAL, storage_options=server.lance_options())

    with server.recording() as requests:
        graph.load(f"s3://{bucket}/in/people.jsonl", mode="append")

    assert graph.tables()["node:Person"].row_count == 12_000
    assert len([each for each in requests if each.method == "GET"]) <= 3
