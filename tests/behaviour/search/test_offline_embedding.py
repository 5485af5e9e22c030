"""Embedding the rows of a file without a graph."""

import json
from pathlib import Path

import pytest

from omnigraph.embed.files import (
    EmbeddedType,
    EmbedSpec,
    Job,
    Mode,
    Report,
    Selector,
    embed_rows,
    new_rows,
    open_rows,
    parse_selector,
    read_manifest,
    read_spec,
)
from omnigraph.embed.providers import MockEmbedder
from omnigraph.model.errors import InvalidValueError, NotFoundError, UnavailableError

DECISION = EmbeddedType("vector", ("title", "tags"))
SPEC = EmbedSpec(4, {"Decision": DECISION})
EMBEDDER = MockEmbedder("m")
ROWS = [
    {"type": "Decision", "data": {"slug": "a", "title": "First", "vector": [9.0]}},
    {"type": "Decision", "data": {"slug": "b", "title": "Second", "tags": ["x", "y"]}},
    {"type": "Person", "data": {"slug": "b"}},
    {"edge": "About", "from": "a", "to": "b"},
]


def make_job(folder: Path, mode: Mode, *selectors: Selector, types: tuple[str, ...] = ()) -> Job:
    source = source_in(folder)
    source.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return Job(str(source), SPEC, mode, frozenset(types), selectors)


def source_in(folder: Path) -> Path:
    return folder / "rows.jsonl"


def output_in(folder: Path) -> Path:
    return folder / "out" / "rows.jsonl"


def embed_files(
    job: Job, folder: Path, *, output: Path | None = None, embedder: MockEmbedder | None = EMBEDDER
) -> Report:
    with open_rows(source_in(folder)) as rows, new_rows(output or output_in(folder)) as write:
        return embed_rows(job, rows, write, embedder=embedder, progress=lambda *_: None)


def run(job: Job, folder: Path) -> tuple[Report, list[dict[str, dict[str, object]]]]:
    report = embed_files(job, folder)
    return report, [json.loads(line) for line in output_in(folder).read_text().splitlines()]


def test_only_rows_without_a_vector_get_one(tmp_path: Path) -> None:
    report, rows = run(make_job(tmp_path, Mode.FILL_MISSING), tmp_path)

    expected = EMBEDDER.embed("type: Decision\ntitle: Second\ntags: x, y", 4)
    assert rows[0] == ROWS[0]
    assert rows[1]["data"]["vector"] == pytest.approx(expected)
    assert report == Report(rows=4, selected_rows=2, embedded_rows=1, cleaned_rows=0)


def test_a_vector_is_missing_when_it_is_null_or_empty(tmp_path: Path) -> None:
    job = make_job(tmp_path, Mode.FILL_MISSING)
    source_in(tmp_path).write_text(
        '{"type": "Decision", "data": {"vector": null}}\n'
        '{"type": "Decision", "data": {"vector": []}}\n'
    )

    report, _ = run(job, tmp_path)

    assert report.embedded_rows == 2


def test_all_vectors_are_recomputed_with_a_flag(tmp_path: Path) -> None:
    report, rows = run(make_job(tmp_path, Mode.REEMBED_ALL), tmp_path)

    assert report.embedded_rows == 2
    assert rows[0]["data"]["vector"] != [9.0]


def test_a_selector_picks_rows_of_one_type(tmp_path: Path) -> None:
    selector = parse_selector("Decision:slug=a")

    report, rows = run(make_job(tmp_path, Mode.REEMBED_SELECTED, selector), tmp_path)

    assert report == Report(rows=4, selected_rows=1, embedded_rows=1, cleaned_rows=0)
    assert "vector" not in rows[1]["data"]


def test_of_several_selectors_one_is_enough(tmp_path: Path) -> None:
    selectors = (parse_selector("slug=a"), parse_selector("title=Second"))

    report, _ = run(make_job(tmp_path, Mode.REEMBED_SELECTED, *selectors), tmp_path)

    assert report.embedded_rows == 2


