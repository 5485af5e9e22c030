"""A write that is cut short or refused by its storage, anywhere and in any way, is there or not."""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.ops.create import create_graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.errors import AlreadyExistsError, GraphError, NotFoundError, Outcome
from omnigraph.model.limits import MANIFEST_FRAGMENTS_MAX
from omnigraph.model.source import Source
from tests.support.crashing import REPRESENTATIVE_WAYS, Fault, Scope, SimulatedCrash, When, crashing
from tests.support.graphs import SOCIAL, build_graph, edge, ndjson, node, social_graph
from tests.support.queries import query
from tests.support.sweeps import (
    Operation,
    Reached,
    State,
    Swept,
    copies_of,
    each_fault,
    files_untouched,
    no_steps,
    open_crashing,
    open_plain,
    operate_under_fault,
    require_sound,
    require_writable,
    state_of,
    sweep,
)
from tests.support.tiers import sample
from tests.support.writes import Write, load, mutate

# A sidecar written and deleted, one table applied, one publish.
EFFECTS_MIN = 4

# The same, files staged for each of four versions, and at least one look at each of four types.
CALLS_MIN = 2 + 4 + 4 + 4

EMPTY: State = {"main": {}}

ON_MAIN = {
    "an insert": (mutate('insert Person { name: "Eve" }'), 1),
    "inserts of three types": (
        mutate(
            'insert Person { name: "Eve" } insert Company { name: "Initech" } '
            'insert WorksAt { from: "Eve", to: "Initech" }'
        ),
        3,
    ),
    "an update": (mutate('update Person set { age: 31 } where name = "Alice"'), 1),
    "a delete that cascades": (mutate('delete Person where name = "Alice"'), 3),
    "an append": (load(node("Person", name="Eve"), edge("Knows", "Eve", "Bob")), 2),
    "a merge": (
        load(node("Person", name="Bob", age=26), node("Company", name="Initech"), mode="merge"),
        2,
    ),
    "an overwrite": (load(edge("Knows", "Diana", "Alice"), mode="overwrite"), 1),
}


WITH_SEVERAL_TABLES = ("inserts of three types", "a delete that cascades", "a merge")


@pytest.mark.parametrize(("write", "tables"), sample(ON_MAIN, representative=WITH_SEVERAL_TABLES))
def test_a_write_interrupted_anywhere_is_atomic(
    tmp_path: Path, write: Write, tables: int, ways: Sequence[When]
) -> None:
    prepare = copies_of(social_graph(tmp_path / "built"))

    swept = sweep(tmp_path, Operation(prepare, write, no_steps), whens=ways)

    require_sighted(swept, least=EFFECTS_MIN - 1 + tables)


def test_a_first_write_on_a_branch_interrupted_anywhere_is_atomic(
    tmp_path: Path, ways: Sequence[When]
) -> None:
    copy = copies_of(social_graph(tmp_path / "built"))

    def prepare(root: Path) -> None:
        copy(root)
        open_plain(root).create_branch("draft")

    def operate(graph: Graph) -> object:
        rows = ndjson(node("Person", name="Eve"), edge("Knows", "Eve", "Bob"))
        return graph.load(rows, mode="append", branch="draft")

    swept = sweep(tmp_path, Operation(prepare, operate, no_steps), whens=ways)

    require_sighted(swept, least=EFFECTS_MIN + 3)


def test_a_load_that_starts_a_branch_leaves_no_branch_an_equal_one_or_a_loaded_one(
    tmp_path: Path, ways: Sequence[When]
) -> None:
    def operate(graph: Graph) -> object:
        return graph.load(
            ndjson(node("Person", name="Eve")), mode="append", branch="new", base="main"
        )

    def just_started(old: State) -> list[State]:
        return [{**old, "new": old["main"]}]

    prepare = copies_of(social_graph(tmp_path / "built"))
    swept = sweep(tmp_path, Operation(prepare, operate, just_started), whens=ways)

    require_sighted(swept, least=EFFECTS_MIN + 2)


def test_a_branch_creation_interrupted_anywhere_is_atomic(
    tmp_path: Path, ways: Sequence[When]
) -> None:
    operation = Operation(with_a_draft(tmp_path), start_child, no_steps)

    swept = sweep(tmp_path, operation, whens=ways)

    require_sighted(swept, least=1)


def test_a_branch_deletion_interrupted_anywhere_is_atomic(
    tmp_path: Path, ways: Sequence[When]
) -> None:
    operation = Operation(with_a_draft(tmp_path), delete_draft, no_steps)

    swept = sweep(tmp_path, operation, whens=ways)

    # The history of the branch, and its lines of two types.
    require_sighted(swept, least=3)


