"""What an examination of a graph found: plain values, and their text for people.

Every trouble has one word and one severity. An error means that something cannot be read or
written, or is wrong; a warning, that something was left half-way; a note, that work is under way or
that something could be faster or smaller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from textwrap import indent
from types import MappingProxyType


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Trouble(StrEnum):
    """What can be found, by the word that tells it."""

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
        Trouble.SCHEMA_LOST,
        Trouble.SCHEMA_LEFT,
        Trouble.WRITE_LEFT,
        Trouble.TRANSACTION_LEFT,
    }
)
_NOTES = frozenset(
    {
        Trouble.SCHEMA_UNDER_WAY,
        Trouble.WRITE_UNDER_WAY,
        Trouble.TRANSACTION_UNDER_WAY,
        Trouble.LEASE_LEFT,
        Trouble.CLAIM_LEFT,
        Trouble.BRANCH_REMAINS,
        Trouble.TYPE_REMAINS,
        Trouble.INDEX_MISSING,
        Trouble.INDEX_BEHIND,
        Trouble.MANY_FILES,
    }
)
SEVERITY_BY_TROUBLE: Mapping[Trouble, Severity] = MappingProxyType(
    {
        each: Severity.WARNING
        if each in _WARNINGS
        else Severity.NOTE
        if each in _NOTES
        else Severity.ERROR
        for each in Trouble
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be: about what, why, and the call that mends it."""

    severity: Severity
    code: Trouble
    subject: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """What an examination found, errors first; `is_deep` says whether rows were looked at."""

    uri: str
    is_deep: bool
    findings: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether there is no error among the findings."""
        return not any(each.severity is Severity.ERROR for each in self.findings)

    def __str__(self) -> str:
        return "\n".join([_headline(self), *(_write(each) for each in self.findings)])


def found(code: Trouble, subject: str, message: str, *, advice: str) -> Finding:
    """A finding with the severity that its trouble has."""
    return Finding(SEVERITY_BY_TROUBLE[code], code, subject, message, advice)


def sort_findings(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Findings by severity, each in the order in which it was found, and each once."""
    order = list(Severity)
    return tuple(sorted(dict.fromkeys(findings), key=lambda each: order.index(each.severity)))


def _headline(report: DoctorReport) -> str:
    counts = Counter(each.severity for each in report.findings)
    told = [f"{counts[each]} {each}{'s' * (counts[each] > 1)}" for each in Severity if counts[each]]
    depth = "" if report.is_deep else " Rows were not looked at."
    state = "is healthy" if report.is_healthy else "is damaged"
    return f"{report.uri} {state}{': ' if told else ''}{', '.join(told)}.{depth}"


def _write(finding: Finding) -> str:
    head = f"{finding.severity}[{finding.code}] {finding.subject}: {finding.message}"
    return head + indent(f"\n-> {finding.advice}", "     ")
