"""A retriever of LangChain over a graph, opened by its uri or reached through a server.

A document is a passage of a retrieval, best first. Each says which node it is, where it stands and
how it was reached; the first one has the receipt that gives all of them again. Knows LangChain, and
of graphs only the calls that all of them offer.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import run_in_executor
from pydantic import ConfigDict, SkipValidation

from omnigraph.client.calls import GraphCalls
from omnigraph.engine.retrieval.answers import Passage, Retrieval
from omnigraph.engine.retrieval.limits import BUDGET_TOKENS, FOUND


class OmnigraphRetriever(BaseRetriever):
    """Finds what a graph holds about a text; the arguments are those of `graph.retrieve`.

    There are `k` documents at most, and fewer if they do not fit into the budget; with `hops` those
    of their neighbours come after them. `k` may also be given with a call.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    # Checked when it is called: a protocol says nothing of the objects that have its calls.
    graph: SkipValidation[GraphCalls]
    k: int = FOUND
    types: str | Sequence[str] | None = None
    hops: int = 0
    edges: str | Sequence[str] | None = None
    budget_tokens: int = BUDGET_TOKENS
    branch: str | None = None
    commit: str | None = None
    word_weight: float = 1.0
    vector_weight: float = 1.0

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        del run_manager
        found = self.graph.retrieve(
            query,
            types=self.types,
            hops=self.hops,
            edges=self.edges,
            k=self.k if k is None else k,
            budget_tokens=self.budget_tokens,
            branch=self.branch,
            commit=self.commit,
            word_weight=self.word_weight,
            vector_weight=self.vector_weight,
        )
        return make_documents(found)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        # A graph has one colour, so another thread waits for it.
        return await run_in_executor(
            None,
            self._get_relevant_documents,
            query,
            run_manager=run_manager.get_sync(),
            k=k,
        )


def make_documents(found: Retrieval) -> list[Document]:
    """The passages of an answer as documents, the receipt with the first."""
    documents = [_make_document(each, found) for each in found.passages]
    if documents:
        documents[0].metadata["receipt"] = found.receipt.to_json()
    return documents


def _make_document(passage: Passage, found: Retrieval) -> Document:
    place = passage.place
    return Document(
        id=f"{passage.type}:{passage.id}",
        page_content=passage.text,
        metadata={
            "type": passage.type,
            "id": passage.id,
            "rank": passage.rank,
            "score": place.score,
            "path": [
                {
                    "edge": step.edge,
                    "direction": step.direction,
                    "type": step.node.type,
                    "id": step.node.id,
                }
                for step in place.path
            ],
            "commit_id": found.receipt.commit_id,
            "query_hash": found.receipt.query_hash,
        },
    )
