"""The part of the demo about branches: review, a conflict, merges and history."""

from time import perf_counter

import omnigraph
from demo.history import draw_history
from demo.output import read, say, title
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
    """Change the graph of the other sections on several branches and merge them."""
    show_branches(graph)
    show_review(graph)
    show_conflict(graph)
    show_decision(graph)
    show_property_merge(graph)
    show_undo(graph)
    show_drawing(graph)


def show_branches(graph: omnigraph.Graph) -> None:
    title("15. A branch is an independent state of the whole graph; creating one copies no rows")
    graph.tag("before-review", graph.head())
    started = perf_counter()
    graph.create_branch("review")
    seconds = perf_counter() - started
    rows = sum(table.row_count for table in graph.tables("review").values())
    say(f"'review' was created in {seconds * 1000:.0f} ms and contains all {rows:,} rows.")
    _trust(graph, DISPUTED, 0.95, branch="review", actor="bea")
    _record(graph, "Jars of wind", "wind", branch="review", actor="bea")
    graph.mutate(WITHDRAW, {"title": "Finding 7"}, branch="review", actor="bea")
    assert (_confidence(graph, "main"), _confidence(graph, "review")) == (0.8, 0.95)
    say(f"Bea set the confidence of '{DISPUTED}' to 0.95 on review; on main it is still 0.8.")


def show_review(graph: omnigraph.Graph) -> None:
    title("16. A review: the exact changes of the branch, found without a full scan")
    started = perf_counter()
    changes = graph.diff("main", "review")
    seconds = perf_counter() - started
    for change in changes:
        say(_describe(change))
    stats = changes.stats
    # Deleting a finding also deletes its edges.
    assert (stats.inserts, stats.updates, stats.deletes) == (2, 1, 2)
    say(f"{len(changes)} changes found in {seconds * 1000:.0f} ms.")


def show_conflict(graph: omnigraph.Graph) -> None:
    title("17. A conflict: both sides changed the same property; the merge writes nothing")
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
    say("The head of main has not changed.")


def show_decision(graph: omnigraph.Graph) -> None:
    title("18. A person resolves the conflict, and the merge is one commit with two parents")
    merged = graph.merge("review", resolve={("Finding", DISPUTED): "source"}, actor="bea")
    commit = graph.commits()[-1]
    assert (merged.outcome, commit.merged_parent_id) == ("merged", graph.head("review"))
    assert _confidence(graph, "main") == 0.95
    assert graph.entity("Finding", "Jars of wind") is not None
    assert graph.entity("Finding", "Finding 7") is None
    assert graph.merge("review").outcome == "already_up_to_date"
    say(f"{merged.outcome}: commit {merged.commit_id}")
    for each in commit.notes.resolutions:
        say(f"The commit records the resolution: {each.type} '{each.id}' from the {each.choice}.")


def show_property_merge(graph: omnigraph.Graph) -> None:
    title("19. Different properties of one row: no conflict if the merge compares properties")
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
    title("20. A revert undoes one commit; later commits stay")
    published, *_ = (commit.id for commit in graph.commits() if commit.actor == "ann")
    graph.revert(published, actor="ann")
    assert graph.entity("Finding", "Sodium works") is None
    assert graph.entity("Finding", "Jars of wind") is not None
    say(
        "'Sodium works', published before the review, is deleted; the changes of the review remain."
    )


def show_drawing(graph: omnigraph.Graph) -> None:
    title("21. The history of all branches, newest first")
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
    params = {"title": finding, "confidence": confidence}
    graph.mutate(read("queries.gq").text, params, name="trust", branch=branch, actor=actor)


def _record(graph: omnigraph.Graph, finding: str, topic: str, *, branch: str, actor: str) -> None:
    params = {"title": finding, "text": "to be written", "topic": topic, "confidence": 0.5}
    graph.mutate(read("queries.gq").text, params, name="record", branch=branch, actor=actor)


def _confidence(graph: omnigraph.Graph, branch: str) -> object:
    row = graph.entity("Finding", DISPUTED, branch=branch)
    assert row is not None
    return row["confidence"]


def _describe(change: Change) -> str:
    """Describe a change for a review: of an update, only the changed properties."""
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
