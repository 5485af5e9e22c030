"""What becomes of a schema that is to become another, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.migration.plan import plan_migration
from omnigraph.compiler.migration.steps import describe_step, encode_step
from omnigraph.model.source import Source
from omnigraph.wire.shapes import SchemaPlanOutput


@dataclass(frozen=True, slots=True)
class PlannedSchema:
    """The steps to a schema: a line each, and the payload."""

    lines: tuple[str, ...]
    output: SchemaPlanOutput


def plan_between(
    accepted: Source, desired: Source, *, allow_data_loss: bool, uri: str
) -> PlannedSchema:
    """The steps from one schema to another; `uri` is where the first is accepted."""
    found = plan_migration(
        compile_schema(accepted),
        compile_schema(desired),
        source=desired,
        allow_data_loss=allow_data_loss,
    )
    return PlannedSchema(
        lines=tuple(describe_step(step) for step in found.steps),
        output={
            "uri": uri,
            "supported": found.supported,
            "step_count": len(found.steps),
            "steps": [{**encode_step(step)} for step in found.steps],
        },
    )
