"""Blobs: read whole or by range, identified by a tag, and fetched only from allowed places."""

import base64
import os
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.results import Blob
from omnigraph.errors import (
    InvalidValueError,
    LimitExceededError,
    NotFoundError,
    RequestError,
)
from omnigraph.model.limits import PROPERTY_BYTES_MAX
from tests.support.graphs import Record, build_graph, edge, ndjson, node, unchanged
from tests.support.queries import query
from tests.support.s3_server import S3Server

DOCS = """
node Doc { slug: String @key  body: Blob?  n: I32? }
edge Cites: Doc -> Doc { page: Blob? }
"""
LARGE = bytes(range(256)) * 4096


def inline(content: bytes) -> str:
    """A blob as a load reads it."""
    return f"base64:{base64.b64encode(content).decode()}"


def doc(slug: str, content: bytes | None) -> Record:
    return node("Doc", slug=slug, body=None if content is None else inline(content))


def docs_graph(path: Path) -> Graph:
    """A small document, a large one, an empty one and one without a body; one cites another."""
    return build_graph(
        path,
        DOCS,
        doc("small", b"abc"),
        doc("large", LARGE),
        doc("empty", b""),
        doc("none", None),
        edge("Cites", "small", "large", id="c1", page=inline(b"page")),
    )


def read(graph: Graph, slug: str) -> Blob:
    return graph.read_blob("Doc", slug, "body")


# Reading


def test_a_blob_comes_with_the_size_of_the_whole(tmp_path: Path) -> None:
    graph = docs_graph(tmp_path)

    found = {slug: read(graph, slug) for slug in ("small", "large", "empty")}
    page = graph.read_blob("Cites", "c1", "page")

    assert {slug: blob.content for slug, blob in found.items()} == {
        "small": b"abc",
        "large": LARGE,
        "empty": b"",
    }
    assert [blob.size for blob in found.values()] == [3, len(LARGE), 0]
    assert page.content == b"page"
    assert len({blob.etag for blob in (*found.values(), page)}) == 4


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, 0, b""),
        (0, 5, LARGE[:5]),
        (1000, 3, LARGE[1000:1003]),
        (len(LARGE) - 2, 2, LARGE[-2:]),
        (len(LARGE) - 2, 2**70, LARGE[-2:]),
        (len(LARGE) - 2, None, LARGE[-2:]),
        (len(LARGE), None, b""),
        (len(LARGE), 7, b""),
    ],
)
def test_a_range_is_cut_at_the_end(
    tmp_path: Path, start: int, length: int | None, expected: bytes
) -> None:
    graph = docs_graph(tmp_path)

    found = graph.read_blob("Doc", "large", "body", start=start, length=length)

    assert found.content == expected
    assert (found.size, found.etag) == (len(LARGE), read(graph, "large").etag)


def test_a_range_behind_the_end_or_of_no_bytes_at_all_is_refused(tmp_path: Path) -> None:
    graph = docs_graph(tmp_path)

    with pytest.raises(InvalidValueError, match="4 is beyond the end of 'body' of Doc 'small'"):
        graph.read_blob("Doc", "small", "body", start=4)
    for start, length in ((-1, None), (0, -1), (0.5, None), (True, None), (0, "all")):
        with pytest.raises(InvalidValueError, match="0 or more"):
            graph.read_blob("Doc", "small", "body", start=start, length=length)  # type: ignore[arg-type]


def test_a_range_reads_only_its_part_of_the_storage(server: S3Server) -> None:
    bucket = server.create_bucket()
    options = server.lance_options()
    graph = omnigraph.init(f"s3://{bucket}/graph", DOCS, storage_options=options)
    graph.load(ndjson(doc("large", LARGE * 8)), mode="append")
    read(graph, "large")

    with server.recording() as requests:
        found = graph.read_blob("Doc", "large", "body", start=len(LARGE), length=4)

    assert found.content == LARGE[:4]
    assert sum(each.bytes_sent for each in requests) < len(LARGE)


def test_reading_a_property_that_is_not_a_blob_names_its_type(tmp_path: Path) -> None:
    graph = docs_graph(tmp_path)

    with pytest.raises(NotFoundError, match="type 'Dok' not found; did you mean `Doc`"):
        graph.read_blob("Dok", "small", "body")
    with pytest.raises(NotFoundError, match="property of Doc 'bdy' not found; did you mean `body`"):
        graph.read_blob("Doc", "small", "bdy")
    with pytest.raises(InvalidValueError, match=r"Doc.n: it is not a blob but I32\?"):
        graph.read_blob("Doc", "small", "n")
    with pytest.raises(NotFoundError, match="Doc 'absent' not found"):
        read(graph, "absent")
    with pytest.raises(NotFoundError, match=r"blob 'Doc none\.body' not found; .*null"):
        read(graph, "none")


def test_a_blob_is_read_from_any_commit_and_branch(tmp_path: Path) -> None:
    graph = docs_graph(tmp_path)
    then = graph.head()
    graph.create_branch("draft")
    graph.load(ndjson(doc("small", b"draft")), mode="merge", branch="draft")
    graph.load(ndjson(doc("small", b"later")), mode="merge")

    found = [
        graph.read_blob("Doc", "small", "body", commit=then),
        graph.read_blob("Doc", "small", "body", branch="draft"),
        read(graph, "small"),
    ]

    assert [each.content for each in found] == [b"abc", b"draft", b"later"]
    assert graph.read_blob("Doc", "large", "body", branch="draft").content == LARGE
    assert sum(inline(LARGE) in line for line in graph.export(branch="draft")) == 1
    assert len({each.etag for each in found}) == 3


