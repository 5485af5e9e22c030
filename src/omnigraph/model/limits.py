"""Every bound of the system, each with the reason for its size.

A bound that is not here does not exist: no other module compares with a literal maximum.
"""

SOURCE_CHARACTERS_MAX = 2 * 1024 * 1024
"""Longest `.pg` or `.gq` text: a thousand queries are a third of a megabyte."""

NESTING_MAX = 100
"""Deepest bracket nesting: people stop at five, and the compiler recurses."""

BLOCK_NESTING_MAX = 16
"""Deepest nesting of `not` and `optional` blocks: each level is looked through by those around."""

NAME_CHARACTERS_MAX = 255
"""Longest name of anything: names become columns and are hashed with each property."""

PROPERTIES_MAX = 200_000
"""Most properties of a schema, inherited ones counted wherever they are inherited."""

DIAGNOSTICS_MAX = 50
"""Most diagnostics of one compilation. Nobody reads further, and near names cost a search each."""

NEAR_NAME_CANDIDATES_MAX = 2_000
"""Most names searched for a near one: above it the search outlasts the compilation."""

VECTOR_DIMENSION_MAX = 2**31 - 1
"""Largest `Vector(n)`: Arrow counts the elements of a fixed-size list in 32 bits."""

CARDINALITY_MAX = 2**32 - 1
"""Largest bound in `@card`: the stored form is an unsigned 32-bit number."""

PATTERN_REPETITION_MAX = 1_000
"""Largest `{n}` in a `@check` pattern: linear-time engines expand repetitions and refuse more."""

PATTERN_CHARACTERS_MAX = 1_000
"""Longest `@check` pattern: people stop at a hundred, and every write compiles it."""
