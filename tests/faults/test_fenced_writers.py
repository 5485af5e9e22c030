"""A writer on an object store that pauses, loses its lease and resumes does no harm.

It is stopped before and after each of its durable effects while another process takes over: then it
resumes with stale state. Its clock pauses as well, so nothing warns it. Whatever it reports, its
write took effect as a whole or not at all, history is linear, and the graph accepts writes.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import lance
import pytest

from omnigraph import Graph
from omnigraph.engine.commit.publish import Fence
from omnigraph.engine.graph import init_graph
from omnigraph.engine.results import MutationResult
from omnigraph.engine.settings import Settings, make_settings, open_stores
from omnigraph.engine.state.branch_state import BranchStates
from omnigraph.errors import GraphError, Outcome
from omnigraph.storage.locks import LockKey
from tests.support.clocks import TTL_S, HandClock, make_locking, open_locks
from tests.support.crashing import SimulatedCrash
from tests.support.graphs import SOCIAL, contents, require_linear, rows
from tests.support.parking import Parking, Stop, stopping
from tests.support.processes import started
from tests.support.queries import query
from tests.support.s3_server import S3Server, serve_s3

# A lease, a sidecar, two types, a publish; the sidecar is deleted, the lease released.
WRITE_EFFECTS_MIN = 7
FIRST_APPLY, LAST_APPLY, PUBLISH = 3, 4, 5

# A lease, two types undone, a publish, the audit; the sidecar is deleted, the lease released.
RECOVERY_EFFECTS_MIN = 7
EFFECTS_MAX = 40
PATIENCE_S = 120.0

PERSON_AND_COMPANY = query(
    "insert Person { name: $n } insert Company { name: $n }", parameters="$n: String"
)
PERSON = query("insert Person { name: $n }", parameters="$n: String")

STOPPED = """
import json, sys
from dataclasses import replace
from omnigraph.engine.graph import Graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.errors import GraphError
from omnigraph.model.runtime import SystemClock
from tests.support.clocks import make_locking
from tests.support.parking import Stop, stopping

def stand_still():
    print("stopped", flush=True)
    sys.stdin.readline()

uri, options, at, source = sys.argv[1:]
settings = make_settings(uri, storage_options=json.loads(options), durability="relaxed")
settings = replace(settings, locking=make_locking(SystemClock(), ttl_s=1.0))
stop = Stop(at=int(at), is_after=True, stand_still=stand_still)
graph = Graph(settings, stopping(open_stores(settings), stop), actor="ann", is_read_only=False)
graph.head()
stop.arm()
try:
    print(graph.mutate(source, {"n": "Eve"}).commit_id)
except GraphError as error:
    print(error.outcome)
"""


@dataclass(frozen=True)
class Place:
    """A graph in a bucket, which any number of processes open."""

    settings: Settings

    def open(self, stop: Stop | None = None) -> tuple[Graph, HandClock]:
        """The graph as a process of its own has it, and its clock."""
        clock = HandClock()
        settings = replace(self.settings, locking=make_locking(clock))
        stores = open_stores(settings)
        graph = Graph(
            settings, stopping(stores, stop) if stop else stores, actor=None, is_read_only=False
        )
        return graph, clock


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """One endpoint for the module."""
    with serve_s3() as running:
        yield running


@pytest.fixture
def place(server: S3Server) -> Place:
    """An empty graph in a bucket of its own."""
    uri = f"s3://{server.create_bucket()}/graph"
    settings = make_settings(uri, storage_options=server.lance_options(), durability="relaxed")
    init_graph(settings, schema=SOCIAL, is_forced=False)
    return Place(settings)


Action = Callable[[Place, str], None]


def recover(place: Place, branch: str) -> None:
    """Open the graph, wait until the other's time is up, and recover what it left."""
    del branch
    graph, clock = place.open()
    graph.refresh()
    clock.sleep(TTL_S)
    graph.refresh()


def write(place: Place, branch: str) -> None:
    """Write to one of the types that the other writes, once the lease is free."""
    graph, _ = place.open()
    graph.mutate(PERSON, {"n": f"other-{graph.head(branch)}"}, branch=branch)


def update(place: Place, branch: str) -> None:
    """Change a row of one of the types that the other writes, once the lease is free."""
    graph, _ = place.open()
    graph.mutate(query('update Person set { age: 1 } where name = "Ann"'), branch=branch)


