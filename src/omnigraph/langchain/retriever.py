"""A LangChain retriever over a graph, opened by its URI or through a server.

A document is a passage of a retrieval, best first. Its metadata contain the node, its rank and the
path to it; the first document also has the receipt, from which all of them can be replayed. The
module uses only the calls that embedded and remote graphs share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import run_in_executor
from pydantic import ConfigDict, SkipValidation

from omnigraph.engine.retrieval.results import Passage, Retrieval
from omnigraph.model.limits import BUDGET_TOKENS, FOUND

if TYPE_CHECKING:
    from omnigraph.client.remote import AnyGraph
else:
    # pydantic evaluates the annotation, and importing the client takes a while.
    AnyGraph = object


class OmnigraphRetriever(BaseRetriever):
    """Retrieves documents about a text from a graph, with the arguments of `graph.retrieve`.

    It returns at most `k` documents, and fewer if they do not fit into the budget; with `hops`, the
    documents of their neighbours follow. A call may override `k`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    # Not validated: errors surface at the first call, because a protocol cannot be checked here.
    graph: SkipValidation[AnyGraph]
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
        # The graph API is synchronous, so the call runs in another thread.
        return await run_in_executor(
            None,
            self._get_relevant_documents,
            query,
            run_manager=run_manager.get_sync(),
            k=k,
        )


def make_documents(found: Retrieval) -> list[Document]:
    """The passages of a result as documents; the first one carries the receipt."""
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
