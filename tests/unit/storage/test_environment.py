"""What the environment says about S3, as options."""

import pytest

from omnigraph.storage.environment import make_storage_options

PLAIN, OTHER = "http://127.0.0.1:9000", "http://127.0.0.1:9001"
SAFE = "https://s3.example"


def test_nothing_is_said_where_the_libraries_know_enough() -> None:
    environment = {"AWS_REGION": "eu-central-1", "AWS_SECRET_ACCESS_KEY": "secret"}

    assert make_storage_options(environment, {}) == {}


@pytest.mark.parametrize(
    ("environment", "endpoint"),
    [
        ({"AWS_ENDPOINT_URL_S3": SAFE}, SAFE),
        ({"AWS_ENDPOINT_URL": SAFE}, SAFE),
        ({"AWS_ENDPOINT_URL": OTHER, "AWS_ENDPOINT_URL_S3": SAFE}, SAFE),
        ({"AWS_ENDPOINT_URL": SAFE, "AWS_ENDPOINT_URL_S3": "  "}, SAFE),
    ],
)
def test_an_endpoint_of_s3_goes_before_one_of_everything(
    environment: dict[str, str], endpoint: str
) -> None:
    assert make_storage_options(environment, {}) == {"aws_endpoint": endpoint}


@pytest.mark.parametrize(
    "environment",
    [
        {"AWS_ENDPOINT_URL_S3": PLAIN},
        {"AWS_ENDPOINT_URL": PLAIN.upper()},
        {"AWS_ENDPOINT": PLAIN},
        {"AWS_ALLOW_HTTP": "true"},
        {"AWS_ALLOW_HTTP": "1"},
        {"AWS_ALLOW_HTTP": "Yes"},
        {"AWS_ALLOW_HTTP": " on "},
    ],
)
def test_an_endpoint_without_tls_is_meant_as_it_is_written(environment: dict[str, str]) -> None:
    assert make_storage_options(environment, {})["allow_http"] == "true"


@pytest.mark.parametrize("no", ["", "0", "false", "no", "off"])
def test_a_value_other_than_yes_enables_nothing(no: str) -> None:
    environment = {"AWS_ALLOW_HTTP": no, "AWS_S3_FORCE_PATH_STYLE": no}

    assert make_storage_options(environment, {}) == {}


@pytest.mark.parametrize("yes", ["1", "true", "yes", "ON"])
def test_path_style_addresses_are_used_if_configured(yes: str) -> None:
    assert make_storage_options({"AWS_S3_FORCE_PATH_STYLE": yes}, {}) == {
        "aws_virtual_hosted_style_request": "false"
    }


@pytest.mark.parametrize(
    "given",
    [
        {"aws_endpoint": SAFE, "allow_http": "false"},
        {"endpoint_url": SAFE, "aws_allow_http": "false"},
        {"AWS_ENDPOINT_URL": SAFE, "ALLOW_HTTP": "false", "virtual_hosted_style_request": "true"},
    ],
)
def test_what_a_caller_says_wins(given: dict[str, str]) -> None:
    environment = {"AWS_ENDPOINT_URL_S3": PLAIN}

    assert make_storage_options(environment, given) == given


def test_an_endpoint_of_a_caller_is_meant_as_it_is_written_too() -> None:
    given = {"endpoint": PLAIN}

    assert make_storage_options({}, given) == {**given, "allow_http": "true"}
