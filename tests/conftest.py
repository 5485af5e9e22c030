"""The volume of generated input, the shared Spark session and the summary of a run.

Generated input is small and the same in every run; `make verify` generates more (profile `full`),
`make fuzz` much more (`long`), and `--hypothesis-profile=fresh` generates new input.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.run_report import sum_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No deadlines: on a shared core a slow example says more about the neighbours than about the code.
settings.register_profile("short", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("full", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("fresh", max_examples=100, deadline=None, print_blob=True)
settings.register_profile("long", max_examples=10_000, deadline=None, print_blob=True)
settings.load_profile("short")

# For small jobs, optimising compilation and parallel garbage collection cost more than they save.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

PROVIDER_VARIABLES = (
    "OMNIGRAPH_EMBEDDINGS_MOCK",
    "OMNIGRAPH_EMBED_BASE_URL",
    "OMNIGRAPH_EMBED_PROVIDER",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
)


@pytest.fixture(autouse=True)
def _no_embedding_provider() -> None:
    """A developer's key, or one that a library sets, must not send the texts of tests out."""
    for name in PROVIDER_VARIABLES:
        os.environ.pop(name, None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts and seeds that tests reported."""
    reports = terminalreporter.getreports("passed")
    for line in sum_up(report.capstdout for report in reports):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The Spark session of this process, started on first use."""
    # Importing PySpark takes longer than most tests do.
    with import_module("tests.support.spark").warmed_up_session() as running:
        yield running
