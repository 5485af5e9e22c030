"""`omnigraph schema …`: what a schema file would change, offline."""

from __future__ import annotations

import click

from omnigraph.cli.files import read_source
from omnigraph.cli.output import print_json, print_line
from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.migration.plan import plan_migration
from omnigraph.compiler.migration.steps import describe_step, encode_step


@click.group()
def schema() -> None:
    """Plan how a schema becomes another."""


@schema.command()
@click.option("--schema", "desired_path", required=True, metavar="NEW", help="The desired .pg.")
@click.option("--from", "accepted_path", required=True, metavar="OLD", help="The accepted .pg.")
@click.option("--allow-data-loss", is_flag=True, help="Plan drops that purge old versions too.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan(desired_path: str, accepted_path: str, *, allow_data_loss: bool, as_json: bool) -> None:
    """Show the steps from the schema OLD to the schema NEW.

    Changes nothing and exits with 0 even when a step is unsupported.
    """
    desired_source = read_source(desired_path)
    found = plan_migration(
        compile_schema(read_source(accepted_path)),
        compile_schema(desired_source),
        source=desired_source,
        allow_data_loss=allow_data_loss,
    )
    if as_json:
        print_json(
            {
                "uri": accepted_path,
                "supported": found.supported,
                "step_count": len(found.steps),
                "steps": [encode_step(step) for step in found.steps],
            }
        )
        return
    print_line(f"schema plan for {accepted_path}")
    print_line(f"supported: {'yes' if found.supported else 'no'}")
    for step in found.steps:
        print_line(f"- {describe_step(step)}")
    if not found.steps:
        print_line("no schema changes")
