"""Files that were written before a write began become part of the graph whole, or not at all."""

import itertools
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.errors import (
    ExpectedVersionMismatchError,
    GraphError,
    Outcome,
    ReadSetChangedError,
)
from omnigraph.model.names import BranchName
from omnigraph.storage.ports import TableRef, TableVersion
from tests.support.crashing import REPRESENTATIVE_WAYS, Fault, Scope, SimulatedCrash, When
from tests.support.graphs import (
    Record,
    contents,
    edge,
    ends,
    ndjson,
    node,
    root_of,
    rows,
    social_graph,
    table_paths,
    unchanged,
    values,
)
from tests.support.queries import query
from tests.support.staged_files import REPLACED, STAGED, load_while, once, open_files
from tests.support.sweeps import (
    Operation,
    Reached,
    Swept,
    copies_of,
    each_fault,
    no_steps,
    open_plain,
    operate_under_fault,
    require_recovered,
    require_sound,
    require_writable,
    state_of,
    states_of_unharmed,
)
from tests.support.tiers import sample
from tests.support.writes import Mode, Write

# A sidecar written and deleted, one table applied, one publish.
EFFECTS_MIN = 4

EVE = (node("Person", name="Eve"), edge("Knows", "Eve", "Bob"))
OLDER_BOB = (node("Person", name="Bob", age=26), node("Person", name="Fay", age=1))
EVERY_PERSON = tuple(
    node("Person", name=name, age=99) for name in ("Alice", "Bob", "Charlie", "Diana")
)


def load_files(*records: Record, mode: Mode, branch: str = "main") -> Write:
    """A load of records by files that are there before it begins."""
    return lambda graph: graph.load(ndjson(*records), mode=mode, engine="spark", branch=branch)


ON_MAIN = {
    "an append": (load_files(*EVE, mode="append"), 2),
    "a merge that replaces a row": (load_files(*OLDER_BOB, mode="merge"), 1),
    "a merge that replaces all rows": (load_files(*EVERY_PERSON, mode="merge"), 1),
    "an overwrite": (load_files(*EVERY_PERSON, edge("Knows", "Bob", "Bob"), mode="overwrite"), 2),
}


@pytest.mark.parametrize(
    ("write", "tables"),
    sample(ON_MAIN, representative=("an append", "a merge that replaces a row")),
)
def test_a_load_of_files_interrupted_anywhere_is_atomic(
    tmp_path: Path, write: Write, tables: int, ways: Sequence[When]
) -> None:
    prepare = copies_of(social_graph(tmp_path / "built"))

    swept = sweep_files(tmp_path, prepare, write, whens=ways)

    require_sighted(swept, least=EFFECTS_MIN - 1 + tables)


def test_a_first_load_of_files_on_a_branch_interrupted_anywhere_is_atomic(
    tmp_path: Path, ways: Sequence[When]
) -> None:
    write = load_files(*EVE, mode="append", branch="draft")

    swept = sweep_files(tmp_path, with_a_draft(tmp_path), write, whens=ways)

    require_sighted(swept, least=EFFECTS_MIN + 3)


def test_a_merge_by_files_that_creates_a_table_branch_interrupted_anywhere_is_atomic(
    tmp_path: Path, ways: Sequence[When]
) -> None:
    write = load_files(*OLDER_BOB, edge("Knows", "Fay", "Bob"), mode="merge", branch="draft")

    swept = sweep_files(tmp_path, with_a_draft(tmp_path), write, whens=ways)

    require_sighted(swept, least=EFFECTS_MIN + 3)


def test_a_merge_by_files_refused_at_any_storage_call_is_atomic(
    tmp_path: Path,
) -> None:
    write = load_files(*OLDER_BOB, mode="merge", branch="draft")

    swept = sweep_files(
        tmp_path, with_a_draft(tmp_path), write, whens=[When.ERROR_ONCE], scope=Scope.CALLS
    )

    assert swept.states == swept.effects >= EFFECTS_MIN + 4, "the sweep went blind"


# What happens while files wait


