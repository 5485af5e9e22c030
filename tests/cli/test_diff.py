"""`omnigraph diff` and `omnigraph changes`: what differs, for people and for scripts."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from omnigraph.model.limits import CHANGES_PER_PAGE_MAX
from tests.support.commands import Ended, command_environment, invoke_command
from tests.support.graphs import SOCIAL, build_graph, edge, ndjson, node, social_graph
from tests.support.later_graphs import clean_later


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Main with Ann, Bob and Cid; `feature` with a new age for Bob, a Dan, and no Cid."""
    root = tmp_path_factory.mktemp("diff") / "graph"
    people = [node("Person", name="Ann", age=30), node("Person", name="Bob", age=25)]
    cid = node("Person", name="Cid")
    with build_graph(root, SOCIAL, *people, cid, edge("Knows", "Ann", "Bob")) as graph:
        graph.tag("before", graph.head())
        graph.create_branch("feature")
        changed = [node("Person", name="Bob", age=26), node("Person", name="Dan")]
        graph.load(ndjson(*changed, edge("Knows", "Dan", "Ann")), mode="merge", branch="feature")
        graph.mutate('query q() { delete Person where name = "Cid" }', branch="feature")
    return root


def diff(store: Path, *arguments: str) -> Ended:
    return invoke_command("diff", *arguments, "--uri", store)


def test_a_difference_reads_from_the_old_to_the_new(store: Path) -> None:
    ended = diff(store, "main", "feature", "--type", "Person")

    assert ended.code == 0
    assert ended.out.splitlines() == [
        "~ Person Bob  age: 25 → 26",
        '- Person Cid {name: "Cid"}',
        '+ Person Dan {name: "Dan"}',
        "",
        "1 type changed: 1 inserted, 1 updated, 1 deleted",
    ]
    assert ended.err == ""


def test_a_tag_may_be_compared_and_types_are_set_apart(store: Path) -> None:
    ended = diff(store, "before", "feature", "--op", "insert")

    assert ended.err == ""
    person, blank, knows, *_ = ended.out.splitlines()
    assert person == '+ Person Dan {name: "Dan"}'
    assert blank == ""
    assert knows.startswith("+ Knows ")
    assert "  Dan → Ann {" in knows


def test_nothing_between_the_same_states(store: Path) -> None:
    assert diff(store, "main", "main").out == "no differences\n"


def test_changes_are_counted_by_type(store: Path) -> None:
    ended = diff(store, "main", "feature", "--stat")

    assert ended.out.splitlines() == [
        "node Person  +1 ~1 -1",
        "edge Knows   +1",
        "",
        "2 types changed: 2 inserted, 1 updated, 1 deleted",
    ]


def test_counts_as_json_name_each_type(store: Path) -> None:
    counted = diff(store, "main", "feature", "--stat", "--json").fields

    assert counted["types"] == [
        {"kind": "node", "type": "Person", "inserts": 1, "updates": 1, "deletes": 1},
        {"kind": "edge", "type": "Knows", "inserts": 1, "updates": 0, "deletes": 0},
    ]


def test_all_pages_are_one_json_body(store: Path) -> None:
    body = diff(store, "main", "feature", "--type", "Person", "--json").fields

    assert body["next_page_token"] is None
    assert body["stats"] == {
        "inserts": 1,
        "updates": 1,
        "deletes": 1,
        "types_affected": ["Person"],
    }
    changes = body["changes"]
    assert isinstance(changes, list)
    assert [(each["op"], each["id"]) for each in changes] == [
        ("update", "Bob"),
        ("delete", "Cid"),
        ("insert", "Dan"),
    ]


def test_the_body_of_many_pages_is_written_as_any_other(tmp_path: Path) -> None:
    count = CHANGES_PER_PAGE_MAX + 2
    with build_graph(tmp_path / "graph", SOCIAL) as graph:
        graph.create_branch("empty")
        people = [node("Person", name=f"p{number}\n{number}") for number in range(count)]
        graph.load(ndjson(*people), mode="append")

    for old, new in (("empty", "main"), ("main", "main")):
        ended = diff(tmp_path / "graph", old, new, "--json")

        changes = ended.fields["changes"]
        assert isinstance(changes, list)
        assert len(changes) == (count if old == "empty" else 0)
        assert ended.out == json.dumps(ended.body, indent=2, ensure_ascii=False) + "\n"
    text = diff(tmp_path / "graph", "empty", "main").out
    assert text.count("+ Person ") == count


def test_an_unknown_state_is_named(store: Path) -> None:
    ended = diff(store, "main", "nowhere")

    assert ended.code == 1
    assert "nowhere" in ended.err
    assert ended.out == ""


def test_an_unknown_sort_of_change_is_a_usage_error(store: Path) -> None:
    assert diff(store, "main", "feature", "--op", "vanish").code == 2


def test_each_commit_of_a_feed_is_a_line(store: Path) -> None:
    ended = invoke_command("changes", store, "--branch", "feature")

    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert [line["stats"]["deletes"] for line in lines][-1] == 1
    assert all(line["next_page_token"] is None for line in lines)
    assert [line["cursor"] for line in lines] == [
        f"after:{line['commit']['graph_commit_id']}" for line in lines
    ]


def test_a_feed_goes_on_where_its_cursor_says(store: Path) -> None:
    first, *rest = invoke_command("changes", store).out.splitlines()

    ended = invoke_command("changes", store, "--start", json.loads(first)["cursor"])

    assert ended.out.splitlines() == rest


def test_a_feed_stops_after_the_requested_number_of_commits(store: Path) -> None:
    everything = invoke_command("changes", store).out.splitlines()

    ended = invoke_command("changes", store, "--limit", "1", "--start", "beginning", "--follow")

    assert ended.code == 0
    assert ended.out.splitlines() == everything[:1]


def test_a_feed_is_followed_until_it_is_interrupted(tmp_path: Path) -> None:
    root = tmp_path / "graph"
    build_graph(root, SOCIAL).close()
    command = [sys.executable, "-m", "omnigraph", "changes", str(root), "--follow"]
    with subprocess.Popen(
        [*command, "--start", "beginning"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=command_environment(),
    ) as child:
        assert child.stdout is not None
        assert b'"cursor"' in child.stdout.readline()

        with omnigraph.open(root) as graph:
            graph.load(ndjson(node("Person", name="Zoe")), mode="append")
        line = json.loads(child.stdout.readline())
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)

    assert [each["id"] for each in line["changes"]] == ["Zoe"]
    assert (child.returncode, out, err) == (0, b"", b"")


def test_a_feed_that_comes_to_rows_that_were_cleaned_up_says_what_to_type(tmp_path: Path) -> None:
    root = tmp_path / "graph"
    with social_graph(root) as graph:
        first = graph.head()
        for name in ("p1", "p2", "p3"):
            graph.load(ndjson(node("Person", name=name)), mode="append")
        clean_later(graph)
        last = graph.head()

    ended = invoke_command("changes", root, "--start", f"after:{first}")

    assert ended.code == 1
    assert f"omnigraph changes --branch main --start after:{last} --store {root}" in ended.err


def test_from_now_on_there_is_nothing_yet(store: Path) -> None:
    ended = invoke_command("changes", store, "--start", "now")

    assert (ended.code, ended.out) == (0, "")
