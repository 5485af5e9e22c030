"""One server per module, and its graph opened both ways."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omnigraph.client.remote import AnyGraph
from tests.support.both_graphs import Both, both_graphs


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with both_graphs(tmp_path_factory.mktemp("both")) as opened:
        yield opened


@pytest.fixture(params=["embedded", "remote"])
def graph(request: pytest.FixtureRequest, both: Both) -> AnyGraph:
    return both.find(str(request.param))