def test_cleaning_removes_vectors_without_a_provider(tmp_path: Path) -> None:
    job = make_job(tmp_path, Mode.CLEAN)

    report = embed_files(job, tmp_path, embedder=None)

    first, *others = output_in(tmp_path).read_text().splitlines()
    assert json.loads(first) == {"type": "Decision", "data": {"slug": "a", "title": "First"}}
    assert [json.loads(line) for line in others] == ROWS[1:]
    assert report == Report(rows=4, selected_rows=2, embedded_rows=0, cleaned_rows=1)


def test_unselected_rows_keep_every_byte(tmp_path: Path) -> None:
    job = make_job(tmp_path, Mode.REEMBED_ALL)
    odd = '{ "type":"Person","data":{"n":1.50} }\n\n{"edge" : "E"}'
    source_in(tmp_path).write_text(odd)

    report = embed_files(job, tmp_path)

    assert output_in(tmp_path).read_text() == odd
    assert report.rows == 2


def test_a_file_may_be_embedded_in_place(tmp_path: Path) -> None:
    job = make_job(tmp_path, Mode.REEMBED_ALL)

    report = embed_files(job, tmp_path, output=source_in(tmp_path))

    assert report.rows == len(source_in(tmp_path).read_text().splitlines()) == 4


def test_an_error_leaves_the_output_unchanged_and_names_its_line(tmp_path: Path) -> None:
    job = make_job(tmp_path, Mode.REEMBED_ALL)
    output_in(tmp_path).parent.mkdir()
    output_in(tmp_path).write_text("before")
    source_in(tmp_path).write_text('{"type":"Person","data":{}}\n{oops\n')

    with pytest.raises(InvalidValueError, match=r"line 2: not valid JSON"):
        embed_files(job, tmp_path)

    assert output_in(tmp_path).read_text() == "before"
    assert [path.name for path in output_in(tmp_path).parent.iterdir()] == ["rows.jsonl"]


def test_selecting_a_type_without_embeddings_is_refused(tmp_path: Path) -> None:
    job = make_job(tmp_path, Mode.REEMBED_ALL, types=("Person",))

    with pytest.raises(NotFoundError, match="embedded types: Decision"):
        embed_files(job, tmp_path)


def test_an_output_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    job = make_job(tmp_path, Mode.REEMBED_ALL)
    output_in(tmp_path).mkdir(parents=True)

    with pytest.raises(UnavailableError, match=r"cannot write '.*rows\.jsonl'"):
        embed_files(job, tmp_path)

    assert [path.name for path in output_in(tmp_path).parent.iterdir()] == ["rows.jsonl"]


def test_an_input_that_is_not_there_is_named(tmp_path: Path) -> None:
    job = make_job(tmp_path, Mode.REEMBED_ALL)
    source_in(tmp_path).unlink()

    with pytest.raises(NotFoundError, match=r"rows\.jsonl"):
        embed_files(job, tmp_path)


def test_paths_of_a_manifest_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "seed.yaml").write_text(
        "sources: {raw_seed: rows.jsonl}\n"
        "embeddings: {dimension: 4, types: {Decision: {target: vector, fields: [title, tags]}}}\n"
    )

    manifest = read_manifest(tmp_path / "seed.yaml")

    assert manifest.source == tmp_path / "rows.jsonl"
    assert manifest.output == tmp_path / "build" / "seed.embedded.jsonl"
    assert manifest.spec == SPEC


def test_an_old_manifest_is_read(tmp_path: Path) -> None:
    (tmp_path / "seed.yaml").write_text(
        "seed: {data: old.jsonl}\nartifacts: {embedded_seed: new.jsonl}\n"
        "embeddings: {dimension: 4, types: {Decision: {target: vector, fields: [title, tags]}}}\n"
    )

    manifest = read_manifest(tmp_path / "seed.yaml")

    assert (manifest.source.name, manifest.output.name) == ("old.jsonl", "new.jsonl")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "not valid JSON"),
        ("[]", "`dimension`"),
        ('{"dimension": true}', "`dimension`"),
        ('{"dimension": 4}', "`types`"),
        ('{"dimension": 4, "types": {"T": {"fields": ["a"]}}}', "T: `target`"),
        ('{"dimension": 4, "types": {"T": {"target": "v", "fields": []}}}', "T: `fields`"),
    ],
)
def test_a_wrong_specification_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "spec.json").write_text(content)

    with pytest.raises(InvalidValueError, match=problem):
        read_spec(tmp_path / "spec.json")
