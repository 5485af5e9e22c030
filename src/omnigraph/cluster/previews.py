"""Previews: the steps by which a graph's schema would become the desired one.

Looks at graphs and changes nothing. A graph that cannot be looked at has no preview, which is told
and stops nobody.
"""

from __future__ import annotations

from omnigraph.cluster.addresses import graph_address, schema_address
from omnigraph.cluster.desired import Desired
from omnigraph.cluster.findings import Findings
from omnigraph.cluster.graphs import ClusterGraphs, Live
from omnigraph.cluster.ledger import Ledger
from omnigraph.cluster.plan import Migration
from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.migration.plan import plan_migration
from omnigraph.compiler.migration.steps import describe_step, encode_step
from omnigraph.model.errors import GraphError
from omnigraph.model.source import Source


def preview_migrations(
    desired: Desired, ledger: Ledger, graphs: ClusterGraphs, findings: Findings
) -> dict[str, Migration]:
    """The steps for each graph whose schema changes."""
    found: dict[str, Migration] = {}
    for id, schema in desired.schemas.items():
        applied = ledger.find_digest(schema_address(id))
        if applied is None or applied == schema.digest:
            continue
        try:
            observed = graphs.observe(id)
            if isinstance(observed, Live):
                found[id] = plan_steps(observed.schema, schema.source)
                continue
            reason = "the graph is not there, or cannot be opened"
        except GraphError as error:
            reason = str(error)
        findings.warn(
            "schema_preview_unavailable",
            schema_address(id),
            f"the steps cannot be told: {reason}; `omnigraph cluster refresh` looks at the graph "
            "anew",
        )
    for id, migration in found.items():
        if not migration.is_supported:
            findings.warn(
                "apply_unsupported_change",
                schema_address(id),
                f"the schema of {graph_address(id)} cannot become this one; an apply would refuse "
                "it",
            )
    return found


def plan_steps(accepted: str, desired: Source) -> Migration:
    """The steps from one schema to another."""
    plan = plan_migration(
        compile_schema(Source("<accepted>", accepted)),
        compile_schema(desired),
        source=desired,
        allow_data_loss=False,
    )
    return Migration(
        is_supported=plan.supported,
        steps=tuple({**encode_step(each)} for each in plan.steps),
        described=tuple(describe_step(each) for each in plan.steps),
    )
