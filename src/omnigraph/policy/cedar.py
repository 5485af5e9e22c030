"""Cedar policies: schema, policies and entities in Cedar's formats, and the decisions of Cedar.

Each rule of a bundle becomes one Cedar policy. A `.cedar` file is used unchanged after Cedar has
validated it against the schema. Cedar makes every decision. The module does not know where a
request comes from or what it is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import cedarpy
import orjson

from omnigraph.model.errors import CorruptError, InvalidValueError, LimitExceededError
from omnigraph.model.limits import POLICY_BYTES_MAX
from omnigraph.model.ports import Access, Action
from omnigraph.policy.bundle import (
    Bundle,
    BundleKind,
    Rule,
    Scope,
    TypeLimit,
    actions_of,
    read_bundle,
)
from omnigraph.policy.yaml_reader import read_policy_file

CEDAR_SUFFIX = ".cedar"

_NAMESPACE = "Omnigraph"
_SERVER_ID = "root"
_ENTITIES_SUFFIX = ".entities.json"
_GROUPS_SUFFIXES = (".yaml", ".yml")

_RESOURCE_BY_KIND = {BundleKind.GRAPH: "Graph", BundleKind.SERVER: "Server"}


@dataclass(frozen=True, slots=True)
class Policies:
    """Policies, with the entities and branches that they refer to.

    `actors` are the actors in the groups of a bundle; None for `.cedar` files, whose policies name
    actors themselves. `limits_by_rule` has the row and property limits of the rules that have any.
    """

    name: str
    kind: BundleKind
    text: str
    entities: str
    protected_branches: frozenset[str]
    actors: frozenset[str] | None
    limits_by_rule: Mapping[str, Mapping[str, TypeLimit]]


@dataclass(frozen=True, slots=True)
class CedarDecision:
    """A decision of Cedar, and the ids of the policies that determined it, sorted."""

    is_allowed: bool
    rules: tuple[str, ...]


def compile_bundle(bundle: Bundle) -> Policies:
    """Compile a bundle into equivalent Cedar policies and entities."""
    return Policies(
        name=bundle.name,
        kind=bundle.kind,
        text="\n".join(_render_rule(rule, bundle.kind) for rule in bundle.rules),
        entities=_render_groups(bundle.groups),
        protected_branches=bundle.protected_branches,
        actors=bundle.actors,
        limits_by_rule={rule.id: rule.limits for rule in bundle.rules if rule.limits is not None},
    )


def read_cedar(path: Path, *, kind: BundleKind) -> Policies:
    """Read the policies of a `.cedar` file, and the groups declared in a file beside it.

    That file is `<name>.yaml`, a bundle without rules, which also lists the protected branches, or
    `<name>.entities.json`, entities in Cedar's format.
    """
    text = _decode(read_policy_file(path), path)
    beside = _find_beside(path)
    entities, protected = "[]", frozenset[str]()
    if beside is not None and beside.name.endswith(_ENTITIES_SUFFIX):
        entities = _decode(read_policy_file(beside), beside)
    elif beside is not None:
        bundle = read_bundle(beside, kind=kind)
        if bundle.rules:
            raise InvalidValueError(
                subject=beside.name,
                expected="groups",
                value=len(bundle.rules),
                problem=f"the rules are in {path.name}; remove `rules`, or open this file itself",
            )
        entities, protected = _render_groups(bundle.groups), bundle.protected_branches
    return Policies(
        name=path.name,
        kind=kind,
        text=text,
        entities=entities,
        protected_branches=protected,
        actors=None,
        limits_by_rule={},
    )


class Evaluator:
    """Cedar with parsed policies.

    The policies are parsed once. Any thread can evaluate any number of requests.
    """

    def __init__(self, policies: Policies, *, resource_id: str | None) -> None:
        kind = policies.kind
        self._name = policies.name
        self._protected = policies.protected_branches
        self._schema = cedarpy.Schema.from_str(_render_schema(kind))
        self._policies = _parse_policies(policies, self._schema)
        try:
            self._entities = cedarpy.Entities.from_json_str(policies.entities, self._schema)
        except ValueError as error:
            reason = f"the entities are not valid actors and groups: {error}"
            raise _refused(policies, reason) from error
        resource = resource_id if kind is BundleKind.GRAPH else _SERVER_ID
        self._resource = {"type": f"{_NAMESPACE}::{_RESOURCE_BY_KIND[kind]}", "id": resource}

    def evaluate(self, access: Access) -> CedarDecision:
        """Evaluate a request; raises `CorruptError` if Cedar cannot, so nothing is allowed then."""
        request = {
            "principal": {"type": f"{_NAMESPACE}::Actor", "id": access.actor or ""},
            "action": {"type": f"{_NAMESPACE}::Action", "id": access.action.value},
            "resource": self._resource,
            "context": {
                "has_branch": access.branch is not None,
                "branch": access.branch or "",
                "has_target_branch": access.target is not None,
                "target_branch": access.target or "",
                "branch_is_protected": access.branch in self._protected,
                "target_branch_is_protected": access.target in self._protected,
            },
        }
        found = cedarpy.is_authorized(request, self._policies, self._entities, self._schema)
        if found.diagnostics.errors:
            # Cedar skips a policy that it cannot evaluate, and that policy may forbid the request.
            raise CorruptError(
                subject=f"policy {self._name}",
                problem=f"it cannot be evaluated: {'; '.join(found.diagnostics.errors)}",
            )
        names = found.diagnostics.id_annotations_by_reason
        rules = sorted(names.get(each) or each for each in found.diagnostics.reasons)
        return CedarDecision(found.allowed, tuple(rules))


def _parse_policies(policies: Policies, schema: cedarpy.Schema) -> cedarpy.PolicySet:
    try:
        parsed = cedarpy.PolicySet.from_str(policies.text)
    except ValueError as error:
        raise _refused(policies, str(error)) from error
    found = cedarpy.validate_policies(policies.text, schema)
    if not found.validation_passed:
        raise _refused(policies, "; ".join(str(each.error) for each in found.errors))
    return parsed


def _refused(policies: Policies, reason: str) -> InvalidValueError:
    return InvalidValueError(
        subject=policies.name, expected="Cedar policies", value=None, problem=reason
    )


def _render_schema(kind: BundleKind) -> str:
    """The entity types, actions and context of a bundle kind, in Cedar's schema language."""
    known = actions_of(kind)
    actions = [each.value for each in Action if each in known]
    return f"""
namespace {_NAMESPACE} {{
  entity Group;
  entity Actor in [Group];
  entity Graph;
  entity Server;
  type About = {{
    has_branch: Bool,
    branch: String,
    has_target_branch: Bool,
    target_branch: String,
    branch_is_protected: Bool,
    target_branch_is_protected: Bool,
  }};
  action {", ".join(actions)} appliesTo {{
    principal: Actor,
    resource: {_RESOURCE_BY_KIND[kind]},
    context: About,
  }};
}}
"""


