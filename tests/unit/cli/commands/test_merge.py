"""Conflicts as blocks of text, and decisions as people write them."""

import pytest
import yaml

from omnigraph.cli.commands.merge import (
    format_conflicts,
    has_versions,
    parse_decisions,
    show_decision,
    write_decisions,
)
from omnigraph.cli.output import PLAIN, Terminal, measure
from omnigraph.model.errors import Conflict, InvalidValueError

BASE = {"id": "Ann", "name": "Ann", "age": 30, "city": "Oslo"}
BOTH_CHANGED = Conflict(
    "Person",
    "Ann",
    "divergent_update",
    "both sides changed Person Ann",
    BASE,
    {**BASE, "age": 31},
    {**BASE, "age": 32, "city": "Bergen"},
)
DELETED = Conflict(
    "Person", "Ann", "delete_vs_update", "deleted and changed", BASE, None, {**BASE, "age": 31}
)
UNSEEN = Conflict("Person", "Ann", "divergent_update", "both changed it", None, None, None)


def test_a_block_shows_what_differs_side_by_side() -> None:
    assert list(format_conflicts([BOTH_CHANGED], PLAIN)) == [
        "conflict 1 of 1: Person Ann (divergent_update)",
        "  both sides changed Person Ann",
        "          base    source  target",
        "    age   30      31      32",
        '    city  "Oslo"  "Oslo"  "Bergen"',
        "",
    ]


def test_a_side_that_deleted_the_row_says_so() -> None:
    lines = list(format_conflicts([DELETED], PLAIN))

    assert lines[2:4] == [
        "         base  source (deleted)  target",
        "    age  30                      31",
    ]


def test_a_conflict_without_row_versions_shows_its_message() -> None:
    assert list(format_conflicts([UNSEEN], PLAIN)) == [
        "conflict 1 of 1: Person Ann (divergent_update)",
        "  both changed it",
        "",
    ]
    assert not has_versions([UNSEEN])
    assert has_versions([UNSEEN, DELETED])


def test_a_narrow_terminal_shows_something_of_every_side() -> None:
    long = [{**BASE, "city": letter * 200} for letter in "abc"]
    conflict = Conflict("Person", "Ann", "divergent_update", "m", *long)

    lines = list(format_conflicts([conflict], Terminal(width=60, has_colours=False)))

    assert all(measure(line) <= 60 for line in lines)
    assert all(f'"{letter * 5}' in lines[3] for letter in "abc")


def test_a_written_file_of_decisions_is_refused_until_it_is_filled_in() -> None:
    text = write_decisions([BOTH_CHANGED, DELETED], source="feature", target="main")

    with pytest.raises(InvalidValueError, match="Person 'Ann' is undecided"):
        parse_decisions(text, name="decisions.yaml")
    assert [entry["id"] for entry in yaml.safe_load(text)] == ["Ann", "Ann"]
    assert "#     age   30      31      32" in text


def test_a_filled_in_file_of_decisions_is_read() -> None:
    text = write_decisions([BOTH_CHANGED], source="feature", target="main")

    decided = parse_decisions(text.replace("choice:", "choice: source"), name="d.yaml")

    assert decided == {("Person", "Ann"): "source"}


def test_too_many_edges_are_decided_about_one_by_one() -> None:
    conflict = Conflict(
        "Leads", "a", "cardinality_violation", "a leads 2; resolve its edges e1, e2",
        None, None, None,
    )  # fmt: skip

    text = write_decisions([conflict, BOTH_CHANGED], source="feature", target="main")

    assert "resolve its edges e1, e2" in text
    assert "# - type: Leads\n#   id: the id of an edge\n#   choice:\n" in text
    assert [entry["id"] for entry in yaml.safe_load(text)] == ["Ann"]
    assert show_decision(conflict)[1] == "  id: the id of an edge"


@pytest.mark.parametrize("id", ["42", "true", "a: b", "- x", "", "#", "2024-01-01", "é\n'\""])
def test_any_id_comes_back_from_a_file_of_decisions(id: str) -> None:
    conflict = Conflict("Person", id, "divergent_update", "m", None, None, None)

    text = "\n".join(show_decision(conflict))

    assert parse_decisions(text, name="d.yaml") == {("Person", id): "source"}


def test_a_row_may_be_given_and_its_dates_stay_texts() -> None:
    text = "- {type: Person, id: Ann, row: {name: Ann, born: 2024-01-01}}"

    assert parse_decisions(text, name="d.yaml") == {
        ("Person", "Ann"): {"name": "Ann", "born": "2024-01-01"}
    }


def test_json_is_read_too() -> None:
    text = '[{"type": "Person", "id": "Ann", "choice": "target"}]'

    assert parse_decisions(text, name="d.json") == {("Person", "Ann"): "target"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a list"),
        ("a: [", "not valid YAML or JSON"),
        ("- Ann", "`type` and an `id`"),
        ("- {type: Person, id: 4, choice: source}", "both as text"),
        ("- {type: Person, id: a, choice: ours}", "`choice: source`"),
        ("- {type: Person, id: a, choice: source, row: {}}", "or a row"),
        ("- {type: Person, id: a, choose: source}", "`choose`"),
        ("- &a {type: P, id: a, choice: source}\n- *a", "two decisions"),
    ],
)
def test_an_invalid_decision_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(InvalidValueError, match=problem):
        parse_decisions(text, name="d.yaml")
