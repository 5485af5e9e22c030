"""What is deployed hangs together: image, compose file, unit, and their one entrypoint."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from tests.support.source_tree import ROOT, read_document, require_none

DEPLOY = ROOT / "deploy"
ENTRYPOINT = DEPLOY / "entrypoint"
REFUSED = 64

STUB = '#!/bin/sh\nprintf "%s\\n" "$(basename "$0")" "$@"\n'


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a Dockerfile: its word, its flags and the rest."""

    word: str
    flags: Mapping[str, str]
    rest: str


# The entrypoint


def test_the_entrypoint_is_a_script_that_bash_can_read() -> None:
    read = subprocess.run(["bash", "-n", ENTRYPOINT], capture_output=True, text=True, check=False)

    assert (read.returncode, read.stderr) == (0, "")
    assert os.access(ENTRYPOINT, os.X_OK)


@pytest.mark.parametrize(
    ("variables", "flags"),
    [
        ({"OMNIGRAPH_STORE": "s3://b/g"}, "--store s3://b/g --bind 0.0.0.0:8080"),
        ({"OMNIGRAPH_CLUSTER": "/etc/c"}, "--cluster /etc/c --bind 0.0.0.0:8080"),
        (
            {"OMNIGRAPH_CLUSTER": "s3://b/c", "OMNIGRAPH_STORE": "  "},
            "--cluster s3://b/c --bind 0.0.0.0:8080",
        ),
        (
            {"OMNIGRAPH_STORE": " /my graphs/a ", "OMNIGRAPH_BIND": " [::1]:80 "},
            "--store '/my graphs/a' --bind [::1]:80",
        ),
        ({"OMNIGRAPH_STORE": "g", "OMNIGRAPH_BIND": " "}, "--store g --bind 0.0.0.0:8080"),
        ({"OMNIGRAPH_STORE": "g", "OMNIGRAPH_BIND": "localhost:0"}, "--store g --bind localhost:0"),
        *(
            (
                {"OMNIGRAPH_CLUSTER": "c", "OMNIGRAPH_REQUIRE_ALL_GRAPHS": text},
                f"--cluster c --bind 0.0.0.0:8080{flag}",
            )
            for text, flag in [
                ("", ""),
                (" ", ""),
                ("0", ""),
                ("false", ""),
                ("FALSE", ""),
                ("1", " --require-all-graphs"),
                ("yes", " --require-all-graphs"),
            ]
        ),
    ],
)
def test_variables_become_flags_of_the_server(
    variables: dict[str, str], flags: str, tmp_path: Path
) -> None:
    ended = _enter(variables, tmp_path)

    assert ended.stderr == ""
    assert ended.stdout.splitlines() == ["omnigraph-server", *shlex.split(flags)]


@pytest.mark.parametrize(
    ("variables", "arguments", "said"),
    [
        ({}, [], "set OMNIGRAPH_CLUSTER"),
        ({"OMNIGRAPH_CLUSTER": " ", "OMNIGRAPH_STORE": ""}, [], "set OMNIGRAPH_CLUSTER"),
        ({"OMNIGRAPH_CLUSTER": "c", "OMNIGRAPH_STORE": "g"}, [], "both set"),
        ({"OMNIGRAPH_STORE": "g", "OMNIGRAPH_BIND": "8080"}, [], "not HOST:PORT"),
        ({"OMNIGRAPH_STORE": "g", "OMNIGRAPH_BIND": ":8080"}, [], "not HOST:PORT"),
        ({"OMNIGRAPH_STORE": "g", "OMNIGRAPH_BIND": "::1:8080"}, [], "not HOST:PORT"),
        ({"OMNIGRAPH_STORE": "g", "OMNIGRAPH_BIND": "host:99999"}, [], "not HOST:PORT"),
        ({"OMNIGRAPH_STORE": "g"}, ["--store", "h"], "instead of --store"),
        ({"OMNIGRAPH_STORE": "g"}, ["--cluster=c"], "instead of --cluster"),
        ({"OMNIGRAPH_STORE": "g"}, ["--bind=x:1"], "instead of --bind"),
    ],
)
def test_an_invalid_setting_is_refused_and_starts_nothing(
    variables: dict[str, str], arguments: list[str], said: str, tmp_path: Path
) -> None:
    ended = _enter(variables, tmp_path, *arguments)

    assert ended.returncode == REFUSED
    assert said in ended.stderr
    assert ended.stdout == ""


