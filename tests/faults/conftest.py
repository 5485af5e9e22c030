"""The ways in which sweeps interrupt an operation."""

from collections.abc import Sequence

import pytest

from tests.support.crashing import REPRESENTATIVE_WAYS, When

OTHER_WAYS = tuple(way for way in When if way not in REPRESENTATIVE_WAYS)


@pytest.fixture(
    params=[
        pytest.param(REPRESENTATIVE_WAYS, id="after"),
        pytest.param(OTHER_WAYS, id="other ways", marks=pytest.mark.exhaustive),
    ]
)
def ways(request: pytest.FixtureRequest) -> Sequence[When]:
    """Ways to interrupt an effect; `make verify` adds all others."""
    found: Sequence[When] = request.param
    return found
