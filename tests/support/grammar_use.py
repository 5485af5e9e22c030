"""Which productions of a grammar a text uses, recorded by the parser itself as it reduces them.

Sound for inlined and for generated productions too, which no parse tree shows: `a?` and `a*` are
several productions each, and a corpus that never leaves `a` out does not cover the grammar.
"""

from collections.abc import Callable, Hashable, Iterable

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput
from lark.grammar import Rule

from omnigraph.compiler.parser import Language
from omnigraph.compiler.parser_tables import build_parser

Children = list[Token | Tree[Token]]


def unused_productions(language: Language, texts: Iterable[str]) -> list[str]:
    """The productions of a language that no parseable text among these uses."""
    parser = build_parser(language)
    used = {production for text in texts for production in _productions_used(parser, text)}
    return [f"{rule.origin.name}: {_expand(rule)}" for rule in parser.rules if rule not in used]


def _productions_used(parser: Lark, text: str) -> set[Hashable]:
    used: set[Hashable] = set()
    parse = parser.parse_interactive(text)
    setup = parse.parser_state.parse_conf
    setup.callbacks = {rule: _record(rule, build, used) for rule, build in setup.callbacks.items()}
    try:
        parse.exhaust_lexer()
        parse.feed_token(Token("$END", ""))
    except UnexpectedInput:
        return set()
    return used


def _record(
    rule: Hashable, build: Callable[[Children], Tree[Token]], used: set[Hashable]
) -> Callable[[Children], Tree[Token]]:
    def reduce(children: Children) -> Tree[Token]:
        used.add(rule)
        return build(children)

    return reduce


def _expand(rule: Rule) -> str:
    return " ".join(symbol.name for symbol in rule.expansion) or "nothing"
