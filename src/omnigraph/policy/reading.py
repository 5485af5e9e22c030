"""Reading what people write into policy files: YAML, fields by name, and all mistakes at once.

Each mistake is kept with its place, so that somebody who mends a file is told everything in one go.
Does not know what the fields are for.
"""

from __future__ import annotations

import reprlib
from collections.abc import Hashable, Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import yaml

from omnigraph.model.errors import InvalidValueError, LimitExceededError, UnreadableError
from omnigraph.model.limits import POLICY_BYTES_MAX
from omnigraph.model.names import find_near_name

# Near enough to be a slip of the pen, far enough to leave other words alone.
_SLIP = 0.8

Word = TypeVar("Word", bound=StrEnum)


class Problems:
    """What is wrong with a file, and what in it means nothing."""

    def __init__(self, name: str, *, expected: str) -> None:
        self._name, self._expected = name, expected
        self._found: list[str] = []
        self.warnings: list[str] = []

    def add(self, place: str, problem: str) -> None:
        """Keep a mistake."""
        self._found.append(f"{place}: {problem}" if place else problem)

    def warn(self, place: str, problem: str) -> None:
        """Keep something that is no mistake and that its writer should know."""
        self.warnings.append(f"{place}: {problem}")

    def require_none(self) -> None:
        """Raise if there was a mistake, and tell all of them."""
        if self._found:
            raise InvalidValueError(
                subject=self._name,
                expected=self._expected,
                value=tuple(self._found),
                problem="; ".join(self._found),
            )

    def fields(self, place: str, given: object) -> Fields | None:
        """What is given as fields by name; None, and a mistake, if it is anything else."""
        if not isinstance(given, Mapping):
            self.add(place, f"fields are needed here, as `name: value`, not {_kind(given)}")
            return None
        odd = [key for key in given if not isinstance(key, str)]
        for key in odd:
            self.add(place, f"the name {reprlib.repr(key)} is {_kind(key)}; write it in quotes")
        named = {key: given[key] for key in given if isinstance(key, str)}
        return Fields(self, place, named)

    def parse_name(self, place: str, given: object) -> str | None:
        """A name without the blanks around it; None, and a mistake, if it is none."""
        if not isinstance(given, str):
            self.add(
                place,
                f"{reprlib.repr(given)} is {_kind(given)}; a name is needed, in quotes",
            )
            return None
        name = given.strip()
        if not name:
            self.add(place, "a name is blank; write one, or take the entry out")
            return None
        if not name.isprintable():
            self.add(place, f"the name {name!r} holds characters that cannot be printed")
            return None
        return name

    def parse_word(self, place: str, given: object, words: type[Word]) -> Word | None:
        """One of some words; None, and a mistake, if it is none of them."""
        if isinstance(given, str) and given in tuple(words):
            return words(given)
        near = find_near_name(given, words) if isinstance(given, str) else None
        advice = f"did you mean `{near}`?" if near else f"write one of {list_words(words)}"
        self.add(place, f"{reprlib.repr(given)} is unknown; {advice}")
        return None


class Fields:
    """Fields by name at a place in a file; what is asked for and wrong becomes a mistake."""

    def __init__(self, problems: Problems, place: str, given: Mapping[str, object]) -> None:
        self._given = given
        self.problems = problems
        self.place = place

    @property
    def keys(self) -> tuple[str, ...]:
        """The names, in the order in which they are written."""
        return tuple(self._given)

    def place_of(self, key: str) -> str:
        """Where a field is."""
        return f"{self.place}.{key}" if self.place else key

    def find(self, key: str) -> object:
        """What a field holds; None if it is not there, or holds nothing."""
        return self._given.get(key)

    def add(self, key: str, problem: str) -> None:
        """Keep a mistake in a field."""
        self.problems.add(self.place_of(key), problem)

    def require_version(self) -> None:
        """Have a file be one of the only version there is."""
        version = self._given.get("version")
        if isinstance(version, bool) or version != 1:
            said = "is missing" if version is None else f"{reprlib.repr(version)} is unknown"
            self.add("version", f"{said}; write `version: 1`")

    def expect(self, *known: str) -> None:
        """Warn of other names than these; one that is nearly one of them is a mistake."""
        for key in self._given:
            if key in known:
                continue
            near = get_close_matches(key, known, n=1, cutoff=_SLIP)
            if near:
                self.add(key, f"unknown; did you mean `{near[0]}`?")
            else:
                self.problems.warn(self.place_of(key), "unknown, and ignored")

    def allow_only(self, *known: str) -> None:
        """Have other names than these be mistakes: ignoring one could allow more than is meant."""
        for key in self._given:
            if key not in known:
                self.add(key, f"unknown; here are only {list_words(known)}")

    def within(self, key: str) -> Fields | None:
        """The fields that a field holds."""
        return self.problems.fields(self.place_of(key), self._given.get(key))

    def entries(self, key: str) -> tuple[tuple[str, object], ...] | None:
        """The entries of a list, each with its place; none if the field is not there."""
        given = self._given.get(key)
        if given is None:
            return ()
        if not isinstance(given, list | tuple):
            self.add(key, f"a list is needed, not {_kind(given)}")
            return None
        return tuple((f"{self.place_of(key)}[{at}]", each) for at, each in enumerate(given))

    def names(self, key: str) -> tuple[str, ...] | None:
        """The names of a list; None, and mistakes, if it is anything else."""
        entries = self.entries(key)
        if entries is None:
            return None
        names = [self.problems.parse_name(place, each) for place, each in entries]
        return tuple(name for name in names if name is not None) if all(names) else None

    def name(self, key: str) -> str | None:
        """The name that a field holds."""
        if key not in self._given:
            self.problems.add(self.place, f"`{key}` is missing")
            return None
        return self.problems.parse_name(self.place_of(key), self._given[key])


def list_words(words: Iterable[str]) -> str:
    """Words as a message lists them."""
    return ", ".join(f"`{each}`" for each in words)


def read_policy_file(path: Path) -> bytes:
    """The content of a file of a policy."""
    try:
        with path.open("rb") as file:
            content = file.read(POLICY_BYTES_MAX + 1)
    except OSError as error:
        raise UnreadableError(path=str(path), reason=error.strerror or str(error)) from error
    return content


def read_yaml(text: str | bytes, name: str) -> object:
    """What a YAML text holds; a key that is there twice is refused."""
    size = len(text)
    if size > POLICY_BYTES_MAX:
        raise LimitExceededError(resource=f"the size of {name}", limit=POLICY_BYTES_MAX, found=size)
    try:
        content: object = yaml.load(text, Loader=_OnceLoader)
    except yaml.MarkedYAMLError as error:
        at = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise _no_yaml(name, f"{at}{error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # PyYAML lets out what its readers of numbers and dates raise, and nests as deep as a text.
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise _no_yaml(name, reason) from error
    return content


class _OnceLoader(yaml.SafeLoader):
    """Reads plain values only, and every key once."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002  # PyYAML's
    ) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"`{key.value}` is there twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


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
