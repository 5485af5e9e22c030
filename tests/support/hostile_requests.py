"""Hostile and malformed requests, generated from a server's own OpenAPI document.

Every route of the document is requested with names, arguments, headers and bodies that range from
nearly valid to absurd. Also defines what a response or a log may never disclose.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
from hypothesis import strategies as st

from tests.support.raw_requests import Header, RawResponse
from tests.support.servers import Server
from tests.support.source_tree import ROOT

JSON_TYPE: Header = (b"Content-Type", b"application/json")

READ = "query q($name: String) { match { $p: Person { name: $name } } return { $p.name } }"
WRITE = "query w($name: String) { insert Person { name: $name } }"
ROWS = '{"type": "Person", "data": {"name": "Zoe", "age": 3}}\n'

# Texts that have broken a parser, a path, a log or a database before.
TEXTS: Sequence[str] = (
    "",
    " ",
    "\0",
    "main",
    "main ",
    "Person",
    "node:Person",
    "name",
    "a/b",
    "a//b",
    "/",
    ".",
    "..",
    "../../etc/passwd",
    "%2e%2e%2f",
    "__manifest",
    "__recovery",
    "refs/heads/main",
    "\r\nX-Evil: 1",
    "\u202e\u0301",
    "\ud800",
    "\uffff\U0010ffff",
    "e\u0301",
    "0",
    "-1",
    "1e999",
    "NaN",
    "true",
    "null",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "file:///etc/passwd",
    "s3://bucket/key",
    "${jndi:ldap://x}",
    "{{7*7}}",
    "'; drop table Person; --",
    "a" * 300,
    "x" * 70_000,
    "(" * 3_000,
    "{" * 3_000,
    "[" * 3_000,
    "\U0001f642" * 500,
    READ,
    READ * 2,
    WRITE,
    ROWS,
    "query q() { match { $p: Person  not { " * 400,
    "query q() { match { $p: Person  $p.age = " + "1 + " * 3_000 + "1 } return { $p } }",
    "query q() { return { " + "-" * 5_000 + "1 as x } }",
    'query q() { match { $p: Person  $p.name = "' + "\\" * 999 + '" } return { $p } }',
    'query w() { delete Person where name = "absent" }',
    'query w() { update Person set { age: 99999999999999999999 } where name = "Bob" }',
    "node Person { name: String @key  age: I32? }",
    "node " * 2_000,
    '{"type": "Person", "data": {"name": "Zoe", "age": 1e999}}',
    '{"type": "Person", "data": {"name": "\\ud800"}}',
    '{"edge": "Knows", "from": "Alice", "to": null}',
    '{"type": "Person", "data": ' * 2_000,
    "[" * 100_000,
)
NUMBERS: Sequence[int | float] = (
    0,
    -1,
    1,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    2**64,
    1e308,
    5e-324,
    -0.0,
    float("nan"),
    float("inf"),
)

NESTED: Sequence[object] = (
    [],
    {},
    [[]],
    [None],
    {"": {}},
    {"name": {"name": []}},
    {"name": [1, "a", None, {}]},
    {"type": "Person", "id": "Alice", "choice": "source"},
    [{"type": "Person", "id": "Alice", "choice": "source"}],
    [{"type": "Person", "id": "Alice", "row": {"name": 7, "nme": []}}],
)

# What a field may well be, so that some requests get far.
QUERIES: Sequence[object] = (*(READ, WRITE) * 6, *(text for text in TEXTS if "query " in text))
BRANCHES: Sequence[object] = ("main", "feature", "a/b", "Main", "gone")
LIKELY: Mapping[str, Sequence[object]] = {
    "query": QUERIES,
    "query_source": QUERIES,
    "name": ("q", "w", "feature", None, "v1"),
    "query_name": ("q", "w"),
    "params": ({"name": "Alice"}, {"name": 1}, {"name": None}, {}, {"name": "a", "x": [1]}),
    "branch": ("main", *BRANCHES),
    "from": BRANCHES,
    "onto": BRANCHES,
    "source": BRANCHES,
    "target": BRANCHES,
    "data": (ROWS, *(text for text in TEXTS if '"type"' in text or '"edge"' in text)),
    "mode": ("merge", "append", "overwrite", "replace"),
    "schema_source": tuple(text for text in TEXTS if "node " in text),
    "type_names": (["Person"], ["Knows", "Person"], ["Absent"], []),
    "table_keys": (["node:Person"], ["edge:Knows"], ["Person"], []),
    "text": ("alice", "", "\u2028", "a" * 9_000),
    "types": (["Person"], ["Persn"], []),
    "edges": (["Knows"], ["Person"], []),
    "hops": (0, 1, 2, 3, -1, 2**70),
    "k": (1, 10, 0, 10**9),
    "budget_tokens": (1, 2_000, 0),
    "vector": ([1, 0], [1e300], [], [0.0] * 9),
    "word_weight": (0, 1, -1),
    "receipt": ({}, {"format": 1}, {"format": 1, "commit_id": "x", "request": {}, "vectors": []}),
    "granularity": ("row", "cell", "property"),
    "dry_run": (True, False),
    "resolve": NESTED,
    "allow_data_loss": (False,),
    "expect_mutation": (True, False),
}

# Bodies that are no JSON, or that hardly anybody would call so.
BODIES: Sequence[bytes] = (
    b"",
    b" ",
    b"\0",
    b"{",
    b"}",
    b'"',
    b"nul",
    b"NaN",
    b"-",
    b"1e999999999",
    b"9" * 10_000,
    b"[" * 200_000,
    b'{"a":' * 100_000,
    b"[" * 500 + b"]" * 500,
    b"\xff\xfe{\x00}\x00",
    b"\xef\xbb\xbf{}",
    b'{"query": "\xff\xfe"}',
    b'{"query": "\\ud800"}',
    b'{"query": "\\u0000", "branch": "\\u0000"}',
    b'{"query": "a", "query": 1, "query": null}',
    b'{"query": "a"} {"query": "b"}',
    b'{"params": {"a": {"b": {"c": []}}}}',
    b"<xml/>",
    b"a=b&c=d",
)

TYPES: Sequence[bytes] = (
    b"application/json",
    b"application/json; charset=utf-16",
    b"APPLICATION/JSON",
    b"application/problem+json",
    b"application/json, text/plain",
    b"text/plain",
    b"multipart/form-data; boundary=x",
    b"application/x-ndjson",
    b";",
    b"",
    b"\xff",
)
ACCEPTED: Sequence[bytes] = (
    b"*/*",
    b"application/vnd.apache.arrow.stream",
    b"application/vnd.apache.arrow.stream;q=0",
    b"text/html",
    b"application/json;q=banana",
    b"," * 500,
    b"\xff",
)
NAMES: Sequence[bytes] = (
    b"X-Request-Id",
    b"X-Actor-Id",
    b"X-Forwarded-For",
    b"Idempotency-Key",
    b"Omnigraph-If-Graph-Commit",
    b"Range",
    b"If-Match",
    b"Accept-Encoding",
    b"Expect",
    b"Traceparent",
    b"Content-Type",
    b"Content-Encoding",
)
WORDS: Sequence[bytes] = (
    b"",
    b"a",
    b"01ARZ3NDEKTSV4RRFFQ69G5FAV",
    b"a" * 300,
    b"\xff\xfe\x80",
    b"gzip",
    b"bytes=0-0",
    b"bytes=9-1,-5,x",
    b"00-00000000000000000000000000000000-0000000000000000-00",
    b'{"a": 1}',
)
ENCODED: Sequence[str] = (
    "%",
    "%2",
    "%zz",
    "%00",
    "%ff",
    "%C3%28",
    "%2F",
    "%252F",
    "..%2f",
    "+",
    ";",
)


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path, as the document describes it."""

    method: str
    path: str
    arguments: Sequence[str]
    fields: Sequence[str]
    required: Sequence[str]


