"""Bundles: their valid contents, and the message for each mistake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.model.errors import InvalidValueError, LimitExceededError
from omnigraph.model.limits import POLICY_BYTES_MAX
from omnigraph.model.ports import Action
from omnigraph.policy.bundle import Bundle, BundleKind, Scope, TypeLimit, parse_action, parse_bundle
from tests.support.policies import TEAM, team_bundle


def test_a_bundle_holds_what_is_written() -> None:
    bundle = team_bundle()

    assert bundle.actors == {"andrew", "bruno", "ragnor"}
    assert bundle.protected_branches == {"main"}
    assert [rule.id for rule in bundle.rules] == [
        "everything",
        "look",
        "draft",
        "branch-out",
        "take-out",
    ]
    assert bundle.rules[2].branch_scope is Scope.UNPROTECTED
    assert bundle.rules[3].target_scope is Scope.UNPROTECTED
    assert bundle.rules[1].actions == {Action.READ}
    assert bundle.warnings == ()


def test_a_bundle_without_rules_is_one() -> None:
    bundle = _parse("version: 1")

    assert bundle.rules == ()
    assert bundle.actors == frozenset()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            "{id: b, allow: {actors: {group: team}, actions: []}}",
            "needs at least one action",
        ),
        ("{id: b, allow: {actors: {group: team}}}", "needs at least one action"),
        ("{id: b, allow: {actors: {group: tean}, actions: [read]}}", "did you mean 'team'"),
        ("{id: b, allow: {actors: {group: xy}, actions: [read]}}", "no group 'xy'; declare it"),
        ("{id: b, allow: {actors: {}, actions: [read]}}", "`group` is missing"),
        ("{id: b, allow: {actions: [read]}}", r"rules\[1\].allow.actors: expected fields"),
        ("{id: b, allow: {actors: {group: team}, actions: [raed]}}", "did you mean `read`"),
        ("{id: b, allow: {actors: {group: team}, actions: read}}", "expected a list"),
        ("{id: a, allow: {actors: {group: team}, actions: [read]}}", "another rule has the id 'a'"),
        ("{id: ' ', allow: {actors: {group: team}, actions: [read]}}", "a name is blank"),
        ("{allow: {actors: {group: team}, actions: [read]}}", "`id` is missing"),
        ("{id: 7, allow: {actors: {group: team}, actions: [read]}}", "7 is a number"),
        ("{id: b}", r"rules\[1\].allow: expected fields"),
        ("{id: b, alow: {}}", "did you mean `allow`"),
        ("[]", r"rules\[1\]: expected fields"),
        (
            "{id: b, allow: {actors: {group: team}, actions: [branch_merge], branch_scope: any}}",
            "`branch_merge` does not accept this scope",
        ),
        (
            "{id: b, allow: {actors: {group: team}, actions: [invoke_query], branch_scope: any}}",
            "`invoke_query` does not accept this scope",
        ),
        (
            "{id: b, allow: {actors: {group: team}, actions: [admin], target_branch_scope: any}}",
            "`admin` does not accept this scope",
        ),
        (
            "{id: b, allow: {actors: {group: team}, actions: [read], target_branch_scope: any}}",
            "`read` does not accept this scope",
        ),
        (
            "{id: b, allow: {actors: {group: team}, actions: [read], branch_scope: all}}",
            "'all' is unknown; write one of `any`, `protected`, `unprotected`",
        ),
        (
            "{id: b, allow: {actors: {group: team}, actions: [read], branch_scope: any,"
            " target_branch_scope: any}}",
            "split the rule",
        ),
        (
            "{id: b, allow: {actors: {group: team}, actions: [read], branch_scopes: any}}",
            "branch_scopes: unknown",
        ),
        (
            "{id: b, allow: {actors: {group: team}, actions: [graph_list, read]}}",
            "`graph_list` is server-scoped and `read` per-graph",
        ),
        ("{id: b, allow: {actors: {group: team}, actions: [graph_list]}}", "server-scoped"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(rule: str, message: str) -> None:
    text = f"""
version: 1
groups: {{team: [ann]}}
rules:
  - {{id: a, allow: {{actors: {{group: team}}, actions: [read]}}}}
  - {rule}
