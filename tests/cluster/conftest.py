"""An S3 endpoint for the clusters that are stored in one."""

from collections.abc import Iterator

import pytest

from tests.support.s3_server import S3Server, serve_s3


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """One endpoint for the module; every test has a bucket of its own."""
    with serve_s3() as running:
        yield running
