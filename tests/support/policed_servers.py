"""Servers with tokens and a policy, for tests that need a caller with all permissions.

The tokens are recognizable wherever they are disclosed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import Server, running_server

ALLOWED_TOKEN = "sesame-of-ann-5f3c91"
READER_TOKEN = "sesame-of-rob-a81d07"
SECRETS = (ALLOWED_TOKEN, READER_TOKEN)

EVERYTHING = """
version: 1
groups: { all: [ann], readers: [rob] }
protected_branches: [main]
rules:
  - id: everything
    allow:
      actors: { group: all }
      actions:
        - read
        - export
        - change
        - schema_apply
        - branch_create
        - branch_delete
        - branch_merge
        - admin
        - invoke_query
  - id: reading
    allow:
      actors: { group: readers }
      actions: [read]
"""
LISTING = """
version: 1
groups: { all: [ann] }
rules:
  - id: listing
    allow: { actors: { group: all }, actions: [graph_list] }
"""


@contextmanager
def policed_server(folder: Path, *arguments: str) -> Iterator[Server]:
    """A server of fixture F on which Ann may do everything and Rob may read."""
    folder.mkdir(parents=True, exist_ok=True)
    policy, listing = folder / "policy.yaml", folder / "listing.yaml"
    policy.write_text(EVERYTHING, encoding="utf-8")
    listing.write_text(LISTING, encoding="utf-8")
    tokens = json.dumps({"ann": ALLOWED_TOKEN, "rob": READER_TOKEN})
    with running_server(
        folder,
        "--policy",
        str(policy),
        "--server-policy",
        str(listing),
        *arguments,
        environment={"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": tokens},
    ) as server:
        yield server
