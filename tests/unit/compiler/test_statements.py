"""Where a statement that is typed ends, and the query that it stands for."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.statements import (
    Command,
    Parameter,
    Query,
    find_type,
    find_used,
    is_finished,
    parse_statement,
    scan,
    split_statements,
)

READ = "match { $p: Person } return { $p.name }"


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "   \n",
        "\\log",
        "\\branch draft",
        "quit",
        "exit;",
        " help ",
        "?",
        f"{READ};",
        f"{READ}\n",
        f"{READ} limit 5\n",
        f"query q() {{ {READ} }}",
        'query q() @description("a } b") { match { $p: P } return { $p.a } }',
        'insert Person { name: "Ann" }\n',
        'delete Person where name = "Ann";',
    ],
)
def test_a_statement_that_is_whole_ends(typed: str) -> None:
    assert is_finished(typed)


@pytest.mark.parametrize(
    "typed",
    [
        READ,
        "match {",
        "match { $p: Person }\n",
        "match { $p: Person };",
        f"{READ} limit\n",
        "query q()\n",
        "query q() {\n\n",
        'insert Person { name: "Ann" }',
        'insert Person { name: "a } ;',
        "/* match { ;",
        "update Person set { age: 3 }\n",
        "delete Person where\n",
    ],
)
def test_a_statement_that_may_go_on_does(typed: str) -> None:
    assert not is_finished(typed)


def test_a_script_is_split_at_semicolons_empty_lines_and_the_ends_of_queries() -> None:
    script = f"""
    // The first.
    {READ};
    query a() {{ {READ} }} query b() {{ {READ} }}
    insert Person {{ name: "a;b" }}
    insert Person {{ name: "// no comment" }}

    match {{ $p: Person }}

    return {{ $p.name }}
    \\branch draft
    \\log 3
    {READ}
    """

    statements = split_statements(script)

    assert [" ".join(each.split()) for each in statements] == [
        f"// The first. {READ}",
        f"query a() {{ {READ} }}",
        f"query b() {{ {READ} }}",
        'insert Person { name: "a;b" } insert Person { name: "// no comment" }',
        READ,
        "\\branch draft",
        "\\log 3",
        READ,
    ]


def test_an_empty_text_is_not_a_statement() -> None:
    assert split_statements("\n;;  // nothing\n;\n/* here */") == []


@given(st.text(alphabet='mq {}()[];"\\/*$\n', max_size=40))
def test_no_text_stops_the_shell_from_reading_it(text: str) -> None:
    is_finished(text)
    statements = split_statements(text)

    assert "".join(token.text for token in scan(text)) == text
    place = 0
    for statement in statements:
        place = text.index(statement, place) + len(statement)


def test_a_bare_body_becomes_a_query_that_declares_the_parameters_it_uses() -> None:
    parameters = {
        "name": Parameter("String", "Ann"),
        "age": Parameter("I64", 30),
        "p": Parameter("String", "a variable of the body"),
    }

    query = parse_statement("match { $p: Person { name: $name } } return { $p.age }", parameters)

    assert query == Query(
        "query q($name: String) { match { $p: Person { name: $name } } return { $p.age }\n}",
        "q",
        {"name": "Ann"},
        is_mutation=False,
    )


def test_a_whole_query_is_given_only_the_parameters_that_it_declares() -> None:
    parameters = {"name": Parameter("String", "Ann"), "age": Parameter("I64", 30)}
    text = "query add($name: String) { insert Person { name: $name } }"

    query = parse_statement(text, parameters)

    assert query == Query(text, "add", {"name": "Ann"}, is_mutation=True)


@pytest.mark.parametrize("body", ["insert P { a: 1 }", "update P set { a: 1 } where a = 2"])
def test_what_changes_rows_is_a_mutation_with_a_head_or_without(body: str) -> None:
    bare, whole = parse_statement(body, {}), parse_statement(f"query q() {{ {body} }}", {})

    assert isinstance(bare, Query)
    assert isinstance(whole, Query)
    assert bare.is_mutation
    assert whole.is_mutation


def test_a_line_with_a_backslash_is_a_command() -> None:
    assert parse_statement("\\diff main draft ", {}) == Command("diff", "main draft")
    assert parse_statement("\\q;", {}) == Command("q", "")


@pytest.mark.parametrize("word", ["help", "quit", "exit", "?"])
def test_a_word_that_leaves_or_helps_is_a_command_without_a_backslash(word: str) -> None:
    assert parse_statement(f" {word}; ", {}) == Command(word, "")
    assert split_statements(f"{word}\n{READ}") == [word, READ]
    assert split_statements(f"insert Person {{ name: {word} }}") != [word]


@pytest.mark.parametrize(
    ("body", "needed"),
    [
        ("match { $p: Person { name: $n } $p knows $q } return { $q.name } limit $k", ["k", "n"]),
        ("match { $p: Person $p knows{1,2} $q } return { $q.name }", []),
        ("match { $p: Person $p <knows> $q } return { $q.name }", []),
        ("match { $p: Person $p $e: knows $q $p.name contains $n } return { $e.since }", ["n"]),
        ("match { $p: Person { name: $n } $p.age in $ages } return { $p.name }", ["ages", "n"]),
        ("match { $p: Person $p.age > $a $p <knows>{1,20} $q } return { $q.name }", ["a"]),
        ("update Person set { age: $a } where name = $n", ["a", "n"]),
        ("query q($z: String) { match { $p: Person } return { $x } }", ["z"]),
    ],
)
def test_what_a_statement_needs_is_what_it_does_not_bind(body: str, needed: list[str]) -> None:
    assert find_used(body) == needed


@pytest.mark.parametrize(
    ("value", "type"),
    [
        ("a", "String"),
        (True, "Bool"),
        (3, "I64"),
        (0.5, "F64"),
        ([1, 2], "[I64]"),
        (date(2024, 1, 1), "Date"),
        (datetime(2024, 1, 1, tzinfo=UTC), "DateTime"),
        ([], None),
        (None, None),
        ({}, None),
    ],
)
def test_the_type_of_a_parameter_is_inferred_from_its_value(
    value: object, type: str | None
) -> None:
    assert find_type(value) == type
