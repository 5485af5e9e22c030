"""The bounds of a retrieval, each with its reason."""

from __future__ import annotations

HOPS = 1
"""How far from what was found a neighbour may be unless the caller says otherwise."""

FOUND = 10
"""How many nodes a search is asked for unless the caller says otherwise."""

BUDGET_TOKENS = 2_000
"""How long a text may be unless the caller says otherwise: a few pages of a prompt."""

HOPS_MAX = 2
"""How far from what was found a neighbour may be: three hops from ten nodes is half of a graph."""

FOUND_MAX = 1_000
"""Most nodes that a search may be asked for: ids are looked up by so many at once."""

ARM_PLACES = 100
"""How many places of each ranking count, or as many nodes as are wanted: a place behind that adds
less than the difference between two nodes further up."""

NEIGHBOURS_MAX = 32
"""Most neighbours over one edge type and direction that a node is asked for beside those that the
search found too: nobody reads the thousands of a hub."""

REACHED_MAX = 256
"""Most neighbours at one distance: more do not fit into what a model reads."""

BUDGET_TOKENS_MAX = 1_000_000
"""Largest budget: no model reads more, and each passage is counted with all before it."""

VECTOR_NUMBERS_MAX = 65_536
"""Longest vector that a receipt may hold."""
