"""Options of reads and writes through Spark: what is understood, and refused with advice."""

import pytest

from omnigraph.engine.ops.load import LoadMode
from omnigraph.model.errors import InvalidValueError
from omnigraph.spark.connector.options import (
    GraphLocation,
    QueryOptions,
    ReadOptions,
    TypeOptions,
    WriteOptions,
    parse_read_options,
    parse_write_options,
)


def test_a_type_is_read_whole_from_main_unless_options_say_otherwise() -> None:
    parsed = parse_read_options({"uri": "/graph", "type": "Person"})

    wanted = TypeOptions("Person", columns=None, where=None)
    assert parsed == ReadOptions(
        GraphLocation("/graph", {}), wanted, branch=None, commit=None, is_read_only=False
    )


def test_the_letters_of_an_options_name_may_be_small_or_capital() -> None:
    parsed = parse_read_options({"URI": "/graph", "Type": "Person", "READONLY": "True"})

    assert (parsed.place.uri, parsed.is_read_only) == ("/graph", True)


def test_what_load_is_given_is_where_the_graph_is() -> None:
    parsed = parse_read_options({"path": "s3://bucket/graph", "type": "Person"})

    assert parsed.place == GraphLocation("s3://bucket/graph", {})


def test_storage_options_are_those_behind_a_prefix_and_are_not_shown() -> None:
    parsed = parse_read_options(
        {"uri": "s3://bucket/graph", "type": "Person", "storage.aws_secret_access_key": "hush"}
    )

    assert parsed.place.storage_options == {"aws_secret_access_key": "hush"}
    assert "hush" not in repr(parsed)


def test_columns_are_names_with_commas_between() -> None:
    parsed = parse_read_options(
        {"uri": "/graph", "type": "Person", "columns": "name , age", "where": "age > 3"}
    )

    assert parsed.request == TypeOptions("Person", ("name", "age"), "age > 3")


def test_a_query_has_parameters_as_json() -> None:
    parsed = parse_read_options(
        {"uri": "/graph", "query": "query q…", "name": "q", "params": '{"n": 3}', "commit": "c"}
    )

    assert parsed.request == QueryOptions("query q…", "q", {"n": 3})
    assert parsed.commit == "c"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"type": "Person"},
            'not given; name the location of the graph, as in .option("uri", "/data/',
        ),
        ({"uri": "/a", "path": "/b", "type": "Person"}, "give the location once"),
        ({"uri": "memory://a", "type": "Person"}, "visible to one process only"),
        ({"uri": "/a"}, 'not given; name what to read, as in .option("type", "Person")'),
        ({"uri": "/a", "type": "Person", "query": "q"}, "either a type or a query"),
        ({"uri": "/a", "type": "Person", "params": "{}"}, "an option of a query only"),
        ({"uri": "/a", "query": "q", "where": "age > 3"}, "an option of a type only"),
        ({"uri": "/a", "type": "Person", "colums": "x"}, "did you mean `columns`?"),
        ({"uri": "/a", "type": "Person", "zzz": "x"}, "options are branch, columns, commit"),
        ({"uri": "/a", "type": "Person", "branch": "b", "commit": "c"}, "not at both"),
        ({"uri": "/a", "type": "Person", "columns": "name,,age"}, "distinct names"),
        ({"uri": "/a", "type": "Person", "columns": "name,name"}, "distinct names"),
        ({"uri": "/a", "query": "q", "params": "{"}, "it is not valid JSON"),
        ({"uri": "/a", "query": "q", "params": "[1]"}, "must be a JSON object"),
        ({"uri": "/a", "type": "Person", "readOnly": "maybe"}, "neither true nor false"),
    ],
)
def test_options_that_cannot_be_followed_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidValueError, match="option '") as refused:
        parse_read_options(options)

    assert problem in str(refused.value)


def test_rows_are_appended_to_main_unless_options_say_otherwise() -> None:
    parsed = parse_write_options({"uri": "/graph", "type": "Person"}, is_overwrite=False)

    place = GraphLocation("/graph", {})
    assert parsed == WriteOptions(place, "Person", "main", LoadMode.APPEND, None, None)


def test_the_place_where_a_stream_notes_its_progress_is_no_business_of_ours() -> None:
    given = {"uri": "/graph", "type": "Person", "checkpointlocation": "/x", "queryid": "q"}

    assert parse_write_options(given, is_overwrite=False).query_id == "q"


@pytest.mark.parametrize(
    ("mode", "is_overwrite", "expected"),
    [
        ({}, True, LoadMode.OVERWRITE),
        ({"mode": "merge"}, False, LoadMode.MERGE),
        ({"mode": "append"}, False, LoadMode.APPEND),
        ({"mode": "overwrite"}, True, LoadMode.OVERWRITE),
    ],
)
def test_the_mode_of_spark_and_the_option_select_the_load_mode(
    mode: dict[str, str], expected: LoadMode, *, is_overwrite: bool
) -> None:
    given = {"uri": "/graph", "type": "Person", **mode}

    assert parse_write_options(given, is_overwrite=is_overwrite).mode is expected


@pytest.mark.parametrize(("mode", "is_overwrite"), [("merge", True), ("overwrite", False)])
def test_modes_that_contradict_each_other_are_refused(mode: str, *, is_overwrite: bool) -> None:
    given = {"uri": "/graph", "type": "Person", "mode": mode}

    with pytest.raises(InvalidValueError, match="excludes other modes"):
        parse_write_options(given, is_overwrite=is_overwrite)
