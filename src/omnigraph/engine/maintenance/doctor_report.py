"""The report of the doctor: findings as plain values, and their text.

Every kind of finding has one code and one severity. An error means that something cannot be read or
written, or is wrong; a warning, that an operation stopped half-way; a note, that work is in
progress or that something could be faster or smaller.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from textwrap import indent

from omnigraph.model.errors import plural


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class FindingKind(StrEnum):
    """The kinds of findings; the value is the code in reports."""

    SCHEMA_DAMAGED = "schema_damaged"
    SCHEMA_INCOMPLETE = "schema_incomplete"
    SCHEMA_NOT_ACCEPTED = "schema_not_accepted"
    SCHEMA_LOST = "schema_lost"
    SCHEMA_LEFT = "schema_left"
    SCHEMA_UNDER_WAY = "schema_under_way"
    HISTORY_DAMAGED = "history_damaged"
    BRANCH_MOVED = "branch_moved"
    TYPE_NOT_IN_HISTORY = "type_not_in_history"
    TYPE_NOT_IN_SCHEMA = "type_not_in_schema"
    TYPE_DAMAGED = "type_damaged"
    TYPE_BEHIND = "type_behind"
    DRIFT = "drift"
    COLUMNS_WRONG = "columns_wrong"
    ROW_COUNT_WRONG = "row_count_wrong"
    ID_REPEATED = "id_repeated"
    RULE_BROKEN = "rule_broken"
    ENDPOINT_MISSING = "endpoint_missing"
    WRITE_LEFT = "write_left"
    WRITE_UNDER_WAY = "write_under_way"
    RECORD_DAMAGED = "record_damaged"
    TRANSACTION_LEFT = "transaction_left"
    TRANSACTION_UNDER_WAY = "transaction_under_way"
    TAG_DAMAGED = "tag_damaged"
    LEASE_LEFT = "lease_left"
    LEASE_DAMAGED = "lease_damaged"
    CLAIM_LEFT = "claim_left"
    CLAIM_DAMAGED = "claim_damaged"
    AUDIT_DAMAGED = "audit_damaged"
    BRANCH_REMAINS = "branch_remains"
    TYPE_REMAINS = "type_remains"
    INDEX_DAMAGED = "index_damaged"
    INDEX_MISSING = "index_missing"
    INDEX_BEHIND = "index_behind"
    MANY_FILES = "many_files"


_WARNINGS = frozenset(
    {
        FindingKind.SCHEMA_LOST,
        FindingKind.SCHEMA_LEFT,
        FindingKind.WRITE_LEFT,
        FindingKind.TRANSACTION_LEFT,
    }
)
_NOTES = frozenset(
    {
        FindingKind.SCHEMA_UNDER_WAY,
        FindingKind.WRITE_UNDER_WAY,
        FindingKind.TRANSACTION_UNDER_WAY,
        FindingKind.LEASE_LEFT,
        FindingKind.CLAIM_LEFT,
        FindingKind.BRANCH_REMAINS,
        FindingKind.TYPE_REMAINS,
        FindingKind.INDEX_MISSING,
        FindingKind.INDEX_BEHIND,
        FindingKind.MANY_FILES,
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: its subject, its cause, and the call that repairs it."""

    severity: Severity
    code: FindingKind
    subject: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The findings of an examination, errors first; `is_deep` says whether rows were checked."""

    uri: str
    is_deep: bool
    findings: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether there is no error among the findings."""
        return not any(each.severity is Severity.ERROR for each in self.findings)

    def __str__(self) -> str:
        counts = Counter(each.severity for each in self.findings)
        present = [each for each in Severity if counts[each]]
        totals = ", ".join(f"{counts[each]} {plural(counts[each], each)}" for each in present)
        depth = "" if self.is_deep else " Rows were not checked."
        state = "is healthy" if self.is_healthy else "is damaged"
        lines = [f"{self.uri} {state}{': ' if totals else ''}{totals}.{depth}"]
        for each in self.findings:
            lines.append(f"{each.severity}[{each.code}] {each.subject}: {each.message}")
            lines.append(indent(f"-> {each.advice}", "     "))
        return "\n".join(lines)


def make_finding(code: FindingKind, subject: str, message: str, *, advice: str) -> Finding:
    """A finding with the severity of its kind."""
    severity = Severity.NOTE if code in _NOTES else Severity.ERROR
    if code in _WARNINGS:
        severity = Severity.WARNING
    return Finding(severity, code, subject, message, advice)
