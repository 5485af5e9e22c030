"""What a doctor advises, as commands to type."""

import re

import pytest

from omnigraph.cli.mending import find_command, rewrite
from omnigraph.cli.targets import StoreTarget
from tests.support.source_tree import product_modules

TARGET = StoreTarget("my graph")


@pytest.mark.parametrize(
    ("advice", "command"),
    [
        ("`graph.refresh()` finishes it", "omnigraph repair --store 'my graph'"),
        ("`graph.optimize()`", "omnigraph optimize --store 'my graph'"),
        ("`graph.ensure_indices()`", "omnigraph optimize --store 'my graph'"),
        (
            "`graph.optimize(branch='a b')`",
            "omnigraph optimize --branch 'a b' --store 'my graph'",
        ),
        (
            "`graph.cleanup(keep=10)` removes it",
            "omnigraph cleanup --keep 10 --confirm --store 'my graph'",
        ),
        ("`graph.delete_tag('v1')`, unless", "omnigraph tag delete v1 --store 'my graph'"),
        ("wait for it", None),
        ("restore `__manifest` from a copy", None),
        ("`graph.algorithms()`", None),
    ],
)
def test_the_call_that_mends_something_is_a_command(advice: str, command: str | None) -> None:
    assert find_command(advice, TARGET) == command


def test_every_call_that_a_doctor_names_is_a_command() -> None:
    texts = [
        module.text
        for module in product_modules()
        if module.name.startswith("omnigraph.engine.ops.doctor.")
    ]
    named = {call for text in texts for call in re.findall(r"`graph\.(\w+)", text)}

    assert len(named) > 5
    assert [call for call in sorted(named) if find_command(f"`graph.{call}`", TARGET) is None] == []


def test_advice_is_told_in_the_words_of_the_command_line() -> None:
    advice = "`graph.repair()` shows it; with `confirm=True` and `force=True` it adopts it"

    assert rewrite(advice, StoreTarget("g")) == (
        "`omnigraph repair --store g` shows it; with `--confirm` and `--force` it adopts it"
    )


def test_advice_without_a_call_stays_as_it_is() -> None:
    assert rewrite("wait for it", TARGET) == "wait for it"
    assert rewrite("`graph.algorithms()`", TARGET) == "`graph.algorithms()`"
