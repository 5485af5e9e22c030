"""Pages of shell commands, run as a reader would type them and compared with what they show.

A `console` block holds `$ command` lines, each with what it prints below it; `> ` goes on with the
command above. `…` stands for anything within a line, and alone on a line for any lines. A block
below a line that ends in "Save as `name`:" becomes that file. All commands of a page share one
shell, in an empty folder with a home of its own. The port 8080 of a page is one that is free.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.source_tree import ROOT

FENCED = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SAVED = re.compile(r"Save\s+as\s+`([^`]+)`[^`\n]*:\s*\Z")
FAILURE = re.compile(r"^(Error|merge conflicts): ", re.MULTILINE)
ANYTHING = "…"
PORT_ON_PAGES = "8080"
# A page that starts Spark waits for a Java machine; nothing else comes near.
COMMAND_ENDS_WITHIN_S = 240.0
SERVER_STARTS_WITHIN_S = 60.0
POLL_S = 0.05

# What differs from run to run: ids of commits and of edges, times, durations.
VOLATILE = (
    re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b"),
    re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?"),
    re.compile(r"\b\d{16}\b"),
    re.compile(r"\bsha256:[0-9a-f]{64}\b"),
)


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A block that the page asks to save."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Typed:
    """A command, what the page shows below it, and where: its line, and the span of the output."""

    command: str
    shown: str
    line_number: int
    start: int
    end: int


Step = SavedFile | Typed


@dataclass(frozen=True, slots=True)
class Surprise:
    """A command that printed something else than its page shows, or failed unannounced."""

    typed: Typed
    printed: str
    code: int

    def __str__(self) -> str:
        return (
            f"line {self.typed.line_number}: $ {self.typed.command}\n"
            f"--- the page\n{self.typed.shown}\n--- the command (exit {self.code})\n{self.printed}"
        )


def parse_page(page: str) -> tuple[Step, ...]:
    """The files and commands of a page, from top to bottom."""
    return tuple(_steps(page))


def run_page(page: str, folder: Path) -> list[Surprise]:
    """Run all of a page in an empty folder; what went otherwise than it says."""
    surprises = []
    with _open_shell(folder) as shell:
        for step in parse_page(page):
            match step:
                case SavedFile(name, text):
                    shell.save(name, text)
                case Typed():
                    printed, code = shell.run(step.command)
                    if not _is_as_shown(step.shown, printed, code):
                        surprises.append(Surprise(step, printed, code))
    return surprises


def rewrite_page(page: str, surprises: list[Surprise]) -> str:
    """The page with what its commands print now, ids and times left open."""
    for each in sorted(surprises, key=lambda each: each.typed.start, reverse=True):
        printed = each.printed
        for pattern in VOLATILE:
            printed = pattern.sub(ANYTHING, printed)
        shown = f"{printed}\n" if printed else ""
        page = page[: each.typed.start] + shown + page[each.typed.end :]
    return page


def _steps(page: str) -> Iterator[Step]:
    for block in FENCED.finditer(page):
        language, text = block.groups()
        saved = SAVED.search(page[: block.start()])
        if saved is not None:
            yield SavedFile(saved[1], text)
        elif language == "console":
            yield from _typed(page, text, block.start(2))


def _typed(page: str, text: str, start: int) -> Iterator[Typed]:
    for each in re.finditer(r"^\$ (.*(?:\n> .*)*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        yield Typed(
            command=each[1].replace("\n> ", "\n"),
            shown=each[2].strip("\n"),
            line_number=page.count("\n", 0, start + each.start()) + 1,
            start=start + each.start(2),
            end=start + each.end(2),
        )


def _is_as_shown(shown: str, printed: str, code: int) -> bool:
    # A page that shows no failure must not hide one.
    is_announced = code == 0 or FAILURE.search(shown) is not None
    return is_announced and re.fullmatch(_pattern(shown), printed) is not None


def _pattern(shown: str) -> str:
    if not shown:
        return ""
    lines = [_line_pattern(line.rstrip()) for line in shown.split("\n")]
    return r"\n".join(lines)


def _line_pattern(line: str) -> str:
    if line.strip() == ANYTHING:
        return r"(?s:.*)"
    return r"[^\n]*".join(re.escape(part) for part in line.split(ANYTHING))


class _Shell:
    """One bash that remembers directories, variables and background jobs between commands."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, port: int) -> None:
        self._process = process
        self._folder = folder
        self._port = port

    def save(self, name: str, text: str) -> None:
        """Put a file of the page where the page's commands begin."""
        path = self._folder / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._localize(text), encoding="utf-8")

    def run(self, command: str) -> tuple[str, int]:
        """What a command prints on either stream, without spaces at line ends, and how it ended."""
        script, output = self._folder / "command.sh", self._folder / "printed.txt"
        script.write_text(f"{self._localize(command)}\n", encoding="utf-8")
        # Read from a file, so that the command's own standard input is not the list of commands.
        code = self._send(f"source {script} < /dev/null > {output} 2>&1; echo $?")
        if command.rstrip().endswith("&") and not self._is_served():
            code = 1
        printed = output.read_text(encoding="utf-8").replace(str(self._port), PORT_ON_PAGES)
        return "\n".join(line.rstrip() for line in printed.splitlines()).strip("\n"), code

    def _send(self, line: str) -> int:
        """The number that a line of shell prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        timer = threading.Timer(COMMAND_ENDS_WITHIN_S, self._process.kill)
        timer.start()
        received = self._process.stdout.readline()
        timer.cancel()
        assert received, f"the shell did not come back from: {line}"
        return int(received)

    def _is_served(self) -> bool:
        """Whether the server that was just started listens, once it does or has ended."""
        deadline = time.monotonic() + SERVER_STARTS_WITHIN_S
        while time.monotonic() < deadline and self._send("kill -0 $! 2> /dev/null; echo $?") == 0:
            with socket.socket() as caller:
                if caller.connect_ex(("127.0.0.1", self._port)) == 0:
                    return True
            time.sleep(POLL_S)
        return False

    def _localize(self, text: str) -> str:
        return text.replace(PORT_ON_PAGES, str(self._port))


@contextmanager
def _open_shell(folder: Path) -> Iterator[_Shell]:
    for name in ("home", "work"):
        (folder / name).mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    inherited = {name: text for name, text in os.environ.items() if not _is_ours(name)}
    process = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-o", "pipefail"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder / "work",
        env={
            **inherited,
            "HOME": str(folder / "home"),
            "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
        },
        start_new_session=True,
    )
    try:
        yield _Shell(process, folder, port)
    finally:
        # The shell leads a group of its own, with the servers that the page started.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _is_ours(name: str) -> bool:
    return name.startswith(("OMNIGRAPH_", "AWS_")) or name in ("NO_COLOR", "COLUMNS")
