"""Bounds of the control plane."""

from __future__ import annotations

from typing import Final

SOURCE_BYTES_MAX: Final = 8 * 1024 * 1024
"""The largest file that a cluster is declared by; people write them, so nothing real comes near."""

CONFIG_BYTES_MAX: Final = 1024 * 1024
"""The largest `cluster.yaml`: thousands of graphs, and a few seconds of reading YAML."""

NODES_MAX: Final = 100_000
"""The most values in a `cluster.yaml`, aliases counted each time: what a reader could check."""