def take_a_turn(place: Place) -> None:
    """Seize the lease of the main branch, do nothing with it, and let it go."""
    stores = open_stores(place.settings)
    branch_states = BranchStates(uri="", objects=stores.objects, tables=stores.tables)
    locks = open_locks(
        place.settings.location,
        make_locking(HandClock()),
        timeout_s=PATIENCE_S,
        fence=Fence(branch_states, stores.tables),
    )
    with locks.hold([LockKey("node:Person", None)]) as held:
        assert held.is_held()


BEFORE, AFTER, ON_MAIN, ON_BRANCH = False, True, False, True
STORIES = [
    pytest.param(recover, ON_MAIN, BEFORE, id="it is recovered"),
    pytest.param(
        recover, ON_MAIN, AFTER, id="it is recovered, and knows less", marks=pytest.mark.exhaustive
    ),
    pytest.param(write, ON_MAIN, BEFORE, id="rows are added"),
    pytest.param(
        write, ON_MAIN, AFTER, id="rows are added, and it knows less", marks=pytest.mark.exhaustive
    ),
    pytest.param(update, ON_MAIN, BEFORE, id="rows are changed", marks=pytest.mark.exhaustive),
    pytest.param(
        recover, ON_BRANCH, BEFORE, id="it is recovered on a branch", marks=pytest.mark.exhaustive
    ),
    pytest.param(write, ON_BRANCH, BEFORE, id="rows are added on a branch"),
]


@pytest.mark.parametrize(("action", "is_on_branch", "is_after"), STORIES)
def test_g41_a_writer_resumed_without_its_lease_does_no_harm(
    place: Place, action: Action, *, is_on_branch: bool, is_after: bool
) -> None:
    graph, _ = place.open()
    graph.mutate(PERSON, {"n": "Ann"})

    for at in range(1, EFFECTS_MAX):
        branch = f"draft-{at}" if is_on_branch else "main"
        if is_on_branch:
            graph.create_branch(branch)
        parking = Parking(timeout_s=PATIENCE_S)
        stop = Stop(at=at, is_after=is_after, stand_still=parking.stand_still)
        writer, _ = place.open(stop)
        call = partial(writer.mutate, PERSON_AND_COMPANY, {"n": f"eve-{at}"}, branch=branch)
        ended = run_with_a_stop(call, stop, parking, partial(action, place, branch))
        require_harmless(place, branch, f"eve-{at}", ended, stop)
        if stop.hit is None:
            assert at > WRITE_EFFECTS_MIN, "the sweep went blind"
            return
    raise AssertionError("no end")


@pytest.mark.parametrize("has_looked", [False, True])
def test_g41_a_publish_is_refused_once_another_process_held_the_lease(
    place: Place, *, has_looked: bool
) -> None:
    parking = Parking(timeout_s=PATIENCE_S)
    stop = Stop(
        at=LAST_APPLY if has_looked else PUBLISH,
        is_after=has_looked,
        stand_still=parking.stand_still,
    )
    writer, _ = place.open(stop)

    def meanwhile() -> None:
        take_a_turn(place)
        if has_looked:
            # Now its process knows the manifest from after the fence, and would not collide.
            writer.head()

    call = partial(writer.mutate, PERSON_AND_COMPANY, {"n": "Eve"})
    ended = run_with_a_stop(call, stop, parking, meanwhile)

    assert ended == Outcome.UNCERTAIN, "it published, and another had seized its lease"
    require_harmless(place, "main", "Eve", ended, stop)
    graph, _ = place.open()
    assert [each.kind for each in graph.recoveries()] == ["RolledForward"]


def test_a_writer_that_was_undone_before_it_moved_anything_can_move_nothing_any_more(
    place: Place,
) -> None:
    parking = Parking(timeout_s=PATIENCE_S)
    stop = Stop(at=FIRST_APPLY, is_after=False, stand_still=parking.stand_still)
    writer, _ = place.open(stop)
    call = partial(writer.mutate, PERSON_AND_COMPANY, {"n": "Eve"})

    ended = run_with_a_stop(call, stop, parking, partial(recover, place, "main"))

    graph, _ = place.open()
    assert [each.kind for each in graph.recoveries()] == ["RolledBack"]
    assert ended == graph.head(), "it was refused before anything moved, and wrote again"
    require_harmless(place, "main", "Eve", ended, stop)