def test_a_tag_stays_while_the_row_does(tmp_path: Path) -> None:
    graph = docs_graph(tmp_path)
    before = read(graph, "small").etag

    graph.load(ndjson(doc("other", b"abc")), mode="append")
    graph.mutate(query('delete Doc where slug = "empty"'))
    graph.create_branch("draft")

    assert read(graph, "small").etag == before
    assert graph.read_blob("Doc", "small", "body", branch="draft").etag == before
    assert read(omnigraph.open(str(tmp_path), read_only=True), "small").etag == before


def test_a_tag_changes_with_the_content(tmp_path: Path) -> None:
    graph = docs_graph(tmp_path)
    tags = {read(graph, "small").etag}

    for content in (b"abd", b"abc", b"abd"):
        graph.load(ndjson(doc("small", content)), mode="merge")
        tags.add(read(graph, "small").etag)

    assert len(tags) == 4


# References


def reference_graph(path: Path, *places: str) -> Graph:
    """An empty graph that follows references below these places."""
    return omnigraph.init(path, DOCS, durability="relaxed", external_blobs=places)


def load_reference(graph: Graph, reference: str) -> bytes:
    graph.load(ndjson(node("Doc", slug="d", body=reference)), mode="merge")
    return read(graph, "d").content


@pytest.mark.parametrize(
    "reference", ["file:///etc/hostname", "s3://bucket/key", "https://example.org/a", "plain", ""]
)
def test_no_reference_is_followed_unless_its_place_is_allowed(
    tmp_path: Path, reference: str
) -> None:
    graph = build_graph(tmp_path, DOCS)
    rows = pa.table({"slug": ["d"], "body": [reference]})
    insert = query('insert Doc { slug: "d", body: $b }', parameters="$b: String")

    with unchanged(graph):
        with pytest.raises(InvalidValueError, match="base64:…") as loaded:
            load_reference(graph, reference)
        with pytest.raises(InvalidValueError, match="base64:…"):
            graph.load({"Doc": rows}, mode="append")
        with pytest.raises(InvalidValueError, match="base64:…"):
            graph.mutate(insert, {"b": reference})

    assert str(loaded.value).startswith("record 1 (line 1), Doc.body: ")
    assert ("external_blobs=(" in str(loaded.value)) == reference.startswith(("file", "s3"))


def test_a_file_below_an_allowed_folder_becomes_the_blob(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "a b.bin"
    file.write_bytes(b"content")
    graph = reference_graph(tmp_path / "graph", f"{(tmp_path / 'in').as_uri()}/")

    loaded = load_reference(graph, file.as_uri())
    rows = pa.table({"slug": ["arrow"], "body": [file.as_uri()]})
    graph.load({"Doc": rows}, mode="append")
    graph.mutate(
        query('insert Doc { slug: "q", body: $b }', parameters="$b: String"), {"b": file.as_uri()}
    )
    graph.mutate(query('insert Doc { slug: "u" }'))
    graph.mutate(
        query('update Doc set { body: $b } where slug = "u"', parameters="$b: String"),
        {"b": file.as_uri()},
    )
    file.write_bytes(b"something else")

    assert loaded == b"content"
    assert {read(graph, slug).content for slug in ("d", "arrow", "q", "u")} == {b"content"}


def test_an_object_below_an_allowed_prefix_becomes_the_blob(
    tmp_path: Path, server: S3Server
) -> None:
    bucket = server.create_bucket()
    server.object_store(bucket, prefix="in").put("a", b"content")
    graph = omnigraph.init(
        tmp_path,
        DOCS,
        storage_options=server.lance_options(),
        external_blobs=[f"s3://{bucket}/in"],
    )

    assert load_reference(graph, f"s3://{bucket}/in/a") == b"content"
    for other in (f"s3://{bucket}/in/b", f"s3://{bucket}/out", f"s3://{bucket}/inner/a"):
        with pytest.raises(InvalidValueError, match="record 1"):
            load_reference(graph, other)


def test_nothing_leads_out_of_an_allowed_folder(tmp_path: Path) -> None:
    for folder in ("in", "in/deep", "inner"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_bytes(b"x")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "inner" / "file")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in" / "loop")
    os.mkfifo(tmp_path / "in" / "pipe")
    base = tmp_path.as_uri()
    graph = reference_graph(tmp_path / "graph", f"{base}/in")

    for reference in (
        f"{base}/inner/file",
        f"{base}/in/../inner/file",
        f"{base}/in/%2e%2e/inner/file",
        f"{base}/in/link",
        f"{base}/in/loop",
        f"{base}/in/deep",
        f"{base}/in/pipe",
        f"{base}/in/missing",
        f"{base}/in//file",
        f"{base}/in",
        f"{base}/in/file?x",
        f"file://elsewhere{tmp_path}/in/file",
    ):
        with pytest.raises(InvalidValueError, match="record 1"):
            load_reference(graph, reference)

    assert load_reference(graph, f"{base}/in/deep/file") == b"x"


def test_a_file_that_is_too_large_for_a_property_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(PROPERTY_BYTES_MAX + 1)
    graph = reference_graph(tmp_path / "graph", tmp_path.as_uri())

    with pytest.raises(LimitExceededError, match="the bytes of a property"):
        load_reference(graph, (tmp_path / "huge").as_uri())


@pytest.mark.parametrize(
    "places", ["s3://bucket", ["https://example.org"], ["folder"], ["file://"], ["s3://"], [7]]
)
def test_a_place_that_cannot_be_allowed_is_refused_when_the_graph_is_opened(
    tmp_path: Path, places: list[str]
) -> None:
    build_graph(tmp_path, DOCS)

    with pytest.raises(RequestError, match="external_blobs"):
        omnigraph.open(tmp_path, external_blobs=places)
