"""A web page of another origin cannot make a browser change or read a server without tokens."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.support.raw_requests import RawResponse, exchange
from tests.support.servers import Server, refused_server, running_server

REMOVE = 'query remove_alice() { delete Person where name = "Alice" }\n'
COUNT = "query count_people() { match { $p: Person } return { count(*) as n } }\n"
G = "/graphs/default"
LOOPBACK = b"127.0.0.1:8080"
JSON_TYPE = b"application/json"

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
BROWSER_S_MAX = 120


@contextmanager
def open_server(folder: Path, *arguments: str) -> Iterator[Server]:
    """A server without tokens that has a stored mutation and a stored read."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stored.gq").write_text(REMOVE + COUNT, encoding="utf-8")
    with running_server(
        folder,
        "--unauthenticated",
        "--queries",
        str(folder / "stored.gq"),
        *arguments,
        environment={"OMNIGRAPH_LOG": "debug"},
    ) as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_server(tmp_path_factory.mktemp("server"), "--allow-host", "graphs.test") as running:
        yield running


def send(
    server: Server,
    method: bytes,
    path: str,
    *,
    host: bytes | None = LOOPBACK,
    origin: bytes | None = None,
    kind: bytes | None = None,
    body: bytes = b"",
) -> RawResponse:
    """Send a request with exactly these headers."""
    given = ((b"Host", host), (b"Origin", origin), (b"Content-Type", kind))
    lines = [b"%b: %b" % (name, value) for name, value in given if value is not None]
    head = [b"%b %b HTTP/1.1" % (method, path.encode()), *lines, b"Connection: close"]
    sent = b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"", body])
    return exchange(server.url, sent)


def head_of(server: Server) -> str:
    """The head of `main`."""
    response = httpx.get(f"{server.graph_url}/head", timeout=60.0)
    return str(response.json()["commit_id"])


@pytest.mark.parametrize("kind", [None, b"text/plain", b"application/x-www-form-urlencoded"])
@pytest.mark.parametrize("body", [b"", b"{}"])
@pytest.mark.parametrize(
    "path",
    [
        f"{G}/queries/remove_alice",
        f"{G}/commits/{{head}}/revert",
        f"{G}/commits/{{head}}/cherry-pick",
    ],
)
def test_a_write_needs_a_content_type_that_a_page_cannot_send_unasked(
    server: Server, path: str, body: bytes, kind: bytes | None
) -> None:
    before = head_of(server)

    response = send(server, b"POST", path.format(head=before), kind=kind, body=body)

    assert response.status == 415
    assert b"application/json" in response.body
    assert head_of(server) == before


@pytest.mark.parametrize("path", ["/mutate", "/load", "/change", "/ingest", "/branches", "/tags"])
def test_every_other_write_needs_its_content_type_too(server: Server, path: str) -> None:
    before = head_of(server)

    response = send(server, b"POST", f"{G}{path}", kind=b"text/plain", body=b"{}")

    assert response.status == 415
    assert head_of(server) == before


@pytest.mark.parametrize(
    "origin",
    [
        b"https://evil.example",
        b"null",
        b"http://127.0.0.1.evil.example",
        b"http://localhost@evil.example",
        b"http://[::1",
        b"",
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        (b"POST", f"{G}/queries/remove_alice"),
        (b"POST", f"{G}/mutate"),
        (b"DELETE", f"{G}/branches/feature"),
        (b"POST", "/admin/reload"),
        (b"GET", f"{G}/schema"),
        (b"GET", "/graphs"),
        (b"GET", "/metrics"),
    ],
)
def test_a_request_from_a_page_of_another_site_is_refused(
    server: Server, method: bytes, path: str, origin: bytes
) -> None:
    before = head_of(server)

    response = send(server, method, path, origin=origin, kind=JSON_TYPE, body=b"{}")

    assert response.status == 403
    assert head_of(server) == before


@pytest.mark.parametrize(
    "host", [None, b"", b"evil.example", b"evil.example:80", b"127.0.0.1.evil.example", b"[::1"]
)
def test_a_host_that_is_neither_loopback_nor_allowed_is_refused(
    server: Server, host: bytes | None
) -> None:
    response = send(server, b"GET", f"{G}/schema", host=host)

    assert response.status == 403
    assert b"--allow-host" in response.body
    assert b"Person" not in response.body


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (b"localhost", None),
        (b"LOCALHOST:1", None),
        (b"127.0.0.1:8080", b"http://localhost:3000"),
        (b"127.8.9.1", None),
        (b"[::1]:8080", b"http://[::1]:8080"),
        (b"graphs.test", None),
        (b"Graphs.Test:8443", b"https://graphs.test"),
    ],
)
def test_loopback_names_and_allowed_hosts_are_accepted(
    server: Server, host: bytes, origin: bytes | None
) -> None:
    response = send(
        server, b"POST", f"{G}/queries/count_people", host=host, origin=origin, kind=JSON_TYPE
    )

    assert response.status == 200