def test_deleting_a_branch_refused_at_any_storage_call_is_atomic(
    tmp_path: Path,
) -> None:
    operation = Operation(with_a_draft(tmp_path), delete_draft, no_steps)

    swept = sweep(tmp_path, operation, whens=[When.ERROR_ONCE], scope=Scope.CALLS)

    assert swept.states == swept.effects >= 8, "the sweep went blind"


def test_a_transaction_interrupted_anywhere_is_atomic(tmp_path: Path, ways: Sequence[When]) -> None:
    def operate(graph: Graph) -> None:
        with graph.transaction() as tx:
            tx.mutate(query('insert Person { name: "Eve" }'))
            tx.load(ndjson(edge("Knows", "Eve", "Bob")), mode="append")

    prepare = copies_of(social_graph(tmp_path / "built"))
    swept = sweep(tmp_path, Operation(prepare, operate, no_steps), whens=ways)

    # A record made and deleted, a branch made and deleted with two lines, and three writes.
    require_sighted(swept, least=2 + 2 + 2 + 3 * EFFECTS_MIN)


def with_a_draft(tmp_path: Path) -> Callable[[Path], object]:
    """Prepare a graph with a branch that has lines of two types."""
    copy = copies_of(social_graph(tmp_path / "built"))

    def prepare(root: Path) -> None:
        copy(root)
        graph = open_plain(root)
        graph.create_branch("draft")
        rows = ndjson(node("Person", name="Eve"), edge("Knows", "Eve", "Bob"))
        graph.load(rows, mode="append", branch="draft")

    return prepare


def start_child(graph: Graph) -> None:
    """Start a branch at another one that has table branches."""
    graph.create_branch("child", base="draft")


def delete_draft(graph: Graph) -> None:
    """Delete the branch that has table branches."""
    graph.delete_branch("draft")


def test_a_write_that_also_compacts_the_manifest_is_atomic(
    tmp_path: Path,
) -> None:
    built = build_graph(tmp_path / "built", SOCIAL)
    for number in range(MANIFEST_FRAGMENTS_MAX - 1):
        built.load(ndjson(node("Company", name=f"c{number}")), mode="append")

    operation = Operation(copies_of(built), mutate('insert Person { name: "Eve" }'), no_steps)
    swept = sweep(tmp_path, operation, whens=[When.AFTER, When.LOST])

    assert swept.effects == EFFECTS_MIN + 1, "the sweep went blind, or no files were joined"


def test_a_write_refused_at_any_storage_call_is_atomic(
    tmp_path: Path,
) -> None:
    prepare = copies_of(social_graph(tmp_path / "built"))
    operation = Operation(prepare, mutate('delete Person where name = "Alice"'), no_steps)

    swept = sweep(tmp_path, operation, whens=[When.ERROR_ONCE], scope=Scope.CALLS)

    assert swept.states == swept.effects >= CALLS_MIN, "the sweep went blind"


def test_an_index_build_interrupted_anywhere_is_atomic(
    tmp_path: Path, ways: Sequence[When]
) -> None:
    built = social_graph(tmp_path / "built")
    prepare, state, folders = copies_of(built), state_of(built), itertools.count(1)

    def play(fault: Fault) -> None:
        root = tmp_path / str(next(folders))
        prepare(root)
        allowed = operate_under_fault(Graph.ensure_indices, open_crashing(root, fault))
        graph = open_plain(root)
        require_sound(graph, state)
        missing = [each for each in graph.ensure_indices() if each.is_built]
        assert Reached.OLD in allowed or not missing, "they were reported as built"
        assert Reached.NEW in allowed or missing, "they were reported as not built"
        assert len({each.type for each in missing}) in (0, len(state["main"]))
        require_writable(graph, state)

    swept = each_fault(play, whens=ways, scope=Scope.EFFECTS)

    require_sighted(swept, least=EFFECTS_MIN - 1 + len(state["main"]))


# Merging, reverting, picking


def change_all_ways(graph: Graph, branch: str) -> None:
    """Add, change and remove nodes and edges."""
    graph.mutate(query('delete Person where name = "Bob"'), branch=branch)
    added = ndjson(
        node("Person", name="Alice", age=31),
        node("Person", name="Eve"),
        edge("Knows", "Eve", "Diana"),
    )
    graph.load(added, mode="merge", branch=branch)


def test_a_merge_interrupted_anywhere_is_atomic(tmp_path: Path, ways: Sequence[When]) -> None:
    copy = copies_of(social_graph(tmp_path / "built"))

    def prepare(root: Path) -> None:
        copy(root)
        graph = open_plain(root)
        graph.create_branch("draft")
        change_all_ways(graph, "draft")
        graph.mutate(query('insert Person { name: "Fay" }'))

    def operate(graph: Graph) -> object:
        return graph.merge("draft")

    swept = sweep(tmp_path, Operation(prepare, operate, no_steps), whens=ways)

    require_sighted(swept, least=EFFECTS_MIN + 2)