def test_a_recovery_resumed_without_its_lease_does_no_harm(place: Place) -> None:
    for at in range(1, EFFECTS_MAX):
        die_half_way(place, f"eve-{at}")
        parking = Parking(timeout_s=PATIENCE_S)
        stop = Stop(at=at, is_after=False, stand_still=parking.stand_still)
        recoverer, _ = place.open(stop)
        run_with_a_stop(recoverer.refresh, stop, parking, partial(recover, place, "main"))
        require_harmless(place, "main", f"eve-{at}", Outcome.UNCHANGED, stop)
        if stop.hit is None:
            assert at > RECOVERY_EFFECTS_MIN, "the sweep went blind"
            return
    raise AssertionError("no end")


@pytest.mark.parametrize(("effect", "is_finished"), [(3, False), (4, True)])
def test_g41_a_process_that_is_stopped_and_resumed_reports_the_true_outcome(
    place: Place, server: S3Server, effect: int, *, is_finished: bool
) -> None:
    options = json.dumps(server.lance_options())
    uri = place.settings.location.uri
    with started(STOPPED, uri, options, str(effect), PERSON_AND_COMPANY) as stopped:
        assert stopped.stdout
        assert stopped.stdin
        assert stopped.stdout.readline() == "stopped\n"
        stopped.send_signal(signal.SIGSTOP)

        recover(place, "main")
        stopped.stdin.write("go\n")
        stopped.stdin.flush()
        stopped.send_signal(signal.SIGCONT)
        ended = stopped.stdout.readline().strip()
        stopped.wait()

    graph, _ = place.open()
    assert ended == (graph.head() if is_finished else Outcome.UNCERTAIN)
    _require_harmless(place, "main", "Eve", ended)
    assert ("Eve" in rows(graph, "Person")) is is_finished


def die_half_way(place: Place, name: str) -> None:
    """Write two types and die when one of them has moved."""

    def die() -> None:
        raise SimulatedCrash

    stop = Stop(at=FIRST_APPLY, is_after=True, stand_still=die)
    graph, _ = place.open(stop)
    graph.head()
    stop.arm()
    with pytest.raises(SimulatedCrash):
        graph.mutate(PERSON_AND_COMPANY, {"n": name})
    assert stop.hit == "apply"


def run_with_a_stop(
    call: Callable[[], object], stop: Stop, parking: Parking, meanwhile: Callable[[], None]
) -> str:
    """Start a call, stop it, run something else, resume it; the reported outcome."""
    ended: list[str] = []

    def run() -> None:
        try:
            result = call()
        except GraphError as error:
            ended.append(error.outcome)
        else:
            ended.append(str(result.commit_id) if isinstance(result, MutationResult) else "")

    stop.arm()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        if parking.has_arrived(thread):
            meanwhile()
    finally:
        parking.release()
        thread.join()
    return ended[0]


def require_harmless(place: Place, branch: str, name: str, ended: str, stop: Stop) -> None:
    """Fail unless the graph is whole, and the outcome that its writer received is true."""
    try:
        _require_harmless(place, branch, name, ended)
    except (AssertionError, GraphError) as error:
        error.add_note(f"{stop}; outcome: {ended}")
        raise


def _require_harmless(place: Place, branch: str, name: str, ended: str) -> None:
    graph, clock = place.open()
    graph.refresh()
    clock.sleep(TTL_S)
    graph.refresh()

    require_sound(graph, place, branch)
    found = contents(graph, branch)
    is_there = name in found.get("Person", {})
    assert is_there == (name in found.get("Company", {})), "half of it is there"
    ids = [commit.id for commit in graph.commits(branch)]
    match ended:
        case Outcome.UNCHANGED | Outcome.MOVED:
            assert not is_there
        case Outcome.UNCERTAIN:
            pass
        case Outcome.BROKEN:
            raise AssertionError("nothing is broken")
        case commit_id:
            assert is_there
            assert ids.count(commit_id) == 1
    graph.mutate(PERSON_AND_COMPANY, {"n": f"after-{name}"}, branch=branch)
    require_sound(graph, place, branch)


def require_sound(graph: Graph, place: Place, branch: str) -> None:
    """Fail unless nothing is under way, history is a line, and it names what there is."""
    location = place.settings.location
    records = open_stores(place.settings).objects.list("__recovery").token_by_name
    assert records == {}
    require_linear(graph.commits(branch))
    own = None if branch == "main" else branch
    for key, table in graph.tables(branch).items():
        if table.branch == own:
            opened = lance.dataset(table.path, storage_options=dict(location.storage_options))
            assert opened.latest_version == table.version, f"{key} is ahead of history"
