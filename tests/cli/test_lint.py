"""`omnigraph lint` against the schema of a graph, and its findings."""

from pathlib import Path

import pytest

from tests.support.commands import invoke_command
from tests.support.graphs import SOCIAL, social_graph

READ = "query ages() { match { $p: Person } return { $p.age } }\n"
RENAME = "query touch($n: String) { update Person set { age: 1 } where name = $n }\n"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    social_graph(tmp_path / "graph").close()
    return tmp_path / "graph"


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_queries_are_checked_against_the_schema_of_a_graph(store: Path, tmp_path: Path) -> None:
    path = write(tmp_path, "q.gq", READ)

    ended = invoke_command("lint", store, "--query", path, "--json")

    assert ended.code == 0
    assert ended.fields["schema_source"] == {"kind": "graph", "uri": str(store)}
    assert ended.fields["queries_processed"] == 1


def test_a_fault_is_found_there_too(store: Path, tmp_path: Path) -> None:
    path = write(tmp_path, "q.gq", READ.replace("age", "agee"))

    ended = invoke_command("lint", "--query", path, "--store", store, "--json")

    assert ended.code == 1
    assert ended.fields["status"] == "error"


def test_a_property_that_no_update_sets_is_reported(tmp_path: Path) -> None:
    schema = write(tmp_path, "s.pg", SOCIAL.replace("age: I32?", "age: I32?  nick: String?"))
    path = write(tmp_path, "q.gq", RENAME)

    ended = invoke_command("lint", "--schema", schema, "--query", path, "--json")

    assert ended.code == 0
    findings = ended.fields["findings"]
    assert isinstance(findings, list)
    assert [(each["code"], each["property"]) for each in findings] == [("L201", "nick")]


def test_a_file_that_does_not_parse_is_one_finding(tmp_path: Path) -> None:
    schema = write(tmp_path, "s.pg", SOCIAL)
    path = write(tmp_path, "q.gq", "query {")

    ended = invoke_command("lint", "--schema", schema, "--query", path, "--json")

    assert ended.code == 1
    assert ended.fields["queries_processed"] == 0
    findings = ended.fields["findings"]
    assert isinstance(findings, list)
    assert [each["code"] for each in findings] == ["Q000"]


def test_without_a_schema_or_a_graph_the_error_lists_the_options(tmp_path: Path) -> None:
    ended = invoke_command("lint", "--query", write(tmp_path, "q.gq", READ))

    assert ended.code == 1
    assert "--store" in ended.err
