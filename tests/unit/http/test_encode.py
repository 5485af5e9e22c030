"""Which lines of an export count, by names of types and by keys."""

from __future__ import annotations

import pytest

from omnigraph.http.encode import select_lines
from omnigraph.model.errors import InvalidValueError

NODE = '{"type":"Likes","data":{}}'
EDGE = '{"edge":"Likes","from":"a","to":"b"}'
OTHER = '{"type":"LikesMore","data":{}}'


def cached_names(type_names: list[str], table_keys: list[str]) -> list[str]:
    return list(select_lines(type_names, table_keys).keep(iter([NODE, EDGE, OTHER])))


def test_nothing_named_is_everything() -> None:
    assert select_lines([], []).types is None
    assert cached_names([], []) == [NODE, EDGE, OTHER]


def test_a_name_is_of_both_kinds_and_a_key_of_one() -> None:
    assert cached_names([], ["node:Likes"]) == [NODE]
    assert cached_names([], ["edge:Likes"]) == [EDGE]
    assert cached_names(["LikesMore"], ["edge:Likes"]) == [EDGE, OTHER]


def test_a_type_is_selected_once() -> None:
    assert select_lines(["Likes"], ["node:Likes", "edge:Likes"]).types == ("Likes",)


@pytest.mark.parametrize("key", ["Likes", "node:", "table:Likes", ""])
def test_a_key_without_its_kind_is_refused(key: str) -> None:
    with pytest.raises(InvalidValueError, match="node:Name or edge:Name"):
        select_lines([], [key])
