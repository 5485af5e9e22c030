"""A read sees one commit: never a mixture, whatever is written while it runs."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.storage.ports import Stores
from tests.support.crashing import CrashingTables, Fault, Scope, When
from tests.support.graphs import build_graph, edge, ndjson, node
from tests.support.processes import output_of
from tests.support.queries import query

# The sum of a customer and its vault is constant, and every customer has one vault.
SCHEMA = """
node Customer { name: String @key  balance: I64  note: String? }
node Vault { name: String @key  balance: I64 }
edge Owns: Customer -> Vault @card(0..1)
"""

CUSTOMERS = 6
READERS = 3
ROUNDS = 12
ROUNDS_MAX = 1_000
WRITES_MAX = 20_000

READS = {
    "pairs": query(
        "match { $c: Customer $c owns $v } return { $c.name, $c.balance, $v.name, $v.balance }"
    ),
    "sums": query(
        "match { $c: Customer $c owns $v } "
        "return { sum($c.balance) as had, sum($v.balance) as lacked, count(*) as pairs }"
    ),
    "customers": query("match { $c: Customer } return { $c.name, $c.balance }"),
    "poor": query("match { $c: Customer not { $c owns $_ } } return { $c.name }"),
    "free": query("match { $v: Vault not { $_ owns $v } } return { $v.name }"),
    "noted": query('match { $c: Customer search($c.note, "moved") } return { $c.name }'),
}

MOVE = query(
    'update Customer set { balance: $has, note: "moved" } where name = $name '
    "update Vault set { balance: $lacks } where name = $name",
    parameters="$name: String, $has: I64, $lacks: I64",
)
LEAVE = query(
    "delete Customer where name = $name delete Vault where name = $name",
    parameters="$name: String",
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one read returned, and the commit that it says it is of."""

    read: str
    commit_id: str
    rows: Sequence[Mapping[str, object]]


def bank(path: Path) -> Graph:
    """Some customers, each with a vault."""
    names = [f"c{number}" for number in range(CUSTOMERS)]
    return build_graph(
        path,
        SCHEMA,
        *(node("Customer", name=name, balance=10) for name in names),
        *(node("Vault", name=name, balance=-10) for name in names),
        *(edge("Owns", name, name) for name in names),
    )


def write_once(graph: Graph, number: int) -> None:
    """One commit to two types or three: money moves, a customer comes, a customer goes."""
    newcomer = f"n{number // 3}"
    match number % 3:
        case 0:
            graph.load(
                ndjson(
                    node("Customer", name=newcomer, balance=number),
                    node("Vault", name=newcomer, balance=-number),
                    edge("Owns", newcomer, newcomer),
                ),
                mode="append",
            )
        case 1:
            name = f"c{number % CUSTOMERS}"
            graph.mutate(MOVE, {"name": name, "has": number, "lacks": -number})
        case _:
            graph.mutate(LEAVE, {"name": newcomer})


def look(graph: Graph, read: str) -> Seen:
    """Read once."""
    found = graph.query(READS[read])
    return Seen(read, found.commit_id, found.rows)


def look_repeatedly(graph: Graph, *, start: int) -> list[Seen]:
    """Read in rounds, on a busy machine for as long as the writer needs for its first commit."""
    names = [*list(READS)[start:], *list(READS)[:start]]
    seen: list[Seen] = []
    for number in range(1, ROUNDS_MAX):
        seen += [look(graph, name) for name in names]
        if number >= ROUNDS and seen[0].commit_id != seen[-1].commit_id:
            break
    return seen


def require_full_view(seen: Seen) -> None:
    """Fail if rows of one result cannot be of one commit."""
    match seen.read:
        case "pairs":
            torn = [row for row in seen.rows if row["c.name"] != row["v.name"]]
            torn += [row for row in seen.rows if row["c.balance"] != -_int(row["v.balance"])]
            assert not torn
        case "sums":
            (row,) = seen.rows
            assert row["had"] == -_number(row["lacked"])
        case "poor" | "free":
            assert not seen.rows
        case _:
            pass


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return value


def require_replayed(path: Path, seen: Sequence[Seen]) -> None:
    """Fail unless every result is whole and is what its commit still reads as."""
    reader = omnigraph.open(path, read_only=True)
    replayed: dict[tuple[str, str], Sequence[Mapping[str, object]]] = {}
    for each in seen:
        require_full_view(each)
        key = (each.read, each.commit_id)
        if key not in replayed:
            replayed[key] = reader.query(READS[each.read], commit=each.commit_id).rows
        assert each.rows == replayed[key], f"{each.read} at {each.commit_id}"
    assert len({each.commit_id for each in seen}) > 1, "nothing was written meanwhile"


