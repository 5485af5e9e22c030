"""The catalog: contents of queries and policies, each stored under its digest.

Nothing is ever replaced, so what a ledger names stays what it was; publishing again is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph.cluster.addresses import Kind, kind_of
from omnigraph.cluster.digests import digest_bytes
from omnigraph.cluster.findings import telling
from omnigraph.model.errors import GraphError

if TYPE_CHECKING:
    # Lance comes with it, and who only checks a folder does without.
    from omnigraph.storage.ports import ObjectStore

RESOURCES_PREFIX = "__cluster/resources"

_SUFFIX_BY_KIND = {Kind.QUERY: ".gq", Kind.POLICY: ".yaml"}


class BlobFault(StrEnum):
    """What can be wrong with a stored content."""

    MISSING = "payload_missing"
    MISMATCH = "payload_mismatch"
    UNREADABLE = "payload_unreadable"


@dataclass(frozen=True, slots=True)
class Blob:
    """A stored content that is what its digest says."""

    content: bytes


@dataclass(frozen=True, slots=True)
class BadBlob:
    """A stored content that is of no use, and why."""

    fault: BlobFault
    message: str


def has_blob(address: str) -> bool:
    """Whether a resource has a content in the catalog."""
    return kind_of(address) in _SUFFIX_BY_KIND


def blob_path(address: str, digest: str) -> str:
    """Where the content of a query or a policy is stored."""
    kind, *parts = address.split(".")
    name = "/".join((RESOURCES_PREFIX, kind, *parts, digest))
    return f"{name}{_SUFFIX_BY_KIND[Kind(kind)]}"


def publish_blob(address: str, content: bytes, objects: ObjectStore) -> None:
    """Durable effect: store a content, unless it is there already."""
    digest = digest_bytes(content)
    path = blob_path(address, digest)
    with telling("resource_payload_write_error", path):
        stored = objects.find(path)
        if stored is None:
            objects.put_if_absent(path, content)
        elif stored.content != content:
            # Damaged, or written by somebody who does not know what the name promises.
            objects.put(path, content)


def check_blob(address: str, digest: str, objects: ObjectStore) -> Blob | BadBlob:
    """The content of a resource, or what is wrong with it."""
    path = blob_path(address, digest)
    try:
        stored = objects.find(path)
    except GraphError as error:
        return BadBlob(BlobFault.UNREADABLE, str(error))
    if stored is None:
        return BadBlob(BlobFault.MISSING, f"{path} is not there")
    if digest_bytes(stored.content) != digest:
        return BadBlob(BlobFault.MISMATCH, f"{path} is not what its name says")
    return Blob(stored.content)
