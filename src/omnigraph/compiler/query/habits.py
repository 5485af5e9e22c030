"""Advice for those who know another query language: what they wrote there, they write here as …

A table, in the order in which it is tried. Never decides what is refused.
"""

_DOLLAR = "variables start with a dollar: `$p`"
_BODY = "a query is written `query name() { … }`"
_WALK = "a node is bound by `$p: Type`, an edge is followed by `$p knows $f`"
_CLAUSE = "conditions are clauses of `match { … }`, like `$p.age > 3`"
_BOUNDS = "bounds are written `{min,max}`: `knows{1,3}`"
_NEGATION = "a negation has braces: `not { … }`"
_RETURN = "what is returned stands in braces: `return { $p.name }`"
_ORDER = "the order stands in braces: `order { $p.name desc }`"
_INSERT = "write `insert Type { property: value }`"
_UPDATE = "write `update Type set { property: value } where property = value`"
_DELETE = "write `delete Type where property = value`"
_WHICH = "say which: `where property = value`"
_COLON = "a colon stands between property and value: `name: value`"
_COMMA = "remove the comma before it"

_HEAD = r"\b query \s+ \w+ \s* \("
_BINDING = r": \s* \w+ \s* \{"
_ASSIGNING = r"( : \s* \w+ | \b insert \s+ \w+ | \b set ) \s* \{"
_AFTER_MATCH = r"\b match \b (?: (?! \b return \b ) [^¦] )* \} \s*"
_MUTATION_WHERE = r"( \} | \b delete \s+ \w+ ) \s* where \b [^{}]*"
_TOP = r"( ^ | \} ) \s*"
_EDGE = r"\$\w+ \s+ ( \$\w+ \s* : \s* )? <? [a-z_]\w* >? ( \s* \{ [^{}]* \} )?"

