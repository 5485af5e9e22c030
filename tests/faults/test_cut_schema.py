"""A change of schema that is cut short or refused anywhere: all of it is there, or none of it."""

import itertools
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph import Graph
from tests.support.crashing import Fault, Scope, SimulatedCrash, When
from tests.support.graphs import edge, ndjson, node, row_counts, sidecars
from tests.support.schema_changes import (
    CHANGES,
    OFFICE,
    RENAMED_BACK,
    SchemaChange,
    office,
    renamed_office,
    require_files,
)
from tests.support.sweeps import (
    Operation,
    Reached,
    State,
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
    try_to_recover,
)
from tests.support.tiers import sample

# A sidecar written and deleted, a text kept and staged, one publish, three files at the root.
EFFECTS_MIN = 2 + 2 + 1 + 3

# What the others leave, these leave one effect earlier; where all is done at once, all are tried.
WHENS = (When.AFTER, When.LOST)

Prepare = Callable[[Path], object]


@dataclass(frozen=True, slots=True)
class Seen:
    """A graph as a caller sees it: its schema, its types, its rows."""

    schema: str
    types: Mapping[str, int]
    rows: State


def look(graph: Graph) -> Seen:
    """Look at all of a graph."""
    return Seen(graph.schema_source, row_counts(graph), state_of(graph))


@dataclass(frozen=True, slots=True)
class Ends:
    """What a graph is before a change of schema, and what it is after it."""

    old: Seen
    new: Seen

    def reached(self, graph: Graph) -> Reached:
        """Which of the two a graph is; fail if it is neither."""
        seen = look(graph)
        assert seen in (self.old, self.new), f"neither what it was nor what it should be: {seen}"
        return Reached.NEW if seen == self.new else Reached.OLD


def ends_of(root: Path, prepare: Prepare, change: SchemaChange) -> Ends:
    """Both ends of a change that nothing disturbs."""
    prepare(root)
    graph = open_plain(root)
    old = look(graph)
    change.apply(graph)
    ends = Ends(old, look(graph))
    assert ends.old != ends.new
    require_sound(graph, ends.new.rows)
    require_files(graph)
    return ends


def require_recovered(root: Path, ends: Ends, *, allowed: frozenset[Reached]) -> Reached:
    """Where a graph is once it has been opened; fail unless it is whole there, and stays there."""
    seen = ends.reached(open_plain(root, is_read_only=True))
    assert seen in allowed, f"a reader finds it {seen.value}"
    graph = open_plain(root)
    reached = ends.reached(graph)
    assert reached in allowed, f"the next open leaves it {reached.value}"
    assert seen is Reached.OLD or reached is Reached.NEW, "what a reader has seen was undone"
    require_sound(graph, (ends.new if reached is Reached.NEW else ends.old).rows)
    require_files(graph)
    with files_untouched(root):
        open_plain(root)
    return reached


def require_finishable(root: Path, ends: Ends, reached: Reached, change: SchemaChange) -> None:
    """Fail unless the change can still be made, if it was not, and the graph be written after."""
    graph = open_plain(root)
    if reached is Reached.OLD:
        change.apply(graph)
    assert ends.reached(graph) is Reached.NEW
    require_writable(graph, ends.new.rows)


def sweep_change(
    tmp_path: Path, prepare: Prepare, change: SchemaChange, *, whens: tuple[When, ...], scope: Scope
) -> int:
    """Hit a change at each of its effects or calls; how many there are."""
    ends = ends_of(tmp_path / "unharmed", prepare, change)
    folders = itertools.count(1)

    def play(fault: Fault) -> None:
        root = tmp_path / str(next(folders))
        prepare(root)
        allowed = operate_under_fault(change.apply, open_crashing(root, fault))
        if fault.hit is None:
            assert allowed == {Reached.NEW}
            return
        reached = require_recovered(root, ends, allowed=allowed)
        require_finishable(root, ends, reached, change)
        shutil.rmtree(root)

    swept = each_fault(play, whens=whens, scope=scope)
    assert swept.states >= len(whens) * swept.effects
    return swept.effects


@pytest.mark.parametrize(
    "change",
    sample(CHANGES, representative=("a new type", "a property dropped for good", "all at once")),
)
def test_a_change_of_schema_interrupted_anywhere_is_atomic(
    tmp_path: Path, change: SchemaChange
) -> None:
    prepare = copies_of(office(tmp_path / "built"))

    effects = sweep_change(tmp_path, prepare, change, whens=WHENS, scope=Scope.EFFECTS)

    assert effects >= EFFECTS_MIN, "the sweep went blind"