"""

    with pytest.raises(InvalidValueError, match=message):
        _parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 2", "2 is unknown; write `version: 1`"),
        ("version: true", "True is unknown"),
        ("version: '1'", "'1' is unknown"),
        ("groups: {}", "is missing; write `version: 1`"),
        ("version: 1\ngroups: {team: []}", "groups.team: a group has at least one actor"),
        ("version: 1\ngroups: {team: }", "a group has at least one actor"),
        ("version: 1\ngroups: {team: ['']}", r"groups.team\[0\]: a name is blank"),
        ("version: 1\ngroups: {' ': [ann]}", "a name is blank"),
        ("version: 1\ngroups: {team: [no]}", "False is true or false; expected a name"),
        ("version: 1\ngroups: {1: [ann]}", "the name 1 is a number"),
        ("version: 1\ngroups: {a: [x], 'a ': [y]}", "another group has this name"),
        ("version: 1\ngroups: [team]", "expected fields"),
        ('version: 1\ngroups: {team: ["a\\nb"]}', "contains unprintable characters"),
        ("version: 1\nprotected_branches: ['a b']", "invalid branch 'a b': it is made of"),
        ("version: 1\nprotected_branches: main", "expected a list, not a text"),
        ("version: 1\nprotected_branch: [main]", "did you mean `protected_branches`"),
        ("version: 1\nversion: 1", "line 2: `version` is repeated"),
        ("version: 1\ngroups: {a: [x], a: [y]}", "line 2: `groups.a` is repeated"),
        ("version: [", "line 1"),
        ("version: !!python/object:os.system 1", "line 1"),
        ("- version: 1", "expected fields"),
        ("", "expected fields, as `name: value`, not nothing"),
        ("[" * 5000, "nested too deeply"),
        ("version: 2020-99-99", "month must be in"),
        ("version: \x00", "unacceptable character"),
    ],
)
def test_a_file_that_is_not_a_bundle_is_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        _parse(text)


def test_all_mistakes_are_reported_at_once() -> None:
    text = """
version: 3
groups: {team: []}
rules:
  - {id: a, allow: {actors: {group: other}, actions: [fly]}}
