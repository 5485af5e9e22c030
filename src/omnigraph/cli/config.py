"""The operator's configuration, `config.yaml` in `~/.omnigraph`: actor, addresses and defaults.

Parsing is pure and total: a value of the wrong shape is rejected with its path; an unknown key is
reported and otherwise ignored. Profiles are parsed but not validated; using one validates it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from omnigraph.cli.output import CommandError

CONFIG_FILE = "config.yaml"
COLUMN_WIDTH_DEFAULT = 80


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

    def section(tree: object, path: str, *known: str) -> _Section:
        found = _Section(path, _mapping(tree, path or "the file"))
        unknown.extend(f"{path}.{key}".lstrip(".") for key in found.values if key not in known)
        return found

    root = section(tree, "", "operator", "defaults", "servers", "clusters", "profiles", "aliases")

    def sections(path: str, *known: str) -> Iterator[tuple[str, _Section]]:
        for name, value in _mapping(root.values.get(path), path).items():
            yield name, section(value, f"{path}.{name}", *known)

    actor = section(root.values.get("operator"), "operator", "actor").text("actor")
    defaults = section(
        root.values.get("defaults"),
        "defaults",
        *("output", "table_max_column_width", "table_cell_layout"),
        *("server", "store", "default_graph"),
    )
    places = ("server", "cluster", "store", "default_graph")
    call = ("server", "graph", "query", "args", "params", "format")
    config = OperatorConfig(
        actor=actor,
        defaults=_parse_defaults(defaults),
        url_by_server={name: each.required("url") for name, each in sections("servers", "url")},
        root_by_cluster={
            name: each.required("root") for name, each in sections("clusters", "root")
        },
        profiles={
            name: Profile(**{place: each.text(place) for place in places})
            for name, each in sections("profiles", *places)
        },
        aliases={name: _parse_alias(each) for name, each in sections("aliases", *call)},
    )
    return config, tuple(unknown)


Word = TypeVar("Word", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class _Section:
    """A mapping of the configuration, and its path for messages."""

    path: str
    values: Mapping[str, object]

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise CommandError(f"`{self.path}.{key}` must be text; put {_show(value)} in quotes")
        return value

    def required(self, key: str) -> str:
        found = self.text(key)
        if found is None:
            raise CommandError(f"`{self.path}` needs `{key}`")
        return found

    def choice(self, key: str, words: type[Word]) -> Word | None:
        value = self.values.get(key)
        if value is None:
            return None
        if value not in tuple(words):
            raise CommandError(
                f"`{self.path}.{key}` must be one of {', '.join(words)}, not {_show(value)}"
            )
        return words(str(value))


def _parse_defaults(section: _Section) -> Defaults:
    width = section.values.get("table_max_column_width", COLUMN_WIDTH_DEFAULT)
    output = section.choice("output", Format)
    if not isinstance(width, int) or isinstance(width, bool) or width < 1:
        raise CommandError(
            f"`defaults.table_max_column_width` must be a positive number, not {_show(width)}"
        )
    defaults = Defaults(
        output=output,
        column_width_max=width,
        cell_layout=section.choice("table_cell_layout", CellLayout) or CellLayout.TRUNCATE,
        server=section.text("server"),
        store=section.text("store"),
        default_graph=section.text("default_graph"),
    )
    if defaults.store is not None and defaults.server is not None:
        raise CommandError("`defaults` has both `server` and `store`; remove one of them")
    if defaults.store is not None and defaults.default_graph is not None:
        raise CommandError(
            "`defaults.store` is already a single graph; remove `defaults.default_graph`"
        )
    return defaults


def _parse_alias(section: _Section) -> Alias:
    server, graph, query = (
        section.required("server"),
        section.text("graph"),
        section.required("query"),
    )
    args = section.values.get("args")
    if args is None:
        args = []
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise CommandError(f"`{section.path}.args` must be a list of strings")
    return Alias(
        server=server,
        graph=graph,
        query=query,
        args=tuple(args),
        params=_mapping(section.values.get("params"), f"{section.path}.params"),
        format=section.choice("format", Format),
    )


def _mapping(tree: object, path: str) -> Mapping[str, object]:
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise CommandError(f"`{path}` must be a mapping")
    for key in tree:
        if not isinstance(key, str):
            raise CommandError(f"in `{path}` the key {key!r} must be text; put it in quotes")
    return tree


def _show(value: object) -> str:
    # With aliases, a few lines of YAML can expand to more than fits in memory.
    return repr(value) if isinstance(value, str | int | float | date) else "what is there"
