"""Strict YAML reading for policies and clusters: positions, repeated keys, all errors collected.

Only plain YAML values are read, without custom tags. Errors carry the place in the file and are
reported together, so one run lists everything to correct. The meaning of the fields is not known
here. Needs PyYAML.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import yaml

from omnigraph.model.errors import InvalidValueError, LimitExceededError, UnreadableError
from omnigraph.model.limits import NODES_MAX, POLICY_BYTES_MAX
from omnigraph.model.names import find_near_name

# Similar enough to be a typing error, and different enough from other words.
_SLIP = 0.8

Word = TypeVar("Word", bound=StrEnum)


class ValidationErrors:
    """The errors and warnings found in a file."""

    def __init__(self, name: str, *, expected: str) -> None:
        self._name, self._expected = name, expected
        self._found: list[str] = []
        self.warnings: list[str] = []

    def add(self, place: str, problem: str) -> None:
        """Add an error."""
        self._found.append(f"{place}: {problem}" if place else problem)

    def warn(self, place: str, problem: str) -> None:
        """Add a warning: not an error, but something that the author should know."""
        self.warnings.append(f"{place}: {problem}")

    @property
    def error(self) -> InvalidValueError:
        """All errors as one."""
        return InvalidValueError(
            subject=self._name,
            expected=self._expected,
            value=tuple(self._found),
            problem="; ".join(self._found),
        )

    def require_none(self) -> None:
        """Raise `InvalidValueError` with all errors, if there are any."""
        if self._found:
            raise self.error

    def fields(self, place: str, given: object) -> YamlFields | None:
        """The fields of a mapping; None, after adding an error, if the value is not a mapping."""
        if not isinstance(given, Mapping):
            self.add(place, f"expected fields, as `name: value`, not {_kind(given)}")
            return None
        odd = [key for key in given if not isinstance(key, str)]
        for key in odd:
            self.add(place, f"the name {reprlib.repr(key)} is {_kind(key)}; write it in quotes")
        named = {key: given[key] for key in given if isinstance(key, str)}
        return YamlFields(self, place, named)

    def parse_name(self, place: str, given: object) -> str | None:
        """A name without surrounding blanks; None, after adding an error, if it is invalid."""
        if not isinstance(given, str):
            self.add(
                place,
                f"{reprlib.repr(given)} is {_kind(given)}; expected a name in quotes",
            )
            return None
        name = given.strip()
        if not name:
            self.add(place, "a name is blank; add a name, or remove the entry")
            return None
        if not name.isprintable():
            self.add(place, f"the name {name!r} contains unprintable characters")
            return None
        return name

    def parse_word(self, place: str, given: object, words: type[Word]) -> Word | None:
        """A member of an enum; None, after adding an error, if the value is not one."""
        if isinstance(given, str) and given in tuple(words):
            return words(given)
        near = find_near_name(given, words) if isinstance(given, str) else None
        advice = f"did you mean `{near}`?" if near else f"write one of {join_words(words)}"
        self.add(place, f"{reprlib.repr(given)} is unknown; {advice}")
        return None


class YamlFields:
    """The fields of a mapping at one place in a file; invalid values add errors."""

    def __init__(self, problems: ValidationErrors, place: str, given: Mapping[str, object]) -> None:
        self._given = given
        self.problems = problems
        self.place = place

    @property
    def keys(self) -> tuple[str, ...]:
        """The field names, in the order of the file."""
        return tuple(self._given)

    def place_of(self, key: str) -> str:
        """The path of a field in the file, for messages."""
        return f"{self.place}.{key}" if self.place else key

    def find(self, key: str) -> object:
        """The value of a field; None if it is absent or null."""
        return self._given.get(key)

    def add(self, key: str, problem: str) -> None:
        """Add an error about a field."""
        self.problems.add(self.place_of(key), problem)

    def require_version(self) -> None:
        """Add an error unless the file declares `version: 1`, the only version."""
        version = self._given.get("version")
        if isinstance(version, bool) or version != 1:
            said = "is missing" if version is None else f"{reprlib.repr(version)} is unknown"
            self.add("version", f"{said}; write `version: 1`")

    def expect(self, *known: str) -> None:
        """Warn about unknown fields; a field whose name is close to a known one is an error."""
        for key in self._given:
            if key in known:
                continue
            near = get_close_matches(key, known, n=1, cutoff=_SLIP)
            if near:
                self.add(key, f"unknown; did you mean `{near[0]}`?")
            else:
                self.problems.warn(self.place_of(key), "unknown, and ignored")

    def allow_only(self, *known: str) -> None:
        """Add an error for each unknown field: to ignore one could allow more than intended."""
        for key in self._given:
            if key not in known:
                self.add(key, f"unknown; the known fields are {join_words(known)}")

    def within(self, key: str) -> YamlFields | None:
        """The fields of a nested mapping; None, after adding an error, if it is not a mapping."""
        return self.problems.fields(self.place_of(key), self._given.get(key))

    def entries(self, key: str) -> tuple[tuple[str, object], ...] | None:
        """The entries of a list, each with its place; empty if the field is absent.

        Returns None, after adding an error, if the value is not a list.
        """
        given = self._given.get(key)
        if given is None:
            return ()
        if not isinstance(given, list | tuple):
            self.add(key, f"expected a list, not {_kind(given)}")
            return None
        return tuple((f"{self.place_of(key)}[{at}]", each) for at, each in enumerate(given))

    def names(self, key: str) -> tuple[str, ...] | None:
        """The names in a list; None, after adding errors, if the value is anything else."""
        entries = self.entries(key)
        if entries is None:
            return None
        names = [self.problems.parse_name(place, each) for place, each in entries]
        return tuple(name for name in names if name is not None) if all(names) else None

    def name(self, key: str) -> str | None:
        """The name in a field; None, after adding an error, if it is absent or invalid."""
        if key not in self._given:
            self.problems.add(self.place, f"`{key}` is missing")
            return None
        return self.problems.parse_name(self.place_of(key), self._given[key])


def join_words(words: Iterable[str]) -> str:
    """Words as a list in a message."""
    return ", ".join(f"`{each}`" for each in words)


def read_policy_file(path: Path) -> bytes:
    """Read a policy file, up to one byte more than the limit; raises `UnreadableError`."""
    try:
        with path.open("rb") as file:
            content = file.read(POLICY_BYTES_MAX + 1)
    except OSError as error:
        raise UnreadableError(path=str(path), reason=error.strerror or str(error)) from error
    return content


def read_yaml(text: str | bytes, name: str) -> object:
    """Parse a YAML text; a repeated key is an error."""
    size = len(text)
    if size > POLICY_BYTES_MAX:
        raise LimitExceededError(resource=f"the size of {name}", limit=POLICY_BYTES_MAX, found=size)
    try:
        tree = read_yaml_tree(text)
    except YamlTextError as error:
        raise _no_yaml(name, str(error)) from error
    for each in tree.repeated:
        raise _no_yaml(name, f"line {each.line}: `{each.path}` is repeated")
    return tree.content


def _no_yaml(name: str, reason: str) -> InvalidValueError:
    return InvalidValueError(subject=name, expected="YAML", value=None, problem=reason)


def _kind(given: object) -> str:
    match given:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "fields"
        case _:
            return f"a {type(given).__name__}"


@dataclass(frozen=True, slots=True)
class RepeatedKey:
    """A key that occurs twice in a mapping, and the line of the second occurrence."""

    path: str
    line: int


@dataclass(frozen=True, slots=True)
class YamlTree:
    """The content of a text, and its repeated keys.

    The last value of a repeated key wins, so callers must reject a tree that has any.
    """

    content: object
    repeated: tuple[RepeatedKey, ...]


class YamlTextError(ValueError):
    """The text is not valid YAML, or it cannot be checked."""


def read_yaml_tree(content: str | bytes) -> YamlTree:
    """Parse a text and find its repeated keys; raises `YamlTextError`."""
    try:
        node = yaml.compose(content, Loader=yaml.SafeLoader)
        repeated = () if node is None else tuple(_find_repeated(node))
        # The text is parsed a second time because PyYAML builds values only while it reads.
        tree: object = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        # A quote or bracket that is never closed is detected at the end of the text, but the
        # correction belongs where it was opened.
        opened = error.context_mark
        since = f" {error.context}, which begins in line {opened.line + 1}" if opened else ""
        raise YamlTextError(f"{at}{error.problem}{since}") from error
    except RecursionError as error:
        raise YamlTextError("it is nested too deeply") from error
    except YamlTextError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise YamlTextError(str(error).partition("\n")[0]) from error
    return YamlTree(tree, repeated)


def _find_repeated(root: yaml.Node) -> Iterator[RepeatedKey]:
    waiting: list[tuple[str, yaml.Node]] = [("", root)]
    looked_at = 0
    while waiting:
        place, node = waiting.pop()
        looked_at += 1
        if looked_at > NODES_MAX:
            # An alias to a node that contains itself would never end.
            raise YamlTextError(f"it has more than {NODES_MAX} values, or one that contains itself")
        if isinstance(node, yaml.SequenceNode):
            waiting += [(f"{place}[{at}]", each) for at, each in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else "?"
                path = f"{place}.{name}" if place else name
                if name in seen:
                    yield RepeatedKey(path, key.start_mark.line + 1)
                seen.add(name)
                waiting.append((path, value))
