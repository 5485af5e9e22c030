"""A provider of vectors on this machine: it speaks what OpenAI and Gemini speak, and misbehaves.

Its vectors are those of the built-in provider, three times as long as they should be. What it does
instead of responding is given as turns, one a request; then it responds. It takes one key.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread

import orjson

from omnigraph.embed.providers import MockEmbedder

KEY = "sk-test-0123456789"
LENGTH = 3.0


@dataclass(frozen=True, slots=True)
class Refuses:
    """Another status than 200, with a reason in the provider's words."""

    status: int
    said: str = "not now"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dawdles:
    """Nothing for a while, and then a good response."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drips:
    """A good response, a few bytes at a time."""

    seconds_between: float


@dataclass(frozen=True, slots=True)
class HangsUp:
    """The end of the connection in the middle of a good response."""


@dataclass(frozen=True, slots=True)
class Says:
    """These bytes, as if they were a response."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Shortens:
    """Vectors that lack their last number."""


Turn = Refuses | Dawdles | Drips | HangsUp | Says | Shortens


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, object] = field(repr=False)

    @property
    def texts(self) -> list[str]:
        """The texts that vectors are wanted of."""
        return _texts_of(self.body)

    @property
    def task(self) -> object:
        """The purpose of the texts in a request to Gemini."""
        inputs = self.body.get("requests", [self.body])
        assert isinstance(inputs, list)
        (task,) = {each["taskType"] for each in inputs}
        return task


class EmbeddingServer:
    """Where the provider is, what it has received, and what it will do."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.received: list[Received] = []
        self.at_once_max = 0
        self.closing = Event()
        self.pause_s = 0.0
        """How long every good response takes."""
        self._turns = list(turns)
        self._at_once = 0
        self._lock = Lock()
        self._listening = _Listening(self)

    @property
    def url(self) -> str:
        """The base address of all paths, as profiles contain it."""
        return f"http://127.0.0.1:{self._listening.server_port}/v1"

    def environment(self, provider: str = "openai-compatible", **more: str) -> dict[str, str]:
        """The environment of a program that is to ask this provider, and waits for nothing long."""
        return {
            "OMNIGRAPH_EMBED_PROVIDER": provider,
            "OMNIGRAPH_EMBED_BASE_URL": f"{self.url}/",
            "OMNIGRAPH_EMBED_MODEL": "test-model",
            "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "1",
            "OPENAI_API_KEY": KEY,
            "GEMINI_API_KEY": KEY,
            **more,
        }

    @property
    def texts(self) -> list[str]:
        """All texts that vectors were asked of, in the order of their requests."""
        return [text for each in self.received for text in each.texts]

    @contextmanager
    def serving(self, request: Received) -> Iterator[Turn | None]:
        """A block in which a request is under way, and what is to be done instead of responding."""
        with self._lock:
            self.received.append(request)
            self._at_once += 1
            self.at_once_max = max(self.at_once_max, self._at_once)
            turn = self._turns.pop(0) if self._turns else None
        try:
            yield turn
        finally:
            with self._lock:
                self._at_once -= 1

    def run(self) -> None:
        """Respond until it is closed."""
        self._listening.serve_forever(poll_interval=0.01)

    def close(self) -> None:
        """Stop responding."""
        self.closing.set()
        self._listening.shutdown()
        self._listening.server_close()


@contextmanager
def embedding_server(*turns: Turn) -> Iterator[EmbeddingServer]:
    """A provider that takes these turns, one a request, and then responds."""
    server = EmbeddingServer(turns)
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


class _Listening(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, provider: EmbeddingServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.provider = provider


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Otherwise the second part of a response waits for an acknowledgement of the first.
    disable_nagle_algorithm = True

    @property
    def _provider(self) -> EmbeddingServer:
        assert isinstance(self.server, _Listening)
        return self.server.provider

    def log_message(self, *_: object) -> None:
        """Write no log."""

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = orjson.loads(self.rfile.read(length))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Received(self.path, headers, body)
        with self._provider.serving(request) as turn:
            self._take(turn, request)

    def _take(self, turn: Turn | None, request: Received) -> None:
        if not _is_known(request):
            turn = Refuses(401, f"{KEY} is what was expected")
        match turn:
            case Refuses(status=status, said=said, headers=headers):
                self._send(status, orjson.dumps({"error": {"message": said}}), headers)
            case Dawdles(seconds=seconds):
                self._provider.closing.wait(seconds)
                self._send(200, _respond(request, is_short=False), {})
            case Drips(seconds_between=seconds):
                self._drip(_respond(request, is_short=False), seconds)
            case HangsUp():
                self._cut(_respond(request, is_short=False))
            case Says(content=content):
                self._send(200, content, {})
            case Shortens():
                self._send(200, _respond(request, is_short=True), {})
            case None:
                time.sleep(self._provider.pause_s)
                self._send(200, _respond(request, is_short=False), {})

    def _send(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        self._begin(status, len(content), headers)
        self.wfile.write(content)

    def _drip(self, content: bytes, seconds: float) -> None:
        self._begin(200, len(content), {})
        for start in range(0, len(content), 10):
            if self._provider.closing.wait(seconds):
                break
            self.wfile.write(content[start : start + 10])

    def _cut(self, content: bytes) -> None:
        self._begin(200, len(content), {})
        self.wfile.write(content[: len(content) // 2])
        self.close_connection = True

    def _begin(self, status: int, length: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def handle_one_request(self) -> None:
        # Clients that have had enough hang up.
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True


def _is_known(request: Received) -> bool:
    if "/models/" in request.path:
        return request.headers.get("x-goog-api-key") == KEY
    return request.headers.get("authorization") == f"Bearer {KEY}"


def _texts_of(body: Mapping[str, object]) -> list[str]:
    match body:
        case {"input": list(texts)}:
            return [str(each) for each in texts]
        case {"requests": list(inputs)}:
            return [text for each in inputs for text in _texts_of(each)]
        case {"content": {"parts": [{"text": str(text)}]}}:
            return [text]
        case _:
            raise AssertionError(f"this asks for no vectors: {body}")


def _respond(request: Received, *, is_short: bool) -> bytes:
    body = request.body
    if request.path == "/v1/embeddings":
        found = [
            {"object": "embedding", "index": place, "embedding": vector}
            for place, vector in enumerate(_vectors(request.texts, body["dimensions"], is_short))
        ]
        # No order is guaranteed.
        return orjson.dumps({"object": "list", "data": found[::-1]})
    model, _, call = request.path.removeprefix("/v1/models/").partition(":")
    inputs = body["requests"] if call == "batchEmbedContents" else [body]
    assert isinstance(inputs, list)
    assert {each["model"] for each in inputs} == {f"models/{model}"}
    vectors = _vectors(request.texts, inputs[0]["outputDimensionality"], is_short)
    if call == "embedContent":
        return orjson.dumps({"embedding": {"values": vectors[0]}})
    return orjson.dumps({"embeddings": [{"values": each} for each in vectors]})


def _vectors(texts: Sequence[str], dimension: object, is_short: bool) -> list[list[float]]:  # noqa: FBT001
    assert isinstance(dimension, int)
    end = dimension - 1 if is_short else dimension
    return [
        [LENGTH * number for number in MockEmbedder("").embed(text, dimension)[:end]]
        for text in texts
    ]
