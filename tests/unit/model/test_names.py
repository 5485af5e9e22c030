"""Identifiers, branch and tag names, FNV hashes, checks of names given by callers."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.model.errors import InvalidNameError, Outcome
from omnigraph.model.names import (
    MAIN,
    find_near_name,
    fnv1a_32,
    fold_edge_name,
    is_commit_id_like,
    is_internal_branch,
    make_private_branch_name,
    parse_branch_name,
    parse_tag_name,
)
from omnigraph.model.runtime import SystemRuntime


@pytest.mark.parametrize(
    "name",
    [
        "main",
        "draft",
        "team/feature-1",
        "a/b/c",
        "v1.0",
        "_x",
        "-x",
        ".hidden",
        "0",
        "UPPER",
        "x" * 200,
        "main/x",
        "__other_lock__",
        "feature/__schema_apply_lock__",
    ],
)
def test_a_name_of_allowed_parts_is_a_branch(name: str) -> None:
    assert parse_branch_name(name) == name


@pytest.mark.parametrize("text", ["draft ", " draft", "\tdraft\n"])
def test_blanks_around_a_name_do_not_count(text: str) -> None:
    assert parse_branch_name(text) == "draft"


def test_main_is_a_branch_like_any_other() -> None:
    assert parse_branch_name("main") == MAIN


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", "/", "a/", "/a", "a//b", ".", "..", "../a", "a/../b", "a/./b"],
        *["a b", "a\nb", "a\0b", "größe", "日本", "a\\b", "a:b", "a?b", "a#b", "a%b", "a*b"],
        *["a@{b", "~a", "a^b", "$a", "a;b"],
    ],
)
def test_a_name_of_other_parts_is_refused_with_the_rule(text: str) -> None:
    with pytest.raises(InvalidNameError) as refusal:
        parse_branch_name(text)

    assert refusal.value.name == text
    assert refusal.value.kind == "branch"
    assert refusal.value.outcome is Outcome.UNCHANGED
    assert "in parts joined by single `/`" in str(refusal.value)


@pytest.mark.parametrize("text", ["a..b", "a/b..", "draft.lock", "a/b.lock"])
def test_a_name_that_lance_would_refuse_is_refused(text: str) -> None:
    with pytest.raises(InvalidNameError, match="as Lance wants it"):
        parse_branch_name(text)


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidNameError, match="more than 200 characters"):
        parse_branch_name("x" * 201)


@pytest.mark.parametrize(
    "name", ["__schema_apply_lock__", "__schema_apply_lock__/01ABC", "__tx__01ABC", "__tx__"]
)
def test_a_name_of_our_own_is_refused(name: str) -> None:
    with pytest.raises(InvalidNameError, match="an internal system ref"):
        parse_branch_name(name)


def test_only_a_transaction_names_its_own_branch() -> None:
    private = make_private_branch_name("01ABC", base=MAIN)

    assert str(parse_branch_name(private)) == str(private)
    assert is_internal_branch(private)
    with pytest.raises(InvalidNameError, match="an internal system ref"):
        parse_branch_name(str.__str__(private) + "")


@pytest.mark.parametrize("name", ["v1", "release/2.0", "a" * 80, "main", "01ABC"])
def test_a_name_of_allowed_parts_is_a_tag(name: str) -> None:
    assert parse_tag_name(f" {name} ") == name


@pytest.mark.parametrize("name", ["", "a b", "a//b", "x" * 81, "01ARZ3NDEKTSV4RRFFQ69G5FAV"])
def test_a_name_that_could_be_mistaken_is_no_tag(name: str) -> None:
    with pytest.raises(InvalidNameError) as refusal:
        parse_tag_name(name)

    assert refusal.value.kind == "tag"


def test_every_new_id_has_the_form_of_a_commit_id() -> None:
    assert all(is_commit_id_like(each) for each in SystemRuntime().new_ids(2_000))


@given(st.text(max_size=40) | st.text(alphabet="ab./-_ ", max_size=12))
def test_whatever_is_accepted_is_safe_as_a_relative_path(text: str) -> None:
    try:
        name = parse_branch_name(text)
    except InvalidNameError:
        return

    assert re.fullmatch(r"[A-Za-z0-9._/-]{1,200}", name, re.ASCII)
    assert not set(name.split("/")) & {"", ".", ".."}
    assert parse_branch_name(name) == name


@pytest.mark.parametrize(
    ("text", "expected"), [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)]
)
def test_fnv1a_gives_the_published_values(text: str, expected: int) -> None:
    assert fnv1a_32(text) == expected


def test_fnv1a_reads_utf_8() -> None:
    assert fnv1a_32("é") != fnv1a_32("e")


@pytest.mark.parametrize(
    ("name", "near"),
    [("nme", "name"), ("NAME", "name"), ("ages", "age"), ("zzz", None), ("", None)],
)
def test_the_near_name_is_the_one_that_was_meant(name: str, near: str | None) -> None:
    assert find_near_name(name, ["age", "email", "name"]) == near


def test_no_near_name_is_searched_among_thousands() -> None:
    assert find_near_name("n1", (f"n{number}" for number in range(5_000))) is None


def test_edge_names_fold_by_case() -> None:
    assert fold_edge_name("WorksAt") == fold_edge_name("wORKSAT")
