"""The planted bugs still fit: a change of the product carries them along, so that none rots."""

import ast
from collections import Counter

import pytest

from tests.mutants.mutants import MUTANTS
from tests.mutants.planting import Mutant, planted_texts
from tests.support.source_tree import ROOT, require_none

BUGS_MIN = 16


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_fits_the_product(mutant: Mutant) -> None:
    planted = planted_texts(mutant, root=ROOT)

    for module, text in planted.items():
        ast.parse(text, filename=module)
        assert text != (ROOT / "src" / "omnigraph" / module).read_text(encoding="utf-8")


def test_every_planted_bug_names_tests_that_exist() -> None:
    unguarded = [mutant.name for mutant in MUTANTS if not mutant.tests]
    missing = [test for mutant in MUTANTS for test in mutant.tests if not _exists(test)]

    require_none(unguarded, rule="a planted bug names the tests that must notice it")
    require_none(missing, rule="a test that a planted bug names exists")


def test_planted_bugs_are_many_and_distinct() -> None:
    names = Counter(mutant.name for mutant in MUTANTS)

    assert len(MUTANTS) >= BUGS_MIN
    require_none([name for name, count in names.items() if count > 1], rule="a name is used once")


def _exists(test: str) -> bool:
    path, _, name = test.partition("::")
    if not (ROOT / path).is_file():
        return False
    text = (ROOT / path).read_text(encoding="utf-8")
    return not name or f"def {name.partition('[')[0]}(" in text
