"""Policy checks before a policy takes effect: explained decisions, and cases with expected results.

The decisions come from the same gate that calls use. The module changes and prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph.model.ports import Access, Action
from omnigraph.policy.bundle import parse_action
from omnigraph.policy.gate import Decision, PolicyGate
from omnigraph.policy.yaml_reader import ValidationErrors, YamlFields, read_yaml

_ALLOW, _DENY = "allow", "deny"


@dataclass(frozen=True, slots=True)
class PolicyCase:
    """A request, and whether it should be allowed."""

    id: str
    access: Access
    is_to_be_allowed: bool


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A case whose decision differs from the expected one."""

    case: PolicyCase
    decision: Decision


@dataclass(frozen=True, slots=True)
class CaseReport:
    """The number of cases that ran, and the mismatches."""

    case_count: int
    mismatches: tuple[Mismatch, ...]


def explain(
    gate: PolicyGate, *, actor: str, action: str, branch: str | None, target: str | None
) -> Decision:
    """Decide a request; its action may be written with `-` or `_`."""
    problems = ValidationErrors("the request", expected="an actor")
    name = problems.parse_name("actor", actor)
    problems.require_none()
    return gate.decide(Access(name, parse_action(action), branch, target))


def describe(decision: Decision) -> tuple[str, ...]:
    """A decision as lines of `name: value`."""
    access = decision.access
    lines = {
        "decision": _ALLOW if decision.is_allowed else _DENY,
        "actor": access.actor,
        "action": access.action.value,
        "branch": access.branch,
        "target_branch": access.target,
        "matched_rule": decision.rule,
        "message": decision.message,
    }
    return tuple(f"{name}: {value}" for name, value in lines.items() if value is not None)


def parse_cases(source: str | bytes | Mapping[str, object], *, name: str) -> tuple[PolicyCase, ...]:
    """Parse the cases of a YAML text or its content; `name` identifies them in messages."""
    problems = ValidationErrors(name, expected="cases of a policy")
    content = read_yaml(source, name) if isinstance(source, str | bytes) else source
    fields = problems.fields("", content)
    if fields is None:
        raise problems.error
    fields.require_version()
    fields.expect("version", "cases")
    cases: list[PolicyCase] = []
    for place, given in fields.entries("cases") or ():
        written = problems.fields(place, given)
        if written is not None:
            cases += _parse_case(written)
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            fields.add("cases", f"two cases have the id '{case.id}'; ids must be unique")
        seen.add(case.id)
    problems.require_none()
    return tuple(cases)


def run_cases(gate: PolicyGate, cases: Iterable[PolicyCase]) -> CaseReport:
    """Decide each case and report those that differ from the expectation."""
    decided = [(case, gate.decide(case.access)) for case in cases]
    mismatches = [
        Mismatch(case, decision)
        for case, decision in decided
        if decision.is_allowed is not case.is_to_be_allowed
    ]
    return CaseReport(len(decided), tuple(mismatches))


def _parse_case(written: YamlFields) -> Iterable[PolicyCase]:
    written.allow_only("id", "actor", "action", "branch", "target_branch", "expect")
    id, actor, action = (written.name(key) for key in ("id", "actor", "action"))
    branch, target = (
        written.name(key) if key in written.keys else None for key in ("branch", "target_branch")
    )
    expected = written.name("expect")
    if expected not in (_ALLOW, _DENY, None):
        written.add("expect", f"{expected!r} is neither `allow` nor `deny`")
    if action is not None:
        place, word = written.place_of("action"), action.replace("-", "_")
        known = written.problems.parse_word(place, word, Action)
        if known is not None and id is not None and actor is not None:
            yield PolicyCase(id, Access(actor, known, branch, target), expected == _ALLOW)
