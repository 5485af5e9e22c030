"""An operation on S3 in which any request fails in any way takes effect or not, as it reported.

The sweep over effects says so of both ports; here requests are counted, of which an effect takes
several, and which clients repeat by themselves. States of the bucket that differ in generated names
only, after the same result, are checked once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.errors import AlreadyExistsError, GraphError, NotFoundError, Outcome
from tests.support.graphs import edge, ndjson, node
from tests.support.s3_faults import (
    MADE_UP,
    FaultyS3,
    IsNew,
    RequestFault,
    Scope,
    ScopeByWay,
    Swept,
    Way,
    each_request,
    requests_to_hit,
    serve_faulty_s3,
    shape,
)
from tests.support.s3_server import S3Request, serve_s3
from tests.support.sweeps import (
    EITHER,
    Reached,
    State,
    States,
    operate_under_fault,
    require_consistent,
    state_of,
)
from tests.support.tiers import sample
from tests.support.writes import Write, load, mutate

SIDECARS = "__recovery/"

SCHEMA = """
node Person { name: String @key  age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person
"""
SMALLEST_SCHEMA = "node Person { name: String @key  age: I32? }"
EMPTY: State = {"main": {}}

PEOPLE = (
    node("Person", name="Alice", age=30),
    node("Person", name="Bob", age=25),
    node("Company", name="Acme"),
    edge("Knows", "Alice", "Bob"),
)

# A request that only reads has no effect whose response could be lost.
EVERY_WAY: ScopeByWay = {
    Way.REFUSED: Scope.ALL,
    Way.BUSY: Scope.ALL,
    Way.LOST: Scope.WRITES,
    Way.REFUSED_FOR_EVER: Scope.WRITES,
    Way.CUT: Scope.WRITES,
}

# The others leave nothing in the bucket that these do not leave one request earlier or later.
WAYS_OF_RECOVERIES: ScopeByWay = {
    Way.REFUSED: Scope.WRITES,
    Way.LOST: Scope.WRITES,
    Way.CUT: Scope.WRITES,
}

# A sidecar written and deleted; a file of rows, one of the transaction and one of the version for
# the table and for the manifest. And as many looks at what is there.
REQUESTS_MIN = 2 * (2 + 2 * 3)

DELETE_ALICE = mutate('delete Person where name = "Alice"')


def start_a_branch(graph: Graph) -> None:
    """A branch that differs in nothing yet."""
    graph.create_branch("draft")


def delete_the_branch(graph: Graph) -> None:
    """Delete the branch that has table branches."""
    graph.delete_branch("draft")


def write_on_a_branch(graph: Graph) -> object:
    """A load of a type that the branch has not written yet."""
    return graph.load(ndjson(node("Person", name="Fay")), mode="append", branch="draft")


WRITES: Mapping[str, Write] = {
    "an insert": mutate('insert Person { name: "Eve" }'),
    "inserts of two types": mutate(
        'insert Person { name: "Eve" } insert Knows { from: "Eve", to: "Bob" }'
    ),
    "an update": mutate('update Person set { age: 31 } where name = "Alice"'),
    "a delete that cascades": DELETE_ALICE,
    "an append": load(node("Company", name="Initech")),
    "a merge": load(node("Person", name="Bob", age=26), node("Person", name="Eve"), mode="merge"),
    "an overwrite": load(edge("Knows", "Bob", "Bob"), mode="overwrite"),
}


@pytest.fixture(scope="module")
def s3() -> Iterator[FaultyS3]:
    """One endpoint for the module; every test sets its bucket back."""
    with serve_faulty_s3() as running:
        yield running


# Writing


@pytest.mark.parametrize("write", sample(WRITES, representative=("inserts of two types",)))
def test_a_write_is_atomic_when_any_request_fails(s3: FaultyS3, write: Write) -> None:
    build_people(s3)

    swept = sweep_write(s3, write)

    require_sighted(swept, ways=EVERY_WAY, requests_min=REQUESTS_MIN)


def test_a_branch_creation_is_atomic_when_any_request_fails(s3: FaultyS3) -> None:
    build_people(s3)

    swept = sweep_write(s3, start_a_branch)

    # Its first version, the transaction of that, and the reference that lists it.
    require_sighted(swept, ways=EVERY_WAY, requests_min=2 * 3)


@pytest.mark.exhaustive
def test_a_branch_deletion_is_atomic_when_any_request_fails(s3: FaultyS3) -> None:
    graph = build_people(s3)
    graph.create_branch("draft")
    write_on_a_branch(graph)

    swept = sweep_write(s3, delete_the_branch)

    # The reference that lists it and the two that list its lines.
    require_sighted(swept, ways=EVERY_WAY, requests_min=2 * 3)


@pytest.mark.exhaustive
def test_a_first_write_on_a_branch_is_atomic_when_any_request_fails(
    s3: FaultyS3,
) -> None:
    build_people(s3).create_branch("draft")

    swept = sweep_write(s3, write_on_a_branch)

    require_sighted(swept, ways=EVERY_WAY, requests_min=REQUESTS_MIN + 2 * 3)


def sweep_write(s3: FaultyS3, write: Write) -> Swept:
    """Hit a write at each of its requests in each way, and look at the graph afterwards."""
    before = s3.stored()
    states = states_of_unharmed(s3, write)

    def play(fault: RequestFault, is_new: IsNew) -> None:
        put_back(s3, before)
        graph = open_graph(s3)
        with s3.failing(fault):
            allowed = operate_under_fault(write, graph)
        if fault.hit is None or fault.way in (Way.BUSY, Way.LOST):
            assert allowed == {Reached.NEW}, "clients repeat it, so it need not fail"
        if is_new((allowed, shape(s3.stored(), before=before))):
            reached, graph = require_recovered(s3, states, allowed=allowed)
            if reached is Reached.OLD:
                write(graph)
            require_writable(s3, graph, states.new)

    return each_request(play, ways=EVERY_WAY)


def states_of_unharmed(s3: FaultyS3, write: Write) -> States:
    """What a graph is before a write that nothing disturbs, and after it."""
    graph = open_graph(s3)
    old = state_of(graph)
    write(graph)
    new = state_of(graph)
    assert new != old, "the write does nothing, so a sweep of it proves nothing"
    require_sound(s3, graph, new)
    return States((old,), new)


# Recovering


def test_a_recovery_of_which_any_request_fails_has_the_same_outcome(s3: FaultyS3) -> None:
    build_people(s3)
    before = s3.stored()
    commits_before = len(open_graph(s3).commits())

    for half_way in states_half_way(s3, DELETE_ALICE, before=before):
        swept = sweep_recovery(s3, half_way, commits_before=commits_before)
        # It is written down as a version of a table of its own, and the sidecar goes.
        require_sighted(swept, ways=WAYS_OF_RECOVERIES, requests_min=3 + 1)


def states_half_way(
    s3: FaultyS3, write: Write, *, before: Mapping[str, bytes]
) -> Sequence[Mapping[str, bytes]]:
    """What a write of two types leaves that stops for ever after the first, and after both."""
    stored_by_versions: dict[int, Mapping[str, bytes]] = {}
    for fault in requests_to_hit(Way.REFUSED_FOR_EVER, Scope.WRITES):
        put_back(s3, before)
        graph = open_graph(s3)
        with s3.failing(fault):
            operate_under_fault(write, graph)
        stored = s3.stored()
        if any(key.startswith(SIDECARS) for key in stored):
            versions = sum("/_versions/" in key for key in stored.keys() - before.keys())
            stored_by_versions.setdefault(versions, stored)
    assert stored_by_versions.keys() == {0, 1, 2, 3}, "two types, and the manifest after both"
    # What moved half of its types is undone, what moved all of them finished.
    return stored_by_versions[1], stored_by_versions[2]


def sweep_recovery(s3: FaultyS3, half_way: Mapping[str, bytes], *, commits_before: int) -> Swept:
    """Hit the recovery of a write at each of its requests, and look where the next one ends."""
    put_back(s3, half_way)
    seen = state_of(open_graph(s3, is_read_only=True))
    states = States((seen,), state_of(open_graph(s3)))

    def play(fault: RequestFault, is_new: IsNew) -> None:
        put_back(s3, half_way)
        with s3.failing(fault):
            is_reported = try_to_recover(s3)
        if fault.hit is None or fault.way is Way.LOST:
            assert is_reported, "clients repeat it, so it need not fail"
        if is_new((is_reported, shape(s3.stored(), before=half_way))):
            reached, graph = require_recovered(s3, states, allowed=EITHER)
            assert reached is Reached.NEW
            assert len(graph.recoveries()) == 1
            assert len(graph.commits()) - commits_before <= 1, "a write was ended twice"
            require_writable(s3, graph, states.new)

    return each_request(play, ways=WAYS_OF_RECOVERIES)


def try_to_recover(s3: FaultyS3) -> bool:
    """Recover the graph as far as its storage lets us; whether that was said to be all."""
    settings = make_settings(s3.uri, storage_options=s3.options, durability="full")
    graph = Graph(settings, open_stores(settings), actor=None, is_read_only=False)
    try:
        graph.refresh()
    except GraphError as error:
        if error.outcome is Outcome.BROKEN:
            raise
        return False
    return True


# Creating


def test_a_creation_of_which_any_request_fails_is_a_whole_graph_or_can_be_repeated(
    s3: FaultyS3,
) -> None:
    def play(fault: RequestFault, is_new: IsNew) -> None:
        s3.start_over({})
        with s3.failing(fault):
            outcome = create(s3)
        if fault.hit is None or fault.way is Way.BUSY:
            assert outcome is None
        if is_new((outcome, fault.way, shape(s3.stored(), before={}))):
            require_created_or_creatable(s3, fault, outcome)

    swept = each_request(play, ways=EVERY_WAY)

    # Three files of the schema, a version and its transaction for the type, two for the manifest.
    require_sighted(swept, ways=EVERY_WAY, requests_min=2 * (3 + 2 + 4))


def create(s3: FaultyS3) -> Outcome | None:
    """The outcome that a creation reported; None if the graph exists."""
    try:
        omnigraph.init(s3.uri, schema=SMALLEST_SCHEMA, storage_options=s3.options)
    except GraphError as error:
        return error.outcome
    return None


def require_created_or_creatable(
    s3: FaultyS3, fault: RequestFault, outcome: Outcome | None
) -> None:
    """Fail unless there is a whole graph, or none and nothing that prevents its creation."""
    try:
        graph = open_graph(s3)
    except GraphError as error:
        assert outcome is not None, "it was reported as created"
        may_be_left = not isinstance(error, NotFoundError) and may_leave_something(fault)
        graph = create_again(s3, may_be_forced=may_be_left)
    else:
        assert outcome in (None, Outcome.UNCERTAIN), "it was reported as not created"
    require_sound(s3, graph, EMPTY)
    with s3.untouched():
        graph = open_graph(s3)
    require_writable(s3, graph, EMPTY)


def may_leave_something(fault: RequestFault) -> bool:
    """Whether a creation may leave files that only `force` removes."""
    # The owner of the schema's text is unknown if the response to its claim was lost.
    is_claim_in_doubt = fault.way is Way.LOST and (fault.hit or "").endswith("/_schema.pg")
    return is_claim_in_doubt or fault.way in (Way.REFUSED_FOR_EVER, Way.CUT)


def create_again(s3: FaultyS3, *, may_be_forced: bool) -> Graph:
    """A graph where another creation has failed."""
    try:
        return omnigraph.init(s3.uri, schema=SMALLEST_SCHEMA, storage_options=s3.options)
    except AlreadyExistsError:
        assert may_be_forced, "something of it is left"
        return omnigraph.init(
            s3.uri, schema=SMALLEST_SCHEMA, force=True, storage_options=s3.options
        )


# The endpoint itself


def test_the_endpoint_in_memory_responds_as_moto_does(s3: FaultyS3) -> None:
    s3.start_over({})
    with s3.recording() as requests:
        state = play_story(s3.uri, s3.options)

    with serve_s3() as moto:
        uri = f"s3://{moto.create_bucket()}/{s3.prefix}"
        with moto.recording() as requests_of_moto:
            state_on_moto = play_story(uri, moto.lance_options())

    assert state == state_on_moto
    assert summary(requests) == summary(requests_of_moto)


def play_story(uri: str, options: Mapping[str, str]) -> State:
    """Every kind of write, one after the other."""
    graph = omnigraph.init(uri, schema=SCHEMA, storage_options=options)
    load(*PEOPLE)(graph)
    for write in WRITES.values():
        write(graph)
    start_a_branch(graph)
    write_on_a_branch(graph)
    return state_of(omnigraph.open(uri, storage_options=options))


def summary(requests: list[S3Request]) -> Counter[Hashable]:
    """Each request without made-up names, and how often it was made.

    Reading rows counts once: if two tasks of Lance want a file at the same moment, both ask for it.
    """
    counted = Counter(
        (each.method, MADE_UP.sub("*", each.key), each.query, each.is_conditional, each.status)
        for each in requests
    )
    is_read = {each: each[0] == "GET" and "/data/" in each[1] for each in counted}
    return Counter({each: 1 if is_read[each] else times for each, times in counted.items()})


# Looking


def build_people(s3: FaultyS3) -> Graph:
    """Two people who know each other and a company, in an otherwise empty bucket."""
    s3.start_over({})
    graph = omnigraph.init(s3.uri, schema=SCHEMA, storage_options=s3.options)
    load(*PEOPLE)(graph)
    return graph


def put_back(s3: FaultyS3, stored: Mapping[str, bytes]) -> None:
    """Make the bucket hold a graph as it was; in another place, for processes remember places.

    Branches cannot be moved: Lance notes in them where the files of their base are.
    """
    if any("/tree/" in path for path in stored):
        s3.set_back(stored)
    else:
        s3.start_over(stored)


def open_graph(s3: FaultyS3, *, is_read_only: bool = False) -> Graph:
    """The graph of the bucket, as any process finds it."""
    return omnigraph.open(s3.uri, read_only=is_read_only, storage_options=s3.options)


def require_recovered(
    s3: FaultyS3, states: States, *, allowed: frozenset[Reached]
) -> tuple[Reached, Graph]:
    """Where a graph is once it has been opened; fail unless it is whole there, and stays there."""
    seen = states.reached(state_of(open_graph(s3, is_read_only=True)))
    assert seen in allowed, f"a reader finds it {seen.value}"
    graph = open_graph(s3)
    state = state_of(graph)
    reached = states.reached(state)
    assert reached in allowed, f"the next open leaves it {reached.value}"
    assert seen is Reached.OLD or reached is Reached.NEW, "what a reader has seen was undone"
    require_sound(s3, graph, state)
    with s3.untouched():
        graph = open_graph(s3)
    return reached, graph


def require_sound(s3: FaultyS3, graph: Graph, state: State) -> None:
    """Fail unless nothing is under way, history is a line, and it names what there is."""
    stored = s3.stored()
    assert [key for key in stored if key.startswith(SIDECARS)] == []
    require_consistent(
        graph,
        state,
        newest=lambda path: newest_version(stored, path.removeprefix(f"{s3.uri}/")),
    )


def newest_version(stored: Mapping[str, bytes], path: str) -> int:
    """The newest version of a table, by the names of the files that describe them."""
    folder = f"{path}/_versions/"
    names = [key.removeprefix(folder) for key in stored if key.startswith(folder)]
    return max(2**64 - 1 - int(name.removesuffix(".manifest")) for name in names)


def require_writable(s3: FaultyS3, graph: Graph, state: State) -> None:
    """Fail unless every branch of a graph in this state takes a write and is sound after it."""
    for branch in state:
        graph.load(ndjson(node("Person", name="Zed", age=99)), mode="append", branch=branch)
    zed = json.dumps({"age": 99, "name": "Zed"})
    written = {
        branch: {**rows, "Person": sorted([*rows.get("Person", ()), zed])}
        for branch, rows in state.items()
    }
    assert state_of(graph) == written
    require_sound(s3, graph, written)


def require_sighted(swept: Swept, *, ways: ScopeByWay, requests_min: int) -> None:
    """Fail if a sweep saw fewer requests than there are, or did not hit them in every way."""
    assert swept.requests >= requests_min, "the sweep went blind"
    assert swept.states >= len(ways) * requests_min // 2
