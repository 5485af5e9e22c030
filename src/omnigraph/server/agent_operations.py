"""The operations that agents ask for, as the OpenAPI document lists them.

Stored queries and retrieval; the rest is in `operation_table`, which lists these too.
"""

from __future__ import annotations

from omnigraph.server import requests
from omnigraph.server.operations import (
    ARROW,
    GRAPH,
    READS,
    TERMS,
    WRITES,
    Operation,
    Tag,
)
from omnigraph.wire import shapes
from omnigraph.wire.retrieval_shapes import RetrievalOutput

AGENT_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        f"{GRAPH}/queries",
        "list_queries",
        Tag.QUERIES,
        "The catalog of stored queries",
        (shapes.QueryList,),
        (403,),
    ),
    Operation(
        "POST",
        f"{GRAPH}/queries/{{name}}",
        "invoke_query",
        Tag.QUERIES,
        "Run a stored query, a read or a mutation",
        (shapes.ReadOutput, shapes.ChangeOutput),
        WRITES,
        request=requests.InvokeRequest,
        is_body_required=False,
        parameters=TERMS,
        media=(ARROW,),
    ),
    Operation(
        "POST",
        f"{GRAPH}/retrieve",
        "retrieve",
        Tag.QUERIES,
        "What a branch or commit holds about a text, for a prompt",
        (RetrievalOutput,),
        READS,
        request=requests.RetrieveRequest,
    ),
    Operation(
        "POST",
        f"{GRAPH}/retrieve-by",
        "retrieveBy",
        Tag.QUERIES,
        "The same for the nodes that a read finds",
        (RetrievalOutput,),
        READS,
        request=requests.RetrieveByRequest,
    ),
    Operation(
        "POST",
        f"{GRAPH}/queries/{{name}}/retrieve",
        "retrieveByStoredQuery",
        Tag.QUERIES,
        "The same for the nodes that a stored query finds",
        (RetrievalOutput,),
        READS,
        request=requests.RetrieveStoredRequest,
        is_body_required=False,
    ),
    Operation(
        "POST",
        f"{GRAPH}/replay",
        "replay",
        Tag.QUERIES,
        "The answer that a receipt was given out with, again",
        (RetrievalOutput,),
        READS,
        request=requests.ReplayRequest,
    ),
)
