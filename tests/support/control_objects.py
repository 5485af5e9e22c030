"""Control objects for tests: where they are, every call there is, and ways to look at them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from omnigraph.storage.locations import Location, parse_location
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import Listing, ObjectStore
from tests.support.s3_server import S3Server

CALLS: Mapping[str, Callable[[ObjectStore, str], object]] = {
    "find": lambda objects, path: objects.find(path),
    "list": lambda objects, path: objects.list(path),
    "put": lambda objects, path: objects.put(path, b"1"),
    "put_if_absent": lambda objects, path: objects.put_if_absent(path, b"1"),
    "put_if_match": lambda objects, path: objects.put_if_match(path, b"1", token='"0"'),
    "delete": lambda objects, path: objects.delete(path),
    "delete_prefix": lambda objects, path: objects.delete_prefix(path),
}


def local_location(folder: Path) -> Location:
    """A place on a local disk."""
    return parse_location(str(folder), storage_options={})


def s3_location(server: S3Server, *, bucket: str) -> Location:
    """A place in a bucket."""
    return parse_location(f"s3://{bucket}/team/graph", storage_options=server.lance_options())


def local_objects(folder: Path) -> ObjectStore:
    """The objects below a folder of a local disk."""
    return open_objects(local_location(folder), is_durable=True)


def content(objects: ObjectStore, path: str) -> bytes | None:
    """An object's bytes, or None if there is none."""
    found = objects.find(path)
    return found.content if found else None


def token(objects: ObjectStore, path: str) -> str:
    """The token of an object that is there."""
    found = objects.find(path)
    assert found
    return found.token


def names(listing: Listing) -> list[str]:
    """The objects of a listing, sorted."""
    return sorted(listing.token_by_name)
