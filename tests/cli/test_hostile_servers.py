"""Hostile servers cannot harm their clients."""

import pytest

from tests.support.commands import Ended, invoke_command
from tests.support.scripted_servers import ScriptedServer, Turn, responds, scripted_server

# Clears the screen, sets the title of the window, and turns the direction of writing.
EVIL = "\x1b[2J\x1b]0;owned\x07\u202eevil\x9b1m"
SHOWN = r"\u001b[2J\u001b]0;owned\u0007\u202eevil\u009b1m"
TOKEN = "a-secret-token"


@pytest.mark.parametrize(
    ("arguments", "turn"),
    [
        (["branch", "list"], responds({"branches": ["main", EVIL]})),
        (["tag", "list"], responds({"tags": [{"name": EVIL, "commit_id": EVIL}]})),
        (["explain", "-e", "query a() {}"], responds({"plan": EVIL, "query_name": EVIL})),
        (["entity", "Person", "Ann"], responds({"entity": {EVIL: "x"}})),
    ],
    ids=lambda each: " ".join(each[:2]) if isinstance(each, list) else "",
)
def test_no_control_sequence_of_a_server_reaches_a_terminal(
    arguments: list[str], turn: Turn
) -> None:
    ended, _ = _run(*arguments, turns=[turn])

    assert ended.code == 0
    assert SHOWN in ended.out
    assert not _has_controls(ended.out)


@pytest.mark.parametrize(
    "turn",
    [
        responds({"error": EVIL, "code": "bad_request"}, status=400),
        responds({"error": EVIL, "code": EVIL}, status=400),
        responds({"error": EVIL, "error_type": "NotFoundError", "details": {}}, status=404),
        responds({"error": EVIL}, status=500),
        responds({"graphs": [{"graph_id": EVIL, "uri": EVIL}]}),
    ],
)
def test_no_error_of_a_server_is_interpreted_by_a_terminal(turn: Turn) -> None:
    ended, _ = _run("branch", "list", turns=[turn])

    assert ended.code == 1
    assert ended.out == ""
    assert not _has_controls(ended.err)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_token_is_not_taken_along_to_where_a_server_points(status: int) -> None:
    with scripted_server(responds({"branches": ["main"]})) as elsewhere:
        ended, requested = _run(
            "branch",
            "list",
            turns=[responds({}, status=status, Location=f"{elsewhere.url}/graphs/g/branches")],
        )

        assert elsewhere.received == []

    assert ended.code == 1
    assert requested.received[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in ended.out + ended.err


def _run(*arguments: str, turns: list[Turn]) -> tuple[Ended, ScriptedServer]:
    with scripted_server(*turns) as server:
        ended = invoke_command(
            *arguments,
            "--server",
            server.url,
            "--graph",
            "g",
            env={"OMNIGRAPH_BEARER_TOKEN": TOKEN},
        )
    return ended, server


def _has_controls(text: str) -> bool:
    return not text.replace("\n", "").isprintable()
