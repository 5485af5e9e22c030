"""Names and the numbers derived from them: identifiers, branches, case folding, FNV-1a.

Knows no schema: whether a name means anything is the catalog's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import NewType

from omnigraph.model.errors import InvalidNameError
from omnigraph.model.limits import (
    BRANCH_FILE_CHARACTERS_MAX,
    BRANCH_NAME_CHARACTERS_MAX,
    NEAR_NAME_CANDIDATES_MAX,
    TAG_NAME_CHARACTERS_MAX,
)

BranchName = NewType("BranchName", str)
"""A branch name that `parse_branch_name` has checked."""

TagName = NewType("TagName", str)
"""A tag name that `parse_tag_name` has checked."""

MAIN = BranchName("main")

_PRIVATE_PREFIX = "__tx__"
_INTERNAL_PREFIXES = ("__schema_apply_lock__", _PRIVATE_PREFIX)

_BRANCH_NAME = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*", re.ASCII)

_COMMIT_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.ASCII)

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


class PrivateBranchName(str):
    """The branch of a transaction, which no caller can name.

    A text of its own class, so that it goes wherever a branch name goes and is never written by
    mistake. It remembers the branch that the transaction began on.
    """

    __slots__ = ("base",)

    base: BranchName


def make_private_branch_name(id: str, *, base: BranchName) -> PrivateBranchName:
    """The branch of a transaction that has this id and began on a branch."""
    name = PrivateBranchName(f"{_PRIVATE_PREFIX}{id}")
    name.base = base
    return name


def is_private_branch(name: str) -> bool:
    """Whether a branch is a transaction's."""
    return name.startswith(_PRIVATE_PREFIX)


def is_internal_branch(name: str) -> bool:
    """Whether a branch is one of our own, which nobody is shown."""
    return name.startswith(_INTERNAL_PREFIXES)


def parse_branch_name(text: object) -> BranchName:
    """The branch that a caller means; blanks around the name do not count."""
    if isinstance(text, PrivateBranchName):
        return BranchName(text)
    name = _parse_name(text, kind="branch", characters_max=BRANCH_NAME_CHARACTERS_MAX)
    if is_internal_branch(name):
        raise InvalidNameError(kind="branch", name=name, rule="it is an internal system ref")
    if len(name) + 4 * name.count("/") > BRANCH_FILE_CHARACTERS_MAX:
        most = BRANCH_FILE_CHARACTERS_MAX
        rule = f"it has more than {most} characters, where each `/` counts as five"
        raise InvalidNameError(kind="branch", name=name, rule=rule)
    return BranchName(name)


def parse_tag_name(text: object) -> TagName:
    """The tag that a caller means; blanks around the name do not count."""
    name = _parse_name(text, kind="tag", characters_max=TAG_NAME_CHARACTERS_MAX)
    if looks_like_commit(name):
        raise InvalidNameError(kind="tag", name=name, rule="it looks like the id of a commit")
    return TagName(name)


def looks_like_commit(text: str) -> bool:
    """Whether a text is made like the id of a commit, and so is no tag."""
    return _COMMIT_ID.fullmatch(text) is not None


def _parse_name(text: object, *, kind: str, characters_max: int) -> str:
    if not isinstance(text, str):
        raise InvalidNameError(kind=kind, name=repr(text), rule="a name is a text")
    name = text.strip()
    rule = None
    if len(name) > characters_max:
        rule = f"it has more than {characters_max} characters"
    elif not _BRANCH_NAME.fullmatch(name) or any(s in (".", "..") for s in name.split("/")):
        rule = "it is made of A-Z, a-z, 0-9, `.`, `_` and `-`, in parts joined by single `/`"
    elif ".." in name or name.endswith(".lock"):
        rule = "it holds no `..` and does not end in `.lock`, as Lance wants it"
    if rule is not None:
        raise InvalidNameError(kind=kind, name=text, rule=rule)
    return name
