"""Differences as lines of text."""

from omnigraph.cli.history_view import TypeCount, format_changes, summarize, view_counts
from omnigraph.cli.output import PLAIN, Terminal, measure
from omnigraph.engine.changes import Change, ChangeStats

ANN = {"id": "Ann", "name": "Ann", "age": 30, "city": None}
KNOWS = {"id": "k1", "src": "Ann", "dst": "Bob", "since": "2020-01-01"}


def inserted(id: str, /, **properties: object) -> Change:
    return Change("node", "Person", id, "insert", None, {"id": id, **properties})


def updated(before: dict[str, object], after: dict[str, object]) -> Change:
    return Change("node", "Person", "Ann", "update", {**ANN, **before}, {**ANN, **after})


def test_an_inserted_row_shows_its_values_without_nulls() -> None:
    change = Change("node", "Person", "Ann", "insert", None, ANN)

    assert list(format_changes([change], PLAIN)) == ['+ Person Ann {name: "Ann", age: 30}']


def test_a_deleted_row_shows_its_former_values() -> None:
    change = Change("node", "Person", "Ann", "delete", ANN, None)

    assert list(format_changes([change], PLAIN)) == ['- Person Ann {name: "Ann", age: 30}']


def test_an_update_shows_only_what_changed() -> None:
    change = updated({"age": 25, "city": None}, {"age": 26, "city": "Oslo"})

    assert list(format_changes([change], PLAIN)) == [
        '~ Person Ann  age: 25 → 26, city: null → "Oslo"'
    ]


def test_an_edge_shows_what_it_joins() -> None:
    change = Change("edge", "Knows", "k1", "insert", None, KNOWS)

    assert list(format_changes([change], PLAIN)) == ['+ Knows k1  Ann → Bob {since: "2020-01-01"}']


def test_types_are_set_apart_by_an_empty_line() -> None:
    changes = [inserted("a"), inserted("b"), Change("edge", "Knows", "k1", "delete", KNOWS, None)]

    lines = list(format_changes(changes, PLAIN))

    assert [line[:1] for line in lines] == ["+", "+", "", "-"]


def test_a_terminal_gets_colours_and_no_line_that_wraps() -> None:
    wide, narrow = Terminal(width=200, has_colours=True), Terminal(width=40, has_colours=False)
    change = inserted("Ann", bio="x" * 100)

    (painted,) = format_changes([change], wide)
    (shown,) = format_changes([change], narrow)

    assert painted.startswith("\x1b[32m+ Person Ann")
    assert painted.endswith("\x1b[0m")
    assert measure(shown) == 40
    assert shown.endswith("…")


def test_an_update_that_does_not_fit_shows_something_of_both_values() -> None:
    change = updated({"age": 1, "city": "a" * 90}, {"age": 2, "city": "b" * 90})

    lines = list(format_changes([change], Terminal(width=40, has_colours=False)))

    assert lines[:2] == ["~ Person Ann", "    age: 1 → 2"]
    assert '"aaaaa' in lines[2]
    assert '"bbbbb' in lines[2]
    assert measure(lines[2]) <= 40


def test_stored_control_characters_never_reach_a_terminal() -> None:
    change = inserted("a\x1b[2Jb", note="\x1b]0;title\x07 \x7f \x9b")

    (line,) = format_changes([change], PLAIN)

    assert line.isprintable()


def test_counts_line_up() -> None:
    counts = [TypeCount("node", "Person", 2, 0, 1_000), TypeCount("edge", "Knows", 0, 3, 0)]

    assert list(view_counts(counts, PLAIN)) == ["node Person  +2 -1,000", "edge Knows   ~3"]


def test_all_changes_are_one_sentence() -> None:
    assert summarize(ChangeStats(0, 0, 0, ())) == "no differences"
    assert summarize(ChangeStats(1, 2_000, 3, ("A", "B"))) == (
        "2 types changed: 1 inserted, 2,000 updated, 3 deleted"
    )