def test_a_merge_into_a_branch_without_table_branches_is_atomic(
    tmp_path: Path,
) -> None:
    copy = copies_of(social_graph(tmp_path / "built"))

    def prepare(root: Path) -> None:
        copy(root)
        graph = open_plain(root)
        graph.create_branch("draft")
        change_all_ways(graph, "main")

    def operate(graph: Graph) -> object:
        return graph.merge("main", into="draft")

    swept = sweep(tmp_path, Operation(prepare, operate, no_steps), whens=[When.AFTER, When.LOST])

    assert swept.effects >= EFFECTS_MIN + 2 + 3, "the sweep went blind"


def test_a_revert_interrupted_anywhere_is_atomic(tmp_path: Path, ways: Sequence[When]) -> None:
    built = social_graph(tmp_path / "built")
    made = str(built.mutate(query('delete Person where name = "Bob"')).commit_id)

    def operate(graph: Graph) -> object:
        return graph.revert(made)

    swept = sweep(tmp_path, Operation(copies_of(built), operate, no_steps), whens=ways)

    require_sighted(swept, least=EFFECTS_MIN + 2)


def test_a_picked_commit_interrupted_anywhere_is_atomic(
    tmp_path: Path, ways: Sequence[When]
) -> None:
    copy = copies_of(social_graph(tmp_path / "built"))

    def prepare(root: Path) -> None:
        copy(root)
        graph = open_plain(root)
        graph.create_branch("draft")
        change_all_ways(graph, "draft")

    def operate(graph: Graph) -> object:
        return graph.cherry_pick(graph.head("draft"))

    swept = sweep(tmp_path, Operation(prepare, operate, no_steps), whens=ways)

    require_sighted(swept, least=EFFECTS_MIN + 1)


# Creating


def test_a_creation_interrupted_anywhere_is_a_whole_graph_or_can_be_repeated(
    tmp_path: Path, ways: Sequence[When]
) -> None:
    folders = itertools.count(1)

    def play(fault: Fault) -> None:
        root = tmp_path / str(next(folders))
        outcome = create_under_fault(root, fault)
        require_created_or_creatable(root, fault, outcome)

    swept = each_fault(play, whens=ways, scope=Scope.EFFECTS)

    # Three files of the schema, a table for each of four types, and the history.
    require_sighted(swept, least=3 + 4 + 1)


def create_under_fault(root: Path, fault: Fault) -> Outcome | None:
    """The outcome that a creation reported; None if the graph exists."""
    settings = make_settings(str(root), storage_options=None, durability="relaxed")
    try:
        create_graph(
            uri=settings.location.uri,
            source=SOCIAL,
            catalog=compile_schema(Source("<schema>", SOCIAL)),
            stores=crashing(open_stores(settings), fault),
            runtime=settings.runtime,
            failpoints=settings.failpoints,
            is_replacing=False,
        )
    except SimulatedCrash:
        return Outcome.UNCERTAIN
    except GraphError as error:
        return error.outcome
    return None


def require_created_or_creatable(root: Path, fault: Fault, outcome: Outcome | None) -> None:
    """Fail unless there is a whole graph, or none and nothing that prevents its creation."""
    found = find_graph(root)
    if isinstance(found, Graph):
        assert outcome in (None, Outcome.UNCERTAIN), "it was reported as not created"
        graph = found
    else:
        assert outcome is not None, "it was reported as created"
        may_be_forced = not isinstance(found, NotFoundError) and may_leave_something(fault, outcome)
        graph = create_again(root, may_be_forced=may_be_forced)
    require_sound(graph, EMPTY)
    with files_untouched(root):
        graph = open_plain(root)
    require_writable(graph, EMPTY)


def may_leave_something(fault: Fault, outcome: Outcome) -> bool:
    """Whether a creation may leave files that only `force` removes."""
    # The owner of the schema's text is unknown if the response to its claim was lost.
    is_claim_in_doubt = fault.when is When.LOST and fault.hit == "put_if_absent"
    is_cut = outcome is Outcome.UNCERTAIN or fault.when is When.ERROR_FOR_EVER
    return is_cut or is_claim_in_doubt


def find_graph(root: Path) -> Graph | GraphError:
    """The graph of a directory, or why it does not open."""
    try:
        return open_plain(root)
    except GraphError as error:
        return error


def create_again(root: Path, *, may_be_forced: bool) -> Graph:
    """A graph where another creation has failed."""
    try:
        return omnigraph.init(str(root), schema=SOCIAL, durability="relaxed")
    except AlreadyExistsError:
        assert may_be_forced, "something of it is left"
        return omnigraph.init(str(root), schema=SOCIAL, force=True, durability="relaxed")


def require_sighted(swept: Swept, *, least: int) -> None:
    """Fail if a sweep saw fewer effects than there are, or hit too few of them."""
    assert swept.effects >= least, "the sweep went blind"
    assert swept.states >= len(REPRESENTATIVE_WAYS) * least
