"""Every command on graphs says and does the same embedded and served, refusals included.

Standard output is compared whole, and so is what is said on standard error.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omnigraph.cli.registry import ENTRIES, Capability
from tests.support.parity import Line, Twins, matrix, twin_graphs
from tests.support.source_tree import require_none


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    with twin_graphs(tmp_path_factory.mktemp("twins")) as made:
        yield made


@pytest.mark.parametrize("line", matrix(), ids=str)
def test_a_command_is_the_same_embedded_and_served(line: Line, twins: Twins) -> None:
    embedded, served = twins.run(line)

    assert (embedded.code, served.code) == (line.code, line.code), embedded.err + served.err
    assert embedded.out == served.out
    assert embedded.err == served.err


def test_every_command_on_graphs_is_in_the_matrix() -> None:
    compared = {line.command for line in matrix()}

    missing = [
        entry.name
        for entry in ENTRIES
        if entry.capability is Capability.DATA and entry.name not in compared
    ]

    require_none(missing, rule="a command on graphs is compared, embedded and served")


def test_a_command_that_differs_is_noticed(twins: Twins) -> None:
    line = Line("snapshot", ("--json",), 0, "")
    elsewhere = Line("snapshot", ("--branch", "picked", "--json"), 0, "")

    (here, _), (_, there) = twins.run(line), twins.run(elsewhere)

    assert here.out != there.out
