"""A graph's types as temporary views of a Spark session, all of them of one commit.

The views read what the data source reads when it is told a commit: they stay as they are whatever
is written later, and tasks claim what they read. A temporary view of the same name is replaced,
which is how views are moved on. Asks no catalog of stored tables: Spark would make its folder for
them where the caller happens to be. Writes nothing.
"""

from __future__ import annotations

import re

from pyspark.sql import DataFrame

from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.settings import require_text
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidNameError, InvalidValueError
from omnigraph.model.policy import Action
from omnigraph.spark.format.source import FORMAT
from omnigraph.spark.sessions import find_session
from omnigraph.spark.spark_errors import spark_errors

_PREFIX = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)?", re.ASCII)


def make_views(
    opened: OpenGraph, *, spark: object, branch: str | None, commit: str | None, prefix: str
) -> dict[str, DataFrame]:
    """Make each type of a branch, `main` if none is named, or of a commit a view; by its name."""
    require_text(prefix, subject="prefix")
    if not _PREFIX.fullmatch(prefix):
        rule = "a prefix is made of letters, digits and underscores, and begins with no digit"
        raise InvalidNameError(kind="view", name=prefix, rule=rule)
    basis = opened.at(branch, commit, action=Action.READ)
    opened.require_seen_whole(basis, "make views of types")
    type_by_view = {f"{prefix}{each.name}": each for each in _distinct_types(basis.catalog)}
    options = _options_of(opened, commit_id=basis.head.id)
    session = find_session(spark)
    with spark_errors(action="make views of the graph"):
        frame_by_view = {
            view: session.read.format(FORMAT).options(**options, type=table_key_of(declared)).load()
            for view, declared in type_by_view.items()
        }
        # Last of all, so that what cannot be read leaves the session as it was.
        for view, frame in frame_by_view.items():
            frame.createOrReplaceTempView(view)
    return frame_by_view


def _distinct_types(catalog: Catalog) -> list[NodeType | EdgeType]:
    """The types that have rows; raises if two of them are one to Spark, which ignores capitals."""
    declared = catalog.stored_types()
    first_by_name: dict[str, NodeType | EdgeType] = {}
    for each in declared:
        first = first_by_name.setdefault(each.name.lower(), each)
        if first is not each:
            names = f"{first.kind} {first.name} and {each.kind} {each.name}"
            advice = f"read one with `spark.read.format({FORMAT!r})` and give it a name of your own"
            raise InvalidValueError(
                subject="views",
                expected="types that Spark can tell apart",
                value=each.name,
                problem=f"{names} would be one view, as Spark ignores capitals; {advice}",
            )
    return declared


def _options_of(opened: OpenGraph, *, commit_id: str) -> dict[str, str]:
    location = opened.settings.location
    return {
        # Not the name: what is in memory is a folder that tasks on this machine reach.
        "uri": location.root,
        "commit": commit_id,
        "readOnly": str(opened.is_read_only),
        **{f"storage.{name}": value for name, value in location.storage_options.items()},
    }
