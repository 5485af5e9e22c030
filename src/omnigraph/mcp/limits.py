"""The bounds of what a tool answers, each with its reason: an agent reads all of it."""

from __future__ import annotations

ROWS_MAX = 500
"""Rows that a tool answers: more than a model can use, and what it needs it can ask for."""

ROWS_BYTES_MAX = 256 * 1024
"""How long they are together, as JSON: about what fits beside everything else in a context."""

COMMITS_MAX = 100
"""Commits that the resource of a history holds, the newest of them."""

ACTOR_CHARACTERS_MAX = 80
"""How much of an actor's name becomes part of a branch's name, which may not grow without end."""
