"""Commands to type next."""

from omnigraph.cli.next_commands import write_command, write_options
from omnigraph.cli.targets import ServedTarget, StoreTarget


def test_a_command_names_its_graph_and_survives_a_shell() -> None:
    store, served = StoreTarget("/a b"), ServedTarget("http://h", "g", "secret")

    assert write_command("merge", "it's", target=store) == (
        "omnigraph merge 'it'\"'\"'s' --store '/a b'"
    )
    assert write_command("merge", "x", target=served) == (
        "omnigraph merge x --server http://h --graph g"
    )
    assert write_command("log", target=ServedTarget("http://h", None, None)) == (
        "omnigraph log --server http://h"
    )
    assert write_command("version", target=None) == "omnigraph version"


def test_options_without_a_value_are_left_out() -> None:
    assert write_options([("--a", "1"), ("--b", None)]) == ["--a", "1"]
