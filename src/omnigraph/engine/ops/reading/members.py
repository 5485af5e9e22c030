"""Repeated members: JSON objects that say two things under one name, and parsers that keep one.

orjson 3.13 keeps the last and says nothing, so members are counted in the text: every member has a
colon behind a quote or a blank. A text may hold such a colon too, so there can be more of these
than members, and never fewer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

_MAY_PRECEDE = np.isin(np.arange(256), list(b'" \t\r'))


class _RepeatedMemberError(Exception):
    """An object has two members of one name."""


def has_more_members(text: bytes, member_count: int) -> bool:
    """Whether JSON may hold more members than a parser kept; if not, it kept them all."""
    characters = np.frombuffer(text, np.uint8)
    before = characters[np.flatnonzero(characters == ord(":")) - 1]
    return int(np.count_nonzero(_MAY_PRECEDE[before])) != member_count


def find_repeated_member(line: bytes, record: Mapping[str, object]) -> str | None:
    """The name of a member that an object in a line of JSON has twice."""
    properties = record.get("data")
    kept_count = len(record) + (len(properties) if isinstance(properties, dict) else 0)
    if sum(map(line.count, (b'":', b" :", b"\t:", b"\r:"))) == kept_count:
        return None
    try:
        json.loads(line.decode(), object_pairs_hook=_keep_distinct)
    except _RepeatedMemberError as error:
        return str(error)
    except RecursionError:
        # No property holds arrays in arrays, so its type will refuse the value.
        return None
    return None


def _keep_distinct(members: list[tuple[str, object]]) -> dict[str, object]:
    kept = dict(members)
    if len(kept) != len(members):
        names = [name for name, _ in members]
        raise _RepeatedMemberError(next(name for name in kept if names.count(name) > 1))
    return kept
