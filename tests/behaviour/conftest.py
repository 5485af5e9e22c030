"""Places for tables, of either kind; each test has its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.s3_server import S3Server, serve_s3
from tests.support.table_stores import Place, place_on_disk, place_on_s3


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """One endpoint for the module; every test has a bucket of its own."""
    with serve_s3() as running:
        yield running


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, server: S3Server) -> Place:
    """An empty place of either kind."""
    return place_on_disk(tmp_path) if request.param == "disk" else place_on_s3(server)