def test_files_of_rows_land_whatever_numbers_the_columns_of_their_table_have(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    source = graph.schema_source
    graph.apply_schema(source.replace("age: I32?", "mail: String?"), allow_data_loss=True)
    graph.apply_schema(source.replace("age: I32?", "tags: [String]?  age: I32?  mail: String?"))

    load_files(
        node("Person", name="Bob", age=26, mail="b@x", tags=["x", "y"]),
        node("Person", name="Eve", age=1, mail="e@x"),
        mode="merge",
    )(open_files(tmp_path))

    people = rows(graph, "Person")
    assert people["Bob"] == {"name": "Bob", "age": 26, "mail": "b@x", "tags": ["x", "y"]}
    assert people["Eve"] == {"name": "Eve", "age": 1, "mail": "e@x", "tags": None}
    assert people["Alice"] == {"name": "Alice", "age": None, "mail": None, "tags": None}


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_whose_file_was_deleted_is_refused(tmp_path: Path, mode: Mode) -> None:
    graph = social_graph(tmp_path)
    known = data_files(tmp_path)

    def lose_one(stage: str) -> None:
        for path in sorted(data_files(tmp_path) - known)[:1] if stage == STAGED else ():
            path.unlink()

    with unchanged(graph), pytest.raises(ReadSetChangedError, match="a new file"):
        load_while(open_files(tmp_path), *EVE, mode=mode, meanwhile=lose_one)

    load_files(*EVE, mode="append")(open_files(tmp_path))
    assert "Eve" in rows(graph, "Person")


def test_a_merge_whose_deletion_files_were_deleted_is_refused(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    def lose_marks(stage: str) -> None:
        for path in (tmp_path / "nodes").rglob("_deletions/*") if stage == REPLACED else ():
            path.unlink()

    with unchanged(graph), pytest.raises(ReadSetChangedError, match="a new file"):
        load_while(open_files(tmp_path), *OLDER_BOB, mode="merge", meanwhile=lose_marks)


@pytest.mark.parametrize("stage", [STAGED, REPLACED])
@pytest.mark.parametrize("branch", ["main", "draft"])
def test_a_merge_by_files_with_a_concurrent_write_loses_nothing(
    tmp_path: Path, branch: str, stage: str
) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("draft")
    overtake = once(
        stage,
        lambda: graph.mutate(
            query('update Person set { age: 77 } where name = "Diana"'), branch=branch
        ),
    )

    load_while(open_files(tmp_path), *OLDER_BOB, mode="merge", branch=branch, meanwhile=overtake)

    ages = values(graph, "Person", "age", branch)
    assert ages == {"Alice": 30, "Bob": 26, "Charlie": 35, "Diana": 77, "Fay": 1}
    require_sound(graph, state_of(graph))


def test_an_overwrite_by_files_with_a_concurrent_write_is_refused(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    overtake = once(REPLACED, lambda: graph.mutate(query('insert Person { name: "Zoe" }')))

    with pytest.raises(ExpectedVersionMismatchError):
        load_while(open_files(tmp_path), *EVERY_PERSON, mode="overwrite", meanwhile=overtake)

    assert "Zoe" in rows(graph, "Person")
    require_sound(graph, state_of(graph))


def test_a_merge_killed_after_it_created_a_table_branch_blocks_nothing(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("draft")
    before = state_of(graph)

    with pytest.raises(SimulatedCrash):
        load_while(
            open_files(tmp_path), *OLDER_BOB, mode="merge", branch="draft", meanwhile=die(REPLACED)
        )

    again = open_plain(tmp_path)
    assert state_of(again) == before
    require_writable(again, before)
    load_files(*OLDER_BOB, mode="merge", branch="draft")(open_files(tmp_path))
    assert values(again, "Person", "age", "draft")["Bob"] == 26
    require_sound(again, state_of(again))


def test_files_of_a_table_branch_moved_by_a_killed_writer_are_not_silently_lost(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("draft")
    before = state_of(graph)
    move = once(STAGED, lambda: move_line(graph, "node:Person", "draft"))

    with pytest.raises(ReadSetChangedError, match="a new file"):
        load_while(open_files(tmp_path), *EVE, mode="append", branch="draft", meanwhile=move)

    assert state_of(graph) == before
    load_files(*EVE, mode="append", branch="draft")(open_files(tmp_path))
    assert rows(graph, "Person", "draft").keys() - rows(graph, "Person").keys() == {"Eve"}
    require_sound(graph, state_of(graph))


@pytest.mark.parametrize("stage", [STAGED, REPLACED])
def test_files_for_a_recreated_branch_are_refused(tmp_path: Path, stage: str) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("draft")
    graph.mutate(query('insert Person { name: "Old" }'), branch="draft")

    def renew() -> None:
        graph.delete_branch("draft")
        graph.create_branch("draft")

    with pytest.raises(GraphError) as refused:
        load_while(
            open_files(tmp_path),
            *OLDER_BOB,
            mode="merge",
            branch="draft",
            meanwhile=once(stage, renew),
        )

    assert refused.value.outcome in (Outcome.UNCHANGED, Outcome.MOVED)
    assert contents(graph, "draft") == contents(graph)
    require_sound(graph, state_of(graph))
    require_writable(graph, state_of(graph))


def test_a_table_branch_opened_for_staged_files_serves_the_first_writer(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("draft")
    first = load_files(node("Person", name="Alice", age=31), mode="merge", branch="draft")
    meanwhile = once(REPLACED, lambda: first(open_files(tmp_path)))

    load_while(open_files(tmp_path), *OLDER_BOB, mode="merge", branch="draft", meanwhile=meanwhile)

    ages = values(graph, "Person", "age", "draft")
    assert (ages["Alice"], ages["Bob"], ages["Fay"]) == (31, 26, 1)
    assert values(graph, "Person", "age")["Alice"] == 30
    require_sound(graph, state_of(graph))


def test_rows_that_a_merge_replaces_are_deleted_even_after_other_deletions_in_their_file(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    graph.mutate(query('delete Person where name = "Alice"'))

    load_files(*OLDER_BOB, mode="merge")(open_files(tmp_path))

    assert values(graph, "Person", "age") == {"Bob": 26, "Charlie": 35, "Diana": 28, "Fay": 1}
    assert ends(graph, "Knows") == [("Bob", "Diana")]
    require_sound(graph, state_of(graph))


# Sweeping


def sweep_files(
    tmp_path: Path,
    prepare: Callable[[Path], object],
    write: Write,
    *,
    whens: Sequence[When],
    scope: Scope = Scope.EFFECTS,
) -> Swept:
    """Hit a load of files at each of its effects in each way, and look at the graph afterwards."""

    def write_unharmed(graph: Graph) -> object:
        return write(open_files(root_of(graph)))

    operation = Operation(prepare, write_unharmed, no_steps)
    states = states_of_unharmed(tmp_path / "unharmed", operation)
    folders = itertools.count(1)

    def play(fault: Fault) -> None:
        root = tmp_path / str(next(folders))
        prepare(root)
        allowed = operate_under_fault(write, open_files(root, fault))
        if fault.hit is None:
            assert allowed == {Reached.NEW}
            return
        reached = require_recovered(root, states, allowed=allowed)
        graph = open_plain(root)
        if reached is Reached.OLD:
            write_unharmed(graph)
        require_writable(graph, states.new)
        shutil.rmtree(root)

    return each_fault(play, whens=whens, scope=scope)


def require_sighted(swept: Swept, *, least: int) -> None:
    """Fail if a sweep saw fewer effects than there are, or hit too few of them."""
    assert swept.effects >= least, "the sweep went blind"
    assert swept.states >= len(REPRESENTATIVE_WAYS) * least


def with_a_draft(tmp_path: Path) -> Callable[[Path], object]:
    """Prepare a graph with a branch that has no table branch."""
    copy = copies_of(social_graph(tmp_path / "built"))

    def prepare(root: Path) -> None:
        copy(root)
        open_plain(root).create_branch("draft")

    return prepare


# Meddling


def die(stage: str) -> Callable[[str], object]:
    """Stop the process after a stage."""

    def stop() -> None:
        raise SimulatedCrash

    return once(stage, stop)


def move_line(graph: Graph, table_key: str, branch: str) -> None:
    """Give a branch a table branch with an unpublished row, and no sidecar for it."""
    root = root_of(graph)
    settings = make_settings(str(root), storage_options=None, durability="relaxed")
    tables = open_stores(settings).tables
    main = TableRef(str(table_paths(root)[table_key].relative_to(root)), None)
    version = graph.tables()[table_key].version
    at = TableVersion(main, version)
    line = tables.fork(at, branch=BranchName(branch))
    ghost = tables.scan(at, columns=["id", "name", "age"], predicate=None).slice(0, 1)
    moved = TableVersion(line, version)
    tables.apply(tables.stage_append(ghost, onto=moved))


def data_files(root: Path) -> set[Path]:
    """Every file of rows of a graph's tables."""
    return {path for kind in ("nodes", "edges") for path in (root / kind).rglob("data/*.lance")}
