"""Digests: what makes two resources, or two configurations, the same.

Lower-case hexadecimal SHA-256. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import orjson


def digest_bytes(content: bytes) -> str:
    """The digest of a file."""
    return sha256(content).hexdigest()


def digest_profile(profile: Mapping[str, object]) -> str:
    """The digest of an embedding provider."""
    return digest_bytes(b"embedding-provider\0" + compact_json(profile))


def digest_graph(
    id: str,
    *,
    schema: str,
    queries: Mapping[str, str],
    provider: tuple[str, str] | None,
) -> str:
    """The digest of a graph: of its schema's, its queries' by name, and its provider's."""
    parts = ["graph", id, "schema", schema]
    for name, digest in sorted(queries.items()):
        parts += ["query", name, digest]
    if provider is not None:
        parts += ["embedding_provider", *provider]
    return digest_bytes("".join(f"{part}\0" for part in parts).encode())


def digest_config(config: Mapping[str, object], resources: Mapping[str, str]) -> str:
    """The digest of a configuration with the digests of all that it names, by address."""
    listed = "".join(f"{address}\0{digest}\0" for address, digest in sorted(resources.items()))
    return digest_bytes(b"cluster-config\0" + compact_json(config) + b"\0" + listed.encode())


def compact_json(tree: Mapping[str, object]) -> bytes:
    """A tree as JSON of one spelling."""
    return orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)