def test_all_changes_of_schema_at_once_survive_every_way_to_fail(tmp_path: Path) -> None:
    prepare = copies_of(office(tmp_path / "built"))
    rest = (When.BEFORE, When.ERROR_ONCE, When.ERROR_FOR_EVER)

    effects = sweep_change(
        tmp_path, prepare, CHANGES["all at once"], whens=rest, scope=Scope.EFFECTS
    )

    # Two new types, and versions of companies, their edges and notes besides.
    assert effects >= EFFECTS_MIN + 2 + 2, "the sweep went blind"


def test_all_changes_of_schema_at_once_refused_at_any_call_are_atomic(
    tmp_path: Path,
) -> None:
    prepare = copies_of(office(tmp_path / "built"))

    calls = sweep_change(
        tmp_path, prepare, CHANGES["all at once"], whens=(When.ERROR_ONCE,), scope=Scope.CALLS
    )

    assert calls >= 2 * EFFECTS_MIN, "the sweep went blind"


def test_a_rename_back_to_a_former_name_is_atomic(tmp_path: Path) -> None:
    prepare = copies_of(renamed_office(tmp_path / "built"))

    effects = sweep_change(tmp_path, prepare, RENAMED_BACK, whens=WHENS, scope=Scope.EFFECTS)

    assert effects >= EFFECTS_MIN + 2, "the sweep went blind"


def test_a_redeclaration_of_a_type_is_atomic(tmp_path: Path) -> None:
    built = office(tmp_path / "built")
    CHANGES["a dropped type"].apply(built)
    again = SchemaChange(OFFICE, is_final=False)

    effects = sweep_change(tmp_path, copies_of(built), again, whens=WHENS, scope=Scope.EFFECTS)

    # Its table is emptied, and brought above the version that hides the earlier one.
    assert effects >= EFFECTS_MIN + 2, "the sweep went blind"


# Recovery


@pytest.mark.parametrize(
    "name", ["all at once", pytest.param("a new type", marks=pytest.mark.exhaustive)]
)
def test_the_recovery_of_a_schema_interrupted_anywhere_has_the_same_outcome(
    tmp_path: Path, name: str
) -> None:
    change, prepare = CHANGES[name], copies_of(office(tmp_path / "built"))
    ends = ends_of(tmp_path / "unharmed", prepare, change)
    folders = itertools.count(1)

    for at in itertools.count(1):
        root = tmp_path / str(next(folders))
        prepare(root)
        if not leave_half_way(root, change, at=at):
            break
        if not sidecars(root):
            continue
        shutil.copytree(root, tmp_path / f"left{at}")
        end = require_recovered(root, ends, allowed=frozenset(Reached))

        cut_recoveries(tmp_path / f"left{at}", folders, ends, end)

    assert at > EFFECTS_MIN, "the sweep went blind"


def cut_recoveries(left: Path, folders: "itertools.count[int]", ends: Ends, end: Reached) -> None:
    """Fail unless a recovery that is cut short anywhere, and then done again, ends as it would."""

    def play(fault: Fault) -> None:
        root = left.parent / str(next(folders))
        shutil.copytree(left, root)
        try_to_recover(open_crashing(root, fault))
        assert require_recovered(root, ends, allowed=frozenset(Reached)) is end
        assert len(open_plain(root).recoveries()) == 1
        shutil.rmtree(root)

    swept = each_fault(play, whens=(When.AFTER,), scope=Scope.EFFECTS)
    assert swept.effects >= 1, "the sweep went blind"


def leave_half_way(root: Path, change: SchemaChange, *, at: int) -> bool:
    """Let a change die after an effect; whether it has as many."""
    fault = Fault(at=at, when=When.AFTER, scope=Scope.EFFECTS)
    try:
        change.apply(open_crashing(root, fault))
    except SimulatedCrash:
        return True
    return False


# Branches


def test_a_branch_that_catches_up_with_a_schema_is_interrupted_without_harm(tmp_path: Path) -> None:
    copy = copies_of(office(tmp_path / "built"))
    wider = OFFICE.replace("size: I32?", "size: I32?  web: String?")
    schema = f"{wider}\nnode Pet {{ name: String @key }}\nedge Owns: Person -> Pet"

    def prepare(root: Path) -> None:
        copy(root)
        graph = open_plain(root)
        graph.create_branch("draft")
        graph.load(ndjson(node("Company", name="Own")), mode="append", branch="draft")
        graph.apply_schema(schema)

    def operate(graph: Graph) -> object:
        added = ndjson(
            node("Company", name="Initech", web="initech.example"),
            node("Pet", name="Rex"),
            edge("Owns", "Alice", "Rex"),
        )
        return graph.load(added, mode="append", branch="draft")

    swept = sweep(tmp_path, Operation(prepare, operate, no_steps), whens=WHENS)

    # Two sidecars, two publishes, one table catches up, two get a table branch, three rows.
    assert swept.effects >= 4 + 2 + 1 + 2 + 3, "the sweep went blind"
