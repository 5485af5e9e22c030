"""The schema over HTTP: showing, planning and applying it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.graphs import SOCIAL
from tests.support.served_graphs import G, head_of, require_refused
from tests.support.servers import open_server

WITH_CITY = SOCIAL.replace("age: I32?", "age: I32?  city: String?")
WITHOUT_AGE = SOCIAL.replace("  age: I32?", "")
WITH_TEXT_AGE = SOCIAL.replace("age: I32?", "age: String?")


@contextmanager
def fresh_client(folder: Path) -> Iterator[httpx.Client]:
    """A client of a separate server, for tests that change the schema."""
    with open_server(folder) as own, own.client(token=None) as opened:
        yield opened


def test_the_schema_is_shown_as_it_was_written(client: httpx.Client) -> None:  # case 52
    assert client.get(f"{G}/schema").json() == {"schema_source": SOCIAL}


def test_a_plan_lists_steps_and_changes_nothing(client: httpx.Client) -> None:
    head = head_of(client, "main")

    found = client.post(f"{G}/schema/plan", json={"schema_source": WITH_CITY}).json()

    assert found["uri"] == "/graphs/default"
    assert (found["supported"], found["step_count"]) == (True, 1)
    (step,) = found["steps"]
    assert step["kind"] == "add_property"
    assert (step["type_name"], step["property_name"]) == ("Person", "city")
    assert head_of(client, "main") == head


def test_a_plan_may_be_unsupported(client: httpx.Client) -> None:
    found = client.post(f"{G}/schema/plan", json={"schema_source": WITH_TEXT_AGE}).json()

    assert found["supported"] is False
    assert "unsupported_change" in [step["kind"] for step in found["steps"]]


@pytest.mark.parametrize(
    ("schema", "says"),
    [("node {", "error"), (WITH_TEXT_AGE, "type")],
    ids=["no-schema", "unsupported"],
)
def test_a_schema_that_cannot_be_applied_changes_nothing(
    client: httpx.Client, schema: str, says: str
) -> None:
    response = client.post(f"{G}/schema/apply", json={"schema_source": schema})

    require_refused(response, 400, code="bad_request", says=says)
    assert client.get(f"{G}/schema").json() == {"schema_source": SOCIAL}


def test_applying_the_accepted_schema_again_changes_nothing(client: httpx.Client) -> None:
    response = client.post(f"{G}/schema/apply", json={"schema_source": SOCIAL}).json()

    assert (response["applied"], response["step_count"], response["steps"]) == (False, 0, [])
    assert response["commit_id"] is None


def test_an_applied_schema_is_the_graphs(tmp_path: Path) -> None:
    with fresh_client(tmp_path) as client:
        response = client.post(f"{G}/schema/apply", json={"schema_source": WITH_CITY})

        snapshot = client.get(f"{G}/snapshot").json()
        assert response.json() == {
            "uri": "/graphs/default",
            "supported": True,
            "applied": True,
            "step_count": 1,
            "manifest_version": snapshot["manifest_version"],
            "steps": response.json()["steps"],
            "commit_id": snapshot["commit_id"],
        }
        assert client.get(f"{G}/schema").json() == {"schema_source": WITH_CITY}
        source = "query q() { match { $p: Person } return { $p.city } }"
        assert client.post(f"{G}/query", json={"query": source}).status_code == 200


def test_a_schema_change_that_loses_rows_needs_consent(tmp_path: Path) -> None:
    with fresh_client(tmp_path) as client:
        body = {"schema_source": WITHOUT_AGE}
        soft = client.post(f"{G}/schema/plan", json=body).json()
        hard = client.post(f"{G}/schema/plan", json={**body, "allow_data_loss": True}).json()

        applied = client.post(f"{G}/schema/apply", json={**body, "allow_data_loss": True})

        assert [step["mode"] for step in soft["steps"]] == ["soft"]
        assert [step["mode"] for step in hard["steps"]] == ["hard"]
        assert applied.json()["steps"] == hard["steps"]


def test_other_branches_block_a_schema_change_that_drops(tmp_path: Path) -> None:
    with fresh_client(tmp_path) as client:
        client.post(f"{G}/branches", json={"name": "other"})

        response = client.post(f"{G}/schema/apply", json={"schema_source": WITHOUT_AGE})

        require_refused(response, 409, code="conflict", says="other")
        assert client.get(f"{G}/schema").json() == {"schema_source": SOCIAL}
