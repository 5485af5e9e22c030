"""Policies for tests, and the plain decision that Cedar's must equal."""

from collections.abc import Mapping

from omnigraph.model.ports import Access, Action
from omnigraph.policy.bundle import Bundle, BundleKind, Rule, Scope, parse_bundle
from omnigraph.policy.cedar import compile_bundle
from omnigraph.policy.gate import PolicyGate

TEAM = """
version: 1
groups:
  admins: [andrew]
  writers: [bruno, andrew]
  readers: [ragnor]
protected_branches: [main]
rules:
  - id: everything
    allow:
      actors: {group: admins}
      actions: [read, export, change, schema_apply, branch_create, branch_delete, branch_merge,
                admin, invoke_query]
  - id: look
    allow:
      actors: {group: writers}
      actions: [read]
  - id: draft
    allow:
      actors: {group: writers}
      actions: [change]
      branch_scope: unprotected
  - id: branch-out
    allow:
      actors: {group: writers}
      actions: [branch_create, branch_merge]
      target_branch_scope: unprotected
  - id: take-out
    allow:
      actors: {group: readers}
      actions: [read, export]
      branch_scope: protected
"""


def team_bundle() -> Bundle:
    """An admin, who may do everything; a writer, who may not touch `main`; a reader of `main`."""
    return parse_bundle(TEAM, kind=BundleKind.GRAPH, name="team.yaml")


def graph_gate(source: str | Mapping[str, object]) -> PolicyGate:
    """The gate of a graph's bundle."""
    bundle = parse_bundle(source, kind=BundleKind.GRAPH, name="policy.yaml")
    return PolicyGate(compile_bundle(bundle), graph_id="default")


def make_access(
    actor: str | None, action: Action, *, branch: str | None = None, target: str | None = None
) -> Access:
    """A request."""
    return Access(actor, action, branch, target)


def matching_rules(bundle: Bundle, access: Access) -> list[Rule]:
    """The rules of a bundle that allow a request, found one by one."""
    return [
        rule
        for rule in bundle.rules
        if access.actor in bundle.groups[rule.group]
        and access.action in rule.actions
        and _is_within(rule.branch_scope, access.branch, bundle.protected_branches)
        and _is_within(rule.target_scope, access.target, bundle.protected_branches)
    ]


def _is_within(scope: Scope | None, branch: str | None, protected: frozenset[str]) -> bool:
    match scope:
        case None | Scope.ANY:
            return True
        case Scope.PROTECTED:
            return branch is not None and branch in protected
        case Scope.UNPROTECTED:
            return branch is not None and branch not in protected
