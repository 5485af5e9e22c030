"""The server that most modules use: one process per module, in which every request is allowed."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.servers import Server, open_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client(token=None) as opened:
        yield opened
