"""How a command says that it cannot be carried out as it was typed."""

from __future__ import annotations


class CommandError(Exception):
    """What was typed or configured does not add up; no graph was touched. The exit code is 1."""
