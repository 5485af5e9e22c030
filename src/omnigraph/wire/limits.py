"""How much of an answer is made at a time, with the reasons."""

from __future__ import annotations

PLAIN_ROWS_MAX = 64
"""Rows of an answer that are written one by one: putting columns together has its own price."""

JSON_PIECE_ROWS = 8_192
"""Rows of a long answer that become JSON at a time, so that its text is never held whole."""

ARROW_PIECE_ROWS = 65_536
"""The same as Arrow, which takes less; a client may begin while others are on their way."""

TOLD_VALUE_BYTES_MAX = 16 * 1024
"""Longest value that an error sends back to whoever gave it, who has it anyway."""
