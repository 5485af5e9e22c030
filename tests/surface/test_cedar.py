"""What we rely on in Cedar: which policies it names, and what it does with those that fail."""

import json

import pytest
from cedarpy import (
    AuthzResult,
    Decision,
    Entities,
    PolicySet,
    Schema,
    is_authorized,
    validate_policies,
)

SCHEMA = """
namespace N {
  entity Group;
  entity Actor in [Group];
  entity Graph;
  action read appliesTo { principal: Actor, resource: Graph, context: { n: Long } };
}
"""
ENTITIES = json.dumps(
    [
        {"uid": {"type": "N::Group", "id": "team"}, "attrs": {}, "parents": []},
        {
            "uid": {"type": "N::Actor", "id": "ann"},
            "attrs": {},
            "parents": [{"type": "N::Group", "id": "team"}],
        },
    ]
)
ALLOWED = '@id("b") permit (principal in N::Group::"team", action, resource);'
ALLOWED_TOO = '@id("a") permit (principal, action, resource);'
OVERFLOWING = (
    f'@id("c") forbid (principal, action, resource) when {{ context.n + {2**63 - 1} > 0 }};'
)


def test_an_allowed_request_names_every_policy_that_allows_it() -> None:
    found = _authorize(ALLOWED + ALLOWED_TOO, actor="ann", action="read", number=0)

    names = found.diagnostics.id_annotations_by_reason
    assert found.decision is Decision.Allow
    assert sorted(names[each] for each in found.diagnostics.reasons) == ["a", "b"]


def test_a_policy_that_cannot_be_evaluated_is_left_out_and_reported() -> None:
    found = _authorize(ALLOWED_TOO + OVERFLOWING, actor="ann", action="read", number=1)

    assert found.decision is Decision.Allow
    assert "overflow" in found.diagnostics.errors[0]


def test_a_request_that_the_schema_does_not_know_is_an_error_and_no_decision() -> None:
    found = _authorize(ALLOWED_TOO, actor="ann", action="fly", number=0)

    assert found.decision is Decision.NoDecision
    assert not found.allowed
    assert found.diagnostics.errors


def test_an_actor_who_is_no_entity_is_in_no_group() -> None:
    assert _authorize(ALLOWED, actor="zed", action="read", number=0).decision is Decision.Deny


def test_a_name_is_any_text() -> None:
    found = _authorize(ALLOWED_TOO, actor='a"b\\\n\u2028', action="read", number=0)

    assert found.decision is Decision.Allow


def test_an_escaped_character_is_the_character() -> None:
    policy = 'permit (principal == N::Actor::"\\u{61}\\u{22}", action, resource);'

    assert _authorize(policy, actor='a"', action="read", number=0).decision is Decision.Allow


def test_a_policy_that_does_not_fit_its_schema_is_refused_before_use() -> None:
    found = validate_policies(
        "permit (principal, action, resource) when { context.m };", Schema.from_str(SCHEMA)
    )

    assert not found.validation_passed
    with pytest.raises(ValueError, match="unexpected end"):
        PolicySet.from_str("permit (")
    with pytest.raises(ValueError, match="entity"):
        Entities.from_json_str(
            '[{"uid": {"type": "User", "id": "x"}, "attrs": {}, "parents": []}]',
            Schema.from_str(SCHEMA),
        )


def _authorize(policies: str, *, actor: str, action: str, number: int) -> AuthzResult:
    schema = Schema.from_str(SCHEMA)
    return is_authorized(
        {
            "principal": {"type": "N::Actor", "id": actor},
            "action": {"type": "N::Action", "id": action},
            "resource": {"type": "N::Graph", "id": "g"},
            "context": {"n": number},
        },
        PolicySet.from_str(policies),
        Entities.from_json_str(ENTITIES, schema),
        schema,
    )
