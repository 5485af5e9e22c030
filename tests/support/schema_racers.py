"""Processes that change a schema while others read, write and branch.

Two widen the schema, each by properties and types of its own; one renames a type back and forth;
others write, load, branch and read. Each records what was acknowledged. A process that loses a race
retries from the new state, as an application does; any other error ends it. Run as a program this
is one of them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TextIO

import omnigraph
from omnigraph import Graph
from omnigraph.errors import CompileError, MovedError, StillNeededError
from tests.support.graphs import build_graph, contents, ndjson, node
from tests.support.process_meetings import let_go, meet, require_all_ended, running
from tests.support.queries import query

SCHEMA = """node Person { name: String @key }
node Company { name: String @key }
node Note { title: String @key }
"""
TURNS_MAX = 1_000


class Role(StrEnum):
    """What a process does."""

    WIDEN = "widen"
    WIDEN_TOO = "widen_too"
    RENAME = "rename"
    INSERT = "insert"
    LOAD = "load"
    BRANCH = "branch"
    READ = "read"


def run_races(folder: Path, roles: Sequence[Role], *, rounds: int) -> list[tuple[str, str]]:
    """Let processes race on a new graph in `folder / "graph"`; what was acknowledged to whom."""
    root, home = folder / "graph", folder / "said"
    home.mkdir()
    build_graph(root, SCHEMA, node("Person", name="p"), node("Note", title="n")).close()
    calls = [(root, home / f"{role}.log", role, rounds) for role in roles]
    with running("tests.support.schema_racers", calls, home=home) as children:
        let_go(home, "start", children=children)
        require_all_ended(children, home=home)
    lines = [line for path in sorted(home.glob("*.log")) for line in path.read_text().splitlines()]
    return [(str(kind), str(name)) for kind, name in map(json.loads, lines)]


def main() -> None:
    """Be one process."""
    root, log, role, rounds = sys.argv[1:]
    with omnigraph.open(root, durability="relaxed") as graph, Path(log).open("w") as written:
        meet(Path(log).parent, role, "start")
        for round in range(int(rounds)):
            take_part(graph, Role(role), round, written)


def take_part(graph: Graph, role: Role, round: int, written: TextIO) -> None:
    """What a process does in one round."""
    name = f"{role}{round}"
    match role:
        case Role.WIDEN | Role.WIDEN_TOO:
            insist(lambda: graph.apply_schema(widen(graph.schema_source, name)))
            log_done(written, "property", name)
        case Role.RENAME:
            # A branch, or the transaction of another process, may prevent it.
            with suppress(StillNeededError):
                insist(lambda: graph.apply_schema(rename(graph.schema_source)))
                log_done(written, "renamed", name)
        case Role.INSERT:
            insist(lambda: graph.mutate(query(f'insert Person {{ name: "{name}" }}')))
            log_done(written, "Person", name)
            write_note(graph, name, written)
        case Role.LOAD:
            insist(lambda: load_company(graph, name))
            log_done(written, "Company", name)
        case Role.BRANCH:
            branch_and_merge(graph, name)
            log_done(written, "Person", name)
        case Role.READ:
            require_full_view(graph)


def widen(source: str, name: str) -> str:
    """A schema with a property of companies and a type more."""
    with_property = source.replace("node Company {", f"node Company {{ {name}: String? ", 1)
    return f"{with_property}node Type_{name} {{ key: String @key }}\n"


def rename(source: str) -> str:
    """A schema in which notes are called memos, or the other way round."""
    old, new = ("Note", "Memo") if "node Note" in source else ("Memo", "Note")
    return re.sub(rf"node {old}[^{{]*", f'node {new} @rename_from("{old}") ', source)


def write_note(graph: Graph, name: str, written: TextIO) -> None:
    """Add a note by the name that notes have, unless they have just got another."""
    type_name = "Note" if "node Note" in graph.schema_source else "Memo"
    text = query(f'insert {type_name} {{ title: "{name}" }}')
    try:
        insist(lambda: graph.mutate(text))
    except CompileError:
        return
    log_done(written, "note", name)


def load_company(graph: Graph, name: str) -> None:
    """Load a company with a value of every property that there is."""
    properties = re.findall(r"(widen\w*): String\?", graph.schema_source)
    row = node("Company", name=name, **dict.fromkeys(properties, name))
    graph.load(ndjson(row), mode="append")


def branch_and_merge(graph: Graph, name: str) -> None:
    """Write on a branch and merge it."""
    insist(lambda: graph.create_branch(name))
    insist(lambda: graph.mutate(query(f'insert Person {{ name: "{name}" }}'), branch=name))
    insist(lambda: graph.merge(name))
    insist(lambda: graph.delete_branch(name))


def require_full_view(graph: Graph) -> None:
    """Fail unless a reader finds a graph that its schema describes, now and in the past."""
    assert "p" in contents(graph)["Person"]
    for commit in graph.commits()[-3:]:
        assert list(graph.export(commit=commit.id)) is not None


def insist(attempt: Callable[[], object]) -> None:
    """Try as an application does that may be overtaken."""
    for _ in range(TURNS_MAX):
        with suppress(MovedError):
            attempt()
            return
    raise AssertionError("starved")


def log_done(written: TextIO, kind: str, name: str) -> None:
    """Write down what was acknowledged."""
    written.write(f"{json.dumps([kind, name])}\n")
    written.flush()


if __name__ == "__main__":
    main()
