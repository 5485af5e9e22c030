"""The part of the demo that runs on Spark: bulk loads, rejected rows, queries and algorithms."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pyarrow.compute as pc

import omnigraph
import omnigraph.spark
from demo.output import say, title
from omnigraph.drawing.progress_bar import show_progress
from omnigraph.errors import IntegrityError

PERSONS = 10_000
POSTS = 20_000
FOLLOWS = 220_000
FILES = 4

Record = dict[str, object]

SCHEMA = """
node Person { name: String @key  email: String  age: I32?  @unique(email)  @range(age, 0..150) }
node Post   { slug: String @key  text: String }
edge Follows: Person -> Person
edge Wrote: Person -> Post
"""
MOST_FOLLOWED = """
query most_followed() {
  match { $p: Person  $q follows $p }
  return { $p.name as person, count($q) as followers }
  order { followers desc }
  limit 3
}
"""


def show_bulk() -> None:
    """Run every section that needs Spark, in a temporary directory and one Spark session."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        graph = omnigraph.init(root / "network", SCHEMA)
        title("23. Bulk load: a social network from files, through Spark, as one commit")
        write_network(root / "files")
        started = perf_counter()
        say("Starting a local Spark session, which takes a few seconds …")
        with omnigraph.spark.session():
            say(f"Spark started in {perf_counter() - started:.1f} s.")
            show_load(graph, root / "files")
            write_mistakes(root / "more.ndjson")
            show_refusal(graph, root / "more.ndjson")
            show_quarantine(graph, root / "more.ndjson")
            show_queries(graph)
            show_algorithms(graph)


def show_load(graph: omnigraph.Graph, files: Path) -> None:
    size = sum(path.stat().st_size for path in files.iterdir())
    say(f"{len(list(files.iterdir()))} files, {size / 2**20:.0f} MiB of NDJSON, with all checks:")
    started = perf_counter()
    with show_progress() as bar:
        done = graph.load(files, mode="append", engine="spark", actor="importer", progress=bar)
    seconds = perf_counter() - started
    rows = sum(done.nodes_loaded.values()) + sum(done.edges_loaded.values())
    say(f"{done.nodes_loaded} nodes, {done.edges_loaded} edges: commit {done.commit_id}")
    say(f"{rows:,} rows in {seconds:.1f} s on '{done.engine}', including Java's warm-up.")
    assert rows == PERSONS + 2 * POSTS + FOLLOWS
    assert [commit.actor for commit in graph.commits()][1:] == ["importer"]
    for row in graph.query(MOST_FOLLOWED):
        say(f"{row['person']} has {row['followers']} followers")


def show_refusal(graph: omnigraph.Graph, file: Path) -> None:
    title("24. A bulk load that violates constraints changes nothing and reports each violation")
    head = graph.head()
    report = None
    try:
        graph.load(file, mode="append", engine="spark")
    except IntegrityError as error:
        report = error.report
    assert report is not None
    for line in str(report).splitlines():
        say(line.replace(f"{file.parent}/", ""))
    assert [each.rule for each in report.rules] == ["endpoint", "range", "unique"]
    assert graph.head() == head
    say("The graph has not changed.")


def show_quarantine(graph: omnigraph.Graph, file: Path) -> None:
    title("25. Quarantine: invalid rows are set aside, and the other rows are one commit")
    done = graph.load(file, mode="append", engine="spark", on_error="quarantine")
    say(f"{done.nodes_loaded} nodes, {done.edges_loaded} edges; {done.rejected} rows rejected:")
    assert done.report.location is not None
    for row in Path(done.report.location, "rejected.ndjson").read_text().splitlines():
        say(row)
    say("The last row is valid by itself, but its source is a rejected person.")
    say("The same folder has the reasons; corrected rows can be loaded like any other file.")
    assert (done.nodes_loaded, done.rejected) == ({"Person": 98}, 4)


def show_queries(graph: omnigraph.Graph) -> None:
    title("26. The same query in process and on Spark, with the same result")
    in_process, on_spark = (
        graph.query(MOST_FOLLOWED, engine=engine) for engine in ("local", "spark")
    )
    assert on_spark.rows == in_process.rows
    for row in on_spark:
        say(f"{row['person']} has {row['followers']} followers, computed on Spark")
    steps, _, plan = graph.explain(MOST_FOLLOWED, engine="spark").partition("\n\n")
    say(f"The query plan has {len(steps.splitlines())} lines, Spark's plan {plan.count(chr(10))}.")


def show_algorithms(graph: omnigraph.Graph) -> None:
    title("27. Graph algorithms, in memory or on Spark")
    on_spark = graph.algorithms("Follows", engine="spark")
    components = pc.count_distinct(on_spark.connected_components().to_arrow()["component"])
    say(f"The Follows edges form {components.as_py():,} connected components.")
    ranks = on_spark.pagerank().to_arrow()
    for row in ranks.sort_by([("rank", "descending")]).slice(0, 3).to_pylist():
        say(f"{row['id']} has rank {row['rank']:.5f}")
    in_memory = graph.algorithms("Follows").pagerank().to_arrow()
    assert np.allclose(ranks["rank"], in_memory["rank"], rtol=0, atol=1e-9)


def write_network(folder: Path) -> None:
    """Write persons, posts and follows, each to several files."""
    folder.mkdir()
    random = Random(7)
    for name, records in (
        ("persons", (_person(number, age=random.randrange(100)) for number in range(PERSONS))),
        ("posts", _posts(random)),
        ("follows", _follows(random)),
    ):
        lines = [json.dumps(record) for record in records]
        for number in range(FILES):
            _write(folder / f"{name}-{number}.ndjson", lines[number::FILES])


def write_mistakes(file: Path) -> None:
    """Write more persons, two of them invalid, and two invalid edges."""
    first, old, twin = PERSONS, PERSONS + 98, PERSONS + 99
    records = [_person(first + number, age=30) for number in range(98)]
    records.insert(16, _person(old, age=230))
    records.insert(41, _person(twin, age=30, email="p3@example.org"))
    records.append(_edge("Follows", "p7", "missing"))
    records.append(_edge("Follows", f"p{old}", "p7"))
    _write(file, map(json.dumps, records))


def _person(number: int, *, age: int, email: str | None = None) -> Record:
    name = f"p{number}"
    known = {"name": name, "email": email or f"{name}@example.org", "age": age}
    return {"type": "Person", "data": known}


def _posts(random: Random) -> Iterator[Record]:
    for number in range(POSTS):
        slug = f"post-{number}"
        yield {"type": "Post", "data": {"slug": slug, "text": f"Notes of day {number}"}}
        yield _edge("Wrote", f"p{random.randrange(PERSONS)}", slug)


def _follows(random: Random) -> Iterator[Record]:
    for _ in range(FOLLOWS):
        # Squaring favours low numbers, so the first persons have the most followers.
        followed = int(PERSONS * random.random() ** 2)
        yield _edge("Follows", f"p{random.randrange(PERSONS)}", f"p{followed}")


def _edge(type: str, source: str, target: str) -> Record:
    return {"edge": type, "from": source, "to": target}


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
