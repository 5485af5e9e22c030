"""Diagnostics as people see them, at every kind of place."""

from omnigraph.model.source import (
    Diagnostic,
    Severity,
    Source,
    Span,
    render_diagnostic,
    summarize_diagnostic,
)


def test_a_diagnostic_shows_the_line_with_a_caret_and_the_advice() -> None:
    source = Source("s.pg", "node A {\n  a: Strng\n}")

    rendered = render_diagnostic(_fault(Span(14, 19), "did you mean `String`?"), source)

    assert rendered == (
        "parse error: wrong [S1]\n"
        "   --> s.pg:2:6\n"
        "  2 |   a: Strng\n"
        "    |      ^^^^^ did you mean `String`?"
    )


def test_the_caret_is_aligned_after_tabs() -> None:
    rendered = render_diagnostic(_fault(Span(2, 3), None), Source("s", "\t\tx"))

    assert rendered.splitlines()[2:] == ["  1 | \t\tx", "    | \t\t^"]


def test_a_long_line_is_clipped_around_the_place() -> None:
    source = Source("s", f"{'a' * 1_000}here{'b' * 1_000}")

    line, marker = render_diagnostic(_fault(Span(1_000, 1_004), None), source).splitlines()[2:]

    assert len(line) < 250
    assert line[marker.index("^") :].startswith("here")
    assert marker.count("^") == 4


def test_a_place_at_the_end_of_the_text_has_a_caret() -> None:
    rendered = render_diagnostic(_fault(Span(3, 4), None), Source("s", "abc"))

    assert rendered.splitlines()[1:] == ["   --> s:1:4", "  1 | abc", "    |    ^"]


def test_a_place_in_an_empty_text_has_a_caret() -> None:
    rendered = render_diagnostic(_fault(Span(0, 0), None), Source("s", ""))

    assert rendered.splitlines()[1:] == ["   --> s:1:1", "  1 | ", "    | ^"]


def test_a_place_of_several_lines_is_marked_on_the_first() -> None:
    rendered = render_diagnostic(_fault(Span(2, 9), None), Source("s", "a bcd\nefg\n"))

    assert rendered.splitlines()[2:] == ["  1 | a bcd", "    |   ^^^"]


def test_windows_line_ends_are_not_shown() -> None:
    rendered = render_diagnostic(_fault(Span(3, 4), None), Source("s", "a\r\nb\r\n"))

    assert rendered.splitlines()[1:] == ["   --> s:2:1", "  2 | b", "    | ^"]


def test_a_diagnostic_without_a_place_is_its_summary_and_advice() -> None:
    rendered = render_diagnostic(_fault(None, "try again"), Source("s", "text"))

    assert rendered == "parse error: wrong [S1]\n  try again"


def test_a_summary_names_the_stage_that_objects() -> None:
    assert summarize_diagnostic(_fault(None, None)) == "parse error: wrong [S1]"
    assert summarize_diagnostic(_of("C2", Severity.ERROR)) == "catalog error: wrong [C2]"
    assert summarize_diagnostic(_of("T7", Severity.ERROR)) == "type error: wrong [T7]"
    assert summarize_diagnostic(_of("M1", Severity.ERROR)) == "migration error: wrong [M1]"
    assert summarize_diagnostic(_of("W1", Severity.WARNING)) == "warning: wrong [W1]"


def _fault(span: Span | None, advice: str | None) -> Diagnostic:
    return Diagnostic("S1", "wrong", Severity.ERROR, span, advice)


def _of(code: str, severity: Severity) -> Diagnostic:
    return Diagnostic(code, "wrong", severity, None, None)
