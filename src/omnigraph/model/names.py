"""Identifiers, branch and tag names, name hashes, and validation of caller arguments.

A parsed name is valid: its type is the proof. Internal branches have names that no caller can use.
The module knows no schema: it does not decide whether a name exists.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from enum import StrEnum
from typing import NewType, TypeVar

from omnigraph.model.errors import InvalidNameError, InvalidValueError
from omnigraph.model.limits import (
    BRANCH_FILE_CHARACTERS_MAX,
    BRANCH_NAME_CHARACTERS_MAX,
    NEAR_NAME_CANDIDATES_MAX,
    REQUEST_KEY_CHARACTERS_MAX,
    TAG_NAME_CHARACTERS_MAX,
)

W = TypeVar("W", bound=StrEnum)

BranchName = NewType("BranchName", str)
"""A branch name that `parse_branch_name` has checked."""

TagName = NewType("TagName", str)
"""A tag name that `parse_tag_name` has checked."""

MAIN = BranchName("main")

RECOVERY_ACTOR = "omnigraph:recovery"
"""The actor of commits that undo an interrupted write."""

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
"""Physical columns of every table, which a declared property must not duplicate."""

RESERVED_EDGE_PROPERTIES = RESERVED_PROPERTIES | {"src", "dst", "from", "to"}


END_BY_ROLE = {"from": "src", "to": "dst"}
"""The columns of the ends of an edge, by the other names that queries and input may use."""


def fold_edge_name(name: str) -> str:
    """The spelling in which edge names that differ only in case are equal."""
    return name.lower()


def find_near_name(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` was most likely meant to be, if one is similar enough."""
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

    It is a subclass of `str`, so that it is accepted wherever a branch name is and is never created
    by mistake. `base` is the branch that the transaction began on.
    """

    __slots__ = ("base",)

    base: BranchName


def make_private_branch_name(id: str, *, base: BranchName) -> PrivateBranchName:
    """The branch of a transaction with an id, which began on a branch."""
    name = PrivateBranchName(f"{_PRIVATE_PREFIX}{id}")
    name.base = base
    return name


def is_private_branch(name: str) -> bool:
    """Whether a branch belongs to a transaction."""
    return name.startswith(_PRIVATE_PREFIX)


def is_internal_branch(name: str) -> bool:
    """Whether a branch is internal and not shown to callers."""
    return name.startswith(_INTERNAL_PREFIXES)


def parse_branch_name(text: object) -> BranchName:
    """The validated name of a branch, without surrounding blanks.

    Raises `InvalidNameError` if the name is not valid or is internal.
    """
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
    """The validated name of a tag, without surrounding blanks.

    Raises `InvalidNameError` if the name is not valid or has the form of a commit id.
    """
    name = _parse_name(text, kind="tag", characters_max=TAG_NAME_CHARACTERS_MAX)
    if is_commit_id_like(name):
        raise InvalidNameError(kind="tag", name=name, rule="it looks like the id of a commit")
    return TagName(name)


def is_commit_id_like(text: str) -> bool:
    """Whether a text has the form of a commit id, and so is not a valid tag."""
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


def require_text(given: object, *, subject: str) -> None:
    """Raise `InvalidValueError` unless an argument is a text that can be stored."""
    problem = None
    if not isinstance(given, str):
        problem = f"a text is needed, not a {type(given).__name__}"
    elif any("\ud800" <= character <= "\udfff" for character in given):
        problem = "the text holds half of a surrogate pair"
    if problem is not None:
        raise InvalidValueError(subject=subject, expected="text", value=given, problem=problem)


def require_names(given: Collection[str], *, subject: str) -> list[str]:
    """The names of a collection; raises `InvalidValueError` for a single string."""
    if isinstance(given, str):
        raise InvalidValueError(
            subject=subject,
            expected="several names",
            value=given,
            problem=f"a list of names is needed, such as [{given!r}]",
        )
    for name in given:
        require_text(name, subject=subject)
    return list(given)


def parse_word(kind: type[W], given: object, *, subject: str) -> W:
    """The member of a closed set of words that a caller names; `InvalidValueError` if none."""
    words = [str(each) for each in kind]
    if isinstance(given, str) and given in words:
        return kind(given)
    *others, last = words
    listed = ", ".join(others)
    is_no_member = (
        f"neither {listed} nor {last}" if len(words) == 2 else f"none of {listed} and {last}"
    )
    raise InvalidValueError(
        subject=subject,
        expected=f"{listed} or {last}",
        value=given,
        problem=f"{given!r} is {is_no_member}",
    )


def require_branch_or_commit(branch: object, commit: object) -> None:
    """Raise `InvalidValueError` if a read names both a branch and a commit."""
    if branch is not None and commit is not None:
        raise InvalidValueError(
            subject="branch and commit",
            expected="one of them",
            value=(branch, commit),
            problem="a read is at a branch or at a commit, not at both",
        )


def parse_key(key: str | None) -> str | None:
    """The idempotency key of a request, validated."""
    if key is None:
        return None
    require_text(key, subject="idempotency_key")
    if not 0 < len(key) <= REQUEST_KEY_CHARACTERS_MAX:
        raise InvalidValueError(
            subject="idempotency_key",
            expected="a short text",
            value=key,
            problem=f"a key has 1 to {REQUEST_KEY_CHARACTERS_MAX} characters, not {len(key)}",
        )
    return key
