"""The part of the demo about several presents: branches, review, a conflict, merges, history."""

from time import perf_counter

import omnigraph
from demo.history import draw_history
from demo.telling import read, say, title
from omnigraph.engine.changes import Change
from omnigraph.errors import MergeConflictError

DISPUTED = "Salt will do"
REWORDED = "Panels by the metre"

REWORD = """
query reword($title: String, $text: String) {
  update Finding set { text: $text } where title = $title
}
"""
WITHDRAW = "query withdraw($title: String) { delete Finding where title = $title }"


def show_branching(graph: omnigraph.Graph) -> None:
    """Let three people change the graph of the other scenes at once, and bring it together."""
    show_branches(graph)
    show_review(graph)
    show_conflict(graph)
    show_decision(graph)
    show_property_merge(graph)
    show_undo(graph)
    show_drawing(graph)


def show_branches(graph: omnigraph.Graph) -> None:
    title("15. A branch is another present of the whole graph; starting one copies no row")
    graph.tag("before-review", graph.head())
    started = perf_counter()
    graph.create_branch("review")
    seconds = perf_counter() - started
    rows = sum(table.row_count for table in graph.tables("review").values())
    say(f"'review' started in {seconds * 1000:.0f} ms, with all {rows:,} rows in it.")
    _trust(graph, DISPUTED, 0.95, branch="review", actor="bea")
    _record(graph, "Jars of wind", "wind", branch="review", actor="bea")
    graph.mutate(WITHDRAW, {"title": "Finding 7"}, branch="review", actor="bea")
    assert (_confidence(graph, "main"), _confidence(graph, "review")) == (0.8, 0.95)
    say(f"Bea trusts '{DISPUTED}' 0.95 there; on main it is still 0.8.")


def show_review(graph: omnigraph.Graph) -> None:
    title("16. A review: exactly what the branch would change, found without reading all of it")
    started = perf_counter()
    changes = graph.diff("main", "review")
    seconds = perf_counter() - started
    for change in changes:
        say(_tell(change))
    stats = changes.stats
    # The edge of the finding that was withdrawn went with it.
    assert (stats.inserts, stats.updates, stats.deletes) == (2, 1, 2)
    say(f"{len(changes)} changes found in {seconds * 1000:.0f} ms.")


def show_conflict(graph: omnigraph.Graph) -> None:
    title("17. A conflict: both sides changed one thing differently; the merge changes nothing")
    _trust(graph, DISPUTED, 0.6, branch="main", actor="ann")
    head = graph.head()
    try:
        graph.merge("review", actor="bea")
    except MergeConflictError as error:
        (conflict,) = error.conflicts
        say(f"{conflict.kind}: {conflict.message}")
        sides = {"base": conflict.base, "source": conflict.source, "target": conflict.target}
        for side, row in sides.items():
            say(f"  {side:6}  confidence {row and row['confidence']}")
    assert graph.head() == head
    assert graph.merge("review", dry_run=True).outcome == "conflicts"
    say("The head of main is where it was.")


def show_decision(graph: omnigraph.Graph) -> None:
    title("18. A person decides, and the branch lands as one commit with two parents")
    merged = graph.merge("review", resolve={("Finding", DISPUTED): "source"}, actor="bea")
    commit = graph.commits()[-1]
    assert (merged.outcome, commit.merged_parent_id) == ("merged", graph.head("review"))
    assert _confidence(graph, "main") == 0.95
    assert graph.entity("Finding", "Jars of wind") is not None
    assert graph.entity("Finding", "Finding 7") is None
    assert graph.merge("review").outcome == "already_up_to_date"
    say(f"{merged.outcome}: commit {merged.commit_id}")
    for each in commit.notes.resolutions:
        say(f"It records the decision: {each.type} '{each.id}' as in the {each.choice}.")


def show_property_merge(graph: omnigraph.Graph) -> None:
    title("19. Different properties of one row: no conflict, if the merge is asked to look closer")
    graph.create_branch("wording")
    text = "Printed cells cost half of cut ones"
    graph.mutate(REWORD, {"title": REWORDED, "text": text}, branch="wording", actor="cyd")
    _trust(graph, REWORDED, 0.7, branch="main", actor="ann")
    by_row = graph.merge("wording", dry_run=True)
    by_property = graph.merge("wording", granularity="property", actor="cyd")
    assert (by_row.outcome, by_property.outcome) == ("conflicts", "merged")
    row = graph.entity("Finding", REWORDED)
    assert row is not None
    assert (row["text"], row["confidence"]) == (text, 0.7)
    say(f"by row: {by_row.outcome}; by property: {by_property.outcome}")
    say(f"'{REWORDED}' has Cyd's text and Ann's confidence of {row['confidence']}.")


def show_undo(graph: omnigraph.Graph) -> None:
    title("20. A commit is undone by another; what came later stays")
    published, *_ = (commit.id for commit in graph.commits() if commit.actor == "ann")
    graph.revert(published, actor="ann")
    assert graph.entity("Finding", "Sodium works") is None
    assert graph.entity("Finding", "Jars of wind") is not None
    say("'Sodium works', published before the review, is gone; what the review brought is there.")


def show_drawing(graph: omnigraph.Graph) -> None:
    title("21. The history of it all, newest first")
    graph.create_branch("ideas")
    _record(graph, "Tides by the moon", "wind", branch="ideas", actor="dan")
    branches = graph.branches()
    commits = [commit for name in branches for commit in graph.commits(name)]
    names = {name: graph.head(name) for name in branches}
    names |= {f"tag {name}": id for name, id in graph.tags().items()}
    lines = draw_history(commits, names=names)
    for line in lines:
        say(line)
    assert sum("*" in line for line in lines) == len({commit.id for commit in commits})


def _trust(
    graph: omnigraph.Graph, finding: str, confidence: float, *, branch: str, actor: str
) -> None:
    wanted = {"title": finding, "confidence": confidence}
    graph.mutate(read("queries.gq").text, wanted, name="trust", branch=branch, actor=actor)


def _record(graph: omnigraph.Graph, finding: str, topic: str, *, branch: str, actor: str) -> None:
    wanted = {"title": finding, "text": "to be written", "topic": topic, "confidence": 0.5}
    graph.mutate(read("queries.gq").text, wanted, name="record", branch=branch, actor=actor)


def _confidence(graph: omnigraph.Graph, branch: str) -> object:
    row = graph.entity("Finding", DISPUTED, branch=branch)
    assert row is not None
    return row["confidence"]


def _tell(change: Change) -> str:
    """A change as a reviewer wants to see it: of an update, only what is different."""
    before, after = change.before or {}, change.after or {}
    if change.kind == "edge":
        row = after or before
        return f"{change.op:6}  {change.type} '{row['src']}' -> '{row['dst']}'"
    differences = ", ".join(
        f"{name} {before[name]} -> {after[name]}"
        for name in after.keys() & before.keys()
        if before[name] != after[name]
    )
    return f"{change.op:6}  {change.type} '{change.id}' {differences}".rstrip()