def test_a_health_check_needs_no_host(server: Server) -> None:
    assert send(server, b"GET", "/healthz", host=b"10.0.0.7:8080").status == 200


def test_with_tokens_the_origin_is_not_checked(tmp_path: Path) -> None:
    with running_server(
        tmp_path, environment={"OMNIGRAPH_SERVER_BEARER_TOKEN": "sesame"}
    ) as guarded:
        headers = {"Host": "graphs.example.com", "Origin": "https://app.example.com"}
        without = guarded.request("GET", f"{G}/schema", token=None, headers=headers)
        with_token = guarded.request("GET", f"{G}/schema", token="sesame", headers=headers)

    assert (without.status_code, with_token.status_code) == (401, 200)


@pytest.mark.parametrize(
    "given",
    [
        "http://a.example",
        *(
            pytest.param(given, marks=pytest.mark.exhaustive)
            for given in ("a.example:80", "a/b", "")
        ),
    ],
)
def test_a_server_does_not_start_with_an_allowed_host_that_is_not_a_name(
    tmp_path: Path, given: str
) -> None:
    ended = refused_server(
        tmp_path, "--store", str(tmp_path / "graph"), "--unauthenticated", "--allow-host", given
    )

    assert ended.code == 1
    assert "--allow-host takes a host name" in ended.said


PAGE = """<!doctype html><body><script>
const sent = [];
const send = (name, path, options) => sent.push(
  fetch("%(target)s" + path, options).then(
    (answer) => name + "=" + (answer.type === "opaque" ? "opaque" : answer.status),
    () => name + "=blocked"));
const plain = {method: "POST", mode: "no-cors", headers: {"Content-Type": "text/plain"}};
send("health", "/healthz", {mode: "no-cors"});
send("stored", "%(graph)s/queries/remove_alice", {...plain, body: "{}"});
send("bare", "%(graph)s/queries/remove_alice", {method: "POST", mode: "no-cors"});
send("revert", "%(graph)s/commits/%(head)s/revert", {method: "POST", mode: "no-cors"});
send("json", "%(graph)s/queries/remove_alice", {
  method: "POST", headers: {"Content-Type": "application/json"}, body: "{}"});
send("delete", "%(graph)s/branches/feature", {method: "DELETE"});
Promise.all(sent).then((found) => { document.body.textContent = "done " + found.join(" "); });
</script></body>"""


@contextmanager
def page_at(html: str) -> Iterator[int]:
    """A web server that shows one page; its port."""

    class Show(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    shown = ThreadingHTTPServer(("127.0.0.1", 0), Show)
    thread = threading.Thread(target=shown.serve_forever)
    thread.start()
    try:
        yield shown.server_address[1]
    finally:
        shown.shutdown()
        thread.join()
        shown.server_close()


def browse(url: str, profile: Path) -> str:
    """The text of a page in Chromium after its scripts ran; every name resolves to this machine."""
    assert CHROMIUM is not None
    ran = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-proxy-server",
            f"--user-data-dir={profile}",
            "--host-resolver-rules=MAP * 127.0.0.1",
            "--virtual-time-budget=20000",
            "--dump-dom",
            url,
        ],
        capture_output=True,
        text=True,
        timeout=BROWSER_S_MAX,
        check=True,
    )
    return ran.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_hostile_page_in_a_real_browser_changes_nothing(tmp_path: Path) -> None:
    with open_server(tmp_path / "served") as server:
        before = head_of(server)
        page = PAGE % {"target": server.url, "graph": G, "head": before}

        with page_at(page) as port:
            shown = browse(f"http://evil.example:{port}/", tmp_path / "profile")
        after = head_of(server)
        refused = [
            (line["method"], line["status"])
            for line in server.log_lines()
            if line["event"] == "request" and line["status"] == 403
        ]

    # The browser reached the server, so nothing else blocked the page.
    assert "health=opaque" in shown
    assert "stored=opaque" in shown
    assert "json=blocked" in shown
    assert "delete=blocked" in shown
    assert refused.count(("POST", 403)) == 3
    assert after == before


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_rebound_name_in_a_real_browser_reads_nothing(tmp_path: Path) -> None:
    with open_server(tmp_path / "served") as server:
        port = server.url.rpartition(":")[2]
        rebound = browse(f"http://evil.example:{port}{G}/schema", tmp_path / "profile")
        meant = browse(f"http://localhost:{port}{G}/schema", tmp_path / "profile")

    assert "--allow-host" in rebound
    assert "node Person" not in rebound
    assert "node Person" in meant
