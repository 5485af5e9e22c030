"""Gates: the policy decision of each call, and the default without a policy.

A decision takes Cedar a fraction of a millisecond and never changes within a gate, so recent
decisions are cached. Every decision is logged, cached or not.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from omnigraph.model.errors import InvalidValueError, PolicyDeniedError
from omnigraph.model.limits import CACHED_DECISIONS_MAX
from omnigraph.model.ports import Access, Action, TypeView, View
from omnigraph.policy.bundle import Bundle, BundleKind, TypeLimit, actions_of, read_bundle
from omnigraph.policy.cedar import CEDAR_SUFFIX, Evaluator, Policies, compile_bundle, read_cedar
from omnigraph.storage.environment import expand_home

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a request.

    `rule` is the first by name of the rules that allow the request, or that forbid it; None if no
    rule applies. `reason` explains a denial. `view` is the part of the graph that is visible; None
    if everything is.
    """

    access: Access
    is_allowed: bool
    rule: str | None
    reason: str
    view: View | None

    @property
    def message(self) -> str:
        """The decision as a sentence."""
        if not self.is_allowed:
            return str(self.error)
        message = f"policy allowed action '{self.access.action}' for actor '{self.access.actor}'"
        return message if self.rule is None else f"{message} by rule '{self.rule}'"

    @property
    def error(self) -> PolicyDeniedError:
        """The error that a denied request raises."""
        access = self.access
        return PolicyDeniedError(
            actor=access.actor,
            action=access.action,
            branch=access.branch,
            target=access.target,
            reason=self.reason,
        )


class PolicyGate:
    """A gate that decides by policies; safe to share between threads."""

    def __init__(self, policies: Policies, *, graph_id: str | None) -> None:
        self._policies = policies
        self._evaluator = Evaluator(policies, resource_id=graph_id)
        self._remembered = lru_cache(CACHED_DECISIONS_MAX)(self._decide)

    @property
    def protected_branches(self) -> frozenset[str]:
        """The branches that the policies declare as protected."""
        return self._policies.protected_branches

    def decide(self, access: Access) -> Decision:
        """Decide a request; a denial raises nothing."""
        return self._remembered(access)

    def require(self, access: Access) -> None:
        """Raise `PolicyDeniedError` unless the request is allowed."""
        decision = self.decide(access)
        log_decision(decision)
        _require_allowed(decision)

    def view(self, access: Access) -> View | None:
        """The part of the graph that a read or export may see; None if everything is visible.

        Raises `PolicyDeniedError` if the request is denied.
        """
        return _require_allowed(self.decide(access)).view

    def _decide(self, access: Access) -> Decision:
        policies = self._policies
        reason = _find_misdirection(access, policies.kind)
        if reason:
            return Decision(access, is_allowed=False, rule=None, reason=reason, view=None)
        decided = self._evaluator.evaluate(access)
        rule = min(decided.rules, default=None)
        if not decided.is_allowed:
            reason = _explain_denial(access, rule, policies)
            return Decision(access, is_allowed=False, rule=rule, reason=reason, view=None)
        limits = [policies.limits_by_rule.get(each) for each in decided.rules]
        view = _combine(access.actor, limits)
        return Decision(access, is_allowed=True, rule=rule, reason="", view=view)


class DefaultDenyGate:
    """The gate without a policy where callers have actor names: it allows only reads."""

    def require(self, access: Access) -> None:
        """Raise `PolicyDeniedError` unless the request is a read by a named actor."""
        decision = self.decide(access)
        log_decision(decision)
        _require_allowed(decision)

    def decide(self, access: Access) -> Decision:
        """Decide a request without a policy."""
        reason = ""
        if access.actor is None:
            reason = _NO_ACTOR
        elif access.action is not Action.READ:
            reason = "default-deny: without a policy, actors may only read"
        return Decision(access, is_allowed=not reason, rule=None, reason=reason, view=None)

    def view(self, access: Access) -> View | None:
        """None: everything is visible; raises `PolicyDeniedError` if the request is denied."""
        return _require_allowed(self.decide(access)).view


