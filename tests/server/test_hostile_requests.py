"""The server responds to any request without an internal error, and reveals nothing hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.hostile_requests import (
    JSON_TYPE,
    READ,
    WRITE,
    Hostile,
    Operation,
    find_log_flaws,
    find_response_flaws,
    read_document,
    read_operations,
    requests,
)
from tests.support.policed_servers import ALLOWED_TOKEN, READER_TOKEN, SECRETS, policed_server
from tests.support.raw_requests import (
    RawResponse,
    exchange,
    head,
    send_in_chunks,
    send_raw,
    unfinished,
)
from tests.support.servers import Server

ALLOWED = (b"Authorization", b"Bearer " + ALLOWED_TOKEN.encode())
READER = (b"Authorization", b"Bearer " + READER_TOKEN.encode())
GRAPH = b"/graphs/default"
EXAMPLES = 150
HALF_A_WRITE = (
    head(b"POST", GRAPH + b"/mutate", (ALLOWED, JSON_TYPE, (b"Content-Length", b"1000")))
    + b'{"query": "query w('
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with policed_server(tmp_path_factory.mktemp("hostile")) as running:
        yield running


@pytest.fixture(scope="module")
def operations(server: Server) -> Sequence[Operation]:
    return read_operations(read_document(server))


def send(server: Server, sent: Hostile, *identity: tuple[bytes, bytes]) -> RawResponse:
    return send_raw(server.url, sent.method, sent.target, (*identity, *sent.headers), sent.body)


def require_clean(server: Server, response: RawResponse) -> None:
    assert list(find_response_flaws(response, server=server, secrets=SECRETS)) == []


def require_well(server: Server) -> None:
    response = send_raw(server.url, b"GET", GRAPH + b"/branches", (ALLOWED,), b"")
    assert response.status == 200
    assert list(find_log_flaws(server, secrets=SECRETS)) == []


def test_no_request_of_an_authorized_caller_makes_the_server_fail(
    server: Server, operations: Sequence[Operation]
) -> None:
    @settings(max_examples=6 * EXAMPLES)
    @given(requests(operations))
    def check(sent: Hostile) -> None:
        require_clean(server, send(server, sent, ALLOWED))

    check()

    require_well(server)


def test_no_request_without_a_token_is_authorized(
    server: Server, operations: Sequence[Operation]
) -> None:
    public = [each for each in operations if not each.path.startswith("/graphs")]

    @settings(max_examples=EXAMPLES)
    @given(requests([each for each in operations if each not in public]))
    def check(sent: Hostile) -> None:
        response = send(server, sent)
        require_clean(server, response)
        assert response.status == 401

    check()

    require_well(server)


def test_a_read_only_caller_changes_nothing(
    server: Server, operations: Sequence[Operation]
) -> None:
    before = send_raw(server.url, b"GET", GRAPH + b"/commits", (ALLOWED,), b"").body

    @settings(max_examples=EXAMPLES)
    @given(requests(operations))
    def check(sent: Hostile) -> None:
        require_clean(server, send(server, sent, READER))

    check()

    assert send_raw(server.url, b"GET", GRAPH + b"/commits", (ALLOWED,), b"").body == before
    require_well(server)


@settings(max_examples=EXAMPLES)
@given(
    identities=st.lists(
        st.one_of(
            st.binary(max_size=40).map(lambda value: bytes(each for each in value if each > 31)),
            st.sampled_from(
                (
                    ALLOWED[1].lower(),
                    ALLOWED[1].upper(),
                    b"Bearer  " + ALLOWED_TOKEN.encode(),
                    ALLOWED_TOKEN.encode(),
                    b"Basic " + ALLOWED_TOKEN.encode(),
                    ALLOWED[1] + b"x",
                    ALLOWED[1][:-1],
                    b"Bearer " + READER_TOKEN.encode() + b"," + ALLOWED_TOKEN.encode(),
                    b"Bearer " + b"a" * 20_000,
                )
            ),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_only_the_exact_token_is_authorized(server: Server, identities: list[bytes]) -> None:
    headers = [(b"Authorization", each) for each in identities]

    response = send_raw(server.url, b"GET", GRAPH + b"/schema", headers, b"")

    require_clean(server, response)
    assert response.status in (400, 401)


@settings(max_examples=EXAMPLES)
@given(cuts=st.lists(st.integers(0, 200), max_size=12))
def test_a_body_in_pieces_is_the_same_body(server: Server, cuts: list[int]) -> None:
    body = json.dumps({"query": READ, "params": {"name": "Alice"}}).encode()
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    chunks = [body[start:end] for start, end in pairwise(edges)]

    response = send_in_chunks(server.url, b"POST", GRAPH + b"/query", (ALLOWED, JSON_TYPE), chunks)

    assert response.status == 200
    assert json.loads(response.body)["rows"] == [{"p.name": "Alice"}]


@pytest.mark.parametrize(
    "sent",
    [
        b"\0\1\2\3",
        b"\r\n" * 200 + b"x\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"FETCH / HTTP/1.1\r\nConnection: close\r\n\r\n",
        head(b"GET", b"*", ()),
        head(b"OPTIONS", b"*", ()),
        head(b"GET", b"http:x", ()),
        head(b"GET", b"//", ()),
        head(b"GET", b"?", ()),
        head(b"GET", b"http://elsewhere/graphs/default/schema", (ALLOWED,)),
        head(b"CONNECT", b"localhost:80", ()),
        head(b"GET", b"/\xff\xfe", ()),
        head(b"GET", GRAPH + b"/branches?" + b"branch=x&" * 5_000, (ALLOWED,)),
        head(b"GET", b"/healthz", ((b"Content-Length", b"-1"),)),
        head(b"GET", b"/healthz", ((b"Content-Length", b"9" * 400),)),
        head(b"GET", b"/healthz", ((b"Content-Length", b"1"), (b"Content-Length", b"2"))),
        head(b"GET", b"/healthz", ((b"Transfer-Encoding", b"gzip"),)),
        head(b"GET", b"/healthz", ((b"Upgrade", b"websocket"), (b"Sec-WebSocket-Key", b"x"))),
        head(b"GET", b"/healthz", ((b"Upgrade", b"h2c"), (b"HTTP2-Settings", b"x"))),
        head(b"POST", GRAPH + b"/query", (ALLOWED, (b"Transfer-Encoding", b"chunked"))) + b"zz\r\n",
        head(b"POST", GRAPH + b"/query", (ALLOWED, (b"Transfer-Encoding", b"chunked")))
        + b"ffffffffffffffffff\r\n",
    ],
    ids=range(22),
)
def test_malformed_http_does_not_harm_the_server(server: Server, sent: bytes) -> None:
    response = exchange(server.url, sent)

    if response.status is not None:
        require_clean(server, response)
        assert 400 <= response.status < 500 or sent.startswith(b"GET")
    require_well(server)


def test_endless_headers_are_refused(server: Server) -> None:
    headers = [(b"X-%d" % number, b"a" * 10_000) for number in range(1_000)]

    response = exchange(server.url, head(b"GET", b"/healthz", headers))

    assert response.status in (None, 400, 431)
    require_well(server)


def test_an_endless_body_is_refused(server: Server) -> None:
    body = b'{"query": "' + b"a" * 1_200_000 + b'"}'
    pieces = [body[start : start + 50_000] for start in range(0, len(body), 50_000)]
    opening = (server.url, b"POST", GRAPH + b"/query", (ALLOWED, JSON_TYPE))

    sized, unsized = send_raw(*opening, body), send_in_chunks(*opening, pieces)

    assert {sized.status, unsized.status} <= {None, 413}
    require_well(server)


def test_a_client_that_disconnects_midway_does_not_harm_the_server(server: Server) -> None:
    with unfinished(server.url, HALF_A_WRITE):
        pass

    require_well(server)


def test_clients_that_never_finish_block_no_write(server: Server) -> None:
    body = json.dumps({"query": WRITE, "params": {"name": "Quick"}}).encode()
    with ExitStack() as slow:
        for _ in range(40):
            slow.enter_context(unfinished(server.url, HALF_A_WRITE))

        response = send_raw(server.url, b"POST", GRAPH + b"/mutate", (ALLOWED, JSON_TYPE), body)

    assert response.status == 200
    require_well(server)