def _render_rule(rule: Rule, kind: BundleKind) -> str:
    actions = ", ".join(f'{_NAMESPACE}::Action::"{each}"' for each in sorted(rule.actions))
    conditions = [
        f"context.has_{part} && {negation}context.{part}_is_protected"
        for part, scope in (("branch", rule.branch_scope), ("target_branch", rule.target_scope))
        for negation in _negations(scope)
    ]
    return (
        f"@id({_quote(rule.id)})\n"
        f"permit (\n"
        f"  principal in {_NAMESPACE}::Group::{_quote(rule.group)},\n"
        f"  action in [{actions}],\n"
        f"  resource is {_NAMESPACE}::{_RESOURCE_BY_KIND[kind]}\n"
        f")" + "".join(f"\nwhen {{ {each} }}" for each in conditions) + ";\n"
    )


def _negations(scope: Scope | None) -> tuple[str, ...]:
    """The operators before the test for a protected branch; empty if the scope needs no test."""
    match scope:
        case None | Scope.ANY:
            return ()
        case Scope.PROTECTED:
            return ("",)
        case Scope.UNPROTECTED:
            return ("!",)


def _render_groups(groups: Mapping[str, frozenset[str]]) -> str:
    groups_by_actor: dict[str, list[str]] = {}
    for group in sorted(groups):
        for actor in sorted(groups[group]):
            groups_by_actor.setdefault(actor, []).append(group)
    entities = [_entity("Group", group, ()) for group in sorted(groups)]
    entities += [_entity("Actor", actor, each) for actor, each in groups_by_actor.items()]
    return orjson.dumps(entities).decode()


def _entity(type: str, id: str, groups: Iterable[str]) -> dict[str, object]:
    parents = [{"type": f"{_NAMESPACE}::Group", "id": group} for group in groups]
    return {"uid": {"type": f"{_NAMESPACE}::{type}", "id": id}, "attrs": {}, "parents": parents}


def _quote(text: str) -> str:
    """A Cedar string literal; quotes, backslashes and all but printable ASCII are escaped."""
    plain = "".join(
        each
        if each.isascii() and each.isprintable() and each not in '"\\'
        else f"\\u{{{ord(each):x}}}"
        for each in text
    )
    return f'"{plain}"'


def _find_beside(path: Path) -> Path | None:
    names = [_ENTITIES_SUFFIX, *_GROUPS_SUFFIXES]
    found = [each for each in map(path.with_suffix, names) if each.exists()]
    if len(found) > 1:
        raise InvalidValueError(
            subject=path.name,
            expected="one file of groups",
            value=tuple(each.name for each in found),
            problem=f"{found[0].name} and {found[1].name} both declare its groups; keep one",
        )
    return found[0] if found else None


def _decode(content: bytes, path: Path) -> str:
    if len(content) > POLICY_BYTES_MAX:
        raise LimitExceededError(
            resource=f"the size of {path.name}", limit=POLICY_BYTES_MAX, found=len(content)
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidValueError(
            subject=path.name, expected="UTF-8 text", value=None, problem="it is not valid UTF-8"
        ) from error
