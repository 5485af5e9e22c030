"""Checks of what callers give, whatever the call is and wherever the graph is."""

from __future__ import annotations

from collections.abc import Collection

from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import REQUEST_KEY_CHARACTERS_MAX


def require_text(given: object, *, subject: str) -> None:
    """Raise unless an argument is a text that can be stored."""
    problem = None
    if not isinstance(given, str):
        problem = f"a text is needed, not a {type(given).__name__}"
    elif any("\ud800" <= character <= "\udfff" for character in given):
        problem = "the text holds half of a surrogate pair"
    if problem is not None:
        raise InvalidValueError(subject=subject, expected="text", value=given, problem=problem)


def require_names(given: Collection[str], *, subject: str) -> list[str]:
    """Several names that a caller gives; one text alone is none of them."""
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


def require_one_place(branch: object, commit: object) -> None:
    """Raise if a read names both a branch and a commit."""
    if branch is not None and commit is not None:
        raise InvalidValueError(
            subject="branch and commit",
            expected="one of them",
            value=(branch, commit),
            problem="a read is at a branch or at a commit, not at both",
        )


def parse_key(key: str | None) -> str | None:
    """The key that a caller gives a request, checked."""
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
