"""Which cases of a parametrised test every run includes, and which only `make verify` adds.

A case that is not representative has the marker `exhaustive`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


def sample(cases: Mapping[str, object], *, representative: Collection[str]) -> list[ParameterSet]:
    """The parameters of a test, one case each, with the representative ones unmarked.

    A case that is a tuple holds the values of several parameters.
    """
    unknown = set(representative) - cases.keys()
    assert not unknown, f"unknown cases: {sorted(unknown)}"
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            id=name,
            marks=() if name in representative else pytest.mark.exhaustive,
        )
        for name, case in cases.items()
    ]
