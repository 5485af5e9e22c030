"""A case that shows a fault is taken apart until nothing more can go."""

from tests.support.generated_graphs import GeneratedRead
from tests.support.oracle_pipeline import TooManyRowsError
from tests.support.read_graphs import PlainGraph, plain_graph, run_oracle
from tests.support.shrinking import shrink

GRAPH = plain_graph(
    "node Person { name: String @key  age: I32?  city: String? }\n"
    "node Place { name: String @key }\n"
    "edge Knows: Person -> Person { since: I32? }\n"
    "edge At: Person -> Place {  }",
    {
        "Person": [{"name": "ann", "age": 7, "city": "Bern"}, {"name": "bob"}, {"name": "cid"}],
        "Place": [{"name": "here"}],
        "Knows": [{"src": "ann", "dst": "bob", "since": 3}, {"src": "bob", "dst": "cid"}],
        "At": [{"src": "cid", "dst": "here"}],
    },
)
READ = GeneratedRead(
    "query q($least: I32, $unused: Vector(2)) {\nmatch {\n  $p: Person\n  $p knows $f\n"
    "  optional {\n    $p.age >= $least\n    $f at $x\n  }\n}\n"
    "return { $p.name }\norder { $p.age }\nlimit 5\n}",
    {"least": 1, "unused": [0.0, 0.0]},
)


def test_what_does_not_matter_is_taken_away() -> None:
    def shows(graph: PlainGraph, read: GeneratedRead) -> bool:
        try:
            found = run_oracle(graph, read.text, read.params, rows_max=100)
        except TooManyRowsError:
            return False
        return ("ann",) in found.rows and "knows" in read.text

    graph, read = shrink(GRAPH, READ, shows)

    assert read.text == "query q() {\nmatch {\n  $p knows $f\n}\nreturn { $p.name }\n}"
    assert read.params == {}
    assert {name: len(rows) for name, rows in graph.rows_by_type.items()} == {
        "Person": 2,
        "Knows": 1,
    }
    assert graph.schema == ("node Person { name: String @key }\nedge Knows: Person -> Person {  }")
