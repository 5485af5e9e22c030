"""The operator's configuration in use: defaults, profiles, credentials, and what is wrong in it."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omnigraph.cli.credentials import read_token, store_token
from omnigraph.cli.output import CommandError
from tests.support.commands import invoke_command, run_command, run_with_reply
from tests.support.graphs import social_graph

# Ten lines that stand for a thousand million values.
BOMB = (
    "a0: &a0 [x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
    + "operator: { actor: *a9 }\n"
)
PROFILES = """
servers:
  prod: { url: https://prod.example }
profiles:
  served: { server: prod, default_graph: brain }
  stored: { store: /srv/graph }
  torn: { server: prod, store: /srv/graph }
  empty: {}
"""


def test_the_default_store_is_used_where_nothing_is_typed(tmp_path: Path) -> None:
    social_graph(tmp_path / "graph").close()
    _configure(tmp_path, f"defaults: {{ store: {tmp_path / 'graph'} }}")

    ended = invoke_command("branch", "list", home=tmp_path)

    assert (ended.code, ended.out, ended.err) == (0, "main\n", "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("defaults: { server: a, store: b }", "has both `server` and `store`"),
        ("defaults: { store: b, default_graph: g }", "already a single graph"),
        ("defaults: { output: xml }", "could not parse operator config"),
        ("defaults: [", "could not parse operator config"),
        ("- a list", "could not parse operator config"),
        ("a: !!python/object:os.system {}", "could not parse operator config"),
        ("operator: { actor: 2026-13-45 }", "could not parse operator config"),
        ("operator: { actor: !!int abc }", "could not parse operator config"),
        ("operator: " + "[" * 5000, "could not parse operator config"),
        ("operator: " + "[" * 5000 + "]" * 5000, "could not parse operator config"),
        (BOMB, "could not parse operator config"),
    ],
)
def test_a_configuration_that_contradicts_itself_is_refused(
    text: str, problem: str, tmp_path: Path
) -> None:
    _configure(tmp_path, text)

    ended = invoke_command("profile", "list", home=tmp_path)

    assert (ended.code, ended.out) == (1, "")
    assert problem in ended.err
    assert str(tmp_path / "config.yaml") in ended.err


def test_a_configuration_that_is_not_a_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"operator: \xff")

    ended = invoke_command("profile", "list", home=tmp_path)

    assert ended.code == 1
    assert "could not read operator config" in ended.err


def test_each_unknown_key_is_reported_once_and_ignored(tmp_path: Path) -> None:
    _configure(tmp_path, "operator: { actor: ann, color: red }\nextra: 1\n")

    ended = invoke_command("profile", "show", "--json", home=tmp_path)

    assert ended.code == 0
    assert ended.fields["name"] == "(defaults)"
    warnings = ended.err.splitlines()
    assert [
        line for line in warnings if "unknown key `operator.color`" in line and "ignored" in line
    ]
    assert [line for line in warnings if "unknown key `extra`" in line]
    assert len(warnings) == 2


def test_profiles_are_listed_with_what_is_wrong_with_them(tmp_path: Path) -> None:
    _configure(tmp_path, PROFILES)

    ended = invoke_command(
        "profile", "list", "--json", home=tmp_path, env={"OMNIGRAPH_PROFILE": "stored"}
    )

    listed = ended.body
    assert isinstance(listed, list)
    assert listed[0] == {
        "name": "served",
        "binding": "server=prod",
        "scope_kind": "server",
        "target": "prod",
        "valid": True,
        "error": None,
        "default_graph": "brain",
        "active": False,
    }
    assert [(each["name"], each["scope_kind"], each["active"]) for each in listed] == [
        ("served", "server", False),
        ("stored", "store", True),
        ("torn", "invalid", False),
        ("empty", "invalid", False),
    ]
    assert [(each["valid"], each["target"]) for each in listed[2:]] == [(False, None)] * 2
    assert "binds 2 scopes" in listed[2]["error"]
    assert "has no target" in listed[3]["error"]


def test_profiles_are_listed_for_people_too(tmp_path: Path) -> None:
    _configure(tmp_path, PROFILES)

    ended = invoke_command("profile", "list", "--profile", "served", home=tmp_path)

    lines = ended.out.splitlines()
    assert lines[0] == "* served server=prod graph=brain"
    assert lines[1] == "  stored store=/srv/graph"
    assert lines[2].startswith("  torn invalid: profile 'torn' binds 2 scopes")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["served"],
            {
                "name": "served",
                "scope_kind": "server",
                "target": "prod",
                "endpoint": "https://prod.example",
                "default_graph": "brain",
                "output_format": "table",
            },
        ),
        (
            ["--profile", "stored"],
            {
                "name": "stored",
                "scope_kind": "store",
                "target": "/srv/graph",
                "endpoint": "/srv/graph",
                "default_graph": None,
                "output_format": "table",
            },
        ),
        (
            [],
            {
                "name": "(defaults)",
                "scope_kind": "server",
                "target": "prod",
                "endpoint": "https://prod.example",
                "default_graph": "d",
                "output_format": "table",
            },
        ),
    ],
)
def test_a_profile_shows_where_it_leads(
    arguments: list[str], expected: dict[str, object], tmp_path: Path
) -> None:
    _configure(tmp_path, f"{PROFILES}defaults: {{ server: prod, default_graph: d }}\n")

    ended = invoke_command("profile", "show", *arguments, "--json", home=tmp_path)

    assert (ended.code, ended.fields) == (0, expected)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("absent", "unknown profile 'absent'"),
        ("torn", "binds 2 scopes"),
        ("empty", "has no target"),
    ],
)
def test_a_profile_that_leads_nowhere_is_refused_when_used(
    name: str, problem: str, tmp_path: Path
) -> None:
    _configure(tmp_path, PROFILES)

    shown = invoke_command("profile", "show", name, home=tmp_path)
    used = invoke_command("branch", "list", "--profile", name, home=tmp_path)

    assert (shown.code, used.code) == (1, 1)
    assert problem in shown.err
    assert problem in used.err


def test_a_token_is_readable_by_its_owner_only_and_replaced(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    path = home / "credentials"

    first = run_command("login", "prod", home=home, stdin="first\nsecond line\n")
    other = invoke_command("login", "dev", "--token", "devs", home=home)
    again = invoke_command("login", "prod", "--token", "second", "--json", home=home)

    assert (first.code, other.code, again.code) == (0, 0, 0)
    assert again.fields == {"server": "prod", "credentials_path": str(path), "declared": False}
    assert path.read_text() == "[dev]\ntoken = devs\n\n[prod]\ntoken = second\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in home.iterdir()] == ["credentials"]
    assert "first" not in first.out + first.err


def test_login_reports_a_server_that_is_not_configured(tmp_path: Path) -> None:
    _configure(tmp_path, PROFILES)

    known = invoke_command("login", "prod", "--token", "t", "--json", home=tmp_path)
    unknown = invoke_command("login", "staging", "--token", "t", "--json", home=tmp_path)

    assert (known.fields["declared"], known.err) == (True, "")
    assert unknown.fields["declared"] is False
    assert "servers:" in unknown.err


@pytest.mark.parametrize("stdin", ["", "\n", "   \nsecret\n"])
def test_a_blank_token_is_refused(stdin: str, tmp_path: Path) -> None:
    ended = invoke_command("login", "prod", home=tmp_path, stdin=stdin)

    assert (ended.code, ended.out) == (1, "")
    assert "the token is empty" in ended.err
    assert not (tmp_path / "credentials").exists()


def test_a_token_typed_at_a_terminal_is_not_shown(tmp_path: Path) -> None:
    ended, echoed = run_with_reply(
        "login", "prod", prompt="Token of prod: ", reply="hidden-token", home=tmp_path
    )

    assert ended.code == 0
    assert "hidden-token" not in ended.out + ended.err + echoed
    assert "token = hidden-token" in (tmp_path / "credentials").read_text()


def test_logout_forgets_one_server_and_may_be_repeated(tmp_path: Path) -> None:
    for name in ("prod", "dev"):
        invoke_command("login", name, "--token", f"of-{name}", home=tmp_path)

    first = invoke_command("logout", "prod", "--json", home=tmp_path)
    again = invoke_command("logout", "prod", home=tmp_path)

    path = tmp_path / "credentials"
    assert first.fields == {"server": "prod", "credentials_path": str(path)}
    assert (first.code, again.code) == (0, 0)
    assert path.read_text() == "[dev]\ntoken = of-dev\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "arguments",
    [
        ["login", "prod", "--token", "new"],
        ["logout", "prod"],
        ["branch", "list", "--server", "prod", "--graph", "g"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_tokens_that_others_may_read_are_not_used(arguments: list[str], tmp_path: Path) -> None:
    _configure(tmp_path, PROFILES)
    invoke_command("login", "prod", "--token", "secret", home=tmp_path)
    path = tmp_path / "credentials"
    path.chmod(0o644)
    before = path.read_text()

    ended = invoke_command(*arguments, home=tmp_path)

    assert ended.code == 1
    assert f"chmod 600 {path}" in ended.err
    assert "secret" not in ended.err
    assert path.read_text() == before


def _configure(home: Path, text: str) -> None:
    (home / "config.yaml").write_text(text, encoding="utf-8")


def test_logins_at_the_same_time_lose_no_token(tmp_path: Path) -> None:
    names = [f"server{number}" for number in range(6)]

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: store_token(tmp_path / "credentials", name, name), names * 5))

    assert [read_token(tmp_path / "credentials", name) for name in names] == names


def test_a_token_is_stored_in_the_target_of_a_link(tmp_path: Path) -> None:
    target, linked = tmp_path / "kept", tmp_path / "credentials"
    linked.symlink_to(target)

    ended = invoke_command("login", "prod", home=tmp_path, stdin="secret\n")

    assert ended.code == 0
    assert linked.is_symlink()
    assert "secret" in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_token_that_is_not_a_text_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="nothing was stored"):
        store_token(tmp_path / "credentials", "prod", "\udcff")

    assert list(tmp_path.iterdir()) == []