@dataclass(frozen=True, slots=True)
class Hostile:
    """A request that is still HTTP, whatever else it is."""

    method: bytes
    target: bytes
    headers: Sequence[Header]
    body: bytes


def read_operations(document: Mapping[str, object]) -> Sequence[Operation]:
    """Every operation of an OpenAPI document."""
    paths = document["paths"]
    assert isinstance(paths, dict)
    return [
        Operation(
            method.upper(),
            path,
            [each["name"] for each in record.get("parameters", ()) if each["in"] == "query"],
            sorted(_find_fields(record, document, "properties")),
            sorted(_find_fields(record, document, "required")),
        )
        for path, methods in sorted(paths.items())
        for method, record in sorted(methods.items())
        if isinstance(record, dict)
    ]


def _find_fields(
    record: Mapping[str, object], document: Mapping[str, object], kind: str
) -> Iterator[str]:
    """The names of a body's fields, or of the required ones, wherever in its schema they stand."""
    waiting, seen = [record.get("requestBody", {})], set[str]()
    while waiting:
        match waiting.pop():
            case {"$ref": str(reference)} if reference not in seen:
                seen.add(reference)
                found: object = document
                for part in reference.removeprefix("#/").split("/"):
                    assert isinstance(found, dict)
                    found = found[part]
                waiting.append(found)
            case dict(inner):
                # `required` is a flag beside a body and a list within its schema.
                names = inner.get(kind, ())
                yield from names if isinstance(names, list | dict) else ()
                waiting.extend(inner.values())
            case list(several):
                waiting.extend(several)
            case _:
                pass


# Generating


def texts() -> st.SearchStrategy[str]:
    """A text from the list, or any other."""
    return st.one_of(st.sampled_from(TEXTS), st.text(max_size=20))


def values() -> st.SearchStrategy[object]:
    """Anything that JSON can say, and some things that it cannot."""
    return st.one_of(
        texts(), st.sampled_from((*NUMBERS, *NESTED, None, True, False)), st.integers(), st.floats()
    )


