"""The parsing machine: the same trees as lark, from tables that belong to the grammar."""

from pathlib import Path

import pytest
from lark import Lark, Tree
from lark.exceptions import UnexpectedInput

from omnigraph.compiler.machine import (
    Language,
    Machine,
    Token,
    UnexpectedTokenError,
    decode_tables,
    encode_tables,
    machine_of,
)
from omnigraph.compiler.parser_tables import build_parser, build_tables

CORPUS = Path(__file__).parents[2] / "corpus"
SUFFIX_BY_LANGUAGE = {Language.SCHEMA: ".pg", Language.QUERY: ".gq"}

Shape = tuple[object, ...] | str | None


class Shapes:
    """A builder of plain tuples: the name of a production, then its children."""

    def __getattr__(self, production: str) -> object:
        return lambda *children: (production, *(_text_of(child) for child in children))


def _text_of(child: object) -> object:
    return child.text if isinstance(child, Token) else child


@pytest.mark.parametrize("language", Language)
def test_the_machine_makes_the_trees_that_lark_makes(language: Language) -> None:
    machine, lark = Machine(build_tables(language)), build_parser(language)
    accepted = 0

    for source in _corpus_sources(language):
        expected = _shape_by_lark(lark, source)
        assert _shape_by_machine(machine, source) == expected
        accepted += expected is not None

    assert accepted > 40, "the corpus went missing"


@pytest.mark.parametrize("language", Language)
def test_the_stored_tables_belong_to_the_grammar(language: Language) -> None:
    stored = decode_tables(language.tables.read_text(encoding="utf-8"))
    built = build_tables(language)

    # States are numbered differently in each build, so only what has an order can be compared.
    assert stored.terminals == built.terminals
    assert set(stored.productions) == set(built.productions)
    assert len(stored.actions) == len(built.actions)


@pytest.mark.parametrize("language", Language)
def test_tables_survive_storage(language: Language) -> None:
    tables = build_tables(language)

    assert decode_tables(encode_tables(tables)) == tables


def test_a_refusal_names_what_could_have_gone_on() -> None:
    with pytest.raises(UnexpectedTokenError) as refusal:
        machine_of(Language.SCHEMA).run("node Person { name String }", Shapes())

    assert refusal.value.found == Token("TYPE_NAME", "String", 19, 25)
    assert refusal.value.accepts == {"COLON"}


def test_a_refusal_at_the_end_says_so() -> None:
    with pytest.raises(UnexpectedTokenError) as refusal:
        machine_of(Language.SCHEMA).run("node Person {  ", Shapes())

    assert refusal.value.found == Token("END", "", 15, 15)


def test_a_character_of_no_terminal_is_reported_where_it_stands() -> None:
    with pytest.raises(UnexpectedTokenError) as refusal:
        machine_of(Language.SCHEMA).run("node A {} /* c */ ; node B {}", Shapes())

    assert refusal.value.found == Token("", ";", 18, 19)


def _corpus_sources(language: Language) -> list[str]:
    files = sorted(CORPUS.rglob(f"*{SUFFIX_BY_LANGUAGE[language]}"))
    return [file.read_text(encoding="utf-8").split("\n--- ")[0] for file in files]


def _shape_by_machine(machine: Machine, source: str) -> object:
    try:
        return machine.run(source, Shapes())
    except UnexpectedTokenError:
        return None


def _shape_by_lark(lark: Lark, source: str) -> Shape:
    try:
        return _shape_of(lark.parse(source))
    except UnexpectedInput:
        return None


def _shape_of(tree: Tree[object] | object) -> Shape:
    if isinstance(tree, Tree):
        return (str(tree.data), *map(_shape_of, tree.children))
    return None if tree is None else str(tree)
