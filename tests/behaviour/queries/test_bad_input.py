"""The compiler accepts or refuses any file in bounded time, and names position and reason."""

from collections.abc import Callable

import pytest

from omnigraph.compiler.compile import compile_queries, compile_query, compile_schema
from omnigraph.compiler.parser import decode_source
from omnigraph.errors import CompileError
from omnigraph.model.limits import (
    BLOCK_NESTING_MAX,
    DIAGNOSTICS_MAX,
    NESTING_MAX,
    SOURCE_CHARACTERS_MAX,
)
from omnigraph.model.source import Source
from tests.support.promises import compile_or_refuse, time_limit

Compile = Callable[[str], object]

CATALOG = compile_schema(
    Source("schema.pg", "node Person { name: String @key age: I32? } edge Knows: Person -> Person")
)


def as_schema(text: str) -> object:
    return compile_schema(Source("any.pg", text))


def as_queries(text: str) -> object:
    return compile_queries(Source("any.gq", text), CATALOG)


either_language = pytest.mark.parametrize(
    "compile", [as_schema, as_queries], ids=["schema", "queries"]
)


def refuse(compile: Compile, text: str) -> CompileError:
    """The refusal of a text, well-formed and in bounded time."""
    error = compile_or_refuse(lambda: compile(text))
    assert isinstance(error, CompileError)
    return error


def codes(error: CompileError) -> set[str]:
    return {diagnostic.code for diagnostic in error.diagnostics}


def read(clauses: str, columns: str = "$p") -> str:
    """A query with some clauses about a person."""
    return f"query q() {{ match {{ $p: Person {clauses} }} return {{ {columns} }} }}"


# Text that is not a query


@either_language
@pytest.mark.parametrize("text", ["", " \n\t\r\n", "// nothing", "/* nothing */\n// at all\n"])
def test_a_text_without_declarations_declares_nothing(compile: Compile, text: str) -> None:
    compile(text)


def test_a_text_without_queries_has_none_to_run() -> None:
    error = compile_or_refuse(lambda: compile_query(Source("any.gq", "//"), CATALOG, name=None))

    assert isinstance(error, CompileError)
    assert codes(error) == {"T34"}


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_file_in_another_encoding_is_refused(encoding: str) -> None:
    encoded = "// Größe\nnode N {}".encode(encoding)

    error = compile_or_refuse(lambda: as_schema(decode_source(encoded, name="any.pg").text))

    assert isinstance(error, CompileError)
    assert codes(error) == {"P3"}


def test_a_byte_order_mark_changes_nothing() -> None:
    marked = decode_source("node N {}".encode("utf-8-sig"), name="any.pg")

    assert compile_schema(marked) == compile_schema(Source("any.pg", "node N {}"))


@either_language
@pytest.mark.parametrize("character", ["\x00", "\x08", "\x1b", "\ud800"])
@pytest.mark.parametrize("text", ["{}", "// {}\n", 'node N {{ p: String @d("{}") }}'])
def test_a_character_that_no_text_can_hold_is_refused(
    compile: Compile, character: str, text: str
) -> None:
    error = refuse(compile, text.replace("{}", character, 1))

    assert codes(error) == {"P3"}


@either_language
@pytest.mark.parametrize("character", ["\u200b", "\u202e", "\ufeff", "\xa0", "\u2028", "\uff04"])
def test_a_look_alike_of_white_space_or_a_sign_is_refused_at_its_position(
    compile: Compile, character: str
) -> None:
    error = refuse(compile, f"//\n{character} node N {{}}")

    (fault,) = error.diagnostics
    assert fault.span is not None
    assert error.source.text[fault.span.start] == character


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_line_endings_change_neither_meaning_nor_places(end: str) -> None:
    good = end.join(["node N {", "  p: String // text", "}"])
    bad = good.replace("String", "Strng")

    error = refuse(as_schema, bad)

    assert compile_schema(Source("any.pg", good)).nodes["N"].properties["p"]
    assert "any.pg:2:6" in str(error)
    assert "\r" not in str(error)


# Text that does not end


@either_language
@pytest.mark.parametrize("opening", ['"', '"\\"', '"\\', "/*", "/*/", "/* // \n"])
def test_a_string_or_comment_that_does_not_end_is_named_by_its_start(
    compile: Compile, opening: str
) -> None:
    error = refuse(compile, f"// one\n  {opening} text")

    (fault,) = error.diagnostics
    assert (fault.code, fault.span and fault.span.start) == ("P2", 9)


@pytest.mark.parametrize("length", range(len("node N { p: String @key }")))
def test_a_schema_cut_off_anywhere_compiles_or_is_refused(length: int) -> None:
    compile_or_refuse(lambda: as_schema("node N { p: String @key }"[:length]))


@pytest.mark.parametrize("length", range(len(read("$p knows $f", "count($f)"))))
def test_a_query_cut_off_anywhere_compiles_or_is_refused(length: int) -> None:
    compile_or_refuse(lambda: as_queries(read("$p knows $f", "count($f)")[:length]))


