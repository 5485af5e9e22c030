"""Names of queries as names of Python: always usable, always different, changed only if need be."""

from __future__ import annotations

import keyword

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.cli.codegen.python_names import class_name, make_names

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,4}", fullmatch=True) | st.sampled_from(
    ["class", "class_", "class__", "_x", "query_x", "__init__", "list", "list_", "None"]
)


@given(st.lists(NAMES, unique=True), st.frozensets(NAMES))
def test_names_are_usable_and_their_own(names: list[str], taken: frozenset[str]) -> None:
    made = make_names(names, taken=taken, prefix="query")

    assert list(made) == names
    assert len(set(made.values())) == len(names)
    for each in made.values():
        assert each.isidentifier()
        assert not keyword.iskeyword(each)
        assert not each.startswith("_")
        assert each not in taken


@given(st.lists(NAMES, unique=True))
def test_a_name_that_can_stay_does(names: list[str]) -> None:
    made = make_names(names, taken=(), prefix="query")

    for name in names:
        if not (keyword.iskeyword(name) or name.startswith("_")):
            assert made[name] == name


def test_words_become_a_class() -> None:
    assert [class_name(each) for each in ("find_person", "findPerson", "_x1", "__")] == [
        "FindPerson",
        "FindPerson",
        "X1",
        "Query",
    ]
