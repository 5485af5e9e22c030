"""Actions that combine states: merges of branches, reverts, commits applied elsewhere.

Their expected outcome is a three-way merge of dictionaries. Also where any action may be stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph import Graph
from omnigraph.errors import InvalidValueError, NotFoundError
from omnigraph.storage.failpoints import Failpoint
from tests.support.choices import Choices
from tests.support.graphs import Row
from tests.support.machine_actions import (
    AGES,
    EMAILS,
    KINDS,
    NOTES,
    PLACES,
    Action,
    Breaks,
    Conflicts,
    Declines,
    Ends,
    Expected,
    Lands,
    Nothing,
    Starts,
    Tags,
    draw_end,
    draw_start,
    draw_tag,
    draw_transaction,
    draw_write,
)
from tests.support.machine_checks import require_conflicts
from tests.support.machine_model import (
    Base,
    Entity,
    ModelHistory,
    Remembered,
    Sides,
    merge,
    stored_row,
)

_ATTEMPTS_MAX = 4
_ENDING_FAILPOINTS = (
    Failpoint.BRANCH_DELETE_POST_TABLE_GATES,
    Failpoint.BRANCH_DELETE_POST_NATIVE,
    Failpoint.BRANCH_DELETE_BEFORE_TABLE_CLEANUP,
)
_WRITING_FAILPOINTS = (
    *(
        Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER,
        Failpoint.GRAPH_PUBLISH_BEFORE_COMMIT_APPEND,
        Failpoint.GRAPH_PUBLISH_AFTER_MANIFEST_COMMIT,
        Failpoint.RECOVERY_SIDECAR_WRITE,
        Failpoint.RECOVERY_SIDECAR_DELETE,
    )
    * 2,
    # Not every write comes by here.
    Failpoint.MUTATION_DELETE_NODE_PRE_PRIMARY_DELETE,
    Failpoint.BRANCH_MERGE_POST_CANDIDATE_VALIDATION,
    Failpoint.FORK_BEFORE_CLASSIFY,
    Failpoint.FORK_BEFORE_RECLAIM,
)


# Merges


def draw_merge(choices: Choices, history: ModelHistory) -> Action:
    """A merge of one branch into another; there must be two."""
    source, target = choices.some(history.branches, least=2, most=2)
    if history.find_base(source, target) is None and choices.often():
        source, target = target, source
    return draw_merge_of(source, target, choices, history)


def draw_merge_of(source: str, target: str, choices: Choices, history: ModelHistory) -> Action:
    """A merge of two branches, on any terms."""
    base = history.find_base(source, target)
    is_by_property = choices.seldom()
    if base is None:
        sides, resolve = None, dict[Entity, object]()
    else:
        sides, resolve = _draw_sides(
            choices, history, base, (source, target), is_by_property=is_by_property
        )
    granularity = "property" if is_by_property else "row"
    words = f"merge {source} into {target} by {granularity} {resolve or ''}"
    is_dry_run = choices.seldom()

    def do(graph: Graph) -> str | None:
        found = graph.merge(
            source, into=target, granularity=granularity, resolve=resolve, dry_run=is_dry_run
        )
        assert found.outcome == outcome, f"{found.outcome} instead of {outcome}"
        if sides is not None and merged is not None:
            require_conflicts(found.conflicts, sides, merged)
        return found.commit_id

    merged = None if sides is None else merge(sides)
    if base is None or merged is None or sides is None:
        outcome = "already_up_to_date"
        return Action(words, do, Nothing())
    if not merged.is_clean:
        outcome = "conflicts"
        expected: Expected = Nothing() if is_dry_run else Conflicts(sides, merged)
        return Action(f"{words}: conflicts", do, expected)
    outcome = "fast_forward" if base.is_at_target else "merged"
    if is_dry_run:
        return Action(f"try-{words}", do, Nothing())
    return Action(words, do, Lands(target, merged.state, history.heads[source]))


def _draw_sides(
    choices: Choices,
    history: ModelHistory,
    base: Base,
    ends: tuple[str, str],
    *,
    is_by_property: bool,
) -> tuple[Sides, dict[Entity, object]]:
    source, target = (history.state(each) for each in ends)
    plain = Sides(base.state, source, target, is_by_property)
    keys = sorted({each[:2] for each in merge(plain).conflicts[0]})
    resolve: dict[Entity, object] = {}
    decided: dict[Entity, Row | None] = {}
    changed = set(plain.changed())
    chosen = [each for each in keys if each in changed] if choices.often() else []
    if changed and choices.seldom():
        chosen = sorted({*chosen, choices.one(sorted(changed))})
    for type_name, id in chosen:
        rows = {
            name: state.get(type_name, {}).get(id)
            for name, state in (("source", source), ("target", target))
        }
        choice = choices.one(("source", "target", "source", "target", "row"))
        if choice == "row":
            row = _own_row(choices, type_name, rows["source"] or rows["target"])
            if row is None:
                continue
            decided[type_name, id], resolve[type_name, id] = row, stored_row(row)
        else:
            decided[type_name, id], resolve[type_name, id] = rows[choice], choice
    adopted = frozenset(each for each, choice in resolve.items() if choice == "source")
    return Sides(base.state, source, target, is_by_property, decided, adopted), resolve


def _own_row(choices: Choices, type_name: str, current: Row | None) -> Row | None:
    """A row of the caller's own, near what one side has."""
    if current is None:
        return None
    changes: Mapping[str, Mapping[str, object]] = {
        "Person": {"age": choices.one(AGES), "email": choices.one(EMAILS)},
        "Place": {"note": choices.one(NOTES)},
        "Knows": {"kind": choices.one(KINDS[:2])},
        "Sits": {"to": choices.one(PLACES)},
    }
    return {**current, **changes[type_name]}


