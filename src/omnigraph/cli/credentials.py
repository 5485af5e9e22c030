"""The tokens of servers: stored in `credentials` beside the configuration, found by URL.

Only the owner can read the file. A rewrite is atomic and preserves the sections of other servers. A
token stored for one server is never sent to another.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from omnigraph.cli.output import CommandError

CREDENTIALS_FILE = "credentials"
TOKEN_FOR_ANY = "OMNIGRAPH_BEARER_TOKEN"

_SECTION = re.compile(r"\s*\[([^\]]*)\]\s*(?:#.*)?")
_TOKEN = re.compile(r"\s*token\s*=\s*(.*?)\s*")
_NAME = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
# Some of these end a line for Python, and could begin the section of another server.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def find_token(
    url: str,
    *,
    url_by_server: Mapping[str, str],
    environment: Mapping[str, str],
    read_stored: Callable[[str], str | None],
) -> str | None:
    """The token to send to the server at a URL.

    A server of the configuration has its own token: from the environment, or else the stored one.
    If it has none, the token for any server is used.
    """
    for server in servers_at(url, url_by_server):
        keyed = environment.get(variable_of(server), "").strip() or read_stored(server)
        if keyed:
            return keyed
    return environment.get(TOKEN_FOR_ANY, "").strip() or None


def servers_at(url: str, url_by_server: Mapping[str, str]) -> list[str]:
    """The names of the servers with the longest URL that is a prefix of the given one."""
    wanted = f"{url.rstrip('/')}/"
    found = {
        server: base
        for server, base in ((name, each.rstrip("/")) for name, each in url_by_server.items())
        # A URL that ends after its scheme names no server, and would be a prefix of every URL.
        if "://" in base and wanted.startswith(f"{base}/")
    }
    longest = max(map(len, found.values()), default=0)
    return [server for server, base in found.items() if len(base) == longest]


def variable_of(server: str) -> str:
    """The environment variable with the token of a server."""
    return f"OMNIGRAPH_TOKEN_{server.upper().replace('-', '_')}"


def require_name(server: str) -> None:
    """Reject a name that cannot be the header of a section."""
    if not _NAME.fullmatch(server):
        raise CommandError(
            f"{server!r} is not a valid server name: use letters, digits, `.`, `_` and `-`"
        )


def read_token(path: Path, server: str) -> str | None:
    """The stored token of a server."""
    return parse_tokens(_read_private(path)).get(server)


def store_token(path: Path, server: str, token: str) -> None:
    """Store a token, replacing the previous one."""
    with _alone(path):
        _write_private(path, with_token(_read_private(path), server, token))


def remove_token(path: Path, server: str) -> None:
    """Delete the token of a server, if there is one."""
    if not path.exists():
        return
    with _alone(path):
        text = _read_private(path)
        remaining = without_section(text, server)
        if remaining != text:
            _write_private(path, remaining)


def parse_tokens(text: str) -> dict[str, str]:
    """The token of each server in a credentials file; unrelated lines are skipped."""
    tokens: dict[str, str] = {}
    server: str | None = None
    for line in text.splitlines():
        if found := _SECTION.fullmatch(line):
            server = found[1].strip()
        elif server is not None and (found := _TOKEN.fullmatch(line)):
            token = _unquote(found[1])
            if token:
                tokens[server] = token
    return tokens


def with_token(text: str, server: str, token: str) -> str:
    """A credentials file with one server's section replaced."""
    if _CONTROL.search(token):
        raise CommandError(
            "a token must be one line without control characters; nothing was stored"
        )
    retained = without_section(text, server).rstrip("\n")
    section = f"[{server}]\ntoken = {_quote(token)}\n"
    return f"{retained}\n\n{section}" if retained else section


def without_section(text: str, server: str) -> str:
    """A credentials file without one server's section."""
    retained: list[str] = []
    is_retained = True
    for line in text.splitlines(keepends=True):
        if found := _SECTION.fullmatch(line):
            is_retained = found[1].strip() != server
        if is_retained:
            retained.append(line)
    return "".join(retained)


def _unquote(written: str) -> str:
    if written[:1] in ("'", '"'):
        end = written.find(written[0], 1)
        return written[1:end] if end > 0 else written
    # A token may contain a `#`; a comment begins after a space.
    return re.split(r"(?:^|\s)#", written, maxsplit=1)[0].strip()


def _quote(token: str) -> str:
    if not re.search(r"[\s#'\"]", token):
        return token
    if '"' not in token:
        return f'"{token}"'
    if "'" not in token:
        return f"'{token}'"
    raise CommandError(
        "a token that contains both kinds of quotes cannot be stored; nothing was stored"
    )


def _read_private(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        if stat.S_IMODE(mode) & 0o077:
            raise CommandError(
                f"{path} contains tokens and is readable by others; run `chmod 600 {path}` first"
            )
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {path}: {error}") from error


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """A block in which no other command rewrites the file, so that no token is lost."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise _refuse_write(path, error) from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _write_private(path: Path, text: str) -> None:
    # If the file is a symbolic link, its target is rewritten.
    retained = path.resolve()
    beside = retained.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as written:
            written.write(text)
            written.flush()
            os.fsync(written.fileno())
        beside.replace(retained)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise _refuse_write(path, error) from error


def _refuse_write(path: Path, error: OSError) -> CommandError:
    return CommandError(f"cannot write {path}: {error.strerror or error}; nothing was stored")
