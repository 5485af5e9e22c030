"""Shells complete command lines: names and flags at once, names of the configuration, and files."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import command_environment, invoke_command

HEAVY = frozenset({"lance", "pyarrow", "numpy", "pandas", "pyspark", "pydantic", "lark", "orjson"})

# What bash does when a user presses the tab key, without a terminal.
PRESS_TAB = """
source "$1"
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { printf '%s ' compopt "$@"; echo; }
_omnigraph_completion omnigraph
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_calls_omnigraph(shell: str) -> None:
    ended = invoke_command("completion", shell)

    assert (ended.code, ended.err) == (0, "")
    assert f"_OMNIGRAPH_COMPLETE={shell}_complete" in ended.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_one_that_it_reads(shell: str, tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(invoke_command("completion", shell).out)

    checked = subprocess.run([shell, "-n", script], capture_output=True, check=False)

    assert (checked.returncode, checked.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["br"], ["branch"]),
        (["branch", ""], ["create", "list", "delete", "merge"]),
        (["branch", "cr"], ["create"]),
        (["com"], ["commit", "completion"]),
        (["completion", "z"], ["zsh"]),
        (["branch", "--sto"], ["--store"]),
        (["version", "--serv"], ["--server"]),
        (["--profile", "st"], ["stored"]),
        (["branch", "list", "--server", ""], ["dev", "prod"]),
        (["alias", "w"], ["who"]),
    ],
    ids=" ".join,
)
def test_bash_completes_what_was_begun(
    words: list[str], expected: list[str], tmp_path: Path
) -> None:
    _configure(tmp_path)

    completed = _press_tab(words, home=tmp_path)

    assert completed == expected


def test_bash_completes_paths_where_a_file_is_wanted(tmp_path: Path) -> None:
    completed = _press_tab(["lint", "--query", ""], home=tmp_path)

    assert completed == ["compopt -o default "]


def test_a_broken_configuration_completes_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("profiles: [")

    assert _press_tab(["--profile", ""], home=tmp_path) == []


@pytest.mark.parametrize("words", ["omnigraph ", "omnigraph branch ", "omnigraph --"])
def test_names_are_completed_without_importing_what_is_heavy(words: str, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "omnigraph"],
        env={
            **command_environment(home=tmp_path),
            "_OMNIGRAPH_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        },
        capture_output=True,
        text=True,
        check=True,
    )

    imported = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert result.stdout
    assert not {name.partition(".")[0] for name in imported} & HEAVY
    assert not [name for name in imported if name.startswith("omnigraph.cli.commands.")]


def _press_tab(words: list[str], *, home: Path) -> list[str]:
    """What bash offers after these words, the last of which is not finished."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    folder = home / "bin"
    folder.mkdir()
    program = folder / "omnigraph"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m omnigraph "$@"\n')
    program.chmod(0o755)
    (home / "script").write_text(invoke_command("completion", "bash").out)
    environment = command_environment(home=home)
    done = subprocess.run(
        [bash, "--norc", "-c", PRESS_TAB, "bash", str(home / "script"), "omnigraph", *words],
        env={**environment, "PATH": f"{folder}:{environment['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


def _configure(home: Path) -> None:
    (home / "config.yaml").write_text(
        "servers: { prod: { url: 'https://p' }, dev: { url: 'http://d' } }\n"
        "profiles: { stored: { store: g }, served: { server: prod } }\n"
        "aliases: { who: { server: prod, query: find }, all: { server: prod, query: all } }\n"
    )
