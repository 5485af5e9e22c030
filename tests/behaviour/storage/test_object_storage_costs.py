"""A graph in S3 makes the requests that the guide states."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import omnigraph
from omnigraph import Graph
from tests.support.s3_server import S3Server, serve_s3
from tests.support.source_tree import read_document

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
ADD = "query add($name: String) { insert Person { name: $name, age: 1 } }"
FIND = 'query find() { match { $p: Person { name: "Ann" } } return { $p.age as age } }'
ROW = re.compile(r"^\| ([^|]+) \| (\d+) \| (\d+) \|$", re.MULTILINE)
WRITES = frozenset({"PUT", "POST", "DELETE"})


def test_calls_on_s3_take_no_more_requests_than_the_guide_says(tmp_path: Path) -> None:
    said = {
        name: (int(requests), int(writes))
        for name, requests, writes in ROW.findall(read_document("docs/guide/object-storage.md"))
    }

    with serve_s3() as server:
        found = _measure(server, tmp_path)

    assert said.keys() == found.keys()
    too_many = {name: each for name, each in found.items() if _exceeds(each, said[name])}
    # A number far above the real one would not help a reader.
    too_few = {name: each for name, each in found.items() if 2 * (each[0] + 2) < said[name][0]}
    assert (too_many, too_few) == ({}, {})


def _measure(server: S3Server, folder: Path) -> dict[str, tuple[int, int]]:
    uri, options = f"s3://{server.create_bucket()}/team", server.lance_options()
    people = folder / "people.jsonl"
    people.write_text('{"type": "Person", "data": {"name": "Ann", "age": 35}}\n')
    opened: list[Graph] = []

    def cost(call: Callable[[], object]) -> tuple[int, int]:
        with server.recording() as requests:
            call()
        return len(requests), sum(each.method in WRITES for each in requests)

    def add(name: str, branch: str) -> None:
        opened[0].mutate(ADD, params={"name": name}, branch=branch)

    found = {
        "`init`": cost(lambda: omnigraph.init(uri, schema=SCHEMA, storage_options=options).close()),
        "`open`": cost(lambda: opened.append(omnigraph.open(uri, storage_options=options))),
    }
    graph = opened[0]
    loaded = cost(lambda: graph.load(people, mode="append"))
    mutated = cost(lambda: add("Bob", "main"))
    found["a load or a mutation of one type"] = max(loaded, mutated)
    found["a query after a write by another process"] = cost(lambda: graph.query(FIND))
    found["a query when nothing changed"] = cost(lambda: graph.query(FIND))
    found["`create_branch`"] = cost(lambda: graph.create_branch("side"))
    add("Cyd", "side")
    found["a merge of one type"] = cost(lambda: graph.merge("side"))
    graph.close()
    return found


def _exceeds(found: tuple[int, int], said: tuple[int, int]) -> bool:
    return found[0] > said[0] or found[1] > said[1]
