"""When something may be destroyed: on one's own disk, by consent, or after a question."""

import pytest

from omnigraph.cli.invocation import Consent, decide_consent, is_agreed
from omnigraph.cli.targets import ServedTarget, StoreTarget


@pytest.mark.parametrize(
    ("is_local", "is_yes", "is_json", "is_terminal", "expected"),
    [
        (True, False, True, False, Consent.GIVEN),
        (False, True, True, False, Consent.GIVEN),
        (False, False, False, True, Consent.PROMPT),
        (False, False, True, True, Consent.MISSING),
        (False, False, False, False, Consent.MISSING),
    ],
)
def test_a_confirmation_is_requested_only_at_a_terminal(
    *, is_local: bool, is_yes: bool, is_json: bool, is_terminal: bool, expected: Consent
) -> None:
    consent = decide_consent(
        is_local=is_local, is_yes=is_yes, is_json=is_json, is_terminal=is_terminal
    )

    assert consent is expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [("y\n", True), (" YES \n", True), ("n\n", False), ("\n", False), ("", False), ("yep", False)],
)
def test_only_a_plain_yes_is_agreement(reply: str, *, expected: bool) -> None:
    assert is_agreed(reply) is expected


@pytest.mark.parametrize(
    ("uri", "access"),
    [
        ("folder/graph", "direct, local"),
        ("/folder/graph", "direct, local"),
        ("file:///folder/graph", "direct, local"),
        ("s3://bucket/graph", "direct, remote"),
    ],
)
def test_storage_is_local_if_it_is_a_folder(uri: str, access: str) -> None:
    assert StoreTarget(uri).access == access


def test_a_graph_of_a_server_is_one_segment_of_its_url() -> None:
    target = ServedTarget(base_url="http://h:1", graph_id="a/b c", token="secret")

    assert target.uri == "http://h:1/graphs/a%2Fb%20c"
    assert target.access == "served"
    assert not target.is_local
    assert "secret" not in repr(target)
