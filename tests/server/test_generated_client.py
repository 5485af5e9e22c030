"""A client generated from the OpenAPI document by a common generator compiles and works."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hostile_requests import read_document
from tests.support.policed_servers import ALLOWED_TOKEN, policed_server
from tests.support.servers import FIND_PERSON, Server
from tests.support.source_tree import ROOT

SOURCES = ROOT / "tests" / "clients" / "typescript"
NPM_S_MAX = 300.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("generated")
    (folder / "people.gq").write_text(FIND_PERSON, encoding="utf-8")
    with policed_server(folder, "--queries", str(folder / "people.gq")) as running:
        yield running


def npm(folder: Path, *arguments: str) -> str:
    """The output of an npm command; fails without npm or the packages."""
    command = shutil.which("npm")
    assert command is not None, "npm is missing: install nodejs and npm (Debian has both)"
    done = subprocess.run(
        [command, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=NPM_S_MAX,
        check=False,
    )
    assert done.returncode == 0, f"npm {' '.join(arguments)}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_generated_client_runs_the_main_routes(server: Server, tmp_path: Path) -> None:
    project = tmp_path / "client"
    shutil.copytree(SOURCES, project)
    (project / "openapi.json").write_text(json.dumps(read_document(server)), encoding="utf-8")
    npm(project, "ci", "--prefer-offline")

    npm(project, "run", "generate")
    npm(project, "run", "compile")
    said = npm(project, "run", "start", "--", server.url, ALLOWED_TOKEN, "no-token")

    assert said.count(": done") == 6


def test_the_packages_are_pinned_and_no_registry_is_named() -> None:
    locked = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))["packages"]

    packages = {name: package for name, package in locked.items() if name}

    assert packages
    assert all(package["version"] and package["integrity"] for package in packages.values())
    assert not any("resolved" in package for package in packages.values())
