"""Plants every bug in a copy of the source and reports which test detects it.

Run as a program, with the names of some bugs, or with none for all of them. Guarantees that the
tests of a bug pass without it, that they ran on the copy in which it is planted, and that a bug
that no test detects, or that no longer fits the source, fails the run.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutants import MUTANTS
from tests.mutants.planting import MisplantedError, Mutant, plant
from tests.support.source_tree import ROOT

AT_ONCE = 2
RUN_S_MAX = 240

# Without the look at where the product came from, tests of another copy would tell us nothing.
TEST = """
import sys
from pathlib import Path
import omnigraph, pytest
if not Path(omnigraph.__file__).is_relative_to(sys.argv[1]):
    sys.exit(f"{omnigraph.__file__} is not in {sys.argv[1]}")
sys.exit(pytest.main(sys.argv[2:]))
"""
OPTIONS = ("-q", "--no-header", "--tb=no", "-rfE", "-p", "no:cacheprovider")
RED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+::.+?)(?: - (.*))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Caught:
    """A test failed, as it should, and this is what it said."""

    test: str
    complaint: str


@dataclass(frozen=True, slots=True)
class Survived:
    """No test failed."""


@dataclass(frozen=True, slots=True)
class Untested:
    """The tests could not say anything about the bug."""

    reason: str


Outcome = Caught | Survived | Untested


def main(names: Sequence[str]) -> int:
    """The exit code of a run: 0 if each of the bugs was caught."""
    if unknown := set(names) - {mutant.name for mutant in MUTANTS}:
        sys.stdout.write(f"there is no such bug: {', '.join(sorted(unknown))}\n")
        return 2
    mutants = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        original = copy_all(ROOT, Path(folder) / "original")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            outcomes = list(pool.map(lambda each: check_and_print(each, original), mutants))
        caught = [outcome.test for outcome in outcomes if isinstance(outcome, Caught)]
        is_fair = are_green(caught, original)
    duration_s = time.monotonic() - started
    sys.stdout.write(f"{len(caught)} of {len(mutants)} planted bugs caught in {duration_s:.0f} s\n")
    return 0 if is_fair and len(caught) == len(mutants) else 1


def copy_all(source: Path, target: Path) -> Path:
    """A copy of the product and its tests: what is edited while this runs stays out of it."""
    for folder in ("src", "tests"):
        shutil.copytree(source / folder, target / folder)
    shutil.copy2(source / "pyproject.toml", target)
    return target


def check_and_print(mutant: Mutant, original: Path) -> Outcome:
    """The outcome of a bug, printed as soon as it is known."""
    outcome = check(mutant, original)
    sys.stdout.write(f"{mutant.name}: {describe(outcome)}\n")
    sys.stdout.flush()
    return outcome


def check(mutant: Mutant, original: Path) -> Outcome:
    """Plant a bug in a copy of the product alone, and let its tests look for it."""
    with tempfile.TemporaryDirectory(dir=original.parent, ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        shutil.copytree(original / "src", place / "src")
        try:
            plant(mutant, root=place)
        except MisplantedError as error:
            return Untested(str(error))
        return run_tests(["-x", *mutant.tests], product=place, tests=original)


def are_green(caught: Sequence[str], original: Path) -> bool:
    """Whether tests pass without any bug: else they would catch whatever is planted."""
    if not caught:
        return True
    options = ("-n", str(AT_ONCE), "--dist", "worksteal")
    outcome = run_tests([*options, *dict.fromkeys(caught)], product=original, tests=original)
    if isinstance(outcome, Survived):
        return True
    sys.stdout.write(f"nothing planted: {describe(outcome)}\n")
    return False


def run_tests(arguments: Sequence[str], *, product: Path, tests: Path) -> Outcome:
    """What tests say of the product in a place."""
    # Before the product that is installed, and for the processes that tests start as well.
    paths = {"PYTHONPATH": str(product / "src"), "TMPDIR": str(product)}
    with subprocess.Popen(
        [sys.executable, "-c", TEST, str(product), *OPTIONS, *arguments],
        cwd=tests,
        env={**os.environ, **paths, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            output, _ = running.communicate(timeout=RUN_S_MAX)
        except subprocess.TimeoutExpired:
            # What the tests have started goes with them.
            os.killpg(running.pid, signal.SIGKILL)
            return Untested(f"the tests did not end in {RUN_S_MAX} s")
    if running.returncode == 0:
        return Survived()
    if running.returncode == 1 and (red := RED.search(output)):
        return Caught(red[1], red[2] or "")
    return Untested(output)


def describe(outcome: Outcome) -> str:
    """An outcome in a line, or the output of pytest if there is none."""
    match outcome:
        case Caught(test, complaint):
            return f"caught by {test} ({complaint})"
        case Survived():
            return "SURVIVED"
        case Untested(reason):
            return f"NOT TESTED\n{reason}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
