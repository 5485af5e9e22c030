"""A cluster in a bucket, applied and served by processes that know it by variables alone."""

from __future__ import annotations

from pathlib import Path

from tests.support.clusters import FIND_EMAIL, PEOPLE_WITH_EMAIL, write_files
from tests.support.commands import run_command
from tests.support.s3_server import REGION, S3Server
from tests.support.served_clusters import ADD_PERSON, TOKENS, policed_files
from tests.support.servers import Server, serving

PATH = "/graphs/knowledge/queries"


def add(server: Server, name: str) -> int:
    adding = {"params": {"name": name}}
    return server.request("POST", f"{PATH}/add_person", token="t-ann", json=adding).status_code


def find(server: Server, name: str) -> list[object]:
    body = {"params": {"name": name}}
    response = server.request("POST", f"{PATH}/find_person", token="t-rob", json=body)
    rows: list[object] = response.json()["rows"]
    return rows


def test_two_servers_serve_a_cluster_in_a_bucket_and_take_what_is_applied_there(
    tmp_path: Path, server: S3Server
) -> None:
    root = f"s3://{server.create_bucket()}/team"
    folder = policed_files(tmp_path / "cluster")
    config = (folder / "cluster.yaml").read_text()
    write_files(folder, {"cluster.yaml": f"{config}storage: {root}\n"})
    environment = {
        "AWS_ENDPOINT_URL_S3": server.endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }

    def cluster(verb: str) -> None:
        ended = run_command("cluster", verb, "--config", folder, env=environment)
        assert ended.code == 0, ended

    cluster("import")
    cluster("apply")
    variables = {**TOKENS, **environment}
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    with (
        serving(here, "--cluster", root, environment=variables) as one,
        serving(there, "--cluster", str(folder), environment=variables) as two,
    ):
        added = [add(one, "Ann"), add(two, "Bob"), add(one, "Cid")]
        found = [len(find(each, name)) for each in (one, two) for name in ("Ann", "Bob", "Cid")]
        write_files(
            folder,
            {"people.pg": PEOPLE_WITH_EMAIL, "queries/people.gq": ADD_PERSON + FIND_EMAIL},
        )
        cluster("apply")
        reloaded = one.request("POST", "/admin/reload", token="t-ann").json()
        names = [
            [query["name"] for query in each.request("GET", PATH, token="t-rob").json()["queries"]]
            for each in (one, two)
        ]

    assert added == [200] * 3
    assert found == [1] * 6
    assert reloaded == {"revision": 3, "graphs": ["knowledge", "map"], "quarantined": []}
    assert names == [["add_person", "find_email"], ["add_person", "find_person"]]