# In each pattern ¦ marks the place of the fault; blanks in a pattern mean nothing.
HABITS = (
    # The head of a query
    (_HEAD + r"[^{}]* , \s* ¦ \)", _COMMA),
    (_HEAD + r"( [^{}]* , )? \s* ¦ \w", "parameters start with a dollar: `$name: String`"),
    (_HEAD + r"[^{}]* \$\w+ \s* ¦ [,)]", "a parameter has a type: `$name: String`"),
    (_HEAD + r"[^{}]* : \s* \[? \s* ¦ enum \b", "an enum is passed as a text: `$name: String`"),
    (_HEAD + r"[^{}]* ¦ =", "parameters have no default values; `String?` may be left out"),
    (_HEAD + r"[^{}]* \[ \s* \w+ \s* ¦ \?", "only the whole list may be null: `[String]?`"),
    (_HEAD + r"[^{}]* \[ \s* Vector \s* ¦ \(", "a list of vectors cannot be passed"),
    (_HEAD + r"[^{}]* [\w)\]?] \s* ¦ \$", "parameters are separated by commas"),
    (r"\b query \s+ \w+ \s* ¦ [{:]", "parentheses are needed, even around nothing: `query name()`"),
    (r"@ \s* \w+ \s* ¦ \{", 'an annotation holds a text: `@description("…")`'),
    (r"\) \s* ¦ ( -> | : | returns? \b )", "a query declares no result type; remove it"),
    (r"\) \s* ¦ ( match | insert | update | delete ) \b", _BODY),
    # Reading and writing at once
    (
        r"( \b insert \s+ \w+ | \b set ) \s* \{ [^{}]* \} \s* ¦ ( match | return | returning ) \b",
        "a query reads or writes, never both",
    ),
    (_AFTER_MATCH + r"¦ ( delete | remove | detach ) \b", _DELETE),
    (_AFTER_MATCH + r"¦ ( set | update ) \b", _UPDATE),
    (_AFTER_MATCH + r"¦ ( insert | create | merge ) \b", _INSERT),
    (_AFTER_MATCH + r"¦ \}", "a read returns something: `return { $p.name }`"),
    (_AFTER_MATCH + r"¦ match \b", "all clauses stand in one `match { … }`"),
    (r"\b return \b [^{}]* \{ [^{}]* \} \s* ¦ return \b", "a read has one `return { … }`"),
    # Mutations
    (r"\b insert \s+ ¦ into \b", _INSERT),
    (r"\b insert \s+ \w+ \s* ¦ ( \( | values \b | set \b )", _INSERT),
    (
        r"\b insert \s+ \w+ \s* \{ [^{}]* \} \s* ¦ where \b",
        "an insert has no condition; " + _UPDATE,
    ),
    (r"\b delete \s+ ¦ ( from \b | \$ )", _DELETE),
    (r"\b update \s+ \w+ \s* ( set \s+ )? ¦ [{\w]", _UPDATE),
    (r"( \b delete \s+ \w+ | \b set \s* \{ [^{}]* \} ) \s* ¦", _WHICH),
    (_MUTATION_WHERE + r"¦ \$", "a mutation names its properties alone: `where name = value`"),
    (
        _MUTATION_WHERE + r"¦ ( contains | starts_with ) \b",
        "a mutation compares with =, !=, <, <=, >, >= or in",
    ),
    (_ASSIGNING + r"( [^{}]* , )? \s* ¦ \"", "property names take no quotes: `name: value`"),
    (_ASSIGNING + r"[^{}]* \w \s* ¦ [=\"$\d]", _COLON),
    (
        _BINDING + r"[^{}]* \w \s* ¦ ( [<>!] | in \b | contains \b )",
        "braces hold equalities; other conditions are clauses, like `$p.age > 3`",
    ),
    (_BINDING + r"[^{}]* : [^{},]* ¦ \w", "the conditions in braces are separated by commas"),
    # What comes after the pattern
    (
        r"\b return \s* (distinct \s*)? \{ [^{}]* \w \s* ¦ :",
        "an alias stands behind: `$p.name as n`",
    ),
    (r"\b return \s* (distinct \s*)? \{ [^{}]* ¦ \*", "name what is returned: `$p.name, $p.age`"),
    (r"\b return \s* ¦ \{", "a } is missing before `return`"),
    (r"\b return \s* (distinct \s*)? ¦", _RETURN),
    (r"\b limit \s+ \S+ \s+ ( offset \s+ \S+ \s+ )? ¦ order \b", "`order` stands before `limit`"),
    (r"\b limit \s+ \w+ \s* ¦ ,", "write `limit 20 offset 10`"),
    (r"\b (limit|offset) \s+ \d+ ¦", "the number of rows is a whole number"),
    (r"\b (limit|offset) \s+ ¦", "the number of rows is a whole number or a parameter"),
    (r"\b order \s* ¦", _ORDER),
    (r"¦ order \b", _ORDER),
    (r"¦ ( a | de ) scending \b", "write `asc` or `desc`"),
    (r"¦ skip \b", "write `offset 10`"),
    (
        r"¦ ( group | having ) \b",
        "rows are grouped by what stands beside an aggregate: `return { $p.city, count($p) as n }`",
    ),
    # Clauses
    (_AFTER_MATCH + r"¦ where \b", _CLAUSE),
    (r"\b where \s* ¦", _CLAUSE + "; remove `where`"),
    (r"\( \s* \w* \s* ¦ :", _WALK),
    (r"\$\w+ \s* <? \s* ¦ -", _WALK),
    (r"\b match \s* ¦ \(", _WALK),
    (r"¦ --", "comments start with //"),
    (r"\b match \s* ¦", "clauses stand in braces: `match { … }`"),
    (r"[{\s] [a-z_]\w* \s* ¦ : \s* (?-i:[A-Z])", _DOLLAR),
    (
        r"\$\w+ \. \w+ ¦ \.",
        "follow the edge in a clause of its own: `$p worksAt $c`, then `$c.name`",
    ),
    (r"\$\w+ ¦ \.", "name a property: `$p.name`"),
    (r"[a-z_]\w* ¦ \. \s* [a-z_]", _DOLLAR),
    (
        r"\$\w+ \s+ ¦ (?-i:[A-Z]\w*) \b (?! \s* ( \$ | \{ \s* \d ) )",
        "a colon is missing: `$p: Type`",
    ),
    (r"\$\w+ \. \w+ \s+ ¦ \$", "an edge is followed without a dot: `$p knows $f`"),
    (_EDGE + r"\s* ¦ \*", _BOUNDS),
    (r"\w \s* \{ \s* -?\d+ \s* ¦ [.}]", _BOUNDS),
    (
        _EDGE + r"\s* \$\w+ \s* ¦ [:{]",
        "a variable is bound in a clause of its own: `$f: Type { … }`",
    ),
    (_EDGE + r"\s+ ¦ [a-z_]", "the other end is a variable: `$f`"),
    (_EDGE + r"\s* ¦ \}", "the other end is missing; write `$_` if it does not matter"),
    (r": \s* \w+ \s* ¦ \|", "a variable is bound to one type"),
    (r"\b exists \s* ¦ \{", "a pattern that must exist is written as plain clauses"),
    (r"¦ not \s+ \w", "a negation has braces: `not { $p.age in [1, 2] }`"),
    (r"\b not \s* ¦", _NEGATION),
    (r"¦ between \b", "write `$p.age >= 18 and $p.age <= 65`"),
    (r"¦ ( i?like \b | ~ )", 'write `$p.name contains "x"` or `starts_with "x"`'),
    (r"\b in \s* ¦ \(", "a list is written in square brackets: `[1, 2]`"),
    (r"\b is \s+ ¦", "`is` asks for null only: `is null`, `is not null`; equality is `=`"),
    (r"\[ [^\[\]]* ¦ \$", "a list holds literals; pass a list as a parameter: `$names: [String]`"),
    (r"[\w)] \s* ¦ [-+*/%]", "there is no arithmetic; pass the result as a parameter"),
    (r", \s* ¦ [})\]]", _COMMA),
    (r"¦ \$ (?-i:[A-Z])", "variables start with a small letter: `$p`"),
    (r"¦ [?@:] \w", _DOLLAR),
    (
        r"[{\s] [a-z_]\w* \s+ ¦ \$\w+ \b (?! \s* [.:] )",
        "an edge stands between two variables: `$p knows $f`",
    ),
    # Around and between queries
    (r"¦ select \b", "a read is written `query name() { match { $p: Type } return { $p.name } }`"),
    (
        _TOP + r"¦ ( node | edge | interface ) \b",
        "a schema stands in a file of its own, ending in .pg",
    ),
    (_TOP + r"¦ \}", "this } closes nothing; remove it"),
    (_TOP + r"¦ \w", _BODY),
    (r"\{ \s* ¦ ( create | merge | upsert | add ) \b", _INSERT),
    (
        r"\) [^{}]* \{ \s* ¦ (?! ( match | insert | update | delete ) \b )",
        "a query starts with `match`, `insert`, `update` or `delete`",
    ),
)
