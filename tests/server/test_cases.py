"""Cases that need more than one graph, a graph of a cluster, or somebody who sees but a part."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp

from omnigraph.engine.settings import Settings, make_settings
from omnigraph.policy.bundle import BundleKind
from omnigraph.policy.gate import open_gate
from omnigraph.server.admission import Admission, Budget
from omnigraph.server.app import Doors, make_app
from omnigraph.server.boot import Source, open_sources
from omnigraph.server.calls import Means
from omnigraph.server.jobs import Jobs
from omnigraph.server.kept_answers import KeptAnswers
from omnigraph.server.logs import Lines, Log
from omnigraph.server.metrics import Metrics
from omnigraph.server.routes.table import make_routes
from omnigraph.server.served import Judge, ServedGraphs
from omnigraph.server.tokens import parse_tokens
from omnigraph.server.tracing import NoTracing
from omnigraph.server.workers import Workers
from tests.support.graphs import SOCIAL, build_graph, edge, node, social_graph
from tests.support.policed_servers import EVERYTHING, LISTING
from tests.support.raw_requests import ask
from tests.support.servers import Server, open_server, running_server

GRAPH = "/graphs/default"

# A cluster's graphs, as a server has them once it has booted from one


@dataclass(frozen=True, slots=True)
class ClusterServer:
    """A server of what a cluster has applied, asked without a socket."""

    app: ASGIApp

    def ask(self, method: str, path: str, *, token: str, json: object = None) -> httpx.Response:
        """One request and its answer."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                headers = {"Authorization": f"Bearer {token}"}
                return await client.request(method, path, headers=headers, json=json)

        return asyncio.run(send())


@contextmanager
def cluster_server(folder: Path, ids: Sequence[str]) -> Iterator[ClusterServer]:
    """Graphs of a cluster in folders of their names; Ann may do everything and Rob may read."""
    log = Log(Lines(BytesIO()), logging.INFO)
    (folder / "policy.yaml").write_text(EVERYTHING, encoding="utf-8")
    (folder / "listing.yaml").write_text(LISTING, encoding="utf-8")
    gate = open_gate(folder / "policy.yaml", kind=BundleKind.GRAPH, graph_id="knowledge")
    listing = open_gate(folder / "listing.yaml", kind=BundleKind.SERVER, graph_id=None)
    sources = [source_of(folder / id, gate) for id in ids]
    graphs = ServedGraphs(open_sources(sources, is_every_one_needed=False, log=log), listing)
    means = Means(
        graphs=graphs,
        reads=Workers(name="read", running_max=2, waiting_max=2),
        writes=Workers(name="write", running_max=2, waiting_max=2),
        admission=Admission(Budget(requests_max=4, bytes_max=1_000_000)),
        answers=KeptAnswers(),
        jobs=Jobs(new_id=lambda: "job", log=log),
        tracing=NoTracing(),
        log=log,
    )
    try:
        yield ClusterServer(
            make_app(
                make_routes(version="1", is_authenticated=True),
                means=means,
                doors=Doors(parse_tokens([("ann", "t-ann"), ("rob", "t-rob")]), frozenset()),
                metrics=Metrics(),
                new_id=lambda: "request",
            )
        )
    finally:
        means.close(within_s=30.0)


def source_of(path: Path, gate: Judge) -> Source:
    def settings() -> Settings:
        return make_settings(str(path), storage_options=None, durability="relaxed")

    return Source(path.name, settings, gate, None, is_managed=True)


def test_of_two_graphs_the_one_that_can_be_opened_is_served(tmp_path: Path) -> None:
    social_graph(tmp_path / "knowledge").close()

    with cluster_server(tmp_path, ["knowledge", "lost"]) as server:
        listed = server.ask("GET", "/graphs", token="t-ann")
        found = server.ask("GET", "/graphs/knowledge/snapshot", token="t-ann")
        missing = server.ask("GET", "/graphs/lost/snapshot", token="t-ann")

    assert [each["graph_id"] for each in listed.json()["graphs"]] == ["knowledge"]
    assert found.status_code == 200
    assert missing.status_code == 404
    told = missing.json()
    assert (told["error"], told["code"]) == ("graph 'lost' not found", "not_found")


def test_the_schema_of_a_clusters_graph_is_changed_in_the_cluster_alone(tmp_path: Path) -> None:
    social_graph(tmp_path / "knowledge").close()
    wanted = {"schema_source": f"{SOCIAL}\nnode More {{ name: String @key }}"}

    with cluster_server(tmp_path, ["knowledge"]) as server:
        path = "/graphs/knowledge/schema"
        denied = server.ask("POST", f"{path}/apply", token="t-rob", json=wanted)
        refused = server.ask("POST", f"{path}/apply", token="t-ann", json=wanted)
        schema = server.ask("GET", path, token="t-ann").json()["schema_source"]

    assert denied.status_code == 403
    assert refused.status_code == 409
    assert refused.json()["code"] == "conflict"
    assert "cluster apply" in refused.json()["error"]
    assert schema == SOCIAL


# Who is told what


def test_in_open_mode_nobody_lists_the_graphs(tmp_path: Path) -> None:
    with open_server(tmp_path) as server:
        answer = server.ask("GET", "/graphs", token=None)

    assert answer.status_code == 403
    assert answer.json()["code"] == "forbidden"


