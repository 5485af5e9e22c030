"""`omnigraph profile …`: what the profiles of the configuration address."""

from __future__ import annotations

from dataclasses import dataclass

import click

from omnigraph.cli.command import command
from omnigraph.cli.config import Format, OperatorConfig, Profile
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION
from omnigraph.cli.output import print_json, print_line, print_note
from omnigraph.cli.refusals import CommandError
from omnigraph.cli.scopes import (
    ClusterScope,
    Scope,
    ServerScope,
    StoreScope,
    active_profile,
    get_profile,
    require_one_binding,
    scope_of_defaults,
    scope_of_profile,
)

_DEFAULTS = "(defaults)"


@dataclass(frozen=True, slots=True)
class _Listed:
    """A profile as the list shows it; `error` says why it cannot be used."""

    name: str
    binding: str
    scope_kind: str
    target: str | None
    error: str | None
    default_graph: str | None
    is_active: bool


@command()
@JSON_OPTION
@click.pass_obj
def list_all(invocation: Invocation, *, is_json: bool) -> None:
    """List the profiles, those that cannot be used too; `*` marks the one that counts."""
    config = invocation.config
    active = active_profile(invocation.flags, invocation.environment)
    listed = [
        _describe(name, profile, config, is_active=name == active)
        for name, profile in config.profiles.items()
    ]
    if is_json:
        print_json([_encode(each) for each in listed])
        return
    for each in listed:
        mark = "*" if each.is_active else " "
        shown = f"invalid: {each.error}" if each.error is not None else each.binding
        graph = f" graph={each.default_graph}" if each.default_graph is not None else ""
        print_line(f"{mark} {each.name} {shown}{graph}")
    if not listed:
        print_note(f"no profiles in {invocation.config_path}")


@command()
@click.argument("name", required=False)
@JSON_OPTION
@click.pass_obj
def show(invocation: Invocation, name: str | None, *, is_json: bool) -> None:
    """Show what the profile NAME addresses.

    Without NAME: the profile that counts now, or the defaults if none does.
    """
    config = invocation.config
    chosen = name if name is not None else active_profile(invocation.flags, invocation.environment)
    payload = _show_defaults(config) if chosen is None else _show_profile(chosen, config)
    if is_json:
        print_json(payload)
        return
    for key, value in payload.items():
        print_line(f"{key}: {'-' if value is None else value}")


def _describe(name: str, profile: Profile, config: OperatorConfig, *, is_active: bool) -> _Listed:
    error = None
    try:
        scope_of_profile(name, graph=None, config=config)
    except CommandError as refusal:
        error = str(refusal)
    kind, target = ("invalid", None) if error is not None else profile.bindings[0]
    return _Listed(
        name=name,
        binding=" ".join(f"{kind}={value}" for kind, value in profile.bindings),
        scope_kind=kind,
        target=target,
        error=error,
        default_graph=profile.default_graph,
        is_active=is_active,
    )


def _encode(listed: _Listed) -> dict[str, object]:
    return {
        "name": listed.name,
        "binding": listed.binding,
        "scope_kind": listed.scope_kind,
        "target": listed.target,
        "valid": listed.error is None,
        "error": listed.error,
        "default_graph": listed.default_graph,
        "active": listed.is_active,
    }


def _show_profile(name: str, config: OperatorConfig) -> dict[str, object]:
    profile = get_profile(name, config)
    scope_kind, target = require_one_binding(name, profile)
    scope = scope_of_profile(name, graph=None, config=config)
    return _payload(name, scope_kind, target, scope, config)


def _show_defaults(config: OperatorConfig) -> dict[str, object]:
    scope = scope_of_defaults(graph=None, config=config)
    match scope:
        case ServerScope():
            return _payload(_DEFAULTS, "server", config.defaults.server, scope, config)
        case StoreScope():
            return _payload(_DEFAULTS, "store", config.defaults.store, scope, config)
        case None:
            return _payload(_DEFAULTS, "none", None, scope, config)


def _payload(
    name: str,
    scope_kind: str,
    target: str | None,
    scope: Scope | None,
    config: OperatorConfig,
) -> dict[str, object]:
    return {
        "name": name,
        "scope_kind": scope_kind,
        "target": target,
        "endpoint": _endpoint_of(scope),
        "default_graph": _graph_of(scope),
        "output_format": str(config.defaults.output or Format.TABLE),
    }


def _endpoint_of(scope: Scope | None) -> str | None:
    match scope:
        case None:
            return None
        case ServerScope(url=url):
            return url
        case ClusterScope(root=root):
            return root
        case StoreScope(uri=uri):
            return uri


def _graph_of(scope: Scope | None) -> str | None:
    match scope:
        case ServerScope(graph=graph) | ClusterScope(graph=graph):
            return graph
        case StoreScope() | None:
            return None
