"""The entrypoint of the image starts the real server, and a signal to it ends the server."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

import omnigraph
from tests.support.clusters import applied_cluster, two_graph_cluster
from tests.support.source_tree import ROOT

STARTS_WITHIN_S = 60.0
TOKENS = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"ann": "a long random text"}'}


def test_an_applied_cluster_is_served(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))

    with started({"OMNIGRAPH_CLUSTER": str(tmp_path), "OMNIGRAPH_REQUIRE_ALL_GRAPHS": "1"}) as url:
        body = get_json(f"{url}/graphs/map/snapshot?branch=main")

    assert body["branch"] == "main"


def test_one_graph_in_its_storage_is_served(tmp_path: Path) -> None:
    omnigraph.init(tmp_path / "g", schema="node Place { name: String @key }").close()

    with started({"OMNIGRAPH_STORE": str(tmp_path / "g")}) as url:
        body = get_json(f"{url}/graphs/default/snapshot?branch=main")

    assert body["branch"] == "main"


@contextmanager
def started(variables: Mapping[str, str]) -> Iterator[str]:
    """The URL of a server that the entrypoint started; it must exit cleanly when terminated."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    path = f"{Path(sys.executable).parent}:{os.defpath}"
    server = subprocess.Popen(
        ["bash", ROOT / "deploy/entrypoint"],
        env={"PATH": path, "OMNIGRAPH_BIND": address, **TOKENS, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_health(f"http://{address}", server)
        yield f"http://{address}"
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=STARTS_WITHIN_S) == 0
    finally:
        server.kill()
        server.wait()


def wait_for_health(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while server.poll() is None and time.monotonic() < deadline:
        try:
            get_json(f"{url}/healthz")
        except URLError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the server did not start")


def get_json(url: str) -> dict[str, object]:
    request = Request(url, headers={"Authorization": "Bearer a long random text"})
    with build_opener(ProxyHandler({})).open(request, timeout=30) as response:
        body: dict[str, object] = json.load(response)
        return body
