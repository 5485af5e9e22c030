"""Addresses are made and taken apart in one way only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.cluster.resources import (
    Kind,
    graph_address,
    graph_id_of,
    is_address,
    kind_of,
    name_of,
    policy_address,
    provider_address,
    query_address,
    schema_address,
)

IDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True)


@given(IDS, IDS)
def test_an_address_is_parsed_as_it_was_formatted(id: str, name: str) -> None:
    made = [
        (graph_address(id), Kind.GRAPH, id, id),
        (schema_address(id), Kind.SCHEMA, id, id),
        (query_address(id, name), Kind.QUERY, id, name),
        (policy_address(name), Kind.POLICY, None, name),
        (provider_address(name), Kind.PROVIDER, None, name),
    ]

    for address, kind, graph_id, last in made:
        assert is_address(address)
        assert (kind_of(address), graph_id_of(address), name_of(address)) == (kind, graph_id, last)


@pytest.mark.parametrize(
    "text",
    ["", "graph", "graph.", "graph.a.b", "query.a", "thing.a", "provider.a", "graph.1a", "a"],
)
def test_an_invalid_address_is_not_parsed(text: str) -> None:
    assert not is_address(text)
