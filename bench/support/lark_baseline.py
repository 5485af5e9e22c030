"""The baseline of the compiler: lark's own parser with the same grammar files.

It stops at a parse tree, without source positions, types or a plan. The time beyond this baseline
is the cost of the other compiler stages.
"""

from lark import Lark

from omnigraph.compiler.parser import Language


def lark_parser(language: Language) -> Lark:
    """Return lark's parser of a language."""
    grammar = language.grammar.read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", start=str(language), maybe_placeholders=True)