def bodies(operation: Operation) -> st.SearchStrategy[bytes]:
    """A body for an operation: its own fields, some with wrong values, or something else."""
    likely = {name: st.sampled_from(LIKELY.get(name, (None,))) for name in operation.fields}
    odd = {name: st.one_of(likely[name], values()) for name in operation.fields}
    required = {name: likely[name] for name in operation.required if name in likely}
    optional = {name: each for name, each in likely.items() if name not in required}
    return st.one_of(
        st.fixed_dictionaries(required, optional=optional).map(encode),
        st.fixed_dictionaries(required, optional={each: odd[each] for each in optional}).map(
            encode
        ),
        st.fixed_dictionaries({}, optional=odd).map(encode),
        st.one_of(values().map(encode), st.sampled_from(BODIES), st.binary(max_size=60)),
    )


def encode(value: object) -> bytes:
    """A value as JSON that even holds what JSON does not have, such as lone surrogates and NaN."""
    return json.dumps(value).encode("ascii")


def names() -> st.SearchStrategy[str]:
    """A name in a path or an argument, encoded well or badly."""
    well = texts().map(lambda text: quote(text[:2_000].encode("utf-8", "surrogatepass"), safe=""))
    return st.one_of(well, st.sampled_from(ENCODED), st.just("default"), st.just("main"))


@st.composite
def requests(draw: st.DrawFn, operations: Sequence[Operation]) -> Hostile:
    """A request to some operation, without credentials."""
    # Those that read a body are asked more often: there is more to get wrong.
    writes = [each for each in operations if each.fields]
    operation = draw(st.sampled_from((*operations, *writes, *writes, *writes)))
    path = operation.path
    while "{" in path:
        before, _, rest = path.partition("{")
        name, _, after = rest.partition("}")
        # A wrong graph ends every request early, so it is rare.
        value = "default" if name == "graph_id" and draw(st.integers(0, 9)) else draw(names())
        path = f"{before}{value}{after}"
    arguments = draw(
        st.lists(st.tuples(st.sampled_from((*operation.arguments, "x")), names()), max_size=3)
    )
    query = "&".join(f"{name}={value}" for name, value in arguments)
    target = (path + ("?" + query if arguments else "")).encode("ascii")
    body = b"" if operation.method in ("GET", "DELETE") else draw(bodies(operation))
    return Hostile(operation.method.encode(), target, draw(headers()), body)


@st.composite
def headers(draw: st.DrawFn) -> Sequence[Header]:
    """Headers, some of them twice and some of them nonsense."""
    odd = st.one_of(
        st.tuples(st.just(b"Accept"), st.sampled_from(ACCEPTED)),
        st.tuples(st.sampled_from(NAMES), st.sampled_from(WORDS)),
        st.tuples(st.just(b"Idempotency-Key"), st.binary(max_size=20).map(without_controls)),
    )
    kind = JSON_TYPE if draw(st.integers(0, 9)) else (b"Content-Type", draw(st.sampled_from(TYPES)))
    return [kind, *draw(st.lists(odd, max_size=2))]


def without_controls(value: bytes) -> bytes:
    """The bytes that may stand in a header."""
    return bytes(each for each in value if each > 31 and each != 127)


# Judging


def find_response_flaws(
    response: RawResponse, *, server: Server, secrets: Sequence[str]
) -> Iterator[str]:
    """What no response may be or contain."""
    if response.status is None:
        yield "no response"
        return
    if response.status >= 500 and response.status != 503:
        yield f"status {response.status}"
    yield from find_leaks(response.text, secrets=(*secrets, str(server.folder)))
    kind = dict(response.headers).get("content-type", "")
    if response.status >= 400 and kind == "application/json" and response.body:
        record = json.loads(response.body)
        if not isinstance(record.get("error"), str) or not isinstance(record.get("code"), str):
            yield f"an error without its fields: {record}"


def find_log_flaws(server: Server, *, secrets: Sequence[str]) -> Iterator[str]:
    """What no log may say; every line of it is one JSON object."""
    for line in server.log_text().splitlines():
        record = json.loads(line)
        if record["level"] == "error" or "trace" in record:
            yield f"logged {line}"
        yield from (f"{leak} in the log" for leak in find_leaks(line, secrets=secrets))


def find_leaks(text: str, *, secrets: Sequence[str]) -> Iterator[str]:
    """Traces, paths of this machine and secrets in a text."""
    machine = (str(ROOT), str(Path.home()), "site-packages", "Traceback (most", 'File "', ".py:")
    for leak in (*machine, *secrets):
        if leak in text:
            yield f"{leak!r} leaks"


def read_document(server: Server) -> Mapping[str, object]:
    """What a server says of itself."""
    response = httpx.get(f"{server.url}/openapi.json", timeout=60.0)
    assert response.status_code == 200
    document = response.json()
    assert isinstance(document, dict)
    return document
