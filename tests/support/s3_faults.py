"""An S3 endpoint in memory that fails on purpose: the N-th request of a block, in a chosen way.

Guarantees that requests are served one at a time, that every one is written down with what became
of it, and that the bucket can be made to hold again what it once held; sweeps raise N until a run
is unharmed. Supports the requests of a graph and nothing else of S3, many times faster than moto; a
test compares the two. Knows nothing of graphs.
"""

from __future__ import annotations

import re
import socketserver
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from enum import StrEnum
from hashlib import md5
from http import HTTPStatus
from itertools import count
from types import MappingProxyType
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape, unescape

from omnigraph.errors import GraphError
from tests.support.run_report import report_states
from tests.support.s3_server import S3Request, client_options

_BUCKET = "bucket"

_KEY = re.compile(r"<Key>(.*?)</Key>", re.DOTALL)
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_CONDITIONS = ("if-none-match", "if-match")


class Way(StrEnum):
    """What becomes of the request that is hit; clients repeat the last two by themselves."""

    REFUSED = "it does nothing and is refused"
    REFUSED_FOR_EVER = "it and all after it do nothing and are refused"
    CUT = "it takes effect without a response, and all after it are refused"
    BUSY = "it does nothing and gets the response 503"
    LOST = "it takes effect, and the connection closes without a response"


class Scope(StrEnum):
    """Which requests are counted, and so can be hit."""

    WRITES = "writing request"
    ALL = "request"


class RequestFault:
    """One fault, and how far the requests that met it have come; only those about keys with a
    part count, if there is one."""

    def __init__(self, *, at: int, way: Way, scope: Scope, part: str = "") -> None:
        self._at = at
        self._part = part
        self.way = way
        self._scope = scope
        self.seen = 0
        self.hit: str | None = None

    def __str__(self) -> str:
        return f"{self._scope} {self._at}, {self.hit or 'never reached'}: {self.way}"

    def meet(self, request: _Request) -> Way | None:
        """Count a request; what becomes of it, or None if nothing out of the ordinary."""
        if self.hit and self.way in (Way.REFUSED_FOR_EVER, Way.CUT):
            return Way.REFUSED
        is_read = request.method in ("GET", "HEAD")
        # A removal of several objects names them in its body.
        named = request.key.encode() or request.body
        if self._part.encode() not in named or (is_read and self._scope is Scope.WRITES):
            return None
        self.seen += 1
        if self.seen != self._at:
            return None
        self.hit = f"{request.method} {request.key or request.query}"
        return self.way


