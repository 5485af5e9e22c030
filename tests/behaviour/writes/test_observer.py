"""An observer of a graph receives every event, in order."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.graph import open_graph
from omnigraph.engine.settings import make_settings
from omnigraph.errors import (
    CompileError,
    ExpectedVersionMismatchError,
    PreconditionFailedError,
    RecoveryRequiredError,
)
from omnigraph.model.ports import Event, NoObserver, Phase
from omnigraph.model.runtime import SystemRuntime
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import SOCIAL, ndjson, node, social_graph
from tests.support.queries import query

ADD_EVE = query('insert Person { name: "Eve" }')
OLD = query("match { $p: Person $p.age > 29 } return { $p.name }")
FRIENDS = query("match { $p: Person $p knows $f } return { $p.name, $f.name }")

WRITE = (
    Phase.RECOVER,
    Phase.CAPTURE,
    Phase.PREPARE,
    Phase.STAGE,
    Phase.LOCK,
    Phase.ARM,
    Phase.APPLY,
    Phase.PUBLISH,
    Phase.DISARM,
)


class RecordingObserver:
    """Records its events, the phases in the order in which they began."""

    def __init__(self) -> None:
        self.events: Counter[Event] = Counter()
        self.phases: list[Phase] = []
        self.open_phases: list[Phase] = []
        self.threads: set[int] = set()

    def count(self, event: Event) -> None:
        self.events[event] += 1

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        return self._during(phase)

    @contextmanager
    def _during(self, phase: Phase) -> Iterator[None]:
        self.phases.append(phase)
        self.open_phases.append(phase)
        self.threads.add(threading.get_ident())
        try:
            yield
        finally:
            assert self.open_phases.pop() is phase


def watch(
    root: Path,
    *,
    failpoints: Failpoints | None = None,
    meet: Callable[[], object] | None = None,
) -> tuple[Graph, RecordingObserver]:
    """The graph of a directory, opened again with an observer."""
    observer = RecordingObserver()
    settings = make_settings(str(root), storage_options=None, durability="relaxed")
    settings = replace(settings, observer=observer, failpoints=failpoints or settings.failpoints)
    if meet is not None:
        settings = replace(settings, runtime=MeetingRuntime(meet))
    return open_graph(settings, actor=None, is_read_only=False), forget(observer)


def forget(observer: RecordingObserver) -> RecordingObserver:
    """The observer without its events so far."""
    observer.events.clear()
    observer.phases.clear()
    return observer


class MeetingRuntime(SystemRuntime):
    """The clock and ids of the machine, with an interruption at the first requested id."""

    def __init__(self, meet: Callable[[], object]) -> None:
        super().__init__()
        self._meetings = [meet]

    def new_ids(self, count: int) -> list[str]:
        if self._meetings:
            self._meetings.pop()()
        return super().new_ids(count)


def test_a_write_is_observed_phase_by_phase(tmp_path: Path) -> None:
    social_graph(tmp_path)
    graph, observer = watch(tmp_path)

    graph.mutate(ADD_EVE)

    assert tuple(observer.phases) == WRITE
    assert observer.open_phases == []
    assert observer.threads == {threading.get_ident()}
    assert observer.events == {Event.COMMITTED: 1, Event.COMPILED_MISS: 1}


@pytest.mark.parametrize(
    "write",
    [
        lambda graph: graph.load(ndjson(node("Person", name="Eve")), mode="append"),
        lambda graph: graph.revert(graph.head()),
        lambda graph: graph.apply_schema(SOCIAL.replace("age: I32?", "age: I32?  town: String?")),
    ],
    ids=["load", "revert", "apply_schema"],
)
def test_every_kind_of_write_is_observed(tmp_path: Path, write: Callable[[Graph], object]) -> None:
    social_graph(tmp_path)
    graph, observer = watch(tmp_path)

    write(graph)

    assert observer.events[Event.COMMITTED] == 1
    assert set(WRITE) - {Phase.LOCK} <= set(observer.phases)


def test_a_write_that_changes_nothing_makes_no_commit(tmp_path: Path) -> None:
    social_graph(tmp_path)
    graph, observer = watch(tmp_path)

    graph.mutate(query('delete Person where name = "Absent"'))

    assert Event.COMMITTED not in observer.events
    assert observer.phases == [Phase.RECOVER, Phase.CAPTURE, Phase.PREPARE]


def test_an_overtaken_write_that_is_prepared_again_is_a_conflict_and_a_retry(
    tmp_path: Path,
) -> None:
    stranger = social_graph(tmp_path)
    fay = query('insert Person { name: "Fay" } insert Knows { from: "Fay", to: "Bob" }')
    graph, observer = watch(tmp_path, meet=lambda: stranger.mutate(fay))

    graph.mutate(query('insert Knows { from: "Alice", to: "Diana" }'))

    assert observer.events[Event.CONFLICTED] == 1
    assert observer.events[Event.RETRIED] == 1
    assert observer.events[Event.COMMITTED] == 1
    assert observer.phases.count(Phase.PREPARE) == 2


def test_a_write_that_was_overtaken_for_good_is_a_conflict_and_no_retry(tmp_path: Path) -> None:
    stranger = social_graph(tmp_path)
    aged = query('update Person set { age: 1 } where name = "Bob"')
    graph, observer = watch(tmp_path, meet=lambda: stranger.mutate(aged))
    text = query(
        'insert Knows { from: "Alice", to: "Diana" } update Person set { age: 2 } where age > 1'
    )

    with pytest.raises(ExpectedVersionMismatchError):
        graph.mutate(text)

    assert observer.events[Event.CONFLICTED] == 1
    assert Event.RETRIED not in observer.events
    assert Event.COMMITTED not in observer.events


def test_a_write_at_another_commit_than_it_names_is_a_conflict(tmp_path: Path) -> None:
    first = social_graph(tmp_path).commits()[0].id
    graph, observer = watch(tmp_path)

    with pytest.raises(PreconditionFailedError):
        graph.mutate(ADD_EVE, if_commit=first)

    assert observer.events == {Event.CONFLICTED: 1}


def test_a_retried_request_is_observed_without_a_commit(tmp_path: Path) -> None:
    social_graph(tmp_path)
    graph, observer = watch(tmp_path)

    graph.mutate(ADD_EVE, idempotency_key="k")
    graph.mutate(ADD_EVE, idempotency_key="k")

    assert observer.events[Event.COMMITTED] == 1
    assert observer.events[Event.REPEATED] == 1


@pytest.mark.parametrize(
    ("place", "event"),
    [
        (Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, Event.ROLLED_FORWARD),
        (Failpoint.GRAPH_PUBLISH_AFTER_MANIFEST_COMMIT, Event.ROLLED_FORWARD),
    ],
)
def test_a_recovery_is_observed_with_its_outcome(
    tmp_path: Path, place: Failpoint, event: Event
) -> None:
    social_graph(tmp_path)
    failpoints = Failpoints()
    graph, observer = watch(tmp_path, failpoints=failpoints)
    with failpoints.activate(place, FAIL_ALWAYS), pytest.raises(RecoveryRequiredError):
        graph.mutate(ADD_EVE)
    assert Event.COMMITTED not in observer.events

    forget(observer)
    graph.refresh()

    assert observer.events == {event: 1}
    assert observer.phases == [Phase.RECOVER]


def test_an_undone_write_is_observed(tmp_path: Path) -> None:
    social_graph(tmp_path)
    failpoints = Failpoints()
    graph, observer = watch(tmp_path, failpoints=failpoints)
    place = Failpoint.MUTATION_DELETE_NODE_PRE_PRIMARY_DELETE
    with failpoints.activate(place, FAIL_ALWAYS), pytest.raises(RecoveryRequiredError):
        graph.mutate(query('delete Person where name = "Alice"'))

    graph.refresh()

    assert observer.events == {Event.COMPILED_MISS: 1, Event.ROLLED_BACK: 1}


def test_a_query_is_observed_phase_by_phase_and_as_cached_from_the_second_run_on(
    tmp_path: Path,
) -> None:
    social_graph(tmp_path)
    graph, observer = watch(tmp_path)

    graph.query(FRIENDS)
    cold, phases = Counter(observer.events), tuple(observer.phases)
    forget(observer)
    graph.query(FRIENDS)

    assert phases == tuple(observer.phases) == (Phase.PIN, Phase.COMPILE, Phase.RUN)
    assert cold[Event.COMPILED_MISS] == 1
    assert cold[Event.CACHE_MISS] > 0
    assert observer.events[Event.COMPILED_HIT] == 1
    assert observer.events[Event.CACHE_HIT] > 0
    assert not {Event.COMPILED_MISS, Event.CACHE_MISS} & observer.events.keys()


def test_a_phase_that_fails_ends(tmp_path: Path) -> None:
    social_graph(tmp_path)
    graph, observer = watch(tmp_path)

    with pytest.raises(CompileError):
        graph.query("query q() { match { $p: Persn } return { $p.name } }")

    assert observer.phases == [Phase.PIN, Phase.COMPILE]
    assert observer.open_phases == []


def test_an_observer_changes_no_result(tmp_path: Path) -> None:
    plain = social_graph(tmp_path)
    watched, _ = watch(tmp_path)

    assert watched.query(OLD).rows == plain.query(OLD).rows
    with omnigraph.open(str(tmp_path)) as unwatched:
        assert list(watched.export()) == list(unwatched.export())


def test_a_graph_without_an_observer_creates_no_events() -> None:
    unobserved = NoObserver()
    given: Sequence[AbstractContextManager[None]] = [unobserved.phase(each) for each in Phase]

    assert all(each is given[0] for each in given)
