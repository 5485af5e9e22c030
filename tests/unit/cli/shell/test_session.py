"""One declaration out of the text of a schema."""

from __future__ import annotations

import pytest

from omnigraph.cli.shell.session import find_type_text

SCHEMA = """
// Who there is.
node Person {
    name: String @key // edge Person
}
// Who knows whom.
edge Knows: Person -> Person
interface Named { name: String }
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Person", "node Person {\n    name: String @key // edge Person\n}"),
        ("Knows", "edge Knows: Person -> Person"),
        ("Named", "interface Named { name: String }"),
        ("name", None),
    ],
)
def test_one_declaration_is_found_as_it_was_written(name: str, text: str | None) -> None:
    assert find_type_text(SCHEMA, name) == text
