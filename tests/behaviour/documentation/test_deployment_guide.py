"""Parts of the deployment guide that no test can run are read by a shell, a parser and Spark.

Its `console` blocks are run elsewhere.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from itertools import pairwise

import click
import pytest
from pyspark.sql import SparkSession

from omnigraph.cli.main import make_root
from tests.support.source_tree import read_document, require_none

GUIDE = read_document("docs/guide/deployment.md")
BLOCKS = [
    "".join(line for line in each.splitlines(keepends=True) if not line.startswith("```"))
    for each in re.findall(r"^```.*?^```$", GUIDE, re.DOTALL | re.MULTILINE)
    if each.startswith("```\n")
]
DOCKERFILES = [each for each in BLOCKS if "\nFROM " in each]
SHELL = [each for each in BLOCKS if each not in DOCKERFILES]


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.split("\n")[0][:40])
def test_a_shell_can_read_every_command(block: str) -> None:
    read = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)

    assert (read.returncode, read.stderr) == (0, "")


def test_the_command_line_parses_every_command_of_the_guide() -> None:
    shown = [words[1:] for words in _commands() if words[0] == "omnigraph"]

    root = make_root()
    assert len(shown) >= 2
    for words in shown:
        with click.Context(root, info_name="omnigraph") as parent:
            name, command, rest = root.resolve_command(parent, list(words))
            assert command is not None
            command.make_context(name, rest, parent=parent)


def test_the_executor_dockerfile_uses_known_instructions() -> None:
    (dockerfile,) = DOCKERFILES
    words = [line.split()[0] for line in dockerfile.splitlines() if not line.startswith("#")]

    require_none(set(words) - {"ARG", "FROM", "USER", "COPY", "RUN", "ENV"}, rule="it is one")


def test_spark_has_every_setting_and_every_program(spark: SparkSession) -> None:
    java = spark._jvm  # noqa: SLF001 - no other list of all settings
    assert java is not None
    # Settings of Kubernetes are known once the class that declares them is there.
    java.java.lang.Class.forName("org.apache.spark.deploy.k8s.Config$")
    find = java.org.apache.spark.internal.config.ConfigEntry.findEntry
    named = [each for each in _settings() if not each.startswith("spark.executorEnv.")]

    assert "spark.kubernetes.namespace" in named
    require_none((each for each in named if find(each) is None), rule="Spark knows the setting")
    for words in _commands():
        if words[0] == "spark-class":
            java.java.lang.Class.forName(words[1])


def _commands() -> list[list[str]]:
    lines = (line for block in SHELL for line in block.replace("\\\n", " ").splitlines())
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def _settings() -> set[str]:
    given = {
        value.partition("=")[0]
        for words in _commands()
        for flag, value in pairwise(words)
        if flag == "--spark-conf"
    }
    return given | set(re.findall(r"`(?:--spark-conf )?(spark\.[A-Za-z.]+\.[A-Za-z]+)", GUIDE))
