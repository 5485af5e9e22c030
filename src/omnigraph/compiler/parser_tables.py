"""Parser tables from grammar files, worked out by lark when the package is built.

The only module that imports lark; at run time nothing imports it. Relies on the attributes under
which lark 1.3 keeps a finished parser, which a test of the machine against lark itself pins.
"""

from __future__ import annotations

import re

from lark import Lark
from lark.grammar import Rule, Symbol, Terminal
from lark.lexer import PatternStr, TerminalDef
from lark.parsers.lalr_analysis import IntParseTable

from omnigraph.compiler.machine import ABSENT, END, Language, Production, Tables, encode_tables

_LARK_END = "$END"


def write_tables() -> None:
    """Store every language's tables beside its grammar."""
    for language in Language:
        language.tables.write_text(encode_tables(build_tables(language)), encoding="utf-8")


def build_parser(language: Language) -> Lark:
    """Lark's own parser of a language: where our tables come from."""
    grammar = language.grammar.read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", start=str(language), maybe_placeholders=True)


def build_tables(language: Language) -> Tables:
    """A grammar's tables."""
    parser = build_parser(language)
    automaton: IntParseTable = parser.parser.parser.parser.parse_table
    numbers = {rule: number for number, rule in enumerate(parser.rules)}
    origins = {rule.origin.name for rule in parser.rules}
    actions: list[dict[str, int]] = [{} for _ in automaton.states]
    gotos: list[dict[str, int]] = [{} for _ in automaton.states]
    for state, moves in automaton.states.items():
        for symbol, (_, target) in moves.items():
            if symbol in origins:
                gotos[state][symbol] = target
            else:
                name = END if symbol == _LARK_END else symbol
                actions[state][name] = ~numbers[target] if isinstance(target, Rule) else target
    return Tables(
        _order_terminals(parser),
        _ignored_pattern(parser),
        tuple(_describe_production(rule) for rule in parser.rules),
        tuple(actions),
        tuple(gotos),
        automaton.start_states[language],
        automaton.end_states[language],
    )


def _order_terminals(parser: Lark) -> dict[str, str]:
    """Patterns by terminal: first the higher priority, then what can match more."""
    wanted = [each for each in parser.terminals if each.name not in parser.ignore_tokens]
    _require_distinct(wanted)
    wanted.sort(
        key=lambda each: (
            -each.priority,
            -each.pattern.max_width,
            -len(each.pattern.value),
            each.name,
        )
    )
    return {each.name: each.pattern.to_regexp() for each in wanted}


def _require_distinct(terminals: list[TerminalDef]) -> None:
    # The machine tells terminals apart by the group that matched.
    patterns = [re.compile(each.pattern.to_regexp()) for each in terminals]
    assert not any(pattern.groups for pattern in patterns), "write groups as (?:…)"
    # Lark would read such a sign as the word it spells; the machine would not.
    signs = [each for each in terminals if isinstance(each.pattern, PatternStr)]
    assert all(not each.pattern.value.isalnum() for each in signs), "write words as patterns"


def _ignored_pattern(parser: Lark) -> str:
    ignored = [each for each in parser.terminals if each.name in parser.ignore_tokens]
    return f"(?:{'|'.join(each.pattern.to_regexp() for each in ignored)})*+"


def _describe_production(rule: Rule) -> Production:
    recipe: list[tuple[int, bool]] = []
    position = 0
    # Lark marks the optional parts that are absent from a rule by `True`, in their place.
    for is_absent in rule.options.empty_indices or [False] * len(rule.expansion):
        if is_absent:
            recipe.append((ABSENT, False))
            continue
        symbol = rule.expansion[position]
        if not (isinstance(symbol, Terminal) and symbol.filter_out):
            recipe.append((position, _is_spliced(symbol)))
        position += 1
    return Production(
        rule.alias or rule.origin.name,
        rule.origin.name,
        len(rule.expansion),
        tuple(recipe),
        _is_spliced(rule.origin),
    )


def _is_spliced(symbol: Symbol) -> bool:
    return not symbol.is_term and symbol.name.startswith("_")