class FaultyS3:
    """A place in the bucket of an endpoint, what is there, and the fault that requests meet."""

    def __init__(self, endpoint: str, bucket: _Bucket) -> None:
        # Lance also repeats what was refused; once is enough to see that it does.
        self.options = client_options(endpoint) | {"client_max_retries": "1"}
        self._bucket = bucket
        self._places = count(1)
        self.start_over({})

    @property
    def uri(self) -> str:
        """Where the place is."""
        return f"s3://{_BUCKET}/{self.prefix}"

    def stored(self) -> Mapping[str, bytes]:
        """The content of every object by its path below the place, as it is now."""
        return self._bucket.stored(f"{self.prefix}/")

    def set_back(self, stored: Mapping[str, bytes]) -> None:
        """Make the bucket hold these objects, at this place, and no others."""
        self._bucket.hold({f"{self.prefix}/{path}": each for path, each in stored.items()})

    def start_over(self, stored: Mapping[str, bytes]) -> None:
        """The same at an unused place."""
        self.prefix = f"place-{next(self._places)}"
        self.set_back(stored)

    @contextmanager
    def failing(self, fault: RequestFault) -> Iterator[None]:
        """Let the requests of the block meet a fault."""
        self._bucket.fault = fault
        try:
            yield
        finally:
            self._bucket.fault = None

    @contextmanager
    def recording(self) -> Iterator[list[S3Request]]:
        """The requests of the block, in order; the list is complete once the block ends."""
        seen: list[S3Request] = []
        start = len(self._bucket.requests)
        yield seen
        seen.extend(self._bucket.requests[start:])

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Fail if the block adds, removes or changes an object."""
        before = self.stored()
        yield
        assert self.stored() == before


@contextmanager
def serve_faulty_s3() -> Iterator[FaultyS3]:
    """Run an endpoint with one bucket for the length of the block."""
    bucket = _Bucket()
    server = _Server(bucket)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield FaultyS3(f"http://127.0.0.1:{server.server_address[1]}", bucket)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# Sweeping


# Names that are new in every run: of operations, of transactions, and of files of rows.
MADE_UP = re.compile(
    r"[0-9A-HJKMNP-TV-Z]{26}(?=\.json)|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|[01]{24}[0-9a-f]{26}|\d+(?=\.(?:arrow|bin))"
)

REQUESTS_MAX = 200

ScopeByWay = Mapping[Way, Scope]
IsNew = Callable[[Hashable], bool]


@dataclass(frozen=True, slots=True)
class Swept:
    """How many requests an unharmed run has, how often one was hit, and the images that left."""

    requests: int
    states: int
    distinct: int


def each_request(play: Callable[[RequestFault, IsNew], None], *, ways: ScopeByWay) -> Swept:
    """Play a round for each way and request, until a round is unharmed.

    A round learns whether the state it left is new, so that no state is checked twice.
    """
    seen: set[Hashable] = set()

    def is_new(stored: Hashable) -> bool:
        is_known = stored in seen
        seen.add(stored)
        return not is_known

    faults: list[RequestFault] = []
    for way, scope in ways.items():
        for fault in requests_to_hit(way, scope):
            faults.append(fault)
            try:
                play(fault, is_new)
            except (AssertionError, GraphError) as error:
                error.add_note(str(fault))
                raise
    unharmed = [fault for fault in faults if fault.hit is None]
    requests = max(fault.seen for fault in unharmed)
    swept = Swept(requests, len(faults) - len(unharmed), len(seen))
    report_states(swept.states)
    return swept


def requests_to_hit(way: Way, scope: Scope) -> Iterator[RequestFault]:
    """A fault at the first request, at the second and so on, until one was not reached."""
    for at in range(1, REQUESTS_MAX + 1):
        fault = RequestFault(at=at, way=way, scope=scope)
        yield fault
        if fault.hit is None:
            return
    raise AssertionError(f"no end after {REQUESTS_MAX} rounds: {way}")


def shape(stored: Mapping[str, bytes], *, before: Mapping[str, bytes]) -> Hashable:
    """What distinguishes an image from others that grew out of the same one."""
    written = sorted(path for path, content in stored.items() if before.get(path) != content)
    removed = sorted(before.keys() - stored.keys())
    return tuple(MADE_UP.sub("*", path) for path in written), tuple(removed)


# What is stored


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    key: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_conditional(self) -> bool:
        return any(name in self.headers for name in _CONDITIONS)


@dataclass(frozen=True, slots=True)
class _Response:
    status: HTTPStatus
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Stored:
    content: bytes
    e_tag: str
    modified: datetime


class _Bucket:
    """Objects by key, and the responses to requests for them."""

    def __init__(self) -> None:
        self.fault: RequestFault | None = None
        self.requests: list[S3Request] = []
        self._objects: dict[str, _Stored] = {}
        self._turn = threading.Lock()

    def stored(self, prefix: str) -> Mapping[str, bytes]:
        with self._turn:
            found = {
                key.removeprefix(prefix): each.content
                for key, each in self._objects.items()
                if key.startswith(prefix)
            }
        return MappingProxyType(found)

    def hold(self, content_by_key: Mapping[str, bytes]) -> None:
        with self._turn:
            self._objects = {key: _store(content) for key, content in content_by_key.items()}

    def respond(self, request: _Request) -> _Response | None:
        """Do what a request asks for, unless it is hit; None closes the connection."""
        with self._turn:
            way = self.fault.meet(request) if self.fault else None
            done = self._do(request, way)
            self.requests.append(
                S3Request(
                    request.method,
                    request.key,
                    request.query,
                    request.is_conditional,
                    done.status,
                    len(done.body),
                    None,
                )
            )
            return None if way in (Way.CUT, Way.LOST) else done

    def _do(self, request: _Request, way: Way | None) -> _Response:
        match way:
            case Way.REFUSED | Way.REFUSED_FOR_EVER:
                return _error(HTTPStatus.FORBIDDEN, "AccessDenied")
            case Way.BUSY:
                return _error(HTTPStatus.SERVICE_UNAVAILABLE, "SlowDown")
            case Way.CUT | Way.LOST | None:
                return self._take_effect(request)

    def _take_effect(self, request: _Request) -> _Response:
        query = dict(parse_qsl(request.query, keep_blank_values=True))
        match request.method:
            case "GET" if "list-type" in query:
                return self._list(query)
            case "GET" | "HEAD":
                return self._get(request.key, request.headers.get("range"))
            case "PUT" if not query and "x-amz-copy-source" not in request.headers:
                return self._put(request)
            case "POST" if "delete" in query:
                return self._delete(_KEY.findall(request.body.decode()))
            case _:
                return _error(HTTPStatus.NOT_IMPLEMENTED, "NotImplemented")

    def _get(self, key: str, span: str | None) -> _Response:
        found = self._objects.get(key)
        if found is None:
            return _error(HTTPStatus.NOT_FOUND, "NoSuchKey")
        described = {
            "ETag": found.e_tag,
            "Last-Modified": format_datetime(found.modified, usegmt=True),
        }
        if span is None:
            return _Response(HTTPStatus.OK, described, found.content)
        start, end = _parse_span(span, len(found.content))
        if start >= len(found.content):
            return _error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "InvalidRange")
        described["Content-Range"] = f"bytes {start}-{end - 1}/{len(found.content)}"
        return _Response(HTTPStatus.PARTIAL_CONTENT, described, found.content[start:end])

    def _put(self, request: _Request) -> _Response:
        found = self._objects.get(request.key)
        expected = request.headers.get("if-match")
        if expected is not None and found is None:
            return _error(HTTPStatus.NOT_FOUND, "NoSuchKey")
        is_other = expected is not None and found is not None and found.e_tag != expected
        if is_other or ("if-none-match" in request.headers and found is not None):
            return _error(HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed")
        stored = self._objects[request.key] = _store(request.body)
        return _Response(HTTPStatus.OK, {"ETag": stored.e_tag}, b"")

    def _delete(self, escaped_keys: Sequence[str]) -> _Response:
        for key in escaped_keys:
            self._objects.pop(unescape(key), None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in escaped_keys)
        return _Response(HTTPStatus.OK, {}, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def _list(self, query: Mapping[str, str]) -> _Response:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        after = query.get("start-after", "")
        found = sorted(key for key in self._objects if key.startswith(prefix) and key > after)
        folders: dict[str, None] = {}
        lines: list[str] = []
        for key in found:
            head, mark, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if mark:
                folders[f"{prefix}{head}{mark}"] = None
            else:
                lines.append(_describe(key, self._objects[key]))
        lines += [
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders
        ]
        listed = f"<IsTruncated>false</IsTruncated>{''.join(lines)}"
        body = f"<ListBucketResult>{listed}</ListBucketResult>"
        return _Response(HTTPStatus.OK, {}, body.encode())


def _store(content: bytes) -> _Stored:
    digest = md5(content, usedforsecurity=False).hexdigest()
    return _Stored(content, f'"{digest}"', datetime.now(UTC))


def _describe(key: str, stored: _Stored) -> str:
    return (
        f"<Contents><Key>{escape(key)}</Key><Size>{len(stored.content)}</Size>"
        f"<LastModified>{stored.modified.isoformat()}</LastModified>"
        f"<ETag>{stored.e_tag}</ETag></Contents>"
    )


def _parse_span(span: str, size: int) -> tuple[int, int]:
    found = _RANGE.fullmatch(span)
    assert found, f"an unsupported range: {span}"
    first, last = found.groups()
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1 if last else size)


def _error(status: HTTPStatus, code: str) -> _Response:
    return _Response(status, {}, f"<Error><Code>{code}</Code></Error>".encode())


# How it travels


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    # A client keeps its connections open, so their threads are not joined.
    block_on_close = False

    def __init__(self, bucket: _Bucket) -> None:
        self.bucket = bucket
        super().__init__(("127.0.0.1", 0), _Connection)


class _Connection(socketserver.StreamRequestHandler):
    server: _Server
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Serve requests until either side closes."""
        while (request := self._receive()) is not None:
            response = self.server.bucket.respond(request)
            if response is None:
                return
            self._send(response, has_body=request.method != "HEAD")

    def _receive(self) -> _Request | None:
        try:
            method, target, _ = self.rfile.readline().decode().split(" ")
        except (ValueError, ConnectionResetError):
            return None
        headers: dict[str, str] = {}
        while line := self.rfile.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", "0")))
        path, _, query = target.partition("?")
        return _Request(method, unquote(path).lstrip("/").partition("/")[2], query, headers, body)

    def _send(self, response: _Response, *, has_body: bool) -> None:
        headers = {**response.headers, "Content-Length": str(len(response.body))}
        lines = [f"HTTP/1.1 {response.status} {response.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join([*lines, "", ""]).encode()
        self.wfile.write(head + response.body if has_body else head)
