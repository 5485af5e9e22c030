"""The canonical form: one text for one meaning, recognized in any layout and by nothing else."""

import json

import pytest
from hypothesis import given

from omnigraph.compiler.schema.canonical import encode_schema, hash_schema, without_hints
from omnigraph.engine.state.schema_files import is_form_of
from tests.support.generated_schemas import schema_texts
from tests.support.schemas import compile_text

PERSON = "node Person { name: String @key  age: I32? }"


def test_the_canonical_form_is_the_published_one() -> None:
    encoded = encode_schema(compile_text(PERSON))

    assert encoded == (
        '{"ir_version":1,"interfaces":[],"nodes":[{"name":"Person","type_id":3227219152,'
        '"annotations":[],"implements":[],"properties":[{"name":"age","prop_id":3446138241,'
        '"prop_type":{"scalar":"I32","nullable":true,"list":false,"enum_values":null},'
        '"annotations":[]},{"name":"name","prop_id":1466009789,"prop_type":{"scalar":"String",'
        '"nullable":false,"list":false,"enum_values":null},"annotations":[{"name":"key",'
        '"value":null}]}],"constraints":[{"Key":["name"]}]}],"edges":[]}'
    )


def test_the_hash_is_the_published_one() -> None:
    assert hash_schema(compile_text(PERSON)) == (
        "sha256:bedadfc8d07923cce598f1ab8661e29dba9d5c43838f852fe5be7a1fd9ff55f1"
    )


def test_edges_interfaces_and_every_constraint_have_their_fields() -> None:
    catalog = compile_text(
        """
        interface Named { name: String }
        node A implements Named {
          v: Vector(3) @embed(name, model="m")
          kind: enum(b, a)?
          n: I32
          x: F64
          @range(n, 0..)  @range(x, ..1.5)  @check(name, "a\\\\d")  @index(n, name)
        }
        edge E: A -> A @card(1..2) @description("é") { tags: [String]  @unique(src, dst) }
        """
    )

    document = json.loads(encode_schema(catalog))

    (interface,), (node,), (edge,) = document["interfaces"], document["nodes"], document["edges"]
    assert list(interface) == ["name", "type_id", "properties"]
    assert node["implements"] == ["Named"]
    assert node["constraints"] == [
        {"Check": {"property": "name", "pattern": "a\\d"}},
        {"Index": ["n", "name"]},
        {"Range": {"property": "n", "min": {"Integer": 0}, "max": None}},
        {"Range": {"property": "x", "min": None, "max": {"Float": 1.5}}},
    ]
    assert [prop["prop_type"]["scalar"] for prop in node["properties"]] == [
        "String",
        "I32",
        "String",
        {"Vector": 3},
        "F64",
    ]
    assert node["properties"][0]["prop_type"]["enum_values"] == ["a", "b"]
    assert node["properties"][3]["annotations"] == [
        {"name": "embed", "value": "name", "kwargs": {"model": "m"}}
    ]
    assert list(edge) == [
        "name",
        "type_id",
        "annotations",
        "from_type",
        "to_type",
        "cardinality",
        "properties",
        "constraints",
    ]
    assert edge["cardinality"] == {"min": 1, "max": 2}
    assert edge["annotations"] == [{"name": "description", "value": "é"}]


@pytest.mark.parametrize(
    "same",
    [
        "node Person { age: I32?  name: String @key }",
        "// people\nnode Person {\n  name: String @key /* id */\n  age: I32 ?\n}\n",
        'node Person @rename_from("Human") { name: String @key @rename_from("title")  age: I32? }',
    ],
)
def test_order_layout_comments_and_hints_do_not_change_the_hash(same: str) -> None:
    assert hash_schema(compile_text(same)) == hash_schema(compile_text(PERSON))


@pytest.mark.parametrize(
    "other",
    [
        "node Person { name: String @key  age: I64? }",
        "node Person { name: String  age: I32?  @key(name) }",
        'node Person { name: String @key @description("x")  age: I32? }',
        "node Human { name: String @key  age: I32? }",
    ],
)
def test_another_meaning_has_another_hash(other: str) -> None:
    assert hash_schema(compile_text(other)) != hash_schema(compile_text(PERSON))


@given(schema_texts())
def test_a_schema_without_its_hints_has_the_same_form_and_no_others(text: str) -> None:
    catalog = compile_text(text)

    plain = without_hints(catalog)

    assert encode_schema(plain) == encode_schema(catalog)
    assert without_hints(plain) == plain
    stored = plain.stored_types()
    assert all(each.renamed_from is None for each in stored)
    assert all(prop.renamed_from is None for each in stored for prop in each.properties.values())


def test_the_layout_of_stored_json_does_not_matter() -> None:
    catalog = compile_text(PERSON)

    laid_out = json.dumps(json.loads(encode_schema(catalog)), indent=2, sort_keys=True)

    assert is_form_of(catalog, laid_out.encode())


DAMAGED = {
    "missing list": ('"interfaces":[]', '"interfaces":null'),
    "wrong number of a type": ('"type_id":', '"type_id":1'),
    "wrong number of a property": ('"prop_id":', '"prop_id":1'),
    "unknown scalar": ('"scalar":"I32"', '"scalar":"Int"'),
    "text for a truth value": ('"nullable":false', '"nullable":"no"'),
    "field too many": ('"implements":[]', '"implements":[],"more":1'),
    "field missing": ('"implements":[],', ""),
    "unknown constraint": ('"Index"', '"Primary"'),
    "bound without kind": ('{"Integer":0}', "0"),
    "float that is an integer": ('{"Integer":0}', '{"Float":0}'),
    "truth value for a number": ('"min":0', '"min":false'),
    "unsorted columns": ('["dst","src"]', '["src","dst"]'),
    "unsorted constraints": ('{"Index":["a"]},{"Index":["b"]}', '{"Index":["b"]},{"Index":["a"]}'),
    "number for a text": ('"from_type":"A"', '"from_type":3'),
    "arguments that are no mapping": ('"kwargs":{"k":"v"}', '"kwargs":[]'),
    "annotation without value": ('"value":"x",', ""),
}


@pytest.mark.parametrize(("intact", "damaged"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_form_is_not_recognized(intact: str, damaged: str) -> None:
    catalog = compile_text(
        """
        node A @note("x", k="v") { a: I32  b: I32  @index(a)  @index(b)  @range(a, 0..1) }
        edge E: A -> A { @unique(src, dst) }
        """
    )
    encoded = encode_schema(catalog)
    assert intact in encoded

    assert is_form_of(catalog, encoded.encode())
    assert not is_form_of(catalog, encoded.replace(intact, damaged).encode())


@pytest.mark.parametrize("text", ["", "[]", "nodes", '{"ir_version": 2}', "[" * 100_000])
def test_a_form_of_no_known_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        is_form_of(compile_text(PERSON), text.encode())