"""

    with pytest.raises(InvalidValueError) as refused:
        _parse(text)

    message = str(refused.value)
    assert message.startswith("policy.yaml: ")
    assert all(each in message for each in ("version", "groups.team", "'other'", "'fly'"))


def test_a_bundle_names_what_it_ignores() -> None:
    bundle = _parse(f"version: 1\nkind: server\nrules: [{{id: a, note: x, allow: {_ALLOW}}}]")

    assert bundle.warnings == (
        "rules[0].note: unknown, and ignored",
        "kind: unknown, and ignored",
    )


def test_a_scope_without_effect_is_a_warning() -> None:
    allow = "{actors: {group: team}, actions: [change], branch_scope: unprotected}"

    bundle = _parse(f"version: 1\nrules: [{{id: a, allow: {allow}}}]")

    assert [each.partition(":")[0] for each in bundle.warnings] == ["protected_branches"]


def test_a_servers_bundle_has_no_rules_about_graphs() -> None:
    listing = f"version: 1\nrules: [{{id: a, allow: {_ALLOW.replace('read', 'graph_list')}}}]"

    bundle = parse_bundle(_GROUPS + listing, kind=BundleKind.SERVER, name="server.yaml")

    assert bundle.rules[0].actions == {Action.GRAPH_LIST}
    with pytest.raises(InvalidValueError, match="`read` is per-graph"):
        parse_bundle(
            _GROUPS + f"version: 1\nrules: [{{id: a, allow: {_ALLOW}}}]",
            kind=BundleKind.SERVER,
            name="server.yaml",
        )


def test_a_bundle_that_is_given_as_fields_needs_no_text() -> None:
    bundle = parse_bundle(
        {
            "version": 1,
            "groups": {"team": ["ann"]},
            "rules": [{"id": "a", "allow": {"actors": {"group": "team"}, "actions": ["read"]}}],
        },
        kind=BundleKind.GRAPH,
        name="policy",
    )

    assert bundle.rules[0].group == "team"


def test_a_rule_about_reads_may_show_parts_of_types() -> None:
    bundle = _parse_limits(
        "{Person: {where: ' age >= 18 ', hide: [salary]}, Secret: {where: none}}"
    )

    assert bundle.rules[0].limits == {
        "Person": TypeLimit(is_shown=True, where="age >= 18", hidden=frozenset({"salary"})),
        "Secret": TypeLimit(is_shown=False, where=None, hidden=frozenset()),
    }


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ("{}", "name a type, or remove the limits"),
        ("", "types: expected fields"),
        ("{Person: {}}", "types.Person: specify `where`, `hide` or both"),
        ("{Person: }", "types.Person: expected fields"),
        ("{Person: {where: 3}}", "3 is not a valid condition"),
        ("{Person: {where: }}", "None is not a valid condition"),
        ("{Person: {where: ' '}}", "' ' is not a valid condition"),
        ("{Person: {hide: []}}", "name a property, or remove `hide`"),
        ("{Person: {hide: salary}}", "expected a list"),
        (
            "{Person: {hide: [a], wehre: 'x = 1'}}",
            "wehre: unknown; the known fields are `where`,",
        ),
        ("{'': {hide: [a]}}", "a name is blank"),
    ],
)
def test_limits_that_cannot_be_meant_are_refused(types: str, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        _parse_limits(types)


def test_limits_are_for_reads_and_exports_only() -> None:
    allow = "{actors: {group: team}, actions: [read, change], types: {Person: {hide: [a]}}}"

    with pytest.raises(InvalidValueError, match=r"limits apply to .* only; .*`change`"):
        _parse(f"version: 1\nrules: [{{id: a, allow: {allow}}}]")


@pytest.mark.parametrize("text", ["schema-apply", "schema_apply", " schema-apply "])
def test_an_action_is_written_either_way(text: str) -> None:
    assert parse_action(text) is Action.SCHEMA_APPLY


def test_an_unknown_action_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="did you mean `schema_apply`"):
        parse_action("schema-aply")


def test_a_bundle_that_is_too_long_is_refused_unread() -> None:
    with pytest.raises(LimitExceededError):
        _parse("#" * (POLICY_BYTES_MAX + 1))


def test_a_text_that_refers_to_itself_over_and_over_is_refused_at_once() -> None:
    levels = "".join(f"  - &l{at + 1} [*l{at}, *l{at}, *l{at}, *l{at}]\n" for at in range(40))

    with pytest.raises(InvalidValueError, match=r"more than .* values"):
        _parse(f"extra:\n  - &l0 [x]\n{levels}version: *l40\n")


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_is_a_bundle_or_refused(text: str | bytes) -> None:
    _parse_or_refuse(text)


@given(st.data())
def test_a_bundle_with_a_line_changed_is_a_bundle_or_refused(choices: st.DataObject) -> None:
    lines = TEAM.splitlines()
    at = choices.draw(st.integers(0, len(lines) - 1))
    lines[at] = choices.draw(st.sampled_from(["", lines[at] * 2, "  x", "  - 1", *lines]))

    _parse_or_refuse("\n".join(lines))


_GROUPS = "groups: {team: [ann]}\n"
_ALLOW = "{actors: {group: team}, actions: [read]}"


def _parse(text: str) -> Bundle:
    groups = "" if "groups" in text or "rules" not in text else _GROUPS
    return parse_bundle(groups + text, kind=BundleKind.GRAPH, name="policy.yaml")


def _parse_limits(types: str) -> Bundle:
    allow = f"{{actors: {{group: team}}, actions: [read, export], types: {types}}}"
    return _parse(f"version: 1\nrules: [{{id: a, allow: {allow}}}]")


def _parse_or_refuse(text: str | bytes) -> None:
    try:
        bundle = parse_bundle(text, kind=BundleKind.GRAPH, name="policy.yaml")
    except InvalidValueError as refused:
        assert str(refused).startswith("policy.yaml: ")  # noqa: PT017  # either end is fine
    else:
        assert bundle.kind is BundleKind.GRAPH
