"""Recoveries, made of the bodies that told them; apart, because the audit brings the storage."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.engine.commit.audit import Recovery, RecoveryKind, TableOutcome
from omnigraph.wire.readings import list_of, moment_of, number_of, text_or_none


def recovery_of(told: Mapping[str, object]) -> Recovery:
    """A write that had stopped half-way."""
    return Recovery(
        commit_id=str(told["graph_commit_id"]),
        kind=RecoveryKind(str(told["recovery_kind"])),
        actor=text_or_none(told["recovery_for_actor"]),
        operation_id=str(told["operation_id"]),
        writer_kind=str(told["writer_kind"]),
        outcomes=tuple(
            TableOutcome(
                table_key=str(each["table_key"]),
                from_version=number_of(each["from_version"]),
                to_version=number_of(each["to_version"]),
            )
            for each in list_of(told["tables"])
        ),
        created_at=moment_of(told["created_at"]),
    )
