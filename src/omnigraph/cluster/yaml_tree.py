"""A YAML text as a tree of plain values, with every key that is written twice.

Reads no tags but YAML's own. Knows nothing of what the keys mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from omnigraph.cluster.limits import NODES_MAX


@dataclass(frozen=True, slots=True)
class RepeatedKey:
    """A key that a mapping has twice, and the line of the second."""

    path: str
    line: int


@dataclass(frozen=True, slots=True)
class YamlTree:
    """What a text holds; where a key is repeated the last one counts, so nobody should go on."""

    content: object
    repeated: tuple[RepeatedKey, ...]


class YamlTextError(ValueError):
    """The text is no YAML, or none that could be checked."""


def read_yaml_tree(content: bytes) -> YamlTree:
    """The tree that a text holds."""
    try:
        node = yaml.compose(content, Loader=yaml.SafeLoader)
        repeated = () if node is None else tuple(_find_repeated(node))
        # Once more from the start, because nodes are turned into values by reading only.
        tree: object = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        # A quote or bracket that is never closed is found out at the end, and mended where it is.
        opened = error.context_mark
        since = f" {error.context}, which begins in line {opened.line + 1}" if opened else ""
        raise YamlTextError(f"{at}{error.problem}{since}") from error
    except RecursionError as error:
        raise YamlTextError("it is nested too deep") from error
    except YamlTextError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise YamlTextError(str(error).partition("\n")[0]) from error
    return YamlTree(tree, repeated)


def _find_repeated(root: yaml.Node) -> Iterator[RepeatedKey]:
    waiting: list[tuple[str, yaml.Node]] = [("", root)]
    looked_at = 0
    while waiting:
        place, node = waiting.pop()
        looked_at += 1
        if looked_at > NODES_MAX:
            # An alias of something that holds itself would never end.
            raise YamlTextError(f"it has more than {NODES_MAX} values, or one that holds itself")
        if isinstance(node, yaml.SequenceNode):
            waiting += [(f"{place}[{at}]", each) for at, each in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else "?"
                path = f"{place}.{name}" if place else name
                if name in seen:
                    yield RepeatedKey(path, key.start_mark.line + 1)
                seen.add(name)
                waiting.append((path, value))
