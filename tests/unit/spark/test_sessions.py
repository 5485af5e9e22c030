"""The settings of sessions on this machine."""

import pytest

from omnigraph.model.errors import InvalidValueError
from omnigraph.spark import session
from omnigraph.spark.sessions import local_settings

GIB = 1024 * 1024 * 1024


@pytest.mark.parametrize(
    ("memory_bytes", "heap"),
    [(2 * GIB, "1024m"), (8 * GIB, "2048m"), (256 * GIB, "4096m")],
    ids=["small", "usual", "large"],
)
def test_java_takes_a_quarter_of_the_memory_within_bounds(memory_bytes: int, heap: str) -> None:
    assert local_settings(cores=2, memory_bytes=memory_bytes)["spark.driver.memory"] == heap


def test_keys_are_parted_so_that_every_core_has_two_parts() -> None:
    settings = local_settings(cores=8, memory_bytes=8 * GIB)

    assert settings["spark.sql.shuffle.partitions"] == "16"


def test_a_session_on_this_machine_listens_to_this_machine_only() -> None:
    settings = local_settings(cores=2, memory_bytes=8 * GIB)

    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"


@pytest.mark.parametrize(
    ("name", "value"), [("driver.memory", "4g"), ("spark.driver.memory", None)]
)
def test_what_is_no_setting_of_spark_is_refused(name: str, value: str | None) -> None:
    with pytest.raises(InvalidValueError, match=name):
        session(**{name: value})


def test_a_session_has_a_master_or_a_server() -> None:
    with pytest.raises(InvalidValueError, match="not both"):
        session("local[2]", **{"spark.remote": "sc://localhost"})
