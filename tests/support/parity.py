"""Twin graphs, one in its storage and one behind a server, and all command lines for them.

The twins are copies of one folder, so that what they hold is the same to the last id and time. Of
what a command prints, only the address and generated values (ids and times) may differ; those are
numbered in the order in which they appear. Commands that write have branches of their own, so that
any of them may run alone.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import omnigraph
from omnigraph import Graph
from tests.support.commands import Ended, invoke_command
from tests.support.graphs import SOCIAL, edge, ndjson, node, social_graph
from tests.support.servers import FIND_PERSON, running_server

# An id of ours, a time in microseconds, a time as text, a duration.
MADE = re.compile(
    r"\b(?:[0-9A-HJKMNP-TV-Z]{26}|\d{16}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?)\b"
)
WRITTEN = ("doomed", "mutated", "loaded", "reverted", "picked")
ALL = "query all() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
ADD = "query add($name: String) { insert Person { name: $name } }"
OLDER = 'query older() { update Person set { age: 99 } where name = "Bob" }'
EMPLOYED = '{"edge": "WorksAt", "from": "Bob", "to": "Acme"}\n'
GREETING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
MORE = SOCIAL.replace("age: I32?", "age: I32?  nick: String?")


@dataclass(frozen=True, slots=True)
class Line:
    """A command line of the matrix; what it must exit with, and what it reads."""

    command: str
    arguments: tuple[str, ...]
    code: int
    stdin: str

    def __str__(self) -> str:
        return " ".join((self.command, *self.arguments))[:70]


@dataclass(frozen=True, slots=True)
class Twins:
    """How to address the two graphs, what both began with, and the names of commits in it."""

    store: Path
    url: str
    beginning: str
    commit_by_name: dict[str, str]
    folder: Path

    def run(self, line: Line) -> tuple[Ended, Ended]:
        """What a command line does to either; placeholders replace addresses and new ids."""
        given = [self._fill(each) for each in line.arguments]
        words = line.command.split()
        stored = invoke_command(*words, *given, *self._stored(), stdin=line.stdin)
        served = invoke_command(*words, *given, *self._served(), stdin=line.stdin)
        return self._level(stored), self._level(served)

    def _stored(self) -> tuple[str, ...]:
        return ("--store", str(self.store), "--yes")

    def _served(self) -> tuple[str, ...]:
        return ("--server", self.url, "--graph", "default", "--yes")

    def _fill(self, argument: str) -> str:
        filled = argument.replace("FOLDER", str(self.folder))
        for name, commit in self.commit_by_name.items():
            filled = filled.replace(name, commit)
        return filled

    def _level(self, ended: Ended) -> Ended:
        return Ended(ended.code, self._number(ended.out), self._number(ended.err))

    def _number(self, text: str) -> str:
        """The text with one word for either address, and numbers for what was made since."""
        for said in (
            f"--store {self.store}",
            f"--server {self.url} --graph default",
            str(self.store),
            f"{self.url}/graphs/default",
        ):
            text = text.replace(said, "GRAPH")
        text = re.sub(r"\((?:direct, local|served)\)", "(ACCESS)", text)
        numbers: dict[str, str] = {}

        def name(found: re.Match[str]) -> str:
            known = found[0] in self.beginning
            return found[0] if known else numbers.setdefault(found[0], f"<{len(numbers) + 1}>")

        return MADE.sub(name, text)


@contextmanager
def twin_graphs(folder: Path) -> Iterator[Twins]:
    """Fixture F with a history and branches for every line, twice; the second is served."""
    with social_graph(folder / "graph") as graph:
        commits = _write_history(graph)
        beginning = "\n".join(graph.export()) + _report_commits(graph)
    shutil.copytree(folder / "graph", folder / "twin")
    omnigraph.relocate(folder / "twin")
    _write_files(folder)
    with running_server(folder, "--unauthenticated") as server:
        yield Twins(folder / "twin", server.url, beginning, commits, folder)


def _write_history(graph: Graph) -> dict[str, str]:
    """Branches for lines that write; the changes of two of them conflict."""
    start = graph.head()
    for branch in (*WRITTEN, "forward", "apart", "aside", "against"):
        graph.create_branch(branch)
    for branch in ("forward", "apart"):
        graph.mutate(ADD, {"name": branch}, branch=branch)
    changed = graph.mutate(OLDER, branch="reverted", actor="ann").commit_id
    assert changed is not None
    graph.mutate(OLDER, branch="aside")
    graph.mutate(OLDER.replace("99", "12"), branch="against")
    graph.mutate('query q() { update Person set { age: 11 } where name = "Bob" }')
    graph.load(ndjson(node("Person", name="Hal"), edge("Knows", "Hal", "Bob")), mode="append")
    graph.create_branch("merged", base="aside")
    merged = graph.merge("against", into="merged", resolve={("Person", "Bob"): "source"}).commit_id
    assert merged is not None
    undone = graph.revert(merged, branch="merged").commit_id
    assert undone is not None
    graph.tag("kept", start)
    graph.tag("spare", start)
    return {
        "START": start,
        "CHANGED": changed,
        "MERGED": merged,
        "UNDONE": undone,
        "HEAD": graph.head(),
    }


def _report_commits(graph: Graph) -> str:
    report = (
        f"{each.id} {each.created_at.isoformat()} {int(each.created_at.timestamp() * 1e6)}"
        for branch in graph.branches()
        for each in graph.commits(branch)
    )
    return "\n".join(report)


def _write_files(folder: Path) -> None:
    records = (node("Person", name="Ivy"), edge("Knows", "Ivy", "Bob", since="2020-01-01"))
    (folder / "rows.jsonl").write_text(ndjson(*records).getvalue(), encoding="utf-8")
    (folder / "queries.gq").write_text(FIND_PERSON, encoding="utf-8")
    (folder / "wrong.gq").write_text(ALL.replace("Person", "Persn"), encoding="utf-8")
    (folder / "more.pg").write_text(MORE, encoding="utf-8")
    (folder / "bad.pg").write_text(SOCIAL.replace("age: I32?", "age: String?"), encoding="utf-8")
    chosen = [{"type": "Person", "id": "Bob", "choice": "source"}]
    (folder / "decisions.yaml").write_text(json.dumps(chosen), encoding="utf-8")


def matrix() -> list[Line]:
    """Command lines for every command that works on graphs: what they do, and what they refuse."""
    return [*_reads(), *_histories(), *_writes(), *_refusals()]


def _line(command: str, *arguments: str, code: int = 0, stdin: str = "") -> Line:
    return Line(command, arguments, code, stdin)


def _reads() -> Iterator[Line]:
    queries = ("--query", "FOLDER/queries.gq")
    yield _line("query", "-e", ALL, "--json")
    yield _line("query", "get_person", *queries, "--params", '{"name": "Bob"}', "--json")
    yield _line("query", "-e", ALL, "--snapshot", "START", "--json")
    yield _line("query", "-e", ALL, "--snapshot", "kept", "--json")
    yield _line("query", "-e", ALL, "--branch", "aside", "--json")
    for format in ("table", "kv", "csv", "jsonl"):
        yield _line("query", "-e", ALL, "--format", format)
    yield _line("query", "-e", ALL, "--out", "-", "--format", "csv")
    yield _line("query", "--query", "-", "--json", stdin=ALL)
    yield _line("explain", "-e", ALL, "--json")
    yield _line("explain", "get_person", *queries, "--params", '{"name": "Bob"}')
    yield _line("entity", "Person", "Bob", "--json")
    yield _line("entity", "Person", "Bob", "--snapshot", "kept")
    yield _line("entity", "Person", "Bob", "--branch", "against", "--json")
    yield _line("export")
    yield _line("export", "--type", "Person", "--branch", "aside")
    yield _line("export", "--table", "edge:Knows", "--snapshot", "START")
    yield _line("shell", stdin=f"{ALL};\n\\branch aside\n{ALL};\n")
    yield _line("mcp", "--ad-hoc", stdin=f"{json.dumps(GREETING)}\n")


def _histories() -> Iterator[Line]:
    yield _line("snapshot", "--branch", "aside", "--json")
    yield _line("snapshot")
    yield _line("branch list", "--json")
    yield _line("branch list")
    yield _line("commit list", "--branch", "reverted", "--json")
    yield _line("commit list", "--branch", "reverted", "--filter", "actor=ann")
    yield _line("commit list", "--filter", "since=2020-01-01", "--limit", "2", "--json")
    for commit in ("CHANGED", "MERGED", "UNDONE", "kept"):
        yield _line("commit show", commit, "--json")
        yield _line("commit show", commit)
    yield _line("log", "--branch", "reverted", "--json")
    yield _line("log", "--branch", "merged")
    yield _line("log", "--branch", "merged", "--svg", "-")
    yield _line("log", "--branch", "merged", "--limit", "2", "--json")
    yield _line("diff", "kept", "HEAD", "--json")
    yield _line("diff", "kept", "HEAD")
    yield _line("diff", "START", "CHANGED", "--stat")
    yield _line("diff", "START", "CHANGED", "--stat", "--json")
    yield _line("diff", "aside", "against", "--type", "Person", "--op", "update", "--json")
    yield _line("changes", "--start", "after:START", "--branch", "merged")
    yield _line("changes", "--start", "beginning", "--limit", "2")
    yield _line("recoveries", "--json")
    yield _line("recoveries")
    yield _line("schema show", "--json")
    yield _line("schema get")
    yield _line("merge", "against", "--dry-run", code=1)
    yield _line("merge", "against", "--dry-run", "--json", code=1)
    yield _line("merge", "against", "--dry-run", "--write-decisions", "-", code=1)
    yield _line("branch merge", "forward", "--into", "picked", "--dry-run", "--json")


def _writes() -> Iterator[Line]:
    rows = ("--data", "FOLDER/rows.jsonl")
    named = ("--params", '{"name": "Eve"}')
    yield _line("mutate", "-e", ADD, *named, "--branch", "mutated", "--json")
    yield _line("mutate", "-e", ADD, *named, "--branch", "mutated")
    yield _line("load", *rows, "--mode", "merge", "--branch", "loaded", "--json")
    yield _line("load", *rows, "--mode", "merge", "--branch", "made", "--from", "main", "--json")
    yield _line("load", *rows, "--mode", "overwrite", "--branch", "loaded", code=1)
    yield _line("load", "--data", "-", "--mode", "overwrite", "--branch", "loaded", stdin=EMPLOYED)
    yield _line("ingest", *rows, "--branch", "ingested", "--json")
    yield _line("branch create", "fresh", "--json")
    yield _line("branch create", "fresher", "--from", "aside")
    yield _line("branch delete", "doomed", "--json")
    yield _line("branch merge", "forward", "--into", "apart", "--json")
    yield _line("merge", "aside", "--into", "main", "--resolve", "FOLDER/decisions.yaml", "--json")
    yield _line("revert", "CHANGED", "--branch", "reverted", "--json")
    yield _line("cherry-pick", "CHANGED", "--onto", "picked", "--json")
    yield _line("tag create", "new", "START", "--json")
    yield _line("tag create", "newest")
    yield _line("tag list", "--json")
    yield _line("tag delete", "spare", "--json")
    yield _line("schema apply", "--schema", "FOLDER/more.pg", "--json")


def _refusals() -> Iterator[Line]:
    wrong = ALL.replace("Person", "Persn")
    nothing = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    named = ("--params", '{"name": "Eve"}')
    yield _line("query", "-e", wrong, "--json", code=1)
    yield _line("query", "-e", ALL, "--branch", "nowhere", code=1)
    yield _line("query", "-e", ALL, "--snapshot", nothing, code=1)
    yield _line("query", "-e", ADD, *named, code=1)
    yield _line("query", "other", "-e", ALL, code=1)
    yield _line("query", "--query", "FOLDER/queries.gq", "--json", code=1)
    yield _line("query", "--query", "FOLDER/wrong.gq", code=1)
    yield _line("mutate", "-e", ALL, code=1)
    yield _line("mutate", "-e", ADD, "--params", '{"name": 7}', code=1)
    yield _line("mutate", "-e", ADD, *named, "--branch", "nowhere", code=1)
    yield _line("mutate", "-e", ADD, *named, "--if-commit", "START", code=4)
    yield _line("explain", "-e", wrong, code=1)
    yield _line("entity", "Person", "Absent", code=1)
    yield _line("entity", "Persn", "Bob", code=1)
    yield _line("export", "--type", "Persn", code=1)
    yield _line("snapshot", "--branch", "nowhere", code=1)
    yield _line("load", "--data", "FOLDER/rows.jsonl", "--mode", "append", "--branch", "no", code=1)
    yield _line("load", "--data", "-", "--mode", "append", code=1, stdin='{"type": "Persn"}\n')
    yield _line("load", "--data", "-", "--mode", "append", code=1, stdin="{")
    yield _line("branch create", "aside", code=1)
    yield _line("branch create", "bad name", code=1)
    yield _line("branch delete", "main", code=1)
    yield _line("branch delete", "nowhere", code=1)
    yield _line("branch merge", "main", "--into", "main", code=1)
    yield _line("merge", "nowhere", code=1)
    yield _line("merge", "against", "--json", code=1)
    yield _line("merge", "against", code=1)
    yield _line("commit show", nothing, code=1)
    yield _line("commit list", "--branch", "nowhere", code=1)
    yield _line("log", "--branch", "nowhere", code=1)
    yield _line("diff", "main", "nowhere", code=1)
    yield _line("changes", "--start", f"after:{nothing}", code=1)
    yield _line("revert", nothing, code=1)
    yield _line("revert", "CHANGED", "--branch", "aside", "--if-commit", "START", code=1)
    yield _line("cherry-pick", nothing, code=1)
    yield _line("tag create", "kept", "HEAD", code=1)
    yield _line("tag delete", "nowhere", code=1)
    yield _line("schema apply", "--schema", "FOLDER/bad.pg", code=1)
