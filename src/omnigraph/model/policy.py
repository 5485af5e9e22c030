"""Who may do what: the actions a policy speaks of, and what the engine asks of whoever decides.

Knows no bundles and no Cedar. A gate answers the same question at every door, so that a caller over
HTTP and a program that opens the graph itself are held to the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Action(StrEnum):
    """What somebody may be allowed to do; `graph_list` on the server, the others on a graph."""

    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    ADMIN = "admin"
    INVOKE_QUERY = "invoke_query"
    GRAPH_LIST = "graph_list"


@dataclass(frozen=True, slots=True)
class Access:
    """What somebody asks to do: on a branch, with another branch as its target."""

    actor: str | None
    action: Action
    branch: str | None
    target: str | None


@dataclass(frozen=True, slots=True)
class TypeView:
    """What somebody sees of one type: the rows that any of some conditions holds for, without
    some properties.

    A condition is written as a filter of the query language on the type's own properties, and may
    use `$actor`. No condition at all means that no row is seen; `None` that every row is.
    """

    conditions: tuple[str, ...] | None
    hidden: frozenset[str]


@dataclass(frozen=True, slots=True)
class View:
    """What somebody sees of a graph; types that are not named are seen whole."""

    actor: str | None
    types: Mapping[str, TypeView]


class Gate(Protocol):
    """Decides what a caller may do."""

    def require(self, asked: Access) -> None:
        """Raise `ForbiddenError` unless it is allowed."""

    def view(self, asked: Access) -> View | None:
        """What is seen by somebody who reads or exports; None if that is everything."""
