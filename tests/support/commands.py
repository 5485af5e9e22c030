"""Command lines for tests: in a process of their own, or in this one.

`run_command` starts what a user starts; `invoke_command` runs the same code without the start of an
interpreter. Neither sees the settings of the user who runs the tests: `home` is the folder of the
configuration, an empty one unless a test gives another, and no `OMNIGRAPH_…` variable is inherited,
nor settings of the terminal.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path

from omnigraph.cli.main import run

# The first import of Lance on a busy machine takes seconds.
ENDS_WITHIN_S = 120.0
NOWHERE = Path("/nonexistent/omnigraph-home")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it said where."""

    code: int
    out: str
    err: str

    @property
    def body(self) -> object:
        """What it printed as JSON."""
        return json.loads(self.out)

    @property
    def fields(self) -> dict[str, object]:
        """The JSON object that it printed."""
        body = self.body
        assert isinstance(body, dict), self.out
        return body


def run_command(
    *arguments: str | Path,
    home: Path | None = None,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Ended:
    """Run a command line in a process of its own."""
    finished = subprocess.run(
        [sys.executable, "-m", "omnigraph", *map(str, arguments)],
        input=stdin.encode(),
        capture_output=True,
        env=command_environment(home=home, env=env),
        cwd=cwd,
        timeout=ENDS_WITHIN_S,
        check=False,
    )
    return Ended(finished.returncode, finished.stdout.decode(), finished.stderr.decode())


def invoke_command(
    *arguments: str | Path,
    home: Path | None = None,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command line in this process; its environment is seen by the command line only."""
    with _own_streams(stdin) as (out, err):
        code = run(
            [str(argument) for argument in arguments],
            environment=command_environment(home=home, env=env),
        )
    return Ended(code, out.getvalue().decode(), err.getvalue().decode())


def run_with_reply(
    *arguments: str | Path,
    prompt: str,
    reply: str,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[Ended, str]:
    """Run a command line on a terminal, reply to its prompt, and return what is echoed."""
    terminal, its_end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "omnigraph", *map(str, arguments)],
        stdin=its_end,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=command_environment(home=home, env=env),
        # Without this one, the prompt would appear at the terminal that runs the tests.
        start_new_session=True,
    ) as child:
        os.close(its_end)
        assert child.stderr is not None
        shown = b""
        while prompt.encode() not in shown and (piece := os.read(child.stderr.fileno(), 4096)):
            shown += piece
        os.write(terminal, f"{reply}\n".encode())
        out, err = child.communicate(timeout=ENDS_WITHIN_S)
    echoed = b""
    # A terminal that no process has open gives what is left in it, and then an error.
    with suppress(OSError):
        echoed = os.read(terminal, 4096)
    os.close(terminal)
    return Ended(child.returncode, out.decode(), (shown + err).decode()), echoed.decode()


def command_environment(
    *, home: Path | None = None, env: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a command: this process's without our settings, and then `env`."""
    # Some libraries tell the programs that they start how wide a terminal is.
    ours = ("OMNIGRAPH_", "COLUMNS", "LINES", "NO_COLOR")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**inherited, "OMNIGRAPH_HOME": str(home or NOWHERE), **(env or {})}


@contextmanager
def _own_streams(stdin: str) -> Iterator[tuple[BytesIO, BytesIO]]:
    """Streams of bytes in the place of the process's, as commands may write bytes too."""
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = BytesIO(), BytesIO()
    sys.stdin = TextIOWrapper(BytesIO(stdin.encode()), encoding="utf-8")
    sys.stdout = TextIOWrapper(out, encoding="utf-8", newline="\n", write_through=True)
    sys.stderr = TextIOWrapper(err, encoding="utf-8", newline="\n", write_through=True)
    mine = sys.stdout, sys.stderr
    try:
        yield out, err
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for stream in mine:
            # Detached, because a stream that is collected closes what it wraps.
            stream.detach()
