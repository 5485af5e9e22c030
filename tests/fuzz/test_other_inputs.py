"""What the compiler is given besides texts: parameters, stored schemas, a schema to become."""

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.ir import Parameter
from omnigraph.compiler.lint import encode_report, lint_queries
from omnigraph.compiler.migration import plan_migration
from omnigraph.compiler.migration_steps import describe_step
from omnigraph.compiler.parameters import NumberReading, convert_parameters
from omnigraph.compiler.schema.canonical import encode_schema
from omnigraph.engine.state.schema_files import is_form_of
from omnigraph.errors import CompileError, InvalidValueError
from omnigraph.model.catalog import Catalog
from omnigraph.model.source import Source
from omnigraph.model.types import PropertyType, Scalar, Vector
from tests.support.choices import Choices
from tests.support.generated_queries import query_texts
from tests.support.generated_schemas import schema_texts
from tests.support.promises import compile_or_refuse
from tests.support.sources import QUERY_WORDS, edited_texts

CATALOG = compile_schema(
    Source("schema.pg", "node Person { name: String @key age: I32? } edge Knows: Person -> Person")
)

DECLARED = tuple(
    Parameter(f"p{number}", type)
    for number, type in enumerate(
        [
            *(PropertyType(scalar, is_nullable=True) for scalar in Scalar),
            *(PropertyType(scalar, is_nullable=True, is_list=True) for scalar in Scalar),
            PropertyType(Vector(2), is_nullable=True),
        ]
    )
)

NUMBERS = st.integers() | st.floats() | st.integers(-(2**70), 2**70) | st.integers(-9, 9)
JSON: SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text() | st.dates().map(str) | NUMBERS.map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(edited_texts(query_texts(CATALOG), QUERY_WORDS))
def test_any_text_can_be_linted(text: str) -> None:
    report = lint_queries(Source("edited.gq", text), CATALOG)

    encoded = encode_report(report, schema_source={}, query_path="edited.gq")
    assert json.dumps(encoded).encode()


@given(st.sampled_from(DECLARED), JSON, st.sampled_from(NumberReading))
def test_any_value_is_a_parameter_or_refused(
    declared: Parameter, value: object, numbers: NumberReading
) -> None:
    with suppress(InvalidValueError):
        converted = convert_parameters([declared], {declared.name: value}, numbers=numbers)

        assert converted.keys() == {declared.name}


@given(JSON)
def test_any_payload_is_parameters_or_refused(payload: object) -> None:
    with suppress(InvalidValueError):
        convert_parameters(DECLARED, payload, numbers=NumberReading.EXACT)


@st.composite
def tampered_schemas(draw: DrawFn) -> tuple[Catalog, str, str]:
    """A schema, its canonical form, and that form with another value at one place."""
    catalog = compile_schema(Source("valid.pg", draw(schema_texts())))
    document: object = json.loads(encode_schema(catalog))
    tampered = _tamper(document, Choices(draw), draw(JSON))
    return catalog, json.dumps(document, sort_keys=True), json.dumps(tampered, sort_keys=True)


@given(tampered_schemas())
def test_a_tampered_form_is_recognized_only_if_nothing_changed(
    given: tuple[Catalog, str, str],
) -> None:
    catalog, form, tampered = given

    with suppress(ValueError):
        assert is_form_of(catalog, tampered.encode()) == (tampered == form)


@given(schema_texts(), schema_texts())
def test_any_schema_can_be_planned_from_any_other_or_it_is_said_why_not(
    accepted: str, desired: str
) -> None:
    source = Source("desired.pg", desired)
    before, after = compile_schema(Source("accepted.pg", accepted)), compile_schema(source)

    plan = compile_or_refuse(
        lambda: plan_migration(before, after, source=source, allow_data_loss=False)
    )

    assert isinstance(plan, CompileError) or all(map(describe_step, plan.steps))


def _tamper(document: object, choices: Choices, replacement: object) -> object:
    match document:
        case dict() if document and choices.count(4):
            key = choices.one(list(document))
            return {**document, key: _tamper(document[key], choices, replacement)}
        case list() if document and choices.count(4):
            place = choices.count(len(document) - 1)
            changed = _tamper(document[place], choices, replacement)
            return [*document[:place], changed, *document[place + 1 :]]
        case _:
            return replacement
