"""What the columns of matched rows are called in Spark: one name for each variable and property.

Promises that two names never differ only in case, which Spark does not see, and that none needs
quotes, whatever a variable or a property is called. Knows nothing of what the columns hold.
"""

from __future__ import annotations

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def id_column(variable: str) -> str:
    """The column with the ids of the entities that a variable is bound to."""
    return f"id__{_encode(variable)}"


def property_column(variable: str, property: str) -> str:
    """The column with a property of the entities that a variable is bound to."""
    return f"property__{_encode(variable)}__{_encode(property)}"


def _encode(name: str) -> str:
    # What is escaped is never empty, so that two underscores in a row outside of it mean an end.
    return "".join(each if each in _PLAIN else f"_{ord(each):x}_" for each in name)
