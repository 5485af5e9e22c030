"""What is pushed down: conditions as Lance reads them, and columns as they are."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from omnigraph.engine.rows.conditions import ALWAYS, NEVER, find_predicate, fold_missing_columns
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import CompileError, InvalidValueError, NotFoundError
from omnigraph.spark.connector.reader import compile_condition, require_readable, select_columns
from omnigraph.spark.types import spark_schema
from omnigraph.storage.lance.predicates import render_predicate
from tests.support.schemas import compile_text

SCHEMA = """
node Person { name: String @key  age: I32?  score: F64?  tags: [String]?  photo: Blob? }
node Knows { word: String }
edge Knows: Person -> Person { since: Date? }
"""
CATALOG = compile_text(SCHEMA)
PERSON = CATALOG.nodes["Person"]
KNOWS = CATALOG.edges["Knows"]
NOW = datetime(2024, 6, 1, tzinfo=UTC)


def predicate(text: str, declared: NodeType | EdgeType = PERSON) -> str | None:
    condition = compile_condition(text, declared, catalog=CATALOG, now=NOW)
    return render_predicate(find_predicate(condition), pa.schema([]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age >= 18", "`age` >= 18"),
        ('name = "O\'Hara"', "`name` = 'O''Hara'"),
        ("age > 1.5", "`age` >= 2"),
        ("age in [1, 2] and name is not null", "`age` IN (1, 2) AND `name` IS NOT NULL"),
        ("age = 1 or (age = 2 and name is null)", "`age` = 1 OR `age` = 2 AND `name` IS NULL"),
        ("age > 3000000000", "false"),
    ],
)
def test_a_condition_becomes_a_predicate(text: str, expected: str) -> None:
    assert predicate(text) == expected


def test_the_ends_of_an_edge_are_called_as_in_mutations_and_stored_as_columns() -> None:
    assert predicate('from = "ann"', KNOWS) == "`src` = 'ann'"


def test_a_name_of_a_node_type_and_an_edge_type_resolves_to_the_one_that_is_read() -> None:
    assert predicate('to = "ann" and since is null', KNOWS) == "`dst` = 'ann' AND `since` IS NULL"
    assert predicate('word = "x"', CATALOG.nodes["Knows"]) == "`word` = 'x'"


@pytest.mark.parametrize("text", ["agee > 3", "age > ", 'age = "x"', "photo is null", ""])
def test_a_condition_that_cannot_be_compiled_is_refused(text: str) -> None:
    with pytest.raises(CompileError):
        predicate(text)


def test_more_than_one_condition_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="one condition and nothing else"):
        predicate("age > 3 delete Person where age > 4")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age > 3", NEVER),
        ("age is null", ALWAYS),
        ("age is not null", NEVER),
        ('name = "x" and age > 3', NEVER),
        ("age is null or score > 3", ALWAYS),
        ("age in [1] or score is not null", NEVER),
    ],
)
def test_columns_that_rows_lack_count_as_null(text: str, expected: object) -> None:
    condition = compile_condition(text, PERSON, catalog=CATALOG, now=NOW)

    assert fold_missing_columns(condition, stored={"id", "name"}) == expected


def test_what_is_known_of_other_columns_stays() -> None:
    condition = compile_condition(
        '(name = "x" or age > 3) and age is null', PERSON, catalog=CATALOG, now=NOW
    )

    known = find_predicate(fold_missing_columns(condition, stored={"name"}))
    assert render_predicate(known, pa.schema([])) == "`name` = 'x'"


def test_columns_come_in_the_requested_order() -> None:
    chosen = select_columns(spark_schema(PERSON), ["name", "age"])

    assert chosen == StructType().add("name", StringType(), nullable=False).add(
        "age", IntegerType()
    )


def test_an_unknown_column_is_refused_with_a_near_one() -> None:
    with pytest.raises(NotFoundError, match="column 'nmae' not found; did you mean `name`"):
        select_columns(spark_schema(PERSON), ["nmae"])


def test_a_given_schema_may_leave_columns_out_and_allow_null() -> None:
    wanted = StructType().add("age", IntegerType()).add("name", StringType())

    require_readable(wanted, spark_schema(PERSON))


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (StructType().add("age", LongType()), "it is int, not bigint"),
        (StructType().add("age", IntegerType(), nullable=False), "it is int, not int not null"),
    ],
)
def test_a_given_schema_with_other_types_is_refused(wanted: StructType, problem: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        require_readable(wanted, spark_schema(PERSON))

    assert problem in str(refused.value)