SECRET_SCHEMA = """
node Doc { slug: String @key  team: String  budget: String?  note: String? }
node Vault { code: String @key }
edge Cites: Doc -> Doc { why: String? }
"""
LIMITED = """
version: 1
groups: { limited: [lim] }
rules:
  - id: red documents
    allow:
      actors: { group: limited }
      actions: [read, export]
      types:
        Doc: { where: 'team = "red"', hide: [budget] }
        Vault: { where: none }
  - id: calling
    allow: { actors: { group: limited }, actions: [invoke_query, change, admin] }
"""
STORED = """
query all_of_it() { match { $d: Doc } return { $d.slug, $d.budget } }
query how_many() { match { $d: Doc } return { count($d) as n } }
"""
HIDDEN = ("budget", "9000 coins", "hidden-doc", "hidden-why", "blue", "vault-code")


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("limited")
    build_graph(
        folder / "graph",
        SECRET_SCHEMA,
        node("Doc", slug="d1", team="red", budget="9000 coins"),
        node("Doc", slug="d2", team="red"),
        node("Doc", slug="hidden-doc", team="blue", budget="9000 coins"),
        node("Vault", code="vault-code"),
        edge("Cites", "d1", "d2"),
        edge("Cites", "d1", "hidden-doc", why="hidden-why"),
    ).close()
    (folder / "policy.yaml").write_text(LIMITED, encoding="utf-8")
    (folder / "stored.gq").write_text(STORED, encoding="utf-8")
    arguments = ("--policy", f"{folder}/policy.yaml", "--queries", f"{folder}/stored.gq")
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"lim": "t-lim"}', "OMNIGRAPH_LOG": "debug"}
    with running_server(folder, *arguments, environment=tokens) as running:
        yield running


@pytest.mark.parametrize(
    "path",
    [
        "/snapshot",
        "/schema",
        "/queries",
        "/commits",
        "/recoveries",
        "/entity?type=Doc&id=d1",
        "/entity?type=Nothing&id=d1",
        "/blob?type=Doc&id=d1&property=budge",
        "/changes?start=beginning",
        "/diff?old={first}&new=main",
        "/diff?old={first}&new=main&types=Vault",
    ],
)
def test_what_a_policy_hides_is_in_no_answer_to_a_question(limited: Server, path: str) -> None:
    commits = limited.ask("GET", f"{GRAPH}/commits", token="t-lim").json()["commits"]
    asked = path.format(first=commits[0]["graph_commit_id"])

    answer = limited.ask("GET", f"{GRAPH}{asked}", token="t-lim")

    assert answer.status_code in (200, 404)
    assert [word for word in HIDDEN if word in answer.text] == []


@pytest.mark.parametrize("accepted", ["application/json", "application/vnd.apache.arrow.stream"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/query", {"query": "query q() { match { $d: Doc } return { $d.slug, $d.note } }"}),
        ("/query", {"query": "query q() { match { $d: Doc  $d cites $e } return { $e.slug } }"}),
        ("/query", {"query": "query q() { match { $d: Doc } return { $d.budge } }"}),
        ("/query", {"query": "query q() { match { $v: Vault } return { $v.code } }"}),
        ("/explain", {"query": "query q() { match { $d: Doc } return { $d.slug } }"}),
        ("/export", {}),
        ("/export", {"type_names": ["Vault"]}),
        ("/export", {"type_names": ["Nothing"]}),
        ("/schema/plan", {"schema_source": ""}),
        ("/queries/all_of_it", {}),
        ("/queries/how_many", {}),
        ("/load", {"mode": "append", "data": '{"type": "Doc", "data": {"slug": "n", "x": 1}}'}),
        ("/load", {"mode": "merge", "data": '{"type": "Doc", "data": {"slug": "d1"}}'}),
        ("/mutate", {"query": 'query w() { delete Doc where slug = "d1" }'}),
        ("/branches/merge", {"source": "main", "target": "other"}),
    ],
)
def test_what_a_policy_hides_is_in_no_answer_to_a_request(
    limited: Server, path: str, body: Mapping[str, object], accepted: str
) -> None:
    answer = limited.ask(
        "POST", f"{GRAPH}{path}", token="t-lim", json=body, headers={"Accept": accepted}
    )

    assert answer.status_code < 500
    assert [word for word in HIDDEN if word.encode() in answer.content] == []


def test_a_count_counts_only_what_is_seen(limited: Server) -> None:
    answer = limited.ask("POST", f"{GRAPH}/queries/how_many", token="t-lim", json={})
    snapshot = limited.ask("GET", f"{GRAPH}/snapshot", token="t-lim").json()

    assert answer.json()["rows"] == [{"n": 2}]
    counts = {each["table_key"]: each["row_count"] for each in snapshot["tables"]}
    assert counts == {"node:Doc": 2, "node:Vault": 0, "edge:Cites": 1}


def test_two_tokens_are_none(limited: Server) -> None:
    headers = [(b"Authorization", b"Bearer wrong"), (b"Authorization", b"Bearer t-lim")]

    first = ask(limited.url, b"GET", b"/graphs/default/schema", headers, b"")
    last = ask(limited.url, b"GET", b"/graphs/default/schema", headers[::-1], b"")

    assert (first.status, last.status) == (401, 401)
