"""Control objects in an S3 bucket, and the choice between a bucket and a disk.

Each `ObjectStore` call sends one request; a listing or deletion sends one per thousand objects.
Tokens are entity tags: two equal contents may have the same tag, so a writer that must distinguish
them includes a counter in the content. S3 acknowledges a write only when it is durable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    GenericError,
    PreconditionError,
    UnknownConfigurationKeyError,
)
from obstore.store import S3Store

from omnigraph.model.errors import InvalidValueError, UnavailableError
from omnigraph.model.limits import OBJECT_RETRIES_MAX, OBJECT_RETRY_TIMEOUT_S
from omnigraph.storage.errors import find_code, is_reserved, require_object_path, storage_errors
from omnigraph.storage.local_files import LocalObjects
from omnigraph.storage.locations import Location
from omnigraph.storage.ports import Listing, ObjectStore, StoredObject

# Options that Lance accepts in addition to those of obstore. Retries of control objects are
# configured below.
_OPTIONS_OF_LANCE = frozenset(
    {"client_max_retries", "client_retry_timeout", "download_retry_count", "request_timeout"}
)


def open_objects(location: Location, *, is_durable: bool) -> ObjectStore:
    """The control objects of a graph; sends no request.

    With `is_durable`, a local disk flushes each write before the call returns.
    """
    if location.bucket is None:
        return LocalObjects(Path(location.root), is_durable=is_durable)
    store = open_bucket(location.bucket, location.prefix, location.storage_options)
    return ObstoreObjects(store, uri=location.uri)


class ObstoreObjects:
    """The objects below one prefix of a bucket."""

    def __init__(self, store: S3Store, *, uri: str) -> None:
        self._store = store
        self._uri = uri

    def find(self, path: str) -> StoredObject | None:
        require_object_path(path)
        action = self._action("read", path)
        with storage_errors(action):
            try:
                found = self._store.get(path)
                content = bytes(found.bytes())
            except FileNotFoundError as error:
                _require_bucket(error)
                return None
            return StoredObject(content, _require_token(found.meta["e_tag"], action))

    def list(self, prefix: str) -> Listing:
        if prefix:
            require_object_path(prefix)
        action = self._action("list", prefix)
        with storage_errors(action):
            found = self._store.list_with_delimiter(prefix or None)
        tokens = {
            _last_part(each["path"]): _require_token(each["e_tag"], action)
            for each in found["objects"]
        }
        return Listing(
            {name: token for name, token in tokens.items() if not is_reserved(name)},
            frozenset(_last_part(each) for each in found["common_prefixes"]),
        )

    def tokens(self, prefix: str) -> Mapping[str, str]:
        return self.list(prefix).token_by_name

    def put(self, path: str, content: bytes) -> str:
        require_object_path(path)
        action = self._action("write", path)
        with storage_errors(action):
            written = self._store.put(path, content, mode="overwrite", use_multipart=False)
            return _require_token(written["e_tag"], action)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        require_object_path(path)
        with storage_errors(self._action("write", path)):
            try:
                self._store.put(path, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

    def put_if_match(self, path: str, content: bytes, *, token: str) -> str | None:
        require_object_path(path)
        action = self._action("write", path)
        with storage_errors(action):
            try:
                written = self._store.put(path, content, mode={"e_tag": token}, use_multipart=False)
            except PreconditionError as error:
                _require_bucket(error)
                return None
            return _require_token(written["e_tag"], action)

    def delete(self, path: str) -> None:
        require_object_path(path)
        with storage_errors(self._action("delete", path)):
            try:
                self._store.delete(path)
            except FileNotFoundError as error:
                _require_bucket(error)

    def delete_prefix(self, prefix: str) -> None:
        require_object_path(prefix)
        with storage_errors(self._action("delete", prefix)):
            for page in self._store.list(prefix):
                self._store.delete([found["path"] for found in page])

    def _action(self, verb: str, path: str) -> str:
        return f"{verb} {self._uri}/{path}"


def read_records(objects: ObjectStore, prefix: str) -> Iterator[tuple[str, bytes]]:
    """The paths and contents of the JSON objects below a prefix, by name."""
    for name in sorted(objects.list(prefix).token_by_name):
        stored = objects.find(f"{prefix}/{name}") if name.endswith(".json") else None
        # An object that was deleted after the listing is skipped.
        if stored is not None:
            yield f"{prefix}/{name}", stored.content


def delete_rows_file(objects: ObjectStore, path: str) -> None:
    """Delete a row file and the folder of the same name, which holds its large blobs."""
    objects.delete(path)
    objects.delete_prefix(path.removesuffix(".lance"))


def open_bucket(bucket: str, prefix: str, options: Mapping[str, str]) -> S3Store:
    """The objects of a bucket below a prefix; sends no request."""
    config = {name: value for name, value in options.items() if name not in _OPTIONS_OF_LANCE}
    try:
        return S3Store(
            bucket,
            prefix=prefix or None,
            config=config,  # type: ignore[arg-type]  # it takes the names that Lance takes as well
            retry_config={
                "max_retries": OBJECT_RETRIES_MAX,
                "retry_timeout": timedelta(seconds=OBJECT_RETRY_TIMEOUT_S),
            },
        )
    except UnknownConfigurationKeyError as error:
        name = re.search(r"'([^']*)'", str(error))
        subject = f"storage option '{name[1]}'" if name else "storage options"
        raise _bad_option(subject, "S3 has no such option") from error
    except GenericError as error:
        raise _bad_option("storage options", str(error).partition("\n")[0]) from error


def _bad_option(subject: str, problem: str) -> InvalidValueError:
    # The value is omitted because it may be a secret.
    return InvalidValueError(subject=subject, expected="S3 option", value=None, problem=problem)


def _require_bucket(error: FileNotFoundError | BaseError) -> None:
    # obstore reports a missing bucket and a missing object as the same error.
    if find_code(error) == "NoSuchBucket":
        raise error


def _require_token(e_tag: str | None, action: str) -> str:
    if e_tag is None:
        raise UnavailableError(
            action=action, reason="the storage gives no entity tags, which conditional writes need"
        )
    return e_tag


def _last_part(path: str) -> str:
    return path.rpartition("/")[2]
