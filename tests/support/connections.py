"""Counts the connections that this process opens to HTTP servers."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from urllib3.connection import HTTPConnection


@contextmanager
def count_connections() -> Iterator[list[str]]:
    """The hosts of the connections that are opened in the block, one entry for each."""
    hosts: list[str] = []
    connect = HTTPConnection.connect

    def counted(connection: HTTPConnection) -> None:
        hosts.append(connection.host)
        connect(connection)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HTTPConnection, "connect", counted)
        yield hosts
