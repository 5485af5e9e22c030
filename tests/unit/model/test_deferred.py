"""Deferred modules: nothing is imported before it is used, and then it is the module itself."""

import sys

import pytest

from omnigraph.model.deferred import defer

RARE = "colorsys"


def test_a_deferred_module_is_imported_when_it_is_first_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, RARE, raising=False)

    deferred = defer(RARE)
    was_there = RARE in sys.modules
    used = deferred.rgb_to_yiq

    assert not was_there
    assert used is sys.modules[RARE].rgb_to_yiq


def test_a_module_that_is_missing_is_missed_when_it_is_used() -> None:
    deferred = defer("omnigraph.nowhere")

    with pytest.raises(ModuleNotFoundError, match=r"omnigraph\.nowhere"):
        deferred.anything  # noqa: B018  # asking is using


def test_a_name_that_a_module_does_not_have_is_missed_as_ever() -> None:
    deferred = defer(RARE)

    with pytest.raises(AttributeError, match=f"module '{RARE}' has no attribute 'grey'"):
        deferred.grey  # noqa: B018  # asking is using
