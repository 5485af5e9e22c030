"""What the shell offers at the cursor, from nothing but the text before it."""

from __future__ import annotations

import pytest

from omnigraph.cli.shell.completion import CompletionNames, complete
from omnigraph.cli.shell.session import COMMANDS
from omnigraph.compiler.compile import compile_schema
from omnigraph.model.source import Source

SCHEMA = """
interface Named { name: String }
node Person implements Named { name: String @key  age: I32?  email: String? }
node Company implements Named { name: String @key  city: String? }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company { role: String? }
"""

VOCABULARY = CompletionNames(
    catalog=compile_schema(Source("<schema>", SCHEMA)),
    branches=("main", "draft"),
    tags=("v1",),
    parameters=("limit_name",),
    commands={name: each.arguments for name, each in COMMANDS.items()},
)


def offered(before: str) -> list[str]:
    """The words that are offered behind a text."""
    return [each.text for each in complete(before, VOCABULARY)]


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("", ["query", "match", "insert", "update", "delete"]),
        ("ma", ["match"]),
        ("match { $p: Pe", ["Person"]),
        ("match { $p: ", ["Company", "Person", "Named"]),
        ("match { $p: Person { a", ["age"]),
        ("match { $p: Person } return { $p.", ["age", "email", "name", "id"]),
        ("match { $p: Person  $p worksAt $c } return { $c.c", ["city"]),
        ("match { $p: Person  $p $w: worksAt $c } return { $w.r", ["role"]),
        ("match { $p: Person  $p k", ["knows"]),
        ("match { $c: Company  $c ", ["worksAt", "contains", "starts_with", "in", "is"]),
        ("match { $person: Person } return { $pe", ["$person"]),
        ("match { $p: Person { name: $l", ["$limit_name"]),
        ("insert Kn", ["Knows"]),
        ("insert Knows { f", ["from", "false"]),
        ('insert Person { name: "x", ag', ["age"]),
        ("update Person set { em", ["email"]),
        ("update Person set { age: 3 } where na", ["name"]),
        ("delete Company where c", ["city"]),
        ("query q($a: Str", ["String"]),
        ("query q() { mat", ["match"]),
        ("match { $p: Person } ret", ["return"]),
        ("match { $p: Person } return { $p.name } order { $p.name de", ["desc"]),
        ('match { $p: Person { name: "Per', []),
        ("// ma", []),
    ],
)
def test_words_fit_where_they_are_offered(before: str, words: list[str]) -> None:
    assert offered(before) == words


def test_properties_of_every_type_are_offered_for_a_variable_of_none() -> None:
    assert {"age", "city", "since", "role", "id"} <= set(offered("match { } return { $x."))


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("\\bra", ["\\branch", "\\branches"]),
        ("\\branch d", ["draft"]),
        ("\\at ", ["v1"]),
        ("\\diff main ", ["main", "draft", "v1"]),
        ("\\format js", ["jsonl", "json"]),
        ("\\schema Na", ["Named"]),
        ("\\nothing x", []),
    ],
)
def test_commands_and_their_arguments_are_offered(before: str, words: list[str]) -> None:
    assert offered(before) == words


def test_a_word_takes_the_place_of_what_was_typed_of_it() -> None:
    (suggestion,) = complete("match { $p: Person } return { $p.ag", VOCABULARY)

    assert (suggestion.text, suggestion.replaced) == ("age", 2)
    assert suggestion.meaning == "Person, I32?"
