"""The peer that we are compared with: lark's own parser, from our grammar files.

It stops at a parse tree: no positions for messages, no types, no plan. What we need beyond its
time is the price of everything else that compiling means.
"""

from lark import Lark

from omnigraph.compiler.parser import Language


def lark_parser(language: Language) -> Lark:
    """Lark's parser of a language."""
    grammar = language.grammar.read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", start=str(language), maybe_placeholders=True)
