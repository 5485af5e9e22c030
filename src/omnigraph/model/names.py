"""Names and the numbers derived from them: identifiers, case folding, FNV-1a.

Knows no schema: whether a name means anything is the catalog's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from omnigraph.model.limits import NEAR_NAME_CANDIDATES_MAX

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
