"""The operator's configuration, `config.yaml` in `~/.omnigraph`: actor, addresses and defaults.

Parsing is pure and total: a value of the wrong shape is rejected with its path; an unknown key is
reported and otherwise ignored. Profiles are parsed but not validated; using one validates it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from omnigraph.cli.output import CommandError

CONFIG_FILE = "config.yaml"
COLUMN_WIDTH_DEFAULT = 80

Parsed = TypeVar("Parsed")


class Format(StrEnum):
    """The output format of the rows of a result."""

    TABLE = "table"
    KV = "kv"
    CSV = "csv"
    JSONL = "jsonl"
    JSON = "json"


class CellLayout(StrEnum):
    """What happens to a cell that is wider than its column."""

    TRUNCATE = "truncate"
    WRAP = "wrap"


@dataclass(frozen=True, slots=True)
class Defaults:
    """Values that apply where the command line sets none."""

    output: Format | None
    column_width_max: int
    cell_layout: CellLayout
    server: str | None
    store: str | None
    default_graph: str | None


@dataclass(frozen=True, slots=True)
class Profile:
    """A named address; valid if it has exactly one of server, cluster and store."""

    server: str | None
    cluster: str | None
    store: str | None
    default_graph: str | None

    @property
    def bindings(self) -> tuple[tuple[str, str], ...]:
        """The addresses that the profile sets, as kinds and values."""
        named = (("server", self.server), ("cluster", self.cluster), ("store", self.store))
        return tuple((kind, value) for kind, value in named if value is not None)


@dataclass(frozen=True, slots=True)
class Alias:
    """A stored query under a short name, with its server, graph and parameters."""

    server: str
    graph: str | None
    query: str
    args: tuple[str, ...]
    params: Mapping[str, object]
    format: Format | None


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """A whole configuration; nothing is set without a file."""

    actor: str | None
    defaults: Defaults
    url_by_server: Mapping[str, str]
    root_by_cluster: Mapping[str, str]
    profiles: Mapping[str, Profile]
    aliases: Mapping[str, Alias]


def find_home(environment: Mapping[str, str]) -> Path:
    """The folder of the configuration and the credentials."""
    named = environment.get("OMNIGRAPH_HOME", "").strip() or "~/.omnigraph"
    first, _, rest = named.partition("/")
    if first != "~":
        return Path(named)
    home = environment.get("HOME")
    return (Path(home) if home else Path.home()) / rest


def read_config(path: Path) -> tuple[OperatorConfig, tuple[str, ...]]:
    """The configuration in a file, which may be absent, and its unknown keys."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return parse_config(None)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"could not read operator config {path}: {error}") from error
    # Imported by name, so that the parser is loaded only if there is a file.
    yaml = import_module("yaml")
    try:
        return parse_config(yaml.safe_load(text))
    except (yaml.YAMLError, CommandError, ValueError) as error:
        # For invalid dates and numbers, the parser raises Python's own error.
        raise CommandError(f"could not parse operator config {path}: {error}") from error
    except RecursionError as error:
        raise CommandError(
            f"could not parse operator config {path}: it is nested too deeply"
        ) from error


def parse_config(tree: object) -> tuple[OperatorConfig, tuple[str, ...]]:
    """The configuration in a tree of mappings, and the unknown keys."""
    unknown: list[str] = []
    root = _section(
        tree, "", ("operator", "defaults", "servers", "clusters", "profiles", "aliases"), unknown
    )
    config = OperatorConfig(
        actor=_text(
            _section(root.get("operator"), "operator", ("actor",), unknown), "operator", "actor"
        ),
        defaults=_parse_defaults(root.get("defaults"), unknown),
        url_by_server=_named(
            root.get("servers"),
            "servers",
            lambda value, path: _required(_section(value, path, ("url",), unknown), path, "url"),
        ),
        root_by_cluster=_named(
            root.get("clusters"),
            "clusters",
            lambda value, path: _required(_section(value, path, ("root",), unknown), path, "root"),
        ),
        profiles=_named(
            root.get("profiles"),
            "profiles",
            lambda value, path: _parse_profile(value, path, unknown),
        ),
        aliases=_named(
            root.get("aliases"), "aliases", lambda value, path: _parse_alias(value, path, unknown)
        ),
    )
    return config, tuple(unknown)