def write_until(graph: Graph, is_over: threading.Event) -> None:
    """Commit until all readers have finished."""
    for number in range(WRITES_MAX):
        if is_over.is_set():
            return
        write_once(graph, number)
    raise AssertionError(f"readers have not ended within {WRITES_MAX} commits")


def read_beside_writer(path: Path, reading: Callable[[], Sequence[Seen]]) -> Sequence[Seen]:
    """The results of readers while another handle writes."""
    writer, is_over = omnigraph.open(path, durability="relaxed"), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_until, writer, is_over)
        try:
            return reading()
        finally:
            is_over.set()
            writing.result()


@pytest.mark.parametrize("shares_handle", [False, True])
def test_readers_in_threads_each_see_whole_commits(tmp_path: Path, *, shares_handle: bool) -> None:
    shared = bank(tmp_path)

    def read(number: int) -> list[Seen]:
        reader = shared if shares_handle else omnigraph.open(tmp_path, read_only=True)
        return look_repeatedly(reader, start=number)

    def read_all() -> Sequence[Seen]:
        with ThreadPoolExecutor(READERS) as pool:
            return [seen for reader in pool.map(read, range(READERS)) for seen in reader]

    seen = read_beside_writer(tmp_path, read_all)

    assert len(seen) >= READERS * ROUNDS * len(READS)
    require_replayed(tmp_path, seen)


CHILD = """
import json, sys
import omnigraph
from tests.behaviour.queries.test_reads_while_writing import look_repeatedly

for seen in look_repeatedly(omnigraph.open(sys.argv[1], read_only=True), start=0):
    print(json.dumps([seen.read, seen.commit_id, seen.rows]))
"""


def test_a_reader_in_another_process_sees_whole_commits(tmp_path: Path) -> None:
    bank(tmp_path)

    def read_elsewhere() -> Sequence[Seen]:
        printed = output_of(CHILD, str(tmp_path)).splitlines()
        return [Seen(*json.loads(line)) for line in printed]

    seen = read_beside_writer(tmp_path, read_elsewhere)

    assert len(seen) >= ROUNDS * len(READS)
    require_replayed(tmp_path, seen)


# The same, deterministically


@pytest.mark.parametrize("read", list(READS))
def test_a_commit_between_two_storage_reads_does_not_change_a_result(
    tmp_path: Path, read: str
) -> None:
    writer = bank(tmp_path)
    numbers = iter(range(WRITES_MAX))
    reader = open_interrupted(tmp_path, lambda: write_once(writer, next(numbers)))

    seen = [look(reader, read) for _ in range(2)]

    assert next(numbers) > 4, "the reader was not interrupted"
    require_replayed(tmp_path, seen)


def test_an_entity_is_of_one_commit_too(tmp_path: Path) -> None:
    writer = bank(tmp_path)
    numbers = iter(range(1, WRITES_MAX, 3))
    reader = open_interrupted(tmp_path, lambda: write_once(writer, next(numbers)))

    found = reader.entity("Customer", "c1")

    assert found is not None
    history = [writer.entity("Customer", "c1", commit=each.id) for each in writer.commits()]
    assert found in history
    assert writer.entity("Customer", "c1") != found


INTERRUPTED = ("find_head", "schema", "scan", "scan_new", "take", "count")


def open_interrupted(path: Path, interrupt: Callable[[], None]) -> Graph:
    """The graph of a directory, with an interruption before each read of a table."""
    settings = make_settings(path, storage_options=None, durability="relaxed")
    stores = open_stores(settings)
    never = Fault(at=0, when=When.BEFORE, scope=Scope.EFFECTS)
    tables = CrashingTables(stores.tables, never)
    for name in INTERRUPTED:
        setattr(tables, name, _interrupted(getattr(stores.tables, name), interrupt))
    return Graph(settings, Stores(stores.objects, tables), actor=None, is_read_only=True)


def _interrupted(
    call: Callable[..., object], interrupt: Callable[[], None]
) -> Callable[..., object]:
    def run(*args: object, **kwargs: object) -> object:
        interrupt()
        return call(*args, **kwargs)

    return run
