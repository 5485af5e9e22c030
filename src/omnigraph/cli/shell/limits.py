"""The bounds of what the shell shows, each with the reason for its size."""

SHELL_COMMITS_SHOWN = 20
"""Commits that the shell draws unless it is asked for more: about a screenful."""

SHELL_CHANGES_SHOWN_MAX = 100
"""Most changes that the shell shows of a diff: `omnigraph diff` writes all of them."""
