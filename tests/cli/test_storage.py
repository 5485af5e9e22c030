"""`omnigraph storage check`: what it prints, how it exits, and the first start of compose."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

from tests.support.commands import invoke_command, run_command
from tests.support.s3_server import S3Server, client_options, serve_s3
from tests.support.source_tree import ROOT


def test_a_storage_check_prints_a_line_per_probe(tmp_path: Path) -> None:
    ended = invoke_command("storage", "check", tmp_path)

    assert (ended.code, ended.err) == (0, "")
    *probes, outcome = ended.out.splitlines()
    assert all(line.startswith("OK    ") for line in probes)
    assert any("create-if-absent  no commit and no lock" in line for line in probes)
    assert outcome == f"{tmp_path} can store a graph"
    assert list(tmp_path.iterdir()) == []


def test_an_unusable_place_is_reported_with_what_to_change(tmp_path: Path) -> None:
    (tmp_path / "graph").touch()

    ended = invoke_command("storage", "check", tmp_path / "graph")

    assert ended.code == 1
    failed, needed, advice, outcome = ended.out.splitlines()
    assert failed.startswith("FAIL  access")
    assert "a file is where a folder is needed" in failed
    assert needed.strip() == (
        "a graph needs that objects can be written, read, listed and deleted here"
    )
    assert advice.strip().startswith("-> ")
    assert outcome == f"{tmp_path}/graph cannot be used; the other checks were skipped"


def test_as_json_every_probe_has_its_promise_and_what_came_of_it(tmp_path: Path) -> None:
    ended = invoke_command("storage", "check", "--store", tmp_path, "--json")

    probes = ended.fields.pop("probes")
    assert ended.code == 0
    assert {name: ended.fields[name] for name in ("uri", "ok", "complete")} == {
        "uri": str(tmp_path),
        "ok": True,
        "complete": True,
    }
    assert isinstance(probes, list)
    assert probes[0] == {
        "probe": "access",
        "ok": True,
        "promise": "objects can be written, read, listed and deleted here",
        "problem": None,
        "advice": None,
    }


def test_as_json_a_failure_exits_with_one_too(tmp_path: Path) -> None:
    (tmp_path / "graph").touch()

    ended = invoke_command("storage", "check", tmp_path / "graph", "--json")

    assert ended.code == 1
    assert (ended.fields["ok"], ended.fields["complete"]) == (False, False)


def test_a_server_is_no_storage(tmp_path: Path) -> None:
    ended = invoke_command("storage", "check", tmp_path, "--server", "http://127.0.0.1:1")

    assert ended.code == 1
    assert "`storage check` is a direct (storage-native) command" in ended.err


def test_a_bucket_is_reached_by_the_variables_of_the_aws_tools() -> None:
    with serve_s3() as server:
        bucket = server.create_bucket()

        ended = run_command("storage", "check", f"s3://{bucket}/g", env=_variables(server))

        left = server.object_store(bucket, prefix="").list().collect()
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[-1] == f"s3://{bucket}/g can store a graph"
    assert list(left) == []


def test_the_first_start_of_the_compose_file_makes_a_graph_and_later_ones_keep_it(
    tmp_path: Path,
) -> None:
    script = _first_start().replace("/etc/omnigraph/schema.pg", str(ROOT / "deploy/schema.pg"))
    store = tmp_path / "graph"

    ended = [_run_script(script, store) for _ in range(2)]

    assert [each.returncode for each in ended] == [0, 0], ended
    assert "Person" in invoke_command("schema", "show", store).out
    commits = invoke_command("commit", "list", store, "--json").fields["commits"]
    assert isinstance(commits, list)
    assert len(commits) == 1


def _first_start() -> str:
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
    *shell, script = compose["services"]["graph"]["command"]
    assert shell == ["bash", "-euc"]
    return str(script).replace("$$", "$")


def _run_script(script: str, store: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euc", script],
        env={"PATH": path, "HOME": str(store.parent), "OMNIGRAPH_STORE": str(store)},
        capture_output=True,
        text=True,
        check=False,
    )


def _variables(server: S3Server) -> dict[str, str]:
    options = client_options(server.endpoint)
    return {
        "AWS_ENDPOINT_URL_S3": options["aws_endpoint"],
        "AWS_REGION": options["aws_region"],
        "AWS_ACCESS_KEY_ID": options["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": options["aws_secret_access_key"],
    }