# Single commits


def draw_undoing(choices: Choices, history: ModelHistory) -> Action:
    """A revert, or a commit that is done again elsewhere."""
    branch = choices.one(history.branches)
    is_revert = choices.often()
    known = list(history.commits)
    # What was done last is undone more often than what is long past.
    commit = history.commits[choices.one([*known, *known[-6:] * 3])]
    words = f"{'revert' if is_revert else 'pick'} {commit.id} on {branch}"

    def do(graph: Graph) -> str | None:
        if is_revert:
            return graph.revert(commit.id, branch=branch).commit_id
        return graph.cherry_pick(commit.id, onto=branch).commit_id

    return Action(words, do, _expect_undoing(history, commit, branch, is_revert=is_revert))


def _expect_undoing(
    history: ModelHistory, commit: Remembered, branch: str, *, is_revert: bool
) -> Expected:
    if not history.is_readable(commit):
        return Declines(NotFoundError)
    is_past = commit.id in history.past(history.heads[branch])
    if not commit.parents or (is_revert and not is_past):
        return Declines(InvalidValueError)
    parent = history.commits[commit.parents[0]]
    way = (commit.state, parent.state) if is_revert else (parent.state, commit.state)
    sides = Sides(*way, history.state(branch))
    merged = merge(sides)
    if not merged.is_clean:
        return Conflicts(sides, merged)
    if merged.state == history.state(branch):
        return Nothing()
    return Lands(branch, merged.state, None)


# Any of them


def draw_any(choices: Choices, history: ModelHistory) -> Action:
    """Any action."""
    kinds = [*[draw_write] * 10, *[draw_transaction] * 2, *[draw_undoing] * 4, *[draw_start] * 2]
    if len(history.heads) > 1:
        kinds += [*[draw_merge] * 6, *[draw_end] * 2]
    return choices.one([*kinds, *[draw_tag] * 2])(choices, history)


def draw_effective(choices: Choices, history: ModelHistory) -> Action:
    """An action that can be left incomplete, if one is drawn soon."""
    for _ in range(_ATTEMPTS_MAX):
        action = draw_any(choices, history)
        if isinstance(action.expected, Lands | Starts | Ends | Tags):
            return action
    return draw_write(choices, history)


def failpoints_of(action: Action) -> Sequence[Failpoint]:
    """Where an action may fail."""
    match action.expected:
        case Starts():
            return [Failpoint.BRANCH_CREATE_AFTER_MANIFEST_BRANCH_CREATE]
        case Ends():
            return _ENDING_FAILPOINTS
        case Lands() | Tags() | Nothing() | Breaks() | Conflicts() | Declines():
            return _WRITING_FAILPOINTS