def test_further_flags_follow_those_of_the_variables(tmp_path: Path) -> None:
    ended = _enter({"OMNIGRAPH_STORE": "g"}, tmp_path, "--policy", "/etc/my policy.yaml")

    assert ended.stdout.splitlines()[-2:] == ["--policy", "/etc/my policy.yaml"]


def test_a_command_runs_in_the_place_of_the_server(tmp_path: Path) -> None:
    ended = _enter({}, tmp_path, "omnigraph", "storage", "check", "s3://b/g")

    assert ended.stdout.splitlines() == ["omnigraph", "storage", "check", "s3://b/g"]


def test_every_flag_that_the_entrypoint_gives_is_one_of_the_server() -> None:
    given = set(re.findall(r"\(?(--[a-z-]+) ?\"?\$?", _code_of(ENTRYPOINT.read_text())))
    server = read_document("src/omnigraph/server/main.py")
    known = set(re.findall(r'@click\.option\("(--[a-z-]+)"', server)) | {"--help", "--version"}

    require_none(given - known, rule="the server has every flag that the entrypoint names")


# The image


def test_every_file_that_the_dockerfile_copies_exists_and_reaches_the_builder() -> None:
    copied = [
        source
        for each in _instructions()
        if each.word == "COPY" and "from" not in each.flags
        for source in shlex.split(each.rest)[:-1]
    ]
    included = [line[1:] for line in _ignored() if line.startswith("!")]

    assert copied
    require_none((each for each in copied if not (ROOT / each).exists()), rule="it exists")
    require_none(set(copied) - set(included), rule="Dockerfile.dockerignore lets it through")


def test_everything_that_building_the_package_reads_is_copied() -> None:
    project = read_document("pyproject.toml")
    named = {"pyproject.toml", "requirements.lock", "src", *re.findall(r'"([A-Z]+)"\]', project)}
    named |= set(re.findall(r'^(?:readme|path) = "([^"/]+)"', project, re.MULTILINE))
    copied = {
        source
        for each in _instructions()
        if each.word == "COPY"
        for source in shlex.split(each.rest)[:-1]
    }

    assert {"README.md", "LICENSE", "hatch_build.py"} <= named
    require_none(named - copied, rule="the image is built from it")


def test_the_container_runs_the_entrypoint_and_not_as_root() -> None:
    last = _last_stage()
    (user,) = [each.rest for each in last if each.word == "USER"]
    (entry,) = [each.rest for each in last if each.word == "ENTRYPOINT"]
    (target,) = [
        shlex.split(each.rest)[-1]
        for each in last
        if each.word == "COPY" and each.rest.startswith("deploy/entrypoint ")
    ]

    assert user.partition(":")[0] not in ("root", "0")
    assert yaml.safe_load(entry) == [target]
    assert [each.word for each in last].index("USER") > max(
        number for number, each in enumerate(last) if each.word == "RUN"
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "localhost", " 127.0.0.1"])
def test_the_health_check_uses_the_address_of_the_server(host: str) -> None:
    with _healthy_server() as port:
        # A proxy for the way out is none for the way home.
        variables = {"OMNIGRAPH_BIND": f"{host}:{port} ", "http_proxy": "http://127.0.0.1:9"}
        checked = _check_health(variables)

    assert checked.returncode == 0, checked.stderr