# Text that is nested


@either_language
@pytest.mark.parametrize(("opening", "closing"), ["{}", "()", "[]"])
def test_ten_thousand_brackets_are_refused(compile: Compile, opening: str, closing: str) -> None:
    assert codes(refuse(compile, opening * 10_000)) == {"P4"}
    assert codes(refuse(compile, opening * 10_000 + closing * 10_000)) == {"P4"}


@pytest.mark.parametrize("closing", ["}", ")", "]", "})]"])
@either_language
def test_brackets_that_were_never_opened_are_refused(compile: Compile, closing: str) -> None:
    error = refuse(compile, closing * 10_000 + "{([" * 10_000)

    assert error.diagnostics[0].code in {"P1", "P4"}


@pytest.mark.parametrize(
    ("opening", "closing", "limit"),
    [
        ("not { $p knows $f ", "}", BLOCK_NESTING_MAX),
        ("optional { $p knows $f ", "}", BLOCK_NESTING_MAX),
        ("( $p.age = 1 or ", ")", NESTING_MAX - 2),
    ],
    ids=["not", "optional", "parentheses"],
)
def test_blocks_nest_down_to_the_limit_and_no_deeper(
    opening: str, closing: str, limit: int
) -> None:
    def nested(depth: int) -> str:
        return read(f"{opening * depth} $p.age = 2 {closing * depth}")

    as_queries(nested(limit))

    assert codes(refuse(as_queries, nested(limit + 1))) == {"P4"}
    assert codes(refuse(as_queries, nested(10_000))) == {"P4"}


@pytest.mark.parametrize("function", ["count", "rrf", "date", "f"])
def test_calls_nested_down_to_the_limit_are_refused_for_what_they_say(function: str) -> None:
    within = NESTING_MAX - 2

    error = refuse(as_queries, read("", f"{function}(" * within + ")" * within))

    assert not codes(error) & {"P4"}


# Text that is long


@either_language
@pytest.mark.parametrize(
    ("start", "middle", "end"),
    [
        ("", "a", ""),
        ("", "{", ""),
        ("", '"', ""),
        ('"', "a", '"'),
        ("//", "a", ""),
        ("/*", "a", "*/"),
        ("", "1", ""),
        ("", "\n", ""),
        ("", "or ", ""),
    ],
    ids=["letters", "braces", "quotes", "string", "line", "comment", "digits", "lines", "words"],
)
def test_ten_megabytes_are_refused_unread(
    compile: Compile, start: str, middle: str, end: str
) -> None:
    text = start + middle * 10_000_000 + end

    with time_limit(1):
        error = refuse(compile, text)

    assert codes(error) == {"P4"}
    assert len(str(error)) < 1_000


PARTS = (
    "a", "A", "1", "-", "{", "}", "(", ")", '"', '""', "//", "//\n", "/", "*", "/**/", "$", "@",
    ".", ",", " ", "\n", "\r", "\\", "é", "🦜", "$p ", "$p.", "<a", "0.", "not ", "query ", "node ",
)  # fmt: skip


@either_language
@pytest.mark.parametrize("part", PARTS)
def test_the_longest_text_of_one_thing_compiles_or_is_refused_in_time(
    compile: Compile, part: str
) -> None:
    text = (part * SOURCE_CHARACTERS_MAX)[:SOURCE_CHARACTERS_MAX]

    compile_or_refuse(lambda: compile(text))


def test_the_longest_string_and_comment_are_read() -> None:
    length = SOURCE_CHARACTERS_MAX - 100

    catalog = compile_schema(Source("any.pg", f'node N @d("{"a" * length}") {{}}'))
    as_queries(f"/*{'*' * length}*/{read('')}")

    (annotation,) = catalog.nodes["N"].annotations
    assert annotation.value == "a" * length


@pytest.mark.parametrize("start", ["9", "-9", "9e9"])
def test_a_number_of_a_million_digits_fits_nothing(start: str) -> None:
    number = start + "9" * 1_000_000

    assert codes(refuse(as_queries, read(f"$p.age = {number}"))) == {"P6"}
    assert codes(refuse(as_queries, f"{read('')[:-1]} limit {number} }}")) <= {"P6", "P1"}


def test_a_fraction_of_a_million_digits_is_rounded() -> None:
    with time_limit(5):
        as_queries(read(f"$p.age = 0.{'9' * 1_000_000}"))


@pytest.mark.parametrize("place", ["v: Vector(#)", "p: I32 @range(p, 0..#)", "p: I32 @custom(#)"])
def test_a_million_digits_in_a_schema_are_refused(place: str) -> None:
    text = f"node N {{ {place.replace('#', '9' * 1_000_000)} }}"

    assert codes(refuse(as_schema, text)) == {"P6"}


@pytest.mark.parametrize("word", ["or", "and"])
def test_a_condition_may_have_twenty_thousand_parts(word: str) -> None:
    parts = f" {word} ".join(["$p.age = 1"] * 20_000)

    with time_limit(20):
        as_queries(read(parts))


