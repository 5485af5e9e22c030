"""Names and the numbers derived from them: identifiers, branches, case folding, FNV-1a.

Knows no schema: whether a name means anything is the catalog's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import NewType

from omnigraph.model.errors import InvalidNameError
from omnigraph.model.limits import BRANCH_NAME_CHARACTERS_MAX, NEAR_NAME_CANDIDATES_MAX

BranchName = NewType("BranchName", str)
"""A branch name that `parse_branch_name` has checked."""

MAIN = BranchName("main")

_BRANCH_NAME = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*", re.ASCII)

IDENTIFIER = re.compile(r"[a-z_][A-Za-z0-9_]*")

RESERVED_PROPERTIES = frozenset(
    {
        "id",
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
    }
)
"""Physical columns of every table; a declared property of that name would be a second one."""

RESERVED_EDGE_PROPERTIES = RESERVED_PROPERTIES | {"src", "dst", "from", "to"}


def fold_edge_name(name: str) -> str:
    """The spelling under which edge names that differ only in case are the same."""
    return name.lower()


def find_near_name(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that the writer of `name` most likely meant, if one is near enough."""
    spellings: dict[str, str] = {}
    for candidate in candidates:
        if len(spellings) == NEAR_NAME_CANDIDATES_MAX:
            return None
        spellings.setdefault(candidate.lower(), candidate)
    near = get_close_matches(name.lower(), spellings, n=1)
    return spellings[near[0]] if near else None


def fnv1a_32(text: str) -> int:
    """The 32-bit FNV-1a hash of a text's UTF-8 bytes."""
    digest = 0x811C9DC5
    for byte in text.encode():
        digest = ((digest ^ byte) * 0x01000193) & 0xFFFFFFFF
    return digest


def fnv1a_64(text: str) -> int:
    """The 64-bit FNV-1a hash of a text's UTF-8 bytes."""
    digest = 0xCBF29CE484222325
    for byte in text.encode():
        digest = ((digest ^ byte) * 0x00000100000001B3) & 0xFFFFFFFFFFFFFFFF
    return digest


def parse_branch_name(text: object) -> BranchName:
    """The branch that a caller means; blanks around the name do not count."""
    if not isinstance(text, str):
        raise InvalidNameError(kind="branch", name=repr(text), rule="a name is a text")
    name = text.strip()
    rule = None
    if len(name) > BRANCH_NAME_CHARACTERS_MAX:
        rule = f"it has more than {BRANCH_NAME_CHARACTERS_MAX} characters"
    elif not _BRANCH_NAME.fullmatch(name) or any(s in (".", "..") for s in name.split("/")):
        rule = "it is made of A-Z, a-z, 0-9, `.`, `_` and `-`, in parts joined by single `/`"
    elif ".." in name or name.endswith(".lock"):
        rule = "it holds no `..` and does not end in `.lock`, as Lance wants it"
    elif name.startswith("__schema_apply_lock__"):
        rule = "it is an internal system ref"
    if rule is not None:
        raise InvalidNameError(kind="branch", name=text, rule=rule)
    return BranchName(name)
