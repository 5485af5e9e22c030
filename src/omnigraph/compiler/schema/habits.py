"""Advice for those who know another schema language: what they wrote there, they write here as …

Looks only at a refused text around the place of the fault. Never decides what is refused.
"""

import re
from dataclasses import replace

from omnigraph.model.errors import CompileError
from omnigraph.model.source import Diagnostic

_REQUIRED = "a property is required unless its type ends in ?; remove this"
_LIST = "a list is written `[String]`"
_BODY = "a node type has braces, even around nothing: `node Name {}`"
_NODE = "a node type is declared as `node Name { property: Type }`"
_EDGE = "an edge type is declared as `edge Name: From -> To`"

# In each pattern ¦ marks the place of the fault; blanks in a pattern mean nothing.
_HABITS = tuple(
    (re.compile(pattern, re.VERBOSE | re.IGNORECASE), advice)
    for pattern, advice in (
        (r"\.\. ¦ \*", "for no maximum write nothing: `@card(0..)`"),
        (r"\b enum \s* \( [^)]* ¦ [\"']", "enum values take no quotes: `enum(open, closed)`"),
        (r"\b enum \s* \( [^)]* ¦ [|/]", "enum values are separated by commas"),
        (r"\b enum \s* \( \s* ¦ \)", "an enum has at least one value: `enum(open, closed)`"),
        (r"\[ \s* (enum|Vector) ¦ \(", "a list holds plain values: no enums, no vectors"),
        (r"\[ \s* ¦ \[", "a list holds plain values: no lists"),
        (r"\[ \s* \w+ \s* ¦ \?", "only the whole list may be null: `[String]?`"),
        (r"\b (List|Array|Set) ¦ <", _LIST),
        (r"\w ¦ \[ \s* \]", _LIST),
        (r"\? \s* ¦ \?", "one ? is enough"),
        (r"\b\w+ \s* ¦ \? \s* :", "the ? stands behind the type: `name: String?`"),
        (r"¦ (NOT|NULL|REQUIRED) \b", _REQUIRED),
        (r"[\w\])] ¦ !", _REQUIRED),
        (r": \s* [\w\[\]()?]+ \s* ¦ =(?!=)", "there are no default values; remove it"),
        (r"\{ [^{}:]* \b\w+ \s+ ¦ \w", "name and type are separated by a colon: `name: String`"),
        (r": \s* ¦ \}", "the property has no type; write `name: String`"),
        (r": \s* [a-z_]\w* ¦ \s* :", "the property before has no type; write `name: String`"),
        (r"\b node \s+ \w+ \s* ¦ (extends \b | :)", "write `implements` and the interfaces"),
        (r"\b node \s+ \w+ \s* ¦ \(", _NODE),
        (r"\b node \s+ \w+ \s* ¦ (node|edge|interface) \b", _BODY),
        (r"\b implements \b [^{]* ¦ @", "annotations stand before `implements`"),
        (r"\b edge \s+ \w+ \s* ¦ (\( | \{ | ->)", _EDGE),
        (r"\b edge \s+ \w+ \s* : \s* \w+ \s* ¦ (, | <?-+ | =>)", _EDGE),
        (r"\b interface \s+ \w+ \s* ¦", "an interface has a name and a body, nothing else"),
        (r"\b interface \s+ \w+ \s* \{ \s* ¦ @", "an interface takes no constraints"),
        (r"¦ --", "comments start with //"),
        (r"¦ enum \b", "an enum is written where it is used: `status: enum(open, closed)`"),
        (r"¦ query \b", "queries stand in a file of their own, which ends in .gq"),
        (r"¦ (relationship|relation|rel|link) \b", _EDGE),
        (r"¦ (type|class|table|create|struct|entity|vertex|model) \b", _NODE),
        (r"(^|\}) \s* ¦ (\{ | \w+ \s* :)", _NODE),
        (r"(^|\}) \s* ¦ \}", "this } closes nothing; remove it"),
    )
)
_BEFORE_MAX = 200
_AFTER_MAX = 40


def advise_on_habits(error: CompileError) -> CompileError:
    """The same refusal, with advice where the writer seems to think in another language."""
    faults = [replace(each, suggestion=_advise(each, error)) for each in error.diagnostics]
    return CompileError(diagnostics=faults, source=error.source)


def _advise(fault: Diagnostic, error: CompileError) -> str | None:
    text, span = error.source.text, fault.span
    if fault.code != "P1" or span is None:
        return fault.suggestion
    if fault.message.endswith("found the end of the text"):
        return fault.suggestion or _advise_at_end(text)
    start = max(0, span.start - _BEFORE_MAX)
    before = f"{'…' if start else ''}{text[start : span.start]}"
    place = f"{before}¦{text[span.start : span.start + _AFTER_MAX]}"
    matching = (advice for pattern, advice in _HABITS if pattern.search(place))
    return next(matching, fault.suggestion)


def _advise_at_end(text: str) -> str | None:
    if re.search(r"\bnode\s+\w+\s*$", text):
        return _BODY
    return "a `}` is missing" if text.count("{") > text.count("}") else None
