"""Commands on a pseudo-terminal of their own, to type to and to look at.

The process is started without a fork of this one, which Lance does not survive. Nothing sleeps: a
test waits for what it expects to see.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pexpect
from pexpect.fdpexpect import fdspawn

from tests.support.commands import command_environment

WAITS_S = 60.0


@dataclass(frozen=True, slots=True)
class Screen:
    """A command that runs on a terminal."""

    process: subprocess.Popen[bytes]
    spawn: fdspawn[str]

    def type(self, keys: str) -> None:
        """Press keys."""
        self.spawn.send(keys)

    def wait_for(self, pattern: str) -> Sequence[str]:
        """Wait until the terminal was sent what matches; returns the groups of the match."""
        self.spawn.expect(pattern)
        found = self.spawn.match
        assert not isinstance(found, str | type)
        return () if found is None else found.groups()

    def wait_for_end(self) -> tuple[int, str]:
        """The exit code, and what the terminal was sent at last."""
        said = []
        try:
            while True:
                said.append(os.read(self.spawn.fileno(), 65536))
        except OSError:
            # The other end of the terminal is closed.
            pass
        code = self.process.wait(timeout=WAITS_S)
        return code, (self.spawn.buffer or "") + b"".join(said).decode()


@contextmanager
def on_a_terminal(
    *arguments: str | Path, home: Path | None, env: Mapping[str, str]
) -> Iterator[Screen]:
    """A command line on a terminal of 40 lines of 100 columns; it is ended with the block."""
    master, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    # The test does not respond to queries for the position of the cursor.
    wishes = {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **env}
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph", *map(str, arguments)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=command_environment(home=home, env=wishes),
        start_new_session=True,
    )
    os.close(terminal)
    spawn: fdspawn[str] = fdspawn(master, encoding="utf-8", timeout=WAITS_S)
    try:
        yield Screen(process, spawn)
    except (pexpect.TIMEOUT, pexpect.EOF) as error:
        raise AssertionError(f"the terminal shows instead: {spawn.before!r}") from error
    finally:
        process.kill()
        process.wait(timeout=WAITS_S)
        os.close(master)
