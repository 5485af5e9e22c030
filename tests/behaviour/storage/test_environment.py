"""Environment variables locate a bucket for every way to open a graph or a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from tests.support.clusters import knowledge_cluster
from tests.support.commands import invoke_command
from tests.support.graphs import ndjson, node, rows
from tests.support.s3_server import REGION, S3Server, serve_s3

SCHEMA = "node Person { name: String @key }"
UNUSED_ENDPOINT = "http://127.0.0.1:9"
WHO = {"AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """One endpoint for the module; every test has a bucket of its own."""
    with serve_s3() as running:
        yield running


def say(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], server: S3Server) -> None:
    for name, value in {**WHO, **variables}.items():
        monkeypatch.setenv(name, value.replace("{endpoint}", server.endpoint))


@pytest.mark.parametrize(
    "variables",
    [
        {"AWS_ENDPOINT_URL_S3": "{endpoint}"},
        {"AWS_ENDPOINT_URL": "{endpoint}"},
        {"AWS_ENDPOINT_URL_S3": "{endpoint}", "AWS_ENDPOINT_URL": UNUSED_ENDPOINT},
        {
            "AWS_ENDPOINT_URL": UNUSED_ENDPOINT,
            "AWS_ENDPOINT_URL_S3": "{endpoint}",
            "AWS_ALLOW_HTTP": "on",
        },
        {
            "AWS_ENDPOINT_URL_S3": "{endpoint}",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
            "AWS_S3_FORCE_PATH_STYLE": "yes",
        },
    ],
    ids=["of S3", "of everything", "of both", "of both, turned round", "in the path"],
)
def test_a_graph_is_where_the_environment_says(
    variables: dict[str, str], server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(monkeypatch, variables, server)
    uri = f"s3://{server.create_bucket()}/g"

    omnigraph.init(uri, schema=SCHEMA).close()
    with omnigraph.open(uri) as graph:
        graph.load(ndjson(node("Person", name="Ann")), mode="append")
        found = rows(graph, "Person")

    assert list(found) == ["Ann"]


def test_every_request_is_made_in_the_name_of_a_session(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(monkeypatch, {"AWS_ENDPOINT_URL_S3": "{endpoint}", "AWS_SESSION_TOKEN": "a role"}, server)
    uri = f"s3://{server.create_bucket()}/g"

    with server.recording() as requests:
        omnigraph.init(uri, schema=SCHEMA).close()

    assert requests
    assert {each.session for each in requests} == {"a role"}


def test_commands_find_it_too(
    tmp_path: Path, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(monkeypatch, {"AWS_ENDPOINT_URL_S3": "{endpoint}"}, server)
    root = f"s3://{server.create_bucket()}"
    folder = knowledge_cluster(tmp_path)
    config = (folder / "cluster.yaml").read_text()
    (folder / "cluster.yaml").write_text(f"{config}storage: {root}/team\n")

    ended = [
        invoke_command("cluster", "import", "--config", folder),
        invoke_command("cluster", "apply", "--config", folder),
        invoke_command("optimize", "--cluster", f"{root}/team", "--graph", "knowledge"),
        invoke_command("doctor", f"{root}/team/graphs/knowledge.omni"),
    ]

    managed = f"{root}/team/graphs/other.omni"
    refused = invoke_command("init", managed, "--schema", folder / "people.pg")

    assert [each.code for each in ended] == [0] * 4, ended
    assert refused.code == 1
    assert "`omnigraph cluster apply`" in refused.err
    with omnigraph.open(f"{root}/team/graphs/knowledge.omni", read_only=True) as graph:
        assert "Person" in graph.schema_source
