"""Clusters that real servers serve: two graphs, with queries and policies, and people with tokens.

Ann may do everything, Rob may read, and the tokens of both are `t-` and their names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.clusters import (
    FIND_PERSON,
    PEOPLE,
    PLACES,
    applied_cluster,
    write_config,
    write_files,
)
from tests.support.servers import Server, serving

ADD_PERSON = (
    'query add_person($name: String) @description("Adds a person.") {\n'
    "  insert Person { name: $name }\n"
    "}\n"
)
EVERYTHING = (
    "version: 1\n"
    "groups: {admins: [ann], readers: [ann, rob]}\n"
    "protected_branches: [main]\n"
    "rules:\n"
    "  - id: reading\n"
    "    allow: {actors: {group: readers}, actions: [read, invoke_query]}\n"
    "  - id: all\n"
    "    allow:\n"
    "      actors: {group: admins}\n"
    "      actions: [change, export, schema_apply, branch_create, branch_delete, branch_merge,"
    " admin]\n"
)
SERVER = (
    "version: 1\n"
    "groups: {admins: [ann]}\n"
    "rules:\n"
    "  - id: running\n"
    "    allow: {actors: {group: admins}, actions: [graph_list, admin]}\n"
)
TOKENS: Mapping[str, str] = {
    "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({"ann": "t-ann", "rob": "t-rob"})
}


def policed_cluster(folder: Path) -> Path:
    """A folder that declares graphs of people and of places, applied."""
    return applied_cluster(policed_files(folder))


def policed_files(folder: Path) -> Path:
    """The same, declared only."""
    write_files(
        folder,
        {
            "people.pg": PEOPLE,
            "places.pg": PLACES,
            "queries/people.gq": FIND_PERSON + ADD_PERSON,
            "everything.yaml": EVERYTHING,
            "server.yaml": SERVER,
        },
    )
    return declare(folder)


def declare(folder: Path, **graphs: Mapping[str, object]) -> Path:
    """Declare the two graphs, and others if there are any."""
    known = {
        "knowledge": {"schema": "people.pg", "queries": "queries"},
        "map": {"schema": "places.pg"},
        **graphs,
    }
    everywhere = [f"graph.{each}" for each in known]
    return write_config(
        folder,
        {
            "graphs": known,
            "policies": {
                "everything": {"file": "everything.yaml", "applies_to": everywhere},
                "server": {"file": "server.yaml", "applies_to": ["cluster"]},
            },
        },
    )


@contextmanager
def cluster_server(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """A server of what a folder applied, to which people come with their tokens."""
    given = {**TOKENS, **(environment or {})}
    with serving(folder, "--cluster", str(folder), *arguments, environment=given) as server:
        yield server