def test_a_server_that_is_not_there_is_not_healthy() -> None:
    with _healthy_server() as port:
        pass

    checked = _check_health({"OMNIGRAPH_BIND": f"0.0.0.0:{port}"})

    assert checked.returncode == 1


def test_by_default_the_health_check_uses_the_address_of_the_entrypoint(tmp_path: Path) -> None:
    (check,) = [each.rest for each in _last_stage() if each.word == "HEALTHCHECK"]
    entered = _enter({"OMNIGRAPH_STORE": "g", "OMNIGRAPH_BIND": " "}, tmp_path)

    assert "or '0.0.0.0:8080'" in check
    assert entered.stdout.split()[-1] == "0.0.0.0:8080"


def test_the_dockerfile_installs_only_packages_with_locked_hashes() -> None:
    installs = [
        command
        for each in _instructions()
        if each.word == "RUN"
        for command in each.rest.split("&&")
        if re.search(r"\bpip install\b", command)
    ]

    assert len(installs) == 2
    for command in installs:
        assert "--require-hashes" in command or "--constraint requirements.lock" in command


# The compose file


def test_the_compose_file_names_only_what_it_has() -> None:
    compose = _compose()
    services = _mapping(compose["services"])

    waited_for = {
        name
        for each in services.values()
        for name in _mapping(_mapping(each).get("depends_on", {}))
    }
    volumes = {
        str(volume).partition(":")[0]
        for each in services.values()
        for volume in _list(_mapping(each).get("volumes", []))
    }
    secrets = {
        str(name) for each in services.values() for name in _list(_mapping(each).get("secrets", []))
    }

    require_none(waited_for - services.keys(), rule="a service that is waited for exists")
    named = {each for each in volumes if not each.startswith((".", "/"))}
    assert named == _mapping(compose["volumes"]).keys()
    files = {each for each in volumes if each.startswith(".")}
    require_none((each for each in files if not (DEPLOY / each).exists()), rule="it exists")
    assert secrets == _mapping(compose["secrets"]).keys()


def test_the_compose_file_is_consistent_with_the_dockerfile(tmp_path: Path) -> None:
    server = _mapping(_mapping(_compose()["services"])["server"])
    environment = {name: str(text) for name, text in _mapping(server["environment"]).items()}
    build = _mapping(server["build"])
    (published,) = _list(server["ports"])
    (exposed,) = [each.rest for each in _last_stage() if each.word == "EXPOSE"]

    ended = _enter(environment, tmp_path)

    assert (DEPLOY / str(build["context"]) / str(build["dockerfile"])).is_file()
    assert str(published).rpartition(":")[2] == exposed
    assert environment["OMNIGRAPH_BIND"].rpartition(":")[2] == exposed
    assert ended.stdout.splitlines()[1:3] == ["--store", environment["OMNIGRAPH_STORE"]]
    assert str(published).startswith("127.0.0.1:"), "publishing is an explicit decision"


def test_the_store_of_the_compose_file_is_the_one_that_the_server_uses() -> None:
    services = _mapping(_compose()["services"])
    store, server = _mapping(services["s3"]), _mapping(services["server"])
    used = _mapping(server["environment"])
    bucket = str(used["OMNIGRAPH_STORE"]).removeprefix("s3://").partition("/")[0]

    assert used["AWS_ENDPOINT_URL_S3"] == "http://s3:9000"
    assert ":9000" in _list(store["command"])
    made = _mapping(store["environment"])
    assert made["MINIO_ROOT_USER"] == used["AWS_ACCESS_KEY_ID"]
    assert made["MINIO_ROOT_PASSWORD"] == used["AWS_SECRET_ACCESS_KEY"]
    assert f"store/{bucket}" in _list(_mapping(services["bucket"])["entrypoint"])


