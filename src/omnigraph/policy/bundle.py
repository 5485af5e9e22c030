"""Policy bundles: which groups there are, and what the rules of a YAML text allow them.

A bundle that exists is valid; one that is not is refused with every mistake in it, its place, and
what to write instead. Only allows things: what no rule allows is denied. Does not know how
decisions are made, nor the types that a rule's limits name.
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
from omnigraph.model.policy import Action
from omnigraph.policy.reading import (
    Fields,
    Problems,
    list_words,
    read_policy_file,
    read_yaml,
)

BRANCH_ACTIONS = frozenset({Action.READ, Action.EXPORT, Action.CHANGE})
"""Judged on the branch that they look at or change."""

TARGET_ACTIONS = frozenset(
    {Action.SCHEMA_APPLY, Action.BRANCH_CREATE, Action.BRANCH_DELETE, Action.BRANCH_MERGE}
)
"""Judged on the branch that they make, take away or merge into."""

SERVER_ACTIONS = frozenset({Action.GRAPH_LIST})
"""Asked of a server, not of one of its graphs."""

SHARED_ACTIONS = frozenset({Action.ADMIN})
"""Asked of either, by whoever looks after it."""

LIMITED_ACTIONS = frozenset({Action.READ, Action.EXPORT})
"""What a rule may show a part of."""

_NO_ROWS = "none"


class BundleKind(StrEnum):
    """What a bundle is about: one graph, or the server with all of them."""

    GRAPH = "graph"
    SERVER = "server"


def actions_of(kind: BundleKind) -> frozenset[Action]:
    """What a bundle of a kind decides."""
    match kind:
        case BundleKind.GRAPH:
            return frozenset(Action) - SERVER_ACTIONS
        case BundleKind.SERVER:
            return SERVER_ACTIONS | SHARED_ACTIONS


class Scope(StrEnum):
    """Which branches a rule is about."""

    ANY = "any"
    PROTECTED = "protected"
    UNPROTECTED = "unprotected"


@dataclass(frozen=True, slots=True)
class TypeLimit:
    """What a rule shows of a type: no row, all rows, or those that `where` holds for; and which
    properties it hides.

    `where` is None where it asks for nothing.
    """

    is_shown: bool
    where: str | None
    hidden: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rule:
    """What one group may do, and on which branches; `limits` is None if it sees whole types."""

    id: str
    group: str
    actions: frozenset[Action]
    branch_scope: Scope | None
    target_scope: Scope | None
    limits: Mapping[str, TypeLimit] | None


@dataclass(frozen=True, slots=True)
class Bundle:
    """A valid policy; `warnings` tell what is written in it and means nothing."""

    name: str
    kind: BundleKind
    groups: Mapping[str, frozenset[str]]
    protected_branches: frozenset[str]
    rules: tuple[Rule, ...]
    warnings: tuple[str, ...]

    @property
    def actors(self) -> frozenset[str]:
        """Everybody who is in a group."""
        return frozenset[str]().union(*self.groups.values())


def read_bundle(path: Path, *, kind: BundleKind) -> Bundle:
    """The bundle that a YAML file holds."""
    return parse_bundle(read_policy_file(path), kind=kind, name=path.name)


def parse_bundle(
    source: str | bytes | Mapping[str, object], *, kind: BundleKind, name: str
) -> Bundle:
    """The bundle that a YAML text, or what such a text holds, means; `name` is for messages."""
    problems = Problems(name, expected="a policy bundle")
    content = read_yaml(source, name) if isinstance(source, str | bytes) else source
    fields = problems.fields("", content)
    if fields is None:
        problems.require_none()
    # What is no set of fields has been told, so there is one.
    assert fields is not None
    groups, protected = _parse_groups(fields), _parse_protected(fields)
    rules = _parse_rules(fields, groups, kind)
    fields.expect("version", "groups", "protected_branches", "rules")
    fields.require_version()
    problems.require_none()
    if not protected and any(map(_tells_branches_apart, rules)):
        problems.warn("protected_branches", "none, and a rule tells protected ones from others")
    return Bundle(
        name=name,
        kind=kind,
        groups=MappingProxyType(groups),
        protected_branches=protected,
        rules=rules,
        warnings=tuple(problems.warnings),
    )


def parse_action(text: str) -> Action:
    """The action that a text names, with `-` or `_` between its words."""
    problems = Problems("action", expected="an action")
    action = problems.parse_word("", text.strip().replace("-", "_"), Action)
    problems.require_none()
    # What is no action has been told, so there is one.
    assert action is not None
    return action


def _parse_groups(fields: Fields) -> dict[str, frozenset[str]]:
    groups: dict[str, frozenset[str]] = {}
    given = fields.within("groups") if fields.find("groups") is not None else None
    for key in given.keys if given is not None else ():
        # Within a mapping that was there.
        assert given is not None
        name, actors = given.problems.parse_name(given.place, key), given.names(key)
        if actors == ():
            given.add(key, "a group has at least one actor; name one, or take the group out")
        if name in groups:
            given.add(key, "another group has this name")
        if name is not None:
            groups[name] = frozenset(actors or ())
    return groups


def _parse_protected(fields: Fields) -> frozenset[str]:
    protected: set[str] = set()
    for name in fields.names("protected_branches") or ():
        try:
            protected.add(parse_branch_name(name))
        except InvalidNameError as error:
            fields.add("protected_branches", str(error))
    return frozenset(protected)


def _parse_rules(
    fields: Fields, groups: Mapping[str, frozenset[str]], kind: BundleKind
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
            written.add("id", f"another rule is called '{id}'; give each an id of its own")
        ids |= {id} - {None}
        allow = written.within("allow")
        if allow is not None:
            rules.append(_parse_allow(id or "", allow, groups, kind))
    return tuple(rules)


def _parse_allow(
    id: str, allow: Fields, groups: Mapping[str, frozenset[str]], kind: BundleKind
) -> Rule:
    allow.allow_only("actors", "actions", "branch_scope", "target_branch_scope", "types")
    actions = _parse_actions(allow)
    _require_kind(allow, actions, kind)
    branch_scope = _parse_scope(allow, "branch_scope", actions, BRANCH_ACTIONS)
    target_scope = _parse_scope(allow, "target_branch_scope", actions, TARGET_ACTIONS)
    if branch_scope is not None and target_scope is not None:
        allow.problems.add(
            allow.place, "a rule has `branch_scope` or `target_branch_scope`; make two rules of it"
        )
    return Rule(
        id=id,
        group=_parse_group(allow, groups),
        actions=actions,
        branch_scope=branch_scope,
        target_scope=target_scope,
        limits=_parse_limits(allow, actions),
    )


def _parse_group(allow: Fields, groups: Mapping[str, frozenset[str]]) -> str:
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


def _parse_actions(allow: Fields) -> frozenset[Action]:
    names = allow.names("actions")
    if names == ():
        allow.add("actions", f"a rule allows something; name one of {list_words(Action)}")
    place = allow.place_of("actions")
    actions = [allow.problems.parse_word(place, name, Action) for name in names or ()]
    return frozenset(each for each in actions if each is not None)


def _require_kind(allow: Fields, actions: frozenset[Action], kind: BundleKind) -> None:
    server = sorted(actions & SERVER_ACTIONS)
    graph = sorted(actions - SERVER_ACTIONS - SHARED_ACTIONS)
    if server and graph:
        allow.add(
            "actions",
            f"{list_words(server)} is server-scoped and {list_words(graph)} per-graph; "
            "make two rules of it, in two bundles",
        )
    elif server and kind is BundleKind.GRAPH:
        allow.add(
            "actions",
            f"{list_words(server)} is server-scoped, and this bundle is a graph's; "
            "write the rule into the server's",
        )
    elif graph and kind is BundleKind.SERVER:
        allow.add(
            "actions",
            f"{list_words(graph)} is per-graph, and this bundle is the server's; "
            "write the rule into a graph's",
        )


def _parse_scope(
    allow: Fields, key: str, actions: frozenset[Action], scoped: frozenset[Action]
) -> Scope | None:
    given = allow.find(key)
    if given is None:
        return None
    scope = allow.problems.parse_word(allow.place_of(key), given, Scope)
    other = sorted(actions - scoped)
    if other:
        allow.add(
            key, f"{list_words(other)} takes no such scope; it is for {list_words(sorted(scoped))}"
        )
    return scope


def _parse_limits(allow: Fields, actions: frozenset[Action]) -> Mapping[str, TypeLimit] | None:
    if "types" not in allow.keys:
        return None
    types = allow.within("types")
    if types is None:
        return None
    other = sorted(actions - LIMITED_ACTIONS)
    if other:
        allow.add(
            "types", f"limits are for `read` and `export`; take {list_words(other)} elsewhere"
        )
    if not types.keys:
        allow.add("types", "name a type, or take the limits out")
    limits: dict[str, TypeLimit] = {}
    for key in types.keys:
        name, written = types.problems.parse_name(types.place, key), types.within(key)
        if name is not None and written is not None:
            limits[name] = _parse_limit(written)
    return MappingProxyType(limits)


def _parse_limit(written: Fields) -> TypeLimit:
    written.allow_only("where", "hide")
    where, hidden = written.find("where"), written.names("hide")
    if not written.keys:
        written.problems.add(written.place, "say `where`, `hide` or both")
    if "hide" in written.keys and hidden == ():
        written.add("hide", "name a property, or take it out")
    if "where" in written.keys and (not isinstance(where, str) or not where.strip()):
        written.add(
            "where",
            f"{reprlib.repr(where)} is no condition; write one in quotes, or `none` for no row",
        )
    condition = where.strip() if isinstance(where, str) else None
    is_shown = condition != _NO_ROWS
    return TypeLimit(is_shown, condition if is_shown else None, frozenset(hidden or ()))


def _tells_branches_apart(rule: Rule) -> bool:
    return not {rule.branch_scope, rule.target_scope} <= {None, Scope.ANY}
