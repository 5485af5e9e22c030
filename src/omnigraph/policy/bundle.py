"""Policy bundles: groups of actors, and the rules of a YAML text that allow them actions.

A `Bundle` is always valid; an invalid text is rejected with all its errors, their places and a
suggested correction. Rules only allow actions; an action that no rule allows is denied. The module
does not know how decisions are made or which types a schema has.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from omnigraph.model.errors import InvalidNameError
from omnigraph.model.names import find_near_name, parse_branch_name
from omnigraph.model.ports import Action
from omnigraph.policy.yaml_reader import (
    ValidationErrors,
    YamlFields,
    join_words,
    read_policy_file,
    read_yaml,
)

BRANCH_ACTIONS = frozenset({Action.READ, Action.EXPORT, Action.CHANGE})
"""Actions that are checked against the branch that they read or change."""

TARGET_ACTIONS = frozenset(
    {Action.SCHEMA_APPLY, Action.BRANCH_CREATE, Action.BRANCH_DELETE, Action.BRANCH_MERGE}
)
"""Actions that are checked against the branch that they create, delete or merge into."""

SERVER_ACTIONS = frozenset({Action.GRAPH_LIST})
"""Actions on a server and not on one of its graphs."""

SHARED_ACTIONS = frozenset({Action.ADMIN})
"""Administrative actions, on a server or on a graph."""

RESTRICTED_ACTIONS = frozenset({Action.READ, Action.EXPORT})
"""Actions whose rules may limit the visible rows and properties."""

_NO_ROWS = "none"


class BundleKind(StrEnum):
    """The scope of a bundle: one graph, or the whole server."""

    GRAPH = "graph"
    SERVER = "server"


def actions_of(kind: BundleKind) -> frozenset[Action]:
    """The actions that a bundle of a kind decides."""
    match kind:
        case BundleKind.GRAPH:
            return frozenset(Action) - SERVER_ACTIONS
        case BundleKind.SERVER:
            return SERVER_ACTIONS | SHARED_ACTIONS


class Scope(StrEnum):
    """The branches that a rule applies to."""

    ANY = "any"
    PROTECTED = "protected"
    UNPROTECTED = "unprotected"


@dataclass(frozen=True, slots=True)
class TypeLimit:
    """The part of a type that a rule makes visible.

    These are no rows, all rows, or the rows that match `where`, without the `hidden` properties.
    `where` is None if there is no condition.
    """

    is_shown: bool
    where: str | None
    hidden: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rule:
    """The actions that one group may do, and on which branches.

    `limits` is None if whole types are visible.
    """

    id: str
    group: str
    actions: frozenset[Action]
    branch_scope: Scope | None
    target_scope: Scope | None
    limits: Mapping[str, TypeLimit] | None


@dataclass(frozen=True, slots=True)
class Bundle:
    """A valid policy; `warnings` list parts of the text that have no effect."""

    name: str
    kind: BundleKind
    groups: Mapping[str, frozenset[str]]
    protected_branches: frozenset[str]
    rules: tuple[Rule, ...]
    warnings: tuple[str, ...]

    @property
    def actors(self) -> frozenset[str]:
        """The actors in all groups."""
        return frozenset[str]().union(*self.groups.values())


def read_bundle(path: Path, *, kind: BundleKind) -> Bundle:
    """Read a bundle from a YAML file."""
    return parse_bundle(read_policy_file(path), kind=kind, name=path.name)


def parse_bundle(
    source: str | bytes | Mapping[str, object], *, kind: BundleKind, name: str
) -> Bundle:
    """Parse a bundle from a YAML text or its content; `name` identifies it in messages."""
    problems = ValidationErrors(name, expected="a policy bundle")
    content = read_yaml(source, name) if isinstance(source, str | bytes) else source
    fields = problems.fields("", content)
    if fields is None:
        raise problems.error
    groups, protected = _parse_groups(fields), _parse_protected(fields)
    rules = _parse_rules(fields, groups, kind)
    fields.expect("version", "groups", "protected_branches", "rules")
    fields.require_version()
    problems.require_none()
    scopes = {scope for rule in rules for scope in (rule.branch_scope, rule.target_scope)}
    if not protected and not scopes <= {None, Scope.ANY}:
        problems.warn("protected_branches", "none, but a rule refers to protected branches")
    return Bundle(
        name=name,
        kind=kind,
        groups=MappingProxyType(groups),
        protected_branches=protected,
        rules=rules,
        warnings=tuple(problems.warnings),
    )


def parse_action(text: str) -> Action:
    """Parse an action, with `-` or `_` between its words."""
    problems = ValidationErrors("action", expected="an action")
    action = problems.parse_word("", text.strip().replace("-", "_"), Action)
    if action is None:
        raise problems.error
    return action


def _parse_groups(fields: YamlFields) -> dict[str, frozenset[str]]:
    groups: dict[str, frozenset[str]] = {}
    given = fields.within("groups") if fields.find("groups") is not None else None
    if given is None:
        return groups
    for key in given.keys:
        name, actors = given.problems.parse_name(given.place, key), given.names(key)
        if actors == ():
            given.add(key, "a group has at least one actor; add one, or remove the group")
        if name in groups:
            given.add(key, "another group has this name")
        if name is not None:
            groups[name] = frozenset(actors or ())
    return groups


def _parse_protected(fields: YamlFields) -> frozenset[str]:
    protected: set[str] = set()
    for name in fields.names("protected_branches") or ():
        try:
            protected.add(parse_branch_name(name))
        except InvalidNameError as error:
            fields.add("protected_branches", str(error))
    return frozenset(protected)


def _parse_rules(
    fields: YamlFields, groups: Mapping[str, frozenset[str]], kind: BundleKind
) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    ids: set[str | None] = set()
    for place, given in fields.entries("rules") or ():
        written = fields.problems.fields(place, given)
        if written is None:
            continue
        written.expect("id", "allow")
        id = written.name("id")
        if id in ids:
            written.add("id", f"another rule has the id '{id}'; ids must be unique")
        ids |= {id} - {None}
        allow = written.within("allow")
        if allow is not None:
            rules.append(_parse_allow(id or "", allow, groups, kind))
    return tuple(rules)


def _parse_allow(
    id: str, allow: YamlFields, groups: Mapping[str, frozenset[str]], kind: BundleKind
) -> Rule:
    allow.allow_only("actors", "actions", "branch_scope", "target_branch_scope", "types")
    actions = _parse_actions(allow)
    _require_kind(allow, actions, kind)
    branch_scope = _parse_scope(allow, "branch_scope", actions, BRANCH_ACTIONS)
    target_scope = _parse_scope(allow, "target_branch_scope", actions, TARGET_ACTIONS)
    if branch_scope is not None and target_scope is not None:
        allow.problems.add(
            allow.place, "a rule has either `branch_scope` or `target_branch_scope`; split the rule"
        )
    return Rule(
        id=id,
        group=_parse_group(allow, groups),
        actions=actions,
        branch_scope=branch_scope,
        target_scope=target_scope,
        limits=_parse_limits(allow, actions),
    )


def _parse_group(allow: YamlFields, groups: Mapping[str, frozenset[str]]) -> str:
    actors = allow.within("actors")
    if actors is None:
        return ""
    actors.allow_only("group")
    group = actors.name("group")
    if group is not None and group not in groups:
        near = find_near_name(group, groups)
        advice = f"did you mean '{near}'?" if near else "declare it under `groups`"
        actors.add("group", f"there is no group '{group}'; {advice}")
    return group or ""


def _parse_actions(allow: YamlFields) -> frozenset[Action]:
    names = allow.names("actions")
    if names == ():
        allow.add("actions", f"a rule needs at least one action; use one of {join_words(Action)}")
    place = allow.place_of("actions")
    actions = [allow.problems.parse_word(place, name, Action) for name in names or ()]
    return frozenset(each for each in actions if each is not None)


def _require_kind(allow: YamlFields, actions: frozenset[Action], kind: BundleKind) -> None:
    server = sorted(actions & SERVER_ACTIONS)
    graph = sorted(actions - SERVER_ACTIONS - SHARED_ACTIONS)
    if server and graph:
        allow.add(
            "actions",
            f"{join_words(server)} is server-scoped and {join_words(graph)} per-graph; "
            "split the rule into two, in two bundles",
        )
    elif server and kind is BundleKind.GRAPH:
        allow.add(
            "actions",
            f"{join_words(server)} is server-scoped, but this is the bundle of a graph; "
            "move the rule to the bundle of the server",
        )
    elif graph and kind is BundleKind.SERVER:
        allow.add(
            "actions",
            f"{join_words(graph)} is per-graph, but this is the bundle of the server; "
            "move the rule to the bundle of a graph",
        )


def _parse_scope(
    allow: YamlFields, key: str, actions: frozenset[Action], scoped: frozenset[Action]
) -> Scope | None:
    given = allow.find(key)
    if given is None:
        return None
    scope = allow.problems.parse_word(allow.place_of(key), given, Scope)
    other = sorted(actions - scoped)
    if other:
        allow.add(
            key,
            f"{join_words(other)} does not accept this scope; "
            f"it applies to {join_words(sorted(scoped))}",
        )
    return scope


def _parse_limits(allow: YamlFields, actions: frozenset[Action]) -> Mapping[str, TypeLimit] | None:
    if "types" not in allow.keys:
        return None
    types = allow.within("types")
    if types is None:
        return None
    other = sorted(actions - RESTRICTED_ACTIONS)
    if other:
        allow.add(
            "types",
            f"limits apply to `read` and `export` only; move {join_words(other)} to another rule",
        )
    if not types.keys:
        allow.add("types", "name a type, or remove the limits")
    limits: dict[str, TypeLimit] = {}
    for key in types.keys:
        name, written = types.problems.parse_name(types.place, key), types.within(key)
        if name is not None and written is not None:
            limits[name] = _parse_limit(written)
    return MappingProxyType(limits)


def _parse_limit(written: YamlFields) -> TypeLimit:
    written.allow_only("where", "hide")
    where, hidden = written.find("where"), written.names("hide")
    if not written.keys:
        written.problems.add(written.place, "specify `where`, `hide` or both")
    if "hide" in written.keys and hidden == ():
        written.add("hide", "name a property, or remove `hide`")
    if "where" in written.keys and (not isinstance(where, str) or not where.strip()):
        written.add(
            "where",
            f"{reprlib.repr(where)} is not a valid condition; write a condition in quotes, "
            "or `none` for no rows",
        )
    condition = where.strip() if isinstance(where, str) else None
    is_shown = condition != _NO_ROWS
    return TypeLimit(is_shown, condition if is_shown else None, frozenset(hidden or ()))
