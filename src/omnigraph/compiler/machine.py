"""The machine that parses: a table-driven LALR(1) automaton with a lexer that knows its state.

Grammars are worked out by lark when the package is built (`parser_tables`); here only the tables
are run, so that no process pays for a grammar compiler it does not use. In each state the lexer
looks only for the terminals that can stand there, which is what lets a property be called `order`.
Knows neither language: productions are built by methods of the caller's builder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

GRAMMARS = Path(__file__).parent / "grammar"
END = "END"
ABSENT = -1


class Language(StrEnum):
    """The languages there are, by the name of their grammar and its start production."""

    SCHEMA = "schema"
    QUERY = "query"

    @property
    def grammar(self) -> Path:
        return GRAMMARS / f"{self}.lark"

    @property
    def tables(self) -> Path:
        return GRAMMARS / f"{self}.tables"


class Token(NamedTuple):
    """A terminal that was found, and where."""

    type: str
    text: str
    start: int
    end: int


class UnexpectedTokenError(Exception):
    """The text stops following its grammar here; `accepts` are the terminals that would go on."""

    def __init__(self, *, found: Token, accepts: frozenset[str]) -> None:
        super().__init__(found)
        self.found, self.accepts = found, accepts


class Production(NamedTuple):
    """How a reduction makes one value of the last `length` ones.

    `recipe` lists the children: the position of a value and whether that value is a list whose
    elements become children, or `ABSENT` for an optional part that is not there. What a spliced
    production makes is such a list; any other is made by the builder's method of its name.
    """

    name: str
    origin: str
    length: int
    recipe: tuple[tuple[int, bool], ...]
    is_spliced: bool


@dataclass(frozen=True, slots=True)
class Tables:
    """A grammar, worked out.

    Terminals are in the order in which a lexer tries them. A state's action on a terminal is the
    state to shift to, or the complement (`~`) of the production to reduce by.
    """

    terminals: dict[str, str]
    ignored: str
    productions: tuple[Production, ...]
    actions: tuple[dict[str, int], ...]
    gotos: tuple[dict[str, int], ...]
    start: int
    end: int


Scan = Callable[[str, int], re.Match[str] | None]


@cache
def machine_of(language: Language) -> Machine:
    """The machine of a language; made once in a process."""
    return Machine(decode_tables(language.tables.read_text(encoding="utf-8")))


class Machine:
    """One language's automaton. Keeps nothing of a parse, so threads may share it."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._scan_by_state: list[Scan | None] = [None] * len(tables.actions)
        self._scan_by_terminals: dict[frozenset[str], Scan] = {}

    def run(self, text: str, builder: object) -> object:
        """What the builder makes of a text; `UnexpectedTokenError` where it breaks the grammar."""
        actions, gotos = self._tables.actions, self._tables.gotos
        productions, end = self._tables.productions, self._tables.end
        states: list[int] = [self._tables.start]
        values: list[object] = []
        position = 0
        while True:
            token = self._next_token(text, position, states)
            action = actions[states[-1]].get(token.type)
            while action is not None and action < 0:
                production = productions[~action]
                first = len(values) - production.length
                values[first:] = (_make(production, values[first:], builder),)
                del states[first + 1 :]
                states.append(gotos[states[-1]][production.origin])
                if states[-1] == end and token.type == END:
                    return values[-1]
                action = actions[states[-1]].get(token.type)
                if action is None:
                    # The state before the reductions knew more terminals than can stand here: a
                    # word that was read as a keyword may be a name after all.
                    token = self._next_token(text, position, states)
                    action = actions[states[-1]].get(token.type)
            if action is None:
                raise UnexpectedTokenError(found=token, accepts=self._accepts(states))
            values.append(token)
            states.append(action)
            position = token.end

    def _next_token(self, text: str, position: int, states: Sequence[int]) -> Token:
        scan = self._scan_by_state[states[-1]]
        if scan is None:
            scan = self._scan_for(frozenset(self._tables.actions[states[-1]]))
            self._scan_by_state[states[-1]] = scan
        found = scan(text, position)
        return self._any_token(text, position) if found is None else _token_of(found)

    def _any_token(self, text: str, position: int) -> Token:
        """Whatever stands here, although it cannot: a terminal of another state, or a character."""
        found = self._scan_for(frozenset(self._tables.terminals))(text, position)
        if found is not None:
            return _token_of(found)
        skipped = re.compile(self._tables.ignored).match(text, position)
        start = position if skipped is None else skipped.end()
        return Token("", text[start : start + 1], start, start + 1)

    def _scan_for(self, terminals: frozenset[str]) -> Scan:
        """A function that finds the next of some terminals, after what is ignored."""
        scan = self._scan_by_terminals.get(terminals)
        if scan is None:
            wanted = [
                f"(?P<{name}>{pattern})"
                for name, pattern in self._tables.terminals.items()
                if name in terminals
            ]
            pattern = rf"{self._tables.ignored}(?:{'|'.join(wanted)}|(?P<{END}>\Z))"
            scan = self._scan_by_terminals[terminals] = re.compile(pattern).match
        return scan

    def _accepts(self, states: Sequence[int]) -> frozenset[str]:
        """The terminals that a shift would follow, some after reductions."""
        return frozenset(
            terminal
            for terminal in self._tables.actions[states[-1]]
            if self._is_accepted(terminal, list(states))
        )

    def _is_accepted(self, terminal: str, states: list[int]) -> bool:
        while (action := self._tables.actions[states[-1]].get(terminal)) is not None:
            if action >= 0:
                return True
            production = self._tables.productions[~action]
            del states[len(states) - production.length :]
            states.append(self._tables.gotos[states[-1]][production.origin])
            if states[-1] == self._tables.end and terminal == END:
                return True
        return False


def _token_of(found: re.Match[str]) -> Token:
    """The terminal whose group matched; patterns have no groups but those of the terminals."""
    kind, number = found.lastgroup, found.lastindex
    assert kind is not None
    assert number is not None
    return Token(kind, found[number], *found.span(number))


def _make(production: Production, values: Sequence[object], builder: object) -> object:
    children: list[object] = []
    for position, is_list in production.recipe:
        if position == ABSENT:
            children.append(None)
        elif not is_list:
            children.append(values[position])
        else:
            elements = values[position]
            assert isinstance(elements, list)
            if children:
                children += elements
            else:
                # Nobody else holds the list, and copying it at each step would be quadratic.
                children = elements
    if production.is_spliced:
        return children
    return getattr(builder, production.name)(*children)


def encode_tables(tables: Tables) -> str:
    """Tables as the text that is stored beside a grammar."""
    return json.dumps([getattr(tables, name) for name in Tables.__slots__])


def decode_tables(text: str) -> Tables:
    """The inverse of `encode_tables`."""
    terminals, ignored, productions, actions, gotos, start, end = json.loads(text)
    return Tables(
        terminals,
        ignored,
        tuple(
            Production(name, origin, length, tuple((at, deep) for at, deep in recipe), is_spliced)
            for name, origin, length, recipe, is_spliced in productions
        ),
        tuple(actions),
        tuple(gotos),
        start,
        end,
    )
