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
    """The kinds of findings: the code in reports, and the severity unless it is an error."""

    severity: Severity

    def __new__(cls, code: str, severity: Severity = Severity.ERROR) -> FindingKind:
        kind = str.__new__(cls, code)
        kind._value_ = code
        kind.severity = severity
        return kind

    SCHEMA_DAMAGED = "schema_damaged"
    SCHEMA_INCOMPLETE = "schema_incomplete"
    SCHEMA_NOT_ACCEPTED = "schema_not_accepted"
    SCHEMA_LOST = "schema_lost", Severity.WARNING
    SCHEMA_LEFT = "schema_left", Severity.WARNING
    SCHEMA_UNDER_WAY = "schema_under_way", Severity.NOTE
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
    WRITE_LEFT = "write_left", Severity.WARNING
    WRITE_UNDER_WAY = "write_under_way", Severity.NOTE
    RECORD_DAMAGED = "record_damaged"
    TRANSACTION_LEFT = "transaction_left", Severity.WARNING
    TRANSACTION_UNDER_WAY = "transaction_under_way", Severity.NOTE
    TAG_DAMAGED = "tag_damaged"
    LEASE_LEFT = "lease_left", Severity.NOTE
    LEASE_DAMAGED = "lease_damaged"
    CLAIM_LEFT = "claim_left", Severity.NOTE
    CLAIM_DAMAGED = "claim_damaged"
    AUDIT_DAMAGED = "audit_damaged"
    BRANCH_REMAINS = "branch_remains", Severity.NOTE
    TYPE_REMAINS = "type_remains", Severity.NOTE
    INDEX_DAMAGED = "index_damaged"
    INDEX_MISSING = "index_missing", Severity.NOTE
    INDEX_BEHIND = "index_behind", Severity.NOTE
    MANY_FILES = "many_files", Severity.NOTE


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
