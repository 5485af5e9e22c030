"""Arrow streams as responses, and JSON with the same contents."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import orjson
import pyarrow as pa
import pytest

import omnigraph
from tests.support.graphs import build_graph, node
from tests.support.served_graphs import ADD_PERSON, G, head_of, require_refused
from tests.support.servers import Server, open_server

ARROW = "application/vnd.apache.arrow.stream"

SCHEMA = """
node Gauge {
  slug: String @key
  flag: Bool?
  small: I32?
  big: I64?
  unsigned: U64?
  narrow: F32?
  wide: F64?
  day: Date?
  moment: DateTime?
  words: [String]?
  numbers: [F64]?
  days: [Date]?
  place: Vector(3)?
}
node Page { slug: String @key  image: Blob? }
"""
ALL = """
query all() {
    match { $g: Gauge }
    return {
        $g.slug, $g.flag, $g.small, $g.big, $g.unsigned, $g.narrow, $g.wide,
        $g.day, $g.moment, $g.words, $g.numbers, $g.days, $g.place
    }
}
"""
ROWS = 10_000
BLOB = bytes(range(256)) * 40_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    numbers = range(ROWS)
    with build_graph(folder / "graph", SCHEMA, node("Page", slug="empty", image=None)) as graph:
        graph.load(
            {
                "Gauge": pa.table(
                    {
                        "slug": [f'g{number:05}"\\\n\x01é' for number in numbers],
                        "flag": [number % 2 == 0 for number in numbers],
                        "small": pa.array([-number for number in numbers], pa.int32()),
                        "big": [2**62 + number for number in numbers],
                        "unsigned": pa.array([2**64 - 1 - n for n in numbers], pa.uint64()),
                        "narrow": pa.array([number / 10 for number in numbers], pa.float32()),
                        "wide": [None if number % 3 == 0 else number / 7 for number in numbers],
                        "day": pa.array(list(numbers), pa.int32()).cast(pa.date32()),
                        "moment": pa.array([n * 86_400_123 for n in numbers]).cast(
                            pa.timestamp("ms", "UTC")
                        ),
                        "words": [
                            None if n % 5 == 0 else ["a", f'b"{n}'][: n % 3] for n in numbers
                        ],
                        "numbers": [[n / 3, -0.0] for n in numbers],
                        "days": pa.array([[n] for n in numbers], pa.list_(pa.int32())).cast(
                            pa.list_(pa.date32())
                        ),
                        "place": pa.array(
                            [None if n % 7 == 0 else [n / 9, 0.0, -1.5] for n in numbers],
                            pa.list_(pa.float32(), 3),
                        ),
                    }
                )
            },
            mode="append",
        )
        graph.load(
            {"Page": pa.table({"slug": ["full"], "image": pa.array([BLOB], pa.large_binary())})},
            mode="append",
        )
    with open_server(folder) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client(token=None) as opened:
        yield opened


def run_query(client: httpx.Client, source: str, accept: str) -> httpx.Response:
    """Run a query and get its response in a format."""
    return client.post(f"{G}/query", json={"query": source}, headers={"Accept": accept})


def test_an_arrow_stream_is_the_table_that_the_graph_itself_gives(
    server: Server, client: httpx.Client
) -> None:
    response = run_query(client, ALL, ARROW)

    with omnigraph.open(server.store, read_only=True) as graph:
        expected = graph.query(ALL).to_arrow()
    with pa.ipc.open_stream(response.content) as stream:
        found = stream.read_all().replace_schema_metadata(None)
    assert found.equals(expected, check_metadata=True)
    assert response.headers["content-type"] == ARROW
    assert response.headers["omnigraph-graph-commit"] == head_of(client, "main")
    assert response.headers["omnigraph-query-name"] == "all"


def test_a_time_is_a_timestamp_in_arrow_and_iso_text_in_an_export(client: httpx.Client) -> None:
    response = run_query(client, ALL, ARROW)
    exported = client.post(f"{G}/export", json={"type_names": ["Gauge"]})

    with pa.ipc.open_stream(response.content) as stream:
        assert stream.schema.field("g.moment").type == pa.timestamp("ms", tz="UTC")
    second = orjson.loads(exported.content.splitlines()[1])["data"]
    assert (second["day"], second["moment"]) == ("1970-01-02", "1970-01-02T00:00:00.123Z")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"day": 2024}, "a date is needed"),
        ({"day": "2024-05-01T10:00:00Z"}, "it has a time of day"),
        ({"moment": "2024-05-01T10:00:00.1234Z"}, "digits below the millisecond"),
    ],
)
def test_a_load_of_an_unsupported_value_is_refused(
    client: httpx.Client, given: dict[str, object], problem: str
) -> None:
    line = orjson.dumps(node("Gauge", slug="new", **given)).decode()

    response = client.post(f"{G}/load", json={"mode": "append", "data": line})

    assert response.status_code == 400
    assert problem in response.text


def test_many_rows_as_json_are_the_rows_that_the_graph_itself_gives(
    server: Server, client: httpx.Client
) -> None:
    response = run_query(client, ALL, "application/json")

    with omnigraph.open(server.store, read_only=True) as graph:
        expected = graph.query(ALL).rows
    assert response.json()["rows"] == expected


@pytest.mark.parametrize("rows", [0, 1, 64, 65, 1_000])
def test_few_rows_say_the_same_in_both_formats(client: httpx.Client, rows: int) -> None:
    source = ALL.rstrip().removesuffix("}") + f"limit {max(rows, 1)} }}"
    if rows == 0:
        source = ALL.replace("$g: Gauge", '$g: Gauge { slug: "none" }')

    as_json = run_query(client, source, "*/*").json()
    with pa.ipc.open_stream(run_query(client, source, ARROW).content) as stream:
        as_arrow = stream.read_all()

    assert as_json["row_count"] == as_arrow.num_rows == rows
    assert as_json["columns"] == as_arrow.column_names
    slugs = [row["g.slug"] for row in as_json["rows"]]
    assert slugs == as_arrow["g.slug"].to_pylist()


def test_a_long_result_is_streamed_in_both_formats(client: httpx.Client) -> None:
    wide = ALL.replace("$g.slug,", ", ".join(f"$g.slug as s{n}" for n in range(40)) + ", $g.slug,")

    as_json = run_query(client, wide, "application/json")
    as_arrow = run_query(client, wide, ARROW)

    assert as_json.headers["transfer-encoding"] == "chunked"
    assert as_arrow.headers["transfer-encoding"] == "chunked"
    with pa.ipc.open_stream(as_arrow.content) as stream:
        table = stream.read_all()
    assert [row["s39"] for row in as_json.json()["rows"]] == table["s39"].to_pylist()
    assert table.num_rows == as_json.json()["row_count"] == ROWS


@pytest.mark.parametrize(
    ("accept", "is_arrow"),
    [
        (ARROW, True),
        (f"{ARROW};q=0.9, application/json;q=0.1", True),
        ("application/json", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_arrow_is_returned_only_when_accepted_by_name(
    client: httpx.Client, accept: str, *, is_arrow: bool
) -> None:
    response = run_query(client, ALL.rstrip().removesuffix("}") + "limit 1 }", accept)

    assert (response.headers["content-type"] == ARROW) == is_arrow


def test_errors_are_json_whatever_format_was_requested(client: httpx.Client) -> None:
    require_refused(run_query(client, "nonsense", ARROW), 400, code="bad_request", says="error")
    require_refused(
        run_query(client, ADD_PERSON, ARROW), 400, code="bad_request", says="POST /mutate"
    )


# Blobs


def blob(client: httpx.Client, slug: str, **headers: str) -> httpx.Response:
    """Request the image of a page."""
    requested = {"type": "Page", "id": slug, "property": "image"}
    return client.get(f"{G}/blob", params=requested, headers=headers)


def test_a_whole_blob_is_returned(client: httpx.Client) -> None:
    response = blob(client, "full")

    assert response.status_code == 200
    assert response.content == BLOB
    assert response.headers["content-length"] == str(len(BLOB))
    assert response.headers["etag"]


@pytest.mark.parametrize(
    ("requested", "start", "end"),
    [("bytes=0-9", 0, 10), ("bytes=100-", 100, len(BLOB)), ("bytes=5-99999999999", 5, len(BLOB))],
)
def test_a_range_of_a_blob_is_returned(
    client: httpx.Client, requested: str, start: int, end: int
) -> None:
    response = blob(client, "full", Range=requested)

    assert response.status_code == 206
    assert response.content == BLOB[start:end]
    assert response.headers["content-range"] == f"bytes {start}-{end - 1}/{len(BLOB)}"


def test_a_range_beyond_the_end_is_not_satisfiable(client: httpx.Client) -> None:
    response = blob(client, "full", Range=f"bytes={len(BLOB)}-")

    assert response.status_code == 416
    assert response.headers["content-range"] == f"bytes */{len(BLOB)}"


@pytest.mark.parametrize("requested", ["bytes=9-1", "bytes=-5", "rows=1-2", "bytes=0-1,4-5"])
def test_an_invalid_range_is_refused(client: httpx.Client, requested: str) -> None:
    assert blob(client, "full", Range=requested).status_code == 400


def test_a_missing_blob_is_not_found(client: httpx.Client) -> None:
    assert blob(client, "empty").status_code == 404
    assert blob(client, "absent").status_code == 404
