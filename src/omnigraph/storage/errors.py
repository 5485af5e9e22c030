"""Translation of errors of the disk and of obstore into OmniGraph errors.

No `OSError` or obstore exception reaches a caller, and the reason names something that a person can
act on. Nothing is retried.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from omnigraph.model.errors import InvalidNameError, UnavailableError
from omnigraph.model.limits import FOREIGN_REASON_CHARACTERS_MAX

_REASON_BY_ERRNO: Mapping[int, str] = MappingProxyType(
    {
        errno.ENOSPC: "the disk is full; make room and try again",
        errno.EDQUOT: "the disk quota is used up; make room and try again",
        errno.EFBIG: "the file is larger than the file system or the user's limit allows",
        errno.EACCES: "no permission; check who owns the folder",
        errno.EPERM: "no permission; check who owns the folder, and that the disk has hard links",
        errno.EROFS: "the disk is mounted read-only",
        errno.ENOTDIR: "a file is where a folder is needed",
        errno.EEXIST: "a file is where a folder is needed",
        errno.EISDIR: "a folder is where a file is needed",
        errno.ENAMETOOLONG: "the path is longer than the file system allows",
        errno.ELOOP: "links on the way to it lead in a circle",
        errno.EMFILE: "this process has too many open files; raise its limit",
        errno.ENFILE: "this machine has too many open files",
        errno.EAGAIN: "another process keeps these files locked; see whether it hangs",
        errno.EIO: "the disk reported a fault; look at the machine's log",
        errno.ESTALE: "the network disk lost the file; mount it again",
    }
)

_CREDENTIALS = "the credentials were refused; check the key, the secret and the region"
_DENIED = "access denied; check the credentials and what they allow in this bucket"
_REASON_BY_CODE: Mapping[str, str] = MappingProxyType(
    {
        "NoSuchBucket": "the bucket does not exist; create it or correct the uri",
        "AccessDenied": _DENIED,
        "AllAccessDisabled": _DENIED,
        "InvalidAccessKeyId": _CREDENTIALS,
        "SignatureDoesNotMatch": _CREDENTIALS,
        "ExpiredToken": _CREDENTIALS,
        "InvalidToken": _CREDENTIALS,
        "SlowDown": "the storage is overloaded; try again later",
        "ServiceUnavailable": "the storage is overloaded; try again later",
        "PermanentRedirect": "the bucket is in another region; set `aws_region`",
        "QuotaExceeded": "the bucket's quota is used up",
    }
)
_CODE = re.compile(r"<Code>(\w+)</Code>")
_NO_RESPONSE = re.compile(r"error sending request|timed out|connection (?:closed|reset)", re.I)
_RESERVED_NAME = re.compile(r"#[0-9]+\Z")


@contextmanager
def storage_errors(action: str) -> Iterator[None]:
    """Translate storage exceptions raised in the block into `UnavailableError`."""
    try:
        yield
    except (OSError, BaseError) as error:
        raise unavailable(error, action=action) from error


def unavailable(error: OSError | BaseError, *, action: str) -> UnavailableError:
    """The error that replaces a storage exception."""
    raised = UnavailableError(action=action, reason=explain(error))
    is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    raised.is_disk_full = is_full or find_code(error) == "QuotaExceeded"
    return raised


def explain(error: OSError | BaseError) -> str:
    """The reason of a storage failure, in one line."""
    if isinstance(error, OSError) and error.errno is not None:
        known = _REASON_BY_ERRNO.get(error.errno)
        return known or (error.strerror or str(error)).lower()
    text = str(error)
    code = find_code(error)
    if code is not None and code in _REASON_BY_CODE:
        return _REASON_BY_CODE[code]
    if isinstance(error, PermissionDeniedError):
        return _DENIED
    if isinstance(error, UnauthenticatedError):
        return _CREDENTIALS
    if code is None and _NO_RESPONSE.search(text):
        return "the storage does not answer; check the network and the endpoint"
    # The exception that caused the error holds the rest: obstore adds pages of debug output.
    return text.partition("\n")[0][:FOREIGN_REASON_CHARACTERS_MAX]


def find_code(error: OSError | BaseError) -> str | None:
    """The S3 error code in a response; None if there is none."""
    found = _CODE.search(str(error))
    return found[1] if found else None


def require_object_path(path: str) -> None:
    """Raise `InvalidNameError` unless every storage accepts the path unchanged."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        rule = "it is made of parts joined by single `/`, none of them `.` or `..`"
    elif any(ord(character) < 32 or ord(character) == 127 for character in path):
        rule = "it has a control character"
    elif is_reserved(parts[-1]):
        rule = "a name that ends in `#` and digits is one of a file being written"
    else:
        return
    raise InvalidNameError(kind="object", name=path, rule=rule)


def is_reserved(name: str) -> bool:
    """Whether a name is reserved for files that are being written."""
    return _RESERVED_NAME.search(name) is not None
