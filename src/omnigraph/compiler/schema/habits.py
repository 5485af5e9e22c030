"""Advice for those who know another schema language: what they wrote there, they write here as …

A table, in the order in which it is tried. Never decides what is refused.
"""

_REQUIRED = "a property is required unless its type ends in ?; remove this"
_LIST = "a list is written `[String]`"
_BODY = "a node type has braces, even around nothing: `node Name {}`"
_NODE = "a node type is declared as `node Name { property: Type }`"
_EDGE = "an edge type is declared as `edge Name: From -> To`"

# In each pattern ¦ marks the place of the fault; blanks in a pattern mean nothing.
HABITS = (
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
    (r"\b node \s+ \w+ \s* ¦ ((node|edge|interface) \b | $)", _BODY),
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
