"""`omnigraph embed`: vectors for a file of rows."""

import json
from pathlib import Path

import pytest

from tests.support.commands import Ended, invoke_command

SPEC = {"dimension": 4, "types": {"Decision": {"target": "vector", "fields": ["title"]}}}
ROWS = [
    {"type": "Decision", "data": {"slug": "a", "title": "First", "vector": [1, 0, 0, 0]}},
    {"type": "Decision", "data": {"slug": "b", "title": "Second"}},
    {"edge": "About", "from": "a", "to": "b"},
]
MOCK = {"OMNIGRAPH_EMBEDDINGS_MOCK": "1", "OMNIGRAPH_EMBED_MODEL": "m"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    return tmp_path


def embed(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> Ended:
    files = ("--input", folder / "rows.jsonl", "--output", folder / "out.jsonl")
    return invoke_command("embed", *files, "--spec", folder / "spec.json", *arguments, env=env)


def test_missing_vectors_are_filled_in(folder: Path) -> None:
    ended = embed(folder, "--json", env=MOCK)

    assert ended.fields == {
        "input": str(folder / "rows.jsonl"),
        "output": str(folder / "out.jsonl"),
        "rows": 3,
        "selected_rows": 2,
        "embedded_rows": 1,
        "cleaned_rows": 0,
        "mode": "fill_missing",
        "dimension": 4,
        "model": "m",
    }
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert rows[0] == ROWS[0]
    assert len(rows[1]["data"]["vector"]) == 4


def test_selected_rows_are_embedded_again(folder: Path) -> None:
    ended = embed(folder, "--select", "Decision:slug=b", "--json", env=MOCK)

    assert (ended.fields["mode"], ended.fields["embedded_rows"]) == ("reembed_selected", 1)


def test_cleaning_needs_no_provider(folder: Path) -> None:
    ended = embed(folder, "--clean", "--select", "slug=a", "--json")

    assert ended.code == 0
    assert (ended.fields["mode"], ended.fields["cleaned_rows"]) == ("clean", 1)
    assert ended.fields["model"] is None


def test_all_rows_may_be_embedded_again(folder: Path) -> None:
    ended = embed(folder, "--reembed-all", env=MOCK)

    assert ended.out.splitlines() == [
        "embedded 2 of 2 selected rows, 3 in all (reembed_all)",
        f"wrote {folder / 'out.jsonl'}",
    ]


def test_a_manifest_says_all(folder: Path) -> None:
    manifest = {"sources": {"raw_seed": "rows.jsonl"}, "embeddings": SPEC}
    (folder / "seed.yaml").write_text(json.dumps(manifest))

    ended = invoke_command("embed", "--seed", folder / "seed.yaml", env=MOCK)

    assert ended.code == 0
    assert (folder / "build" / "seed.embedded.jsonl").exists()


def test_rows_may_go_through_pipes(folder: Path) -> None:
    rows = (folder / "rows.jsonl").read_text()
    spec = ("--spec", folder / "spec.json")
    embed(folder, env=MOCK)

    ended = invoke_command("embed", "--input", "-", "--output", "-", *spec, stdin=rows, env=MOCK)

    assert ended.code == 0
    assert ended.out == (folder / "out.jsonl").read_text()
    assert ended.err == "embedded 1 of 2 selected rows, 3 in all (fill_missing)\n"


def test_a_row_of_a_pipe_that_is_none_is_named(folder: Path) -> None:
    files = ("--input", "-", "--output", "-", "--spec", folder / "spec.json")

    ended = invoke_command("embed", *files, stdin="{}\n[", env=MOCK)

    assert ended.code == 1
    assert "<stdin>, line 2" in ended.err


def test_rows_and_a_report_are_not_printed_together(folder: Path) -> None:
    files = ("--input", "-", "--output", "-", "--spec", folder / "spec.json")

    ended = invoke_command("embed", *files, "--json", env=MOCK)

    assert (ended.code, ended.out) == (2, "")


def test_without_a_provider_it_is_said_how_to_have_one(folder: Path) -> None:
    ended = embed(folder)

    assert ended.code == 1
    assert "OPENROUTER_API_KEY or OPENAI_API_KEY" in ended.err
    assert "OMNIGRAPH_EMBEDDINGS_MOCK=1" in ended.err
    assert not (folder / "out.jsonl").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--clean", "--reembed-all", "--seed", "x"),
        ("--seed", "x", "--input", "y"),
        ("--input", "x", "--output", "y"),
        (),
        ("--reembed_all",),
    ],
)
def test_flags_that_exclude_or_need_each_other_are_a_usage_error(
    arguments: tuple[str, ...],
) -> None:
    assert invoke_command("embed", *arguments, env=MOCK).code == 2


def test_a_graph_is_not_addressed(folder: Path) -> None:
    ended = embed(folder, "--server", "prod", env=MOCK)

    assert ended.code == 1
    assert "does not apply" in ended.err
