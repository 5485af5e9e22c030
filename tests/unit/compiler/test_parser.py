"""Source checks, lexer, LALR(1) automaton, syntax error messages."""

from pathlib import Path

import pytest
from lark import Lark, Tree
from lark.exceptions import UnexpectedInput

from omnigraph.compiler.parser import (
    Language,
    Parser,
    Token,
    UnexpectedTokenError,
    decode_source,
    decode_tables,
    encode_tables,
    parser_of,
    require_parseable,
)
from omnigraph.compiler.parser_tables import build_parser, build_tables
from omnigraph.model.errors import CompileError
from omnigraph.model.source import Source

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
    machine, lark = Parser(build_tables(language)), build_parser(language)
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


def test_a_syntax_error_names_the_expected_tokens() -> None:
    with pytest.raises(UnexpectedTokenError) as refusal:
        parser_of(Language.SCHEMA).run("node Person { name String }", Shapes())

    assert refusal.value.found == Token("TYPE_NAME", "String", 19, 25)
    assert refusal.value.accepts == {"COLON"}


def test_a_refusal_at_the_end_says_so() -> None:
    with pytest.raises(UnexpectedTokenError) as refusal:
        parser_of(Language.SCHEMA).run("node Person {  ", Shapes())

    assert refusal.value.found == Token("END", "", 15, 15)


def test_a_character_of_no_terminal_is_reported_at_its_position() -> None:
    with pytest.raises(UnexpectedTokenError) as refusal:
        parser_of(Language.SCHEMA).run("node A {} /* c */ ; node B {}", Shapes())

    assert refusal.value.found == Token("", ";", 18, 19)


def _corpus_sources(language: Language) -> list[str]:
    files = sorted(CORPUS.rglob(f"*{SUFFIX_BY_LANGUAGE[language]}"))
    return [file.read_text(encoding="utf-8").split("\n--- ")[0] for file in files]


def _shape_by_machine(machine: Parser, source: str) -> object:
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


BOM = b"\xef\xbb\xbf"


def test_a_byte_order_mark_is_not_part_of_the_text() -> None:
    source = decode_source(BOM + b"node N {}", name="schema.pg")

    assert source.text == "node N {}"


@pytest.mark.parametrize("mark", [b"", BOM], ids=["without mark", "with mark"])
def test_an_undecodable_byte_is_reported_at_its_position(mark: bytes) -> None:
    with pytest.raises(CompileError) as refusal:
        decode_source(mark + "// é\nnode ".encode() + b"\xff {}\n", name="schema.pg")

    assert str(refusal.value).splitlines() == [
        "parse error: the file is not UTF-8: byte 0xff cannot be read [P3]",
        "   --> schema.pg:2:6",
        "  2 | node \N{REPLACEMENT CHARACTER} {}",
        "    |      ^ save the file as UTF-8",
    ]


def test_a_character_cut_off_by_the_end_of_the_file_is_named() -> None:
    with pytest.raises(CompileError) as refusal:
        decode_source("// é".encode()[:-1], name="schema.pg")

    (fault,) = refusal.value.diagnostics
    assert fault.span is not None
    assert refusal.value.source.text[fault.span.start : fault.span.end] == "\ufffd"


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\ud800"], ids=["NUL", "ESC", "surrogate"])
def test_a_character_that_no_text_may_hold_is_not_repeated_in_the_message(character: str) -> None:
    with pytest.raises(CompileError) as refusal:
        require_parseable(Source("schema.pg", f"node {character}N {{}}"))

    assert character not in str(refusal.value)
    assert "node \N{REPLACEMENT CHARACTER}N {}" in str(refusal.value)