def open_gate(
    source: str | os.PathLike[str] | Bundle, *, kind: BundleKind, graph_id: str | None
) -> PolicyGate:
    """Open the gate of a bundle, of a YAML file or of a `.cedar` file.

    `graph_id` is the resource that `.cedar` policies may name; None for the policy of a server.
    """
    if isinstance(source, Bundle):
        if source.kind is not kind:
            raise InvalidValueError(
                subject=source.name,
                expected=f"a {kind} bundle",
                value=source.kind,
                problem=f"it is the bundle of a {source.kind}; the bundle of a {kind} is required",
            )
        return PolicyGate(compile_bundle(source), graph_id=graph_id)
    path = expand_home(source)
    if path.suffix == CEDAR_SUFFIX:
        return PolicyGate(read_cedar(path, kind=kind), graph_id=graph_id)
    bundle = read_bundle(path, kind=kind)
    for warning in bundle.warnings:
        _LOG.warning("%s: %s", bundle.name, warning)
    return PolicyGate(compile_bundle(bundle), graph_id=graph_id)


def _require_allowed(decision: Decision) -> Decision:
    if not decision.is_allowed:
        raise decision.error
    return decision


def log_decision(decision: Decision) -> None:
    """Log a request and the decision on it."""
    if _LOG.isEnabledFor(logging.INFO):
        access = decision.access
        _LOG.info(
            "policy %s %s",
            "allowed" if decision.is_allowed else "denied",
            access.action,
            extra={
                "actor": access.actor,
                "action": access.action.value,
                "branch": access.branch,
                "target": access.target,
                "allowed": decision.is_allowed,
                "rule": decision.rule,
            },
        )


_NO_ACTOR = "the request names no actor"


def _find_misdirection(access: Access, kind: BundleKind) -> str:
    """Why policies of a kind do not apply to a request; empty if they do."""
    if access.actor is None:
        return _NO_ACTOR
    names = f"{access.actor}{access.branch or ''}{access.target or ''}"
    # Cedar rejects such a name with an error instead of a decision.
    if any("\ud800" <= character <= "\udfff" for character in names):
        return "a name contains an unpaired surrogate"
    if access.action not in actions_of(kind):
        scope = "server-scoped" if kind is BundleKind.GRAPH else "per-graph"
        return f"the action is {scope}, but this is the policy of a {kind}"
    return ""


def _explain_denial(access: Access, rule: str | None, policies: Policies) -> str:
    if rule is not None:
        return f"rule '{rule}' forbids it"
    if policies.actors is not None and access.actor not in policies.actors:
        return f"unknown actor '{access.actor}': not in any group of the policy"
    return ""


def _combine(actor: str | None, limits: Iterable[Mapping[str, TypeLimit] | None]) -> View | None:
    """Combine the limits of rules: rows that any rule shows, without properties that any hides.

    A rule without limits makes everything visible, whatever other rules hide.
    """
    given = list(limits)
    restricted = [each for each in given if each is not None]
    if len(restricted) < len(given):
        return None
    names = sorted(frozenset[str]().union(*restricted))
    types = {name: _combine_type(name, restricted) for name in names}
    seen = {name: view for name, view in types.items() if view != _WHOLE}
    return View(actor, MappingProxyType(seen)) if seen else None


_WHOLE = TypeView(None, frozenset())


def _combine_type(name: str, limits: Iterable[Mapping[str, TypeLimit]]) -> TypeView:
    found = [each.get(name) for each in limits]
    hidden = frozenset[str]().union(*(each.hidden for each in found if each is not None))
    if any(each is None or (each.is_shown and each.where is None) for each in found):
        return TypeView(None, hidden)
    conditions = {each.where for each in found if each is not None and each.where is not None}
    return TypeView(tuple(sorted(conditions)), hidden)
