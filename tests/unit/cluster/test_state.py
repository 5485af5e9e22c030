"""The ledger as it is stored: what is written is what is read, and nothing else is taken."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.cluster.resources import digest_graph
from omnigraph.cluster.state import (
    APPLIED,
    EMPTY,
    AppliedResource,
    ClusterState,
    ResourceStatus,
    ShapeError,
    Status,
    VersionError,
    decode_ledger,
    encode_ledger,
)

IDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1)
ADDRESSES = st.one_of(
    IDS.map(lambda id: f"graph.{id}"),
    IDS.map(lambda id: f"schema.{id}"),
    st.tuples(IDS, IDS).map(lambda pair: f"query.{pair[0]}.{pair[1]}"),
    IDS.map(lambda id: f"policy.{id}"),
    IDS.map(lambda id: f"provider.embedding.{id}"),
)
RESOURCES = st.builds(
    AppliedResource,
    digest=TEXTS,
    applies_to=st.none() | st.lists(TEXTS, max_size=3).map(tuple),
    embedding_provider=st.none() | TEXTS,
    embedding_profile=st.none() | st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3),
)
STATUSES = st.builds(
    ResourceStatus,
    status=st.sampled_from(Status),
    conditions=st.lists(TEXTS, max_size=2).map(tuple),
    message=st.none() | TEXTS,
)
RECORDS = st.dictionaries(
    TEXTS, st.dictionaries(TEXTS, st.none() | TEXTS | st.booleans(), max_size=3), max_size=2
)
LEDGERS = st.builds(
    ClusterState,
    revision=st.integers(0, 10**9),
    config_digest=st.none() | TEXTS,
    resources=st.dictionaries(ADDRESSES, RESOURCES, max_size=4),
    statuses=st.dictionaries(ADDRESSES, STATUSES, max_size=4),
    approval_records=RECORDS,
    recovery_records=RECORDS,
    observations=RECORDS,
)


@given(LEDGERS)
def test_what_is_written_is_what_is_read(ledger: ClusterState) -> None:
    assert decode_ledger(encode_ledger(ledger)) == ledger


def test_a_ledger_needs_no_more_than_its_version_and_what_was_applied() -> None:
    found = decode_ledger(b'{"version": 1, "applied_revision": {"config_digest": null}}')

    assert found == EMPTY


@pytest.mark.parametrize(
    "change",
    [
        {"colour": "red"},
        {"state_revision": "1"},
        {"state_revision": True},
        {"applied_revision": {"resources": {"graph.a": {}}}},
        {"applied_revision": {"resources": {"graph.a": {"digest": "x", "size": 1}}}},
        {"applied_revision": {"resources": {"thing.a": {"digest": "x"}}}},
        {"applied_revision": []},
        {"resource_statuses": {"graph.a": {"status": "fine"}}},
        {"observations": {"graph.a": 1}},
    ],
)
def test_a_ledger_with_unknown_fields_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ShapeError):
        decode_ledger(json.dumps({"version": 1, **change}).encode())


@pytest.mark.parametrize("version", [0, 2, "1", None, True])
def test_a_ledger_of_another_version_is_left_alone(version: object) -> None:
    with pytest.raises(VersionError):
        decode_ledger(json.dumps({"version": version}).encode())


def test_a_ledger_that_is_not_json_is_refused() -> None:
    with pytest.raises(ShapeError):
        decode_ledger(b"{")


def test_a_graph_that_goes_takes_its_parts_with_it_and_nothing_else() -> None:
    ledger = EMPTY
    for address in ("graph.a", "schema.a", "query.a.x", "query.ab.x", "policy.a", "graph.ab"):
        ledger = ledger.having(address, AppliedResource("d", None, None, None), APPLIED)

    left = ledger.without_graph("a")

    assert sorted(left.resources) == ["graph.ab", "policy.a", "query.ab.x"]
    assert sorted(left.statuses) == ["graph.ab", "policy.a", "query.ab.x"]


def test_the_digest_of_a_graph_follows_from_what_was_applied_of_it() -> None:
    ledger = EMPTY
    for address, digest in (("schema.a", "s"), ("query.a.x", "q"), ("query.b.x", "other")):
        ledger = ledger.having(address, AppliedResource(digest, None, None, None), APPLIED)

    made = ledger.with_graph_digest("a", provider=None)

    wanted = digest_graph("a", schema="s", queries={"x": "q"}, provider=None)
    assert made.find_digest("graph.a") == wanted