def test_a_type_may_have_a_hundred_thousand_properties() -> None:
    properties = " ".join(f"p{i}: I32?" for i in range(100_000))

    with time_limit(20):
        catalog = compile_schema(Source("any.pg", f"node N {{ {properties} }}"))

    assert len(catalog.nodes["N"].properties) == 100_000


# Text with many errors


@pytest.mark.parametrize(
    "text",
    [
        "node N { " + " ".join(f"p{i}: Strng" for i in range(5_000)) + " }",
        " ".join(f"edge E{i}: N{i} -> M{i}" for i in range(5_000)),
        "node N { p: I32 " + "@unique(q) " * 5_000 + " }",
        "node N { p: String " + '@x("\\d") ' * 5_000 + " }",
    ],
    ids=["types", "edges", "constraints", "escapes"],
)
def test_five_thousand_errors_of_a_schema_are_not_all_reported(text: str) -> None:
    error = refuse(as_schema, text)

    assert len(error.diagnostics) == DIAGNOSTICS_MAX


@pytest.mark.parametrize(
    "text",
    [
        read(" or ".join(f"$p.ag{i} = 1" for i in range(5_000))),
        read("", " ".join(f"$q{i}.name" for i in range(5_000))),
        " ".join(read(f"$p.ag{i} = 1") for i in range(5_000)),
    ],
    ids=["conditions", "columns", "queries"],
)
def test_five_thousand_errors_of_queries_are_not_all_reported(text: str) -> None:
    error = refuse(as_queries, text)

    assert len(error.diagnostics) == DIAGNOSTICS_MAX


# Text that multiplies


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "((((a*)*)*)*)*b", "(a|aa)+$", "(.*.*.*.*)*x", "a{1000}", "(x+x+)+y"]
)
def test_a_pattern_with_exponential_backtracking_elsewhere_is_accepted(pattern: str) -> None:
    with time_limit(1):
        catalog = compile_schema(Source("any.pg", f'node N {{ p: String @check(p, "{pattern}") }}'))

    assert catalog.nodes["N"].constraints


@pytest.mark.parametrize(
    "pattern", ["a{1001}", "a{99999999999}", "a{1,100000}", "(a{1000}){1000}", "((a{50}){50}){50}"]
)
def test_a_pattern_that_repeats_too_often_is_refused(pattern: str) -> None:
    error = refuse(as_schema, f'node N {{ p: String @check(p, "{pattern}") }}')

    assert codes(error) == {"S16"}


def test_nested_groups_of_a_pattern_are_compiled_or_refused() -> None:
    pattern = "(" * 20_000 + ")" * 20_000

    compile_or_refuse(lambda: as_schema(f'node N {{ p: String @check(p, "{pattern}") }}'))


@pytest.mark.parametrize("comment", ["// ", "/**/", "/* // */", "/*/**/"])
def test_comments_between_the_parts_of_a_property_are_read_once(comment: str) -> None:
    gap = f"\n{comment * 200}\n"

    with time_limit(2):
        as_queries(read(f"$p{gap}knows{gap}$f $p{gap}.{gap}age = 1"))


@pytest.mark.parametrize(
    "text",
    [
        f"node N{'a' * 1_000_000} {{ {' '.join(f'p{i}: I32' for i in range(3_000))} }}",
        f"interface I {{ {' '.join(f'p{i}: I32' for i in range(3_000))} }} "
        + " ".join(f"node N{i} implements I {{}}" for i in range(3_000)),
        f"interface I {{ {' '.join(f'p{i}: I32' for i in range(3_000))} }} "
        + f"node N implements {', '.join(['I'] * 3_000)} {{}}",
    ],
    ids=["a long name with many properties", "many types with many properties", "one interface"],
)
def test_a_schema_that_multiplies_is_compiled_or_refused_in_time(text: str) -> None:
    compile_or_refuse(lambda: as_schema(text))


@pytest.mark.parametrize(
    "text",
    [
        read("$p knows $f " * 5_000),
        read(" ".join(f"$p{i}: Person not {{ $p{i} knows $f }}" for i in range(5_000))),
        read(" ".join(f"$p{i} knows $p{i + 1}" for i in range(5_000, 0, -1)) + " $p knows $p1"),
        read("", f"count({'*, 1, ' * 10_000} 1)"),
        " ".join(["query q() { match { $p: Persn } return { $p } }"] * 5_000),
        read(" ".join(f"$p{i}: Person $q{i}.age = 1" for i in range(5_000))),
        read("", " ".join(f"$p.age as a{i}" for i in range(5_000)))[:-1]
        + f"order {{ {', '.join(f'a{i}' for i in range(5_000))} }} }}",
    ],
    ids=["cycles", "blocks", "chain", "arguments", "faulty queries", "unbound variables", "order"],
)
def test_a_query_that_multiplies_is_compiled_or_refused_in_time(text: str) -> None:
    compile_or_refuse(lambda: as_queries(text))
