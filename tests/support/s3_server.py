"""An S3 endpoint in this process: moto behind a recorder that admits one request at a time.

Guarantees that conditional puts are atomic and that every request is recorded. Does not know what
is stored, and never talks to the network: the endpoint is a free port of the loopback interface.
"""

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from urllib.request import Request, urlopen

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from obstore.store import S3Store
from werkzeug.serving import make_server

REGION = "us-east-1"

Environ = dict[str, object]
StartResponse = Callable[..., object]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class S3Request:
    """One request as the server saw it; `key` is the path below the bucket.

    `bytes_sent` is the size of the response, `session` the token of the role of the caller.
    """

    method: str
    key: str
    query: str
    is_conditional: bool
    status: int
    bytes_sent: int
    session: str | None


class S3Server:
    """Where the endpoint is, how to reach it, and the requests that it received."""

    def __init__(self, endpoint: str, requests: Sequence[S3Request]) -> None:
        self.endpoint = endpoint
        self._requests = requests

    def create_bucket(self) -> str:
        """Create a bucket with an unused name and return the name."""
        # Moto keeps its buckets for the whole process, whatever server they were made through.
        name = f"bucket-{uuid.uuid4().hex}"
        request = Request(f"{self.endpoint}/{name}", method="PUT")
        with urlopen(request) as response:
            assert response.status == HTTPStatus.OK
        return name

    def lance_options(self) -> dict[str, str]:
        """The `storage_options` under which pylance reaches this endpoint."""
        return client_options(self.endpoint)

    def object_store(self, bucket: str, *, prefix: str) -> S3Store:
        """An obstore store over one prefix of a bucket."""
        return S3Store(
            bucket,
            prefix=prefix,
            endpoint=self.endpoint,
            region=REGION,
            access_key_id="test",
            secret_access_key="test",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )

    @contextmanager
    def recording(self) -> Iterator[list[S3Request]]:
        """The requests of the block, in order; the list is complete once the block ends."""
        seen: list[S3Request] = []
        start = len(self._requests)
        yield seen
        seen.extend(self._requests[start:])


def client_options(endpoint: str) -> dict[str, str]:
    """The `storage_options` under which pylance and a graph reach an endpoint."""
    return {
        "aws_endpoint": endpoint,
        "aws_region": REGION,
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
        "allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
    }


@contextmanager
def serve_s3() -> Iterator[S3Server]:
    """Run an endpoint for the length of the block."""
    requests: list[S3Request] = []
    application = _one_at_a_time(DomainDispatcherApplication(create_backend_app), requests)
    server = make_server(
        "127.0.0.1", 0, application, threaded=True, request_handler=_SilentRequestHandler
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield S3Server(f"http://127.0.0.1:{server.server_port}", requests)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _SilentRequestHandler(MotoRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing: the recorder has the requests."""


def _one_at_a_time(application: Application, requests: list[S3Request]) -> Application:
    # Moto looks whether an object is there and then writes it, with nothing to hold the two
    # together: without the lock two puts-if-absent of one key can both succeed.
    turn = threading.Lock()

    def respond(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        statuses: list[int] = []

        def start(status: str, *rest: object) -> object:
            statuses.append(int(status.split(maxsplit=1)[0]))
            return start_response(status, *rest)

        with turn:
            body = list(application(environ, start))
            sent = sum(map(len, body))
            requests.append(_describe(environ, status=statuses[-1], bytes_sent=sent))
        return body

    return respond


def _describe(environ: Environ, *, status: int, bytes_sent: int) -> S3Request:
    # WSGI hands over the bytes of the path as Latin-1.
    path = str(environ["PATH_INFO"]).encode("latin-1").decode("utf-8")
    session = environ.get("HTTP_X_AMZ_SECURITY_TOKEN")
    return S3Request(
        method=str(environ["REQUEST_METHOD"]),
        key=path.lstrip("/").partition("/")[2],
        query=str(environ["QUERY_STRING"]),
        is_conditional="HTTP_IF_NONE_MATCH" in environ or "HTTP_IF_MATCH" in environ,
        status=status,
        bytes_sent=bytes_sent,
        session=None if session is None else str(session),
    )