def _parse_defaults(tree: object, unknown: list[str]) -> Defaults:
    known = (
        "output",
        "table_max_column_width",
        "table_cell_layout",
        "server",
        "store",
        "default_graph",
    )
    section = _section(tree, "defaults", known, unknown)
    defaults = Defaults(
        output=_choice(section, "defaults", "output", Format),
        column_width_max=_count(section, "defaults", "table_max_column_width"),
        cell_layout=_choice(section, "defaults", "table_cell_layout", CellLayout)
        or CellLayout.TRUNCATE,
        server=_text(section, "defaults", "server"),
        store=_text(section, "defaults", "store"),
        default_graph=_text(section, "defaults", "default_graph"),
    )
    if defaults.store is not None and defaults.server is not None:
        raise CommandError("`defaults` has both `server` and `store`; remove one of them")
    if defaults.store is not None and defaults.default_graph is not None:
        raise CommandError(
            "`defaults.store` is already a single graph; remove `defaults.default_graph`"
        )
    return defaults


def _parse_profile(tree: object, path: str, unknown: list[str]) -> Profile:
    section = _section(tree, path, ("server", "cluster", "store", "default_graph"), unknown)
    return Profile(
        server=_text(section, path, "server"),
        cluster=_text(section, path, "cluster"),
        store=_text(section, path, "store"),
        default_graph=_text(section, path, "default_graph"),
    )


def _parse_alias(tree: object, path: str, unknown: list[str]) -> Alias:
    known = ("server", "graph", "query", "args", "params", "format")
    section = _section(tree, path, known, unknown)
    return Alias(
        server=_required(section, path, "server"),
        graph=_text(section, path, "graph"),
        query=_required(section, path, "query"),
        args=_texts(section, path, "args"),
        params=_mapping(section.get("params"), f"{path}.params"),
        format=_choice(section, path, "format", Format),
    )


def _section(
    tree: object, path: str, known: tuple[str, ...], unknown: list[str]
) -> Mapping[str, object]:
    section = _mapping(tree, path or "the file")
    unknown.extend(f"{path}.{key}".lstrip(".") for key in section if key not in known)
    return section


def _named(tree: object, path: str, parse: Callable[[object, str], Parsed]) -> Mapping[str, Parsed]:
    return {name: parse(value, f"{path}.{name}") for name, value in _mapping(tree, path).items()}


def _mapping(tree: object, path: str) -> Mapping[str, object]:
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise CommandError(f"`{path}` must be a mapping")
    for key in tree:
        if not isinstance(key, str):
            raise CommandError(f"in `{path}` the key {key!r} must be text; put it in quotes")
    return tree


def _required(section: Mapping[str, object], path: str, key: str) -> str:
    found = _text(section, path, key)
    if found is None:
        raise CommandError(f"`{path}` needs `{key}`")
    return found


def _text(section: Mapping[str, object], path: str, key: str) -> str | None:
    value = section.get(key)
    if value is not None and not isinstance(value, str):
        raise CommandError(f"`{path}.{key}` must be text; put {_show(value)} in quotes")
    return value


def _texts(section: Mapping[str, object], path: str, key: str) -> tuple[str, ...]:
    value = section.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise CommandError(f"`{path}.{key}` must be a list of strings")
    return tuple(value)


def _count(section: Mapping[str, object], path: str, key: str) -> int:
    value = section.get(key, COLUMN_WIDTH_DEFAULT)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CommandError(f"`{path}.{key}` must be a positive number, not {_show(value)}")
    return value


Word = TypeVar("Word", bound=StrEnum)


def _choice(section: Mapping[str, object], path: str, key: str, words: type[Word]) -> Word | None:
    value = section.get(key)
    if value is None:
        return None
    if value not in tuple(words):
        raise CommandError(f"`{path}.{key}` must be one of {', '.join(words)}, not {_show(value)}")
    return words(str(value))


def _show(value: object) -> str:
    # With aliases, a few lines of YAML can expand to more than fits in memory.
    return repr(value) if isinstance(value, str | int | float | date) else "what is there"
