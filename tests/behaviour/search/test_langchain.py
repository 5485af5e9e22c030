"""A graph is a LangChain retriever, embedded or served, and meets the requirements of LangChain."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests
from pydantic import ValidationError

import omnigraph
from omnigraph.client.remote import AnyGraph
from omnigraph.errors import InvalidValueError
from omnigraph.langchain import OmnigraphRetriever
from tests.support.graphs import build_graph, edge, node
from tests.support.servers import serving

SCHEMA = """
node Author { name: String @key }
node Paper { title: String @key  abstract: String? }
edge Wrote: Author -> Paper
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of four papers about engines, and who wrote one."""
    path = tmp_path_factory.mktemp("library") / "graph"
    papers = [
        node("Paper", title=f"p{number}", abstract="an engine " * number) for number in (1, 2, 3, 4)
    ]
    build_graph(
        path, SCHEMA, node("Author", name="Ada"), *papers, edge("Wrote", "Ada", "p4")
    ).close()
    return path


@pytest.fixture(scope="module", params=["embedded", "remote"])
def graph(request: pytest.FixtureRequest, store: Path) -> Iterator[AnyGraph]:
    if request.param == "embedded":
        with omnigraph.open(store) as opened:
            yield opened
        return
    folder = store.parent
    with (
        serving(folder, "--store", str(store), "--unauthenticated") as server,
        omnigraph.connect(server.url) as connected,
    ):
        yield connected


@pytest.mark.asyncio
@pytest.mark.filterwarnings("ignore:.*is not an async function")
class TestLangChainRequirements(RetrieversIntegrationTests):
    """Its own suite, of either graph."""

    @pytest.fixture(autouse=True)
    def use(self, graph: AnyGraph) -> None:
        """The graph that is searched."""
        self._graph = graph

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        """What is tested."""
        return OmnigraphRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, object]:
        """The graph alone."""
        return {"graph": self._graph}

    @property
    def retriever_query_example(self) -> str:
        """What all papers are about."""
        return "engine"


def test_a_document_is_a_passage_with_its_place(graph: AnyGraph) -> None:
    retriever = OmnigraphRetriever(graph=graph, types=["Paper"], k=1, hops=1)

    first, second = retriever.invoke("engine")

    found = graph.retrieve("engine", types=["Paper"], k=1, hops=1)
    assert [first.page_content, second.page_content] == [each.text for each in found.passages]
    assert first.id == f"Paper:{found.passages[0].id}"
    assert first.metadata["score"] == found.passages[0].place.score > 0
    assert second.metadata == {
        "type": "Author",
        "id": "Ada",
        "rank": 2,
        "score": 0.0,
        "path": [{"edge": "Wrote", "direction": "in", "type": "Author", "id": "Ada"}],
        "commit_id": graph.head(),
        "query_hash": found.receipt.query_hash,
    }


def test_the_receipt_of_the_first_document_gives_all_of_them_again(graph: AnyGraph) -> None:
    documents = OmnigraphRetriever(graph=graph, hops=2).invoke("engine")

    receipt = json.loads(json.dumps(documents[0].metadata["receipt"]))

    again = graph.replay(receipt)
    assert [each.text for each in again.passages] == [each.page_content for each in documents]


def test_an_asynchronous_call_takes_the_arguments_of_the_synchronous_one(graph: AnyGraph) -> None:
    retriever = OmnigraphRetriever(graph=graph)

    documents = asyncio.run(retriever.ainvoke("engine", k=2))

    assert documents == retriever.invoke("engine", k=2)
    assert len(documents) == 2


def test_a_state_can_be_named_and_the_room_be_small(graph: AnyGraph) -> None:
    at = OmnigraphRetriever(graph=graph, commit=graph.head(), budget_tokens=10).invoke("engine")

    assert 0 < len(at) < 4
    assert OmnigraphRetriever(graph=graph).invoke("zebra") == []


def test_invalid_arguments_are_refused(graph: AnyGraph) -> None:
    with pytest.raises(ValidationError, match="hop"):
        OmnigraphRetriever(graph=graph, hop=1)  # type: ignore[call-arg]
    with pytest.raises(InvalidValueError, match="from 0 to 2"):
        OmnigraphRetriever(graph=graph, hops=3).invoke("engine")


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a separate process."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


def test_langchain_is_imported_on_first_use() -> None:
    ended = run(
        "import sys, omnigraph, omnigraph.langchain; assert 'langchain_core' not in sys.modules"
    )

    assert ended.returncode == 0, ended.stderr


def test_without_langchain_the_error_says_what_to_install() -> None:
    ended = run(
        "import sys; sys.modules['langchain_core'] = None\n"
        "from omnigraph.langchain import OmnigraphRetriever"
    )

    assert ended.returncode != 0
    assert "pip install 'omnigraph[langchain]'" in ended.stderr