def test_no_deployed_file_contains_a_secret() -> None:
    written = [
        f"{path.name}: {line.strip()}"
        for path in DEPLOY.iterdir()
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"(SECRET|PASSWORD|TOKEN)\w*: +(?!\$\{|/run/)\S", line)
    ]

    require_none(written, rule="secrets come from the environment of the operator")


# The unit


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "omnigraph-server.service"
    text = (DEPLOY / unit.name).read_text()
    assert "ExecStart=/opt/omnigraph/bin/omnigraph-entrypoint\n" in text
    unit.write_text(text.replace("/opt/omnigraph/bin/omnigraph-entrypoint", str(ENTRYPOINT)))

    verified = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )

    assert (verified.returncode, verified.stderr) == (0, "")


def test_the_unit_gives_the_server_no_more_than_it_needs() -> None:
    said = _settings("Service")

    assert said["DynamicUser"] == ["yes"]
    assert said["NoNewPrivileges"] == ["yes"]
    assert said["ProtectSystem"] == ["strict"]
    assert said["CapabilityBoundingSet"] == [""]
    assert str(REFUSED) in said["RestartPreventExitStatus"][0].split()
    assert "OMNIGRAPH_BIND=127.0.0.1:8080" in said["Environment"]


@contextmanager
def _healthy_server() -> Iterator[int]:
    """The port of something that says that it is well."""
    with HTTPServer(("127.0.0.1", 0), _Healthy) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_given: object) -> None:
        """Say nothing."""


def _check_health(variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run what the image asks for its health by."""
    (check,) = [each.rest for each in _last_stage() if each.word == "HEALTHCHECK"]
    program, *arguments = yaml.safe_load(check.partition("CMD ")[2])
    assert program == "python"
    return subprocess.run(
        [sys.executable, *arguments], env=variables, capture_output=True, text=True, check=False
    )


def _enter(
    variables: Mapping[str, str], folder: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the entrypoint where the programs that it may start only tell their arguments."""
    for name in ("omnigraph", "omnigraph-server"):
        (folder / name).write_text(STUB)
        (folder / name).chmod(0o755)
    path = f"{folder}:{os.defpath}"
    return subprocess.run(
        ["bash", ENTRYPOINT, *arguments],
        env={"PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def _code_of(script: str) -> str:
    return "\n".join(line for line in script.splitlines() if not line.lstrip().startswith("#"))


def _instructions() -> list[Instruction]:
    joined = re.sub(r"\\\n", " ", _code_of((DEPLOY / "Dockerfile").read_text()))
    return [_parse_instruction(line) for line in joined.splitlines() if line.strip()]


def _parse_instruction(line: str) -> Instruction:
    word, *rest = line.split()
    flags = {}
    while rest and rest[0].startswith("--"):
        name, _, value = rest.pop(0)[2:].partition("=")
        flags[name] = value
    return Instruction(word, flags, " ".join(rest))


def _last_stage() -> list[Instruction]:
    found = _instructions()
    start = max(number for number, each in enumerate(found) if each.word == "FROM")
    return found[start:]


def _ignored() -> list[str]:
    return (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()


def _compose() -> dict[str, object]:
    return _mapping(yaml.safe_load((DEPLOY / "compose.yaml").read_text()))


def _settings(section: str) -> dict[str, list[str]]:
    """What a section of the unit says, by name; a name may be there several times."""
    found: dict[str, list[str]] = {}
    for name, value in _assignments(section):
        found.setdefault(name, []).append(value)
    return found


def _assignments(section: str) -> Iterator[tuple[str, str]]:
    _, _, body = (DEPLOY / "omnigraph-server.service").read_text().partition(f"[{section}]\n")
    for line in _code_of(body.partition("\n[")[0]).splitlines():
        if line.strip():
            name, equals, value = line.partition("=")
            assert equals, line
            yield name, value


def _mapping(value: object) -> dict[str, object]:
    assert isinstance(value, dict), value
    return value


def _list(value: object) -> list[object]:
    assert isinstance(value, list), value
    return value
